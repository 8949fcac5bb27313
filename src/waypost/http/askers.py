"""Recognition of askers: the one place that turns a request into somebody.

Without users there is one person, the local administrator: a program that came through the Unix socket of the daemon,
that sent its token, or a browser with a session. Everybody is that person where access is open. Nobody else is anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest
from typing import Final

from waypost.api.asgi import NOBODY, PEER, Peer
from waypost.http.requests import Scope
from waypost.http.sessions import Sessions
from waypost.http.settings import HttpSettings

# The key of the scope of ASGI with the Asker of an admitted request, or None.
ASKER: Final = "waypost.asker"


class Way(Enum):
    """The way that somebody came in."""

    SOCKET = "socket"
    TOKEN = "token"
    SESSION = "session"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Asker:
    """The local administrator, by the way of the request."""

    way: Way


_SOCKET: Final = Asker(Way.SOCKET)
_TOKEN: Final = Asker(Way.TOKEN)
_SESSION: Final = Asker(Way.SESSION)
_OPEN: Final = Asker(Way.OPEN)


class Askers:
    """Recognition of requests."""

    __slots__ = ("_sessions", "_token", "cookie")

    def __init__(self, settings: HttpSettings, sessions: Sessions) -> None:
        self._token: Final = settings.token.encode("utf-8")
        self._sessions: Final = sessions
        self.cookie: Final = cookie_name(settings).encode("ascii")

    def asker(self, headers: Mapping[bytes, bytes], peer: Peer) -> Asker | None:
        """The sender of a request with these headers; None for a stranger."""
        if peer.is_local:
            return _SOCKET
        if not self._token:
            return _OPEN
        if self.has_token(headers.get(b"authorization", b"")):
            return _TOKEN
        cookies = headers.get(b"cookie")
        if cookies is not None and self._sessions.admits(self.session(cookies), peer.account):
            return _SESSION
        return None

    @property
    def is_open(self) -> bool:
        """Whether everybody is the local administrator."""
        return not self._token

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request has the token or a session, or needs none."""
        if not self._token:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            match name.lower():
                case b"authorization":
                    return self.has_token(value.strip())
                case b"cookie" if self._sessions.knows(self.session(value)):
                    return True
        return False

    def has_token(self, authorization: bytes) -> bool:
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token)

    def session(self, cookies: bytes) -> str:
        """The secret of a session in the value of a Cookie header, or ""."""
        for each in cookies.split(b";"):
            name, _, value = each.strip().partition(b"=")
            if name == self.cookie:
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
