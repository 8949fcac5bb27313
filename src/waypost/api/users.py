"""Operations on users, and their replies. Passwords and tokens are in requests and answers only, never in a store.

A shell hashes the secrets of AddUser, SetUser, SetPassword and CreateToken off its thread, and hands the queue manager
the records of waypost.api.local.
"""

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from waypost.api.operation_rows import Owned
from waypost.api.operations import Operation, operation
from waypost.api.records import Record
from waypost.limits import MAX_PASSWORD, MAX_USER_NAME
from waypost.roles import Role

RoleName: TypeAlias = Literal["none", "read", "operate", "admin"]
# waypost.node.users has the same rule, in words.
NAME_PATTERN: Final = rf"^\w([\w.@$\\ -]{{0,{MAX_USER_NAME - 2}}}[\w.@$\\-])?$"
# In place of the id of a token.
ALL_TOKENS: Final = "all"
UserName = Annotated[
    str,
    Meta(
        description="Name of a user (not case-sensitive).",
        extra_json_schema={"pattern": NAME_PATTERN},
    ),
]
GroupName = Annotated[str, Meta(description="Name of a group.", extra_json_schema={"pattern": NAME_PATTERN})]
Password = Annotated[
    str,
    Meta(description="Password of the user.", extra_json_schema={"minLength": 1, "maxLength": MAX_PASSWORD}),
]
Days = Annotated[float, Meta(description="Days until the token expires (default: never).", gt=0)]


class TokenInfo(Record, frozen=True, kw_only=True):
    """A token of a user, without its secret. `expires` is null if the token does not expire."""

    id: str
    role: RoleName
    created: datetime
    expires: datetime | None


class UserInfo(Record, frozen=True, kw_only=True):
    """A user. `groups` lists groups by name or SID. `ntlm` is true if the user can log on to RPC with NTLM.

    A user without a password cannot log in, but can use tokens.
    """

    name: str
    sid: str
    role: RoleName
    groups: tuple[str, ...]
    ntlm: bool
    has_password: bool
    tokens: tuple[TokenInfo, ...]
    created: datetime


class UserList(Record, frozen=True):
    """The users, sorted by name."""

    users: tuple[UserInfo, ...]


class NewToken(Record, frozen=True, kw_only=True):
    """A new token. `token` is the secret, which is shown only once."""

    token: str
    id: str
    role: RoleName
    expires: datetime | None


class AuditEntry(Record, frozen=True, kw_only=True, rename={"origin": "from"}):
    """An entry of the audit trail. `result` is "ok", or the text of the error.

    `who` is the user. `origin`, which is named `from` in JSON, contains the kind and the address of the connection,
    such as "http 10.0.0.7". Each entry has a `number` that is one more than the number of the previous entry.
    """

    number: int
    time: datetime
    who: str
    sid: str
    origin: str
    what: str
    object: str
    count: int
    result: str


class AuditPage(Record, frozen=True):
    """Entries of the audit trail. The oldest entry comes first. `oldest` is the number of the oldest entry that still
    exists."""

    entries: tuple[AuditEntry, ...]
    oldest: int


@operation("POST /api/users", asks=Role.ADMIN, status=201)
class AddUser(Operation[UserInfo], frozen=True, kw_only=True):
    """Add a user. A user without a password cannot log in, but can use tokens.

    `sid` is the SID of an existing account, such as a domain account (default: a new SID of this computer). With
    `ntlm`, the user can log on to RPC with NTLM. `ntlm` requires a password. Groups that do not exist are created.
    """

    name: UserName
    role: RoleName = "none"
    sid: str | UnsetType = UNSET
    groups: list[GroupName] = []
    ntlm: bool = False
    password: Password | UnsetType = UNSET


@operation("GET /api/users", asks=Role.ADMIN)
class ListUsers(Operation[UserList], frozen=True, kw_only=True):
    """List the users."""


@operation("GET /api/users/{name}", asks=Role.ADMIN)
class ShowUser(Operation[UserInfo], frozen=True, kw_only=True):
    """Show a user."""

    name: UserName


@operation("PATCH /api/users/{name}", asks=Role.ADMIN)
class SetUser(Operation[UserInfo], frozen=True, kw_only=True):
    """Change a user. Properties that are not in the request stay unchanged.

    A new role takes effect immediately, even for existing tokens. To set `ntlm`, also send the `password`. NTLM
    requires a special hash of the password, which the queue manager stores only if `ntlm` is set.
    """

    name: UserName
    role: RoleName | UnsetType = UNSET
    groups: list[GroupName] | UnsetType = UNSET
    ntlm: bool | UnsetType = UNSET
    password: Password | UnsetType = UNSET


@operation("POST /api/users/{name}/password", asks=Owned.BY_CALLER, status=204, is_audited=True)
class SetPassword(Operation[None], frozen=True, kw_only=True):
    """Change the password of a user. All sessions of the user end.

    Administrators can omit `current`. All other callers can change only their own password, and must send their current
    password in `current`.
    """

    name: UserName
    password: Password
    current: str | UnsetType = UNSET


@operation("DELETE /api/users/{name}", asks=Role.ADMIN, status=204)
class RemoveUser(Operation[None], frozen=True, kw_only=True):
    """Remove a user, including the certificates of the user and the keys of these certificates.

    The tokens and sessions of the user become invalid immediately. Access lists keep the SID of the user. If no other
    known account could change the rights on a queue afterwards, the request is refused, unless `force` is true.
    """

    name: UserName
    force: bool = False


@operation("POST /api/users/{name}/token", asks=Role.ADMIN, status=201)
class CreateToken(Operation[NewToken], frozen=True, kw_only=True):
    """Create a token for a user. The answer contains the secret, which is shown only once.

    `role` must not be higher than the role of the user (default: the role of the user).
    """

    name: UserName
    role: RoleName | UnsetType = UNSET
    expires_days: Days | UnsetType = UNSET


@operation("DELETE /api/users/{name}/token", asks=Role.ADMIN, status=204)
class RemoveToken(Operation[None], frozen=True, kw_only=True):
    """Remove one token of a user, or all tokens of the user if `id` is `all`.

    Removed tokens become invalid immediately.
    """

    name: UserName
    id: Annotated[
        str,
        Meta(
            description="Id of the token, as listed in the `tokens` of the user, or `all`.",
            extra_json_schema={"minLength": 1},
        ),
    ]


@operation("GET /api/audit", asks=Role.ADMIN)
class ListAudit(Operation[AuditPage], frozen=True, kw_only=True):
    """List the last `limit` entries of the audit trail, or the first `limit` entries after the number `after`."""

    limit: Annotated[int, Meta(description="Number of entries, at most 10,000.", ge=1, le=10_000)] = 100
    after: Annotated[
        int,
        Meta(
            description="List the entries after the entry with this number, or the last entries if the number is -1.",
            ge=-1,
        ),
    ] = -1


# The queue manager handles some of them itself, and a shell prepares the others.
PREPARED: Final[tuple[type[Operation[object]], ...]] = (AddUser, SetUser, SetPassword, CreateToken)
USER_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    AddUser,
    ListUsers,
    ShowUser,
    SetUser,
    SetPassword,
    RemoveUser,
    CreateToken,
    RemoveToken,
    ListAudit,
)
