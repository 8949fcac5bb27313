"""A store that holds what no node has written, or not all of it, is refused at the start."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.node.rig import SETTINGS, START, TX, Rig, guids
from waypost.errors import StoreDamaged, StoreTooNew, Timeout
from waypost.node import queue_store
from waypost.node.node import Node
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.records import (
    EXPIRES,
    OperationRecord,
    OperationType,
    PositionRecord,
    TotalsRecord,
    TransactionRecord,
)

NOWHERE = 99


@pytest.fixture
def rig() -> Rig:
    """With one message in `orders`."""
    rig = Rig()
    rig.done(rig.send("kept"))
    return rig


def key(rig: Rig) -> bytes:
    (found,) = rig.store.keys(Table.MESSAGES)
    return found


def start(rig: Rig, damage: Batch) -> Node:
    rig.memory.commit(damage, 1_000)
    new_guid = guids()
    return Node(rig.store, SETTINGS, lambda: next(new_guid), START)


def a_message_is_gone(rig: Rig, batch: Batch) -> None:
    batch.delete(Table.MESSAGES, key(rig))


def totals_are_gone(rig: Rig, batch: Batch) -> None:
    batch.delete(Table.COUNTERS, keys.totals_key(rig.queue().number))


def totals_disagree(rig: Rig, batch: Batch) -> None:
    batch.put(Table.COUNTERS, keys.totals_key(rig.queue().number), TotalsRecord(2, 500).encode())


def a_position_without_a_message(rig: Rig, batch: Batch) -> None:
    batch.put(Table.POSITIONS, keys.message_key(rig.queue().number, NOWHERE), PositionRecord(EXPIRES, 5).encode())


def a_position_without_a_queue(rig: Rig, batch: Batch) -> None:
    batch.put(Table.POSITIONS, keys.message_key(NOWHERE, NOWHERE), PositionRecord(EXPIRES, 5).encode())


def a_journal_without_its_queue(rig: Rig, batch: Batch) -> None:
    batch.delete(Table.QUEUES, keys.queue_key(rig.queue().number))
    batch.delete(Table.MESSAGES, key(rig))


def a_queue_without_a_path(rig: Rig, batch: Batch) -> None:
    record = replace(queue_store.record_of(rig.queue()), pathname="no path")
    batch.put(Table.QUEUES, keys.queue_key(rig.queue().number), record.encode())


def an_unknown_privacy_level(rig: Rig, batch: Batch) -> None:
    value = bytearray(queue_store.record_of(rig.queue()).encode())
    assert value[2] == 1
    value[2] = 3
    batch.put(Table.QUEUES, keys.queue_key(rig.queue().number), bytes(value))


def a_key_that_is_none(rig: Rig, batch: Batch) -> None:
    batch.put(Table.MESSAGES, keys.queue_key(rig.queue().number) + b"x", b"x")


def an_operation_without_a_reason(rig: Rig, batch: Batch) -> None:
    lookup_id = keys.lookup_id_of(key(rig))
    operation = OperationRecord(OperationType.DEQUEUE, rig.queue().number, lookup_id, 0, 0x7777)
    batch.put(Table.TRANSACTIONS, TX, TransactionRecord(operations=[operation]).encode())


def half_a_counter(_: Rig, batch: Batch) -> None:
    batch.put(Table.COUNTERS, keys.Counter.SEQUENTIAL_ID.value, b"\x01\x02")


def half_a_queue_manager(_: Rig, batch: Batch) -> None:
    batch.put(Table.COUNTERS, keys.QUEUE_MANAGER_KEY, b"\x01\x02")


@pytest.mark.parametrize(
    "damage",
    [
        a_message_is_gone,
        totals_are_gone,
        totals_disagree,
        a_position_without_a_message,
        a_position_without_a_queue,
        a_journal_without_its_queue,
        a_queue_without_a_path,
        an_unknown_privacy_level,
        a_key_that_is_none,
        an_operation_without_a_reason,
        half_a_counter,
        half_a_queue_manager,
    ],
)
def test_a_damaged_store_is_refused(rig: Rig, damage: Callable[[Rig, Batch], None]) -> None:
    batch = Batch()
    damage(rig, batch)
    with pytest.raises(StoreDamaged):
        start(rig, batch)


def test_the_store_is_fine_without_damage(rig: Rig) -> None:
    assert len(start(rig, Batch()).manager.queues[rig.queue().pathname].positions) == 1


def test_a_store_of_a_newer_waypost_is_refused(rig: Rig) -> None:
    batch = Batch()
    batch.put(Table.COUNTERS, keys.QUEUE_MANAGER_KEY, b"\x02")
    with pytest.raises(StoreTooNew):
        start(rig, batch)


def test_a_message_that_vanishes_while_the_node_runs_is_set_aside(rig: Rig) -> None:
    batch = Batch()
    a_message_is_gone(rig, batch)
    rig.memory.commit(batch, 1_000)
    with pytest.raises(Timeout):
        rig.receive()
    rig.settle()
    (message,) = rig.node.damaged.all()
    assert "is missing in the store" in message.reason
    assert not message.has_bytes
