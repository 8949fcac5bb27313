"""The security packages of RPC: pyspnego behind the port of waypost.rpc.authentication, for clients and servers.

NTLM and SPNEGO work everywhere; Kerberos needs the extra `kerberos` and the system's configuration of its realm. The
acceptors of a server are in waypost.daemon.rpc_acceptors.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import spnego
from spnego.iov import BufferType, IOVBuffer, IOVResBuffer

from waypost.errors import InvalidParameter
from waypost.rpc.authentication import (
    AuthLevel,
    AuthType,
    DomainAccount,
    Parts,
    SecurityContext,
    SecurityContextFailed,
)

_PROTOCOLS: Final = {AuthType.NTLM: "ntlm", AuthType.SPNEGO: "negotiate", AuthType.KERBEROS: "kerberos"}

# pyspnego's own NTLM and SPNEGO on every system, for the same behaviour everywhere.
_OPTIONS: Final = {
    AuthType.NTLM: spnego.NegotiateOptions.use_ntlm,
    AuthType.SPNEGO: spnego.NegotiateOptions.use_negotiate,
    AuthType.KERBEROS: spnego.NegotiateOptions.none,
}

# MS-RPCE 2.2.2.12 requires the DCE style. Each level uses a context that signs: SPNEGO signs its negotiation.
REQUIREMENTS: Final = (
    spnego.ContextReq.dce_style
    | spnego.ContextReq.mutual_auth
    | spnego.ContextReq.replay_detect
    | spnego.ContextReq.sequence_detect
    | spnego.ContextReq.integrity
)

# MS-NLMP 2.2.2.9.
_NTLM_SIGNATURE: Final = 16

# RFC 4121 4.2.4 and 4.2.6: extra bytes of the token of a sealed message in DCE style, compared to a signed one, with
# AES keys: a confounder, filler of a block, and a copy of the token's header.
_KERBEROS_SEAL: Final = 48

# Reads the account of the initiator from a complete context of an acceptor.
AccountOf: TypeAlias = Callable[[spnego.ContextProxy], DomainAccount | None]


def _unknown(_proxy: spnego.ContextProxy) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user of a client: DOMAIN\\user or user@REALM. Without a password, the user of the Kerberos cache."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)


def initiator(auth_type: AuthType, level: AuthLevel, host: str, credentials: Credentials) -> SecurityContext:
    """The client's side of an authentication with `host`. With Kerberos it waits for the server of the realm."""
    requirements = REQUIREMENTS
    if level is AuthLevel.PRIVACY:
        requirements |= spnego.ContextReq.confidentiality
    try:
        proxy = spnego.client(
            credentials.user,
            credentials.password,
            hostname=host,
            context_req=requirements,
            protocol=_PROTOCOLS[auth_type],
            options=_OPTIONS[auth_type],
        )
    except ImportError:
        raise InvalidParameter("Kerberos requires an extra: pip install 'waypost[kerberos]'") from None
    except Exception as error:  # noqa: BLE001, Kerberos asks its server now, with its own errors
        raise SecurityContextFailed(f"{_PROTOCOLS[auth_type]}: {error}") from None
    return Context(auth_type, proxy)


class Context:
    """A SecurityContext of pyspnego."""

    __slots__ = ("_account", "_account_of", "_is_complete", "_principal", "_proxy", "auth_type")

    def __init__(self, auth_type: AuthType, proxy: spnego.ContextProxy, account_of: AccountOf = _unknown) -> None:
        self.auth_type: Final = auth_type
        self._proxy: Final = proxy
        self._account_of: Final = account_of
        self._is_complete = False
        self._principal: str | None = None
        self._account: DomainAccount | None = None

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    @property
    def principal(self) -> str | None:
        return self._principal

    @property
    def account(self) -> DomainAccount | None:
        return self._account

    @property
    def _is_ntlm(self) -> bool:
        return self._proxy.negotiated_protocol == "ntlm"

    def step(self, token: bytes | None) -> bytes | None:
        if self._is_complete:
            raise SecurityContextFailed("the authentication is complete, but another token arrived")
        with self._guarded():
            answer = self._proxy.step(token)
            if self._proxy.complete:
                self._complete()
            return answer

    def _complete(self) -> None:
        # SPNEGO is complete when the other side says so; the inner package has sizes only when it is complete.
        self._proxy.query_message_sizes()
        self._principal = self._proxy.client_principal
        if self._proxy.usage == "accept" and not self._principal:
            raise SecurityContextFailed("the authentication is complete, but does not name the user")
        self._account = self._account_of(self._proxy)
        self._is_complete = True

    def signature_size(self, level: AuthLevel) -> int:
        if self._is_ntlm:
            return _NTLM_SIGNATURE
        sealed = self._proxy.query_message_sizes().header
        return sealed if level is AuthLevel.PRIVACY else sealed - _KERBEROS_SEAL

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        with self._guarded():
            self._demand(level)
            if level is AuthLevel.PRIVACY:
                buffers = self._proxy.wrap_iov(_buffers(parts, BufferType.header)).buffers
                body, token = _data(buffers, BufferType.data), _data(buffers, BufferType.header)
            else:
                body, token = parts.body, self._proxy.sign(self._signed(parts))
            if len(token) != self.signature_size(level):
                raise SecurityContextFailed(
                    f"the token must have {self.signature_size(level)} bytes, but has {len(token)}"
                )
            return body, token

    def unprotect(self, parts: Parts, auth_value: bytes, level: AuthLevel) -> bytes:
        with self._guarded():
            self._demand(level)
            size = self.signature_size(level)
            # MS-RPCE 2.2.2.11: a sender that has reserved more room than the token takes fills it with zeros.
            token = auth_value if any(auth_value[size:]) else auth_value[:size]
            if level is not AuthLevel.PRIVACY:
                self._proxy.verify(self._signed(parts), token)
                return parts.body
            result = self._proxy.unwrap_iov(_buffers(parts, IOVBuffer(BufferType.header, token)))
            if not result.encrypted:
                raise SecurityContextFailed("a fragment is not encrypted")
            return _data(result.buffers, BufferType.data)

    def _signed(self, parts: Parts) -> bytes:
        """The bytes that are signed at the levels that do not seal.

        NTLM signs the whole fragment, negotiated or not, as impacket does, which never negotiates it: MS-RPCE
        3.3.1.5.2.2 gives it header and sec_trailer as read-only buffers, and it signs these too.
        """
        return parts.header + parts.body + parts.trailer if parts.sign_header or self._is_ntlm else parts.body

    def _demand(self, level: AuthLevel) -> None:
        """Require signing: NTLM without it makes and accepts the same signature for everything."""
        wanted = spnego.ContextReq.integrity
        if level is AuthLevel.PRIVACY:
            wanted |= spnego.ContextReq.confidentiality
        if wanted & ~self._proxy.context_attr:
            raise SecurityContextFailed(f"the authentication does not support the level {level.name}")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except SecurityContextFailed:
            raise
        except Exception as error:  # noqa: BLE001, its parsers raise many kinds of errors
            raise SecurityContextFailed(f"{_PROTOCOLS[self.auth_type]}: {error}") from None


def _buffers(parts: Parts, token: IOVBuffer | BufferType) -> list[IOVBuffer | BufferType]:
    """MS-RPCE 3.3.1.5.2.2: the segments in their order, and the token, or only the type of a token to make."""
    beside = BufferType.sign_only if parts.sign_header else BufferType.data_readonly
    return [
        IOVBuffer(beside, parts.header),
        IOVBuffer(BufferType.data, parts.body),
        IOVBuffer(beside, parts.trailer),
        token,
    ]


def _data(buffers: Iterable[IOVResBuffer], kind: BufferType) -> bytes:
    return next(buffer.data or b"" for buffer in buffers if buffer.type == kind)
