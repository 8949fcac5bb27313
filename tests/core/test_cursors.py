"""MS-MQDMPR 3.2: the Cursor machine."""

import pytest

from waypost.core.cursors import Cursor, CursorState, Found
from waypost.core.positions import END, START, PositionList, PositionState, lookup_identifier

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
UNREAD, READ = CursorState.UNREAD, CursorState.READ
WAIT_PEEK, WAIT_RECEIVE = CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE


def at(number: int, priority: int = 3) -> int:
    return lookup_identifier(priority, number)


def queue(*numbers: int) -> PositionList:
    positions = PositionList()
    for number in numbers:
        positions.insert(at(number), AVAILABLE)
    return positions


def cursor(*numbers: int) -> Cursor:
    return Cursor(1, queue(*numbers))


def where(of: Cursor) -> tuple[CursorState, int]:
    return of.state, of.position


@pytest.mark.spec("MQDMPR-3.2.7.2-01", "MQDMPR-3.2.7.2-03")
def test_a_peek_finds_the_first_message_and_stays_on_it() -> None:
    c = cursor(1, 2)
    for _ in range(2):
        assert c.get_message_for_peek() is Found.SUCCEEDED
        assert where(c) == (READ, at(1))


@pytest.mark.spec("MQDMPR-3.2.7.2-01")
def test_a_peek_goes_on_behind_what_was_received() -> None:
    c = cursor(1, 2)
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.SUCCEEDED
    c.positions.remove(at(1))
    assert c.get_message_for_peek() is Found.SUCCEEDED
    assert where(c) == (READ, at(2))


@pytest.mark.spec("MQDMPR-3.2.7.2-02")
def test_a_peek_that_finds_nothing_waits() -> None:
    c = cursor()
    assert c.get_message_for_peek() is Found.WAITING
    assert where(c) == (WAIT_PEEK, START)


@pytest.mark.spec("MQDMPR-3.2.7.2-04", "MQDMPR-3.2.7.4-05")
@pytest.mark.parametrize("gone", ["removed", "locked"])
def test_a_current_message_that_is_no_longer_available_was_received(gone: str) -> None:
    c = cursor(1, 2)
    c.get_message_for_peek()
    if gone == "removed":
        c.positions.remove(at(1))
    else:
        c.positions.set_state(at(1), LOCKED)
    assert c.get_message_for_peek() is Found.ALREADY_RECEIVED
    assert c.get_next_message_for_dequeue(no_wait=False) is Found.ALREADY_RECEIVED
    assert where(c) == (READ, at(1))


@pytest.mark.spec("MQDMPR-3.2.7.3-01")
def test_peek_next_is_illegal_before_a_peek_and_after_a_receive() -> None:
    c = cursor(1, 2)
    assert c.get_next_message_for_peek() is Found.ILLEGAL_CURSOR_ACTION
    assert where(c) == (UNREAD, START)
    c.get_next_message_for_dequeue(no_wait=True)
    assert c.get_next_message_for_peek() is Found.ILLEGAL_CURSOR_ACTION
    assert where(c) == (UNREAD, at(1))


@pytest.mark.spec("MQDMPR-3.2.7.3-02")
def test_peek_next_goes_on_also_from_where_a_message_was() -> None:
    c = cursor(1, 2, 3)
    c.get_message_for_peek()
    c.positions.remove(at(1))
    c.positions.set_state(at(2), LOCKED)
    assert c.get_next_message_for_peek() is Found.SUCCEEDED
    assert where(c) == (READ, at(3))


@pytest.mark.spec("MQDMPR-3.2.7.3-03", "MQDMPR-3.2.7.6-02")
def test_peek_next_at_the_end_waits_and_a_timeout_keeps_the_position() -> None:
    c = cursor(1)
    c.get_message_for_peek()
    assert c.get_next_message_for_peek() is Found.WAITING
    assert where(c) == (WAIT_PEEK, at(1))
    c.wait_time_expired(1)
    assert where(c) == (UNREAD, at(1))
    assert c.get_next_message_for_peek() is Found.ILLEGAL_CURSOR_ACTION
    c.positions.insert(at(2), AVAILABLE)
    assert c.get_message_for_peek() is Found.SUCCEEDED
    assert where(c) == (READ, at(2))


@pytest.mark.spec("MQDMPR-3.2.7.4-01")
def test_a_receive_takes_one_message_after_the_other() -> None:
    c = cursor(1, 2)
    for number in (1, 2):
        assert c.get_next_message_for_dequeue(no_wait=False) is Found.SUCCEEDED
        assert where(c) == (UNREAD, at(number))
        c.positions.remove(at(number))


@pytest.mark.spec("MQDMPR-3.2.7.4-02")
def test_a_receive_that_may_not_wait_finds_nothing_and_changes_nothing() -> None:
    c = cursor(1)
    c.get_next_message_for_dequeue(no_wait=True)
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.NOT_FOUND
    assert where(c) == (UNREAD, at(1))


@pytest.mark.spec("MQDMPR-3.2.7.4-03", "MQDMPR-3.2.7.6-01")
def test_a_receive_waits_and_a_timeout_leaves_it_at_the_end() -> None:
    c = cursor()
    assert c.get_next_message_for_dequeue(no_wait=False) is Found.WAITING
    assert where(c) == (WAIT_RECEIVE, START)
    c.wait_time_expired(0)
    assert where(c) == (UNREAD, END)


@pytest.mark.spec("MQDMPR-3.2.7.4-04")
def test_a_receive_takes_the_message_that_was_peeked_and_goes_on_behind_it() -> None:
    c = cursor(1, 2)
    c.get_message_for_peek()
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.SUCCEEDED
    assert where(c) == (UNREAD, at(1))
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.SUCCEEDED
    assert where(c) == (UNREAD, at(2))


@pytest.mark.spec("MQDMPR-3.2.7.5-01")
def test_a_new_message_moves_a_waiting_cursor_wherever_it_lies() -> None:
    peeking, receiving = cursor(5), cursor(5)
    for c in (peeking, receiving):
        c.get_message_for_peek()
        c.positions.remove(at(5))
    peeking.get_next_message_for_peek()
    peeking.message_available(at(9, priority=7))
    assert where(peeking) == (READ, at(9, priority=7))
    waiting = cursor()
    waiting.get_next_message_for_dequeue(no_wait=False)
    waiting.message_available(at(9, priority=7))
    assert where(waiting) == (UNREAD, at(9, priority=7))


def test_a_cursor_at_the_end_finds_what_arrives_later_whatever_its_priority() -> None:
    c = cursor()
    c.positions.insert(at(1), LOCKED)
    c.get_next_message_for_dequeue(no_wait=False)
    c.wait_time_expired(4)
    c.positions.set_state(at(1), AVAILABLE)
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.NOT_FOUND
    c.positions.insert(at(5, priority=0), AVAILABLE)
    c.positions.insert(at(6, priority=7), AVAILABLE)
    assert c.get_next_message_for_dequeue(no_wait=True) is Found.SUCCEEDED
    assert where(c) == (UNREAD, at(6, priority=7))


@pytest.mark.spec("MQDMPR-3.2.1.2-02")
def test_a_cursor_is_in_one_of_four_states() -> None:
    assert {state.name for state in CursorState} == {"UNREAD", "WAIT_RECEIVE", "WAIT_PEEK", "READ"}
    assert where(cursor()) == (UNREAD, START)
