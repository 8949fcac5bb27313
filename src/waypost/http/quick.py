"""A fast path for the most frequent requests, without ASGI and the framework: sends, receives and commits.

They are the same operations, with the same structures, as the routes of these paths in the schema. Only MessagePack
without a query takes this path, and only if the guard admits the request. A request costs a third.
"""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from waypost.api.operations import CommitTransaction, Operation, Receive, Send
from waypost.client.transports.http.schema import MESSAGEPACK
from waypost.errors import WaypostError
from waypost.http.handles import commit_transaction
from waypost.http.problems import problem, status_of
from waypost.http.protocol import COMMON_LINES
from waypost.http.reading import received
from waypost.http.requests import MESSAGE_PACK, refused_body
from waypost.http.results import answer
from waypost.http.routes import decoded
from waypost.http.sending import sent
from waypost.http.service import Client, Service

O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation

Refine = Callable[[WaypostError], WaypostError]
Headers = list[tuple[bytes, bytes]]
# Takes the body of a request; returns the status of the answer, its content and the header lines about the content.
Handler = Callable[[bytes, Client], Awaitable[tuple[int, bytes, bytes]]]

_QUEUES: Final = "/api/queues/"
_TRANSACTIONS: Final = "/api/transactions/"
_SEND: Final = "/messages"
_RECEIVE: Final = "/receive"
_COMMIT: Final = "/commit"
_LINES: Final = b"content-type: %b\r\n%b" % (MESSAGEPACK.encode(), COMMON_LINES)

_log: Final = logging.getLogger("waypost.http")


class Quick:
    """Finder of quick handlers. `refine` may replace an error before the answer."""

    __slots__ = ("_encoder", "_max_body", "_receives", "_refine", "_sends", "_service")

    def __init__(self, service: Service, refine: Refine) -> None:
        self._service: Final = service
        self._refine: Final = refine
        self._max_body: Final = service.settings.max_body
        self._encoder: Final = msgspec.msgpack.Encoder()
        self._sends: Final = _decoder(Send)
        self._receives: Final = _decoder(Receive)

    def handler(self, path: str, headers: Headers) -> Handler | None:
        """The handler of a POST to this path, percent-encoded; None if the request must take the usual path."""
        operation: Callable[[str, bytes, Client], Awaitable[object]]
        if path.startswith(_TRANSACTIONS) and path.endswith(_COMMIT):
            operation, name = self._commit, path[len(_TRANSACTIONS) : -len(_COMMIT)]
        elif path.startswith(_QUEUES) and path.endswith(_SEND):
            operation, name = self._send, path[len(_QUEUES) : -len(_SEND)]
        elif path.startswith(_QUEUES) and path.endswith(_RECEIVE):
            operation, name = self._receive, path[len(_QUEUES) : -len(_RECEIVE)]
        else:
            return None
        if not name or "/" in name or "?" in name or not self._is_plain(headers, has_body=operation != self._commit):
            return None

        async def handle(body: bytes, client: Client) -> tuple[int, bytes, bytes]:
            return await self._answer(operation(name, body, client), path)

        return handle

    def _is_plain(self, headers: Headers, *, has_body: bool) -> bool:
        """Whether request and answer are MessagePack, and the body has a stated length within the limit."""
        content = accept = b""
        length = b"" if has_body else b"0"
        for name, value in headers:
            if name == b"content-type":
                content = value
            elif name == b"accept":
                accept = value
            elif name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                return False
        if accept not in MESSAGE_PACK or (has_body and content not in MESSAGE_PACK):
            return False
        return length.isdigit() and int(length) <= self._max_body

    async def _answer(self, result: Awaitable[object], path: str) -> tuple[int, bytes, bytes]:
        try:
            value = await result
        except WaypostError as error:
            refused = self._refine(error)
            return status_of(refused), self._encoder.encode(problem(refused)), _LINES
        except Exception as error:  # noqa: BLE001, as the framework does for its handlers
            _log.error("POST %s failed", path[:200], exc_info=error)
            sentence = "the request failed with an unexpected error; the log of the server has the details"
            content = self._encoder.encode(problem(WaypostError(sentence)))
            return HTTPStatus.INTERNAL_SERVER_ERROR, content, _LINES
        if value is None:
            return HTTPStatus.NO_CONTENT, b"", b""
        return HTTPStatus.OK, self._encoder.encode(value), _LINES

    async def _send(self, name: str, body: bytes, _client: Client) -> object:
        found = _decoded(self._sends, body)
        return await sent(self._service, _operation(Send, found, name=name), packed=True)

    async def _receive(self, name: str, body: bytes, client: Client) -> object:
        operation = _operation(Receive, _decoded(self._receives, body), name=name)
        return answer(await received(self._service, client, operation), operation.form, packed=True)

    async def _commit(self, name: str, _body: bytes, _client: Client) -> None:
        await commit_transaction(self._service, _operation(CommitTransaction, None, identifier=name))


def _decoder(kind: type[Operation[object]]) -> "msgspec.msgpack.Decoder[Struct]":
    assert kind.row.body is not None
    return msgspec.msgpack.Decoder(kind.row.body)


def _decoded(decoder: "msgspec.msgpack.Decoder[Struct]", body: bytes) -> Struct:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refused_body(error) from None


def _operation(kind: type[O], body: Struct | None, **path: str) -> O:
    """The operation of a request, from its path and its body."""
    values: dict[str, object] = {name: decoded(part) for name, part in path.items()}
    return kind(**values, **{each: getattr(body, each) for each in kind.row.body_names})
