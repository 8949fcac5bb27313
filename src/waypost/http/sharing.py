"""Queues that requests share. The queue manager has each of them open.

A program cannot open a queue exclusively while another one has it open for reading. So a queue closes when no request
has read from it for a while; the next request opens it again.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from waypost.errors import WaypostError

_REST_SECONDS: Final = 1.0


class SharedQueues:
    """Queues that requests read now, with the number of requests, and resting ones, with the time of their last use."""

    __slots__ = ("_closing", "_resting", "_stop_reading", "_users")

    def __init__(self, stop_reading: Callable[[str], None]) -> None:
        """`stop_reading` closes a queue, so that others can open it exclusively."""
        self._stop_reading: Final = stop_reading
        self._users: dict[str, int] = {}
        self._resting: dict[str, float] = {}
        self._closing: asyncio.TimerHandle | None = None

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: str) -> None:
        """Count a reader of a queue, until `end`."""
        self._users[name] = self._users.get(name, 0) + 1
        self._resting.pop(name, None)

    def end(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._rest(name)

    def _rest(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        self._resting[name] = loop.time()
        if self._closing is None:
            self._closing = loop.call_later(_REST_SECONDS, self._close)

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        latest = loop.time() - _REST_SECONDS
        for name in [name for name, since in self._resting.items() if since <= latest]:
            del self._resting[name]
            # A name that is not valid for a queue has nothing open.
            with suppress(WaypostError):
                self._stop_reading(name)
        self._closing = loop.call_later(_REST_SECONDS, self._close) if self._resting else None
