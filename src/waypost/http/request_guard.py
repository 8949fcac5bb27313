"""Admission of requests: somebody must ask, and rules keep web pages in a browser from using this queue manager.

A page of another site can make a browser send requests here, and can make its own name resolve to 127.0.0.1. So the
guard refuses requests that the browser marks as from another site. A request with a body must be of the type JSON or
MessagePack, which a page cannot send without a preflight request. Without a token in the request, the server answers
only to its own names.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from waypost.api import defaults
from waypost.api.asgi import CALLER, Peer
from waypost.errors import AccessDenied, InvalidParameter, TooManyLogins, WaypostError
from waypost.http.askers import Askers, Way, peer_of
from waypost.http.links import PATH as LINK
from waypost.http.problems import UNAUTHORIZED_HEADERS, problem
from waypost.http.protocol import HeadAnswered, Headers, answering, malformed
from waypost.http.requests import JSON, MESSAGE_PACK, App, Receive, Request, Scope, Send, encoded, media_types
from waypost.http.settings import HttpSettings
from waypost.security.callers import Caller, Role, anonymous
from waypost.wire.ip_addresses import is_address

# Requests of load balancers, with no secrets in their answers.
OPEN: Final = frozenset({"/health/live", "/health/ready"})
# Pages for browsers that are not logged on: they say how to, and the code of a link is its secret.
_WITHOUT_SESSION: Final = frozenset({"/", LINK})
_METRICS: Final = "/metrics"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# People log in here.
LOGIN_PATH: Final = "/api/login"
_WITHOUT_LOGIN: Final = frozenset({LOGIN_PATH})
# The answer to a login that failed: from this origin, under this name.
RefuseLogin: TypeAlias = Callable[[str, str, WaypostError, Request], App]
# Notes the request of an unknown caller: from this origin, for this path, and the reason to refuse it.
Note: TypeAlias = Callable[[str, str, str], None]
# Labels of the metric.
NO_TOKEN: Final = "no_token"
WRONG_TOKEN: Final = "wrong_token"
_ELSEWHERE: Final = frozenset({b"cross-site", b"same-site"})


class RequestGuard:
    """An ASGI application in front of another. It leaves the path percent-encoded, because a NAME may contain a /."""

    __slots__ = ("_app", "_hosts", "_last_host", "_note", "_refuse_login", "_settings", "askers")

    def __init__(
        self, app: App, settings: HttpSettings, computer: str, askers: Askers, *, refuse_login: RefuseLogin, note: Note
    ) -> None:
        self._app: Final = app
        self._settings: Final = settings
        self._refuse_login: Final = refuse_login
        self._note: Final = note
        self.askers: Final = askers
        self._hosts: Final = {"localhost", computer.lower(), *(host.lower() for host in settings.hosts)}
        # The address in the last Host header, because most requests have the same.
        self._last_host: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        method, path = scope["method"], scope["raw_path"].partition(b"?")[0].decode("latin-1")
        peer = peer_of(scope)
        # uvicorn still needs to know that it was a HEAD. A HEAD for a link must not use it up: programs that show links
        # send some.
        scope = {**scope, "path": path, "method": "GET" if method == "HEAD" and path != LINK else method}
        if (failed := await self._check_password(scope, receive, peer)) is not None:
            await failed(scope, receive, answering(method, send))
            return
        admitted = self.admit(scope["method"], path, scope["headers"], scope["http_version"], peer)
        if isinstance(admitted, Caller):
            scope[CALLER] = admitted
            app = self._app
        else:
            if admitted[0] is HTTPStatus.UNAUTHORIZED:
                self._note_stranger(scope["headers"], path, peer)
            app = _refused(scope, receive, *admitted)
        try:
            await app(scope, receive, answering(method, send))
        except HeadAnswered:
            # The application has closed everything for it by now.
            await send({"type": "http.response.body", "body": b""})

    def admit(
        self, method: str, path: str, fields: Headers, version: str, peer: Peer
    ) -> Caller | tuple[HTTPStatus, WaypostError]:
        """The caller of a request, or the reason to refuse it."""
        if (sentence := malformed(version, fields)) is not None:
            return HTTPStatus.BAD_REQUEST, InvalidParameter(sentence)
        if path in OPEN:
            return anonymous(peer.origin)
        headers = dict(fields)
        asker = self.askers.asker(headers, peer)
        host = headers.get(b"host", b"").decode("latin-1")
        # Nobody else can make a browser send a token, and a browser cannot use the Unix socket.
        is_sure = asker is not None and asker.way in (Way.SOCKET, Way.TOKEN)
        is_open = path == _METRICS and self._settings.metrics_open
        if (self.askers.is_open or asker is not None or is_open) and not is_sure and not self._is_ours(host):
            sentence = f"{host[:80]!r} is not a name of this server; use its IP address, or add the name to http.hosts"
            return HTTPStatus.MISDIRECTED_REQUEST, AccessDenied(sentence)
        if method == "GET" and path in _WITHOUT_SESSION:
            return anonymous(peer.origin) if asker is None else asker.caller
        if _is_foreign(headers.get(b"origin"), host) or headers.get(b"sec-fetch-site") in _ELSEWHERE:
            return HTTPStatus.FORBIDDEN, AccessDenied("requests from pages of other sites are not allowed")
        if asker is not None:
            caller = asker.caller
        elif is_open:
            caller = anonymous(peer.origin, Role.READ)
        elif path in _WITHOUT_LOGIN:
            caller = anonymous(peer.origin)
        else:
            return HTTPStatus.UNAUTHORIZED, self._unknown(peer)
        if method in WITH_BODY and _has_body(headers) and not _is_for_us(fields):
            sentence = "Content-Type must be application/json or application/msgpack"
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, InvalidParameter(sentence)
        return caller

    async def _check_password(self, scope: Scope, receive: Receive, peer: Peer) -> App | None:
        """Check the password of a request with Basic authentication. Returns the answer to a wrong one."""
        headers, logins = dict(scope["headers"]), self.askers.logins
        found = logins.credentials(headers)
        if found is None or not logins.has_users:
            return None
        try:
            await logins.check_basic(headers, peer.origin)
        except (AccessDenied, TooManyLogins) as error:
            return self._refuse_login(peer.origin, found[0], error, Request(scope, receive, 0))
        return None

    def _unknown(self, peer: Peer) -> AccessDenied:
        """The refusal of a stranger. Programs on this computer learn the account of the daemon."""
        sentence = "the request requires a token, in the header Authorization: Bearer TOKEN"
        if self.askers.logins.has_users:
            sentence += ", or a login of a user, with POST /api/login or Basic"
        account, url = self._settings.account, self._settings.url
        if not peer.is_loopback or not account:
            return AccessDenied(sentence)
        refused = AccessDenied(f"{sentence}; the queue manager runs as the account {account}")
        command = f"sudo -u {account} waypost" + ("" if url in ("", defaults.URL) else f" --url {url}")
        refused.add_note(
            f"run commands as that account, as in `{command} status`, or set the environment variable WAYPOST_TOKEN to "
            f"the token that `{command} token` prints"
        )
        return refused

    def _note_stranger(self, fields: Headers, path: str, peer: Peer) -> None:
        """Count a request of an unknown caller, and note it in the log."""
        has_token = any(name == b"authorization" for name, _ in fields)
        self.askers.logins.unknown[WRONG_TOKEN if has_token else NO_TOKEN] += 1
        reason = "the token is unknown or has expired" if has_token else "the request has no token and no valid session"
        self._note(peer.origin, path, reason)

    def _is_ours(self, host: str) -> bool:
        """Whether a Host is ours. Any address is: nobody else can make an address lead here, but a name."""
        if host == self._last_host:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if not is_address(name):
            return name in self._hosts
        self._last_host = host
        return True


def _is_foreign(origin: bytes | None, host: str) -> bool:
    """Whether the request comes from a page of another server. Opaque origins are `null`."""
    if origin is None:
        return False
    _, _, authority = origin.decode("latin-1").partition("://")
    return authority.lower() != host.lower()


def _is_for_us(headers: Headers) -> bool:
    """Whether the body has one type, which a form in a page cannot send."""
    types = media_types(headers, b"content-type")
    return len(types) == 1 and (types[0] == JSON or types[0] in MESSAGE_PACK)


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _refused(scope: Scope, receive: Receive, status: HTTPStatus, error: WaypostError) -> App:
    headers = dict(UNAUTHORIZED_HEADERS) if status is HTTPStatus.UNAUTHORIZED else {}
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE):
        headers["connection"] = "close"
    return encoded(Request(scope, receive, 0), problem(error), status, headers)
