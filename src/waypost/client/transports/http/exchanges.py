"""One request to the daemon and its answer.

An operation is a conversation: a generator that yields Exchanges, gets a Response for each and returns its result. It
neither waits nor connects, so both shells can carry it.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import fields

from waypost.api.operations import Operation
from waypost.api.records import record_of
from waypost.client.transports.http.http11 import Response
from waypost.client.transports.http.packing import error_of
from waypost.client.transports.http.schema import MESSAGEPACK, ErrorObject
from waypost.errors import AccessDenied, DecodeError, InvalidParameter, ServiceNotAvailable, WaypostError

R = TypeVar("R")

_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Exchange:
    method: str
    target: str
    body: bytes = b""
    # True if a repetition changes nothing more.
    is_repeatable: bool = False
    # Seconds that the daemon may wait, or work, before it answers.
    wait_s: float = 0.0
    # The shell sets it when it sends the request a second time.
    is_repeated: bool = False


Conversation: TypeAlias = Generator[Exchange, Response, R]


def exchange_of(operation: Operation[object]) -> Exchange:
    """The request for an operation, by its row."""
    row = operation.row
    target = _target(row.path, *((name, getattr(operation, name)) for name in row.path_names))
    if row.query_names:
        query = {name: getattr(operation, name) for name in _given(operation, row.query_names)}
        target += f"?{urlencode({name: _query_text(value) for name, value in query.items()})}" if query else ""
    body = b""
    if row.body is not None:
        whole = isinstance(operation, row.body)
        body = _encode(operation if whole else row.body(**{name: getattr(operation, name) for name in row.body_names}))
    return Exchange(row.method, target, body, row.is_repeatable, row.wait_s)


def _given(operation: Operation[object], names: tuple[str, ...]) -> Iterator[str]:
    """The fields that differ from their defaults."""
    defaults = {each.name: each.default for each in fields(type(operation))}
    return (name for name in names if getattr(operation, name) != defaults[name])


@lru_cache(4096)
def _target(path: str, *values: tuple[str, str]) -> str:
    for name, value in values:
        if not value:
            # Without this part, the path is that of another operation.
            raise InvalidParameter(f"`{name}` must not be empty")
        path = path.replace(f"{{{name}}}", path_part(value))
    return path


def reply_of(operation: Operation[R], content: bytes | bytearray) -> R:
    """The reply to an operation, if its type is a structure."""
    try:
        values = None if operation.row.reply is type(None) else msgspec.msgpack.decode(content)
        reply: R = record_of(values, operation.row.reply)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_an_answer(error) from None
    return reply


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def path_part(text: str) -> str:
    return quote(text, safe="")


def accepted(response: Response) -> bytes | bytearray:
    """The content of an answer. Raises the error that the daemon reports."""
    if 200 <= response.status < 300:
        return response.body
    raise _error(response)


class Decoder(Generic[R]):
    """Decoder of one type of answer. Raises DecodeError for other content."""

    __slots__ = ("_decode",)

    def __init__(self, kind: type[R]) -> None:
        self._decode: Final = msgspec.msgpack.Decoder(kind).decode

    def __call__(self, response: Response) -> R:
        return self.of(accepted(response))

    def of(self, content: bytes | bytearray) -> R:
        try:
            return self._decode(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _not_an_answer(error) from None


def _not_an_answer(error: Exception) -> DecodeError:
    return DecodeError("HTTP", "answer", 0, f"the answer does not come from a Waypost daemon: {error}")


def _error(response: Response) -> WaypostError:
    decode = msgspec.msgpack.decode if response.content_type == MESSAGEPACK else msgspec.json.decode
    try:
        return error_of(decode(response.body, type=ErrorObject))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    if response.status in (401, 403):
        return AccessDenied(f"the daemon answered with HTTP status {response.status}; pass the token of the daemon")
    return ServiceNotAvailable(f"the daemon, or a proxy in front of it, answered with HTTP status {response.status}")
