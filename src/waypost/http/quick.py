"""The requests that come by the thousand, without the way through the framework: sends, receives and commits.

They are the same operations, on the same structures, as the handlers with these paths in sending, reading and handles,
which the schema documents; only MessagePack without a query goes this way. It saves half of what a single request
costs.
"""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import MediaType

from waypost.client.remote.schema import Read, Send
from waypost.errors import InvalidParameter, WaypostError
from waypost.http.media import MESSAGE_PACK
from waypost.http.parameters import decoded
from waypost.http.problems import problem, status_of
from waypost.http.reading import received
from waypost.http.sending import sent
from waypost.http.service import Service

App = Callable[[Any, Any, Any], Awaitable[None]]
Refine = Callable[[WaypostError], WaypostError]

_QUEUES: Final = "/api/queues/"
_TRANSACTIONS: Final = "/api/transactions/"
_TYPE: Final = [(b"content-type", MediaType.MESSAGEPACK.encode())]

_log: Final = logging.getLogger("waypost.http")


class Quick:
    """An ASGI application in front of another. `refine` has the last word on what an error is."""

    __slots__ = ("_app", "_encoder", "_max_body", "_reads", "_refine", "_sends", "_service")

    def __init__(self, app: App, service: Service, refine: Refine) -> None:
        self._app: Final = app
        self._service: Final = service
        self._refine: Final = refine
        self._max_body: Final = service.settings.max_body
        self._encoder: Final = msgspec.msgpack.Encoder()
        self._sends: Final = msgspec.msgpack.Decoder(Send)
        self._reads: Final = msgspec.msgpack.Decoder(Read)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        handler = self._handler(scope) if scope["type"] == "http" else None
        if handler is None:
            await self._app(scope, receive, send)
            return
        status, content = HTTPStatus.OK, b""
        try:
            result = await handler(scope["path"], receive)
            if result is None:
                status = HTTPStatus.NO_CONTENT
            else:
                content = self._encoder.encode(result)
        except WaypostError as error:
            refused = self._refine(error)
            status, content = status_of(refused), self._encoder.encode(problem(refused))
        except _TooLarge:
            sentence = "the request is too large; send fewer messages at once"
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            content = self._encoder.encode(problem(InvalidParameter(sentence)))
        except Exception as error:  # noqa: BLE001, as the framework does for its handlers
            _log.error("POST %s failed", scope["path"][:200], exc_info=error)
            sentence = "the server failed to do this, and has written why to its log"
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            content = self._encoder.encode(problem(WaypostError(sentence)))
        headers = [*_TYPE, (b"content-length", b"%d" % len(content))] if content else []
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _handler(self, scope: Any) -> "Callable[[str, Any], Awaitable[object]] | None":
        if scope["method"] != "POST" or scope["query_string"]:
            return None
        path: str = scope["path"]
        content, accept = _types(scope)
        if accept not in MESSAGE_PACK:
            return None
        if path.startswith(_TRANSACTIONS) and path.endswith("/commit"):
            return self._commit if path.count("/") == _TRANSACTIONS.count("/") + 1 else None
        if not path.startswith(_QUEUES) or path.count("/") != _QUEUES.count("/") + 1 or content not in MESSAGE_PACK:
            return None
        if path.endswith("/messages"):
            return self._send
        return self._receive if path.endswith("/receive") else None

    async def _send(self, path: str, receive: Any) -> object:
        data = await self._body(receive, self._sends)
        return await sent(self._service, _name(path), data, packed=True)

    async def _receive(self, path: str, receive: Any) -> object:
        data = await self._body(receive, self._reads)
        return await received(self._service, receive, _name(path), data, packed=True)

    async def _commit(self, path: str, receive: Any) -> None:
        await self._bytes(receive)
        await self._service.transactions.commit(decoded(path[len(_TRANSACTIONS) : -len("/commit")]))

    async def _body(self, receive: Any, decoder: "msgspec.msgpack.Decoder[Any]") -> Any:
        try:
            return decoder.decode(await self._bytes(receive))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidParameter(f"the request is not what it should be: {error or type(error).__name__}") from None

    async def _bytes(self, receive: Any) -> bytes:
        message = await receive()
        if not message.get("more_body"):
            return self._checked(message.get("body", b""))
        parts = [message["body"]]
        size = len(message["body"])
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body:
                raise _TooLarge
        return b"".join(parts)

    def _checked(self, body: bytes) -> bytes:
        if len(body) > self._max_body:
            raise _TooLarge
        return body


class _TooLarge(Exception):
    """A body that nobody wants to read."""


def _name(path: str) -> str:
    return decoded(path[len(_QUEUES) : path.rindex("/")])


def _types(scope: Any) -> tuple[bytes, bytes]:
    """Content-Type and Accept."""
    content = accept = b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content = value
        elif name == b"accept":
            accept = value
    return content, accept
