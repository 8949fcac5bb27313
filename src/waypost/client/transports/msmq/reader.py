"""The reader of one host, in an event loop: its session and its queues."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import HostAddress
from waypost.client.transports.msmq.failures import Failures
from waypost.client.transports.msmq.queue_reader import QueueReader
from waypost.client.transports.msmq.reading_session import ReadingSession
from waypost.core.queues import ShareMode
from waypost.errors import LimitReached, ServiceNotAvailable
from waypost.limits import MAX_READS_AT_ONCE
from waypost.wire.format_names import FormatName

R = TypeVar("R")

# Seconds to close the queues at a host that may be gone.
_CLOSING_S: Final = 5.0


class Reader:
    """The reader of one host, for tasks of one event loop."""

    __slots__ = ("_access", "_is_closed", "_queues", "_reads", "_session", "_tasks", "address", "used")

    def __init__(self, address: HostAddress, access: Access) -> None:
        self.address: Final = address
        self._access: Final = access
        self._session: ReadingSession | None = None
        self._queues: Final[WeakValueDictionary[FormatName, QueueReader]] = WeakValueDictionary()
        # The queues with open handles.
        self.used: Final[set[QueueReader]] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._reads = 0
        self._is_closed = False

    def queue(self, name: FormatName) -> QueueReader:
        """The queue with this name, which all callers share."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = self._new(name, ShareMode.DENY_NONE)
        return queue

    def exclusive_queue(self, name: FormatName) -> QueueReader:
        """A separate object for the queue with this name, which keeps others from receiving."""
        return self._new(name, ShareMode.DENY_RECEIVE)

    def session(self) -> ReadingSession:
        """The current session, or a new one."""
        if self._is_closed:
            raise ServiceNotAvailable(f"the connection to {self.address.text} is closed")
        if self._session is None or self._session.is_lost:
            self._session = ReadingSession(self.address, self._access)
        return self._session

    def start(self, work: Coroutine[object, None, R]) -> "asyncio.Task[R]":
        """Start a task that goes on even if no caller waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextmanager
    def counting(self) -> Iterator[None]:
        if self._reads >= MAX_READS_AT_ONCE:
            raise LimitReached(
                f"{MAX_READS_AT_ONCE} reads from {self.address.host} are in progress, which is the limit; wait until "
                "some of these reads have finished"
            )
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1

    async def close(self) -> None:
        """Close the queues and the session. Reads that wait raise OperationCancelled. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_CLOSING_S, self.address.timeout)):
                await asyncio.gather(*(queue.close() for queue in tuple(self.used)))
        if self._session is not None:
            await self._session.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _new(self, name: FormatName, share: ShareMode) -> QueueReader:
        return QueueReader(self, name, share, Failures(self.address.host, str(name), self._access))
