"""Everything that is persistent goes into its record and comes out of it as it was."""

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from tests.core.engine import Messages
from tests.core.strategies import messages
from tests.node.strategies import (
    ME,
    manager_attributes,
    outgoing_queues,
    prepared_transactions,
    queues,
    with_local_attributes,
)
from tests.wire.strategies import u64
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.system import QueueManagerAttributes
from waypost.core.transaction_records import Transaction
from waypost.errors import StoreDamaged
from waypost.guid import NULL_GUID
from waypost.node import manager_store, queue_store, transaction_store
from waypost.node.message_records import message_of, value_of
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch, Table
from waypost.store.queue_records import QueueRecord
from waypost.store.records import MessageDetails, MessageRecord, TransactionRecord
from waypost.wire.path_names import PathName

PARENT = Queue(1, NULL_GUID, QueueAttributes(PathName.parse("host\\private$\\q")), PathName.parse("h\\private$\\q"))
OTHER = replace(PARENT, number=2)


@settings(max_examples=100)
@given(messages().flatmap(with_local_attributes), u64)
def test_a_message_comes_back_with_all_attributes_equal(message: Message, lookup_id: int) -> None:
    message.lookup_identifier = lookup_id
    restored = message_of(value_of(message), lookup_id)
    # Attributes that need no decoding have the same values as decoded ones.
    assert restored.asks_for_attention == message.asks_for_attention
    assert restored.packet == message.packet
    for field in fields(Message):
        assert getattr(restored, field.name) == getattr(message, field.name), field.name


@given(queues() | queues(parent=PARENT) | outgoing_queues())
def test_a_queue_comes_back_as_it_was(queue: Queue) -> None:
    record = QueueRecord.decode(queue_store.record_of(queue).encode())
    restored = queue_store.queue_of(queue.number, record, ME, {PARENT.number: PARENT})
    assert type(restored) is type(queue)
    for field in fields(queue):
        if field.name in ("positions", "connection_history"):
            continue
        assert getattr(restored, field.name) == getattr(queue, field.name), field.name
    assert (restored.queue_type, restored.is_journal) == (queue.queue_type, queue.is_journal)
    assert queue_store.record_of(restored) == record


@given(prepared_transactions(among={1: PARENT, 2: OTHER}))
def test_a_prepared_transaction_comes_back_with_its_operations_in_order(transaction: Transaction) -> None:
    restored = through_the_store(transaction, {1: PARENT, 2: OTHER})
    assert restored == transaction
    assert list(restored.operations) == list(transaction.operations)


@given(prepared_transactions(among={1: PARENT, 2: OTHER}))
def test_of_a_queue_that_is_gone_only_the_target_of_a_move_is_left(transaction: Transaction) -> None:
    restored = through_the_store(transaction, {1: PARENT})
    assert list(restored.operations) == [key for key in transaction.operations if key[0] == 1]
    for key, operation in restored.operations.items():
        target, before = operation.target_queue, transaction.operations[key].target_queue
        assert (target is None) == (before is None)
        if target is not None and before is not None:
            assert target.number == before.number
            assert target.is_deleted == (before is OTHER)


def through_the_store(transaction: Transaction, known: dict[int, Queue]) -> Transaction:
    batch = Batch()
    transaction_store.write(batch, transaction)
    store = MemoryStore()
    store.commit(batch, 1)
    value = store.get(Table.TRANSACTIONS, transaction.identifier)
    assert value is not None
    return transaction_store.transaction_of(transaction.identifier, TransactionRecord.decode(value), known)


@given(manager_attributes)
def test_the_attributes_of_the_queue_manager_come_back(attributes: QueueManagerAttributes) -> None:
    manager = QueueManager(ME, Messages(), lambda: NULL_GUID, attributes=attributes)
    batch = Batch()
    manager_store.write(batch, manager)
    store = MemoryStore()
    store.commit(batch, 1)
    record = manager_store.read(store)
    assert record is not None
    assert record.identifier == ME.identifier
    assert record.computer_name == ME.computer_name
    assert manager_store.attributes_of(record) == attributes


def test_an_empty_store_has_no_queue_manager() -> None:
    assert manager_store.read(MemoryStore()) is None


@pytest.mark.parametrize("level", [2, 4, 255])
def test_a_message_with_an_unknown_authentication_level_is_damaged(level: int) -> None:
    value = bytearray(value_of(Message(destination_queue_format_name=None)))
    assert value[2] == 0
    value[2] = level
    with pytest.raises(StoreDamaged, match="authentication level"):
        message_of(bytes(value), 1)


def test_a_message_whose_status_queue_has_no_name_is_damaged() -> None:
    record = MessageRecord(b"x", details=MessageDetails(transaction_status_queue="nonsense"))
    with pytest.raises(StoreDamaged):
        message_of(record.encode(), 1)
