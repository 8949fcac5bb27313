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
from waypost.http.settings import HttpSettings

O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation

Refine = Callable[[WaypostError], WaypostError]
Headers = list[tuple[bytes, bytes]]
# Takes the body of a request; returns the status of the answer, its content and the header lines about the content.
Handler = Callable[[bytes, Client], Awaitable[tuple[int, bytes, bytes]]]

# Performs a request of a caller: the name in its path, its body, and the client.
Perform = Callable[[Service, str, bytes, Client], Awaitable[object]]

_QUEUES: Final = "/api/queues/"
_TRANSACTIONS: Final = "/api/transactions/"
_SEND: Final = "/messages"
_RECEIVE: Final = "/receive"
_COMMIT: Final = "/commit"
_LINES: Final = b"content-type: %b\r\n%b" % (MESSAGEPACK.encode(), COMMON_LINES)

_log: Final = logging.getLogger("waypost.http")


class Quick:
    """Finder of quick handlers. `refine` may replace an error before the answer."""

    __slots__ = ("_encoder", "_max_body", "_receives", "_refine", "_sends")

    def __init__(self, settings: HttpSettings, refine: Refine) -> None:
        self._refine: Final = refine
        self._max_body: Final = settings.max_body
        self._encoder: Final = msgspec.msgpack.Encoder()
        self._sends: Final = _decoder(Send)
        self._receives: Final = _decoder(Receive)

    def takes(self, path: str, headers: Headers) -> bool:
        """Whether `handler` answers a POST to this path, percent-encoded, with these headers."""
        found = self._find(path)
        if found is None:
            return False
        operation, name = found
        is_name = bool(name) and "/" not in name and "?" not in name
        return is_name and self._is_plain(headers, has_body=operation != self._commit)

    def handler(self, path: str, service: Service) -> Handler:
        """The handler of a POST to this path, which `takes` accepts, for the caller of `service`."""
        found = self._find(path)
        assert found is not None
        operation, name = found

        async def handle(body: bytes, client: Client) -> tuple[int, bytes, bytes]:
            return await self._answer(operation(service, name, body, client), path)

        return handle

    def _find(self, path: str) -> tuple[Perform, str] | None:
        """The function for a path, and the name in the path."""
        if path.startswith(_QUEUES):
            if path.endswith(_SEND):
                return self._send, path[len(_QUEUES) : -len(_SEND)]
            if path.endswith(_RECEIVE):
                return self._receive, path[len(_QUEUES) : -len(_RECEIVE)]
        elif path.startswith(_TRANSACTIONS) and path.endswith(_COMMIT):
            return self._commit, path[len(_TRANSACTIONS) : -len(_COMMIT)]
        return None

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
            sentence = "the request failed with an unexpected error; see the log of the server for details"
            content = self._encoder.encode(problem(WaypostError(sentence)))
            return HTTPStatus.INTERNAL_SERVER_ERROR, content, _LINES
        if value is None:
            return HTTPStatus.NO_CONTENT, b"", b""
        return HTTPStatus.OK, self._encoder.encode(value), _LINES

    async def _send(self, service: Service, name: str, body: bytes, _client: Client) -> object:
        found = _decoded(self._sends, body)
        return await sent(service, _operation(Send, found, name=name), packed=True)

    async def _receive(self, service: Service, name: str, body: bytes, client: Client) -> object:
        operation = _operation(Receive, _decoded(self._receives, body), name=name)
        return answer(await received(service, client, operation), operation.form, packed=True)

    async def _commit(self, service: Service, name: str, _body: bytes, _client: Client) -> None:
        await commit_transaction(service, _operation(CommitTransaction, None, identifier=name))


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
