"""The reader of one host, in an event loop: its session, and the queues that are read."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from waypost.client.msmq.access import Access
from waypost.client.msmq.failures import Failures
from waypost.client.msmq.place import Place
from waypost.client.msmq.session import Session
from waypost.client.msmq.source import Source
from waypost.core.queues import ShareMode
from waypost.errors import LimitReached, ServiceNotAvailable
from waypost.limits import MAX_READS_AT_ONCE
from waypost.wire.format_names import FormatName

R = TypeVar("R")

# To close the queues at a host that may be gone.
_CLOSING_S: Final = 5.0


class Reader:
    """For tasks of one loop."""

    __slots__ = ("_access", "_is_closed", "_reads", "_session", "_sources", "_tasks", "place", "used")

    def __init__(self, place: Place, access: Access) -> None:
        self.place: Final = place
        self._access: Final = access
        self._session: Session | None = None
        self._sources: Final[WeakValueDictionary[FormatName, Source]] = WeakValueDictionary()
        # Those that have something open.
        self.used: Final[set[Source]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reads = 0
        self._is_closed = False

    def source(self, name: FormatName) -> Source:
        """The queue of this name, for all who ask for it."""
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = self._new(name, ShareMode.DENY_NONE)
        return source

    def exclusive_source(self, name: FormatName) -> Source:
        """An object of its own, which receives alone."""
        return self._new(name, ShareMode.DENY_RECEIVE)

    def session(self) -> Session:
        """The one that is there, or a new one."""
        if self._is_closed:
            raise ServiceNotAvailable(f"the connection to {self.place.text} is closed")
        if self._session is None or self._session.is_lost:
            self._session = Session(self.place, self._access)
        return self._session

    def start(self, work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """Something that goes on although nobody may wait for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextmanager
    def counting(self) -> Iterator[None]:
        if self._reads >= MAX_READS_AT_ONCE:
            raise LimitReached(f"{MAX_READS_AT_ONCE} reads of {self.place.host} are under way; wait for some of them")
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1

    async def close(self) -> None:
        """Reads that wait raise OperationCancelled. A second time it does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_CLOSING_S, self.place.timeout)):
                await asyncio.gather(*(source.close() for source in tuple(self.used)))
        if self._session is not None:
            await self._session.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _new(self, name: FormatName, share: ShareMode) -> Source:
        return Source(self, name, share, Failures(self.place.host, str(name), self._access))
