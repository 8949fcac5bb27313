"""The users of a queue manager, for programs that wait in threads. waypost.client.aio_users has them for asyncio."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import UNSET

from waypost.api.users import (
    AddUser,
    CreateToken,
    ListUsers,
    NewToken,
    RemoveToken,
    RemoveUser,
    RoleName,
    SetPassword,
    SetUser,
    ShowUser,
    UserInfo,
)


class Users:
    """The users of a manager, as returned by `Manager.users`. Most methods are only for administrators."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self._call: Final = call

    def add(
        self,
        name: str,
        *,
        role: RoleName = "none",
        sid: str | None = None,
        groups: Iterable[str] = (),
        ntlm: bool = False,
        password: str | None = None,
    ) -> UserInfo:
        """Add a user. A user without a password cannot log in, but can use tokens.

        role      role for management: "none", "read", "operate" or "admin"
        sid       SID of an account on another computer (default: a new SID of this computer)
        groups    names of groups, which are created if they do not exist, or SIDs
        ntlm      let the user log on to RPC with NTLM; requires a password
        """
        found: UserInfo = self._call(
            AddUser(
                name=name,
                role=role,
                sid=UNSET if sid is None else sid,
                groups=list(groups),
                ntlm=bool(ntlm),
                password=UNSET if password is None else password,
            )
        )
        return found

    def list(self) -> "list[UserInfo]":
        """The users, sorted by name."""
        return list(self._call(ListUsers()).users)

    def show(self, name: str) -> UserInfo:
        """The user with this name. Raises UserNotFound if the user does not exist."""
        found: UserInfo = self._call(ShowUser(name=name))
        return found

    def set(
        self,
        name: str,
        *,
        role: RoleName | None = None,
        groups: Iterable[str] | None = None,
        ntlm: bool | None = None,
        password: str | None = None,
    ) -> UserInfo:
        """Change a user.

        Arguments that are None leave their value unchanged. `ntlm=True` also requires the password.
        """
        found: UserInfo = self._call(
            SetUser(
                name=name,
                role=UNSET if role is None else role,
                groups=UNSET if groups is None else [*groups],
                ntlm=UNSET if ntlm is None else ntlm,
                password=UNSET if password is None else password,
            )
        )
        return found

    def set_password(self, name: str, password: str, *, current: str | None = None) -> None:
        """Change the password of a user.

        The sessions of the user end. Everyone except an administrator must also pass the `current` password.
        """
        self._call(SetPassword(name=name, password=password, current=UNSET if current is None else current))

    def remove(self, name: str, *, force: bool = False) -> None:
        """Remove a user, with the certificates of the user and the keys of these certificates.

        The tokens and sessions of the user end at once. Raises AccessDenied if no other known account could change the
        rights on a queue afterwards, unless `force` is true.
        """
        self._call(RemoveUser(name=name, force=force))

    def token(self, name: str, *, role: RoleName | None = None, expires_days: float | None = None) -> NewToken:
        """Create a token for a user. `token` of the result is the secret, which is shown once.

        role          role of the token, at most the role of the user (default: the role of the user)
        expires_days  days until the token expires (default: never)
        """
        found: NewToken = self._call(
            CreateToken(
                name=name,
                role=UNSET if role is None else role,
                expires_days=UNSET if expires_days is None else expires_days,
            )
        )
        return found

    def remove_token(self, name: str, id: str) -> None:  # noqa: A002, the name of the field
        """Remove the token with this id, or all tokens of the user if `id` is "all"."""
        self._call(RemoveToken(name=name, id=id))
