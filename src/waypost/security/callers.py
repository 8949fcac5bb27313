"""Callers: the identity behind every operation, made once at the edge and carried by the operation to its check.

A caller has a SID, groups, a role for management, and an origin: the way by which it came. The queue manager has a SID
S-1-5-21-A-B-C, which its GUID decides; accounts of its user store have SIDs below it. Access checks use `sids`
(MS-DTYP 2.5.3.2).
"""

from dataclasses import dataclass, field
from hashlib import sha256
from struct import unpack
from typing import Final

from waypost.errors import AccessDenied
from waypost.roles import Role as Role
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, LOCAL_SYSTEM, Sid

# MS-DTYP 2.4.2.4: the account of the administrator, and the first number for other accounts.
ADMINISTRATOR_RID: Final = 500
FIRST_RID: Final = 1001

_NT_AUTHORITY: Final = 5
_ACCOUNTS: Final = 21

# MS-PAC 4.1.2.2: S-1-4 and S-1-10; S-1-5-21-X-Y-Z-R; S-1-5-9 and S-1-5-15; S-1-5-1000 and above.
_NON_UNIQUE_AUTHORITY: Final = 4
_PASSPORT_AUTHORITY: Final = 10
_ACCOUNT_SIZE: Final = 5
_SMALLEST_ACCOUNT: Final = 2
_DOMAIN_LOGONS: Final = (9, 15)
_FIRST_EXTENSIBLE: Final = 1000
# MS-DTYP 2.4.2.4, below S-1-5: groups and kinds of logon among the numbers of accounts.
_NO_ACCOUNTS: Final = (32, 33, 64, 65, 113, 114, 1000)
# S-1-15 to S-1-19: packages, integrity levels and other marks.
_MARKS: Final = range(15, 20)


@dataclass(frozen=True, slots=True)
class Proof:
    """The secret of a user of the store: the hash of its token, or of its password.

    Both are "" where the user has logged on in another way, such as NTLM.
    """

    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """One caller. `groups` are all its groups, with those that the kind of its logon gives. `sids` has its SID too.

    `origin` is a text such as "http 127.0.0.1", "unix uid 1000", "rpc ntlm 10.0.0.7" or "embedded". A user of the store
    has a `proof`: it is a caller only as long as the user and the proof exist (waypost.node.users).
    """

    sid: Sid
    groups: frozenset[Sid]
    role: Role
    name: str
    origin: str
    proof: Proof | None = field(default=None, repr=False)
    sids: frozenset[Sid] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sids", self.groups | {self.sid})

    @property
    def is_anonymous(self) -> bool:
        return self.sid == ANONYMOUS

    @property
    def is_administrator(self) -> bool:
        """Whether it is in the group of administrators."""
        return ADMINISTRATORS in self.groups


def check_role(caller: Caller, role: Role, what: str) -> None:
    """Raise AccessDenied for a caller without this role. `what` is what it asks for, behind "is required"."""
    if caller.role < role:
        refused = AccessDenied(
            f"the user {caller.name} has the role {caller.role.word}, but the role {role.word} is required {what}"
        )
        refused.add_note(f"an administrator can change the role: `waypost user set {caller.name} --role {role.word}`")
        raise refused


# The queue manager itself: timers, transfer, and everything else that no caller asked for.
QUEUE_MANAGER: Final = Caller(
    LOCAL_SYSTEM,
    frozenset({ADMINISTRATORS, EVERYONE, AUTHENTICATED_USERS}),
    Role.ADMIN,
    "queue manager",
    "queue manager",
)


def machine_sid(guid: bytes) -> Sid:
    """The SID of the queue manager with this GUID."""
    return Sid(_NT_AUTHORITY, (_ACCOUNTS, *unpack("<3I", sha256(b"waypost machine SID" + guid).digest()[:12])))


def account_sid(machine: Sid, rid: int) -> Sid:
    """The SID of an account of this queue manager."""
    return Sid(machine.identifier_authority, (*machine.sub_authority, rid))


def anonymous(origin: str, role: Role = Role.NONE) -> Caller:
    """A caller that has not said who it is. Everyone includes it."""
    return Caller(ANONYMOUS, frozenset({EVERYONE}), role, "anonymous", origin)


def verified(
    sid: Sid, groups: frozenset[Sid], role: Role, name: str, origin: str, *, proof: Proof | None = None
) -> Caller:
    """A user whose identity was verified. The role admin makes it a member of administrators."""
    given = {EVERYONE, AUTHENTICATED_USERS} if role < Role.ADMIN else {EVERYONE, AUTHENTICATED_USERS, ADMINISTRATORS}
    return Caller(sid, groups | given, role, name, origin, proof)


def may_enter(sid: Sid, machine: Sid) -> bool:
    """Whether a domain may say that a caller is this account, or in this group: MS-PAC 4.1.2.2, boundary Member.

    Accounts of this queue manager and groups that every computer decides about itself, such as administrators, do not
    come from a domain.
    """
    authority, numbers = sid.identifier_authority, sid.sub_authority
    if authority != _NT_AUTHORITY:
        # S-1-0 to S-1-3 and S-1-6 to S-1-9 do not pass.
        return authority == _NON_UNIQUE_AUTHORITY or authority >= _PASSPORT_AUTHORITY
    if not numbers:
        return False
    if numbers[0] == _ACCOUNTS:
        return len(numbers) == _ACCOUNT_SIZE and numbers[: len(machine.sub_authority)] != machine.sub_authority
    return numbers[0] in _DOMAIN_LOGONS or numbers[0] >= _FIRST_EXTENSIBLE


def may_be_account(sid: Sid) -> bool:
    """Whether a SID can be that of an account, or of a group of accounts in a domain or of a computer.

    Many callers have one of the other SIDs: Everyone, a kind of logon, a built-in group or a logon session.
    """
    authority, numbers = sid.identifier_authority, sid.sub_authority
    if len(numbers) < _SMALLEST_ACCOUNT:
        return False
    if authority != _NT_AUTHORITY:
        return (authority == _NON_UNIQUE_AUTHORITY or authority >= _PASSPORT_AUTHORITY) and authority not in _MARKS
    if numbers[0] == _ACCOUNTS:
        return len(numbers) == _ACCOUNT_SIZE
    return numbers[0] > _ACCOUNTS and numbers[0] not in _NO_ACCOUNTS


def local_administrator(machine: Sid, origin: str) -> Caller:
    """The local administrator of a queue manager with this SID: the account of its process."""
    return verified(account_sid(machine, ADMINISTRATOR_RID), frozenset(), Role.ADMIN, "administrator", origin)
