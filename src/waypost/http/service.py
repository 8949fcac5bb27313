"""Shared state of the handlers: the queue manager, and the handles of clients."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Final, Protocol, TypeVar

from msgspec import UNSET, UnsetType

from waypost.api.asgi import BEHIND, EVENT
from waypost.api.excerpt import excerpt
from waypost.api.local import CancelReads
from waypost.api.names import format_name
from waypost.api.operations import CloseCursor, CloseQueue, Operation
from waypost.client.aio_manager import Manager
from waypost.client.aio_opening import shell_of
from waypost.drive.loop_watch import LoopWatch
from waypost.errors import InvalidHandle, InvalidParameter
from waypost.http.leases import Leases
from waypost.http.logins import Logins
from waypost.http.remote_queues import Connect, Elsewhere, RemoteCursor, RemoteQueue, RemoteQueues
from waypost.http.requests import Receive, Scope
from waypost.http.sessions import Sessions
from waypost.http.settings import HttpSettings
from waypost.http.sharing import SharedQueues
from waypost.http.transactions import Transactions
from waypost.http.verification import Verifier
from waypost.security.callers import QUEUE_MANAGER, Caller, Role, check_role
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName
from waypost.wire.sid import Sid

T = TypeVar("T")
R = TypeVar("R")

# Number of callers whose services are kept.
_CALLERS: Final = 1000


class Running:
    """Facts of the server that change: whether it stops, and the number of clients that follow a queue."""

    __slots__ = ("is_stopping", "streams")

    def __init__(self) -> None:
        self.is_stopping = False
        self.streams = 0


class Service:
    """A queue manager with everything that its HTTP clients have open, for one caller.

    The first one is for the queue manager itself. `of` gives that of another caller, with the same objects.
    """

    __slots__ = (
        "_by_caller",
        "_running",
        "caller",
        "cursors",
        "handles",
        "logins",
        "manager",
        "node",
        "path",
        "remote",
        "sessions",
        "settings",
        "shared",
        "shell",
        "started",
        "transactions",
        "verifier",
    )

    def __init__(self, manager: Manager, settings: HttpSettings, connect: Connect) -> None:
        self._running: Final = Running()
        self._by_caller: Final[dict[Caller, Service]] = {}
        self.caller = QUEUE_MANAGER
        self.manager: Final = manager
        self.settings: Final = settings
        self.path: Final = manager.path
        self.shell: Final = shell_of(manager)
        self.node: Final = self.shell.driver.node
        self.logins: Final = Logins(self.node.users, self.node.machine, settings)
        self.transactions: Final = Transactions(self.shell, settings)
        self.remote: Final = RemoteQueues(self.node, settings, connect)
        self.handles: Final[Leases[RemoteQueue | None]] = Leases("handles", settings.max_handles, self.close_handle)
        self.cursors: Final[Leases[OpenedCursor]] = Leases("cursors", settings.max_handles, self.close_cursor)
        self.shared: Final = SharedQueues(self._stop_reading)
        self.verifier: Final = Verifier(self.path)
        self.sessions: Final = Sessions()
        self.started: Final = time.time()
        self.node.users.removed.append(self._close_soon)

    def of(self, caller: Caller) -> "Service":
        """The same service for this caller."""
        found = self._by_caller.get(caller)
        if found is None:
            if len(self._by_caller) >= _CALLERS:
                self._by_caller.clear()
            found = self._by_caller[caller] = copy(self)
            found.caller = caller
        return found

    async def call(self, operation: Operation[R]) -> R:
        """Call an operation of the caller."""
        return await self.shell.call(operation, self.caller)

    def start(self, operation: Operation[object]) -> None:
        """Call an operation of the caller, without a wait for its reply."""
        self.shell.start(operation, self.caller)

    @property
    def is_stopping(self) -> bool:
        """Whether clients that follow queues must end."""
        return self._running.is_stopping

    def stop(self) -> None:
        """End requests that would not end by themselves."""
        self._running.is_stopping = True
        self.remote.stop()
        self.verifier.stop()

    @property
    def streams(self) -> int:
        """Number of clients that follow a queue."""
        return self._running.streams

    @contextmanager
    def following(self) -> Iterator[None]:
        """Count a client that follows a queue, in this context."""
        self._running.streams += 1
        try:
            yield
        finally:
            self._running.streams -= 1

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of transfer; None without a network."""
        return None if self.node.network is None else self.node.network.statistics

    @property
    def watch(self) -> LoopWatch | None:
        """The watch on the turns of the loop; None if the loop has none."""
        return self.shell.watch if isinstance(self.shell.watch, LoopWatch) else None

    def _stop_reading(self, name: str) -> None:
        self.start(CancelReads(name=name, keeps_sending=True))

    def _close_soon(self, owner: Sid) -> None:
        """Close everything of a removed user, not in the middle of the operation that removes it."""
        asyncio.get_running_loop().call_soon(self._close_all_of, owner)

    def _close_all_of(self, owner: Sid) -> None:
        """Close everything that a removed user has left open."""
        if not self.is_stopping:
            self.transactions.abort_all_of(owner)
            self.cursors.close_all_of(owner)
            self.handles.close_all_of(owner)

    def name(self, text: str) -> FormatName:
        return format_name(text, self.manager.name)

    def elsewhere(self, name: str) -> Elsewhere | None:
        """The remote queue of a name that the caller reads; None for any other name.

        This computer reads there as `remote.user`, so it does so for operators only. Raises AccessDenied.
        """
        place = self.remote.find(name)
        if place is not None:
            check_role(self.caller, Role.OPERATE, "to read from other hosts")
        return place

    @contextmanager
    def reading(
        self, name: str, *, outgoing: bool, handle: str | UnsetType = UNSET
    ) -> Iterator["Service | RemoteQueue"]:
        """The performer of reads of a queue: this queue manager, or the host of the queue.

        A queue of another computer is read there, unless `outgoing` asks for its outgoing queue here.
        """
        if handle is not UNSET:
            with self.using_handle(handle, name) as remote:
                yield self if remote is None else remote
        elif not outgoing and (place := self.elsewhere(name)) is not None:
            with self.remote.using(place) as remote:
                yield remote
        else:
            with self.shared.reading(str(self.name(name))):
                yield self

    @contextmanager
    def using_handle(self, handle: str, name: str) -> Iterator["RemoteQueue | None"]:
        """The remote queue of an exclusive handle; None for a queue of this computer."""
        if not self.handles.has(handle, self.caller):
            raise InvalidHandle("the handle is not open")
        with self.handles.using(handle) as remote:
            if remote is not None and remote.name != str(self.name(name)):
                raise InvalidParameter(
                    f"the handle is for the queue {remote.name}, but the request is for {excerpt(name)}"
                )
            yield remote

    async def close_handle(self, identifier: str, remote: "RemoteQueue | None") -> None:
        """Close a handle, and its cursors with it, so that they do not count until they expire."""
        for key, cursor in self.cursors.items():
            if cursor.handle == identifier:
                self.cursors.drop(key)
        if remote is not None:
            await remote.close()
        else:
            self.start(CloseQueue(identifier=identifier))

    async def close_cursor(self, identifier: str, cursor: "OpenedCursor") -> None:
        await cursor.close(self, identifier)

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
    ) -> Iterator[str | UnsetType]:  # fmt: skip
        """The id of the transaction of a request, if it has one."""
        if identifier is UNSET:
            if begin_s is not UNSET:
                raise InvalidParameter("`begin_s` requires the id of the transaction")
            yield UNSET
            return
        with self.transactions.using(identifier, self.caller, None if begin_s is UNSET else begin_s) as transaction:
            yield transaction


class OpenedCursor:
    """An open cursor. `handle` is the id of the exclusive open that it belongs to, or None."""

    __slots__ = ("_end", "handle", "remote")

    def __init__(
        self, remote: RemoteCursor | None, handle: str | None, end: Callable[[], None] = lambda: None
    ) -> None:  # fmt: skip
        """`remote` is None for a queue of this computer. `end` is called when the cursor closes."""
        self._end: Final = end
        self.remote: Final = remote
        self.handle: Final = handle

    async def close(self, service: Service, identifier: str) -> None:
        self._end()
        if self.remote is not None:
            await self.remote.close()
        else:
            with suppress(InvalidHandle):
                service.start(CloseCursor(identifier=identifier))


def behind(scope: Scope) -> asyncio.Event:
    """An event that is set when another request comes behind the one with this scope."""
    extension = (scope.get("extensions") or {}).get(BEHIND)
    found: asyncio.Event = asyncio.Event() if extension is None else extension[EVENT]
    return found


async def client_gone(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Client(Protocol):
    """The client that waits for the answer to a request."""

    @property
    def is_hurried(self) -> bool:
        """Whether the wait must end now, with the messages that have come."""

    @property
    def leaves_at_once(self) -> bool:
        """Whether its wait ends at the moment when it leaves, before anything else can happen."""

    @property
    def is_gone(self) -> bool: ...

    async def wait(self, coroutine: Coroutine[object, None, T], /) -> T | None:
        """The result of the coroutine; None if it was cancelled because the client left."""


class AsgiClient:
    """A Client over ASGI. It notices that the client is gone only during `wait`.

    With a `scope`, another request behind this one ends the wait: the connection reads nothing more until this one is
    answered, and would not notice that the client is gone.
    """

    __slots__ = ("_behind", "_receive", "is_gone", "leaves_at_once")

    def __init__(self, receive: Receive, scope: Scope | None = None) -> None:
        self._receive: Final = receive
        self._behind: Final = asyncio.Event() if scope is None else behind(scope)
        self.is_gone = False
        self.leaves_at_once = False

    @property
    def is_hurried(self) -> bool:
        return self._behind.is_set()

    async def wait(self, coroutine: Coroutine[object, None, T], /) -> T | None:
        loop = asyncio.get_running_loop()
        gone, task = loop.create_task(client_gone(self._receive)), loop.create_task(coroutine)
        hurried = loop.create_task(self._behind.wait())
        try:
            await asyncio.wait({task, gone, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.is_gone = gone.done()
            gone.cancel()
            hurried.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()
