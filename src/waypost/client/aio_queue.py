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
    """A queue: `manager.queue(name)` gives it, and `manager.create_queue(name)` makes it first.

    Nothing is opened before it is used, so a queue object is cheap, and a name that no queue has is found out then:
    QueueNotFound. It can be shared by tasks of its event loop.

    Every method raises a WaypostError that says what is wrong. In particular: StoreFull while the disk has no room;
    then nothing was done, unless the sentence says that it is kept and will be stored when there is room.
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
        """`forget` hears that no queue has the name."""
        self.manager: Final = manager
        self._forget: Final = forget
        self._transport: Final = transport
        self._name: Final = name
        # As operations have it.
        self._text: Final = str(name)
        self._outgoing: Final = outgoing
        self._is_exclusive: Final = exclusive
        # Of an exclusive open.
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
        """The shortest name that means it on this computer: 'orders', 'orders;retry', 'system$;deadletter', ..."""
        return short_name(self._name, self._transport.computer)

    @property
    def format_name(self) -> str:
        """The format name: what other computers call it, if it is a queue of this one."""
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

        It waits for a message for `timeout` seconds, for ever unless given, and raises Timeout when they are over; with
        0 it does not wait. In a transaction the message is only locked: a commit removes it, and an abort gives it back
        with its `abort_count` raised.

        With a `lookup_id` it takes that message, or the `seek` "next" or "previous" to it; `seek="first"` and "last"
        need none. Nothing is waited for then, and MessageNotFound says that it is not there or a transaction holds it;
        MessageAlreadyReceived, that somebody has received it while a cursor was on it.

        Outside a transaction a message is received at most once: if the call is interrupted or cancelled while the
        removal is being written to disk, or the process ends then, the message is lost. Receive in a transaction what
        must not be.
        """
        return Message((await self._receive(1, timeout, transaction, lookup_id, seek))[0])

    async def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Take up to `count` messages, in their order, with one flush to disk.

        What is there is taken at once. If nothing is, it waits as `receive` does, for one message.
        """
        return [Message(each) for each in await self._receive(how_many(count), timeout, transaction, None, None)]

    async def lease(self, count: int, timeout: float | None = None, *, lease_s: float) -> Lease:
        """Take up to `count` messages under a lease of `lease_s` seconds, at most an hour.

            async with await orders.lease(10, lease_s=30) as lease:
                for message in lease:
                    print(message.text)

        What is there is taken at once; if nothing is, it waits as `receive` does, for one message, and raises Timeout.
        The messages stay locked until `acknowledge`, which removes them, `release`, which gives them back, or the end
        of the time. It is an object to be ended, so it is not another argument of `receive_many`, whose messages are
        gone. A lease is a transaction with a time limit, here as over HTTP, so `waypost.msmq` has none.
        """
        number, transaction = how_many(count), Transaction(self._transport, lease_limit(lease_s))
        try:
            found = await self._receive(number, timeout, transaction, None, None)
        except BaseException:
            # Whatever was taken, or may have been, is for others again.
            with suppress(WaypostError):
                await transaction.abort()
            raise
        return Lease(transaction, [Message(each) for each in found])

    async def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Look at the first message and leave it there. The arguments are those of `receive`.

        A message that a transaction holds is passed over; asked for by its `lookup_id`, it raises TransactionUsage.
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
        """Look at all messages in their order, without waiting for more. Others may receive them meanwhile."""
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
        """Receive message after message, for ever, or until none has come for `timeout` seconds.

        A message is out of the queue before you see it. If it must not be lost when your program fails, use `receive`
        in a transaction instead.
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
        """Follow the queue: look at every message that comes, in the order of arrival, and take none.

            async for message in await orders.events():
                print(message.label)

        It goes on until no message has come for `timeout` seconds, without end unless given. It begins with what comes
        from this call on; `since="start"` begins with what is there, and `since=message`, or its `lookup_id`, behind
        this message: a program that notes the last one misses nothing that is still there when it comes again. What a
        transaction sends comes with its commit. It is the event stream of HTTP; `follow` receives instead.

        Raises QueueNotFound when the queue is deleted, and ConnectionLost if the stream of a daemon breaks off.
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
        """A cursor at the start of the queue, to look through it and receive what is found on the way."""
        return Cursor(self._transport, self._open_cursor)

    async def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, or the one with this lookup id, to a subqueue, or back, with all that belongs to it.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. The message counts it in its
        `move_count`. Raises MessageNotFound if it is not there or a transaction holds it.
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
        """Move all messages that are there now to a subqueue, or back, and return how many were moved.

        They are moved some hundred at a time, and others use both queues meanwhile: each message is in one of them,
        also if this process or the daemon ends in the middle; whoever calls again moves the rest. What a transaction
        holds stays. `progress` is called with the number of messages after each part.
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
        """Write messages into a file, as the packets that would travel, and leave them in the queue.

            orders.export_messages("orders.packets")

        `file` is a name or an open binary file. `messages` are those to write, default: all of the queue. They are
        returned. `Manager.import_messages` sends what the file holds, and `waypost decode` shows it.
        """
        chosen = [message async for message in self.browse()] if messages is None else list(messages)
        await asyncio.to_thread(write_packets, file, chosen)
        return chosen

    async def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Take a message, or the one with this lookup id, and send it once more, in one step: both are done or neither.

        It goes to the queue `to`, or to where it was sent to. The new message, which is returned, has another `id` and
        says the same; one that was sent in a transaction is sent in one again. TransactionUsage says that a queue is of
        the other kind: transactional, or not.
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
        """Remove a message, or the one with this lookup id, as `receive` does."""
        number = lookup_id_of(message, "delete")
        await self._call(DeleteMessage(name=self._text, number=str(number), outgoing=self._outgoing))

    async def purge(self) -> None:
        """Delete all messages. One that a transaction holds goes when the transaction gives it back."""
        await self._call(PurgeQueue(name=self._text, outgoing=self._outgoing))

    @property
    def journal(self) -> "Queue":
        """The journal: copies of what was received, if the queue was created with `journal=True`."""
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        """A subqueue, which comes to be when a message is moved there or somebody reads from it."""
        return self.manager.queue(str(subqueue_name(self._name, name)))

    async def info(self) -> QueueInfo:
        """How many messages it has, and everything else about it, at this moment."""
        return await self._call(ShowQueue(name=self._text))

    async def set_record(self, properties: QueueProperties) -> None:
        found = await self._call(SetQueue(name=self._text, **asdict(properties)))
        warn_of_ignored(found.notes)

    async def pause(self) -> None:
        """Let no message leave an outgoing queue until `resume`. Messages can still be sent to it, and wait there."""
        await self._call(PauseQueue(name=self._text))

    async def resume(self) -> None:
        """Let messages leave an outgoing queue again."""
        await self._call(ResumeQueue(name=self._text))

    async def delete(self) -> None:
        """Delete the queue with its messages, subqueues and journal. Reads that wait on it raise QueueDeleted."""
        await self._call(DeleteQueue(name=self._text))
        self._forget(self._name, self)

    async def close(self) -> None:
        """Close what was opened for this object. Reads that wait raise OperationCancelled; the next use opens anew.

        The object is shared by all who got it from `manager.queue(name)`, and so are the waits that end.
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

    `timeout` is None to wait for ever for a message behind the last, as everywhere, and 0 not to wait: Timeout then.
    """

    __slots__ = ("_id", "_open", "_transport")

    def __init__(self, transport: AioCarrier, open_cursor: Callable[[], Awaitable[str]]) -> None:
        self._transport: Final = transport
        self._open: Final = open_cursor
        # Once it is used.
        self._id: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def peek(self, timeout: float | None = None) -> Message:
        """Look at the message where the cursor is: at first, and after a receive, the next one that there is.

        Raises MessageAlreadyReceived if somebody has received it since; `peek_next` goes on.
        """
        return await self._read(CursorPeek, timeout, None)

    async def peek_next(self, timeout: float | None = None) -> Message:
        """Go on, and look at the message there. Raises IllegalCursorAction before the first `peek`."""
        return await self._read(CursorNext, timeout, None)

    async def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        """Receive the message where the cursor is; `Queue.receive` says what that means in a transaction."""
        return await self._read(CursorReceive, timeout, transaction)

    async def close(self) -> None:
        """Forget the place: if it is used again, it starts from the first message."""
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
