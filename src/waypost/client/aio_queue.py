"""Queue and Cursor for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from waypost.api.events import Events
from waypost.api.names import Name, check_can_be_sent_to, journal_name, short_name, subqueue_name
from waypost.api.new_bodies import Body, encode_bodies, encode_body
from waypost.api.operations import (
    Browse,
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    PauseQueue,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    ResumeQueue,
    Seek,
    Send,
    SetQueue,
    ShowQueue,
)
from waypost.api.properties import MessageProperties, QueueInfo, QueueProperties
from waypost.client.aio_lease import Lease
from waypost.client.aio_transaction import Transaction, call_in, joined
from waypost.client.aio_with_properties import QueueSender, QueueSetter
from waypost.client.arguments import (
    event_id,
    how_many,
    lease_limit,
    lookup_id_of,
    seconds,
    sought,
    warn_of_ignored,
    with_body_type,
)
from waypost.client.message import Message, sent_message, sent_together
from waypost.client.packet_files import PacketFile, write_packets
from waypost.client.transports import AioCarrier
from waypost.errors import (
    InvalidHandle,
    QueueNotFound,
    ServiceNotAvailable,
    Timeout,
    WaypostError,
)
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from waypost.api.messages import Copies
    from waypost.client.aio_host import Host
    from waypost.client.aio_manager import Manager
    from waypost.core.message import Message as CoreMessage

R = TypeVar("R")


class Queue(QueueSender, QueueSetter):
    """A queue: `manager.queue(name)` gives it, and `manager.create_queue(name)` creates it first.

    A queue object opens nothing before its first use, so it is cheap, and a name without a queue
    raises QueueNotFound then. Tasks of its event loop may share it.

    Every method raises a WaypostError that says what is wrong; for example StoreFull while the disk has no room: then
    nothing was done, unless the error says that the change is kept, and is stored when there is room.
    """

    __slots__ = (
        "_forget",
        "_handle",
        "_is_exclusive",
        "_name",
        "_opening",
        "_outgoing",
        "_text",
        "_transport",
        "manager",
    )

    def __init__(
        self,
        manager: "Manager | Host",
        transport: AioCarrier,
        name: FormatName,
        forget: "Callable[[FormatName, Queue], None]",
        *,
        exclusive: bool = False,
        outgoing: bool = False,
    ) -> None:
        """`forget` is called when no queue has the name."""
        self.manager: Final = manager
        self._forget: Final = forget
        self._transport: Final = transport
        self._name: Final = name
        # The name in operations.
        self._text: Final = str(name)
        self._outgoing: Final = outgoing
        self._is_exclusive: Final = exclusive
        # Handle of an exclusive open.
        self._handle: str | UnsetType = UNSET
        self._opening: Final = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The shortest name of the queue on this computer: 'orders', 'orders;retry', 'system$;deadletter', ..."""
        return short_name(self._name, self._transport.computer)

    @property
    def format_name(self) -> str:
        """The format name. Other computers use it for a queue of this one."""
        return self._text

    async def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        data, body_type = encode_body(body, properties.body_type)
        return sent_message((await self._send([data], with_body_type(properties, body_type), transaction))[0])

    async def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        encoded, body_type = encode_bodies(bodies, properties.body_type)
        if not encoded:
            joined(transaction, self._transport)
            return []
        return sent_together(await self._send(encoded, with_body_type(properties, body_type), transaction))

    async def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: "Transaction | None" = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        """Take the first message out of the queue, and return it when its removal is on disk.

        It waits for a message for `timeout` seconds (default: no limit), then raises Timeout; with 0 it does not wait.
        In a transaction the message is only locked: a commit removes it, and an abort gives it back with its
        `abort_count` raised.

        With a `lookup_id` it takes that message; with `seek="next"` or "previous", the one after or before it;
        `seek="first"` and "last" need no `lookup_id`. It does not wait then, and raises MessageNotFound if the message
        is not there or a transaction holds it, or MessageAlreadyReceived if it was received while a cursor was on it.

        Outside a transaction a message is received at most once: if the call is interrupted or cancelled while the
        removal is being written to disk, or the process ends then, the message is lost. To prevent that, receive in a
        transaction.
        """
        return Message((await self._receive(1, timeout, transaction, lookup_id, seek))[0])

    async def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Take up to `count` messages, in their order, with one flush to disk.

        It takes the messages that are in the queue, without waiting. If the queue is empty, it waits for one message,
        as `receive` does.
        """
        return [Message(each) for each in await self._receive(how_many(count), timeout, transaction, None, None)]

    async def lease(self, count: int, timeout: float | None = None, *, lease_s: float) -> Lease:
        """Take up to `count` messages under a lease of `lease_s` seconds, at most an hour.

            async with await orders.lease(10, lease_s=30) as lease:
                for message in lease:
                    print(message.text)

        It takes the messages that are in the queue, without waiting. If the queue is empty, it waits for one message,
        as `receive` does, and raises Timeout. The messages stay locked until `acknowledge` removes them, `release`
        gives them back, or the time is over. A lease is a transaction with a time limit, here as over HTTP, so the
        queues of `waypost.msmq` have none.
        """
        number, transaction = how_many(count), Transaction(self._transport, lease_limit(lease_s))
        try:
            found = await self._receive(number, timeout, transaction, None, None)
        except BaseException:
            # Give back any messages that were taken.
            with suppress(WaypostError):
                await transaction.abort()
            raise
        return Lease(transaction, [Message(each) for each in found])

    async def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Return the first message and leave it in the queue. The arguments are those of `receive`.

        It skips messages that a transaction holds; with the `lookup_id` of such a message it raises TransactionUsage.
        """
        number, word = sought(lookup_id, seek)
        peek = Peek(
            name=self._text,
            outgoing=self._outgoing,
            timeout_s=0 if number is not UNSET or word is not UNSET else seconds(timeout),
            lookup_id=number,
            seek=word,
            handle=self._handle,
            form="packet",
        )
        return Message((await self._call(peek)).messages[0])

    async def browse(self) -> AsyncIterator[Message]:
        """Return all messages in their order, and leave them in the queue. Others may receive them meanwhile."""
        wanted = Browse(name=self._text, outgoing=self._outgoing, form="packet")
        page = await self._call(wanted)
        try:
            for each in page.messages:
                yield Message(each)
            while page.next:
                page = await self._call(replace(wanted, after=page.next))
                for each in page.messages:
                    yield Message(each)
        finally:
            if page.next and self._transport.browses_by_cursor:
                with suppress(InvalidHandle, ServiceNotAvailable):
                    await self._transport.start(CloseCursor(identifier=page.next))

    async def follow(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """Receive message after message, until none has come for `timeout` seconds (default: without end).

        The queue no longer has a message when the program gets it. If a failure of the program must not lose messages,
        use `receive` in a transaction instead.
        """
        while True:
            try:
                message = await self.receive(timeout)
            except Timeout:
                return
            yield message

    async def events(
        self, since: Message | int | Literal["start"] | None = None, timeout: float | None = None
    ) -> AsyncIterator[Message]:
        """Return every message that comes, in the order of arrival, and leave all in the queue.

            async for message in await orders.events():
                print(message.label)

        It ends when no message has come for `timeout` seconds (default: never). It begins with the messages that come
        after this call; `since="start"` begins with the first message in the queue, and `since=message`, or its
        `lookup_id`, after this message: a program that notes the last one and continues there misses no message that
        is still in the queue. Messages of a transaction come when it commits. HTTP has the same event stream; `follow`
        receives instead.

        Raises QueueNotFound when the queue is deleted, and ConnectionLost if the stream from a daemon breaks.
        """
        wanted = Events(name=self._text, since=event_id(since), form="packet")
        wait = seconds(timeout)
        try:
            found = await self._transport.events(wanted, wait)
        except QueueNotFound:
            self._forget(self._name, self)
            raise
        return _shown(found)

    def cursor(self) -> "Cursor":
        """A cursor at the start of the queue, to look through its messages and receive some of them."""
        return Cursor(self._transport, self._open_cursor)

    async def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, or the one with this lookup id, to a subqueue, or back, with all its properties.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. The `move_count` of the
        message rises by one. Raises MessageNotFound if the message is not there or a transaction holds it.
        """
        number, target = lookup_id_of(message, "move"), str(self._transport.named(to))
        identifier, begin_s = joined(transaction, self._transport)
        move = MoveMessage(
            name=self._text,
            lookup_id=number,
            to=target,
            transaction=identifier,
            begin_s=begin_s,
            outgoing=self._outgoing,
        )
        await self._call(move, transaction)

    async def move_all(self, to: Name, *, progress: Callable[[int], object] | None = None) -> int:
        """Move all messages that are there now to a subqueue, or back, and return their number.

        It moves some hundred at a time, and others use both queues meanwhile: each message is always in one of them,
        even if this process or the daemon ends in the middle; another call moves the rest. Messages that a transaction
        holds stay. `progress` is called after each part with its number of messages.
        """
        wanted = MoveAll(name=self._text, to=str(self._transport.named(to)), outgoing=self._outgoing)
        part = await self._call(wanted)
        moved = part.moved
        while True:
            if progress is not None:
                progress(part.moved)
            if not part.next:
                return moved
            part = await self._call(replace(wanted, after=int(part.next), up_to=int(part.up_to)))
            moved += part.moved

    async def export_messages(self, file: PacketFile, messages: Iterable[Message] | None = None) -> list[Message]:
        """Write messages to a file, as packets in the form of the network protocol, and leave them in the queue.

            orders.export_messages("orders.packets")

        `file` is a name or an open binary file. `messages` are the messages to write (default: all of the queue).
        Returns them. `Manager.import_messages` sends the messages of the file, and `waypost decode` shows them.
        """
        chosen = [message async for message in self.browse()] if messages is None else list(messages)
        await asyncio.to_thread(write_packets, file, chosen)
        return chosen

    async def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Receive a message, or the one with this lookup id, and send it again, in one atomic step.

        It goes to the queue `to` (default: its original destination). Returns the new message, with a new `id` and the
        same content; a message that was sent in a transaction is sent in one again. Raises TransactionUsage if only one
        of the message and the queue is transactional.
        """
        target: str | UnsetType = UNSET
        if to is not None:
            name = self._transport.named(to)
            check_can_be_sent_to(name)
            target = str(name)
        number = lookup_id_of(message, "resend")
        wanted = Resend(name=self._text, lookup_id=number, to=target, form="packet", outgoing=self._outgoing)
        return sent_message((await self._call(wanted)).messages[0])

    async def delete_message(self, message: Message | int) -> None:
        """Remove a message, or the one with this lookup id, from the queue, as `receive` does."""
        number = lookup_id_of(message, "delete")
        await self._call(DeleteMessage(name=self._text, number=str(number), outgoing=self._outgoing))

    async def purge(self) -> None:
        """Delete all messages. A message that a transaction holds is deleted if the transaction gives it back."""
        await self._call(PurgeQueue(name=self._text, outgoing=self._outgoing))

    @property
    def journal(self) -> "Queue":
        """The journal queue: copies of the received messages, if the queue has `journal=True`."""
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        """A subqueue. The first message moved to it, or the first read from it, creates it."""
        return self.manager.queue(str(subqueue_name(self._name, name)))

    async def info(self) -> QueueInfo:
        """The number of messages and all properties of the queue, at this moment."""
        return await self._call(ShowQueue(name=self._text))

    async def set_record(self, properties: QueueProperties) -> None:
        found = await self._call(SetQueue(name=self._text, **asdict(properties)))
        warn_of_ignored(found.notes)

    async def pause(self) -> None:
        """Stop the transfer from an outgoing queue until `resume`. It still takes messages, which wait there."""
        await self._call(PauseQueue(name=self._text))

    async def resume(self) -> None:
        """Start the transfer from an outgoing queue again."""
        await self._call(ResumeQueue(name=self._text))

    async def delete(self) -> None:
        """Delete the queue with its messages, subqueues and journal. Reads that wait on it raise QueueDeleted."""
        await self._call(DeleteQueue(name=self._text))
        self._forget(self._name, self)

    async def close(self) -> None:
        """Close the queue object. Reads that wait raise OperationCancelled; the next use opens the queue again.

        All callers of `manager.queue(name)` share the object, so this ends the waits of all of them.
        """
        with suppress(InvalidHandle, ServiceNotAvailable):
            if not self._is_exclusive:
                await self._transport.cancel(self._text)
            handle, self._handle = self._handle, UNSET
            if handle is not UNSET:
                await self._transport.start(CloseQueue(identifier=handle))

    async def _send(
        self, bodies: list[bytes], like: MessageProperties, transaction: "Transaction | None"
    ) -> "list[CoreMessage] | list[CoreMessage | Copies]":
        identifier, begin_s = joined(transaction, self._transport)
        send = Send(
            name=self._text, like=like, bodies=bodies, transaction=identifier, begin_s=begin_s, answer="ids"
        )  # fmt: skip
        return (await self._call(send, transaction)).messages

    async def _receive(
        self,
        count: int,
        timeout: float | None,
        transaction: "Transaction | None",
        lookup_id: int | None,
        seek: Seek | None,
    ) -> "list[CoreMessage]":
        number, word = sought(lookup_id, seek)
        wait = seconds(timeout)
        identifier, begin_s = joined(transaction, self._transport)
        receive = Receive(
            name=self._text,
            outgoing=self._outgoing,
            count=count,
            timeout_s=0 if number is not UNSET or word is not UNSET else wait,
            transaction=identifier,
            begin_s=begin_s,
            lookup_id=number,
            seek=word,
            handle=await self._opened(),
            form="packet",
        )
        return (await self._call(receive, transaction)).messages

    async def _call(self, operation: Operation[R], transaction: "Transaction | None" = None) -> R:
        try:
            return await call_in(transaction, self._transport, operation)
        except QueueNotFound:
            self._forget(self._name, self)
            raise

    async def _opened(self) -> str | UnsetType:
        """The handle of an exclusive open, from the first receive on."""
        if not self._is_exclusive or self._handle is not UNSET:
            return self._handle
        async with self._opening:
            if self._handle is UNSET:
                self._handle = (await self._call(OpenQueue(queue=self._text))).id
            return self._handle

    async def _open_cursor(self) -> str:
        return (await self._call(OpenCursor(queue=self._text, outgoing=self._outgoing, handle=await self._opened()))).id


class Cursor:
    """A place in a queue: `queue.cursor()` gives it. It is for one task at a time.

    `timeout` is the number of seconds to wait for a message after the last; None has no limit, and 0 does not wait.
    Reads raise Timeout when the time is over.
    """

    __slots__ = ("_id", "_open", "_transport")

    def __init__(self, transport: AioCarrier, open_cursor: Callable[[], Awaitable[str]]) -> None:
        self._transport: Final = transport
        self._open: Final = open_cursor
        # None before the first use.
        self._id: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def peek(self, timeout: float | None = None) -> Message:
        """Return the message at the cursor. A new cursor, and one after a receive, moves to the next message first.

        Raises MessageAlreadyReceived if another reader has received it; `peek_next` then moves on.
        """
        return await self._read(CursorPeek, timeout, None)

    async def peek_next(self, timeout: float | None = None) -> Message:
        """Move to the next message and return it. Raises IllegalCursorAction before the first `peek`."""
        return await self._read(CursorNext, timeout, None)

    async def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        """Receive the message at the cursor. Transactions have the same effect as in `Queue.receive`."""
        return await self._read(CursorReceive, timeout, transaction)

    async def close(self) -> None:
        """Close the cursor. If it is used again, it starts from the first message."""
        identifier, self._id = self._id, None
        if identifier is not None:
            with suppress(InvalidHandle, ServiceNotAvailable):
                await self._transport.start(CloseCursor(identifier=identifier))

    async def _read(self, kind: type[CursorRead], timeout: float | None, transaction: "Transaction | None") -> Message:
        wait = seconds(timeout)
        identifier, begin_s = joined(transaction, self._transport)
        if self._id is None:
            self._id = await self._open()
        read = kind(identifier=self._id, timeout_s=wait, transaction=identifier, begin_s=begin_s, form="packet")
        found = await call_in(transaction, self._transport, read)
        return Message(found.messages[0])


async def _shown(found: "AsyncGenerator[CoreMessage, None]") -> AsyncIterator[Message]:
    async with aclosing(found):
        async for each in found:
            yield Message(each)
