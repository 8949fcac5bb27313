"""JSON or MessagePack: what a request is written in, and what its answer is.

The request says the first in Content-Type and the second in Accept. A body is decoded right into the structure that the
handler takes, so that nothing else is ever made of what a stranger sends.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from litestar import MediaType, Request, Response
from litestar.datastructures import State
from litestar.exceptions import InternalServerException
from litestar.response.base import ASGIResponse
from litestar.types.asgi_types import HeaderScope

from waypost.api.records import Record, plain
from waypost.errors import InvalidParameter

JSON: Final = b"application/json"
MESSAGE_PACK: Final = frozenset({b"application/msgpack", b"application/x-msgpack", b"application/vnd.msgpack"})

_json: Final = msgspec.json.Encoder()
_message_pack: Final = msgspec.msgpack.Encoder()


def media_types(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> list[bytes]:
    """The types that the header names, in lower case and without their parameters."""
    values = (value for name, value in headers if name == header)
    return [part.partition(b";")[0].strip().lower() for value in values for part in value.split(b",")]


def is_message_pack(scope: HeaderScope, header: bytes) -> bool:
    return not MESSAGE_PACK.isdisjoint(media_types(scope["headers"], header))


def encode(scope: HeaderScope, content: object) -> tuple[bytes, str]:
    """The bytes of an answer to this request, and their type."""
    if is_message_pack(scope, b"accept"):
        # Times and bytes of a record are the text that JSON has.
        packed = plain(content) if isinstance(content, Record) else content
        return _message_pack.encode(packed), MediaType.MESSAGEPACK
    return _json.encode(content), MediaType.JSON


class ClientGone(Exception):
    """The client has hung up before its request was whole. Nobody is there to be answered."""


class ApiRequest(Request[None, None, State]):
    """A request whose body may be either. Litestar takes what `json` returns for the `data` of the handler."""

    async def body(self) -> bytes:
        try:
            return await super().body()
        except InternalServerException:
            # There is no other reason for litestar to raise it here.
            raise ClientGone from None

    async def json(self) -> object:
        data = self.route_handler.parsed_data_field
        kind = Any if data is None else data.annotation
        module = msgspec.msgpack if is_message_pack(self.scope, b"content-type") else msgspec.json
        try:
            return module.decode(await self.body(), type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidParameter(f"the request is not what it should be: {error or type(error).__name__}") from None


class ApiResponse(Response[Any]):
    """An answer in what the request asks for."""

    def to_asgi_response(self, app: Any, request: Any, **options: Any) -> ASGIResponse:
        if isinstance(self.content, msgspec.Struct):
            self.content, self.media_type = encode(request.scope, self.content)
        return super().to_asgi_response(app, request, **options)
