"""The queue objects that requests share. Each has handles at the queue manager, which others have to reckon with.

Whoever wants a queue for itself cannot have it while somebody else has it open for reading. So what no request has read
from for a while is closed; the next one opens it again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from waypost.client.aio_queue import Queue, stop_reading

_REST_SECONDS: Final = 1.0


class SharedQueues:
    """Those that are read from, with how many requests do so now, and those that rest, with since when."""

    __slots__ = ("_closing", "_resting", "_users")

    def __init__(self) -> None:
        self._users: dict[Queue, int] = {}
        self._resting: dict[Queue, float] = {}
        self._closing: asyncio.TimerHandle | None = None

    @contextmanager
    def reading(self, queue: Queue) -> Iterator[Queue]:
        self.begin(queue)
        try:
            yield queue
        finally:
            self.end(queue)

    def begin(self, queue: Queue) -> None:
        """Somebody reads from it, until `end`."""
        self._users[queue] = self._users.get(queue, 0) + 1
        self._resting.pop(queue, None)

    def end(self, queue: Queue) -> None:
        self._users[queue] -= 1
        if not self._users[queue]:
            del self._users[queue]
            self._rest(queue)

    def _rest(self, queue: Queue) -> None:
        loop = asyncio.get_running_loop()
        self._resting[queue] = loop.time()
        if self._closing is None:
            self._closing = loop.call_later(_REST_SECONDS, self._close)

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        latest = loop.time() - _REST_SECONDS
        for queue in [queue for queue, since in self._resting.items() if since <= latest]:
            del self._resting[queue]
            stop_reading(queue)
        self._closing = loop.call_later(_REST_SECONDS, self._close) if self._resting else None
