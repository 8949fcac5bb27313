"""Outcomes of transactions: MS-MQDMPR 3.1.4.3 to 3.1.4.5 and 3.1.7.1.8.

An operation only locks a position; commit does the operations in the order in which they were recorded, abort reverts
them. A locked position belongs to one operation. The marks FirstInTransaction and LastInTransaction go to the
first and the last message that the transaction sends to one queue, at prepare or, without one, at commit (readings
MQDMPR 3.P).

In an outgoing queue, messages of transactions are in the order of their commits, because that is the order of their
numbers and their transfer (MS-MQQB 3.1.1.6.2). Their numbers are written into the messages before they are
published.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.ports import PurgePendingChanged, TransactionEnded, TransactionPrepared
from waypost.core.position_events import PositionEvents
from waypost.core.positions import SEQUENCE_MASK, PositionState
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import copied, mark_in_transaction
from waypost.core.transaction_records import OperationType, Run, Transaction, TransactionalOperation, spans_of
from waypost.errors import LimitReached, TransactionSequence
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.limits import MAX_TRANSACTION_OPERATIONS
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import QueueKind

# MS-MQMQ 2.2.20.5: the number of a transaction in a packet has 20 bits.
_MAX_NUMBER: Final = 0xFFFFF

# Gives messages their places in the sequence of an outgoing queue: all that one transaction sends there, in list order.
NumberSends = Callable[[OutgoingQueue, Sequence[Message]], None]


class Transactions:
    """TransactionCollection and the events on it."""

    __slots__ = ("_positions", "collection", "last_number", "lasting", "number_sends")

    def __init__(self, positions: PositionEvents) -> None:
        self._positions: Final = positions
        self.collection: dict[bytes, Transaction] = {}
        # Those of waypost.core.lasting_transactions. No coordinator or application ends one by its identifier.
        self.lasting: dict[bytes, list[Run]] = {}
        # It goes on when the 20 bits are used up, so that it only grows.
        self.last_number = 0
        # Transfer replaces this.
        self.number_sends: NumberSends = _nobody_transfers

    def create_transaction(self, identifier: bytes) -> Transaction:
        """MS-MQDMPR 3.1.7.1.8. Raises TransactionSequence if the identifier is in use."""
        if identifier in self.collection:
            raise TransactionSequence(f"the transaction {guid_text(identifier)} is already active")
        if identifier in self.lasting:
            raise TransactionSequence(f"{guid_text(identifier)} is the id of an active claim or stage")
        transaction = Transaction(identifier, number=self.last_number % _MAX_NUMBER + 1)
        self.last_number += 1
        self.collection[identifier] = transaction
        return transaction

    def restore(self, transaction: Transaction) -> None:
        """Restore a prepared external transaction that outlived the process: it holds its messages as before."""
        self.collection[transaction.identifier] = transaction
        for operation in transaction.operations.values():
            queue, lookup_id = operation.queue, operation.lookup_id
            if lookup_id not in queue.positions:
                continue
            if operation.operation_type is OperationType.ENQUEUE:
                queue.positions.set_state(lookup_id, PositionState.LOCKED)
            else:
                self._positions.lock(queue, lookup_id)

    def number(self, identifier: bytes) -> int:
        """The number in the messages of this transaction. Raises TransactionSequence if it is not active."""
        transaction = self.collection.get(identifier)
        if transaction is None or transaction.is_prepared:
            raise TransactionSequence(
                f"the transaction {guid_text(identifier)} is not active, so it accepts no messages"
            )
        return transaction.number

    def is_open(self, identifier: bytes) -> bool:
        """Whether the transaction is active and can record operations."""
        transaction = self.collection.get(identifier)
        return (
            transaction is not None
            and not transaction.is_prepared
            and len(transaction.operations) < MAX_TRANSACTION_OPERATIONS
        )

    def room(self, identifier: bytes) -> int:
        """Number of further operations that the transaction can have, if it is active.

        All of them are committed in one step, so their number is limited. Raises LimitReached if it has all.
        """
        transaction = self.collection.get(identifier)
        left = MAX_TRANSACTION_OPERATIONS - (0 if transaction is None else len(transaction.operations))
        if left <= 0:
            raise LimitReached(
                f"the transaction {guid_text(identifier)} has reached the limit of {MAX_TRANSACTION_OPERATIONS} "
                "operations; commit it, and begin another transaction"
            )
        return left

    def record(self, identifier: bytes, operation: TransactionalOperation) -> None:
        """Append an operation on a position that is Locked for it."""
        transaction, key = self.collection[identifier], (operation.queue.number, operation.lookup_id)
        assert not transaction.is_prepared, f"an operation joins {guid_text(identifier)}, which is prepared"
        assert key not in transaction.operations, f"{key} is locked twice for one transaction"
        assert operation.queue.positions.is_held(operation.lookup_id), f"{key} is not Locked for its transaction"
        transaction.operations[key] = operation

    def record_all(self, identifier: bytes, queue: Queue, messages: Sequence[Message], *, is_quiet: bool) -> None:
        """Append the sending of these messages, which are Locked for it."""
        assert not self.collection[identifier].is_prepared, f"messages join {guid_text(identifier)}, which is prepared"
        operations, number = self.collection[identifier].operations, queue.number
        for message in messages:
            lookup_id = message.lookup_identifier
            operations[number, lookup_id] = TransactionalOperation(
                OperationType.ENQUEUE, queue, lookup_id, is_quiet=is_quiet
            )

    def sends_to(self, queue: Queue) -> list[range]:
        """The LookupIdentifiers of messages that transactions without an outcome have sent to this queue, in spans."""
        found = [
            operation.lookup_id
            for transaction in self.collection.values()
            for operation in transaction.operations.values()
            if operation.queue is queue and operation.operation_type is OperationType.ENQUEUE
        ]
        spans = spans_of(found)
        for runs in self.lasting.values():
            for run in runs:
                if run.queue is queue and run.operation_type is OperationType.ENQUEUE:
                    spans += run.spans
        return spans

    def holds(self, identifier: bytes, queue: Queue, lookup_id: int) -> bool:
        """Whether the transaction has received this message."""
        transaction = self.collection.get(identifier)
        operation = transaction.operations.get((queue.number, lookup_id)) if transaction is not None else None
        return operation is not None and operation.operation_type is OperationType.DEQUEUE

    def operation_on(self, queue: Queue, lookup_id: int) -> tuple[Transaction, TransactionalOperation] | None:
        """The operation that has locked this position, and its transaction."""
        for transaction in self.collection.values():
            operation = transaction.operations.get((queue.number, lookup_id))
            if operation is not None:
                return transaction, operation
        for identifier, runs in self.lasting.items():
            for run in runs:
                if run.queue is queue and lookup_id in run:
                    operation = TransactionalOperation(run.operation_type, queue, lookup_id)
                    return Transaction(identifier, is_prepared=True), operation
        return None

    def take_back(self, identifier: bytes, queue: Queue, lookup_id: int) -> None:
        """readings MQDMPR 3.R: free the message of a Dequeue that did not reach its reader."""
        operation = self.collection[identifier].operations.pop((queue.number, lookup_id))
        self._release(operation, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)

    def transaction_prepare(self, identifier: bytes, *, single_phase: bool = True) -> HResult:
        """MS-MQDMPR 3.1.4.3."""
        transaction = self.collection.get(identifier)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        transaction.single_phase = single_phase
        if not transaction.is_prepared:
            transaction.is_prepared = True
            self.mark(sends_of(transaction))
            if transaction.is_kept:
                self._keep(transaction)
        return HResult.MQ_OK

    def transaction_commit(self, identifier: bytes, wall: float) -> HResult:
        """MS-MQDMPR 3.1.4.4."""
        transaction = self.collection.pop(identifier, None)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        kept, sends = transaction.is_kept, sends_of(transaction)
        if not transaction.is_prepared:
            self.mark(sends)
        self._forget(transaction)
        for queue, operations in sends.items():
            if isinstance(queue, OutgoingQueue):
                messages = self._positions.find_all(queue, [operation.lookup_id for operation in operations])
                whole = {message.lookup_identifier for message in messages}
                readable = [operation for operation in operations if operation.lookup_id in whole]
                for operation, lookup_id in zip(readable, self.send_out(queue, messages, is_kept=kept), strict=True):
                    operation.lookup_id = lookup_id
        self._positions.expire(wall)
        for (number, operation_type), run in groupby(transaction.operations.values(), _simple_type):
            # A queue that was deleted meanwhile took its positions along.
            operations = [each for each in run if each.queue.positions.is_held(each.lookup_id)]
            if operation_type is None or kept or not operations:
                for operation in operations:
                    self._commit(operation, wall, is_kept=kept)
            elif operation_type is OperationType.ENQUEUE:
                lookup_ids = [operation.lookup_id for operation in operations]
                self._positions.messages.publish_all(number, lookup_ids)
                self._positions.available_all(operations[0].queue, lookup_ids)
            else:
                messages = [operation.message for operation in operations if operation.message is not None]
                self._positions.received_all(operations[0].queue, messages)
        return HResult.MQ_OK

    def transaction_abort(self, identifier: bytes) -> HResult:
        """MS-MQDMPR 3.1.4.5."""
        transaction = self.collection.pop(identifier, None)
        if transaction is None:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        self._forget(transaction)
        for (_, operation_type), run in groupby(transaction.operations.values(), _simple_type):
            operations = [each for each in run if each.queue.positions.is_held(each.lookup_id)]
            if operation_type is OperationType.DEQUEUE and operations:
                self._give_back(operations)
            else:
                for operation in operations:
                    self._abort(operation)
        return HResult.MQ_OK

    def _give_back(self, operations: Sequence[TransactionalOperation]) -> None:
        """Abort the receives of messages from one queue, as _abort does, in a third of the time."""
        positions, queue = self._positions, operations[0].queue
        messages = [copied(operation.message) for operation in operations if operation.message is not None]
        for message in messages:
            message.abort_count += 1
            positions.messages.update(queue.number, message)
        lookup_ids = [operation.lookup_id for operation in operations]
        purged = queue.positions.purged(lookup_ids)
        for lookup_id in purged:
            positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
        if purged:
            lookup_ids = list(filter(queue.positions.is_held, lookup_ids))
        positions.available_all(queue, lookup_ids)

    def _keep(self, transaction: Transaction) -> None:
        """MS-MQDMPR 3.1.1.14: keep an external transaction and its messages over the end of the process."""
        assert transaction.is_prepared, f"cannot store {guid_text(transaction.identifier)} before it is prepared"
        messages = self._positions.messages
        for operation in transaction.operations.values():
            if operation.is_send:
                messages.publish(operation.queue.number, operation.lookup_id)
        self._positions.events.append(TransactionPrepared(transaction))

    def _forget(self, transaction: Transaction) -> None:
        if transaction.is_kept:
            self._positions.events.append(TransactionEnded(transaction.identifier))

    def send_out(self, queue: OutgoingQueue, messages: Sequence[Message], *, is_kept: bool) -> Sequence[int]:
        """Put messages to another computer behind all that were committed before, and number them.

        Returns the LookupIdentifiers that the messages have from then on.
        """
        if not messages:
            return ()
        positions = self._positions
        lookup_ids = [message.lookup_identifier for message in messages]
        is_overtaken = lookup_ids[0] < queue.last_committed
        if is_kept or is_overtaken:
            # Others may have seen the stored messages of a prepared transaction.
            messages = [copied(message) for message in messages]
        if is_overtaken:
            for lookup_id in lookup_ids:
                positions.remove(queue, lookup_id)
            lookup_ids = [positions.identify(message) for message in messages]
        self.number_sends(queue, messages)
        if is_overtaken:
            for message in messages:
                positions.place(queue, message, PositionState.LOCKED)
                if is_kept:
                    positions.messages.publish(queue.number, message.lookup_identifier)
        else:
            write = positions.messages.update if is_kept else positions.messages.hold
            for message in messages:
                write(queue.number, message)
        assert lookup_ids[0] > queue.last_committed, f"{lookup_ids[0]:#x} precedes committed messages of {queue}"
        queue.last_committed = lookup_ids[-1]
        return lookup_ids

    def put_out(self, queue: OutgoingQueue, messages: Sequence[Message], now: Now) -> None:
        """Send committed messages to another computer, behind all that were committed before, and number them."""
        positions = self._positions
        for message in messages:
            message.arrival_time = int(now.wall)
            positions.identify(message)
        self.number_sends(queue, messages)
        queue.last_committed = messages[-1].lookup_identifier
        for message in messages:
            if positions.place_for_all(queue, message, now.wall):
                positions.arrived(queue, message)

    def mark(self, sends: dict[Queue, list[TransactionalOperation]]) -> None:
        """Mark the first and the last message that a transaction sends to a queue."""
        for operations in sends.values():
            for operation in (operations[0], operations[-1]):
                # Held for this transaction, so no other reader has seen it.
                message = self._positions.messages.get(operation.queue.number, operation.lookup_id)
                mark_in_transaction(message, is_first=operation is operations[0], is_last=operation is operations[-1])
                self._positions.messages.hold(operation.queue.number, message)

    def _commit(self, operation: TransactionalOperation, wall: float, *, is_kept: bool) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        match operation.operation_type:
            case OperationType.ENQUEUE:
                message = self._positions.find(queue, lookup_id) if is_kept else None
                if is_kept and message is None:
                    return
                if queue.positions.state(lookup_id) is PositionState.PURGE_PENDING:
                    # It was not in the queue yet when that was purged.
                    self._positions.events.append(PurgePendingChanged(queue, lookup_id))
                self._positions.arrived(queue, message or self._positions.messages.publish(queue.number, lookup_id))
            case OperationType.DEQUEUE if operation.dequeue_reason is MessageClass.MQMSG_CLASS_ACK_RECEIVE:
                self._positions.received(queue, lookup_id, operation.message)
            case OperationType.DEQUEUE:
                self._positions.deleted(queue, lookup_id, operation.dequeue_reason, operation.message)
            case OperationType.MOVE:
                assert operation.target_queue is not None
                move(self._positions, operation.queue, lookup_id, operation.target_queue, wall)

    def _abort(self, operation: TransactionalOperation) -> None:
        match operation.operation_type:
            case OperationType.ENQUEUE:
                self._positions.remove(operation.queue, operation.lookup_id)
            case OperationType.DEQUEUE:
                self._positions.attempt_failed(operation.queue, operation.lookup_id)
                self._release(operation, operation.dequeue_reason)
            case OperationType.MOVE:
                self._positions.attempt_failed(operation.queue, operation.lookup_id)
                # readings MQDMPR 3.S: a Move has no separate reason.
                self._release(operation, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)

    def _release(self, operation: TransactionalOperation, reason_if_purged: MessageClass) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        if queue.positions.state(lookup_id) is PositionState.PURGE_PENDING:
            self._positions.deleted(queue, lookup_id, reason_if_purged)
        elif queue.positions.is_held(lookup_id):
            self._positions.available(queue, lookup_id)


def _nobody_transfers(_queue: OutgoingQueue, _messages: Sequence[Message]) -> None:
    """The default without transfer: messages that stay here need no numbers."""


def sends_of(transaction: Transaction) -> dict[Queue, list[TransactionalOperation]]:
    """The messages that the transaction sends to each queue, in list order."""
    sends: dict[Queue, list[TransactionalOperation]] = {}
    for operation in transaction.operations.values():
        if operation.is_send:
            sends.setdefault(operation.queue, []).append(operation)
    return sends


def _simple_type(operation: TransactionalOperation) -> tuple[int, OperationType | None]:
    """The number of the queue, and the type if operations of one queue and type can be committed together.

    That takes half of the time of _commit for each of them.
    """
    if operation.is_quiet:
        return operation.queue.number, OperationType.ENQUEUE
    if operation.message is not None and operation.dequeue_reason is MessageClass.MQMSG_CLASS_ACK_RECEIVE:
        return operation.queue.number, OperationType.DEQUEUE
    return operation.queue.number, None


def move(positions: PositionEvents, source: Queue, lookup_id: int, target: Queue, wall: float) -> bool:
    """MS-MQDMPR 3.1.7.1.16 and 3.1.4.4: put the same message at its ordered place in another queue.

    False if it is unreadable.
    """
    if target.is_deleted:
        # readings MQDMPR 3.S: its target is deleted, so the message is too.
        return positions.deleted(source, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_DELETED) is not None
    removed = positions.remove(source, lookup_id)
    if removed is None:
        return False
    message = copied(removed)
    message.move_count += 1
    message.last_move_time = positions.moves.moved(target.number, lookup_id & SEQUENCE_MASK, wall)
    message.abort_count = 0
    if not positions.place_for_all(target, message, wall):
        return True
    if target.queue_type is QueueKind.SYSTEM:
        # readings MQDMPR 3.Z: no event, but waiting readers are served.
        positions.offer(target, lookup_id)
    else:
        positions.available(target, lookup_id)
    return True
