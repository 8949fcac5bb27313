"""Sessions of browsers: a one-time code in a link becomes a cookie.

Only hashes are kept, and only in memory: a restart ends all sessions. A browser sends the cookie of an address to every
port of it, also to a server of another account, so a session belongs to the account that opened the link: the cookie in
other hands is worth nothing. That works where the system names the account of a connection.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from waypost.limits import MAX_HTTP_SESSIONS

CODE_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 12 * 3600.0
_BYTES: Final = 32


class Sessions:
    """Codes that wait for a browser, and open sessions. A table that is full forgets its oldest entry."""

    __slots__ = ("_clock", "_codes", "_sessions")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        # Ends of codes and sessions by the hashes of their secrets, with the accounts of sessions.
        self._codes: Final[dict[bytes, float]] = {}
        self._sessions: Final[dict[bytes, tuple[float, int | None]]] = {}

    def new_code(self) -> str:
        """A code that opens one session, once, within CODE_SECONDS."""
        code = secrets.token_urlsafe(_BYTES)
        while len(self._codes) >= MAX_HTTP_SESSIONS:
            del self._codes[next(iter(self._codes))]
        self._codes[_hash(code)] = self._clock() + CODE_SECONDS
        return code

    def open(self, code: str, account: int | None) -> str | None:
        """The secret of a new session for the account, in exchange for a code; None for an invalid code."""
        end = self._codes.pop(_hash(code), None)
        if end is None or end <= self._clock():
            return None
        session = secrets.token_urlsafe(_BYTES)
        while len(self._sessions) >= MAX_HTTP_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_hash(session)] = self._clock() + SESSION_SECONDS, account
        return session

    def knows(self, session: str) -> bool:
        """Whether this is the secret of an open session, whoever has it."""
        end, _ = self._sessions.get(_hash(session), (0.0, None))
        return end > self._clock()

    def admits(self, session: str, account: Callable[[], int | None]) -> bool:
        """Whether this is the secret of an open session, in the hands of its account."""
        return self.knows(session) and self._sessions[_hash(session)][1] == account()


def _hash(secret: str) -> bytes:
    """The time of a search says nothing about a secret if only hashes are compared."""
    return sha256(secret.encode("utf-8", "replace")).digest()
