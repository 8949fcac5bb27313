"""Durations of turns of a loop, measured with clocks of the test."""

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from waypost.drive.loop_watch import BOUNDS, LoopWatch
from waypost.limits import LONG_TURN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 2 * LONG_TURN_SECONDS


class Loop:
    """Rounds of a loop, driven by the test."""

    def __init__(self) -> None:
        self.time = 0.0
        self.worked = 0.0
        self.ready: list[Callable[[], None]] = []
        self.watch = LoopWatch(self.ready.append, lambda: self.time, lambda: self.worked)

    def work(self, seconds: float, what: object = "work", *, waits: float = 0.0) -> None:
        began = self.watch.begin()
        self.time += seconds + waits
        self.worked += seconds
        self.watch.end(began, what)

    def round(self) -> None:
        ready, self.ready[:] = list(self.ready), []
        for callback in ready:
            callback()

    def longest(self) -> tuple[float, float, str] | None:
        turn = self.watch.longest(60, time.time())
        return None if turn is None else (round(turn.seconds, 3), round(turn.work_seconds, 3), turn.what)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_all_work_of_a_round_is_one_turn(loop: Loop) -> None:
    for _ in range(4):
        loop.work(0.02, "small")
    loop.work(0.05, "large")
    loop.round()
    assert loop.longest() == (0.13, 0.13, "large")
    assert loop.watch.slow == {"large": 1}


def test_a_loop_at_rest_is_left_alone(loop: Loop) -> None:
    loop.work(0.001)
    loop.round()
    # The mark stays for one more round, because work may have led to more.
    assert len(loop.ready) == 1
    loop.round()
    assert loop.ready == []
    assert (loop.watch.count, loop.longest()) == (2, None)


def test_rest_is_no_turn(loop: Loop) -> None:
    loop.work(0.001)
    loop.round()
    loop.round()
    loop.time += 1000
    loop.work(0.001)
    loop.round()
    assert loop.longest() is None
    assert loop.watch.seconds < 1


def test_what_nobody_has_named_is_measured_all_the_same(loop: Loop) -> None:
    loop.work(0.001)
    loop.time += LONG
    loop.round()
    assert loop.longest() == (0.201, 0.001, "other work")


def test_the_innermost_work_that_took_most_of_the_time_is_told(loop: Loop) -> None:
    outer = loop.watch.begin()
    loop.work(0.01, "a part")
    loop.work(LONG, "the cause")
    loop.watch.end(outer, "everything")
    loop.round()
    assert loop.longest() == (0.21, 0.21, "the cause")


def test_waiting_is_told_apart_from_work(loop: Loop) -> None:
    loop.work(0.01, "writing", waits=LONG)
    loop.round()
    assert loop.longest() == (0.21, 0.01, "writing")


def test_turns_are_counted_by_their_length(loop: Loop) -> None:
    for seconds in (0.001, 0.02, 0.2, 3.0):
        loop.work(seconds)
        loop.round()
    assert loop.watch.over == [sum(each > bound for each in (0.001, 0.02, 0.2, 3.0)) for bound in BOUNDS]
    assert loop.watch.slow.total() == 2


def test_names_that_are_made_up_take_no_memory(loop: Loop) -> None:
    for number in range(1000):
        loop.work(LONG, f"work {number}")
        loop.round()
    assert len(loop.watch.slow) <= 101
    assert loop.watch.slow.total() == 1000


def test_a_method_is_called_by_the_words_of_its_name(loop: Loop) -> None:
    loop.work(LONG, loop.longest)
    loop.round()
    assert loop.watch.slow == {"longest": 1}


def test_a_real_loop_has_its_turns_measured() -> None:
    async def main() -> LoopWatch:
        running = asyncio.get_running_loop()
        watch = LoopWatch(running.call_soon)
        began = watch.begin()
        while watch._clock() - began < 0.02:
            pass
        watch.end(began, "a busy wait")
        while not watch.count:
            await asyncio.sleep(0)
        return watch

    found = asyncio.run(main()).longest(60, time.time())
    assert found is not None
    assert found.what == "a busy wait"
