"""Transports to a host that only exchanges messages.

An event loop runs all operations; the transport for threads has one in a separate thread.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType

from waypost.api.events import Events
from waypost.api.messages import Received, Sent
from waypost.api.names import Name
from waypost.api.opened import Handle
from waypost.api.operations import (
    Browse,
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    DeleteMessage,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Read,
    Receive,
    Send,
    checked,
)
from waypost.api.reading import lookup_number
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import HostAddress
from waypost.client.transports.msmq.outgoing import Writer
from waypost.client.transports.msmq.queue_reader import CursorReader, QueueReader
from waypost.client.transports.msmq.reader import Reader
from waypost.client.transports.msmq.sender import Sender
from waypost.client.transports.msmq.thread import HostThread
from waypost.core.message import Message
from waypost.core.queues import AccessType
from waypost.drive.new_guid import new_guid
from waypost.errors import InvalidHandle, InvalidParameter, Timeout, TransactionUsage
from waypost.guid import guid_text
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.wire.format_names import FormatName

R = TypeVar("R")
T = TypeVar("T", QueueReader, CursorReader)

_AT_CURSOR: Final[Mapping[type[CursorRead], ReceiveAction]] = {
    CursorPeek: ReceiveAction.MQ_ACTION_PEEK_CURRENT,
    CursorNext: ReceiveAction.MQ_ACTION_PEEK_NEXT,
    CursorReceive: ReceiveAction.MQ_ACTION_RECEIVE,
}


class _Msmq:
    """Common part of both transports."""

    __slots__ = ("address",)

    # The queues of the host have no short names.
    computer: Final = ""
    browses_by_cursor: Final = True
    without_transactions: Final = (
        "waypost.msmq does not support transactions, because they require a local queue manager; use waypost.open or "
        "waypost serve"
    )

    def __init__(self, address: HostAddress) -> None:
        self.address: Final = address

    def named(self, name: Name) -> FormatName:
        return self.address.source(name)

    def check(self) -> None:
        """Do nothing: only an operation finds out whether the transport is closed."""

    def _refused(self, what: str) -> InvalidParameter:
        return InvalidParameter(
            f"waypost.msmq only sends and reads messages, and does not support {what!r} at {self.address.text}; use a "
            "queue manager, with waypost.open or waypost.connect"
        )


class AioMsmq(_Msmq):
    """The transport for an event loop."""

    __slots__ = ("_cursors", "_exclusive", "_reader", "_sender", "_writer")

    def __init__(self, address: HostAddress, access: Access) -> None:
        super().__init__(address)
        self._writer: Final = Writer(address)
        self._sender: Final = Sender(address)
        self._reader: Final = Reader(address, access)
        # By identifiers, until they are closed.
        self._exclusive: Final[dict[str, QueueReader]] = {}
        self._cursors: Final[dict[str, CursorReader]] = {}

    async def call(self, operation: Operation[R], /) -> R:
        return checked(operation, await self._perform(operation))

    async def start(self, operation: Operation[None], /) -> None:
        await self.call(operation)

    async def cancel(self, name: str) -> None:
        await self._queue(name).close()

    async def events(self, wanted: Events, _timeout_s: float, /) -> AsyncGenerator[Message, None]:
        raise self._refused(f"events of {wanted.name}")

    async def close(self) -> None:
        await asyncio.gather(self._sender.close(), self._reader.close())

    async def _perform(self, operation: Operation[object]) -> object:
        match operation:
            case Send() | Read() | MoveMessage() | CursorRead() if operation.transaction is not UNSET:
                raise TransactionUsage(self.without_transactions)
            case Send():
                if operation.like is UNSET or operation.messages:
                    raise InvalidParameter("a send requires `like`, and at least one body in `bodies`")
                to = self.address.destination(operation.name)
                return Sent(await self._sender.send(self._writer.outgoing(to, operation.bodies, operation.like)))
            case Receive():
                return Received(await self._queue(operation.name, operation.handle).receive(operation))
            case Peek():
                return Received(await self._queue(operation.name, operation.handle).peek(operation))
            case DeleteMessage():
                await self._queue(operation.name).receive(Receive(name=operation.name, lookup_id=operation.number))
            case MoveMessage():
                to = self.named(operation.to)
                await self._queue(operation.name).move(lookup_number(operation.lookup_id), to)
            case PurgeQueue():
                await self._queue(operation.name).purge()
            case OpenQueue():
                queue = self._reader.exclusive_queue(self.named(operation.queue))
                try:
                    await queue.handle(AccessType.RECEIVE)
                except asyncio.CancelledError:
                    # A cancelled caller could not close the handle that the host opens.
                    self._reader.start(queue.close())
                    raise
                return _add(self._exclusive, queue)
            case CloseQueue():
                queue = self._queue("", operation.identifier)
                del self._exclusive[operation.identifier]
                await queue.close()
            case _:
                return await self._go_through(operation)
        return None

    async def _go_through(self, operation: Operation[object]) -> object:
        """Run an operation on cursors."""
        match operation:
            case Browse():
                return await self._browse(operation)
            case OpenCursor():
                queue = self._queue(operation.queue, operation.handle)
                return _add(self._cursors, queue.cursor(AccessType.RECEIVE))
            case CursorRead():
                cursor = self._cursor(operation.identifier)
                return Received([await cursor.read(_AT_CURSOR[type(operation)], operation.timeout_s)])
            case CloseCursor():
                await self._close_cursor(operation.identifier)
            case _:
                raise self._refused(operation.row.words)
        return None

    async def _browse(self, operation: Browse) -> Received:
        """Browse with one message for each page. The place is a cursor, which is closed after the last message."""
        place = operation.after
        action = ReceiveAction.MQ_ACTION_PEEK_NEXT
        if not place:
            place = _add(self._cursors, self._queue(operation.name).cursor(AccessType.PEEK)).id
            action = ReceiveAction.MQ_ACTION_PEEK_CURRENT
        try:
            return Received([await self._cursor(place).read(action, 0)], place)
        except Timeout:
            await self._close_cursor(place)
            return Received([])
        except BaseException:
            await self._close_cursor(place)
            raise

    async def _close_cursor(self, identifier: str) -> None:
        cursor = self._cursor(identifier)
        del self._cursors[identifier]
        await cursor.close()

    def _queue(self, name: str, handle: str | UnsetType = UNSET) -> QueueReader:
        """The shared reader of a queue, or the exclusive one of a handle."""
        if handle is UNSET:
            return self._reader.queue(self.named(name))
        if handle not in self._exclusive:
            raise InvalidHandle("the queue was closed; the next use opens it again")
        return self._exclusive[handle]

    def _cursor(self, identifier: str) -> CursorReader:
        if identifier not in self._cursors:
            raise InvalidHandle("the cursor was closed; get a new cursor with queue.cursor()")
        return self._cursors[identifier]


class Msmq(_Msmq):
    """The transport for threads."""

    __slots__ = ("_aio", "_thread")

    def __init__(self, address: HostAddress, access: Access) -> None:
        super().__init__(address)
        self._aio: Final = AioMsmq(address, access)
        self._thread: Final = HostThread(address.text)

    def call(self, operation: Operation[R], /) -> R:
        return self._thread.run(self._aio.call, operation)

    def start(self, operation: Operation[None], /) -> None:
        self.call(operation)

    def cancel(self, name: str) -> None:
        self._thread.run(self._aio.cancel, name)

    def events(self, wanted: Events, _timeout_s: float, /) -> Generator[Message, None, None]:
        raise self._refused(f"events of {wanted.name}")

    def close(self) -> None:
        self._thread.close(self._aio.close)


def _add(opened: dict[str, T], found: T) -> Handle:
    """Keep an open object under a new identifier."""
    identifier = guid_text(new_guid())
    opened[identifier] = found
    return Handle(identifier, 0.0)
