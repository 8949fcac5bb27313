"""A request and its answer, in JSON or MessagePack, on top of ASGI.

Content-Type says the form of the body, and Accept the form of the answer. A body is decoded directly into the structure
of its route, so that the data of a stranger never becomes any other object.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from waypost.api.asgi import CALLER
from waypost.api.records import Record, plain
from waypost.client.transports.http.schema import MESSAGEPACK
from waypost.errors import InvalidParameter
from waypost.security.callers import Caller

JSON: Final = b"application/json"
MESSAGE_PACK: Final = frozenset({b"application/msgpack", b"application/x-msgpack", b"application/vnd.msgpack"})

# Types of ASGI: the scope of a connection, events to and from the application, and the application.
Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_json: Final = msgspec.json.Encoder()
_message_pack: Final = msgspec.msgpack.Encoder()


class ClientGone(Exception):
    """The client hung up before its request was complete. Nobody waits for an answer."""


class Refused(Exception):
    """A request that HTTP itself refuses. Its text is a sentence for the client."""

    def __init__(self, status: HTTPStatus, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status: Final = status
        self.headers: Final = headers or {}


def media_types(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> list[bytes]:
    """The media types in a header, in lower case and without their parameters."""
    values = (value for name, value in headers if name == header)
    return [part.partition(b";")[0].strip().lower() for value in values for part in value.split(b",")]


class Request:
    """An HTTP request. `path` is percent-encoded, as the client sent it."""

    __slots__ = ("_max_body", "headers", "method", "path", "query", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, max_body: int) -> None:
        self._max_body: Final = max_body
        self.scope: Final = scope
        self.receive: Final = receive
        self.method: Final[str] = scope["method"]
        self.path: Final[str] = scope["path"]
        self.query: Final[bytes] = scope.get("query_string", b"")
        self.headers: Final[list[tuple[bytes, bytes]]] = scope["headers"]

    def header(self, name: bytes) -> str:
        """The first header of this name; "" if it is missing."""
        return next((value.decode("latin-1") for each, value in self.headers if each == name), "")

    @property
    def client(self) -> str:
        """The address of the client."""
        found = self.scope.get("client")
        return "a client" if found is None else str(found[0])

    @property
    def caller(self) -> Caller:
        """The caller that the guard has found."""
        found: Caller = self.scope[CALLER]
        return found

    @property
    def wants_message_pack(self) -> bool:
        return not MESSAGE_PACK.isdisjoint(media_types(self.headers, b"accept"))

    @property
    def has_message_pack(self) -> bool:
        return not MESSAGE_PACK.isdisjoint(media_types(self.headers, b"content-type"))

    async def body(self) -> bytes:
        """The whole body. Raises Refused if it is too large, and ClientGone."""
        parts: list[bytes] = []
        size = 0
        length = self.header(b"content-length")
        more = True
        if length.isdigit() and int(length) > self._max_body:
            raise _too_large()
        while more:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise ClientGone
            part = event.get("body", b"")
            size += len(part)
            if size > self._max_body:
                raise _too_large()
            parts.append(part)
            more = event.get("more_body", False)
        return b"".join(parts)


def _too_large() -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large; send fewer messages at once")


@dataclass(slots=True)
class Response:
    """A complete answer, as an ASGI application."""

    content: bytes
    status: int = HTTPStatus.OK
    media_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.media_type:
            headers.append((b"content-type", self.media_type.encode("latin-1")))
        if self.status != HTTPStatus.NO_CONTENT:
            headers.append((b"content-length", b"%d" % len(self.content)))
        await send({"type": "http.response.start", "status": int(self.status), "headers": headers})
        await send({"type": "http.response.body", "body": self.content})


def encoded(request: Request, content: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with this content, in JSON or MessagePack as the request accepts."""
    if request.wants_message_pack:
        # Times and bytes of a record are text, as in JSON.
        packed = plain(content) if isinstance(content, Record) else content
        return Response(_message_pack.encode(packed), status, MESSAGEPACK, headers or {})
    return Response(_json.encode(content), status, JSON.decode(), headers or {})


def refused_body(error: Exception) -> InvalidParameter:
    """The error for a body that does not decode."""
    return InvalidParameter(f"invalid request body: {error or type(error).__name__}")
