"""Put messages into queues, move them, and purge queues: MS-MQDMPR 3.1.7.1.7, 3.1.7.1.9 and 3.1.7.1.16.

The flow control of 3.1.7.2.5 and 3.1.7.2.6 is here too, because it only refuses messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.ports import PurgePendingChanged
from waypost.core.position_events import PositionEvents
from waypost.core.positions import END, SEQUENCE_MASK, START, PositionState
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.serialization import size_in_bytes
from waypost.core.transaction_records import OperationType, TransactionalOperation
from waypost.core.transactions import Transactions, move
from waypost.errors import TransactionSequence
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.wire.base_header import has_expired
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import QueueKind


class EnqueueStatus(IntEnum):
    """MS-MQDMPR 3.1.7.1.9: the numbers that Enqueue Message returns."""

    ACCEPTED = 0
    QUEUE_QUOTA_EXCEEDED = 1
    QUEUE_MANAGER_QUOTA_EXCEEDED = 2
    TIMED_OUT = 3


@dataclass(slots=True)
class Purge:
    """Progress of a purge: it is behind `position`. Arrivals after `last_sequential_id` are not purged."""

    queue: Queue
    last_sequential_id: int
    position: int = START
    reason: MessageClass = MessageClass.MQMSG_CLASS_NACK_Q_PURGED


@dataclass(frozen=True, slots=True)
class MovedPart:
    """Progress of a move of all messages: `count` were moved with this part, and it goes on behind `after`.

    `up_to` is the SequentialID of the last message at its beginning, 0 before that.
    """

    count: int = 0
    after: int = START
    up_to: int = 0
    is_last: bool = False


class Writing:
    """The writers to all queues of one queue manager."""

    __slots__ = ("_positions", "_transactions", "throttled")

    def __init__(self, positions: PositionEvents, transactions: Transactions) -> None:
        self._positions: Final = positions
        self._transactions: Final = transactions
        self.throttled = False

    def begin_flow_control(self) -> None:
        """MS-MQDMPR 3.1.7.2.5."""
        self.throttled = True

    def end_flow_control(self) -> None:
        """MS-MQDMPR 3.1.7.2.6."""
        self.throttled = False

    def has_room(self, size: int) -> bool:
        """Whether the queue manager accepts a message of this size: its quota allows it, and nothing is throttled."""
        return not self.throttled and self._positions.fits_machine(size)

    def sure_room(self, queue: Queue) -> float:
        """Number of bytes that certainly fit into the queue and the queue manager, until the next put or removal."""
        return 0.0 if self.throttled else self._positions.sure_room(queue)

    def enqueue_message(self, queue: Queue, message: Message, transaction: bytes | None, now: Now) -> EnqueueStatus:
        """MS-MQDMPR 3.1.7.1.9. Raises TransactionSequence if the transaction is not active."""
        status = self.check(queue, message, size_in_bytes(message), transaction, now)
        if status is not EnqueueStatus.ACCEPTED:
            return status
        if transaction is None:
            self._enqueue(queue, message, now)
            return EnqueueStatus.ACCEPTED
        positions = self._positions
        message.arrival_time = int(now.wall)
        lookup_id = positions.identify(message)
        positions.place(queue, message, PositionState.LOCKED)
        is_quiet = not message.asks_for_attention
        operation = TransactionalOperation(OperationType.ENQUEUE, queue, lookup_id, is_quiet=is_quiet)
        self._transactions.record(transaction, operation)
        return EnqueueStatus.ACCEPTED

    def enqueue_owed(self, queue: Queue, message: Message, now: Now) -> None:
        """Enqueue a message that was promised to another queue manager: it counts against the quotas, but always fits.

        The limit applies to the promise: a message that leads to one is not accepted without room for it.
        """
        self._enqueue(queue, message, now)

    def _enqueue(self, queue: Queue, message: Message, now: Now) -> None:
        positions = self._positions
        message.arrival_time = int(now.wall)
        positions.identify(message)
        if positions.place_for_all(queue, message, now.wall):
            positions.arrived(queue, message)

    def enqueue_messages(
        self, queue: Queue, messages: Sequence[Message], like: Message, transaction: bytes | None, now: Now
    ) -> EnqueueStatus:
        """Enqueue Message for all of these or none. They have packets, and differ from `like` only in identifiers and
        bodies.
        """
        size = sum([len(message.packet) for message in messages])
        status = self.check(queue, like, size, transaction, now)
        if status is not EnqueueStatus.ACCEPTED:
            return status
        if transaction is None:
            self.put_messages(queue, messages, like, now, size=size)
            return EnqueueStatus.ACCEPTED
        arrival_time = int(now.wall)
        for message in messages:
            message.arrival_time = arrival_time
        self._positions.place_all(queue, messages, like, PositionState.LOCKED, size=size)
        self._transactions.record_all(transaction, queue, messages, is_quiet=not like.asks_for_attention)
        return EnqueueStatus.ACCEPTED

    def put_messages(self, queue: Queue, messages: Sequence[Message], like: Message, now: Now, *, size: int) -> None:
        """Put messages for which `check` is known to return ACCEPTED; `size` is the total."""
        positions = self._positions
        arrival_time = int(now.wall)
        for message in messages:
            message.arrival_time = arrival_time
        deadline = positions.place_all(queue, messages, like, PositionState.AVAILABLE, size=size)
        if deadline is None or deadline > now.wall:
            positions.arrived_all(queue, messages, like)
        else:
            positions.end_late(queue, messages)

    def put_staged(self, queue: Queue, messages: Sequence[Message], now: Now) -> None:
        """Put messages of a committed stage behind all others of the queue. The quotas were asked before."""
        if isinstance(queue, OutgoingQueue):
            self._transactions.put_out(queue, messages, now)
        else:
            for message in messages:
                self._enqueue(queue, message, now)

    def check(
        self, queue: Queue, message: Message, size: int, transaction: bytes | None, now: Now
    ) -> EnqueueStatus:  # fmt: skip
        """The status of Enqueue Message for messages of this total size, which are all like `message`."""
        if transaction is not None and not self._transactions.is_open(transaction):
            raise TransactionSequence(
                f"the transaction {guid_text(transaction)} is not active, so it accepts no messages"
            )
        # readings MQDMPR 3.E: the specification declares this status and has no step for it.
        if has_expired(message.sent_time, message.time_to_reach_queue, int(now.wall)) and queue.lets_messages_expire:
            return EnqueueStatus.TIMED_OUT
        if not self.has_room(size):
            return EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED
        if not self._positions.fits(queue, size):
            return EnqueueStatus.QUEUE_QUOTA_EXCEEDED
        return EnqueueStatus.ACCEPTED

    def move_message(
        self, source: Queue, lookup_id: int, target: Queue, transaction: bytes | None, now: Now
    ) -> HResult:  # fmt: skip
        """MS-MQDMPR 3.1.7.1.16."""
        if source.positions.state(lookup_id) is not PositionState.AVAILABLE:
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        if transaction is None:
            is_moved = move(self._positions, source, lookup_id, target, now.wall)
            return HResult.MQ_OK if is_moved else HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        if target.queue_type is QueueKind.SYSTEM or isinstance(source, OutgoingQueue):
            # A message that comes back to an outgoing queue would be behind those that were sent meanwhile.
            return HResult.MQ_ERROR_TRANSACTION_USAGE
        if not self._transactions.is_open(transaction):
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        if self._positions.lock(source, lookup_id) is None:
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        operation = TransactionalOperation(OperationType.MOVE, source, lookup_id, target_queue=target)
        self._transactions.record(transaction, operation)
        return HResult.MQ_OK

    def move_some(self, source: Queue, target: Queue, part: "MovedPart", count: int, now: Now) -> "MovedPart":
        """Move up to `count` more Available messages, each as `move_message` does, in list order. Returns the progress.

        It covers the messages of the queue when the first part came. Held messages stay.
        """
        positions, after, moved = source.positions, part.after, 0
        up_to = part.up_to or self._positions.sequential_id
        for _ in range(count):
            after = positions.next_available(after)
            if after == END:
                break
            if after & SEQUENCE_MASK > up_to:
                # So are all behind it that have the same priority.
                after |= SEQUENCE_MASK
            else:
                move(self._positions, source, after, target, now.wall)
                moved += 1
        is_last = after == END or positions.next_available(after) == END
        return MovedPart(moved, after, up_to, is_last)

    def purge_queue(self, queue: Queue) -> None:
        """MS-MQDMPR 3.1.7.1.7."""
        purge = self.begin_purge(queue)
        while self.continue_purge(purge, len(queue.positions)):
            pass

    def begin_purge(self, queue: Queue) -> Purge:
        """Begin a purge that `continue_purge` does in parts. It covers the current messages of the queue."""
        return Purge(queue, self._positions.sequential_id)

    def continue_purge(self, purge: Purge, count: int) -> bool:
        """Purge up to `count` more messages. False when none is left to purge."""
        positions = purge.queue.positions
        for _ in range(count):
            purge.position = positions.next_any(purge.position)
            if purge.position == END:
                return False
            if purge.position & SEQUENCE_MASK > purge.last_sequential_id:
                # So are all behind it that have the same priority.
                purge.position |= SEQUENCE_MASK
                continue
            if positions.state(purge.position) is PositionState.AVAILABLE:
                self._positions.deleted(purge.queue, purge.position, purge.reason)
            elif positions.is_late(purge.position):
                self._positions.take_expired(purge.queue, purge.position)
            else:
                positions.set_state(purge.position, PositionState.PURGE_PENDING)
                self._positions.events.append(PurgePendingChanged(purge.queue, purge.position))
        return positions.next_any(purge.position) != END

    def delete_messages(self, queue: Queue) -> None:
        """MS-MQDMPR 3.1.7.1.4: delete every message with its queue, in any state.

        Messages of a transaction without an outcome were never visible, and are removed without an event.
        """
        uncommitted = set(chain.from_iterable(self._transactions.sends_to(queue)))
        for lookup_id in tuple(queue.positions):
            if lookup_id in uncommitted:
                self._positions.remove(queue, lookup_id)
            elif queue.positions.is_late(lookup_id):
                self._positions.take_expired(queue, lookup_id)
            else:
                self._positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_DELETED)
        self._positions.forget_queue(queue)
