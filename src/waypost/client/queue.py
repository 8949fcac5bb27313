"""Queue and Cursor, for programs that wait in threads."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, Self, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

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
from waypost.client.arguments import (
    how_many,
    lookup_id_of,
    seconds,
    sought,
    warn_of_ignored,
    with_body_type,
)
from waypost.client.message import Message, sent_message, sent_together
from waypost.client.packet_files import PacketFile, write_packets
from waypost.client.transaction import Transaction, call_in, joined
from waypost.client.transports import Carrier
from waypost.client.with_properties import QueueSender, QueueSetter
from waypost.errors import (
    InvalidHandle,
    QueueNotFound,
    ServiceNotAvailable,
    Timeout,
)
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.api.messages import Copies
    from waypost.client.host import Host
    from waypost.client.manager import Manager
    from waypost.core.message import Message as CoreMessage

R = TypeVar("R")


class Queue(QueueSender, QueueSetter):
    """A queue, from `manager.queue(name)` or `manager.create_queue(name)`.

    The queue is opened when it is first used, so a queue object is cheap, and an unknown name raises QueueNotFound at
    that time. Threads can share it.

    Every method may raise a WaypostError with a sentence that says what is wrong. StoreFull means that the disk is full
    and that nothing was done.
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
        transport: Carrier,
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
        self._opening: Final = Lock()

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Shortest name of the queue on this computer: 'orders', 'orders;retry', 'system$;deadletter', ..."""
        return short_name(self._name, self._transport.computer)

    @property
    def format_name(self) -> str:
        """Format name of the queue: the name that other computers use."""
        return self._text

    def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        data, body_type = encode_body(body, properties.body_type)
        return sent_message(self._send([data], with_body_type(properties, body_type), transaction)[0])

    def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        encoded, body_type = encode_bodies(bodies, properties.body_type)
        if not encoded:
            joined(transaction, self._transport)
            return []
        return sent_together(self._send(encoded, with_body_type(properties, body_type), transaction))

    def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: "Transaction | None" = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        """Receive the first message: remove it from the queue, and return it when the removal is on disk.

        Wait for a message for `timeout` seconds (default: no limit), and then raise Timeout; 0 does not wait. In a
        transaction the message is only locked: a commit removes it, and an abort returns it with a higher
        `abort_count`.

        With a `lookup_id`, receive that message, or the "next" or "previous" one with `seek`; `seek="first"` and "last"
        need no `lookup_id`. This does not wait. It raises MessageNotFound if the message does not exist or a
        transaction holds it, and MessageAlreadyReceived if another reader has received the message at the cursor.

        Outside a transaction a message is received at most once: it is lost if the call is interrupted or cancelled, or
        the process ends, while the removal is being written to disk. Receive in a transaction if no message may be
        lost.
        """
        return Message(self._receive(1, timeout, transaction, lookup_id, seek)[0])

    def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Receive up to `count` messages, in their order, with one flush to disk.

        Messages that are in the queue are returned at once. If the queue is empty, wait for one message, as `receive`
        does.
        """
        return [Message(each) for each in self._receive(how_many(count), timeout, transaction, None, None)]

    def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Return the first message and leave it in the queue. The arguments are those of `receive`.

        A message that a transaction holds is skipped; with its `lookup_id`, it raises TransactionUsage.
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
        return Message(self._call(peek).messages[0])

    def browse(self) -> Iterator[Message]:
        """Iterate over all messages in their order, without waiting for more. They stay in the queue; others may
        receive them meanwhile.
        """
        wanted = Browse(name=self._text, outgoing=self._outgoing, form="packet")
        page = self._call(wanted)
        try:
            yield from map(Message, page.messages)
            while page.next:
                page = self._call(replace(wanted, after=page.next))
                yield from map(Message, page.messages)
        finally:
            if page.next and self._transport.browses_by_cursor:
                with suppress(InvalidHandle, ServiceNotAvailable):
                    self._transport.start(CloseCursor(identifier=page.next))

    def follow(self, timeout: float | None = None) -> Iterator[Message]:
        """Receive message after message, without end, or until none comes for `timeout` seconds.

        A message leaves the queue before you see it. If no message may be lost when your program fails, use `receive`
        in a transaction instead.
        """
        while True:
            try:
                message = self.receive(timeout)
            except Timeout:
                return
            yield message

    def cursor(self) -> "Cursor":
        """Return a cursor at the start of the queue, to walk through it and receive messages on the way."""
        return Cursor(self._transport, self._open_cursor)

    def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, given as an object or by its lookup id, to a subqueue or back.

        `to` is the name of the other queue, such as 'orders;retry', or its queue object. The `move_count` of the
        message counts its moves. Raises MessageNotFound if the message is not there or a transaction holds it.
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
        self._call(move, transaction)

    def move_all(self, to: Name, *, progress: Callable[[int], object] | None = None) -> int:
        """Move all messages that are in the queue now to a subqueue or back, and return their number.

        They are moved a few hundred at a time, and others can use both queues meanwhile. Each message is always in one
        of the queues, even if this process or the daemon ends in between; another call moves the rest. Messages that a
        transaction holds stay. `progress` is called with the number of messages after each part.
        """
        wanted = MoveAll(name=self._text, to=str(self._transport.named(to)), outgoing=self._outgoing)
        part = self._call(wanted)
        moved = part.moved
        while True:
            if progress is not None:
                progress(part.moved)
            if not part.next:
                return moved
            part = self._call(replace(wanted, after=int(part.next), up_to=int(part.up_to)))
            moved += part.moved

    def export_messages(self, file: PacketFile, messages: Iterable[Message] | None = None) -> list[Message]:
        """Write the packets of messages to a file, and leave the messages in the queue.

            orders.export_messages("orders.packets")

        `file` is a name or an open binary file. `messages` selects the messages (default: all). They are returned.
        `Manager.import_messages` sends the messages of the file, and `waypost decode` shows it.
        """
        chosen = list(self.browse() if messages is None else messages)
        write_packets(file, chosen)
        return chosen

    def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Receive a message, given as an object or by its lookup id, and send it again: both or neither.

        It goes to the queue `to`, or to its original destination. The new message is returned; it has a new `id` and
        the same content, and a transactional message stays transactional. Raises TransactionUsage if only one of the
        message and the queue is transactional.
        """
        target: str | UnsetType = UNSET
        if to is not None:
            name = self._transport.named(to)
            check_can_be_sent_to(name)
            target = str(name)
        number = lookup_id_of(message, "resend")
        wanted = Resend(name=self._text, lookup_id=number, to=target, form="packet", outgoing=self._outgoing)
        return sent_message(self._call(wanted).messages[0])

    def delete_message(self, message: Message | int) -> None:
        """Delete a message, given as an object or by its lookup id, as `receive` does."""
        number = lookup_id_of(message, "delete")
        self._call(DeleteMessage(name=self._text, number=str(number), outgoing=self._outgoing))

    def purge(self) -> None:
        """Delete all messages. A message that a transaction holds is deleted when the transaction returns it."""
        self._call(PurgeQueue(name=self._text, outgoing=self._outgoing))

    @property
    def journal(self) -> "Queue":
        """The journal: copies of received messages, if the queue was created with `journal=True`."""
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        """Return a subqueue. It is created when a message is moved there or it is first read."""
        return self.manager.queue(str(subqueue_name(self._name, name)))

    def info(self) -> QueueInfo:
        """Return the number of messages, and everything else about the queue, as of now."""
        return self._call(ShowQueue(name=self._text))

    def set_record(self, properties: QueueProperties) -> None:
        found = self._call(SetQueue(name=self._text, **asdict(properties)))
        warn_of_ignored(found.notes)

    def pause(self) -> None:
        """Hold an outgoing queue until `resume`. Messages can still be sent to it, and wait there."""
        self._call(PauseQueue(name=self._text))

    def resume(self) -> None:
        """Continue an outgoing queue after `pause`."""
        self._call(ResumeQueue(name=self._text))

    def delete(self) -> None:
        """Delete the queue with its messages, subqueues and journal. Waiting reads raise QueueDeleted."""
        self._call(DeleteQueue(name=self._text))
        self._forget(self._name, self)

    def close(self) -> None:
        """Close the queue. Waiting reads raise OperationCancelled; the next use opens it again.

        All users of `manager.queue(name)` share this object, so the waits of all of them end.
        """
        with suppress(InvalidHandle, ServiceNotAvailable):
            if not self._is_exclusive:
                self._transport.cancel(self._text)
            handle, self._handle = self._handle, UNSET
            if handle is not UNSET:
                self._transport.start(CloseQueue(identifier=handle))

    def _send(
        self, bodies: list[bytes], like: MessageProperties, transaction: "Transaction | None"
    ) -> "list[CoreMessage] | list[CoreMessage | Copies]":
        identifier, begin_s = joined(transaction, self._transport)
        send = Send(
            name=self._text, like=like, bodies=bodies, transaction=identifier, begin_s=begin_s, answer="ids"
        )  # fmt: skip
        return self._call(send, transaction).messages

    def _receive(
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
            handle=self._opened(),
            form="packet",
        )
        return self._call(receive, transaction).messages

    def _call(self, operation: Operation[R], transaction: "Transaction | None" = None) -> R:
        try:
            return call_in(transaction, self._transport, operation)
        except QueueNotFound:
            self._forget(self._name, self)
            raise

    def _opened(self) -> str | UnsetType:
        """The handle of an exclusive open, from the first receive on."""
        if not self._is_exclusive or self._handle is not UNSET:
            return self._handle
        with self._opening:
            if self._handle is UNSET:
                self._handle = self._call(OpenQueue(queue=self._text)).id
            return self._handle

    def _open_cursor(self) -> str:
        return self._call(OpenCursor(queue=self._text, outgoing=self._outgoing, handle=self._opened())).id


class Cursor:
    """A place in a queue, from `queue.cursor()`. Only one thread may use it at a time.

    At the end of the queue, the methods wait for a new message for `timeout` seconds and then raise Timeout. None waits
    without a limit, and 0 does not wait.
    """

    __slots__ = ("_id", "_open", "_transport")

    def __init__(self, transport: Carrier, open_cursor: Callable[[], str]) -> None:
        self._transport: Final = transport
        self._open: Final = open_cursor
        # Once it is used.
        self._id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def peek(self, timeout: float | None = None) -> Message:
        """Return the message at the cursor: first, and after a receive, the next message.

        Raises MessageAlreadyReceived if another reader has received it; `peek_next` continues.
        """
        return self._read(CursorPeek, timeout, None)

    def peek_next(self, timeout: float | None = None) -> Message:
        """Move to the next message and return it. Raises IllegalCursorAction before the first `peek`."""
        return self._read(CursorNext, timeout, None)

    def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        """Receive the message at the cursor; see `Queue.receive` for transactions."""
        return self._read(CursorReceive, timeout, transaction)

    def close(self) -> None:
        """Close the cursor. If it is used again, it starts from the first message."""
        identifier, self._id = self._id, None
        if identifier is not None:
            with suppress(InvalidHandle, ServiceNotAvailable):
                self._transport.start(CloseCursor(identifier=identifier))

    def _read(self, kind: type[CursorRead], timeout: float | None, transaction: "Transaction | None") -> Message:
        wait = seconds(timeout)
        identifier, begin_s = joined(transaction, self._transport)
        if self._id is None:
            self._id = self._open()
        read = kind(identifier=self._id, timeout_s=wait, transaction=identifier, begin_s=begin_s, form="packet")
        found = call_in(transaction, self._transport, read)
        return Message(found.messages[0])
