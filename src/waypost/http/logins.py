"""Tokens and passwords over HTTP: the token of the daemon, tokens of users, sessions of people, and Basic.

A password is checked in a thread, a few at a time, because that is slow on purpose; failures
are counted by address and by user, and after too many nobody is checked for a while. Only hashes of secrets are kept.
"""

import asyncio
import secrets
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from hmac import compare_digest
from typing import Final, TypeVar

from waypost.drive.passwords import is_password, token_hash
from waypost.errors import AccessDenied, TooManyLogins
from waypost.http.settings import HttpSettings
from waypost.limits import MAX_FAILED_LOGINS, MAX_HTTP_SESSIONS, MAX_LOGIN_CHECKS
from waypost.node.users import Users
from waypost.security.callers import Caller, Proof, Role, local_administrator
from waypost.store.user_records import UserRecord
from waypost.wire.sid import Sid

K = TypeVar("K")
V = TypeVar("V")

SESSION_SECONDS: Final = 12 * 3600.0
# Time that a Basic password is believed without another check.
_BASIC_SECONDS: Final = 300.0
# Time over which failures are counted, and after which they are forgotten.
_FAILURE_SECONDS: Final = 300.0
# Checks of passwords at the same time: each takes 32 MB.
_AT_ONCE: Final = 2
# Callers that are kept.
_CALLERS: Final = 1000
_WRONG: Final = "unknown user or wrong password"


@dataclass(frozen=True, slots=True)
class _Proof:
    """A verified password: the user, the hash that was checked, and the end."""

    name: str
    password: str
    end: float


class Logins:
    """The callers of one server."""

    __slots__ = (
        "_basic",
        "_callers",
        "_checks",
        "_clock",
        "_failures",
        "_key",
        "_sessions",
        "_token",
        "_users",
        "_version",
        "_waiting",
        "administrator",
        "cookie",
        "failed",
        "limited",
        "succeeded",
        "unknown",
    )

    def __init__(
        self, users: Users, machine: Sid, settings: HttpSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._users: Final = users
        self._clock = clock
        self._token: Final = settings.token.encode("utf-8")
        # The local administrators of each origin are one object.
        self.administrator: Final = lru_cache(_CALLERS)(partial(local_administrator, machine))
        port = next((each.port for each in settings.listeners if each.name == "http"), 0)
        # A name for each port, because browsers do not distinguish the ports of an address.
        self.cookie: Final = f"waypost_login_{port}"
        self._key: Final = secrets.token_bytes(32)
        self._sessions: Final[dict[bytes, _Proof]] = {}
        self._basic: Final[dict[bytes, _Proof]] = {}
        # Callers by secret and origin, for the present version of the users.
        self._callers: Final[dict[tuple[str, str], Caller]] = {}
        self._version = -1
        self._failures: Final[dict[str, tuple[int, float]]] = {}
        self._checks: Final = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        # Numbers of logins since the start.
        self.succeeded = 0
        self.failed = 0
        self.limited = 0
        # Number of requests of unknown callers since the start, by reason.
        self.unknown: Final[Counter[str]] = Counter()

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    @property
    def is_open(self) -> bool:
        """Whether everybody is the local administrator."""
        return not self._token and not self._users

    def authorized(self, authorization: bytes, origin: str) -> Caller | None:
        """The caller with this Authorization header; None if it is unknown, or a password that was not checked."""
        scheme, _, value = authorization.partition(b" ")
        match scheme.lower():
            case b"bearer":
                return self._bearer(value.strip(), origin)
            case b"basic":
                return self._proven(self._basic.get(self._digest(authorization)), origin)
        return None

    def logged_in(self, cookies: bytes, origin: str) -> Caller | None:
        """The caller with the cookie of a login, in the value of a Cookie header."""
        session = self._session(cookies)
        return self._proven(self._sessions.get(self._digest(session)), origin) if session else None

    def _bearer(self, token: bytes, origin: str) -> Caller | None:
        if self._token and compare_digest(token, self._token):
            return self.administrator(origin)
        if not self._users:
            return None
        digest = token_hash(token.decode("latin-1"))
        found = self._users.of_token(digest, time.time())
        return None if found is None else self._caller(found[0], Proof(token=digest), origin, found[1].role)

    def _proven(self, proof: _Proof | None, origin: str) -> Caller | None:
        if proof is None or proof.end <= self._clock():
            return None
        user = self._users.find(proof.name)
        # A new password ends what the old one began.
        if user is None or user.password != proof.password:
            return None
        return self._caller(user, Proof(password=user.password), origin, None)

    def _caller(self, user: UserRecord, proof: Proof, origin: str, role: int | None) -> Caller:
        if self._users.version != self._version or len(self._callers) >= _CALLERS:
            self._callers.clear()
            self._version = self._users.version
        secret = proof.token or user.name
        found = self._callers.get((secret, origin))
        if found is None:
            found = self._callers[secret, origin] = self._users.caller(
                user, origin, None if role is None else Role(role), proof
            )
        return found

    # Passwords.

    def credentials(self, headers: Mapping[bytes, bytes]) -> tuple[str, str] | None:
        """The name and the password of Basic authentication, if they were not checked yet."""
        authorization = headers.get(b"authorization", b"")
        scheme, _, value = authorization.partition(b" ")
        if scheme.lower() != b"basic" or self._proven(self._basic.get(self._digest(authorization)), "") is not None:
            return None
        try:
            name, _, password = b64decode(value.strip(), validate=True).decode("utf-8").partition(":")
        except (Base64Error, UnicodeDecodeError):
            return None
        return name, password

    async def check_basic(self, headers: Mapping[bytes, bytes], origin: str) -> None:
        """Check the password of a request, so that `caller` knows it. Raises TooManyLogins, and AccessDenied."""
        found = self.credentials(headers)
        if found is not None:
            proof = await self._check(*found, origin, _BASIC_SECONDS)
            _keep(self._basic, self._digest(headers[b"authorization"]), proof)

    async def open_session(self, name: str, password: str, origin: str) -> str:
        """The secret of a new session of a user. Raises TooManyLogins, and AccessDenied."""
        proof = await self._check(name, password, origin, SESSION_SECONDS)
        session = secrets.token_urlsafe(32)
        _keep(self._sessions, self._digest(session.encode("ascii")), proof)
        return session

    def close_session(self, headers: Mapping[bytes, bytes]) -> None:
        session = self._session(headers.get(b"cookie", b""))
        self._sessions.pop(self._digest(session), None)

    async def _check(self, name: str, password: str, origin: str, seconds: float) -> _Proof:
        self.check_limits(name, origin)
        if self._waiting >= MAX_LOGIN_CHECKS:
            self.limited += 1
            raise TooManyLogins("too many logins are in progress; retry later")
        self._waiting += 1
        try:
            async with self._checks:
                user = self._users.find(name)
                hashed = None if user is None else user.password
                is_right = await asyncio.get_running_loop().run_in_executor(None, is_password, password, hashed)
        finally:
            self._waiting -= 1
        if user is None or not is_right:
            self.fail(name, origin)
            raise AccessDenied(_WRONG)
        self.succeeded += 1
        self._failures.pop(_of_user(name), None)
        return _Proof(user.name, user.password, self._clock() + seconds)

    def check_limits(self, name: str, origin: str) -> None:
        """Raise TooManyLogins if too many passwords were wrong, for this user or from this address."""
        now = self._clock()
        for key in (_of_user(name), origin):
            count, since = self._failures.get(key, (0, now))
            if now - since >= _FAILURE_SECONDS:
                del self._failures[key]
            elif count >= MAX_FAILED_LOGINS:
                self.limited += 1
                seconds = int(since + _FAILURE_SECONDS - now) + 1
                raise TooManyLogins(f"too many failed logins; retry in {seconds} seconds")

    def fail(self, name: str, origin: str) -> None:
        """Count a wrong password."""
        self.failed += 1
        now = self._clock()
        for key in (_of_user(name), origin):
            count, since = self._failures.pop(key, (0, now))
            _keep(self._failures, key, (count + 1, since))

    def _session(self, cookies: bytes) -> bytes:
        """The secret of a session in the value of a Cookie header, or nothing."""
        wanted = self.cookie.encode("ascii")
        for each in cookies.split(b";"):
            name, _, value = each.strip().partition(b"=")
            if name == wanted:
                return value
        return b""

    def _digest(self, secret: bytes) -> bytes:
        """The time of a search says nothing about a secret if only hashes are compared."""
        return sha256(self._key + secret).digest()


def _of_user(name: str) -> str:
    return f"user {name.casefold()[:200]}"


def _keep(table: dict[K, V], key: K, value: V) -> None:
    """A table that is full forgets its oldest entry."""
    while len(table) >= MAX_HTTP_SESSIONS:
        del table[next(iter(table))]
    table[key] = value
