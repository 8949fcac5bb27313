"""MS-MQDMPR 3.1.7.3.1, 3.1.7.3.4 to 3.1.7.3.7, 3.1.7.2.2 and 3.1.6.3: reads that wait."""

import pytest

from tests.core.engine import OK, OTHER_TX, TX, Rig
from tests.core.test_reading import with_cursor
from waypost.core.cursors import CursorState
from waypost.core.positions import END, START
from waypost.core.queues import AccessType, ReadRequest
from waypost.hresult import HResult

TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT
CANCELLED = HResult.MQ_ERROR_OPERATION_CANCELLED
FOR_EVER = ReadRequest()
A_YEAR = 365 * 86400


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.spec("MQDMPR-3.1.7.1.10-02", "MQDMPR-3.1.2.3-01")
def test_a_receive_without_a_timeout_waits_for_ever(rig: Rig) -> None:
    handle = rig.open()
    wait_id = rig.receive(handle, FOR_EVER)
    assert rig.next_deadline() is None
    rig.advance(A_YEAR)
    assert rig.ended() == []
    rig.send("a")
    assert rig.ended() == [(wait_id, "a")]


@pytest.mark.spec(
    "MQDMPR-3.1.2.3-01",
    "MQDMPR-3.1.6.3-01",
    "MQDMPR-3.1.7.1.10-10",
    "MQDMPR-3.1.7.3.4-01",
    "MQDMPR-3.1.7.3.5-01",
)
def test_each_wait_ends_after_exactly_its_own_time(rig: Rig) -> None:
    handle = rig.open()
    long, short = rig.receive(handle, ReadRequest(2000)), rig.receive(handle, ReadRequest(500))
    assert rig.next_deadline() == rig.now.monotonic + 0.5
    rig.advance(0.499)
    assert rig.ended() == []
    rig.advance(0.001)
    assert rig.ended() == [(short, TIMEOUT)]
    assert rig.next_deadline() == rig.now.monotonic + 1.5
    rig.advance(1.5)
    assert rig.ended() == [(long, TIMEOUT)]
    assert rig.next_deadline() is None


@pytest.mark.spec("MQDMPR-3.1.7.1.10-10", "MQDMPR-3.1.7.3.1-02")
def test_a_read_without_time_fails_at_once(rig: Rig) -> None:
    handle = rig.open()
    cursor = rig.manager.open_cursor(handle)
    assert rig.receive(handle, ReadRequest(0)) == TIMEOUT
    assert rig.peek(handle, ReadRequest(0)) == TIMEOUT
    assert rig.receive(handle, ReadRequest(-1)) == TIMEOUT
    assert rig.peek(handle, ReadRequest(0, cursor)) == TIMEOUT
    assert not handle.waiting


@pytest.mark.spec("MQDMPR-3.1.1.10-02", "MQDMPR-3.1.7.3.1-03")
def test_a_wait_keeps_what_it_was_asked_for(rig: Rig) -> None:
    handle = rig.open()
    cursor = rig.manager.open_cursor(handle)
    waits = [
        rig.receive(handle, ReadRequest(1000, cursor, 9)),
        rig.peek(handle, FOR_EVER),
        rig.receive(handle, FOR_EVER),
    ]
    assert list(handle.waiting) == waits
    kept = [(wait.destructive_read, wait.request.tag, wait.request.cursor) for wait in handle.waiting.values()]
    assert kept == [(True, 9, cursor), (False, None, None), (True, None, None)]
    assert rig.next_deadline() == rig.now.monotonic + 1


@pytest.mark.spec("MQDMPR-3.1.7.3.1-05")
def test_a_wait_that_ended_leaves_no_timer_and_no_trace(rig: Rig) -> None:
    handle = rig.open()
    for end in ("message", "cancel", "time"):
        rig.receive(handle, ReadRequest(1000, tag=1))
        if end == "message":
            rig.send("a")
        elif end == "cancel":
            rig.manager.reading.cancel_waiting_message_read_request(handle, 1, CANCELLED)
        else:
            rig.advance(1)
        assert len(rig.ended()) == 1
        assert not handle.waiting
        assert not rig.orders.waiting
        assert rig.next_deadline() is None
    rig.advance(5)
    assert rig.ended() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.10-09", "MQDMPR-3.1.7.3.1-04")
def test_a_receive_that_waits_gets_the_message_that_comes(rig: Rig) -> None:
    handle = rig.open()
    wait_id = rig.receive(handle, FOR_EVER)
    assert next(iter(handle.waiting.values())).destructive_read
    rig.send("a")
    assert rig.ended() == [(wait_id, "a")]
    assert rig.labels() == []
    timed, cancelled = rig.receive(handle, ReadRequest(10)), rig.receive(handle, ReadRequest(20, tag=1))
    rig.manager.reading.cancel_waiting_message_read_request(handle, 1, CANCELLED)
    rig.advance(1)
    assert rig.ended() == [(cancelled, CANCELLED), (timed, TIMEOUT)]


@pytest.mark.spec("MQDMPR-3.1.7.1.10-06")
def test_a_cursor_that_waits_moves_to_the_message_that_comes(rig: Rig) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle, None)
    wait_id = rig.receive(handle, request)
    lookup_id = rig.send("a", priority=7)
    rig.send("b", priority=7)
    assert rig.ended() == [(wait_id, "a")]
    assert request.cursor is not None
    assert (request.cursor.position, request.cursor.state) == (lookup_id, CursorState.UNREAD)
    assert rig.receive(handle, request) == "b"


@pytest.mark.spec("MQDMPR-3.1.7.1.10-07")
def test_a_cursor_whose_receive_ends_without_a_message_is_told(rig: Rig) -> None:
    handle = rig.open()
    for status in (TIMEOUT, CANCELLED):
        cursor = rig.manager.open_cursor(handle)
        assert cursor is not None
        wait_id = rig.receive(handle, ReadRequest(1000, cursor, 5))
        if status is CANCELLED:
            rig.manager.reading.cancel_waiting_message_read_request(handle, 5, CANCELLED)
        rig.advance(1)
        assert rig.ended() == [(wait_id, status)]
        assert (cursor.position, cursor.state) == (END, CursorState.UNREAD)
        rig.send("later")
        assert rig.receive(handle, ReadRequest(0, cursor)) == "later"


@pytest.mark.spec("MQDMPR-3.1.7.1.14-04", "MQDMPR-3.1.7.1.15-04", "MQDMPR-3.1.7.3.7-01")
def test_peeks_with_cursors_share_a_message_and_release_the_next_reader(rig: Rig) -> None:
    handle = rig.open()
    rig.create("other")
    elsewhere = rig.open(name="DIRECT=OS:host\\private$\\other")
    others = rig.receive(elsewhere, FOR_EVER)
    current, following = with_cursor(rig, handle, None), with_cursor(rig, handle, None)
    rig.send("old")
    assert rig.peek(handle, following) == "old"
    assert rig.receive(handle) == "old"
    rig.manager.take_events()
    waits = [rig.peek(handle, current), rig.peek_next(handle, following), rig.receive(handle, FOR_EVER)]
    lookup_id = rig.send("new")
    assert rig.ended() == [(wait_id, "new") for wait_id in waits]
    for cursor in (current.cursor, following.cursor):
        assert cursor is not None
        assert (cursor.position, cursor.state) == (lookup_id, CursorState.READ)
    assert list(elsewhere.waiting) == [others]


@pytest.mark.spec("MQDMPR-3.1.7.1.14-05", "MQDMPR-3.1.7.1.15-05")
def test_a_cursor_whose_peek_ends_without_a_message_stays_where_it_was(rig: Rig) -> None:
    handle = rig.open()
    first, following = with_cursor(rig, handle), with_cursor(rig, handle)
    waits = [rig.peek(handle, ReadRequest(1000, first.cursor))]
    lookup_id = rig.send("a")
    assert rig.ended() == [(waits[0], "a")]
    assert rig.peek(handle, following) == "a"
    unread = with_cursor(rig, handle)
    rig.receive(handle)
    rig.manager.take_events()
    waits = [
        rig.peek_next(handle, ReadRequest(1000, following.cursor)),
        rig.peek(handle, ReadRequest(1000, unread.cursor)),
    ]
    endless = rig.peek_next(handle, ReadRequest(None, first.cursor))
    rig.advance(A_YEAR)
    assert rig.ended() == [(wait_id, TIMEOUT) for wait_id in waits]
    assert list(handle.waiting) == [endless]
    assert following.cursor is not None
    assert unread.cursor is not None
    assert (following.cursor.position, following.cursor.state) == (lookup_id, CursorState.UNREAD)
    assert (unread.cursor.position, unread.cursor.state) == (START, CursorState.UNREAD)


@pytest.mark.spec("MQDMPR-3.1.7.1.15-07")
def test_a_peek_without_a_cursor_waits_too(rig: Rig) -> None:
    handle = rig.open(AccessType.PEEK)
    endless, timed = rig.peek(handle, FOR_EVER), rig.peek(handle, ReadRequest(1000))
    rig.advance(1)
    assert rig.ended() == [(timed, TIMEOUT)]
    rig.advance(A_YEAR)
    rig.send("a")
    assert rig.ended() == [(endless, "a")]
    assert rig.labels() == ["a"]


@pytest.mark.spec(
    "MQDMPR-3.1.1.10-01",
    "MQDMPR-3.1.1.16-05",
    "MQDMPR-3.1.7.2.2-02",
    "MQDMPR-3.1.7.2.2-03",
    "MQDMPR-3.1.7.2.2-04",
    "MQDMPR-3.1.7.3.6-01",
)
def test_a_message_is_offered_handle_by_handle_until_a_receive_takes_it(rig: Rig) -> None:
    """readings MQDMPR 3.H: a peek without a cursor does not hold up the others."""
    one, two = rig.open(), rig.open()
    peek = rig.peek(one, FOR_EVER)
    other = rig.receive(two, FOR_EVER)
    first, second = rig.receive(one, FOR_EVER), rig.receive(one, FOR_EVER)
    late = rig.peek(one, FOR_EVER)
    assert list(one.waiting) == [peek, first, second, late]
    rig.send("a")
    assert rig.ended() == [(peek, "a"), (first, "a")]
    assert (list(one.waiting), list(two.waiting)) == ([second, late], [other])
    rig.send("b")
    assert rig.ended() == [(second, "b")]
    rig.send("c")
    assert rig.ended() == [(late, "c"), (other, "c")]
    assert rig.labels() == []


def test_a_message_that_becomes_free_again_wakes_as_a_new_one_does(rig: Rig) -> None:
    handle = rig.open()
    rig.send("a")
    rig.send("b")
    tx = ReadRequest(0, transaction=rig.start())
    assert (rig.receive(handle, tx), rig.receive(handle, tx)) == ("a", "b")
    waits = [rig.receive(handle, FOR_EVER), rig.receive(handle, FOR_EVER)]
    rig.abort()
    assert rig.ended() == [(waits[0], "a"), (waits[1], "b")]


def test_a_wait_of_a_transaction_that_is_over_does_not_swallow_the_message(rig: Rig) -> None:
    handle = rig.open()
    over = rig.receive(handle, ReadRequest(transaction=rig.start()))
    locked = rig.receive(handle, ReadRequest(transaction=rig.start(OTHER_TX)))
    rig.commit(TX)
    rig.send("a")
    assert rig.ended() == [(over, HResult.MQ_ERROR_TRANSACTION_SEQUENCE), (locked, "a")]
    assert rig.labels() == ["a"]


@pytest.mark.spec("MQDMPR-3.1.7.1.17-01")
def test_cancelling_ends_the_wait_with_that_tag_and_status(rig: Rig) -> None:
    """readings MQDMPR 3.L: a tag is looked for on one handle, because two clients may choose the same."""
    handle, other = rig.open(), rig.open()
    cancelled = rig.receive(handle, ReadRequest(tag=1))
    kept, same = rig.receive(handle, ReadRequest(tag=2)), rig.receive(other, ReadRequest(tag=1))
    status = HResult.MQ_INFORMATION_OPERATION_PENDING
    assert rig.manager.reading.cancel_waiting_message_read_request(handle, 1, status) == OK
    assert rig.ended() == [(cancelled, status)]
    assert (list(handle.waiting), list(other.waiting)) == ([kept], [same])


@pytest.mark.spec("MQDMPR-3.1.7.1.17-02")
def test_a_tag_that_nobody_has_is_not_found(rig: Rig) -> None:
    handle = rig.open()
    rig.receive(handle, FOR_EVER)
    cancel = rig.manager.reading.cancel_waiting_message_read_request
    assert cancel(handle, 0, CANCELLED) == HResult.STATUS_NOT_FOUND
    assert rig.ended() == []


def test_ten_thousand_waits_are_served_in_their_order(rig: Rig) -> None:
    handles = [rig.open() for _ in range(100)]
    waits = [rig.receive(handle, ReadRequest(1000)) for handle in handles for _ in range(100)]
    for number in range(5000):
        rig.send(str(number))
    rig.advance(1)
    expected = [
        *((wait, str(number)) for number, wait in enumerate(waits[:5000])),
        *((w, TIMEOUT) for w in waits[5000:]),
    ]
    assert rig.ended() == expected
