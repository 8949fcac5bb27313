"""Rules of RFC 9110 and RFC 9112 for every path: HEAD, Allow, fields that come once, and the headers of all answers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

from litestar import Request, Response
from litestar.datastructures import State
from litestar.types import Message, Send

Headers = Sequence[tuple[bytes, bytes]]

# Answers show messages and the state of this moment: nobody keeps them, and no browser takes them for something else.
COMMON: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
COMMON_LINES: Final = b"".join(b"%b: %b\r\n" % header for header in COMMON)

# Two of these would be read one way here and another way by a proxy. The parser refuses two of Content-Length itself.
_ONCE: Final = frozenset({b"host", b"authorization", b"origin"})


def malformed(version: str, headers: Headers) -> str | None:
    """Why the head of a request is malformed; None if it is not."""
    counts = Counter(name for name, _ in headers if name in _ONCE)
    for name, count in counts.items():
        if count > 1:
            return f"the request has {count} {name.decode().title()} headers; send one"
    # RFC 9112 3.2.
    if version == "1.1" and b"host" not in counts:
        return "the request has no Host header, which HTTP/1.1 demands"
    return None


def answering(method: str, send: Send) -> Send:
    """The `send` of an application whose answers go to `send`, with what all of them have.

    The answer to a HEAD ends with its headers. The application then sees that the client is gone, so that a stream
    ends, too.
    """
    is_over = False

    async def answer(message: Message) -> None:
        nonlocal is_over
        if is_over:
            return
        if message["type"] != "http.response.start":
            await send(message)
            return
        headers = _completed(message.get("headers", ()))
        await send({"type": "http.response.start", "status": message["status"], "headers": headers})
        if method == "HEAD":
            is_over = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return answer


def options(request: Request[object, object, State]) -> Response[None]:
    """The answer to OPTIONS. That of litestar forgets methods of a path that were added after its first."""
    paths = request.route_handler.paths
    methods = {method for route in request.app.routes if route.path in paths for method in route.methods}
    return Response(None, status_code=HTTPStatus.NO_CONTENT, headers={"allow": ", ".join(sorted(methods))})


def _completed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """HEAD is possible wherever GET is."""
    found = [(name, _with_head(value) if name.lower() == b"allow" else value) for name, value in headers]
    names = {name.lower() for name, _ in found}
    return found + [header for header in COMMON if header[0] not in names]


def _with_head(methods: bytes) -> bytes:
    names = {name.strip() for name in methods.split(b",")}
    return b", ".join(sorted(names | {b"HEAD"} if b"GET" in names else names))
