"""MS-MQDMPR 3.1.4.3 to 3.1.4.5 and 3.1.7.1.8: transactions of this queue manager."""

import pytest

from tests.core.engine import OK, OTHER_TX, TX, Rig
from waypost.clock import Now
from waypost.core.ports import MessagePositionAvailable, MessagePositionDeleted
from waypost.core.positions import PositionState
from waypost.core.queues import OpenQueueDescriptor, Queue, ReadRequest
from waypost.core.transaction_records import OperationType, TransactionalOperation
from waypost.errors import TransactionSequence
from waypost.hresult import HResult
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass

SEQUENCE = HResult.MQ_ERROR_TRANSACTION_SEQUENCE
RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
IN_TX = ReadRequest(0, transaction=TX)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.start()
    return rig


@pytest.fixture
def handle(rig: Rig) -> OpenQueueDescriptor:
    return rig.open()


def marks(rig: Rig, queue: Queue) -> list[tuple[str, bool, bool]]:
    messages = (rig.messages.get(queue.number, lookup_id) for lookup_id in queue.positions)
    return [(message.label, message.first_in_transaction, message.last_in_transaction) for message in messages]


@pytest.mark.spec("MQDMPR-3.1.7.1.8-01")
def test_a_new_transaction_is_known_and_has_no_operations(rig: Rig) -> None:
    transaction = rig.manager.transactions.create_transaction(OTHER_TX)
    assert rig.manager.transactions.collection[OTHER_TX] is transaction
    assert (transaction.identifier, transaction.operations) == (OTHER_TX, {})


def test_a_transaction_that_is_under_way_is_not_begun_again(rig: Rig) -> None:
    rig.send("a", tx=TX)
    with pytest.raises(TransactionSequence):
        rig.start()
    assert len(rig.manager.transactions.collection[TX].operations) == 1


@pytest.mark.spec("MQDMPR-3.1.4.3-01", "MQDMPR-3.1.4.4-01", "MQDMPR-3.1.4.5-01")
def test_a_transaction_that_nobody_began_cannot_end(rig: Rig, handle: OpenQueueDescriptor) -> None:
    rig.send("a")
    rig.receive(handle, IN_TX)
    rig.manager.take_events()
    assert rig.manager.transactions.transaction_prepare(OTHER_TX) == SEQUENCE
    assert rig.commit(OTHER_TX) == SEQUENCE
    assert rig.abort(OTHER_TX) == SEQUENCE
    assert list(rig.manager.transactions.collection) == [TX]
    assert rig.labels() == ["a"]
    assert rig.manager.take_events() == []


@pytest.mark.spec("MQDMPR-3.1.4.3-02")
def test_prepare_keeps_whether_the_transaction_is_internal(rig: Rig) -> None:
    transaction = rig.manager.transactions.collection[TX]
    for single_phase in (False, True):
        rig.manager.transactions.transaction_prepare(TX, single_phase=single_phase)
        assert transaction.single_phase is single_phase
    rig.manager.transactions.transaction_prepare(TX, single_phase=False)
    rig.manager.transactions.transaction_prepare(TX)
    assert rig.manager.transactions.collection[TX].single_phase


@pytest.mark.spec("MQDMPR-3.1.4.3-03")
@pytest.mark.parametrize("is_prepared", [True, False])
def test_the_first_and_last_message_to_each_queue_are_marked(
    rig: Rig, handle: OpenQueueDescriptor, *, is_prepared: bool
) -> None:
    """readings MQDMPR 3.P: sends only, for each queue; without prepare at commit."""
    other = rig.create("other")
    rig.send("received")
    rig.receive(handle, IN_TX)
    for label in "abc":
        rig.send(label, tx=TX)
    rig.enqueue(rig.message("alone"), other, TX)
    rig.send("received too", priority=7)
    rig.receive(handle, IN_TX)
    if is_prepared:
        assert rig.manager.transactions.transaction_prepare(TX) == OK
    else:
        rig.commit()
    marked = [mark for mark in marks(rig, rig.orders) if not mark[0].startswith("received")]
    assert marked == [("a", True, False), ("b", False, False), ("c", False, True)]
    assert marks(rig, other) == [("alone", True, True)]


@pytest.mark.spec("MQDMPR-3.1.4.4-02")
def test_commit_makes_what_was_sent_available(rig: Rig, handle: OpenQueueDescriptor) -> None:
    lookup_id = rig.send("a", tx=TX)
    assert rig.events(MessagePositionAvailable) == []
    assert rig.commit() == OK
    assert rig.events(MessagePositionAvailable) == [MessagePositionAvailable(rig.orders, lookup_id)]
    assert rig.receive(handle) == "a"


@pytest.mark.spec("MQDMPR-3.1.4.4-03", "MQDMPR-3.1.1.13-02")
def test_commit_deletes_what_was_received_with_the_reason_of_the_operation(
    rig: Rig, handle: OpenQueueDescriptor
) -> None:
    target = rig.create("other")
    rig.send("received")
    rejected, moved = rig.send("rejected"), rig.send("moved")
    rig.receive(handle, IN_TX)
    rig.orders.positions.set_state(rejected, PositionState.LOCKED)
    reason = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED
    operation = TransactionalOperation(OperationType.DEQUEUE, rig.orders, rejected, reason)
    rig.manager.transactions.record(TX, operation)
    rig.move(moved, target, TX)
    assert [op.target_queue for op in rig.manager.transactions.collection[TX].operations.values()] == [
        None,
        None,
        target,
    ]
    rig.commit()
    assert rig.deleted() == [("received", RECEIVED), ("rejected", reason)]


@pytest.mark.spec("MQDMPR-3.1.4.4-04")
def test_commit_moves_a_message_to_its_place_in_the_target(rig: Rig) -> None:
    target = rig.create("other")
    lookup_id = rig.send("moved")
    rig.enqueue(rig.message("later"), target)
    rig.move(lookup_id, target, TX)
    rig.manager.take_events()
    rig.commit()
    assert rig.state(lookup_id) is PositionState.DELETED
    assert target.positions.state(lookup_id) is PositionState.AVAILABLE
    assert rig.labels(target) == ["moved", "later"]
    assert rig.manager.take_events() == [MessagePositionAvailable(target, lookup_id)]


@pytest.mark.spec("MQDMPR-3.1.4.4-05")
def test_commit_goes_in_the_order_of_recording_and_happens_once(rig: Rig, handle: OpenQueueDescriptor) -> None:
    target = rig.create("other")
    moved = rig.send("moved")
    rig.send("received")
    rig.send("sent", priority=7, tx=TX)
    rig.move(moved, target, TX)
    rig.receive(handle, IN_TX)
    rig.send("sent last", tx=TX)
    rig.manager.take_events()
    transaction = rig.manager.transactions.collection[TX]
    order = [operation.lookup_id for operation in transaction.operations.values()]
    assert rig.commit() == OK
    happened = [
        event.message.lookup_identifier if isinstance(event, MessagePositionDeleted) else event.lookup_id
        for event in rig.manager.take_events()
        if isinstance(event, MessagePositionDeleted | MessagePositionAvailable)
    ]
    assert happened == order
    assert TX not in rig.manager.transactions.collection
    assert rig.commit() == SEQUENCE


@pytest.mark.spec("MQDMPR-3.1.4.5-02")
def test_abort_gives_messages_back_at_their_old_places(rig: Rig, handle: OpenQueueDescriptor) -> None:
    ids = [rig.send(label) for label in ("received", "moved", "free")]
    rig.receive(handle, IN_TX)
    rig.move(ids[1], rig.create("other"), TX)
    assert rig.abort() == OK
    assert list(rig.orders.positions) == ids
    assert [rig.state(lookup_id) for lookup_id in ids] == [PositionState.AVAILABLE] * 3
    assert rig.labels() == ["received", "moved", "free"]
    counts = [rig.messages.get(rig.orders.number, lookup_id).abort_count for lookup_id in ids]
    assert counts == [1, 1, 0]


def test_a_locked_position_tells_its_operation_and_transaction(rig: Rig, handle: OpenQueueDescriptor) -> None:
    received, free = rig.send("received"), rig.send("free")
    rig.receive(handle, IN_TX)
    found = rig.manager.transactions.operation_on(rig.orders, received)
    assert found is not None
    assert (found[0].identifier, found[1].lookup_id) == (TX, received)
    assert rig.manager.transactions.operation_on(rig.orders, free) is None


@pytest.mark.spec("MQDMPR-3.1.4.5-03")
def test_abort_deletes_what_was_purged_meanwhile(rig: Rig, handle: OpenQueueDescriptor) -> None:
    """readings MQDMPR 3.S: a Move has no separate reason."""
    rig.send("received")
    moved = rig.send("moved")
    rig.receive(handle, IN_TX)
    rig.move(moved, rig.create("other"), TX)
    rig.manager.writing.purge_queue(rig.orders)
    rig.manager.take_events()
    rig.abort()
    assert rig.deleted() == [("received", RECEIVED), ("moved", PURGED)]
    assert rig.labels() == []


def test_commit_takes_and_moves_what_was_purged_meanwhile(rig: Rig, handle: OpenQueueDescriptor) -> None:
    """readings MQDMPR 3.S."""
    other = rig.create("other")
    rig.send("received")
    moved = rig.send("moved")
    rig.receive(handle, IN_TX)
    rig.move(moved, other, TX)
    rig.send("sent", tx=TX)
    rig.manager.writing.purge_queue(rig.orders)
    rig.commit()
    assert rig.deleted() == [("received", RECEIVED)]
    assert (rig.labels(), rig.labels(other)) == (["sent"], ["moved"])


@pytest.mark.spec("MQDMPR-3.1.4.5-04")
def test_abort_takes_back_what_was_sent_without_a_word(rig: Rig) -> None:
    rig.orders.attributes.journaling = True
    rig.send("a", tx=TX)
    rig.abort()
    assert rig.labels() == []
    assert rig.labels(rig.orders.journal) == []
    assert rig.manager.take_events() == []
    assert rig.orders.total_bytes == 0


@pytest.mark.spec("MQDMPR-3.1.4.5-05")
def test_an_aborted_transaction_is_over(rig: Rig) -> None:
    rig.send("a", tx=TX)
    assert rig.abort() == OK
    assert rig.manager.transactions.collection == {}
    assert rig.abort() == rig.commit() == SEQUENCE


@pytest.mark.spec("MQDMPR-3.1.1.11-04")
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_outlives_the_queue_of_its_messages(rig: Rig, handle: OpenQueueDescriptor, end: str) -> None:
    other = rig.create("other")
    rig.send("received")
    moved = rig.send("moved")
    rig.receive(handle, IN_TX)
    rig.move(moved, other, TX)
    rig.send("sent", tx=TX)
    rig.enqueue(rig.message("kept"), other, TX)
    rig.manager.delete_queue(rig.orders)
    rig.manager.take_events()
    assert (rig.commit if end == "commit" else rig.abort)() == OK
    assert rig.deleted() == []
    assert rig.labels(other) == (["kept"] if end == "commit" else [])


def test_what_was_to_move_to_a_deleted_queue_goes_with_it(rig: Rig) -> None:
    """readings MQDMPR 3.S."""
    other = rig.create("other")
    lookup_id = rig.send("a")
    rig.move(lookup_id, other, TX)
    rig.manager.delete_queue(other)
    rig.commit()
    assert rig.deleted() == [("a", MessageClass.MQMSG_CLASS_NACK_Q_DELETED)]
    assert rig.messages.held == {}


def test_what_expired_before_the_commit_is_gone_though_no_timer_has_fired(rig: Rig) -> None:
    rig.send("short", ttbr=5, tx=TX)
    rig.now = Now(rig.now.monotonic + 10, rig.now.wall + 10)
    assert rig.commit() is OK
    assert rig.labels() == []
    assert rig.deleted() == [("short", MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)]


def test_an_abort_gives_back_what_is_still_wanted_and_deletes_what_was_purged(rig: Rig) -> None:
    handle = rig.open()
    for label in ("kept", "purged", "expired"):
        rig.send(label, ttbr=10 if label == "expired" else INFINITE)
    reads = [rig.receive(handle, ReadRequest(0, transaction=TX)) for _ in range(3)]
    assert reads == ["kept", "purged", "expired"]
    purged = list(rig.orders.positions)[1]
    rig.orders.positions.set_state(purged, PositionState.PURGE_PENDING)
    rig.advance(10)
    rig.manager.take_events()
    assert rig.abort() is OK
    assert rig.labels() == ["kept"]
    assert {label for label, _ in rig.deleted()} == {"purged", "expired"}
    (lookup_id,) = rig.orders.positions
    assert rig.messages.get(rig.orders.number, lookup_id).abort_count == 1
