"""Operations on an open queue, by its handle. The handlers of waypost.api.operations are made of it.

Everything comes with a Call, whose number is answered by a Reply or a Failure among the node's effects: at once,
or when what was done is durable, or when a wait has ended. What cannot be done is raised at once, and has changed
nothing unless the operation says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from waypost.api.messages import Copies
from waypost.clock import Now
from waypost.core.cursors import Cursor
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, QueueAttributes, ReadRequest, ShareMode
from waypost.core.reading import MessageSeekAction, Read, Waiting
from waypost.core.stored_message import messages_like
from waypost.core.writing import EnqueueStatus, MovedPart
from waypost.errors import (
    AccessDenied,
    InvalidHandle,
    InvalidParameter,
    LimitReached,
    UnsupportedFormatName,
)
from waypost.hresult import HResult
from waypost.limits import MOVE_PART
from waypost.node.deleting import delete_queue
from waypost.node.failures import failure, not_enqueued, not_moved
from waypost.node.node import Node
from waypost.node.resending import resend
from waypost.node.sending import close_unusable, new_message, queue_of
from waypost.wire.format_names import FormatName

# Makes the answer to a read of its message.
Form: TypeAlias = Callable[[Message], object]


@dataclass(frozen=True, slots=True)
class Call:
    """One request of an application: its number, which the caller chose, and when it came."""

    request: int
    now: Now


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read. `timeout_ms` is None to wait for ever; a transaction locks the message until its outcome."""

    timeout_ms: int | None = 0
    cursor: int | None = None
    transaction: bytes | None = None


def _as_it_is(message: object) -> object:
    return message


class Application:
    """The operations on one node."""

    __slots__ = ("_handles", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._handles: dict[int, OpenQueueDescriptor] = {}

    def create_queue(self, call: Call, attributes: QueueAttributes) -> None:
        """The answer is the Queue."""
        self._node.check_room()
        with self._node.operation(call.now):
            self._node.reply(call.request, self._node.manager.create_queue(attributes, call.now))

    def modify_queue(self, call: Call, queue: Queue, attributes: QueueAttributes) -> None:
        self._node.check_store()
        with self._node.operation(call.now):
            self._node.manager.modify_queue(queue, attributes, call.now)
            self._node.reply(call.request, queue)

    def delete_queue(self, call: Call, queue: Queue) -> None:
        delete_queue(self._node, queue, call.request, call.now)

    def open_queue(self, call: Call, name: FormatName, access: AccessType, share: ShareMode) -> None:
        """The answer is a handle. To send to a queue of another computer makes an outgoing queue."""
        with self._node.operation(call.now):
            self._node.reply(call.request, self.open(call.now, name, access, share))

    def open(self, now: Now, name: FormatName, access: AccessType, share: ShareMode) -> int:
        """The same within another operation."""
        descriptor = self._node.manager.open_queue(name, access, share, now)
        self._handles[descriptor.handle] = descriptor
        return descriptor.handle

    def close_queue(self, call: Call, handle: int) -> None:
        """Reads that wait end; messages that were read with begin_receive and not ended are for others again."""
        with self._node.operation(call.now):
            self.close(handle)
            self._node.reply(call.request)

    def close(self, handle: int) -> None:
        """The same within another operation."""
        self._node.manager.close_queue(self._descriptor(handle))
        del self._handles[handle]

    def purge(self, call: Call, handle: int) -> None:
        """Over what the queue holds now. A long purge goes on while others work, and is answered at its end."""
        self._node.check_store()
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            if not descriptor.access_type.can_receive:
                raise AccessDenied("the queue was not opened for receiving")
            purge = self._node.manager.writing.begin_purge(queue_of(descriptor))
            self._node.purges.begin(purge, lambda: self._node.reply(call.request))

    def send(
        self,
        call: Call,
        handle: int,
        message: Message,
        transaction: bytes | None,
        form: Callable[[Message | Copies], object] = _as_it_is,
    ) -> None:
        """The answer is the message with its identifier, or the Copies of one that was sent to several queues.

        The message belongs to the node from now on. Here and elsewhere `form` makes the answer of it.
        """
        node = self._node
        message = new_message(message)
        descriptor = self._prepare(call, handle, message, transaction)
        try:
            with node.operation(call.now):
                node.reply(call.request, form(node.sending.enqueue(descriptor, message, transaction, call.now)))
        except UnsupportedFormatName:
            self._close_unusable(call, descriptor)
            raise

    def send_many(
        self,
        call: Call,
        handle: int,
        like: Message,
        bodies: Sequence[bytes],
        *,
        transaction: bytes | None = None,
        form: Callable[[list[Message]], object] = _as_it_is,
    ) -> None:
        """Send messages that differ in their bodies alone: all of them or none. The answer is their list, in order.

        `like` belongs to the node from now on.
        """
        node = self._node
        if not bodies:
            raise InvalidParameter("there is nothing to send")
        like = new_message(like)
        descriptor = self._prepare(call, handle, like, transaction, bodies)
        if descriptor.multiple:
            raise InvalidParameter("only single messages can be sent to several queues")
        if transaction is not None and len(bodies) > (room := node.manager.transactions.room(transaction)):
            raise LimitReached(
                f"{len(bodies)} messages are more than the {room} operations that the transaction can still have; "
                "send fewer, or commit it and begin another one"
            )
        try:
            source, ordinal = node.manager.identity.identifier, node.manager.first_ordinal(len(bodies))
            messages = messages_like(like, bodies, source, ordinal)
        except UnsupportedFormatName:
            self._close_unusable(call, descriptor)
            raise
        with node.operation(call.now):
            enqueue = node.manager.writing.enqueue_messages
            status = enqueue(queue_of(descriptor), messages, like, transaction, call.now)
            if status is not EnqueueStatus.ACCEPTED:
                raise not_enqueued(descriptor, status)
            node.reply(call.request, form(messages))

    def receive(self, call: Call, handle: int, options: ReadOptions, form: Form = _as_it_is) -> None:
        """Receive the first message, or that at the cursor. The answer is the message."""
        if options.transaction is None:
            self._node.check_store()
        else:
            self._node.manager.transactions.room(options.transaction)
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            reading = self._node.manager.reading
            read = reading.dequeue_message(descriptor, _request(call, descriptor, options), call.now)
            self._answer(call, read, form)

    def receive_many(
        self,
        call: Call,
        handle: int,
        count: int,
        options: ReadOptions,
        form: Callable[[list[Message]], object] = _as_it_is,
    ) -> None:
        """Receive up to `count` messages that are there, or wait for one and take what has come with it.

        The answer is their list.
        """
        if count < 1 or options.cursor is not None:
            raise InvalidParameter("many messages are received from the start of the queue, and one at least")
        if options.transaction is None:
            self._node.check_store()
        else:
            count = min(count, self._node.manager.transactions.room(options.transaction))
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            reading = self._node.manager.reading
            request = _request(call, descriptor, options)
            messages = reading.dequeue_messages(descriptor, count, request)
            if messages:
                self._node.reply(call.request, form(messages))
                return

            def with_others(message: Message) -> object:
                others = reading.dequeue_messages(descriptor, count - 1, request) if count > 1 else ()
                return form([message, *others])

            self._answer(call, reading.dequeue_message(descriptor, request, call.now), with_others)

    def begin_receive(self, call: Call, handle: int, options: ReadOptions) -> None:
        """The first phase of a receive in two: the message is locked until end_receive."""
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            reading = self._node.manager.reading
            read = reading.dequeue_message_begin(descriptor, _request(call, descriptor, options), call.now)
            self._answer(call, read, _as_it_is)

    def end_receive(self, call: Call, handle: int, lookup_id: int, *, delete_message: bool) -> None:
        """The second phase: delete the message, or leave it to others."""
        self._node.check_store()
        with self._node.operation(call.now):
            end = self._node.manager.reading.dequeue_message_end
            self._answer_status(call, end(self._descriptor(handle), lookup_id, delete_message=delete_message))

    def peek(self, call: Call, handle: int, options: ReadOptions, form: Form = _as_it_is) -> None:
        """Show the first message, or that at the cursor."""
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            reading = self._node.manager.reading
            read = reading.peek_message(descriptor, _request(call, descriptor, options), call.now)
            self._answer(call, read, form)

    def peek_next(self, call: Call, handle: int, options: ReadOptions, form: Form = _as_it_is) -> None:
        """Move the cursor on and show the message there."""
        if options.cursor is None:
            raise InvalidParameter("only a cursor has a next message")
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            reading = self._node.manager.reading
            read = reading.peek_next_message(descriptor, _request(call, descriptor, options), call.now)
            self._answer(call, read, form)

    def receive_by_lookup_id(
        self,
        call: Call,
        handle: int,
        found: tuple[int, MessageSeekAction],
        options: ReadOptions,
        form: Form = _as_it_is,
    ) -> None:
        """Receive the message that the action finds from the LookupIdentifier. Nothing waits here."""
        if options.transaction is None:
            self._node.check_store()
        else:
            self._node.manager.transactions.room(options.transaction)
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            read = self._node.manager.reading.read_message_by_lookup_identifier
            self._answer(call, read(descriptor, *found, _request(call, descriptor, options)), form)

    def peek_by_lookup_id(
        self, call: Call, handle: int, found: tuple[int, MessageSeekAction], form: Form = _as_it_is
    ) -> None:
        with self._node.operation(call.now):
            read = self._node.manager.reading.read_message_by_lookup_identifier
            self._answer(call, read(self._descriptor(handle), *found, None), form)

    def cancel(self, now: Now, handle: int, request: int) -> None:
        """End the read that waits under this number, which then fails. One that does not wait is left alone."""
        with self._node.operation(now):
            cancel = self._node.manager.reading.cancel_waiting_message_read_request
            cancel(self._descriptor(handle), request, HResult.MQ_ERROR_OPERATION_CANCELLED)

    def move(self, call: Call, handle: int, lookup_id: int, target: int, *, transaction: bytes | None = None) -> None:
        """Move a message to the queue of the handle `target`, which was opened for that.

        Raises InvalidParameter if they are not a queue and its subqueue, or two subqueues of one queue.
        """
        self._node.check_room()
        if transaction is not None:
            self._node.manager.transactions.room(transaction)
        with self._node.operation(call.now):
            source, destination = self._descriptor(handle), self._descriptor(target)
            move = self._node.manager.move_to_open_queue
            status = move(source, lookup_id, destination, transaction, now=call.now)
            if status is not HResult.MQ_OK:
                raise not_moved(source, destination, status)
            self._node.reply(call.request)

    def move_some(
        self, call: Call, handle: int, target: int, part: MovedPart, form: Callable[[MovedPart], object] = _as_it_is
    ) -> None:
        """Move the next messages of a queue to that of the handle `target`. The answer is the MovedPart.

        Each message is in one of the two queues, whatever happens. Raises what `move` does.
        """
        self._node.check_store()
        with self._node.operation(call.now):
            source, destination = self._descriptor(handle), self._descriptor(target)
            moved = self._node.manager.move_some_to_open_queue(source, destination, part, MOVE_PART, now=call.now)
            if moved is None:
                raise not_moved(source, destination, HResult.STATUS_INVALID_PARAMETER)
            self._node.reply(call.request, form(moved))

    def resend(
        self,
        call: Call,
        handle: int,
        lookup_id: int,
        to: FormatName | None,
        transaction: bytes,
        form: Callable[[Message | Copies], object] = _as_it_is,
    ) -> None:
        """Take a message and send it once more, to another queue or to where it was sent to, in one step.

        The answer is that of `send`. `transaction` is a new GUID, for a message that was sent in one.
        """
        node = self._node
        node.check_room()
        with node.operation(call.now):
            descriptor = self._descriptor(handle)
            if not descriptor.access_type.can_receive:
                raise AccessDenied("the queue was not opened for receiving")
            sent = resend(
                node.manager, node.sending, descriptor, lookup_id, to=to, transaction=transaction, now=call.now
            )
            node.reply(call.request, form(sent))

    def open_cursor(self, call: Call, handle: int) -> None:
        """The answer is the number of the cursor."""
        with self._node.operation(call.now):
            self._node.reply(call.request, self.place(handle))

    def place(self, handle: int) -> int:
        """The same within another operation."""
        cursor = self._node.manager.open_cursor(self._descriptor(handle))
        if cursor is None:
            raise failure(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        return cursor.handle

    def close_cursor(self, call: Call, handle: int, cursor: int) -> None:
        with self._node.operation(call.now):
            descriptor = self._descriptor(handle)
            self._node.manager.close_cursor(descriptor, _cursor(descriptor, cursor))
            self._node.reply(call.request)

    def begin_transaction(self, call: Call, identifier: bytes) -> None:
        """Start a transaction of this queue manager alone, under this GUID."""
        with self._node.operation(call.now):
            self._node.manager.transactions.create_transaction(identifier)
            self._node.reply(call.request)

    def commit(self, call: Call, identifier: bytes) -> None:
        self._node.check_store()
        with self._node.operation(call.now):
            self._check_own(identifier)
            commit = self._node.manager.transactions.transaction_commit
            self._answer_status(call, commit(identifier, call.now.wall))
            # A queue that was deleted meanwhile may have left nothing to be written here.
            self._node.await_everything()

    def abort(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._check_own(identifier)
            self._answer_status(call, self._node.manager.transactions.transaction_abort(identifier))

    def _check_own(self, identifier: bytes) -> None:
        """The transactions of a coordinator are not an application's to end."""
        transaction = self._node.manager.transactions.collection.get(identifier)
        if transaction is None or not transaction.single_phase:
            raise failure(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)

    def _descriptor(self, handle: int) -> OpenQueueDescriptor:
        descriptor = self._handles.get(handle)
        if descriptor is None:
            raise InvalidHandle("the queue is not open")
        return descriptor

    def _prepare(
        self, call: Call, handle: int, message: Message, transaction: bytes | None, bodies: Sequence[bytes] = ()
    ) -> OpenQueueDescriptor:
        """Give a message what its sending decides, and make sure that its queues accept it."""
        descriptor = self._descriptor(handle)
        if descriptor.access_type is not AccessType.SEND:
            raise AccessDenied("the queue was not opened for sending")
        if transaction is not None:
            self._node.manager.transactions.room(transaction)
        self._node.sending.prepare(descriptor, message, transaction, call.now, bodies)
        return descriptor

    def _close_unusable(self, call: Call, descriptor: OpenQueueDescriptor) -> None:
        with self._node.operation(call.now):
            close_unusable(self._node.manager, descriptor)

    def _answer(self, call: Call, read: Read | Waiting, form: Form) -> None:
        if type(read) is Waiting:
            self._node.await_read(call.request, read.wait_id, form)
            return
        assert type(read) is Read
        if read.status is not HResult.MQ_OK:
            raise failure(read.status)
        assert read.message is not None
        self._node.reply(call.request, form(read.message))

    def _answer_status(self, call: Call, status: HResult) -> None:
        if status is not HResult.MQ_OK:
            raise failure(status)
        self._node.reply(call.request)


def _cursor(descriptor: OpenQueueDescriptor, number: int) -> Cursor:
    cursor = descriptor.cursors.get(number)
    if cursor is None:
        raise InvalidHandle("the cursor is not open")
    return cursor


def _request(call: Call, descriptor: OpenQueueDescriptor, options: ReadOptions) -> ReadRequest:
    cursor = None if options.cursor is None else _cursor(descriptor, options.cursor)
    return ReadRequest(options.timeout_ms, cursor, call.request, options.transaction)
