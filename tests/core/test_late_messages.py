"""Messages that expire together: nobody gets one of them, and what their end leads to comes in parts."""

import pytest

from tests.core.engine import Rig
from waypost.clock import Now
from waypost.core import queue_manager
from waypost.core.ports import MessagePositionDeleted
from waypost.core.positions import PositionState
from waypost.core.queues import ReadRequest
from waypost.core.ranges import Arrivals
from waypost.core.reading import MessageSeekAction
from waypost.hresult import HResult
from waypost.wire.message_class import MessageClass

PART = 3
EXPIRED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(queue_manager, "EXPIRY_PART", PART)
    return Rig()


def let_pass(rig: Rig, seconds: float) -> None:
    """As it is for an operation at this time, before any timer has fired."""
    rig.now = Now(rig.now.monotonic + seconds, rig.now.wall + seconds)
    rig.manager.expire(rig.now)


def test_a_tick_takes_one_part_and_asks_to_be_called_again_at_once(rig: Rig) -> None:
    for number in range(2 * PART + 1):
        rig.send(str(number), ttbr=10)
    rig.manager.take_events()
    let_pass(rig, 10)
    taken = []
    while rig.next_deadline() == rig.now.monotonic:
        rig.advance(0)
        taken.append([event.message.label for event in rig.events(MessagePositionDeleted)])
    assert taken == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert rig.next_deadline() is None
    assert rig.labels() == []


def test_nobody_gets_a_message_whose_time_is_over_though_its_turn_has_not_come(rig: Rig) -> None:
    handle = rig.open()
    gone = [rig.send(str(number), ttbr=10) for number in range(PART + 2)]
    left = rig.send("left")
    let_pass(rig, 10)
    assert len(rig.labels()) == PART + 3
    assert rig.peek(handle) == "left"
    assert rig.seek(handle, MessageSeekAction.SEEK_FIRST, 0) == "left"
    assert rig.seek(handle, MessageSeekAction.SEEK_PREVIOUS, left) is NOT_FOUND
    for lookup_id in gone:
        assert rig.state(lookup_id) is PositionState.DELETED
        assert rig.seek(handle, MessageSeekAction.SEEK_CURRENT, lookup_id) is NOT_FOUND
        assert rig.seek(handle, MessageSeekAction.SEEK_NEXT, lookup_id) is NOT_FOUND
        assert rig.seek(handle, MessageSeekAction.SEEK_CURRENT, lookup_id, ReadRequest(0)) is NOT_FOUND
        assert rig.move(lookup_id, rig.create(f"other{lookup_id}")) is NOT_FOUND
    assert rig.manager.reading.dequeue_messages(handle, 10, ReadRequest(0, transaction=rig.start())) != []
    rig.abort()
    assert rig.receive(handle) == "left"
    assert rig.receive(handle) is TIMEOUT


def test_a_range_of_arrivals_does_not_have_them(rig: Rig) -> None:
    rig.send("first")
    for number in range(PART + 2):
        rig.send(str(number), ttbr=10)
    rig.send("last")
    let_pass(rig, 10)
    arrivals = Arrivals(rig.orders.positions)
    last = rig.manager.positions.sequential_id
    assert arrivals.count(0, last) == 2
    assert len(arrivals.take(0, last, 10)) == 2
    assert rig.orders.positions.first_held == 0


def test_a_reader_that_waits_waits_on(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("locked", ttbr=10)
    rig.begin(handle)
    for number in range(PART + 1):
        rig.send(str(number), ttbr=10)
    let_pass(rig, 10)
    wait = rig.receive(handle, ReadRequest(60_000))
    assert isinstance(wait, int)
    # A message that expired while it was locked leaves when it is given back.
    rig.end(handle, lookup_id, delete=False)
    assert rig.deleted() == [("locked", EXPIRED)]
    rig.send("new")
    assert rig.ended() == [(wait, "new")]


def test_a_purge_and_a_deletion_end_them_for_the_reason_that_came_first(rig: Rig) -> None:
    for number in range(PART + 1):
        rig.send(str(number), ttbr=10)
    rig.send("purged")
    let_pass(rig, 10)
    rig.manager.take_events()
    rig.manager.writing.purge_queue(rig.orders)
    ended = rig.deleted()
    assert [reason for _, reason in ended] == [EXPIRED] * (PART + 1) + [MessageClass.MQMSG_CLASS_NACK_Q_PURGED]
    rig.send("expired", ttbr=10)
    rig.send("deleted")
    let_pass(rig, 10)
    rig.manager.take_events()
    rig.manager.delete_queue(rig.orders)
    assert rig.deleted() == [("expired", EXPIRED), ("deleted", MessageClass.MQMSG_CLASS_NACK_Q_DELETED)]
    # Their turns come, and find nothing.
    while rig.next_deadline() is not None:
        rig.advance(0)
    assert rig.deleted() == []


def test_a_message_that_was_moved_expires_once_where_it_is(rig: Rig) -> None:
    subqueue = rig.open(name="DIRECT=OS:host\\private$\\orders;retry").queue
    assert subqueue is not None
    lookup_id = rig.send("a", ttbr=10)
    rig.move(lookup_id, subqueue)
    rig.manager.writing.move_message(subqueue, lookup_id, rig.orders, None, rig.now)
    rig.manager.take_events()
    rig.advance(10)
    assert rig.deleted() == [("a", EXPIRED)]
    assert rig.next_deadline() is None
    assert rig.manager.positions.count == 0
