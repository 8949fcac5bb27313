"""Reading messages, now or when one comes: MS-MQDMPR 3.1.7.1.10 to 3.1.7.1.15, 3.1.7.1.17 and 3.1.7.3.1 to 3.1.7.3.7.

A read that finds nothing waits: it answers Waiting, and a ReadEnded event with the same number follows when a message
comes, the time is over, or the wait is cancelled. A new message is offered descriptor by descriptor, to the waits of
each in their order; peeks share it, the first receive takes it and ends the round (readings MQDMPR 3.H). It is taken at
once, so no other reader can come between.

A read names its transaction; one that is not active is refused before any change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from waypost.clock import Now
from waypost.core.cursors import Cursor, CursorState, Found
from waypost.core.message import Message
from waypost.core.ports import ReadEnded
from waypost.core.position_events import PositionEvents
from waypost.core.positions import END, START, PositionState
from waypost.core.queues import OpenQueueDescriptor, OutgoingQueue, Queue, ReadRequest, WaitingMessageReadOperation
from waypost.core.transaction_records import OperationType, TransactionalOperation
from waypost.core.transactions import Transactions
from waypost.hresult import HResult
from waypost.timers import Timers
from waypost.wire.message_class import MessageClass


@dataclass(frozen=True, slots=True)
class Read:
    """The end of a read. With MQ_OK, `message` is its result."""

    status: HResult
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The read waits; ReadEnded follows."""

    wait_id: int


class MessageSeekAction(Enum):
    """MS-MQDMPR 3.1.1.17."""

    SEEK_FIRST = auto()
    SEEK_PREVIOUS = auto()
    SEEK_CURRENT = auto()
    SEEK_NEXT = auto()
    SEEK_LAST = auto()


_CURSOR_STATUS: Final = {
    Found.NOT_FOUND: HResult.MQ_ERROR_MESSAGE_NOT_FOUND,
    Found.ALREADY_RECEIVED: HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED,
    Found.ILLEGAL_CURSOR_ACTION: HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION,
}
_QUEUE_NOT_AVAILABLE: Final = Read(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)


class Reading:
    """The readers of all queues of one queue manager."""

    __slots__ = ("_last_wait_id", "_positions", "_timers", "_transactions", "_waits", "admits")

    def __init__(self, positions: PositionEvents, transactions: Transactions, timers: Timers) -> None:
        self._positions: Final = positions
        self._transactions: Final = transactions
        self._waits: dict[int, WaitingMessageReadOperation] = {}
        self._timers: Final = timers
        self._last_wait_id = 0
        # Whether a waiting read may still have a message.
        self.admits: Callable[[WaitingMessageReadOperation], bool] = lambda _: True
        positions.offer = self._offer

    def dequeue_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.10."""
        queue = descriptor.queue
        if queue is None:
            return _QUEUE_NOT_AVAILABLE
        if not descriptor.access_type.can_receive:
            return Read(HResult.MQ_ERROR_ACCESS_DENIED)
        if not self._is_possible(request):
            return Read(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if _may_come_back(queue, request):
            return Read(HResult.MQ_ERROR_TRANSACTION_USAGE)
        if request.cursor is not None:
            return self._dequeue_at_cursor(descriptor, request, request.cursor, now)
        # readings MQDMPR 3.B: from Start; behind Head the first message would be passed over.
        while (position := queue.positions.next_available(START)) != END:
            message = self._take(descriptor, queue, position, request)
            if message is not None:
                return Read(HResult.MQ_OK, message)
        return self._wait(descriptor, request, now, destructive_read=True)

    def _dequeue_at_cursor(
        self, descriptor: OpenQueueDescriptor, request: ReadRequest, cursor: Cursor, now: Now
    ) -> Read | Waiting:
        """A cursor that shows a message takes that one or none; another goes on behind a damaged message."""
        assert descriptor.queue is not None
        shows_one = cursor.state is CursorState.READ
        while (found := cursor.get_next_message_for_dequeue(no_wait=request.timeout_ms == 0)) is Found.SUCCEEDED:
            message = self._take(descriptor, descriptor.queue, cursor.position, request)
            if message is not None:
                return Read(HResult.MQ_OK, message)
            if shows_one:
                return Read(_CURSOR_STATUS[Found.ALREADY_RECEIVED])
        if found is not Found.WAITING:
            return Read(_CURSOR_STATUS[found])
        return self._wait(descriptor, request, now, destructive_read=True)

    def dequeue_messages(self, descriptor: OpenQueueDescriptor, count: int, request: ReadRequest) -> list[Message]:
        """Dequeue Message for up to `count` messages that are Available now, in list order. The request has no cursor.

        A read that Dequeue Message would refuse finds none.
        """
        queue = descriptor.queue
        if queue is None or not descriptor.access_type.can_receive or not self._is_possible(request):
            return []
        if _may_come_back(queue, request):
            return []
        read = self._positions.find_all if request.transaction is None else self._positions.lock_all
        messages: list[Message] = []
        while not messages and (lookup_ids := queue.positions.first_available(count)):
            messages = read(queue, lookup_ids)
        if request.transaction is None:
            self._positions.received_all(queue, messages)
            return messages
        for message in messages:
            lookup_id = message.lookup_identifier
            operation = TransactionalOperation(OperationType.DEQUEUE, queue, lookup_id, message=message)
            self._transactions.record(request.transaction, operation)
        return messages

    def dequeue_message_begin(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.11."""
        return self.dequeue_message(descriptor, replace(request, two_phase_read=True), now)

    def dequeue_message_end(
        self, descriptor: OpenQueueDescriptor, lookup_id: int, *, delete_message: bool, transaction: bytes | None = None
    ) -> HResult:
        """MS-MQDMPR 3.1.7.1.12. `transaction` is that of the read."""
        queue = descriptor.queue
        if queue is None:
            return HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
        if transaction is not None:
            return self._end_transactional(queue, lookup_id, transaction, delete_message=delete_message)
        if lookup_id not in descriptor.two_phase_reads:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        descriptor.two_phase_reads.remove(lookup_id)
        if queue.positions.state(lookup_id) is PositionState.PURGE_PENDING:
            self._positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)
        elif delete_message:
            self._positions.received(queue, lookup_id)
        elif lookup_id in queue.positions:
            self._positions.available(queue, lookup_id)
        return HResult.MQ_OK

    def peek_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.15."""
        queue = descriptor.queue
        if queue is None:
            return _QUEUE_NOT_AVAILABLE
        if not descriptor.access_type.can_peek:
            return Read(HResult.MQ_ERROR_ACCESS_DENIED)
        if request.cursor is not None:
            shows_one = request.cursor.state is CursorState.READ
            found = request.cursor.get_message_for_peek()
            if shows_one and found is Found.SUCCEEDED:
                message = self._positions.find(queue, request.cursor.position)
                return Read(_CURSOR_STATUS[Found.ALREADY_RECEIVED]) if message is None else Read(HResult.MQ_OK, message)
            return self._peeked(descriptor, request, found, now)
        while (position := queue.positions.next_peekable(START)) != END:
            message = self._positions.find(queue, position)
            if message is not None:
                return Read(HResult.MQ_OK, message)
        return self._wait(descriptor, request, now, destructive_read=False)

    def peek_next_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.14. The request names a cursor."""
        if descriptor.queue is None:
            return _QUEUE_NOT_AVAILABLE
        if not descriptor.access_type.can_peek:
            return Read(HResult.MQ_ERROR_ACCESS_DENIED)
        assert request.cursor is not None
        return self._peeked(descriptor, request, request.cursor.get_next_message_for_peek(), now)

    def read_message_by_lookup_identifier(
        self, descriptor: OpenQueueDescriptor, lookup_id: int, action: MessageSeekAction, request: ReadRequest | None
    ) -> Read:
        """MS-MQDMPR 3.1.7.1.13. Without a request it is a peek."""
        queue = descriptor.queue
        if queue is None:
            return _QUEUE_NOT_AVAILABLE
        access = descriptor.access_type
        if not (access.can_peek if request is None else access.can_receive):
            return Read(HResult.MQ_ERROR_ACCESS_DENIED)
        if request is not None and not self._is_possible(request):
            return Read(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if request is not None and _may_come_back(queue, request):
            return Read(HResult.MQ_ERROR_TRANSACTION_USAGE)
        while True:
            status, found = _seek(descriptor, queue, lookup_id, action, is_peek=request is None)
            if status is not HResult.MQ_OK:
                return Read(status)
            if request is None:
                message = self._positions.find(queue, found)
            else:
                message = self._take(descriptor, queue, found, request)
            if message is not None:
                return Read(HResult.MQ_OK, message)

    def cancel_waiting_message_read_request(
        self, descriptor: OpenQueueDescriptor, tag: int, status: HResult
    ) -> HResult:  # fmt: skip
        """MS-MQDMPR 3.1.7.1.17. readings MQDMPR 3.L: tags are those of one descriptor."""
        for wait in descriptor.waiting.values():
            if wait.request.tag == tag:
                self._end(wait, status)
                return HResult.MQ_OK
        return HResult.STATUS_NOT_FOUND

    def end_waits(self, waits: Iterable[WaitingMessageReadOperation], status: HResult) -> None:
        """End these waits without a message, as closing a queue or a cursor does."""
        for wait in tuple(waits):
            self._end(wait, status)

    def end_refused_waits(self) -> None:
        """End the waits that may have no message any more."""
        self.end_waits([wait for wait in self._waits.values() if not self.admits(wait)], HResult.MQ_ERROR_ACCESS_DENIED)

    def waits_in(self, transaction: bytes) -> bool:
        """Whether a read of this transaction waits."""
        return any(wait.request.transaction == transaction for wait in self._waits.values())

    def end_two_phase_reads(self, descriptor: OpenQueueDescriptor) -> None:
        """Give back messages that were read through a closed handle: nothing is left to end these reads."""
        for lookup_id in sorted(descriptor.two_phase_reads):
            self.dequeue_message_end(descriptor, lookup_id, delete_message=False)

    def _is_possible(self, request: ReadRequest) -> bool:
        return request.transaction is None or self._transactions.is_open(request.transaction)

    def _offer(self, queue: Queue, lookup_id: int) -> None:
        """MS-MQDMPR 3.1.7.2.2, last part. Every step ends a wait, so that the round costs what it achieves."""
        while queue.waiting:
            descriptor = next(iter(queue.waiting.values()))
            wait = next(iter(descriptor.waiting.values()))
            if not self._is_possible(wait.request):
                self._end(wait, HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
                continue
            if not self.admits(wait):
                self._end(wait, HResult.MQ_ERROR_ACCESS_DENIED)
                continue
            message = self._positions.find(queue, lookup_id)
            if message is None:
                return
            self._forget(wait)
            if wait.request.cursor is not None:
                wait.request.cursor.message_available(lookup_id)
            if wait.destructive_read:
                message = self._take(descriptor, queue, lookup_id, wait.request)
            self._positions.events.append(ReadEnded(wait.wait_id, HResult.MQ_OK, message))
            if wait.destructive_read:
                return

    def _take(
        self, descriptor: OpenQueueDescriptor, queue: Queue, lookup_id: int, request: ReadRequest
    ) -> Message | None:
        """Take the message: a transaction locks it until its outcome, a two-phase read until its end; else it is gone.

        None if the message is damaged, and therefore gone.
        """
        if request.transaction is None and not request.two_phase_read:
            return self._positions.received(queue, lookup_id)
        message = self._positions.lock(queue, lookup_id)
        if message is None:
            return None
        if request.transaction is not None:
            operation = TransactionalOperation(OperationType.DEQUEUE, queue, lookup_id, message=message)
            self._transactions.record(request.transaction, operation)
        else:
            descriptor.two_phase_reads.add(lookup_id)
        return message

    def _end_transactional(
        self, queue: Queue, lookup_id: int, transaction: bytes, *, delete_message: bool
    ) -> HResult:  # fmt: skip
        """readings MQDMPR 3.R: the outcome decides about a delivered message; another one is free again."""
        if not self._transactions.holds(transaction, queue, lookup_id):
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        if not delete_message:
            if not self._transactions.is_open(transaction):
                # A prepared transaction stays as it was promised.
                return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
            self._transactions.take_back(transaction, queue, lookup_id)
        return HResult.MQ_OK

    def _peeked(self, descriptor: OpenQueueDescriptor, request: ReadRequest, found: Found, now: Now) -> Read | Waiting:
        assert request.cursor is not None
        assert descriptor.queue is not None
        while found is Found.SUCCEEDED:
            message = self._positions.find(descriptor.queue, request.cursor.position)
            if message is not None:
                return Read(HResult.MQ_OK, message)
            found = request.cursor.get_next_message_for_peek()
        if found is Found.WAITING:
            return self._wait(descriptor, request, now, destructive_read=False)
        return Read(_CURSOR_STATUS[found])

    def _wait(
        self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now, *, destructive_read: bool
    ) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.3.1."""
        if request.timeout_ms is not None and request.timeout_ms <= 0:
            self._expire_cursor(request.cursor)
            return Read(HResult.MQ_ERROR_IO_TIMEOUT)
        self._last_wait_id += 1
        wait = WaitingMessageReadOperation(self._last_wait_id, descriptor, destructive_read, request)
        self._waits[wait.wait_id] = wait
        descriptor.waiting[wait.wait_id] = wait
        assert descriptor.queue is not None
        descriptor.queue.waiting[descriptor.handle] = descriptor
        if request.timeout_ms is not None:
            # MS-MQDMPR 3.1.6.3: it ends when its time is over.
            self._timers.start(
                (Reading, wait.wait_id),
                now.monotonic + request.timeout_ms / 1000,
                lambda _: self._end(wait, HResult.MQ_ERROR_IO_TIMEOUT),
            )
        return Waiting(wait.wait_id)

    def _end(self, wait: WaitingMessageReadOperation, status: HResult) -> None:
        self._forget(wait)
        self._expire_cursor(wait.request.cursor)
        self._positions.events.append(ReadEnded(wait.wait_id, status))

    def _forget(self, wait: WaitingMessageReadOperation) -> None:
        descriptor = wait.descriptor
        del self._waits[wait.wait_id]
        del descriptor.waiting[wait.wait_id]
        if wait.request.timeout_ms is not None:
            self._timers.stop((Reading, wait.wait_id))
        if not descriptor.waiting and descriptor.queue is not None:
            del descriptor.queue.waiting[descriptor.handle]

    def _expire_cursor(self, cursor: Cursor | None) -> None:
        if cursor is not None:
            cursor.wait_time_expired(self._positions.sequential_id)


def _seek(
    descriptor: OpenQueueDescriptor, queue: Queue, lookup_id: int, action: MessageSeekAction, *, is_peek: bool
) -> tuple[HResult, int]:
    """MS-MQDMPR 3.1.7.3.3. readings MQDMPR 3.C: SeekFirst and SeekLast need no message with the given identifier."""
    positions = queue.positions
    following = positions.next_peekable if is_peek else positions.next_available
    preceding = positions.previous_peekable if is_peek else positions.previous_available
    match action:
        case MessageSeekAction.SEEK_FIRST:
            found = following(START)
        case MessageSeekAction.SEEK_LAST:
            found = preceding(END)
        case MessageSeekAction.SEEK_CURRENT:
            return _seek_current(descriptor, queue, lookup_id, is_peek=is_peek), lookup_id
        case _ if positions.state(lookup_id) is PositionState.DELETED:
            found = END
        case MessageSeekAction.SEEK_NEXT:
            found = following(lookup_id)
        case MessageSeekAction.SEEK_PREVIOUS:
            found = preceding(lookup_id)
    return HResult.MQ_ERROR_MESSAGE_NOT_FOUND if found in (START, END) else HResult.MQ_OK, found


def _may_come_back(queue: Queue, request: ReadRequest) -> bool:
    """Whether a message of an outgoing queue could return to it: those behind it would have been sent by then.

    An administrator takes messages out of such a queue for good, or looks at them.
    """
    return isinstance(queue, OutgoingQueue) and (request.two_phase_read or request.transaction is not None)


def _seek_current(descriptor: OpenQueueDescriptor, queue: Queue, lookup_id: int, *, is_peek: bool) -> HResult:
    match queue.positions.state(lookup_id):
        case PositionState.AVAILABLE:
            return HResult.MQ_OK
        case PositionState.LOCKED if is_peek:
            is_shown = queue.positions.is_shown(lookup_id)
            return HResult.MQ_OK if is_shown else HResult.MQ_ERROR_TRANSACTION_USAGE
        # A message that was here is known as long as a cursor of this handle stands where it was.
        case PositionState.DELETED if any(cursor.position == lookup_id for cursor in descriptor.cursors.values()):
            return HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
        case _:
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
