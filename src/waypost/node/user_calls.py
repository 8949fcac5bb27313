"""The operations on users and the audit trail. Secrets have been hashed before they come here."""

from datetime import UTC, datetime
from typing import Final, get_args

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.excerpt import excerpt
from waypost.api.local import ImportUsers, Note, NoteStranger, StorePassword, StoreToken, StoreUser
from waypost.api.users import (
    ALL_TOKENS,
    AuditPage,
    ListAudit,
    ListUsers,
    NewToken,
    RemoveToken,
    RemoveUser,
    RoleName,
    ShowUser,
    TokenInfo,
    UserInfo,
    UserList,
)
from waypost.errors import AccessDenied, InvalidParameter, LimitReached, TokenNotFound
from waypost.limits import MAX_LOGGED_TEXT, MAX_TOKENS_OF_USER
from waypost.node.effects import RemoveCertificates
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.noted import OK, Noted
from waypost.node.permission_calls import grant_administrators
from waypost.security.callers import Caller, Role
from waypost.store.user_records import TokenRecord, UserRecord
from waypost.wire.sid import Sid

_DAY: Final = 86_400
_ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)
# The year 9999: a later end is not a date.
_LATEST: Final = 253_402_300_799


class UserCalls:
    """Operations on the users of one node."""

    __slots__ = ("_audit", "_kernel", "_node", "_users")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel
        self._users: Final = node.users
        self._audit: Final = node.audit

    def store(self, call: Call, operation: StoreUser) -> None:
        users = self._users
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            is_first = not users
            if operation.is_new:
                role = Role.NONE if operation.role is UNSET else _role(operation.role)
                sid = None if operation.sid is UNSET else operation.sid
                groups = () if operation.groups is UNSET else operation.groups
                user = users.add(operation.name, sid, role, groups, call.now.wall)
            else:
                user = users.get(operation.name)
                if operation.groups is not UNSET:
                    user = replace(user, groups=users.checked_groups(user.name, operation.groups))
                if operation.role is not UNSET:
                    user = replace(user, role=int(_role(operation.role)))
            if operation.password is not UNSET:
                user = replace(user, password=operation.password)
            if operation.nt_hash is not UNSET:
                user = replace(user, nt_hash=operation.nt_hash)
            users.put(user)
            if is_first:
                grant_administrators(self._node, call.now)
            self._kernel.reply(call.request, _info(user))

    def set_password(self, call: Call, operation: StorePassword) -> None:
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            caller = call.caller
            if caller.role < Role.ADMIN:
                own = self._users.of_sid(caller.sid)
                if own is None or self._users.find(operation.name) is not own:
                    refused = AccessDenied(
                        f"the user {caller.name} has the role {caller.role.word}, but the role admin is required to "
                        "set the password of another user"
                    )
                    refused.add_note(f"an administrator can set it: `waypost user passwd {excerpt(operation.name)}`")
                    raise refused
                self._check_own(caller, own, is_proven=operation.is_proven)
            user = self._users.get(operation.name)
            # Without an NT hash before, the user may not log on with NTLM.
            nt_hash = operation.nt_hash if user.nt_hash else ""
            self._users.put(replace(user, password=operation.password, nt_hash=nt_hash))
            self._kernel.reply(call.request)

    def _check_own(self, caller: Caller, own: UserRecord, *, is_proven: bool) -> None:
        """Raise AccessDenied unless a user who is not an administrator may set its own password.

        The first password needs no other, but a token with the whole role of the user, because a password has it.
        """
        if is_proven:
            return
        if own.password:
            refused = AccessDenied(f"the current password of {own.name} is wrong or missing")
            refused.add_note(
                "specify the current password (`waypost user passwd --current-file FILE`), or ask an administrator to "
                "set "
                "a new one"
            )
            raise refused
        if caller.role < Role(own.role):
            refused = AccessDenied(
                f"the token has the role {caller.role.word}, but {own.name} has the role {Role(own.role).word}, so the "
                "token cannot set the first password"
            )
            refused.add_note(f"use a token with the role of {own.name}, or ask an administrator to set the password")
            raise refused

    def list_users(self, call: Call, _: ListUsers) -> None:
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request, UserList(tuple(map(_info, self._users.all()))))

    def show(self, call: Call, operation: ShowUser) -> None:
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request, _info(self._users.get(operation.name)))

    def remove(self, call: Call, operation: RemoveUser) -> None:
        """Remove a user, and before it its certificates: else a crash could leave them with the right to send."""
        self._kernel.check_store()
        user = self._users.get(operation.name)
        sid = Sid.parse(user.sid)
        if not operation.force and not self._users.shares_sid(user):
            self._node.access.check_remains(sid, user.name)

        def removed(call: Call, _: object) -> None:
            self._users.remove(self._users.get(operation.name))
            self._kernel.reply(call.request)
            # Those that the user made meanwhile.
            self._kernel.ask_keys(RemoveCertificates(sid), lambda _result, _now: None)

        self._kernel.ask_keys_for(call, RemoveCertificates(sid), removed)

    def add_token(self, call: Call, operation: StoreToken) -> None:
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            user = self._users.get(operation.name)
            most = Role(user.role)
            role = None if operation.role is UNSET else _role(operation.role)
            if role is not None and role > most:
                raise InvalidParameter(
                    f"the role of a token must not exceed the role of its user: {user.name} has the role {most.word}, "
                    f"but the token would have the role {role.word}"
                )
            if len(user.tokens) >= MAX_TOKENS_OF_USER:
                raise LimitReached(
                    f"{user.name} has reached the limit of {MAX_TOKENS_OF_USER} tokens; remove some tokens"
                )
            token = TokenRecord(
                hash=operation.hash,
                role=None if role is None else int(role),
                created=int(call.now.wall),
                expires=_expiry(call.now.wall, operation.expires_days),
            )
            self._users.put(replace(user, tokens=[*user.tokens, token]))
            info = _token_info(token, user)
            self._kernel.reply(call.request, NewToken(token="", id=info.id, role=info.role, expires=info.expires))

    def remove_token(self, call: Call, operation: RemoveToken) -> None:
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            user = self._users.get(operation.name)
            kept = []
            if operation.id != ALL_TOKENS:
                kept = [token for token in user.tokens if token.id != operation.id]
                _check_token(user, operation.id, is_found=len(kept) < len(user.tokens))
            self._kernel.count(len(user.tokens) - len(kept))
            self._users.put(replace(user, tokens=kept))
            self._kernel.reply(call.request)

    def import_users(self, call: Call, operation: ImportUsers) -> None:
        with self._kernel.operation(call.now):
            is_first = not self._users
            new = [each for each in operation.users if self._users.sid_of(each[0]) is None]
            for name, password, nt_hash in new:
                user = self._users.add(name, None, Role.NONE, (), call.now.wall)
                self._users.put(replace(user, password=password, nt_hash=nt_hash))
            if is_first and new:
                grant_administrators(self._node, call.now)
            self._users.note_import(operation.digest)
            self._kernel.count(len(new))
            self._kernel.reply(call.request)

    def note(self, call: Call, operation: Note) -> None:
        """Note what a shell did. A flood of refusals is cut short."""
        with self._kernel.operation(call.now):
            if operation.result != OK:
                self._audit.denied += 1
                reason, caller = operation.result, call.caller
                self._kernel.notice(
                    "refused", who=caller.name, origin=caller.origin, what=operation.what, reason=reason
                )
            if operation.result == OK or self._audit.refused(call.now):
                noted = Noted(call.caller, operation.what, operation.object)
                noted.count, noted.result = operation.count, operation.result
                self._audit.note(noted)
            self._kernel.reply(call.request)

    def note_stranger(self, call: Call, operation: NoteStranger) -> None:
        with self._kernel.operation(call.now):
            path = operation.path[:MAX_LOGGED_TEXT]
            self._kernel.notice("request refused", origin=call.caller.origin, reason=operation.reason, path=path)
            self._kernel.reply(call.request)

    def list_audit(self, call: Call, operation: ListAudit) -> None:
        with self._kernel.operation(call.now):
            self._kernel.await_everything()
            entries = self._audit.entries(operation.limit, operation.after)
            self._kernel.reply(call.request, AuditPage(tuple(entries), self._audit.oldest))


def _role(word: RoleName) -> Role:
    return Role(_ROLES.index(word))


def _expiry(now: float, days: float | UnsetType) -> int | None:
    if days is UNSET:
        return None
    if not days > 0:
        raise InvalidParameter(f"the number of days until a token expires must be more than 0, not {days}")
    return int(min(now + days * _DAY, _LATEST))


def _check_token(user: UserRecord, identifier: str, *, is_found: bool) -> None:
    """Raise an error if this is not the id of a token of the user."""
    if not identifier:
        refused = InvalidParameter("the id of a token must not be empty")
        refused.add_note(f"specify the id of one token, or `{ALL_TOKENS}` to remove all tokens of the user")
        raise refused
    if not is_found:
        raise TokenNotFound(f"the user {user.name} does not have a token with the id {excerpt(identifier)}")


def _info(user: UserRecord) -> UserInfo:
    return UserInfo(
        name=user.name,
        sid=user.sid,
        role=_ROLES[user.role],
        groups=tuple(user.groups),
        ntlm=bool(user.nt_hash),
        has_password=bool(user.password),
        tokens=tuple(_token_info(token, user) for token in user.tokens),
        created=datetime.fromtimestamp(user.created, UTC),
    )


def _token_info(token: TokenRecord, user: UserRecord) -> TokenInfo:
    return TokenInfo(
        id=token.id,
        role=_ROLES[user.role if token.role is None else min(token.role, user.role)],
        created=datetime.fromtimestamp(token.created, UTC),
        expires=None if token.expires is None else datetime.fromtimestamp(token.expires, UTC),
    )
