"""Transactions: MS-MQDMPR 3.1.1.13, 3.1.1.14, 3.1.4.3 to 3.1.4.5 and 3.1.7.1.8.

An operation only locks a position; commit does the operations in the order in which they were recorded, abort takes
them back. The marks FirstInTransaction and LastInTransaction go to the first and the last message that the transaction
sends to one queue, at prepare or, without one, at commit (readings MQDMPR 3.P).
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from waypost.core.position_events import PositionEvents
from waypost.core.positions import PositionState
from waypost.core.queues import Queue
from waypost.hresult import HResult
from waypost.wire.message_class import MessageClass


class OperationType(Enum):
    ENQUEUE = auto()
    DEQUEUE = auto()
    MOVE = auto()


@dataclass(slots=True)
class TransactionalOperation:
    """MS-MQDMPR 3.1.1.13. A Move has a target, a Dequeue the reason that its acknowledgment will tell."""

    operation_type: OperationType
    queue: Queue
    lookup_id: int
    dequeue_reason: MessageClass = MessageClass.MQMSG_CLASS_ACK_RECEIVE
    target_queue: Queue | None = None


@dataclass(slots=True)
class Transaction:
    """MS-MQDMPR 3.1.1.14. `single_phase` is True for a transaction of this queue manager alone."""

    identifier: bytes
    single_phase: bool = True
    is_prepared: bool = False
    operations: list[TransactionalOperation] = field(default_factory=list)


class Transactions:
    """TransactionCollection and the events on it."""

    __slots__ = ("_positions", "collection")

    def __init__(self, positions: PositionEvents) -> None:
        self._positions: Final = positions
        self.collection: dict[bytes, Transaction] = {}

    def create_transaction(self, identifier: bytes) -> Transaction:
        """MS-MQDMPR 3.1.7.1.8."""
        transaction = Transaction(identifier)
        self.collection[identifier] = transaction
        return transaction

    def record(self, identifier: bytes, operation: TransactionalOperation) -> None:
        """Append an operation, and lock the position that it is about."""
        operation.queue.positions.set_state(operation.lookup_id, PositionState.LOCKED)
        self.collection[identifier].operations.append(operation)

    def transaction_prepare(self, identifier: bytes, *, single_phase: bool = True) -> HResult:
        """MS-MQDMPR 3.1.4.3."""
        transaction = self.collection.get(identifier)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        transaction.single_phase = single_phase
        if not transaction.is_prepared:
            transaction.is_prepared = True
            self._mark(transaction)
        return HResult.MQ_OK

    def transaction_commit(self, identifier: bytes, wall: float) -> HResult:
        """MS-MQDMPR 3.1.4.4."""
        transaction = self.collection.get(identifier)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        if not transaction.is_prepared:
            self._mark(transaction)
        del self.collection[identifier]
        for operation in transaction.operations:
            self._commit(operation, wall)
        return HResult.MQ_OK

    def transaction_abort(self, identifier: bytes) -> HResult:
        """MS-MQDMPR 3.1.4.5."""
        transaction = self.collection.pop(identifier, None)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        for operation in transaction.operations:
            self._abort(operation)
        return HResult.MQ_OK

    def forget(self, queue: Queue, lookup_id: int) -> None:
        """readings MQDMPR 3.R: take the Dequeue of a message out of the transaction that holds it."""
        for transaction in self.collection.values():
            transaction.operations = [
                operation
                for operation in transaction.operations
                if operation.queue is not queue or operation.lookup_id != lookup_id
            ]

    def _mark(self, transaction: Transaction) -> None:
        sends: dict[int, list[TransactionalOperation]] = {}
        for operation in transaction.operations:
            if operation.operation_type is OperationType.ENQUEUE:
                sends.setdefault(operation.queue.number, []).append(operation)
        for operations in sends.values():
            for operation in (operations[0], operations[-1]):
                message = self._positions.messages.get(operation.queue.number, operation.lookup_id)
                message.first_in_transaction |= operation is operations[0]
                message.last_in_transaction |= operation is operations[-1]
                message.packet = b""
                self._positions.messages.put(operation.queue.number, message)

    def _commit(self, operation: TransactionalOperation, wall: float) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        # A queue that was deleted meanwhile took its positions along.
        if queue.positions.state(lookup_id) is PositionState.DELETED:
            return
        match operation.operation_type:
            case OperationType.ENQUEUE:
                self._positions.available(queue, lookup_id)
            case OperationType.DEQUEUE:
                self._positions.deleted(queue, lookup_id, operation.dequeue_reason)
            case OperationType.MOVE:
                assert operation.target_queue is not None
                move(self._positions, queue, lookup_id, operation.target_queue, wall)

    def _abort(self, operation: TransactionalOperation) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        state = queue.positions.state(lookup_id)
        if state is PositionState.DELETED:
            return
        if operation.operation_type is OperationType.ENQUEUE:
            self._positions.remove(queue, lookup_id)
            return
        if state is PositionState.PURGE_PENDING:
            # readings MQDMPR 3.S: a Move has no reason of its own.
            is_move = operation.operation_type is OperationType.MOVE
            reason = MessageClass.MQMSG_CLASS_NACK_Q_PURGED if is_move else operation.dequeue_reason
            self._positions.deleted(queue, lookup_id, reason)
            return
        message = self._positions.messages.get(queue.number, lookup_id)
        message.abort_count += 1
        self._positions.messages.put(queue.number, message)
        self._positions.available(queue, lookup_id)


def move(positions: PositionEvents, source: Queue, lookup_id: int, target: Queue, wall: float) -> None:
    """MS-MQDMPR 3.1.7.1.16 and 3.1.4.4: the same message at its ordered place in another queue."""
    message = positions.remove(source, lookup_id)
    message.move_count += 1
    message.last_move_time = int(wall)
    message.abort_count = 0
    positions.place(target, message, PositionState.LOCKED)
    positions.available(target, lookup_id)
