"""Many deadlines on one clock.

A timer that is pushed back again and again must be cheap: its new deadline goes into a table, and its place in the heap
is corrected when it comes up there.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Places in the heap that belong to no running timer are thrown out together when they are the majority, and these many.
_MIN_STALE: Final = 64


class Timers(Generic[K]):
    """Each key is one timer, running or stopped.

    Invariant: the heap has a place for every running timer that is not later than its deadline, at `_placed`.
    """

    __slots__ = ("_deadlines", "_heap", "_order", "_placed")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._placed: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = count()

    def start(self, key: K, deadline: float) -> None:
        """Start a timer, or start it again with another deadline."""
        self._deadlines[key] = deadline
        placed = self._placed.get(key)
        if placed is None or deadline < placed:
            self._place(key, deadline)

    def stop(self, key: K) -> None:
        self._deadlines.pop(key, None)
        if len(self._heap) > 2 * len(self._deadlines) + _MIN_STALE:
            self._sweep()

    def is_running(self, key: K) -> bool:
        return key in self._deadlines

    def deadline(self, key: K) -> float | None:
        return self._deadlines.get(key)

    def expired(self, time: float) -> Iterator[K]:
        """The timers whose deadline has come, the earliest first. Each is stopped before it is told.

        Timers may be started and stopped between one and the next.
        """
        while (deadline := self.next_deadline()) is not None and deadline <= time:
            key = heappop(self._heap)[2]
            del self._placed[key], self._deadlines[key]
            yield key

    def next_deadline(self) -> float | None:
        """The deadline of the timer that is at the top of the heap, after the heap was corrected there."""
        heap = self._heap
        while heap:
            placed, _, key = heap[0]
            deadline = self._deadlines.get(key)
            if self._placed.get(key) != placed:
                heappop(heap)
            elif deadline is None:
                heappop(heap)
                del self._placed[key]
            elif deadline == placed:
                return deadline
            else:
                heappop(heap)
                self._place(key, deadline)
        return None

    def _place(self, key: K, deadline: float) -> None:
        self._placed[key] = deadline
        heappush(self._heap, (deadline, next(self._order), key))

    def _sweep(self) -> None:
        self._placed = dict(self._deadlines)
        self._heap = [(deadline, next(self._order), key) for key, deadline in self._deadlines.items()]
        heapify(self._heap)
