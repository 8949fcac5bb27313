"""All that has a deadline, in one heap."""

from hypothesis import given
from hypothesis import strategies as st

from waypost.clock import Now
from waypost.timers import Timers

KEYS = "abc"
steps = st.lists(st.tuples(st.sampled_from(["start", "stop", "fire"]), st.sampled_from(KEYS), st.integers(0, 9)))


class Watched(Timers):
    """Notes which timers have fired."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def begin(self, key: object, at: float) -> None:
        self.start(key, at, lambda _: self.seen.append(key))

    def expired(self, time: float) -> list[object]:
        self.seen = []
        self.fire(Now(time, 0.0))
        return self.seen


def test_the_earliest_fires_first_and_then_is_stopped() -> None:
    timers = Watched()
    for key, deadline in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        timers.begin(key, deadline)
    assert timers.earliest() == 1.0
    assert timers.expired(2.0) == ["b", "c"]
    assert not timers.is_running("b")
    assert timers.deadline("a") == timers.earliest() == 3.0
    assert timers.expired(2.9) == []


def test_a_timer_can_be_pushed_back_pulled_forward_and_stopped() -> None:
    timers = Watched()
    timers.begin("a", 1.0)
    timers.begin("a", 5.0)
    assert timers.expired(4.9) == []
    assert timers.earliest() == 5.0
    timers.begin("a", 2.0)
    assert timers.expired(9.0) == ["a"]
    timers.begin("b", 1.0)
    timers.stop("b")
    timers.stop("never started")
    assert timers.earliest() is None
    assert timers.deadline("b") is None


def test_the_last_handler_of_a_timer_is_called() -> None:
    timers = Watched()
    timers.start("a", 1.0, lambda _: timers.seen.append("first"))
    timers.start("a", 2.0, lambda _: timers.seen.append("last"))
    assert timers.expired(2.0) == ["last"]


def test_what_is_stopped_while_others_fire_does_not_fire() -> None:
    timers = Watched()

    def stop_b(now: Now) -> None:
        timers.seen.append("a")
        timers.stop("b")
        timers.begin("c", now.monotonic + 1)

    timers.start("a", 1.0, stop_b)
    timers.begin("b", 1.0)
    assert timers.expired(1.0) == ["a"]
    assert timers.earliest() == 2.0


def test_what_a_handler_starts_has_its_turn_with_the_next_tick_and_all_others_before() -> None:
    timers = Watched()

    def part(now: Now) -> None:
        timers.seen.append("part")
        timers.start("work", now.monotonic, part)
        timers.begin("d", now.monotonic + 5)

    timers.start("work", 1.0, part)
    timers.begin("b", 2.0)
    timers.begin("d", 3.0)
    timers.begin("c", 3.0)
    assert timers.expired(3.0) == ["part", "b", "c"]
    assert timers.earliest() == 3.0
    assert timers.expired(4.0) == ["part"]
    assert timers.deadline("d") == 9.0


def test_the_heap_does_not_grow_with_restarts_nor_keep_what_was_stopped() -> None:
    timers = Watched()
    for deadline in range(1000):
        timers.begin("a", float(deadline))
    assert len(timers._heap) == 1
    for number in range(1000):
        timers.stop("a")
        timers.begin("a", 999.0 + number)
        timers.earliest()
    assert len(timers._heap) == 1
    for _ in range(1000):
        key = object()
        timers.begin(key, 5000.0)
        timers.stop(key)
    assert len(timers._heap) < 100
    assert timers.earliest() == 1998.0


@given(steps)
def test_timers_agree_with_a_plain_table(commands: list[tuple[str, str, int]]) -> None:
    timers = Watched()
    table: dict[object, float] = {}
    for command, key, time in commands:
        if command == "start":
            timers.begin(key, float(time))
            table[key] = float(time)
        elif command == "stop":
            timers.stop(key)
            table.pop(key, None)
        else:
            fired = timers.expired(float(time))
            deadlines = [table.pop(name) for name in fired]
            assert deadlines == sorted(deadlines)
            assert all(deadline <= time for deadline in deadlines)
            assert all(deadline > time for deadline in table.values())
        assert timers.earliest() == min(table.values(), default=None)
        assert {name: timers.deadline(name) for name in KEYS if timers.is_running(name)} == table
