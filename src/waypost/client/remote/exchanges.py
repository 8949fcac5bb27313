"""One request to the daemon and its answer, as what is asked for and what came back.

An operation is a conversation: a generator that yields Exchanges, gets a Response for each and returns its result. It
neither waits nor connects, so both shells can carry it.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from waypost.api.operations import Operation
from waypost.api.records import plain, record_of
from waypost.client.remote.http11 import Response
from waypost.client.remote.packing import error_of
from waypost.client.remote.schema import MESSAGEPACK, ErrorObject
from waypost.errors import AccessDenied, DecodeError, ServiceNotAvailable, WaypostError

R = TypeVar("R")

_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Exchange:
    method: str
    target: str
    body: bytes = b""
    # Whether to do it twice is as good as to do it once.
    is_repeatable: bool = False
    # How long the daemon may wait, or work, before it answers.
    wait_s: float = 0.0
    # Set by the shell when it was sent a second time.
    is_repeated: bool = False


Conversation: TypeAlias = Generator[Exchange, Response, R]


def post(target: str, content: msgspec.Struct | None = None, wait_s: float = 0.0) -> Exchange:
    return Exchange("POST", target, b"" if content is None else _encode(content), wait_s=wait_s)


def patch(target: str, content: msgspec.Struct) -> Exchange:
    return Exchange("PATCH", target, _encode(content), is_repeatable=True)


def get(target: str) -> Exchange:
    return Exchange("GET", target, is_repeatable=True)


def delete(target: str, wait_s: float = 0.0) -> Exchange:
    return Exchange("DELETE", target, wait_s=wait_s)


def read(target: str, content: msgspec.Struct, wait_s: float, *, is_repeatable: bool) -> Exchange:
    return Exchange("POST", target, _encode(content), is_repeatable, wait_s)


def any_request(method: str, target: str, content: object) -> Exchange:
    """Any other."""
    return Exchange(method, target, b"" if content is None else _encode(content), is_repeatable=method == "GET")


def exchange_of(operation: Operation[object]) -> Exchange:
    """The request that asks for an operation, as its row says."""
    row = operation.row
    values = plain(operation)
    target = row.path
    for name in row.path_names:
        target = target.replace(f"{{{name}}}", path_part(values.pop(name)))
    query = {name: values.pop(name) for name in row.query_names if name in values}
    if query:
        target += f"?{urlencode({name: _query_text(value) for name, value in query.items()})}"
    body = _encode(values) if row.body_names else b""
    return Exchange(row.method, target, body, row.is_repeatable, row.wait_s)


def ask(operation: Operation[R]) -> Conversation[R]:
    """Have an operation done by the daemon."""
    content = accepted((yield exchange_of(operation)))
    if operation.row.reply is type(None):
        return cast("R", None)
    try:
        reply: R = record_of(msgspec.msgpack.decode(content), operation.row.reply)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_an_answer(error) from None
    return reply


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def path_part(text: str) -> str:
    return quote(text, safe="")


def accepted(response: Response) -> bytes | bytearray:
    """The content of an answer; raises the error that the daemon had."""
    if 200 <= response.status < 300:
        return response.body
    raise _error(response)


class Decoder:
    """Reads one type of answer. Raises DecodeError for what is none."""

    __slots__ = ("_decode",)

    def __init__(self, kind: Any) -> None:
        self._decode: Final = msgspec.msgpack.Decoder(kind).decode

    def __call__(self, response: Response) -> Any:
        return self.of(accepted(response))

    def of(self, content: bytes | bytearray) -> Any:
        try:
            return self._decode(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _not_an_answer(error) from None


def _not_an_answer(error: Exception) -> DecodeError:
    return DecodeError("HTTP", "answer", 0, f"it is not what a Waypost daemon answers: {error}")


def _error(response: Response) -> WaypostError:
    decode = msgspec.msgpack.decode if response.content_type == MESSAGEPACK else msgspec.json.decode
    try:
        return error_of(decode(response.body, type=ErrorObject))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    if response.status in (401, 403):
        return AccessDenied(f"the daemon answers {response.status}; give connect the token that it expects")
    return ServiceNotAvailable(f"the daemon, or what stands before it, answers with HTTP status {response.status}")
