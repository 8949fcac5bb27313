"""The operations that read messages: receive, peek, browse, cursors, and opening for them."""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from waypost.api.local import CancelReads
from waypost.api.messages import Received
from waypost.api.opened import Handle
from waypost.api.operations import (
    Browse,
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    Read,
    Receive,
)
from waypost.api.reading import lookup_number, milliseconds, place_of
from waypost.clock import Now
from waypost.core import reading
from waypost.core.message import Message
from waypost.core.positions import END, START
from waypost.core.queues import AccessType, OpenQueueDescriptor, ReadRequest
from waypost.core.reading import MessageSeekAction, Waiting
from waypost.errors import InvalidHandle, InvalidParameter
from waypost.hresult import HResult
from waypost.limits import MAX_HTTP_ANSWER
from waypost.node.bulk import find_queue
from waypost.node.failures import failure
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.opened_queues import OpenedQueues
from waypost.node.transaction_calls import TransactionCalls
from waypost.security.callers import QUEUE_MANAGER
from waypost.wire.access_masks import QueueAccess


class ReadingCalls:
    """Reading operations on one node. Methods that end in `_message` or `_messages` work on an open queue."""

    __slots__ = ("_kernel", "_manager", "_node", "_opened", "_reading", "_transactions")

    def __init__(self, node: Node, opened: OpenedQueues, transactions: TransactionCalls) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel
        self._manager: Final = node.manager
        self._reading: Final = node.manager.reading
        self._opened: Final = opened
        self._transactions: Final = transactions

    def receive(self, call: Call, operation: Receive) -> None:
        if operation.lease_s is not UNSET or operation.acknowledge:
            raise InvalidParameter(
                "`lease_s` and `acknowledge` require a daemon; use `queue.lease()`, or `transaction` with `begin_s`"
            )
        found = _place(operation)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        request = ReadRequest(milliseconds(operation.timeout_s), None, call.request, transaction)
        queue, access = self._opened.queue(operation.name), _receive_access(operation)
        if operation.handle is not UNSET:
            handle = self._opened.exclusive(call.caller, operation.handle, operation.name)
            if found is not None:
                self.receive_found_message(call, handle, found, request)
            else:
                self.receive_messages(call, handle, operation.count, request)
        elif found is not None:
            self._opened.use(call, queue, access, self.receive_found_message, found, request)
        elif operation.count == 1:
            self._opened.use(call, queue, access, self.receive_message, request)
        else:
            self._opened.use(call, queue, access, self.receive_messages, operation.count, request)

    def receive_message(self, call: Call, handle: OpenQueueDescriptor, request: ReadRequest) -> None:
        """Receive the first message, or the one at the cursor."""
        self._check_can_take(request)
        with self._kernel.operation(call.now):
            self._answer(call, request, self._reading.dequeue_message(handle, request, call.now))

    def receive_messages(self, call: Call, handle: OpenQueueDescriptor, count: int, request: ReadRequest) -> None:
        """Receive up to `count` available messages, or wait for one and take those that came with it."""
        if count < 1 or request.cursor is not None:
            raise InvalidParameter("`count` must be at least 1, and is not allowed with a cursor")
        count = min(count, self._check_can_take(request))
        with self._kernel.operation(call.now):
            messages = self._reading.dequeue_messages(handle, count, request)
            if messages:
                self._kernel.reply(call.request, Received(messages))
                return

            def with_others(message: Message) -> Received:
                others = self._reading.dequeue_messages(handle, count - 1, request) if count > 1 else ()
                return Received([message, *others])

            self._answer(call, request, self._reading.dequeue_message(handle, request, call.now), with_others)

    def receive_found_message(
        self, call: Call, handle: OpenQueueDescriptor, found: tuple[int, MessageSeekAction], request: ReadRequest
    ) -> None:
        """Receive the message that the action finds from the LookupIdentifier. Never waits."""
        self._check_can_take(request)
        with self._kernel.operation(call.now):
            self._answer(call, request, self._reading.read_message_by_lookup_identifier(handle, *found, request))

    def peek(self, call: Call, operation: Peek) -> None:
        found = _place(operation)
        request = ReadRequest(milliseconds(operation.timeout_s), None, call.request)
        queue, access = self._opened.queue(operation.name), _peek_access(operation)
        if operation.handle is not UNSET:
            handle = self._opened.exclusive(call.caller, operation.handle, operation.name)
            if found is not None:
                self.peek_found_message(call, handle, found)
            else:
                self.peek_message(call, handle, request)
        elif found is not None:
            self._opened.use(call, queue, access, self.peek_found_message, found)
        else:
            self._opened.use(call, queue, access, self.peek_message, request)

    def peek_message(self, call: Call, handle: OpenQueueDescriptor, request: ReadRequest) -> None:
        """Show the first message, or the one at the cursor."""
        with self._kernel.operation(call.now):
            self._answer(call, request, self._reading.peek_message(handle, request, call.now))

    def peek_found_message(
        self, call: Call, handle: OpenQueueDescriptor, found: tuple[int, MessageSeekAction]
    ) -> None:  # fmt: skip
        with self._kernel.operation(call.now):
            self._answer(call, None, self._reading.read_message_by_lookup_identifier(handle, *found, None))

    def browse(self, call: Call, operation: Browse) -> None:
        """A page of the messages behind a LookupIdentifier, which need not be in the queue any more."""
        after = lookup_number(operation.after) if operation.after else START
        name = self._opened.name(operation.name)
        with self._kernel.operation(call.now):
            queue = find_queue(self._node, name)
            self._node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
            messages: list[Message] = []
            size = 0
            position = queue.positions.next_peekable(after)
            while position != END and len(messages) < operation.limit and size < MAX_HTTP_ANSWER:
                message = self._manager.positions.find(queue, position)
                if message is not None:
                    messages.append(message)
                    size += len(message.packet)
                position = queue.positions.next_peekable(position)
            is_last = position == END or not messages
            self._kernel.reply(call.request, Received(messages, "" if is_last else str(messages[-1].lookup_identifier)))

    def cancel(self, now: Now, request: int, operation: Operation[object]) -> None:
        """Cancel a waiting read, which then fails. Has no effect on one that does not wait."""
        handle: OpenQueueDescriptor | None = None
        try:
            if isinstance(operation, CursorRead):
                handle = self._opened.cursor(QUEUE_MANAGER, operation.identifier, QueueAccess.MQSEC_PEEK_MESSAGE).handle
            elif isinstance(operation, Read):
                if operation.handle is not UNSET:
                    handle = self._opened.exclusive(QUEUE_MANAGER, operation.handle, operation.name)
                else:
                    is_peek = isinstance(operation, Peek)
                    access = _peek_access(operation) if is_peek else _receive_access(operation)
                    handle = self._opened.queue(operation.name).handles.get(access)
        except InvalidHandle:
            # Its waiting reads have ended with it.
            return
        if handle is not None:
            self.cancel_message(now, handle, request)

    def cancel_message(self, now: Now, handle: OpenQueueDescriptor, request: int) -> None:
        """Cancel the read that waits under this number, which then fails. Has no effect on one that does not wait."""
        with self._kernel.operation(now):
            cancel = self._reading.cancel_waiting_message_read_request
            cancel(handle, request, HResult.MQ_ERROR_OPERATION_CANCELLED)

    def cancel_reads(self, call: Call, operation: CancelReads) -> None:
        queue = self._opened.queue(operation.name)
        self._node.access.check_open(call.caller, queue.name, AccessType.PEEK)
        self._opened.close(call, queue, keeps_sending=operation.keeps_sending)
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request)

    # --- Opening

    def open_queue(self, call: Call, operation: OpenQueue) -> None:
        if not operation.exclusive:
            raise InvalidParameter("`exclusive` must be true: only a queue that is opened exclusively has a handle")
        identifier = self._opened.open_exclusive(call, operation.queue)
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request, Handle(identifier, 0.0))

    def close_queue(self, call: Call, operation: CloseQueue) -> None:
        self._opened.close_exclusive(call, operation.identifier)
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request)

    def open_cursor(self, call: Call, operation: OpenCursor) -> None:
        identifier = self._opened.open_cursor(
            call, operation.queue, outgoing=operation.outgoing, handle=operation.handle
        )  # fmt: skip
        with self._kernel.operation(call.now):
            self._kernel.reply(call.request, Handle(identifier, 0.0))

    def close_cursor(self, call: Call, operation: CloseCursor) -> None:
        self._opened.close_cursor(call, operation.identifier)

    def cursor_peek(self, call: Call, operation: CursorPeek) -> None:
        self.peek_message(call, *self._at(call, operation))

    def cursor_next(self, call: Call, operation: CursorNext) -> None:
        handle, request = self._at(call, operation)
        with self._kernel.operation(call.now):
            self._answer(call, request, self._reading.peek_next_message(handle, request, call.now))

    def cursor_receive(self, call: Call, operation: CursorReceive) -> None:
        self.receive_message(call, *self._at(call, operation))

    def _at(self, call: Call, operation: CursorRead) -> tuple[OpenQueueDescriptor, ReadRequest]:
        receives = isinstance(operation, CursorReceive)
        right = QueueAccess.MQSEC_RECEIVE_MESSAGE if receives else QueueAccess.MQSEC_PEEK_MESSAGE
        place = self._opened.cursor(call.caller, operation.identifier, right)
        transaction = self._transactions.joined(call, operation.transaction, operation.begin_s)
        return place.handle, ReadRequest(milliseconds(operation.timeout_s), place.cursor, call.request, transaction)

    def _check_can_take(self, request: ReadRequest) -> int:
        """Number of messages that can be received. Raises the reason if none can."""
        if request.transaction is not None:
            return self._manager.transactions.room(request.transaction)
        self._kernel.check_store()
        return END

    def _answer(
        self,
        call: Call,
        request: ReadRequest | None,
        read: reading.Read | Waiting,
        form: Callable[[Message], Received] = lambda message: Received([message]),
    ) -> None:
        if type(read) is Waiting:
            transaction = None if request is None else request.transaction
            used = self._transactions.used
            self._kernel.await_read(call, read.wait_id, form, lambda now: used(transaction, now))
            return
        assert type(read) is reading.Read
        if read.status is not HResult.MQ_OK:
            raise failure(read.status)
        assert read.message is not None
        self._kernel.reply(call.request, form(read.message))


def _place(operation: Read) -> tuple[int, MessageSeekAction] | None:
    number = operation.lookup_id
    return place_of(UNSET if number is UNSET else lookup_number(number), operation.seek)


def _receive_access(operation: Read) -> AccessType:
    return AccessType.RECEIVE_ADMIN if operation.outgoing else AccessType.RECEIVE


def _peek_access(operation: Read) -> AccessType:
    return AccessType.PEEK_ADMIN if operation.outgoing else AccessType.PEEK
