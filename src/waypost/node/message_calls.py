"""The operations that bring messages into queues, or take them out without showing them: send, resend, move, purge."""

from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec

from msgspec import UNSET

from waypost.api.bodies import BYTES, check_size
from waypost.api.message_attributes import message_like
from waypost.api.messages import Sent
from waypost.api.names import check_can_be_sent_to
from waypost.api.operations import DeleteMessage, MoveAll, MoveMessage, PurgeQueue, Resend, Send
from waypost.api.queues import MovedObject
from waypost.api.reading import lookup_number
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, ReadRequest, ShareMode
from waypost.core.reading import MessageSeekAction, Read
from waypost.core.stored_message import messages_like
from waypost.core.writing import EnqueueStatus, MovedPart
from waypost.errors import AccessDenied, InvalidParameter, LimitReached, UnsupportedFormatName
from waypost.hresult import HResult
from waypost.limits import MOVE_PART
from waypost.node.failures import failure, not_enqueued, not_moved
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.opened_queues import OpenedQueues
from waypost.node.protected_sending import ProtectedSending
from waypost.node.resending import resend
from waypost.node.sending import close_unusable, new_message, queue_of
from waypost.node.transaction_calls import TransactionCalls
from waypost.wire.format_names import FormatName

P = ParamSpec("P")


class MessageCalls:
    """Message operations on one node. Methods that end in `_message` or `_messages` work on an open queue."""

    __slots__ = ("_computer", "_kernel", "_manager", "_node", "_opened", "_protected", "_sending", "_transactions")

    def __init__(self, node: Node, opened: OpenedQueues, transactions: TransactionCalls) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel
        self._manager: Final = node.manager
        self._sending: Final = node.sending
        self._computer: Final = node.manager.identity.computer_name
        self._opened: Final = opened
        self._transactions: Final = transactions
        self._protected: Final = ProtectedSending(node, opened)

    # --- Sending

    def send(self, call: Call, operation: Send) -> None:
        like, bodies = operation.like, operation.bodies
        if like is UNSET or not bodies or operation.messages:
            raise InvalidParameter("`like` and `bodies` are both required, with at least one body")
        for body in bodies:
            check_size(body)
        queue = self._opened.queue(operation.name)
        message = message_like(like, computer=self._computer)
        message.body_type = BYTES if like.body_type is None else like.body_type
        request = None
        if like.sign or like.encrypt:
            request = self._protected.request(like, queue.name)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        if request is not None:
            self._protected.send(call, queue, message, bodies, request, transaction)
        elif len(bodies) == 1:
            message.body = bodies[0]
            self._opened.use(call, queue, AccessType.SEND, self.send_message, message, transaction)
        else:
            self._opened.use(call, queue, AccessType.SEND, self.send_messages, message, bodies, transaction)

    def send_message(
        self, call: Call, handle: OpenQueueDescriptor, message: Message, transaction: bytes | None
    ) -> None:  # fmt: skip
        """Send a message. The answer is the message with its identifier, or Copies if it goes to several queues.

        The message belongs to the node from now on.
        """
        message = new_message(message)
        self._prepare(call, handle, message, transaction)
        try:
            with self._kernel.operation(call.now):
                sent = self._sending.enqueue(handle, message, transaction, call.now)
                self._kernel.reply(call.request, Sent([sent]))
        except UnsupportedFormatName:
            self._close_unusable(call, handle)
            raise

    def send_messages(
        self,
        call: Call,
        handle: OpenQueueDescriptor,
        like: Message,
        bodies: Sequence[bytes],
        transaction: bytes | None = None,
    ) -> None:
        """Send messages that differ only in their bodies: all of them or none.

        `like` belongs to the node from now on.
        """
        if not bodies:
            raise InvalidParameter("`bodies` is empty: at least one body is required")
        like = new_message(like)
        self._prepare(call, handle, like, transaction, bodies)
        if handle.multiple:
            raise InvalidParameter(
                "a request to several queues must contain only one message: send the messages one by one"
            )
        if transaction is not None and len(bodies) > (room := self._manager.transactions.room(transaction)):
            raise LimitReached(
                f"{len(bodies)} messages exceed the limit of the transaction, which allows {room} more operations; "
                "send fewer, or commit and begin another transaction"
            )
        try:
            source, ordinal = self._manager.identity.identifier, self._manager.first_ordinal(len(bodies))
            messages = messages_like(like, bodies, source, ordinal)
        except UnsupportedFormatName:
            self._close_unusable(call, handle)
            raise
        with self._kernel.operation(call.now):
            enqueue = self._manager.writing.enqueue_messages
            status = enqueue(queue_of(handle), messages, like, transaction, call.now)
            if status is not EnqueueStatus.ACCEPTED:
                raise not_enqueued(handle, status)
            self._kernel.reply(call.request, Sent(messages))

    def _prepare(
        self,
        call: Call,
        handle: OpenQueueDescriptor,
        message: Message,
        transaction: bytes | None,
        bodies: Sequence[bytes] = (),
    ) -> None:
        """Set the attributes that sending decides, and check that the queues accept the message."""
        if handle.access_type is not AccessType.SEND:
            raise AccessDenied("the queue was not opened for sending")
        if transaction is not None:
            self._manager.transactions.room(transaction)
        self._sending.prepare(handle, message, transaction, call.now, bodies)

    def _close_unusable(self, call: Call, handle: OpenQueueDescriptor) -> None:
        with self._kernel.operation(call.now):
            close_unusable(self._manager, handle)

    def resend(self, call: Call, operation: Resend) -> None:
        to = None if operation.to is UNSET else self._opened.name(operation.to)
        if to is not None:
            check_can_be_sent_to(to)
        number, transaction = lookup_number(operation.lookup_id), self._node.new_guid()
        self._take(call, operation, self.resend_message, number, to, transaction)

    def resend_message(
        self, call: Call, handle: OpenQueueDescriptor, lookup_id: int, to: FormatName | None, transaction: bytes
    ) -> None:
        """Take a message and send it once more, to another queue or to its old destination, in one step.

        `transaction` is a new GUID, for a message that was sent in a transaction.
        """
        self._kernel.check_room()
        with self._kernel.operation(call.now):
            _check_can_receive(handle)
            sent = resend(
                self._manager,
                self._sending,
                handle,
                lookup_id,
                to=to,
                transaction=transaction,
                check=lambda name: self._node.access.check_open(call.caller, name, AccessType.SEND),
                now=call.now,
            )
            self._kernel.reply(call.request, Sent([sent]))

    # --- Removing

    def delete(self, call: Call, operation: DeleteMessage) -> None:
        self._take(call, operation, self._delete_message, lookup_number(operation.number))

    def _delete_message(self, call: Call, handle: OpenQueueDescriptor, lookup_id: int) -> None:
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            read = self._manager.reading.read_message_by_lookup_identifier
            found = read(handle, lookup_id, MessageSeekAction.SEEK_CURRENT, ReadRequest(0, tag=call.request))
            assert type(found) is Read, "a read by LookupIdentifier must not wait"
            if found.status is not HResult.MQ_OK:
                raise failure(found.status)
            self._kernel.reply(call.request)

    def purge(self, call: Call, operation: PurgeQueue) -> None:
        self._take(call, operation, self.purge_messages)

    def purge_messages(self, call: Call, handle: OpenQueueDescriptor) -> None:
        """Purge the current messages of the queue. A long purge goes on in parts, and is answered at its end."""
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            _check_can_receive(handle)
            self._kernel.count(len(queue_of(handle).positions))
            purge = self._manager.writing.begin_purge(queue_of(handle))
            self._node.purges.begin(purge, lambda: self._kernel.reply(call.request))

    # --- Moving

    def move(self, call: Call, operation: MoveMessage) -> None:
        lookup_id = lookup_number(operation.lookup_id)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)

        def move(call: Call, handle: OpenQueueDescriptor, target: OpenQueueDescriptor) -> None:
            self.move_message(call, handle, lookup_id, target, transaction)

        self._with_target(call, operation, move)

    def move_message(
        self,
        call: Call,
        handle: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: bytes | None = None,
    ) -> None:
        """Move a message to another queue, which was opened for moves.

        Raises InvalidParameter unless they are a queue and its subqueue, or two subqueues of one queue.
        """
        self._kernel.check_room()
        if transaction is not None:
            self._manager.transactions.room(transaction)
        with self._kernel.operation(call.now):
            status = self._manager.move_to_open_queue(handle, lookup_id, target, transaction, now=call.now)
            if status is not HResult.MQ_OK:
                raise not_moved(handle, target, status)
            self._kernel.reply(call.request)

    def move_all(self, call: Call, operation: MoveAll) -> None:
        """Move a part of the messages: the caller continues with the answer."""
        if (operation.after == "") != (operation.up_to == ""):
            raise InvalidParameter(
                "`after` and `up_to` must be set together: use both values from the last answer, or neither"
            )
        part = MovedPart()
        if operation.after != "":
            part = MovedPart(after=lookup_number(operation.after), up_to=lookup_number(operation.up_to))

        def move(call: Call, handle: OpenQueueDescriptor, target: OpenQueueDescriptor) -> None:
            self.move_messages(call, handle, target, part)

        self._with_target(call, operation, move)

    def move_messages(
        self, call: Call, handle: OpenQueueDescriptor, target: OpenQueueDescriptor, part: MovedPart
    ) -> None:  # fmt: skip
        """Move the next messages of a queue. Each is always in one of the two. Raises as `move_message`."""
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            moved = self._manager.move_some_to_open_queue(handle, target, part, MOVE_PART, now=call.now)
            if moved is None:
                raise not_moved(handle, target, HResult.STATUS_INVALID_PARAMETER)
            self._kernel.count(moved.count)
            after = "" if moved.is_last else str(moved.after)
            self._kernel.reply(call.request, MovedObject(moved.count, after, str(moved.up_to)))

    def _take(
        self,
        call: Call,
        operation: PurgeQueue | DeleteMessage | Resend,
        work: Callable[Concatenate[Call, OpenQueueDescriptor, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Do something with a message that can be received."""
        queue = self._opened.queue(operation.name)
        access = AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE
        self._opened.use(call, queue, access, work, *args, **kwargs)

    def _with_target(
        self,
        call: Call,
        operation: MoveMessage | MoveAll,
        move: Callable[[Call, OpenQueueDescriptor, OpenQueueDescriptor], None],
    ) -> None:
        """Do something while the queue to move to is open."""
        queue, to = self._opened.queue(operation.name), self._opened.name(operation.to)
        access = AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE
        self._node.access.check_open(call.caller, to, AccessType.MOVE)
        with self._kernel.operation(call.now):
            target = self._manager.open_queue(to, AccessType.MOVE, ShareMode.DENY_NONE, call.now)
        try:
            self._opened.use(call, queue, access, move, target)
        finally:
            with self._kernel.operation(call.now):
                self._manager.close_queue(target)


def _check_can_receive(handle: OpenQueueDescriptor) -> None:
    if not handle.access_type.can_receive:
        raise AccessDenied("the queue was not opened for receiving")
