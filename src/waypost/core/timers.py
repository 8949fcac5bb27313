"""Many deadlines in one heap, for things that have a number and mostly end before their time.

A timer is not stopped: what its number stands for is gone by then, and `is_running` says so. Stale timers are cleared
away whenever the heap has twice as many as were running the last time, so the work for each is constant on average.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

_FEW: Final = 64


class Timers:
    """Deadlines on one clock."""

    __slots__ = ("_bound", "_heap", "_is_running")

    def __init__(self, is_running: Callable[[int], bool]) -> None:
        self._is_running: Final = is_running
        self._heap: list[tuple[float, int]] = []
        self._bound = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, deadline: float, number: int) -> None:
        heappush(self._heap, (deadline, number))
        if len(self._heap) > self._bound:
            # As a set, because a message that was moved away and back has started its timer twice.
            self._heap = list({timer for timer in self._heap if self._is_running(timer[1])})
            heapify(self._heap)
            self._bound = max(2 * len(self._heap), _FEW)

    def expired(self, time: float) -> Iterator[int]:
        """The numbers whose deadline has passed at `time`, the earliest first."""
        while self._heap and self._heap[0][0] <= time:
            number = heappop(self._heap)[1]
            if self._is_running(number):
                yield number

    def next_deadline(self) -> float | None:
        while self._heap and not self._is_running(self._heap[0][1]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
