"""Searches for cycles of objects: few objects at a time, and in the end none is forgotten."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from waypost.daemon import cycles
from waypost.daemon.cycles import MAX_SEARCHED, RETRY_SECONDS, WHOLE_SEARCH_SECONDS, YOUNG_SEARCHES, Cycles
from waypost.drive.loop_watch import LoopWatch

YOUNG = 700, 10, 10
AT_START = 1000


class Python:
    """The module gc, with objects that are numbers."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str, dict[str, Any]], None]] = []
        self.thresholds: tuple[int, int, int] = YOUNG
        self.searches = 0
        self.old = AT_START
        self.frozen = 0
        self.looked_at: list[int] = []

    def get_threshold(self) -> tuple[int, int, int]:
        return self.thresholds

    def set_threshold(self, threshold0: int, threshold1: int = 10, threshold2: int = 10, /) -> None:
        self.thresholds = threshold0, threshold1, threshold2

    def get_count(self) -> tuple[int, int, int]:
        return 0, 0, self.searches

    def get_objects(self) -> list[Any]:
        return [None] * self.old

    def get_freeze_count(self) -> int:
        return self.frozen

    def collect(self) -> int:
        self.looked_at.append(self.old)
        self.searches = 0
        return 0

    def freeze(self) -> None:
        self.frozen, self.old, self.searches = self.frozen + self.old, 0, 0

    def unfreeze(self) -> None:
        self.frozen, self.old = 0, self.old + self.frozen

    def make(self, count: int) -> None:
        """Objects that stay, with the searches that Python does meanwhile by itself."""
        size = YOUNG[0] * (YOUNG[1] + 1)
        for at in range(0, count, size):
            self.old += min(size, count - at)
            self.searches += 1
            for told in self.callbacks:
                told("start", {"generation": 1})
                told("stop", {"generation": 1})


class Turns:
    """The part of an event loop that is used: `go_on` is the next turn."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], object]] = []
        self.later: list[Callable[[], object]] = []
        self.delays: list[float] = []

    def call_soon_threadsafe(self, call: Callable[[], object]) -> None:
        self._soon.append(call)

    def call_later(self, delay: float, call: Callable[[], object]) -> None:
        self.later.append(call)
        self.delays.append(delay)

    def go_on(self) -> None:
        soon, self._soon = self._soon, []
        for call in soon:
            call()


class World:
    def __init__(self) -> None:
        self.python, self.turns = Python(), Turns()
        self.watch = LoopWatch(self.turns.call_soon_threadsafe)
        self.cycles = Cycles(self.turns, self.watch, self.python)  # type: ignore[arg-type]
        self.cycles.start()

    def rest(self) -> None:
        for _ in range(3):
            self.turns.go_on()
        assert self.watch.is_at_rest


def test_what_was_made_until_the_start_is_searched_no_more() -> None:
    world = World()
    assert (world.python.old, world.python.frozen, world.python.thresholds[:2]) == (0, AT_START, YOUNG[:2])
    world.cycles.stop()
    assert (world.python.thresholds, world.python.callbacks) == (YOUNG, [])


def test_a_few_old_objects_are_searched_between_two_turns() -> None:
    world = World()
    world.python.make(YOUNG_SEARCHES * 7700)
    assert world.python.looked_at == []
    world.turns.go_on()
    assert (world.python.looked_at, world.python.frozen) == ([YOUNG_SEARCHES * 7700], AT_START)


def test_no_search_looks_at_many_objects_however_many_are_made() -> None:
    world = World()
    for count in (30_000, 1_000_000, 40_000, 40_000, 40_000, 40_000):
        world.python.make(count)
        world.rest()
    assert world.python.looked_at
    assert max(world.python.looked_at) <= MAX_SEARCHED


def test_everything_is_searched_once_when_the_many_are_gone_and_the_loop_is_at_rest() -> None:
    world = World()
    world.python.make(1_000_000)
    world.rest()
    (search,) = world.turns.later
    search()
    assert (world.python.looked_at, len(world.turns.later)) == ([], 2)
    world.python.frozen = AT_START + 10
    world.watch.begin()
    search()
    assert (world.python.looked_at, len(world.turns.later)) == ([], 3)
    world.rest()
    search()
    assert (world.python.looked_at, world.python.frozen, len(world.turns.later)) == ([AT_START + 10], AT_START + 10, 3)


def test_many_objects_are_not_counted_every_second() -> None:
    world = World()
    world.python.make(1_000_000)
    world.rest()
    (search,) = world.turns.later
    search()
    assert world.turns.delays == [WHOLE_SEARCH_SECONDS] * 2
    world.watch.begin()
    search()
    assert world.turns.delays[2:] == [RETRY_SECONDS]


class Circle:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_a_cycle_that_was_frozen_among_many_objects_is_found_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "WHOLE_SEARCH_SECONDS", 0.01)
    monkeypatch.setattr(cycles, "RETRY_SECONDS", 0.01)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        searches = Cycles(loop, LoopWatch(loop.call_soon))
        searches.start()
        at_start = gc.get_freeze_count()
        circle: Circle | None = Circle()
        assert circle is not None
        found = weakref.ref(circle)
        many: list[Any] = [[number] for number in range(4 * MAX_SEARCHED)]
        while gc.get_freeze_count() < at_start + len(many):
            await asyncio.sleep(0)
        circle = None
        many.clear()
        while found() is not None:
            await asyncio.sleep(0.01)
        searches.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
