"""Manager, Queue, Cursor and Transaction for asyncio: waypost.client.facade with coroutines.

Whatever they do is an operation of waypost.api.operations, which a transport brings to the queue manager.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from waypost.api.damaged import DamagedInfo
from waypost.api.excerpt import excerpt
from waypost.api.explanation import Explanation
from waypost.api.names import Name, check_can_be_sent_to, format_name, journal_name, short_name, subqueue_name
from waypost.api.operations import (
    AbortTransaction,
    AdmitAddress,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CreateQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
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
    ResetSequences,
    ResumeQueue,
    RevokeAddress,
    Seek,
    Send,
    SetQueue,
    ShowQueue,
)
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.api.queues import QueueInfo
from waypost.api.sequences import DIRECTIONS, Direction, SequenceInfo, SequenceReset
from waypost.client.aio_with_properties import ManagerSender, QueueCreator, QueueSender, QueueSetter
from waypost.client.arguments import (
    how_many,
    lookup_id_of,
    seconds,
    sought,
    transaction_limit,
    warn_of_ignored,
    with_body_type,
)
from waypost.client.bodies import Body, encode_bodies, encode_body
from waypost.client.message import Message, sent_message, sent_together
from waypost.client.transports import AioTransport
from waypost.drive.new_guid import new_guid
from waypost.errors import (
    CannotConnect,
    ConnectionLost,
    InvalidHandle,
    InvalidParameter,
    OutcomeUnknown,
    QueueNotFound,
    ServiceNotAvailable,
    Timeout,
    TransactionSequence,
    WaypostError,
)
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.api.messages import Copies
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.storage.report import StoreReport
    from waypost.core.message import Message as CoreMessage

R = TypeVar("R")

# How a transaction ended whose commit got no answer.
_IN_DOUBT: Final = "in doubt"


class Manager(ManagerSender, QueueCreator):
    """A queue manager: `waypost.aio.open` gives it. Use it in an `async with` statement, or close it.

    Queues are named as everywhere in Waypost: 'orders' is the private queue of this computer, 'orders;retry' its
    subqueue, 'orders;journal' its journal; 'system$;deadletter', 'system$;deadxact' and 'system$;journal' are the
    queues of the queue manager itself; path names and format names mean what they mean to MSMQ. A queue object will do
    for a name.
    """

    __slots__ = ("_queues", "_transport")

    def __init__(self, transport: AioTransport) -> None:
        self._transport: Final = transport
        # The queue objects that were given out and not found missing.
        self._queues: Final[dict[FormatName, Queue]] = {}

    def __repr__(self) -> str:
        place = f"at {self.url}" if self._transport.path is None else f"in {self.path}"
        return f"<Manager {self.name} {place}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The name of this computer, as format names and paths have it."""
        return self._transport.computer

    @property
    def guid(self) -> str:
        """The identifier of the queue manager, made when its folder was. The ids of its messages begin with it."""
        return self._transport.guid

    @property
    def path(self) -> Path:
        """The folder of a queue manager inside this process. That of a daemon is not known here: AttributeError."""
        if self._transport.path is None:
            raise AttributeError(f"the folder of {self._transport.url} is known to the daemon alone")
        return self._transport.path

    @property
    def url(self) -> str:
        """The address of a daemon. A queue manager inside this process has none: AttributeError."""
        if self._transport.url is None:
            raise AttributeError(f"the queue manager in {self._transport.path} is no daemon, and has no address")
        return self._transport.url

    async def create_queue_record(
        self, name: Name, properties: QueueProperties, *, transactional: bool = False
    ) -> "Queue":
        format_name = self._format_name(name)
        text = name if isinstance(name, str) else str(format_name)
        create = CreateQueue(name=text, transactional=bool(transactional), **asdict(properties))
        warn_of_ignored((await self._transport.call(create)).notes)
        return self._named(format_name)

    def queue(self, name: Name, *, exclusive: bool = False) -> "Queue":
        """The queue of that name. It is not looked for before it is used.

        Who asks for the same name gets the same object, so to close it ends the waits of all who use it.
        With `exclusive` it is an object of its own that keeps others from receiving, from its first receive until it is
        closed; SharingViolation says that others are there already.
        """
        found = self._format_name(name)
        return Queue(self, self._transport, found, exclusive=True) if exclusive else self._named(found)

    def _named(self, name: FormatName) -> "Queue":
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Queue(self, self._transport, name)
        return found

    def _forget(self, queue: "Queue", name: FormatName) -> None:
        """No queue has this name: who asks for it again gets another object."""
        if self._queues.get(name) is queue:
            del self._queues[name]

    def _format_name(self, name: Name) -> FormatName:
        return format_name(name, self._transport.computer)

    async def queues(self) -> "list[Queue]":
        """The queues that were created on this computer, in the order of their names."""
        found = (await self._transport.call(ListQueues())).queues
        return [self._named(self._format_name(each.format_name)) for each in found]

    async def outgoing_queues(self) -> "list[Queue]":
        """The queues that hold what was sent to other computers until it is transferred.

        One can look into them, receive or purge what is there, and delete them.
        """
        found = (await self._transport.call(ListQueues(kind="outgoing"))).queues
        names = [self._format_name(each.format_name) for each in found]
        return [Queue(self, self._transport, name, outgoing=True) for name in names]

    async def admit_sequence_address(self, guid: str, address: str) -> int:
        """Believe what the queue manager `guid` acknowledges from this IP address, until it is revoked.

        A transactional message leaves this computer's queues only when its destination acknowledges it from an address
        that is known: where it was dialled, or that its name resolves to. What comes from elsewhere, as behind NAT, is
        kept; `waypost explain` and `waypost doctor` show it. Returns how many acknowledgments were kept from there and
        are applied now.
        """
        return (await self._transport.call(AdmitAddress(guid=guid, address=address))).believed

    async def revoke_sequence_address(self, guid: str, address: str) -> None:
        """Take back what `admit_sequence_address` has admitted. What was applied stays applied.

        Raises InvalidParameter if this address was not admitted for this queue manager.
        """
        await self._transport.call(RevokeAddress(guid=guid, address=address))

    async def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        """The GUIDs and addresses that were admitted. Those of the configuration are not among them."""
        return [(each.guid, each.address) for each in (await self._transport.call(ListAdmitted())).addresses]

    async def explain(self, subject: str) -> Explanation:
        """Say why a message is where it is, by its `id`, or what keeps the messages of a queue where they are.

        A message is found in whatever queue it is. Of one that came and was not taken, or that was handed to another
        host, the reason or the host is remembered for a while.
        """
        return await self._transport.call(Explain.of(subject))

    async def delete_queue(self, name: Name) -> None:
        """Delete a queue: see `Queue.delete`."""
        await self.queue(name).delete()

    async def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        return await self.queue(queue).send_record(body, properties, transaction)

    async def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        return await self.queue(queue).send_records(bodies, properties, transaction)

    async def sequences(
        self,
        direction: Direction | None = None,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
    ) -> AsyncIterator[SequenceInfo]:
        """The transactional sequences that are known, one after the other: there may be a million.

        direction  "out" for those of what is sent from here, "in" for what comes from others, "refused" for what came
                   and was not taken lately; None for all of them
        queue      only those of this queue, which may be an outgoing one
        source     only those of the queue manager with this GUID
        address    only those that come from this IP address
        """
        name = "" if queue is None else str(self._format_name(queue))
        for each in (direction,) if direction is not None else DIRECTIONS:
            wanted = ListSequences(direction=each, queue=name, source=source or "", address=address or "")
            page = await self._transport.call(wanted)
            for info in page.sequences:
                yield info
            while page.next:
                page = await self._transport.call(replace(wanted, after=page.next))
                for info in page.sequences:
                    yield info

    async def reset_sequences(
        self,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
        older_than: float | None = None,
        trial: bool = False,
    ) -> SequenceReset:
        """Begin transactional sequences again. Messages may come twice then: the `warning` of the result says which.

        For an outgoing `queue`, its messages that are not acknowledged get new numbers in a new sequence that begins
        now. For others, what was taken of the sequences that fit all that is given is forgotten: of a queue, of the
        `source` with this GUID, from this IP `address`, or without a message for `older_than` seconds. The next message
        of a source that is named is taken whatever comes before it.

        With `trial` nothing happens, and the result says what would.
        """
        name = None if queue is None else str(self._format_name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = await self._transport.call(wanted)
        while reset.next:
            reset = reset.joined(await self._transport.call(replace(wanted, after=reset.next)))
        return reset

    async def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        """The messages that were damaged on disk and set aside; `with_bytes` with what was found in their place.

        They are in no queue any more. `forget_damaged_messages` lets them go.
        """
        page = await self._transport.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = await self._transport.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    async def forget_damaged_messages(self) -> int:
        """Let go what is kept of damaged messages. Returns how many there were."""
        return (await self._transport.call(ForgetDamaged())).forgotten

    async def verify_store(self, *, progress: "Progress | None" = None) -> "StoreReport":
        """Look at everything that is stored: the pages of the file, every record, and the counts. Nothing is changed.

        Another process does it, while this queue manager goes on. `progress` is called with the pages that were looked
        at, and how many there are. `is_whole` of the report says whether nothing is wrong, and `damage` what is.
        `waypost.verify` does the same with a folder that no queue manager uses.
        """
        return await self._transport.verify(progress)

    async def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Copy everything that is durable, as of one moment, while the queue manager works on.

            await manager.backup("/backups/2026-11-17")

        `target` is a folder, which is made, or an open binary file, which gets the stream. Everything that was
        acknowledged before is in the backup; express messages are not. `progress` is called with the bytes that were
        written so far, and about how many there will be. `waypost.restore` makes a data folder of a backup.

        Raises BackupUnderWay if another backup is being made, and BackupError if this one broke off: then nothing of
        it is in the folder.
        """
        return await self._transport.backup(target, progress)

    async def request(self, method: str, path: str, content: object = None) -> Any:
        """Ask a daemon for what is not in the Python API, such as GET /api/status. The answer is as in its JSON."""
        return await self._transport.request(method, path, content)

    def transaction(self, timeout: float | None = None) -> "Transaction":
        """Begin a transaction over any queues of this manager: what is sent and received in it happens together.

            async with manager.transaction() as transaction:
                order = await orders.receive(transaction=transaction)
                await invoices.send(order.body, transaction=transaction)

        The end of the `async with` statement commits; an exception that leaves it aborts. A daemon aborts it when it is
        not used for `timeout` seconds, 60 if nothing is given, and TransactionSequence says so at its next use.
        """
        self._transport.check()
        return Transaction(self._transport, transaction_limit(timeout, self._transport.transaction_s))

    async def close(self) -> None:
        """Let the queue manager go. Reads that wait raise OperationCancelled, and transactions under way abort.

        One inside this process stops and lets its folder go; what is pending is written first, and express messages are
        gone. It raises a StoreError if something could not be written. A daemon runs on.
        A second time it does nothing, unless the first was interrupted: then it goes on.
        """
        await self._transport.close()


class Queue(QueueSender, QueueSetter):
    """A queue: `manager.queue(name)` gives it, and `manager.create_queue(name)` makes it first.

    Nothing is opened before it is used, so a queue object is cheap, and a name that no queue has is found out then:
    QueueNotFound. It can be shared by tasks of its event loop.

    Every method raises a WaypostError that says what is wrong. In particular: StoreFull while the disk has no room;
    then nothing was done, unless the sentence says that it is kept and will be stored when there is room.
    """

    __slots__ = ("_handle", "_is_exclusive", "_name", "_opening", "_outgoing", "_text", "_transport", "manager")

    def __init__(
        self,
        manager: Manager,
        transport: AioTransport,
        name: FormatName,
        *,
        exclusive: bool = False,
        outgoing: bool = False,
    ) -> None:
        self.manager: Final = manager
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
            _joined(transaction, self._transport)
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
        page = await self._call(Browse(name=self._text, outgoing=self._outgoing, form="packet"))
        for each in page.messages:
            yield Message(each)
        while page.next:
            page = await self._call(Browse(name=self._text, after=page.next, outgoing=self._outgoing, form="packet"))
            for each in page.messages:
                yield Message(each)

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

    def cursor(self) -> "Cursor":
        """A cursor at the start of the queue, to look through it and receive what is found on the way."""
        return Cursor(self._transport, self._open_cursor)

    async def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, or the one with this lookup id, to a subqueue, or back, with all that belongs to it.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. The message counts it in its
        `move_count`. Raises MessageNotFound if it is not there or a transaction holds it.
        """
        number, target = lookup_id_of(message, "move"), str(format_name(to, self._transport.computer))
        identifier, begin_s = _joined(transaction, self._transport)
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
        wanted = MoveAll(name=self._text, to=str(format_name(to, self._transport.computer)), outgoing=self._outgoing)
        part = await self._call(wanted)
        moved = part.moved
        while True:
            if progress is not None:
                progress(part.moved)
            if not part.next:
                return moved
            part = await self._call(replace(wanted, after=int(part.next), up_to=int(part.up_to)))
            moved += part.moved

    async def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Take a message, or the one with this lookup id, and send it once more, in one step: both are done or neither.

        It goes to the queue `to`, or to where it was sent to. The new message, which is returned, has another `id` and
        says the same; one that was sent in a transaction is sent in one again. TransactionUsage says that a queue is of
        the other kind: transactional, or not.
        """
        target: str | UnsetType = UNSET
        if to is not None:
            name = format_name(to, self._transport.computer)
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
        self.manager._forget(self, self._name)  # noqa: SLF001, of this module

    async def close(self) -> None:
        """Close what was opened for this object. Reads that wait raise OperationCancelled; the next use opens anew.

        The object is shared by all who got it from `manager.queue(name)`, and so are the waits that end.
        """
        with suppress(InvalidHandle, ServiceNotAvailable):
            if not self._is_exclusive:
                self._transport.cancel(self._text)
            handle, self._handle = self._handle, UNSET
            if handle is not UNSET:
                await self._transport.start(CloseQueue(identifier=handle))

    async def _send(
        self, bodies: list[bytes], like: MessageProperties, transaction: "Transaction | None"
    ) -> "list[CoreMessage] | list[CoreMessage | Copies]":
        identifier, begin_s = _joined(transaction, self._transport)
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
        identifier, begin_s = _joined(transaction, self._transport)
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
            return await self._transport.call(operation) if transaction is None else await transaction._call(operation)  # noqa: SLF001, of this module
        except QueueNotFound:
            self.manager._forget(self, self._name)  # noqa: SLF001, of this module
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

    def __init__(self, transport: AioTransport, open_cursor: Callable[[], Awaitable[str]]) -> None:
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
        identifier, begin_s = _joined(transaction, self._transport)
        if self._id is None:
            self._id = await self._open()
        read = kind(identifier=self._id, timeout_s=wait, transaction=identifier, begin_s=begin_s, form="packet")
        found = await self._transport.call(read) if transaction is None else await transaction._call(read)  # noqa: SLF001, of this module
        return Message(found.messages[0])


class Transaction:
    """A transaction: `manager.transaction()` begins it. Give it to what shall be part of it as `transaction=`.

    It is atomic: others see what it sent, and no more what it received, when it is committed, and never a part of it.
    The queue manager hears of it when it is used first.
    """

    __slots__ = ("_begin_s", "_id", "_is_told", "_outcome", "_transport")

    def __init__(self, transport: AioTransport, begin_s: float) -> None:
        self._transport: Final = transport
        self._id: Final = guid_text(new_guid())
        # With what it begins, until the queue manager has answered.
        self._begin_s: float | UnsetType = begin_s
        self._is_told = False
        self._outcome = ""

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._outcome or 'open'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            await self.abort()
            return
        try:
            await self.commit()
        finally:
            if self.is_open:
                await self.abort()

    @property
    def id(self) -> str:
        """Its GUID."""
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it can still be used: it is neither committed nor aborted."""
        return not self._outcome

    async def commit(self) -> None:
        """Do all of it, and return when it is on disk.

        Raises TransactionSequence if a daemon has aborted it, and ConnectionLost or OutcomeUnknown if nobody knows how
        it ended. If StoreFull leaves it open, `is_open` says so: commit again when there is room, or abort.
        """
        self._check()
        if self._is_told:
            # Of a commit that is interrupted nobody knows how it ended.
            self._outcome = _IN_DOUBT
            try:
                await self._transport.call(CommitTransaction(identifier=self._id))
            except (ConnectionLost, OutcomeUnknown):
                raise
            except TransactionSequence:
                self._outcome = "aborted"
                raise
            except WaypostError:
                self._outcome = ""
                raise
        else:
            self._transport.check()
        self._outcome = "committed"

    async def abort(self) -> None:
        """Do nothing of it. What was received goes back to its place, with its `abort_count` raised."""
        self._check()
        self._outcome = "aborted"
        if self._is_told:
            # Where nobody hears of it, or it has ended before, it ends in the same way.
            with suppress(TransactionSequence, ServiceNotAvailable):
                await self._transport.start(AbortTransaction(identifier=self._id))

    def _check(self) -> None:
        if self._outcome:
            raise TransactionSequence(f"the transaction is {self._outcome}; begin another with manager.transaction()")

    def _joined(self, transport: AioTransport) -> tuple[str, float | UnsetType]:
        """For an operation that is to be part of it: its GUID, and with what it begins if it has to."""
        if self._transport is not transport:
            raise InvalidParameter("the transaction is one of another queue manager")
        self._check()
        self._is_told = True
        return self._id, self._begin_s

    async def _call(self, operation: Operation[R]) -> R:
        """Have something done in it."""
        try:
            reply = await self._transport.call(operation)
        except (ConnectionLost, CannotConnect):
            raise
        except WaypostError:
            self._begin_s = UNSET
            raise
        self._begin_s = UNSET
        return reply


def _joined(
    transaction: "Transaction | None", transport: AioTransport
) -> tuple[str | UnsetType, float | UnsetType]:  # fmt: skip
    """What an operation says of the transaction that it shall be part of."""
    if transaction is None:
        return UNSET, UNSET
    if not isinstance(transaction, Transaction):
        raise InvalidParameter(f"a transaction is what manager.transaction() gives, not {excerpt(transaction)}")
    return transaction._joined(transport)  # noqa: SLF001, of this module
