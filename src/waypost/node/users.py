"""The users of a queue manager: one store for HTTP, RPC and certificates.

Names of users and groups share one space, without upper and lower case, because an access list names both. A SID is
given once, also after its user was removed: entries in access lists stay as SIDs, and must not come to mean another.
"""

import re
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from msgspec.structs import replace

from waypost.api.excerpt import excerpt
from waypost.errors import DecodeError, InvalidParameter, LimitReached, NotLoggedIn, UserExists, UserNotFound
from waypost.limits import MAX_GROUPS_OF_USER, MAX_USER_NAME, MAX_USERS
from waypost.node import scans
from waypost.node.kernel import Kernel
from waypost.rpc.authentication import DomainAccount
from waypost.security.callers import (
    ADMINISTRATOR_RID,
    FIRST_RID,
    Caller,
    Proof,
    Role,
    account_sid,
    anonymous,
    may_be_account,
    may_enter,
    verified,
)
from waypost.store.port import Reader, Table
from waypost.store.user_records import (
    GROUP_PREFIX,
    LOST_KEY,
    STATE_KEY,
    GroupRecord,
    LostUsersRecord,
    TokenRecord,
    UserRecord,
    UsersRecord,
    group_key,
    user_key,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, NETWORK, Sid

# Names that are not users; administrators may be a group of a user.
WELL_KNOWN: Final[dict[str, Sid]] = {"everyone": EVERYONE, "anonymous": ANONYMOUS, "administrators": ADMINISTRATORS}
# The proof of a user whose protocol has checked it.
_LOGGED_ON: Final = Proof()
_ADMINISTRATORS: Final = "administrators"
# MS-DTYP 2.4.2.4: S-1-5-32 begins the SIDs of the groups that every computer has.
_NT_AUTHORITY: Final = 5
_ALIASES: Final = 32
_RESERVED: Final = frozenset({*WELL_KNOWN, "administrator", "queue manager"})
# The last number that a given SID of this queue manager may have. Larger ones remain for new accounts.
_LAST_GIVEN_RID: Final = 0x7FFF_FFFF
# DOMAIN\user is possible; characters that separate names in options, paths and Basic are not.
_NAME: Final = re.compile(r"[^\W][\w.@$\\ -]*")


class Users:
    """The users and groups. `version` grows with every change, for caches of what they decide.

    `changed` is called with every change, and each of `removed` with the SID of a user that is gone.
    """

    __slots__ = (
        "_by_sid",
        "_by_token",
        "_folded",
        "_groups",
        "_kernel",
        "_last",
        "_machine",
        "_state",
        "_users",
        "changed",
        "had_any",
        "lost",
        "removed",
        "version",
    )

    def __init__(self, kernel: Kernel, reader: Reader, machine: Sid) -> None:
        """Read the users. Raises StoreDamaged for a record that does not decode: then nobody can log on."""
        self._kernel: Final = kernel
        self._machine: Final = machine
        self._users: Final[dict[str, UserRecord]] = {}
        self._groups: Final[dict[str, GroupRecord]] = {}
        # Stores have names in lower case; some characters equal others only without case.
        self._folded: Final[dict[str, str]] = {}
        self._by_sid: Final[dict[Sid, str]] = {}
        self._by_token: Final[dict[str, tuple[UserRecord, TokenRecord]]] = {}
        self._state = UsersRecord(last_rid=FIRST_RID - 1, imported="")
        # Whether a user exists, or has existed since the start: then nobody is an administrator without a name.
        self.had_any = False
        # The mark of a salvage that may have lost users.
        self.lost: LostUsersRecord | None = None
        self.version = 0
        self.changed: Callable[[], None] = lambda: None
        self.removed: Final[list[Callable[[Sid], None]]] = []
        # The last caller that was looked for, the version of that time, the end of its token, and the caller of now.
        self._last: tuple[Caller | None, int, float, Caller | None] = None, 0, 0.0, None
        for key, value in scans.whole_table(reader, Table.USERS):
            if key == STATE_KEY:
                self._state = scans.decoded(Table.USERS, key, value, UsersRecord.decode)
            elif key == LOST_KEY:
                self.lost = scans.decoded(Table.USERS, key, value, LostUsersRecord.decode)
            elif key.startswith(GROUP_PREFIX):
                self._know_group(scans.decoded(Table.USERS, key, value, GroupRecord.decode))
            else:
                self._know(scans.decoded(Table.USERS, key, value, UserRecord.decode))

    def __bool__(self) -> bool:
        return bool(self._users)

    def __len__(self) -> int:
        return len(self._users)

    @property
    def imported(self) -> str:
        """The digest of the users file that was imported, or ""."""
        return self._state.imported

    def all(self) -> list[UserRecord]:
        """All users, sorted by name."""
        return [user for _, user in sorted(self._users.items())]

    def find(self, name: str) -> UserRecord | None:
        return self._users.get(self._key(name))

    def _key(self, name: str) -> str:
        """The key of a user or a group that has this name in any case, or a key that nobody has."""
        key = name.lower()
        return key if key in self._users or key in self._groups else self._folded.get(name.casefold(), key)

    def get(self, name: str) -> UserRecord:
        """The user with this name. Raises UserNotFound."""
        found = self.find(name)
        if found is None:
            raise UserNotFound(f"unknown user {excerpt(name)}")
        return found

    def of_token(self, digest: str, wall: float) -> tuple[UserRecord, TokenRecord] | None:
        """The user with the token that has this hash, unless it has expired."""
        found = self._by_token.get(digest)
        if found is None or (found[1].expires is not None and found[1].expires <= wall):
            return None
        return found

    def sid_of(self, name: str) -> Sid | None:
        """The SID of a user or a group, or of a well-known name; None for an unknown name."""
        if (known := WELL_KNOWN.get(name.lower())) is not None:
            return known
        key = self._key(name)
        found = self._users.get(key) or self._groups.get(key)
        return None if found is None else Sid.parse(found.sid)

    def name_of(self, sid: Sid) -> str | None:
        """The name of a user or a group."""
        return self._by_sid.get(sid)

    def of_sid(self, sid: Sid) -> UserRecord | None:
        """The user with this SID."""
        name = self._by_sid.get(sid)
        return None if name is None else self.find(name)

    def caller(
        self, user: UserRecord, origin: str, role: Role | None = None, proof: Proof = _LOGGED_ON
    ) -> Caller:  # fmt: skip
        """A verified user. `role` is that of its token, if it is lower."""
        most = Role(user.role)
        found = (self.sid_of(group) or _sid(group) for group in user.groups)
        groups = frozenset(sid for sid in found if sid is not None)
        least = most if role is None else min(role, most)
        return verified(Sid.parse(user.sid), groups, least, user.name, origin, proof=proof)

    def current(self, caller: Caller, wall: float) -> Caller:
        """The caller with its groups and its role of now. Raises NotLoggedIn if its user or its proof is gone."""
        if caller.proof is None:
            return caller
        last, version, end, found = self._last
        if last is not caller or version != self.version or wall >= end or found is None:
            end, found = self._found(caller, caller.proof, wall)
            self._last = caller, self.version, end, found
        return found

    def _found(self, caller: Caller, proof: Proof, wall: float) -> tuple[float, Caller]:
        """The end of the proof of a caller, and the caller as it is now."""
        user = self.of_sid(caller.sid)
        if user is None:
            raise NotLoggedIn(f"the user {caller.name} no longer exists")
        role, end = None, inf
        if proof.token:
            known = self.of_token(proof.token, wall)
            if known is None:
                raise NotLoggedIn(f"the token of {caller.name} is unknown or has expired")
            user, token = known
            role = None if token.role is None else Role(token.role)
            end = inf if token.expires is None else token.expires
        elif proof.password not in ("", user.password):
            raise NotLoggedIn(f"the password of {caller.name} was changed")
        found = self.caller(user, caller.origin, role, proof)
        return end, caller if (found.sids, found.role) == (caller.sids, caller.role) else found

    @property
    def has_logons(self) -> bool:
        """Whether any user may log on with NTLM."""
        return any(user.nt_hash for user in self._users.values())

    def logon(self, domain: str, name: str) -> UserRecord | None:
        """The user that may log on with NTLM under this name: DOMAIN\\user, or the user in any domain."""
        found = self.find(f"{domain}\\{name}") or self.find(name)
        return found if found is not None and found.nt_hash else None

    def remote_caller(self, name: str | None, origin: str) -> Caller:
        """The caller of a remote reader that has authenticated under this name; None has not."""
        if name is None:
            return anonymous(origin)
        user = self.find(name)
        if user is not None:
            return self.caller(user, origin)
        # An account of a domain without a known SID.
        groups = frozenset({EVERYONE, AUTHENTICATED_USERS, NETWORK})
        return Caller(AUTHENTICATED_USERS, groups, Role.NONE, name, origin)

    def domain_caller(self, account: DomainAccount, name: str, origin: str) -> Caller | None:
        """The caller with an account of a domain; None if a domain cannot have this account.

        A user with the SID of the account adds its groups and its role. The name does not matter: the domain can give
        it to another account.
        """
        if not may_enter(account.sid, self._machine):
            return None
        groups = frozenset(sid for sid in account.groups if may_enter(sid, self._machine)) | {NETWORK}
        user = self.of_sid(account.sid)
        if user is None:
            return verified(account.sid, groups, Role.NONE, name, origin)
        known = self.caller(user, origin)
        return verified(account.sid, groups | known.groups, known.role, known.name, origin)

    # Changes, in the current operation.

    def add(self, name: str, sid: str | None, role: Role, groups: Iterable[str], now: float) -> UserRecord:
        """Add a user without secrets. Raises UserExists, and InvalidParameter for a name or a SID."""
        if len(self._users) >= MAX_USERS:
            raise LimitReached(f"the limit of {MAX_USERS} users is reached")
        self._check_new(name)
        given = None if sid is None else _parsed(sid)
        if given is not None:
            self._check_given(given)
        names = self.checked_groups(name, groups, given)
        if given is not None:
            self._reserve(given)
        user = UserRecord(
            name=name,
            sid=str(self._new_sid() if given is None else given),
            role=int(role),
            groups=names,
            password="",
            nt_hash="",
            tokens=[],
            created=int(now),
        )
        self.put(user)
        return user

    def checked_groups(self, name: str, groups: Iterable[str], own: Sid | None = None) -> list[str]:
        """The names of the groups, which are created if they do not exist. Raises before anything has changed.

        `own` is the SID of a user that does not exist yet.
        """
        wanted: dict[str, str] = {}
        for group in groups:
            if text := group.strip():
                wanted.setdefault(self._group_key(name, text, own), text)
        if len(wanted) > MAX_GROUPS_OF_USER:
            raise InvalidParameter(f"a user can belong to at most {MAX_GROUPS_OF_USER} groups, not {len(wanted)}")
        names = []
        for key, text in wanted.items():
            if key == _ADMINISTRATORS:
                names.append(key)
            elif key not in self._groups and (sid := _sid(text)) is not None:
                self._reserve(sid)
                names.append(str(sid))
            else:
                names.append(self._group(key, text).name)
        return names

    def _group_key(self, name: str, group: str, own: Sid | None) -> str:
        """A key that is the same for all names of a group. Raises InvalidParameter for somebody who is not a group."""
        sid = _sid(group)
        if sid == ADMINISTRATORS or group.lower() == _ADMINISTRATORS:
            return _ADMINISTRATORS
        if sid is None:
            key = self._key(group)
            if key in self._users or group.casefold() == name.casefold():
                raise InvalidParameter(f"{excerpt(group)} is a user, not a group")
            if key not in self._groups:
                _check_name(group, "group")
                key = group.casefold()
            return key
        if (user := self.of_sid(sid)) is not None or sid == own:
            owner = name if user is None else user.name
            error = InvalidParameter(f"{sid} is the SID of the user {owner}, not of a group")
            error.add_note("make a group of which both users are members")
            raise error
        is_alias = sid.identifier_authority == _NT_AUTHORITY and sid.sub_authority[:-1] == (_ALIASES,)
        if not is_alias and not may_be_account(sid):
            error = InvalidParameter(f"{sid} is not the SID of a group that users can belong to")
            error.add_note(
                "specify the name of a group, or the SID of a group of a domain, such as S-1-5-21-1-2-3-1105"
            )
            raise error
        self._check_own(sid)
        known = self.name_of(sid)
        return str(sid) if known is None else self._key(known)

    def put(self, user: UserRecord) -> None:
        """Write a user."""
        before = self._users.get(user.name.lower())
        if before is not None:
            self._forget(before)
        self._know(user)
        self._kernel.messages.batch.put(Table.USERS, user_key(user.name), user.encode())
        self.version += 1
        self.changed()

    def remove(self, user: UserRecord) -> None:
        self._forget(user)
        # Stores of the past can have two accounts with one SID: the other one keeps it.
        for other in self._users.values():
            if other.sid == user.sid:
                self._by_sid[Sid.parse(other.sid)] = other.name
        self._kernel.messages.batch.delete(Table.USERS, user_key(user.name))
        self.version += 1
        self.changed()
        sid = Sid.parse(user.sid)
        if self.of_sid(sid) is None:
            for removed in self.removed:
                removed(sid)

    def shares_sid(self, user: UserRecord) -> bool:
        """Whether another user has the same SID, which is possible in stores of the past."""
        return any(other.sid == user.sid for other in self._users.values() if other is not user)

    def note_import(self, digest: str) -> None:
        self._write_state(replace(self._state, imported=digest))

    def _group(self, key: str, name: str) -> GroupRecord:
        found = self._groups.get(key)
        if found is None:
            found = GroupRecord(name=name, sid=str(self._new_sid()))
            self._know_group(found)
            self._kernel.messages.batch.put(Table.USERS, group_key(name), found.encode())
        return found

    def _new_sid(self) -> Sid:
        rid = self._state.last_rid + 1
        while account_sid(self._machine, rid) in self._by_sid:
            rid += 1
        self._write_state(replace(self._state, last_rid=rid))
        return account_sid(self._machine, rid)

    def _check_given(self, sid: Sid) -> None:
        """Raise UserExists for a SID that somebody has, and InvalidParameter for one that nobody may be given."""
        if sid in self._by_sid:
            raise UserExists(f"the SID {sid} already belongs to {self._by_sid[sid]}")
        # Members of a group would have the rights of the user.
        member = next((user for user in self._users.values() if str(sid) in user.groups), None)
        if member is not None:
            error = UserExists(f"the SID {sid} is already a group of {member.name}")
            error.add_note("specify the SID of an account, or omit the option for a new SID")
            raise error
        self._check_own(sid)

    def _check_own(self, sid: Sid) -> None:
        """Raise InvalidParameter for a SID of this queue manager that nobody may be given."""
        rid = self._own_rid(sid)
        if rid == ADMINISTRATOR_RID:
            raise InvalidParameter(f"{sid} is the SID of the local administrator; choose another SID")
        if rid is not None and not 0 < rid <= _LAST_GIVEN_RID:
            raise InvalidParameter(
                f"{sid} is a SID of this queue manager, so its last number must be 1 to {_LAST_GIVEN_RID}, not {rid}"
            )

    def _reserve(self, sid: Sid) -> None:
        """Never give a SID of this queue manager to a new account: somebody has it already."""
        rid = self._own_rid(sid)
        if rid is not None and rid > self._state.last_rid:
            self._write_state(replace(self._state, last_rid=rid))

    def _own_rid(self, sid: Sid) -> int | None:
        """The number of an account of this queue manager; None for another SID."""
        rid = sid.sub_authority[-1] if sid.sub_authority else 0
        return rid if sid == account_sid(self._machine, rid) else None

    def _write_state(self, state: UsersRecord) -> None:
        self._state = state
        self._kernel.messages.batch.put(Table.USERS, STATE_KEY, state.encode())

    def _check_new(self, name: str) -> None:
        _check_name(name, "user")
        key = self._key(name)
        if key in self._users:
            raise UserExists(f"the user {self._users[key].name} already exists")
        if key in self._groups:
            raise UserExists(f"{name} is a group; choose another name for the user")

    def _know(self, user: UserRecord) -> None:
        self.had_any = True
        self._users[user.name.lower()] = user
        self._folded[user.name.casefold()] = user.name.lower()
        self._by_sid[Sid.parse(user.sid)] = user.name
        for token in user.tokens:
            self._by_token[token.hash] = user, token

    def _know_group(self, group: GroupRecord) -> None:
        self._groups[group.name.lower()] = group
        self._folded[group.name.casefold()] = group.name.lower()
        self._by_sid[Sid.parse(group.sid)] = group.name

    def _forget(self, user: UserRecord) -> None:
        del self._users[user.name.lower()]
        self._folded.pop(user.name.casefold(), None)
        sid = Sid.parse(user.sid)
        if self._by_sid.get(sid) == user.name:
            del self._by_sid[sid]
        for token in user.tokens:
            del self._by_token[token.hash]


def _check_name(name: str, what: str) -> None:
    if not 0 < len(name) <= MAX_USER_NAME or not _NAME.fullmatch(name) or name != name.strip():
        raise InvalidParameter(
            f"invalid name {excerpt(name)} for a {what}: use up to {MAX_USER_NAME} letters, digits, '.', '_', '-', "
            "'@', '$', '\\' and spaces, and begin with a letter or digit"
        )
    if name.casefold() in _RESERVED or _sid(name) is not None:
        raise InvalidParameter(f"the name {excerpt(name)} is reserved; choose another name for the {what}")


def _sid(text: str) -> Sid | None:
    try:
        return Sid.parse(text)
    except DecodeError:
        return None


def _parsed(text: str) -> Sid:
    found = _sid(text)
    if found is None:
        raise InvalidParameter(f"{excerpt(text)} is not a SID, such as S-1-5-21-1-2-3-1001")
    if not may_be_account(found):
        error = InvalidParameter(f"{found} is not the SID of a user account")
        error.add_note("the SID of an account of a domain or computer has five numbers, such as S-1-5-21-1-2-3-1001")
        raise error
    return found
