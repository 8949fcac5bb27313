"""A request that its connection answers itself, without ASGI.

uvicorn keeps one object for the request that a connection serves. This one replaces it, with the attributes that
uvicorn reads: whether the request is answered, whether the client is gone, and whether the connection stays open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar

from waypost.api.asgi import Peer

T = TypeVar("T")

# Takes the body and the client; returns the status, the content and the header lines about the content.
Handler = Callable[[bytes, "QuickRequest"], Awaitable[tuple[int, bytes, bytes]]]
# Takes the URL and the headers of a POST, and its sender; returns its handler, if it has a quick one.
FindHandler = Callable[[bytes, list[tuple[bytes, bytes]], Peer], Handler | None]

_LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class QuickRequest:
    """A request answered without ASGI. It is also the client that the handler gets."""

    __slots__ = (
        "_handler",
        "_is_hurried",
        "_parts",
        "_waiting",
        "disconnected",
        "keep_alive",
        "leaves_at_once",
        "message_event",
        "response_complete",
    )

    def __init__(self, handler: Handler) -> None:
        self._handler: Final = handler
        self._parts: list[bytes] = []
        # The task of a wait that may be long.
        self._waiting: asyncio.Task[Any] | None = None
        self._is_hurried = False
        self.disconnected = False
        self.leaves_at_once: Final = True
        self.keep_alive = True
        self.response_complete = False
        # uvicorn calls its `set` when the client is gone.
        self.message_event: Final = self

    def feed(self, part: bytes) -> None:
        self._parts.append(part)

    def set(self) -> None:
        if self.disconnected:
            self.leave()

    def leave(self) -> None:
        """Note that the client is gone."""
        self.disconnected = True
        self.hurry()

    def hurry(self) -> None:
        """End its wait: the answer has what has come until now."""
        self._is_hurried = True
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    @property
    def is_hurried(self) -> bool:
        return self._is_hurried

    @property
    def is_gone(self) -> bool:
        return self.disconnected

    async def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T | None:
        """The result of the coroutine; None if it was cancelled because the client left or sent another request."""
        if self._is_hurried:
            coroutine.close()
            return None
        self._waiting = task = asyncio.current_task()
        try:
            return await coroutine
        except asyncio.CancelledError:
            if task is None or not self.is_hurried or task.uncancel():
                # Another caller has cancelled the task.
                raise
            return None
        finally:
            self._waiting = None

    async def answer(self, more_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The whole response."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        status, content, lines = await self._handler(body, self)
        head = [_LINES[status]]
        head += [b"%b: %b\r\n" % header for header in more_headers]
        if content:
            head.append(b"%bcontent-length: %d\r\n" % (lines, len(content)))
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        return b"".join((*head, b"\r\n", content))
