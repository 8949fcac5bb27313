"""Prepared external transactions in the store: MS-MQDMPR 3.1.1.13 and 3.1.1.14."""

from collections.abc import Mapping
from typing import Final

from waypost.core.queues import Queue
from waypost.core.transaction_records import OperationType, Transaction, TransactionalOperation
from waypost.errors import StoreDamaged
from waypost.guid import NULL_GUID
from waypost.store import records
from waypost.store.port import Batch, Table
from waypost.store.records import OperationRecord, TransactionRecord
from waypost.wire.message_class import MessageClass

_STORED: Final = {
    OperationType.ENQUEUE: records.OperationType.ENQUEUE,
    OperationType.DEQUEUE: records.OperationType.DEQUEUE,
    OperationType.MOVE: records.OperationType.MOVE,
}
_TYPES: Final = {stored: operation_type for operation_type, stored in _STORED.items()}


def write(batch: Batch, transaction: Transaction) -> None:
    operations = [
        OperationRecord(
            _STORED[operation.operation_type],
            operation.queue.number,
            operation.lookup_id,
            0 if operation.target_queue is None else operation.target_queue.number,
            operation.dequeue_reason,
        )
        for operation in transaction.operations.values()
    ]
    record = TransactionRecord(transaction.single_phase, operations)
    batch.put(Table.TRANSACTIONS, transaction.identifier, record.encode())


def delete(batch: Batch, identifier: bytes) -> None:
    batch.delete(Table.TRANSACTIONS, identifier)


def transaction_of(identifier: bytes, record: TransactionRecord, queues: Mapping[int, Queue]) -> Transaction:
    """The prepared transaction of a record. Operations on deleted queues are left out."""
    transaction = Transaction(identifier, record.single_phase, is_prepared=True)
    for stored in record.operations:
        queue = queues.get(stored.queue_id)
        if queue is not None:
            transaction.operations[queue.number, stored.lookup_id] = TransactionalOperation(
                _TYPES[stored.operation_type], queue, stored.lookup_id, _reason(stored), _target(stored, queue, queues)
            )
    return transaction


def _reason(stored: OperationRecord) -> MessageClass:
    try:
        return MessageClass(stored.dequeue_reason)
    except ValueError:
        reason = stored.dequeue_reason
        raise StoreDamaged(f"a transaction in the store has an operation with the unknown reason {reason}") from None


def _target(stored: OperationRecord, queue: Queue, queues: Mapping[int, Queue]) -> Queue | None:
    """The destination of a Move. A queue that was deleted since stays deleted (readings MQDMPR 3.S)."""
    if stored.operation_type is not records.OperationType.MOVE:
        return None
    target = queues.get(stored.target_queue_id)
    if target is not None:
        return target
    return Queue(stored.target_queue_id, NULL_GUID, queue.attributes, queue.qualified_pathname, is_deleted=True)
