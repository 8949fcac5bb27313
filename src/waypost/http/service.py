"""What the handlers share: the manager, its shell, and what clients have open."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.names import format_name
from waypost.client.aio_manager import Manager, Transaction, calls_of, outgoing_queue_of, shell_of
from waypost.client.aio_queue import Cursor, Queue
from waypost.drive.loop_watch import LoopWatch
from waypost.errors import InvalidHandle, InvalidParameter, QueueNotFound
from waypost.http.leases import Leases
from waypost.http.remote_queues import Connect, RemoteQueue, RemoteQueues
from waypost.http.remote_queues import Cursor as RemoteCursor
from waypost.http.settings import HttpSettings
from waypost.http.sharing import SharedQueues
from waypost.http.transactions import Transactions
from waypost.http.verifier import Verifier
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName

T = TypeVar("T")


AnyQueue: TypeAlias = Queue | RemoteQueue

# What ASGI calls receive: the next part of a request, or that the client is gone.
Receive = Callable[[], Awaitable[Any]]


class Service:
    """One manager, as clients see it."""

    __slots__ = (
        "calls",
        "cursors",
        "handles",
        "is_stopping",
        "manager",
        "node",
        "remote",
        "settings",
        "shared",
        "shell",
        "started",
        "streams",
        "transactions",
        "verifier",
    )

    def __init__(self, manager: Manager, settings: HttpSettings, connect: Connect) -> None:
        self.manager: Final = manager
        self.settings: Final = settings
        self.shell: Final = shell_of(manager)
        self.calls: Final = calls_of(manager)
        self.node: Final = self.shell.driver.node
        self.transactions: Final = Transactions(manager, settings)
        self.remote: Final = RemoteQueues(self.node, settings, connect)
        self.handles: Final[Leases[AnyQueue]] = Leases("handles", settings.max_handles, _close_handle)
        self.cursors: Final[Leases[OpenCursor]] = Leases("cursors", settings.max_handles, _close_cursor)
        self.shared: Final = SharedQueues()
        self.verifier: Final = Verifier(manager.path)
        # How many follow a queue.
        self.streams = 0
        # Whether they shall end.
        self.is_stopping = False
        self.started: Final = time.time()

    @property
    def statistics(self) -> Statistics | None:
        """What transfer counts; None without a network."""
        return None if self.node.network is None else self.node.network.statistics

    @property
    def watch(self) -> LoopWatch | None:
        """What the turns of the loop are known by; None if nobody watches it."""
        return self.shell.watch if isinstance(self.shell.watch, LoopWatch) else None

    def name(self, text: str) -> FormatName:
        return format_name(text, self.manager.name)

    @asynccontextmanager
    async def queue(self, name: str, *, outgoing: bool, handle: str | UnsetType = UNSET) -> AsyncIterator[AnyQueue]:
        """The queue object to work with: that of a handle, or one for an outgoing queue, or the one that all share.

        Unless the outgoing queue is meant, a queue of another computer is read there.
        """
        if handle is not UNSET:
            with self.using_handle(handle, name) as queue:
                yield queue
        elif outgoing:
            async with await self.outgoing_queue(name) as outgoing_queue:
                yield outgoing_queue
        elif (place := self.remote.find(name)) is not None:
            with self.remote.using(place) as remote_queue:
                yield remote_queue
        else:
            with self.shared.reading(self.manager.queue(name)) as shared:
                yield shared

    def shared_cursor(self, name: str) -> "OpenCursor":
        """A cursor of the queue object that all share, which is read from until the cursor is closed."""
        queue = self.manager.queue(name)
        self.shared.begin(queue)
        return OpenCursor(queue.cursor(), None, None, partial(self.shared.end, queue))

    def exclusive_queue(self, name: str) -> AnyQueue:
        """A queue object of one's own, to be closed, that denies the queue to others when it is used."""
        place = self.remote.find(name)
        return self.manager.queue(name, exclusive=True) if place is None else self.remote.exclusive(place)

    async def outgoing_queue(self, name: str) -> Queue:
        """A queue object of one's own, to be closed."""
        found = outgoing_queue_of(self.manager, self.name(name))
        if found is None:
            raise QueueNotFound(f"{self.name(name)} is no outgoing queue of this computer")
        return found

    @contextmanager
    def using_handle(self, handle: str, name: str) -> Iterator[AnyQueue]:
        if handle not in self.handles:
            raise InvalidHandle("the handle is not open")
        with self.handles.using(handle) as queue:
            if queue.format_name != str(self.name(name)):
                raise InvalidParameter(f"the handle is one of {queue.name}, not of {excerpt(name)}")
            yield queue

    @contextmanager
    def keeping(self, handle: str | None) -> Iterator[None]:
        """Keep the handle of a cursor open while the cursor is used."""
        if handle is None:
            yield
            return
        if handle not in self.handles:
            raise InvalidHandle("the handle of the cursor is not open")
        with self.handles.using(handle):
            yield

    @contextmanager
    def in_transaction(
        self, identifier: str | UnsetType, begin_s: float | UnsetType
    ) -> Iterator[Transaction | None]:  # fmt: skip
        """The transaction that a request names, if it names one."""
        if identifier is UNSET:
            if begin_s is not UNSET:
                raise InvalidParameter("begin_s needs the id of the transaction to begin")
            yield None
            return
        with self.transactions.using(identifier, None if begin_s is UNSET else begin_s) as transaction:
            yield transaction


class OpenCursor:
    """A cursor, with the id of the handle that it belongs to, if there is one."""

    __slots__ = ("_end", "cursor", "handle", "owned")

    def __init__(
        self,
        cursor: Cursor | RemoteCursor,
        handle: str | None,
        owned: AnyQueue | None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """`end` is called when it is closed."""
        self._end: Final = end
        self.cursor: Final = cursor
        self.handle: Final = handle
        # The queue object that was made for this cursor alone.
        self.owned: Final = owned

    async def close(self) -> None:
        self._end()
        await self.cursor.close()
        if self.owned is not None:
            await self.owned.close()


async def _close_handle(_: str, queue: AnyQueue) -> None:
    await queue.close()


async def _close_cursor(_: str, cursor: OpenCursor) -> None:
    await cursor.close()


async def client_gone(receive: Receive) -> None:
    """Comes back when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Client(Protocol):
    """Who waits for the answer to a request."""

    @property
    def is_hurried(self) -> bool:
        """Whether it waits no longer for what may come, but for what is there."""

    @property
    def leaves_at_once(self) -> bool:
        """Whether what it waits for ends in the moment in which it leaves, before anything else can happen."""

    @property
    def is_gone(self) -> bool: ...

    async def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T | None:
        """What the coroutine gives, or None if the client went away before: then it was cancelled."""


class AsgiClient:
    """A Client, as far as ASGI tells. Nobody looks for it before it waits."""

    __slots__ = ("_receive", "is_gone", "is_hurried", "leaves_at_once")

    def __init__(self, receive: Receive) -> None:
        self._receive: Final = receive
        self.is_gone = False
        self.is_hurried = False
        self.leaves_at_once = False

    async def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T | None:
        loop = asyncio.get_running_loop()
        gone, task = loop.create_task(client_gone(self._receive)), loop.create_task(coroutine)
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.is_gone = gone.done()
            gone.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()
