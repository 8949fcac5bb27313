"""Recognition of askers: the one place that turns a request into a caller.

A program that came through the Unix socket of the daemon, that sent its token, or a browser with a session from a link
is the local administrator, with users and without. Users come with their tokens, passwords and sessions
(waypost.http.logins). Everybody is the local administrator where access is open and no user exists.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from waypost.api.asgi import NOBODY, PEER, Peer
from waypost.http.logins import Logins
from waypost.http.requests import Scope
from waypost.http.sessions import Sessions
from waypost.http.settings import HttpSettings
from waypost.security.callers import Caller


class Way(Enum):
    """The way that somebody came in. TOKEN is any Authorization header, which no page can make a browser send."""

    SOCKET = "socket"
    TOKEN = "token"
    SESSION = "session"
    OPEN = "open"


class Asker(NamedTuple):
    """A caller, and the way of its request."""

    caller: Caller
    way: Way


class Askers:
    """Recognition of requests."""

    __slots__ = ("_cookie", "_sessions", "logins")

    def __init__(self, settings: HttpSettings, sessions: Sessions, logins: Logins) -> None:
        self._sessions: Final = sessions
        self.logins: Final = logins
        self._cookie: Final = cookie_name(settings).encode("ascii")

    def asker(self, headers: Mapping[bytes, bytes], peer: Peer) -> Asker | None:
        """The sender of a request with these headers; None for a stranger."""
        logins, origin = self.logins, peer.origin
        if logins.is_open:
            return Asker(logins.administrator(origin), Way.SOCKET if peer.is_local else Way.OPEN)
        authorization = headers.get(b"authorization")
        if authorization is not None:
            caller = logins.authorized(authorization, origin)
            if caller is not None:
                return Asker(caller, Way.TOKEN)
        if peer.is_local:
            return Asker(logins.administrator(origin), Way.SOCKET)
        cookies = headers.get(b"cookie")
        if cookies is None or authorization is not None:
            return None
        if self._sessions.admits(self._session(cookies), peer.account):
            return Asker(logins.administrator(origin), Way.SESSION)
        caller = logins.logged_in(cookies, origin)
        return None if caller is None else Asker(caller, Way.SESSION)

    @property
    def is_open(self) -> bool:
        """Whether everybody is the local administrator."""
        return self.logins.is_open

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request has a token or a session, or needs none."""
        if self.logins.is_open:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            match name.lower():
                case b"authorization":
                    return self.logins.authorized(value.strip(), "") is not None
                case b"cookie" if self._sessions.knows(self._session(value)) or self.logins.logged_in(value, ""):
                    return True
        return False

    def _session(self, cookies: bytes) -> str:
        """The secret of a session in the value of a Cookie header, or ""."""
        for each in cookies.split(b";"):
            name, _, value = each.strip().partition(b"=")
            if name == self._cookie:
                return value.decode("latin-1")
        return ""


def peer_of(scope: Scope) -> Peer:
    """The sender of a request, as its connection knows it."""
    found: Peer = (scope.get("extensions") or {}).get(PEER, {}).get(PEER, NOBODY)
    return found


def cookie_name(settings: HttpSettings) -> str:
    """A name for each port, because browsers do not tell the ports of an address apart."""
    port = next((each.port for each in settings.listeners if each.name == "http"), 0)
    return f"waypost_{port}"
