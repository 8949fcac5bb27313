"""MS-MQDMPR 3.1.7.1.7, 3.1.7.1.9, 3.1.7.1.16 and 3.1.7.2: what comes into a queue, expires, moves and is purged."""

from math import inf

import pytest

from tests.core.engine import OK, TX, Rig
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.ports import MessagePositionAvailable, MessagePositionDeleted
from waypost.core.positions import END, SEQUENCE_BITS, START, PositionState
from waypost.core.queues import Queue, ReadRequest
from waypost.core.reading import MessageSeekAction
from waypost.core.serialization import size_in_bytes
from waypost.core.transaction_records import OperationType
from waypost.core.writing import EnqueueStatus
from waypost.errors import TransactionSequence
from waypost.hresult import HResult
from waypost.wire.format_names import Suffix
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import UNLIMITED

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
DELETED, PURGE_PENDING = PositionState.DELETED, PositionState.PURGE_PENDING
EXPIRED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED


@pytest.fixture
def rig() -> Rig:
    return Rig()


def sized(rig: Rig, size: int) -> Message:
    """A message that takes this many bytes, a multiple of 4."""
    message = rig.message("")
    message.body = bytes(size - size_in_bytes(rig.message("")))
    assert size_in_bytes(message) == size
    return message


def transactional(message: Message) -> Message:
    """As it comes from another queue manager."""
    message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    message.transaction_identifier = 1
    message.transactional_message_sequence_identifier = TxSequenceId(1, 1)
    return message


def is_untouched(rig: Rig, queue: Queue) -> bool:
    nothing = (len(queue.positions), queue.total_bytes, rig.messages.held, rig.manager.take_events())
    return nothing == (0, 0, {}, [])


@pytest.mark.spec("MQDMPR-3.1.7.1.9-01", "MQDMPR-3.1.7.2.5-01", "MQDMPR-3.1.7.2.6-01")
def test_flow_control_refuses_every_message_until_it_ends(rig: Rig) -> None:
    rig.orders.attributes.quota = 0
    rig.manager.writing.begin_flow_control()
    for queue in (rig.orders, rig.create("other")):
        assert rig.enqueue(rig.message("a"), queue) == 2
        assert is_untouched(rig, queue)
    rig.manager.writing.end_flow_control()
    assert rig.enqueue(rig.message("a"), queue) == 0


@pytest.mark.spec("MQDMPR-3.1.7.1.9-02")
def test_the_quota_of_the_computer_comes_before_that_of_the_queue(rig: Rig) -> None:
    rig.manager.set_quota(1)
    rig.manager.take_events()
    rig.orders.attributes.quota = 1
    assert rig.enqueue(sized(rig, 1028)) == 2
    assert is_untouched(rig, rig.orders)
    assert rig.enqueue(sized(rig, 512)) == 0
    assert rig.enqueue(sized(rig, 516), rig.create("other")) == 2
    assert rig.enqueue(sized(rig, 512), rig.create("third")) == 0


@pytest.mark.parametrize(("own", "whole"), [(2, UNLIMITED), (UNLIMITED, 3), (2, 3), (3, 2)])
def test_the_sure_room_is_what_both_quotas_leave(rig: Rig, own: int, whole: int) -> None:
    writing, positions = rig.manager.writing, rig.manager.positions
    rig.manager.set_quota(UNLIMITED)
    assert writing.sure_room(rig.orders) == inf
    rig.manager.set_quota(whole)
    rig.orders.attributes.quota = own
    assert rig.enqueue(sized(rig, 512)) == 0
    room = int(writing.sure_room(rig.orders))
    assert 0 < room <= min(own, whole) * 1024 - 512
    assert positions.fits(rig.orders, room)
    assert writing.has_room(room)
    writing.begin_flow_control()
    assert writing.sure_room(rig.orders) == 0


@pytest.mark.spec("MQDMPR-3.1.7.1.9-03", "MQDMPR-3.1.1.2-07")
def test_quotas_of_queue_and_journal_are_kilobytes_and_count_what_is_locked(rig: Rig) -> None:
    rig.orders.attributes.quota = 1
    assert rig.enqueue(sized(rig, 1028)) == 1
    assert is_untouched(rig, rig.orders)
    assert rig.enqueue(sized(rig, 1024), tx=rig.start()) == 0
    assert rig.enqueue(sized(rig, 400)) == 1
    rig.commit()
    handle, journal = rig.open(), rig.orders.journal
    assert journal is not None
    attributes = rig.orders.attributes
    attributes.journaling, attributes.journal_quota = True, 1
    rig.manager.modify_queue(rig.orders, attributes, rig.now)
    for _ in range(2):
        assert rig.receive(handle) == ""
        assert (len(journal.positions), journal.total_bytes) == (1, 1024)
        rig.enqueue(sized(rig, 400))


@pytest.mark.spec("MQDMPR-3.1.7.1.9-04")
def test_a_message_that_came_too_late_is_not_taken(rig: Rig) -> None:
    message = rig.message("a")
    message.time_to_reach_queue = 10
    message.sent_time -= 11
    assert rig.enqueue(message) == 3
    assert is_untouched(rig, rig.orders)
    message.sent_time += 1
    assert rig.enqueue(message) is EnqueueStatus.ACCEPTED


@pytest.mark.spec("MQDMPR-3.1.7.1.9-05", "MQDMPR-3.1.7.1.9-06")
def test_a_lookup_identifier_is_7_minus_priority_above_the_sequential_id(rig: Rig) -> None:
    plain = [rig.message("", priority=priority) for priority in range(8)]
    captured = transactional(rig.message("", priority=0))
    other = rig.create("other")
    for number, message in enumerate([*plain, captured], start=1):
        assert rig.enqueue(message, rig.orders if number % 2 else other) == 0
        assert message.lookup_identifier == (7 - message.priority) << SEQUENCE_BITS | number
    assert captured.lookup_identifier >> SEQUENCE_BITS == 7


@pytest.mark.spec("MQDMPR-3.1.7.1.9-07", "MQDMPR-3.1.1.2-20")
def test_messages_stand_by_priority_and_then_by_arrival(rig: Rig) -> None:
    for label, priority in (("d", 3), ("f", 0), ("a", 7), ("e", 3), ("b", 7), ("c", 4)):
        rig.send(label, ttbr=60, priority=priority)
        rig.advance(1)
    assert "".join(rig.labels()) == "abcdef"
    assert rig.next_deadline() == rig.now.monotonic + 54
    handle = rig.open()
    assert [rig.receive(handle) for _ in range(6)] == list("abcdef")


@pytest.mark.spec("MQDMPR-3.1.1.2-21", "MQDMPR-3.1.1.11-03", "MQDMPR-3.1.7.3.2-01")
def test_head_and_tail_are_reached_from_start_and_end(rig: Rig) -> None:
    positions, handle = rig.orders.positions, rig.open()
    cursor = rig.manager.open_cursor(handle)
    assert cursor is not None
    assert cursor.position == START
    assert (positions.next_any(START), positions.next_available(START), positions.previous_available(END)) == (
        END,
        END,
        START,
    )
    ids = [rig.send(label) for label in "abc"]
    assert (positions.next_available(START), positions.previous_available(END)) == (ids[0], ids[2])
    for before, after in zip([START, *ids], [*ids, END], strict=True):
        assert positions.next_available(before) == after
        assert positions.previous_available(after) == before
    assert rig.seek(handle, MessageSeekAction.SEEK_CURRENT, ids[1], ReadRequest()) == "b"
    assert positions.next_available(ids[0]) == ids[2]
    assert positions.previous_available(ids[2]) == ids[0]
    first = rig.send("first", priority=7)
    assert positions.next_available(first) == ids[0]
    assert positions.previous_available(ids[0]) == first


@pytest.mark.spec("MQDMPR-3.1.7.1.9-08")
def test_a_send_in_a_transaction_is_invisible_until_commit(rig: Rig) -> None:
    handle, tx = rig.open(), rig.start()
    wait_id = rig.receive(handle, ReadRequest())
    lookup_id = rig.send("a", tx=tx)
    assert rig.state(lookup_id) is LOCKED
    assert rig.manager.take_events() == []
    assert rig.peek(handle) == HResult.MQ_ERROR_IO_TIMEOUT
    (operation,) = rig.manager.transactions.collection[TX].operations.values()
    assert (operation.operation_type, operation.lookup_id) == (OperationType.ENQUEUE, lookup_id)
    rig.commit()
    assert rig.ended() == [(wait_id, "a")]


@pytest.mark.spec("MQDMPR-3.1.7.1.9-09", "MQDMPR-3.1.7.2.2-01", "MQDMPR-3.1.1.2-17")
def test_a_plain_send_is_available_at_once_and_counts_until_it_leaves(rig: Rig) -> None:
    message = rig.message("a")
    assert rig.enqueue(message) == 0
    assert rig.manager.take_events() == [MessagePositionAvailable(rig.orders, message.lookup_identifier)]
    assert rig.state(message.lookup_identifier) is AVAILABLE
    assert rig.orders.total_bytes == rig.manager.total_bytes == size_in_bytes(message)
    rig.send("another one")
    handle = rig.open()
    rig.receive(handle)
    rig.receive(handle)
    assert rig.orders.total_bytes == rig.manager.total_bytes == 0


@pytest.mark.spec("MQDMPR-3.1.7.2.1-02", "MQDMPR-3.1.1.2-17")
def test_a_message_that_leaves_takes_its_bytes_along(rig: Rig) -> None:
    """readings MQDMPR 3.G: it counts once, however often it is locked and unlocked."""
    rig.send("a")
    before = rig.orders.total_bytes
    rig.enqueue(sized(rig, 800))
    handle = rig.open()
    for _ in range(2):
        assert rig.receive(handle, ReadRequest(0, transaction=rig.start())) == "a"
        rig.abort()
        assert rig.orders.total_bytes == before + 800
    rig.receive(handle)
    assert rig.orders.total_bytes == 800


def test_nothing_is_sent_in_a_transaction_that_is_not_open(rig: Rig) -> None:
    with pytest.raises(TransactionSequence):
        rig.enqueue(rig.message("a"), tx=TX)
    rig.manager.transactions.transaction_prepare(rig.start())
    with pytest.raises(TransactionSequence):
        rig.enqueue(rig.message("a"), tx=TX)
    assert is_untouched(rig, rig.orders)


@pytest.mark.spec("MQDMPR-3.1.2.4-01", "MQDMPR-3.1.7.2.7-01")
@pytest.mark.parametrize("kind", ["", "private$\\"])
def test_a_message_that_nobody_received_expires_in_its_time(rig: Rig, kind: str) -> None:
    queue = rig.create("short", kind)
    gone, received = rig.message("gone", ttbr=10), rig.message("received", ttbr=10, priority=7)
    rig.enqueue(gone, queue)
    rig.enqueue(received, queue)
    name = f"DIRECT=OS:host\\{kind}short"
    assert rig.receive(rig.open(name=name)) == "received"
    rig.manager.take_events()
    assert rig.next_deadline() == rig.now.monotonic + 10
    rig.advance(9.5)
    assert rig.deleted() == []
    rig.advance(0.5)
    assert rig.deleted() == [("gone", EXPIRED)]
    assert rig.labels(queue) == []
    assert rig.next_deadline() is None


@pytest.mark.spec("MQDMPR-3.1.2.4-02")
def test_a_time_of_0_expires_on_arrival_and_an_infinite_one_never(rig: Rig) -> None:
    handle = rig.open()
    wait_id = rig.receive(handle, ReadRequest())
    assert rig.enqueue(rig.message("at once", ttbr=0)) == 0
    (event,) = rig.manager.take_events()
    assert isinstance(event, MessagePositionDeleted)
    assert (event.message.label, event.reason) == ("at once", EXPIRED)
    assert rig.labels() == []
    rig.manager.close_queue(handle)
    assert rig.ended() == [(wait_id, HResult.MQ_ERROR_OPERATION_CANCELLED)]
    rig.send("never")
    assert rig.next_deadline() is None
    rig.advance(1e10)
    assert rig.labels() == ["never"]


@pytest.mark.spec("MQDMPR-3.1.7.2.7-02")
def test_a_message_that_expires_in_an_open_transaction_leaves_with_its_outcome(rig: Rig) -> None:
    """readings MQDMPR 3.O: one that was delivered has no transaction here, and leaves at once."""
    for outcome in (rig.commit, rig.abort):
        lookup_id = rig.send("sent", ttbr=10, tx=rig.start())
        rig.enqueue(transactional(rig.message("delivered", ttbr=10, priority=0)))
        rig.advance(10)
        assert rig.deleted() == [("delivered", EXPIRED)]
        assert rig.state(lookup_id) is LOCKED
        outcome()
        assert rig.deleted() == ([("sent", EXPIRED)] if outcome == rig.commit else [])
        assert rig.labels() == []


@pytest.mark.parametrize("is_two_phase", [False, True])
def test_a_message_that_expires_while_it_is_read_is_received_or_leaves(rig: Rig, *, is_two_phase: bool) -> None:
    """readings MQDMPR 3.O."""
    handle = rig.open()
    for is_success in (True, False):
        lookup_id = rig.send("a", ttbr=10)
        request = ReadRequest(0, two_phase_read=True) if is_two_phase else ReadRequest(0, transaction=rig.start())
        rig.receive(handle, request)
        rig.advance(11)
        assert rig.deleted() == []
        if is_two_phase:
            rig.end(handle, lookup_id, delete=is_success)
        elif is_success:
            rig.commit()
        else:
            rig.abort()
        assert rig.deleted() == [("a", MessageClass.MQMSG_CLASS_ACK_RECEIVE if is_success else EXPIRED)]


def test_nothing_expires_in_journals_and_dead_letter_queues(rig: Rig) -> None:
    """readings MQDMPR 3.Y."""
    rig.orders.attributes.journaling = True
    deadletter = rig.manager.system_queues[Suffix.DEADLETTER]
    rig.send("journaled", ttbr=10)
    assert rig.receive(rig.open()) == "journaled"
    assert rig.move(rig.send("dead", ttbr=10), deadletter) == OK
    rig.advance(1000)
    assert rig.labels(deadletter) == ["dead"]
    assert rig.labels(rig.orders.journal) == ["journaled"]


@pytest.mark.spec("MQDMPR-3.1.1.2-06")
def test_the_journal_gets_a_copy_of_what_was_received_and_of_nothing_else(rig: Rig) -> None:
    """readings MQDMPR 3.Y."""
    handle, journal = rig.open(), rig.orders.journal
    assert journal is not None
    rig.send("before")
    rig.receive(handle)
    rig.orders.attributes.journaling = True
    rig.send("plain")
    rig.receive(handle)
    rig.send("committed")
    rig.receive(handle, ReadRequest(0, transaction=rig.start()))
    rig.commit()
    ended = rig.send("ended")
    rig.begin(handle)
    rig.end(handle, ended, delete=True)
    rig.send("expired", ttbr=1)
    rig.advance(1)
    rig.send("purged")
    rig.manager.writing.purge_queue(rig.orders)
    rig.send("purged and aborted")
    rig.receive(handle, ReadRequest(0, transaction=rig.start()))
    rig.manager.writing.purge_queue(rig.orders)
    rig.abort()
    assert rig.labels(journal) == ["plain", "committed", "ended"]
    rig.orders.attributes.journaling = False
    rig.send("after")
    rig.receive(handle)
    assert rig.labels(journal) == ["plain", "committed", "ended"]
    reader = rig.open(name="DIRECT=OS:host\\private$\\orders;JOURNAL")
    assert rig.receive(reader) == "plain"


def test_a_journal_copy_has_the_bytes_of_the_packet_that_was_received(rig: Rig) -> None:
    rig.orders.attributes.journaling = True
    lookup_id = rig.send("a", ttbr=1000)
    packet = rig.messages.get(rig.orders.number, lookup_id).packet
    rig.receive(rig.open())
    (copy,) = rig.messages.held.values()
    assert copy.packet == packet != b""
    assert copy.lookup_identifier != lookup_id


@pytest.mark.spec("MQDMPR-3.1.7.1.16-01", "MQDMPR-3.1.7.1.16-02")
def test_a_moved_message_stands_at_its_place_in_the_other_queue(rig: Rig) -> None:
    other = rig.create("other")
    lookup_id = rig.send("moved")
    rig.enqueue(rig.message("later"), other)
    rig.enqueue(rig.message("first", priority=7), other)
    rig.manager.take_events()
    size = rig.orders.total_bytes
    assert rig.move(lookup_id, other) == OK
    assert rig.state(lookup_id) is DELETED
    assert rig.labels(other) == ["first", "moved", "later"]
    assert other.positions.state(lookup_id) is AVAILABLE
    assert rig.manager.take_events() == [MessagePositionAvailable(other, lookup_id)]
    assert (rig.orders.total_bytes, rig.manager.total_bytes) == (0, other.total_bytes)
    assert other.total_bytes > size
    moved = rig.messages.get(other.number, lookup_id)
    assert (moved.move_count, moved.last_move_time) == (1, int(rig.now.wall))
    assert rig.move(lookup_id, other) == HResult.MQ_ERROR_MESSAGE_NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.7.1.16-02")
def test_a_move_to_a_system_queue_raises_no_event_but_wakes_its_readers(rig: Rig) -> None:
    """readings MQDMPR 3.Z."""
    deadletter = rig.manager.system_queues[Suffix.DEADLETTER]
    lookup_id, second = rig.send("a"), rig.send("b")
    rig.manager.take_events()
    rig.move(lookup_id, deadletter)
    assert rig.manager.take_events() == []
    reader = rig.open(name="DIRECT=OS:host\\SYSTEM$;DEADLETTER")
    assert rig.receive(reader) == "a"
    wait_id = rig.receive(reader, ReadRequest())
    rig.move(second, deadletter)
    assert rig.ended() == [(wait_id, "b")]
    assert deadletter.total_bytes == 0


@pytest.mark.spec("MQDMPR-3.1.7.1.16-03")
def test_a_move_in_a_transaction_only_locks(rig: Rig) -> None:
    other = rig.create("other")
    lookup_id = rig.send("a")
    assert rig.move(lookup_id, other, rig.start()) == OK
    assert rig.state(lookup_id) is LOCKED
    assert rig.labels(other) == []
    (operation,) = rig.manager.transactions.collection[TX].operations.values()
    assert (operation.operation_type, operation.target_queue) == (OperationType.MOVE, other)


@pytest.mark.spec("MQDMPR-3.1.7.1.16-04")
def test_a_move_to_a_system_queue_belongs_to_no_transaction(rig: Rig) -> None:
    lookup_id = rig.send("a")
    target = rig.manager.system_queues[Suffix.DEADLETTER]
    assert rig.move(lookup_id, target, rig.start()) == HResult.MQ_ERROR_TRANSACTION_USAGE
    assert rig.move(lookup_id, rig.create("other"), b"?" * 16) == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
    assert rig.state(lookup_id) is AVAILABLE


@pytest.mark.spec("MQDMPR-3.1.7.1.7-01", "MQDMPR-3.1.7.1.7-02", "MQDMPR-3.1.1.11-01")
def test_a_purge_deletes_what_is_available_and_marks_what_is_locked(rig: Rig) -> None:
    handle = rig.open()
    received, read, free = rig.send("received"), rig.send("read"), rig.send("free")
    rig.receive(handle, ReadRequest(0, transaction=rig.start()))
    rig.begin(handle)
    rig.manager.take_events()
    assert [rig.state(lookup_id) for lookup_id in (received, read, free)] == [LOCKED, LOCKED, AVAILABLE]
    rig.manager.writing.purge_queue(rig.orders)
    assert rig.deleted() == [("free", PURGED)]
    assert [rig.state(lookup_id) for lookup_id in (received, read, free)] == [PURGE_PENDING, PURGE_PENDING, DELETED]
    assert rig.labels() == ["received", "read"]
    assert rig.receive(handle) == HResult.MQ_ERROR_IO_TIMEOUT
    assert {state.name for state in PositionState} == {"AVAILABLE", "LOCKED", "DELETED", "PURGE_PENDING"}
