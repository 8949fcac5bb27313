"""Reading messages, now or when one comes: MS-MQDMPR 3.1.7.1.10 to 3.1.7.1.15, 3.1.7.1.17 and 3.1.7.3.1 to 3.1.7.3.7.

A read that finds nothing waits: it answers Waiting, and a ReadEnded event with the same number follows when a message
comes, the time is over, or somebody ends the wait. A message that comes is offered descriptor by descriptor, to the
waits of each in their order; peeks share it, the first receive takes it and ends the round (readings MQDMPR 3.H). It is
taken in the same moment, so nobody can step between.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from waypost.clock import Now
from waypost.core.cursors import Cursor, Found
from waypost.core.ports import ReadEnded
from waypost.core.position_events import PositionEvents
from waypost.core.positions import END, START, PositionState
from waypost.core.queues import OpenQueueDescriptor, Queue, ReadRequest, WaitingMessageReadOperation
from waypost.core.transactions import OperationType, TransactionalOperation, Transactions
from waypost.hresult import HResult
from waypost.wire.message_class import MessageClass


@dataclass(frozen=True, slots=True)
class Read:
    """How a read ended. With MQ_OK, `lookup_id` is the message."""

    status: HResult
    lookup_id: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The read waits; ReadEnded will tell."""

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


class Reading:
    """The readers of all queues of one queue manager."""

    __slots__ = ("_last_wait_id", "_positions", "_transactions", "_waits")

    def __init__(self, positions: PositionEvents, transactions: Transactions) -> None:
        self._positions: Final = positions
        self._transactions: Final = transactions
        self._waits: dict[int, WaitingMessageReadOperation] = {}
        self._last_wait_id = 0

    def dequeue_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.10."""
        queue = descriptor.queue
        if queue is None:
            return Read(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        if request.cursor is not None:
            found = request.cursor.get_next_message_for_dequeue(no_wait=request.timeout_ms == 0)
            if found is Found.SUCCEEDED:
                return self._take(queue, request.cursor.position, request)
            if found is not Found.WAITING:
                return Read(_CURSOR_STATUS[found])
        else:
            position = queue.positions.next_available(START)
            if position != END:
                return self._take(queue, position, request)
        return self._wait(descriptor, request, now, destructive_read=True)

    def dequeue_message_begin(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.11."""
        return self.dequeue_message(descriptor, replace(request, two_phase_read=True), now)

    def dequeue_message_end(self, descriptor: OpenQueueDescriptor, lookup_id: int, *, delete_message: bool) -> HResult:
        """MS-MQDMPR 3.1.7.1.12 for a message that no transaction holds."""
        queue = descriptor.queue
        if queue is None:
            return HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
        match queue.positions.state(lookup_id):
            case PositionState.LOCKED if delete_message:
                self._positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
            case PositionState.LOCKED:
                self._positions.available(queue, lookup_id)
            case PositionState.PURGE_PENDING:
                self._positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)
            case _:
                return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        return HResult.MQ_OK

    def peek_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.15."""
        queue = descriptor.queue
        if queue is None:
            return Read(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        if request.cursor is not None:
            found = request.cursor.get_message_for_peek()
            return self._peeked(descriptor, request, found, now)
        position = queue.positions.next_available(START)
        if position != END:
            return Read(HResult.MQ_OK, position)
        return self._wait(descriptor, request, now, destructive_read=False)

    def peek_next_message(self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.1.14. The request names a cursor."""
        if descriptor.queue is None:
            return Read(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        assert request.cursor is not None
        return self._peeked(descriptor, request, request.cursor.get_next_message_for_peek(), now)

    def read_message_by_lookup_identifier(
        self, descriptor: OpenQueueDescriptor, lookup_id: int, action: MessageSeekAction, request: ReadRequest | None
    ) -> Read:
        """MS-MQDMPR 3.1.7.1.13. Without a request it is a peek."""
        queue = descriptor.queue
        if queue is None:
            return Read(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        found = _seek(queue, lookup_id, action, is_peek=request is None)
        if found.status is not HResult.MQ_OK or request is None:
            return found
        return self._take(queue, found.lookup_id, request)

    def cancel_waiting_message_read_request(
        self, descriptor: OpenQueueDescriptor, tag: int, status: HResult
    ) -> HResult:  # fmt: skip
        """MS-MQDMPR 3.1.7.1.17. readings MQDMPR 3.L: tags are those of one descriptor."""
        for wait in descriptor.waiting:
            if wait.request.tag == tag:
                self._end(wait, status)
                return HResult.MQ_OK
        return HResult.STATUS_NOT_FOUND

    def end_waits(self, waits: Iterable[WaitingMessageReadOperation], status: HResult) -> None:
        """End these waits without a message, as closing a queue or a cursor does."""
        for wait in tuple(waits):
            self._end(wait, status)

    def offer_arrivals(self) -> None:
        """MS-MQDMPR 3.1.7.2.2, last part: hand what became Available to those who wait for it."""
        arrivals = self._positions.arrivals
        while arrivals:
            queue, lookup_id = arrivals.popleft()
            self._offer(queue, lookup_id)

    def expire(self, monotonic: float) -> None:
        """MS-MQDMPR 3.1.6.3: end the waits whose time is over."""
        for wait in tuple(self._waits.values()):
            if wait.deadline is not None and wait.deadline <= monotonic:
                self._end(wait, HResult.MQ_ERROR_IO_TIMEOUT)

    @property
    def next_deadline(self) -> float | None:
        """When `expire` has something to do."""
        return min((wait.deadline for wait in self._waits.values() if wait.deadline is not None), default=None)

    def _offer(self, queue: Queue, lookup_id: int) -> None:
        for descriptor in queue.descriptors:
            for wait in tuple(descriptor.waiting):
                if queue.positions.state(lookup_id) is not PositionState.AVAILABLE:
                    return
                self._forget(wait)
                if wait.request.cursor is not None:
                    wait.request.cursor.message_available(lookup_id)
                if wait.destructive_read:
                    read = self._take(queue, lookup_id, wait.request)
                    self._positions.events.append(ReadEnded(wait.wait_id, read.status, read.lookup_id))
                    return
                self._positions.events.append(ReadEnded(wait.wait_id, HResult.MQ_OK, lookup_id))

    def _take(self, queue: Queue, lookup_id: int, request: ReadRequest) -> Read:
        """A transaction locks the message until its outcome, a two-phase read until its end; else it is gone."""
        if request.transaction is not None:
            if request.transaction not in self._transactions.collection:
                return Read(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
            operation = TransactionalOperation(OperationType.DEQUEUE, queue, lookup_id)
            self._transactions.record(request.transaction, operation)
        elif request.two_phase_read:
            queue.positions.set_state(lookup_id, PositionState.LOCKED)
        else:
            self._positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
        return Read(HResult.MQ_OK, lookup_id)

    def _peeked(self, descriptor: OpenQueueDescriptor, request: ReadRequest, found: Found, now: Now) -> Read | Waiting:
        if found is Found.WAITING:
            return self._wait(descriptor, request, now, destructive_read=False)
        if found is not Found.SUCCEEDED:
            return Read(_CURSOR_STATUS[found])
        assert request.cursor is not None
        return Read(HResult.MQ_OK, request.cursor.position)

    def _wait(
        self, descriptor: OpenQueueDescriptor, request: ReadRequest, now: Now, *, destructive_read: bool
    ) -> Read | Waiting:
        """MS-MQDMPR 3.1.7.3.1."""
        if request.timeout_ms is not None and request.timeout_ms <= 0:
            self._expire_cursor(request.cursor)
            return Read(HResult.MQ_ERROR_IO_TIMEOUT)
        self._last_wait_id += 1
        deadline = None if request.timeout_ms is None else now.monotonic + request.timeout_ms / 1000
        wait = WaitingMessageReadOperation(self._last_wait_id, descriptor, destructive_read, request, deadline)
        descriptor.waiting.append(wait)
        self._waits[wait.wait_id] = wait
        return Waiting(wait.wait_id)

    def _end(self, wait: WaitingMessageReadOperation, status: HResult) -> None:
        self._forget(wait)
        self._expire_cursor(wait.request.cursor)
        self._positions.events.append(ReadEnded(wait.wait_id, status))

    def _forget(self, wait: WaitingMessageReadOperation) -> None:
        wait.descriptor.waiting.remove(wait)
        del self._waits[wait.wait_id]

    def _expire_cursor(self, cursor: Cursor | None) -> None:
        if cursor is not None:
            cursor.wait_time_expired(self._positions.sequential_id)


def _seek(queue: Queue, lookup_id: int, action: MessageSeekAction, *, is_peek: bool) -> Read:
    """MS-MQDMPR 3.1.7.3.3. readings MQDMPR 3.C: SeekFirst and SeekLast need no message with the given identifier."""
    positions = queue.positions
    match action:
        case MessageSeekAction.SEEK_FIRST:
            found = positions.next_available(START)
        case MessageSeekAction.SEEK_LAST:
            found = positions.previous_available(END)
        case MessageSeekAction.SEEK_CURRENT:
            return _seek_current(queue, lookup_id, is_peek=is_peek)
        case _ if lookup_id not in positions:
            return Read(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        case MessageSeekAction.SEEK_NEXT:
            found = positions.next_available(lookup_id)
        case MessageSeekAction.SEEK_PREVIOUS:
            found = positions.previous_available(lookup_id)
    if found in (START, END):
        return Read(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
    return Read(HResult.MQ_OK, found)


def _seek_current(queue: Queue, lookup_id: int, *, is_peek: bool) -> Read:
    match queue.positions.state(lookup_id):
        case PositionState.AVAILABLE:
            return Read(HResult.MQ_OK, lookup_id)
        case PositionState.LOCKED if is_peek:
            return Read(HResult.MQ_ERROR_TRANSACTION_USAGE)
        case _:
            return Read(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
