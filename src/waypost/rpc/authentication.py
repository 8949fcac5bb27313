"""The port of security packages: MS-RPCE 2.2.1.1.7, 2.2.1.1.8 and 3.3.1.5.2.

A SecurityContext is one side of one authentication of one connection. It is built by passing tokens until it is
complete, and from then on protects and unprotects fragments. The packages themselves (NTLM, SPNEGO, Kerberos) are
behind the port, outside this layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, Protocol, TypeAlias, get_args

from waypost.errors import AuthenticationFailed
from waypost.hresult import HResult
from waypost.wire.sid import Sid


class AuthType(IntEnum):
    """MS-RPCE 2.2.1.1.7, those that are offered here."""

    NONE = 0
    SPNEGO = 9
    NTLM = 10
    KERBEROS = 16

    @property
    def has_odd_legs(self) -> bool:
        """MS-RPCE 2.2.1.1.7: the last token goes in an rpc_auth_3, which has no answer."""
        return self is AuthType.NTLM


class AuthLevel(IntEnum):
    """MS-RPCE 2.2.1.1.8. From one level to the next protection only grows."""

    NONE = 1
    CONNECT = 2
    CALL = 3
    PACKET = 4
    INTEGRITY = 5
    PRIVACY = 6

    @classmethod
    def of(cls, number: int) -> "AuthLevel | None":
        """The level that a sec_trailer means: 0 is CONNECT, and CALL is PACKET; None if it has no meaning."""
        if number == 0:
            return cls.CONNECT
        if number == cls.CALL:
            return cls.PACKET
        return cls(number) if cls.NONE <= number <= cls.PRIVACY else None


# The words for the levels that a program or a configuration can ask for.
Level: TypeAlias = Literal["none", "connect", "integrity", "privacy"]
LEVELS: Final[dict[str, AuthLevel]] = {word: AuthLevel[word.upper()] for word in get_args(Level)}


@dataclass(frozen=True, slots=True)
class DomainAccount:
    """The account of a caller as its domain has signed it in a Kerberos ticket, with its groups (MS-PAC 2.5)."""

    sid: Sid
    groups: frozenset[Sid]


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: `name` is DOMAIN\\user or a principal, and None for an anonymous one.

    `account` is None where the security package says no more than the name.
    """

    level: AuthLevel
    name: str | None
    address: str
    account: DomainAccount | None = None

    @classmethod
    def anonymous(cls, address: str) -> "Caller":
        return cls(AuthLevel.NONE, None, address)


class SecurityContextFailed(AuthenticationFailed):
    """The credentials, a token or the protection of a fragment are not right, says the security package."""

    hresult = HResult.MQ_ERROR_ACCESS_DENIED


@dataclass(frozen=True, slots=True)
class Parts:
    """MS-RPCE 2.2.2.1: the segments of a fragment that are protected together.

    `body` has the padding behind it. Without `sign_header` a package need not sign more than the body.
    """

    header: bytes
    body: bytes
    trailer: bytes
    sign_header: bool


class SecurityContext(Protocol):
    """One side of an authentication. Its methods raise AuthenticationFailed for whatever the other side does wrong."""

    @property
    def auth_type(self) -> AuthType: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def principal(self) -> str | None:
        """The initiator, once an acceptor is complete."""

    @property
    def account(self) -> DomainAccount | None:
        """The account of the initiator, if its domain has named it."""

    def step(self, token: bytes | None) -> bytes | None:
        """Takes a token of the other side (None: begin); the token that answers it, or None if there is none."""

    def signature_size(self, level: AuthLevel) -> int:
        """Size of the token of a fragment at this level of protection."""

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        """The body as it goes on the wire, and the token."""

    def unprotect(self, parts: Parts, auth_value: bytes, level: AuthLevel) -> bytes:
        """The body in clear, if the token is right."""


# A new context for one authentication, or None where the package is not offered.
Acceptors: TypeAlias = Callable[[AuthType], SecurityContext | None]
