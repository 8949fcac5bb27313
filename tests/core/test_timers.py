"""Deadlines of things that mostly end before their time."""

from waypost.core.timers import Timers


def test_timers_expire_in_the_order_of_their_deadlines() -> None:
    timers = Timers(lambda _: True)
    for number in (3, 1, 2):
        timers.start(float(number), number)
    assert timers.next_deadline() == 1
    assert list(timers.expired(0.5)) == []
    assert list(timers.expired(2)) == [1, 2]
    assert timers.next_deadline() == 3


def test_what_is_gone_neither_expires_nor_wakes_anybody() -> None:
    running = {2}
    timers = Timers(running.__contains__)
    for number in (1, 2, 3):
        timers.start(float(number), number)
    assert timers.next_deadline() == 2
    running.clear()
    assert list(timers.expired(9)) == []
    assert timers.next_deadline() is None


def test_stale_timers_do_not_pile_up() -> None:
    running: set[int] = set()
    timers = Timers(running.__contains__)
    for number in range(10_000):
        running.add(number)
        timers.start(float(number), number)
        running.discard(number - 100)
        assert len(timers) <= 2 * 101
    assert list(timers.expired(10_000)) == sorted(running)


def test_a_timer_that_was_started_twice_is_kept_once() -> None:
    timers = Timers(lambda _: True)
    for _ in range(1000):
        timers.start(1.0, 7)
    assert len(timers) <= 64
