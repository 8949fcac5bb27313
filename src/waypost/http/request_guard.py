"""Admission of requests: the token, and rules that keep web pages in a browser from using this queue manager.

A page of another site can make a browser send requests here, and can make its own name resolve to 127.0.0.1. So the
guard refuses requests that the browser marks as from another site. A request with a body must be of the type JSON or
MessagePack, which a page cannot send without a preflight request. Without a required token, the server answers only to
its own names.
"""

from hmac import compare_digest
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from waypost.errors import AccessDenied, InvalidParameter, WaypostError
from waypost.http.problems import problem
from waypost.http.protocol import HeadAnswered, Headers, answering, malformed
from waypost.http.requests import JSON, MESSAGE_PACK, App, Receive, Request, Scope, Send, encoded, media_types
from waypost.http.settings import HttpSettings
from waypost.wire.ip_addresses import is_address

# Requests of load balancers, with no secrets in their answers.
OPEN: Final = frozenset({"/health/live", "/health/ready"})
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_ELSEWHERE: Final = frozenset({b"cross-site", b"same-site"})


class RequestGuard:
    """An ASGI application in front of another. It leaves the path percent-encoded, because a NAME may contain a /."""

    __slots__ = ("_app", "_hosts", "_last_host", "_token")

    def __init__(self, app: App, settings: HttpSettings, computer: str) -> None:
        self._app: Final = app
        self._token: Final = settings.token.encode("utf-8")
        self._hosts: Final = {"localhost", computer.lower(), *(host.lower() for host in settings.hosts)}
        # The address in the last Host header, because most requests have the same.
        self._last_host: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        method, path = scope["method"], scope["raw_path"].partition(b"?")[0].decode("latin-1")
        # uvicorn still needs to know that it was a HEAD.
        scope = {**scope, "path": path, "method": "GET" if method == "HEAD" else method}
        refusal = self.refusal(scope["method"], path, scope["headers"], scope["http_version"])
        app = self._app if refusal is None else _refused(scope, receive, *refusal)
        try:
            await app(scope, receive, answering(method, send))
        except HeadAnswered:
            # The application has closed everything for it by now.
            await send({"type": "http.response.body", "body": b""})

    def refusal(
        self, method: str, path: str, fields: Headers, version: str
    ) -> tuple[HTTPStatus, WaypostError] | None:  # fmt: skip
        """The reason to refuse a request; None to admit it."""
        if (sentence := malformed(version, fields)) is not None:
            return HTTPStatus.BAD_REQUEST, InvalidParameter(sentence)
        if path in OPEN:
            return None
        headers = dict(fields)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._token and not self._is_ours(host):
            sentence = f"{host[:80]!r} is not a name of this server; use its IP address, or add the name to http.hosts"
            return HTTPStatus.MISDIRECTED_REQUEST, AccessDenied(sentence)
        if _is_foreign(headers.get(b"origin"), host) or headers.get(b"sec-fetch-site") in _ELSEWHERE:
            return HTTPStatus.FORBIDDEN, AccessDenied("requests from pages of other sites are not allowed")
        if self._token and not self._has_token(headers.get(b"authorization", b"")):
            return HTTPStatus.UNAUTHORIZED, AccessDenied(
                "the request requires a token, in the header Authorization: Bearer TOKEN"
            )
        if method in WITH_BODY and _has_body(headers) and not _is_for_us(fields):
            sentence = "Content-Type must be application/json or application/msgpack"
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, InvalidParameter(sentence)
        return None

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request has the token, or needs none."""
        if not self._token:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"authorization":
                return self._has_token(value.strip())
        return False

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

    def _has_token(self, authorization: bytes) -> bool:
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token)


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
    headers = {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = 'Bearer realm="waypost"'
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE):
        headers["connection"] = "close"
    return encoded(Request(scope, receive, 0), problem(error), status, headers)
