"""Rules of RFC 9110 and RFC 9112 for every path: HEAD, Allow, single headers, and the headers of all answers."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from waypost.http.requests import Event, Send

Headers = Sequence[tuple[bytes, bytes]]

# Answers show messages and the state of this moment: caches must not keep them, and browsers must not guess their type.
COMMON: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
COMMON_LINES: Final = b"".join(b"%b: %b\r\n" % header for header in COMMON)

# A proxy may read another one of two such headers than this server. The parser itself refuses two of Content-Length.
_ONCE: Final = frozenset({b"host", b"authorization", b"origin"})


def malformed(version: str, headers: Headers) -> str | None:
    """The reason why the head of a request is malformed; None if it is not."""
    counts = Counter(name for name, _ in headers if name in _ONCE)
    for name, count in counts.items():
        if count > 1:
            return f"the request has {count} {name.decode().title()} headers; send only one"
    # RFC 9112 3.2.
    if version == "1.1" and b"host" not in counts:
        return "the request has no Host header, which HTTP/1.1 requires"
    return None


class HeadAnswered(Exception):
    """Ends the application after the headers of the answer to a HEAD."""


def answering(method: str, send: Send) -> Send:
    """Wrap `send` to add the headers of all answers."""

    async def answer(message: Event) -> None:
        if message["type"] != "http.response.start":
            await send(message)
            return
        await send({**message, "headers": _completed(message.get("headers", ()))})
        if method == "HEAD":
            raise HeadAnswered

    return answer


def _completed(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of an answer with the common ones. Where GET is allowed, HEAD is too."""
    found = [(name, _with_head(value) if name.lower() == b"allow" else value) for name, value in headers]
    names = {name.lower() for name, _ in headers}
    return found + [header for header in COMMON if header[0] not in names]


def _with_head(methods: bytes) -> bytes:
    names = {name.strip() for name in methods.split(b",")}
    return b", ".join(sorted(names | {b"HEAD"} if b"GET" in names else names))
