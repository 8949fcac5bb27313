"""A request that its connection answers itself, without ASGI.

uvicorn keeps one object for the request that a connection serves; this one stands in its place and has what uvicorn
looks at: whether it is answered, whether the client has gone, and whether the connection goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Takes the body and the client; gives status, content and the lines of the head that say of it.
Handler = Callable[[bytes, "QuickRequest"], Awaitable[tuple[int, bytes, bytes]]]
# Takes the URL and the headers of a POST.
FindHandler = Callable[[bytes, list[tuple[bytes, bytes]]], Handler | None]

_LINES: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class QuickRequest:
    """See the module. It is also the client that the handler knows."""

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
        # What waits for something that may be long in coming.
        self._waiting: asyncio.Task[Any] | None = None
        self._is_hurried = False
        self.disconnected = False
        self.leaves_at_once: Final = True
        self.keep_alive = True
        self.response_complete = False
        # uvicorn sets it when the client has gone.
        self.message_event: Final = self

    def feed(self, part: bytes) -> None:
        self._parts.append(part)

    def set(self) -> None:
        if self.disconnected:
            self.leave()

    def leave(self) -> None:
        """The client has gone."""
        self.disconnected = True
        self.hurry()

    def hurry(self) -> None:
        """Let it wait no longer: the answer says what has come until now."""
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
        """What the coroutine gives, or None if the client went away or wants something else: then it was cancelled."""
        if self._is_hurried:
            coroutine.close()
            return None
        self._waiting = task = asyncio.current_task()
        try:
            return await coroutine
        except asyncio.CancelledError:
            if task is None or not self.is_hurried or task.uncancel():
                # Somebody else has ended it.
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
