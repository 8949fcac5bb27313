"""The records of the tables USERS and AUDIT: accounts with the hashes of their secrets, and who changed what.

| table | key                                | value                                         |
|-------|------------------------------------|-----------------------------------------------|
| USERS | "user:", name in lower case        | UserRecord                                    |
|       | "group:", name in lower case       | GroupRecord                                   |
|       | "state"                            | UsersRecord                                   |
|       | "lost"                             | LostUsersRecord, after a salvage              |
| AUDIT | number u64, consecutive            | AuditRecord                                   |

A value is the version, and JSON. No secret is in it: a password is a scrypt hash, and an NT hash only for users that
may log on with NTLM, where it is as good as the password; a token is a SHA-256 hash of 256 random bits.
"""

from struct import Struct as Layout
from typing import ClassVar, Final, Self

import msgspec
from msgspec import Struct

from waypost.store.records import VERSION, bad, damaged

_NUMBER: Final = Layout(">Q")
USER_PREFIX: Final = b"user:"
GROUP_PREFIX: Final = b"group:"
STATE_KEY: Final = b"state"
LOST_KEY: Final = b"lost"


class _Json(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record in JSON."""

    what: ClassVar[str]

    @classmethod
    def decode(cls, value: bytes) -> Self:
        if not value or value[0] != VERSION:
            raise bad(value, cls.what)
        try:
            found = msgspec.json.decode(value[1:], type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise damaged(cls.what) from None
        if found.encode() != value:
            raise damaged(cls.what)
        return found

    def encode(self) -> bytes:
        return bytes([VERSION]) + msgspec.json.encode(self)


class TokenRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token: the first characters of its hash are its id. `role` is None for that of the user.

    `expires` is in seconds since 1970, or None.
    """

    hash: str
    role: int | None
    created: int
    expires: int | None

    @property
    def id(self) -> str:
        return self.hash[:12]


class UserRecord(_Json, frozen=True, kw_only=True):
    """A user. `groups` are names of groups, or SIDs. Without a `password` hash it cannot log in, but can use tokens."""

    what: ClassVar[str] = "user"

    name: str
    sid: str
    role: int
    groups: list[str]
    password: str
    nt_hash: str
    tokens: list[TokenRecord]
    created: int


class GroupRecord(_Json, frozen=True, kw_only=True):
    """A group of users."""

    what: ClassVar[str] = "group"

    name: str
    sid: str


class UsersRecord(_Json, frozen=True, kw_only=True):
    """The last number of an account, and the digest of the users file that was imported, or ""."""

    what: ClassVar[str] = "users"

    last_rid: int
    imported: str


class LostUsersRecord(_Json, frozen=True, kw_only=True):
    """The mark of a salvaged store whose users may be incomplete, with the known names of lost users and groups.

    A daemon does not start on it: without its users, a queue manager would let in callers that it never knew.
    """

    what: ClassVar[str] = "lost users"

    names: list[str]


class AuditRecord(_Json, frozen=True, kw_only=True):
    """An entry of the audit trail. `time` is in milliseconds since 1970."""

    what: ClassVar[str] = "audit"

    time: int
    who: str
    sid: str
    origin: str
    action: str
    object: str
    count: int
    result: str


def user_key(name: str) -> bytes:
    return USER_PREFIX + name.lower().encode("utf-8")


def group_key(name: str) -> bytes:
    return GROUP_PREFIX + name.lower().encode("utf-8")


def audit_key(number: int) -> bytes:
    return _NUMBER.pack(number)


def audit_number_of(key: bytes) -> int:
    number: int = _NUMBER.unpack(key)[0]
    return number
