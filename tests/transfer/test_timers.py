"""Many deadlines on one clock."""

from hypothesis import given
from hypothesis import strategies as st

from waypost.transfer.timers import Timers

KEYS = "abc"
steps = st.lists(st.tuples(st.sampled_from(["start", "stop", "expired"]), st.sampled_from(KEYS), st.integers(0, 9)))


def test_the_earliest_expires_first_and_then_is_stopped() -> None:
    timers: Timers[str] = Timers()
    for key, deadline in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        timers.start(key, deadline)
    assert timers.next_deadline() == 1.0
    assert list(timers.expired(2.0)) == ["b", "c"]
    assert not timers.is_running("b")
    assert timers.deadline("a") == timers.next_deadline() == 3.0
    assert list(timers.expired(2.9)) == []


def test_a_timer_can_be_pushed_back_pulled_forward_and_stopped() -> None:
    timers: Timers[str] = Timers()
    timers.start("a", 1.0)
    timers.start("a", 5.0)
    assert list(timers.expired(4.9)) == []
    assert timers.next_deadline() == 5.0
    timers.start("a", 2.0)
    assert list(timers.expired(9.0)) == ["a"]
    timers.start("b", 1.0)
    timers.stop("b")
    timers.stop("never started")
    assert timers.next_deadline() is None
    assert timers.deadline("b") is None


def test_what_is_stopped_while_others_expire_does_not_expire() -> None:
    timers: Timers[str] = Timers()
    timers.start("a", 1.0)
    timers.start("b", 1.0)
    seen = []
    for key in timers.expired(1.0):
        seen.append(key)
        timers.stop("b")
        timers.start("c", 2.0)
    assert seen == ["a"]
    assert timers.next_deadline() == 2.0


def test_the_heap_does_not_grow_with_restarts_nor_keep_what_was_stopped() -> None:
    timers: Timers[object] = Timers()
    for deadline in range(1000):
        timers.start("a", float(deadline))
    assert len(timers._heap) == 1
    for _ in range(1000):
        key = object()
        timers.start(key, 5000.0)
        timers.stop(key)
    assert len(timers._heap) < 100
    assert timers.next_deadline() == 999.0


@given(steps)
def test_timers_agree_with_a_plain_table(commands: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    table: dict[str, float] = {}
    for command, key, time in commands:
        if command == "start":
            timers.start(key, float(time))
            table[key] = float(time)
        elif command == "stop":
            timers.stop(key)
            table.pop(key, None)
        else:
            due = [table.pop(name) for name in sorted(table, key=table.__getitem__) if table[name] <= time]
            assert len(list(timers.expired(float(time)))) == len(due)
        assert timers.next_deadline() == min(table.values(), default=None)
        assert {name: timers.deadline(name) for name in KEYS if timers.is_running(name)} == table
