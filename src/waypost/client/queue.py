"""Queue and Cursor for programs that wait in threads."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from threading import Lock
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
    SetAcl,
    SetQueue,
    ShowAcl,
    ShowQueue,
)
from waypost.api.permissions import Acl
from waypost.api.properties import MessageProperties, QueueInfo, QueueProperties
from waypost.client.arguments import (
    Texts,
    event_id,
    how_many,
    lease_limit,
    lookup_id_of,
    seconds,
    sought,
    texts,
    warn_of_ignored,
    with_body_type,
)
from waypost.client.lease import Lease
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
    WaypostError,
)
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from collections.abc import Generator

    from waypost.api.messages import Copies
    from waypost.client.host import Host
    from waypost.client.manager import Manager
    from waypost.core.message import Message as CoreMessage

R = TypeVar("R")


class Queue(QueueSender, QueueSetter):
    """A queue, as returned by `manager.queue(name)` and `manager.create_queue(name)`.

    Creating a queue object is cheap, because only its first use opens the queue. The first use raises QueueNotFound if
    the queue does not exist. Several threads can share the object.

    If a method fails, it raises a WaypostError with the reason, for example StoreFull if the disk is full. After an
    error, nothing has changed, unless the error says that the change is kept in memory.
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
        self._opening: Final = Lock()

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The shortest name of the queue on this computer, such as 'orders', 'orders;retry' or 'system$;deadletter'."""
        return short_name(self._name, self._transport.computer)

    @property
    def format_name(self) -> str:
        """The format name. Other computers use this name to send messages to the queue."""
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
        """Receive the first message. The call returns the message when its removal is on disk.

        The call waits up to `timeout` seconds for a message (default: no limit). If no message arrives in this time,
        the call raises Timeout. With `timeout=0`, the call does not wait. In a transaction, the call only locks the
        message. A commit then removes the message from the queue. An abort returns the message to the queue with a
        higher `abort_count`.

        `lookup_id` selects the message to receive. With `seek="next"` or `seek="previous"`, the call selects the
        message after or before the message with this `lookup_id`. `seek="first"` and `seek="last"` do not require a
        `lookup_id`. A call with `lookup_id` or `seek` does not wait. Such a call raises MessageNotFound if the message
        is not in the queue or is locked by a transaction. If the message was removed, but a cursor of the queue is
        still at its position, the call raises MessageAlreadyReceived.

        Outside a transaction, a message is received at most once. The message is lost if the call is interrupted or
        cancelled while the removal is being written to disk, or if the process ends at that time. To prevent this loss,
        receive messages in a transaction.
        """
        return Message(self._receive(1, timeout, transaction, lookup_id, seek)[0])

    def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        """Receive up to `count` messages in order, with one flush to disk.

        If the queue contains messages, the call returns them without waiting. If the queue is empty, the call waits for
        one message, as `receive` does.
        """
        return [Message(each) for each in self._receive(how_many(count), timeout, transaction, None, None)]

    def lease(self, count: int, timeout: float | None = None, *, lease_s: float) -> Lease:
        """Receive up to `count` messages under a lease of `lease_s` seconds. The maximum is one hour.

            with orders.lease(10, lease_s=30) as lease:
                for message in lease:
                    print(message.text)

        If the queue contains messages, the call returns them without waiting. If the queue is empty, the call waits for
        one message, as `receive` does, or raises Timeout. The messages stay locked until `acknowledge` removes them,
        `release` returns them to the queue, or the lease expires. A lease is a transaction with a time limit. Queues of
        `waypost.msmq` do not support leases, because these queues do not support transactions.
        """
        number, transaction = how_many(count), Transaction(self._transport, lease_limit(lease_s))
        try:
            found = self._receive(number, timeout, transaction, None, None)
        except BaseException:
            # Give back any messages that were taken.
            with suppress(WaypostError):
                transaction.abort()
            raise
        return Lease(transaction, [Message(each) for each in found])

    def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        """Return the first message. The message stays in the queue. The arguments are the same as for `receive`.

        Messages that are locked by a transaction are skipped. A peek with the `lookup_id` of a locked message raises
        TransactionUsage.
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
        """Return all messages of the queue in order. The messages stay in the queue, and other readers can still
        receive them.
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
        """Receive messages one by one, until no message has arrived for `timeout` seconds (default: no limit).

        Each message is removed from the queue before the program gets it. If the program must not lose messages in a
        crash, use `receive` in a transaction instead.
        """
        while True:
            try:
                message = self.receive(timeout)
            except Timeout:
                return
            yield message

    def events(
        self, since: Message | int | Literal["start"] | None = None, timeout: float | None = None
    ) -> Iterator[Message]:
        """Return new messages as they arrive. The messages stay in the queue.

            for message in orders.events():
                print(message.label)

        The iterator ends when no message has arrived for `timeout` seconds (default: no limit). By default, the
        iterator starts with the first message that arrives after this call. With `since="start"`, the iterator starts
        with the first message in the queue. With `since=message`, or with the `lookup_id` of a message, the iterator
        starts after this message. If a program saves the last message that it has seen, it can later continue after
        that message. The program then sees every newer message that is still in the queue. Messages that are sent in a
        transaction appear when the transaction is committed. The HTTP API has the same event stream. To receive new
        messages as they arrive, use `follow`.

        Raises QueueNotFound when the queue is deleted, and ConnectionLost if the connection to a daemon is lost.
        """
        wanted = Events(name=self._text, since=event_id(since), form="packet")
        wait = seconds(timeout)
        try:
            found = self._transport.events(wanted, wait)
        except QueueNotFound:
            self._forget(self._name, self)
            raise
        return _shown(found)

    def cursor(self) -> "Cursor":
        """Return a cursor at the start of the queue. With a cursor, a program can look through the messages and receive
        some of them.
        """
        return Cursor(self._transport, self._open_cursor)

    def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        """Move a message, with all its properties, between the queue and its subqueues.

        `message` is a Message, or the `lookup_id` of a message. `to` is the destination, either as a queue object or as
        a name such as 'orders;retry'. The `move_count` of the message increases by one. Raises MessageNotFound if the
        message is not in the queue or is locked by a transaction.
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
        """Move all current messages between the queue and its subqueues, and return the number of moved messages.

        The call moves a few hundred messages at a time. Other programs can use both queues during the move. Each
        message is always in exactly one of the two queues, even if this process or the daemon ends during the move.
        After an interruption, call the method again to move the remaining messages. Messages that are locked by a
        transaction are not moved. `progress` is called after each part of the move with the number of messages in this
        part.
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
        """Write messages to a file as MSMQ network packets. The messages stay in the queue.

            orders.export_messages("orders.packets")

        `file` is the name of a file, or an open binary file. `messages` are the messages to write (default: all
        messages of the queue). Returns the written messages. `Manager.import_messages` sends the messages in the file,
        and `waypost decode` shows them.
        """
        chosen = list(self.browse() if messages is None else messages)
        write_packets(file, chosen)
        return chosen

    def resend(self, message: Message | int, to: Name | None = None) -> Message:
        """Receive a message and send it again, in one atomic step.

        `message` is a Message, or the `lookup_id` of a message. `to` is the destination (default: the original
        destination). Returns the new message, which has a new `id` and the same content. A transactional message stays
        transactional. Raises TransactionUsage if the message is transactional but the destination is not, or if the
        destination is transactional but the message is not.
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
        """Receive and discard a message. `message` is a Message, or the `lookup_id` of a message."""
        number = lookup_id_of(message, "delete")
        self._call(DeleteMessage(name=self._text, number=str(number), outgoing=self._outgoing))

    def purge(self) -> None:
        """Delete all messages of the queue. If a transaction has locked a message, the message is deleted only if the
        transaction is aborted.
        """
        self._call(PurgeQueue(name=self._text, outgoing=self._outgoing))

    @property
    def journal(self) -> "Queue":
        """The journal of the queue. If the queue has `journal=True`, the journal contains copies of the received
        messages.
        """
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        """Return a subqueue. The first move to the subqueue, or the first read from it, creates the subqueue."""
        return self.manager.queue(str(subqueue_name(self._name, name)))

    def info(self) -> QueueInfo:
        """Return the current number of messages and all properties of the queue."""
        return self._call(ShowQueue(name=self._text))

    def set_record(self, properties: QueueProperties) -> None:
        found = self._call(SetQueue(name=self._text, **asdict(properties)))
        warn_of_ignored(found.notes)

    def acl(self) -> Acl:
        """Return the owner of the queue and the rights on it."""
        return self._call(ShowAcl(name=self._text))

    def set_acl(
        self,
        *,
        grant: Texts = (),
        deny: Texts = (),
        revoke: Texts = (),
        owner: str = "",
        sddl: str | None = None,
        force: bool = False,
    ) -> Acl:
        """Change the owner of the queue and the rights on it, in the order revoke, owner, deny, grant.

        `grant` and `deny` add rights. Each of them is a text such as "alice:send,receive", or a list of such texts.
        `revoke` removes all entries of a user or group. A name is a user, a group, a SID, everyone, anonymous or
        administrators. The rights are receive, peek, send, receive-journal, set-properties, get-properties, delete,
        get-permissions, set-permissions, take-ownership and full. `sddl` replaces all entries, and is not allowed
        together with `grant`, `deny`, `revoke` and `owner`. `force` is required for a change after
        which nobody can change the rights.
        """
        operation = SetAcl(
            name=self._text,
            grant=texts(grant),
            deny=texts(deny),
            revoke=texts(revoke),
            owner=owner,
            sddl=UNSET if sddl is None else sddl,
            force=force,
        )
        return self._call(operation)

    def pause(self) -> None:
        """Stop the transfer from an outgoing queue until `resume` is called. Until then, the messages wait in the
        queue.
        """
        self._call(PauseQueue(name=self._text))

    def resume(self) -> None:
        """Resume the transfer from an outgoing queue."""
        self._call(ResumeQueue(name=self._text))

    def delete(self) -> None:
        """Delete the queue with its messages, subqueues and journal. A waiting read raises QueueDeleted."""
        self._call(DeleteQueue(name=self._text))
        self._forget(self._name, self)

    def close(self) -> None:
        """Close the queue object. A waiting read raises OperationCancelled. The next use of the object opens the queue
        again.

        All callers of `manager.queue(name)` share one object, so closing this object cancels the waiting reads of all
        these callers.
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
    """A position in a queue, as returned by `queue.cursor()`. Only one thread at a time can use a cursor.

    At the end of the queue, a read waits up to `timeout` seconds for another message, and then raises Timeout. With
    `timeout=None`, the waiting time is unlimited. With `timeout=0`, a read does not wait.
    """

    __slots__ = ("_id", "_open", "_transport")

    def __init__(self, transport: Carrier, open_cursor: Callable[[], str]) -> None:
        self._transport: Final = transport
        self._open: Final = open_cursor
        # None before the first use.
        self._id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def peek(self, timeout: float | None = None) -> Message:
        """Return the message at the cursor. If the cursor is new, or has just received a message, it first moves to the
        next message.

        Raises MessageAlreadyReceived if another reader has received the message. After this error, `peek_next` moves to
        the next message.
        """
        return self._read(CursorPeek, timeout, None)

    def peek_next(self, timeout: float | None = None) -> Message:
        """Move to the next message and return it. Raises IllegalCursorAction if `peek` has not been called before."""
        return self._read(CursorNext, timeout, None)

    def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        """Receive the message at the cursor. Transactions work as in `Queue.receive`."""
        return self._read(CursorReceive, timeout, transaction)

    def close(self) -> None:
        """Close the cursor. The next use of the cursor starts from the first message."""
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


def _shown(found: "Generator[CoreMessage, None, None]") -> Iterator[Message]:
    with closing(found):
        yield from map(Message, found)
