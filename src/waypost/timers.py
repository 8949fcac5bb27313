"""Timers: everything that has a deadline on the monotonic clock, in one heap, with one earliest deadline.

A timer has a key of its owner and a handler. One that is pushed back again and again is cheap: its new deadline goes
into a table, and its place in the heap is corrected when it comes up there. One that is stopped leaves its place behind
until then. Work in parts has no deadline: one part of it is done with every firing, unless it has to wait.

To add a timer, a component calls `kernel.timers.start(key, at, handler)` (waypost.node.kernel; a part below the node is
given the same Timers), and nothing else has to know: Node.tick fires it, and Node.next_deadline wakes the shell. The
simulator needs more: its model says when the node has to wake up, so a timer that acts in a simulation of one host has
a deadline in the model, as a `tick` and a `next_deadline` of one of its parts that waypost.sim.model.model.Model asks.
Deadlines on the wall clock, such as those of messages, are in waypost.core.expiries.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from waypost.clock import Now

Handler = Callable[[Now], object]

# Places in the heap that belong to no running timer are thrown out together when they are the majority, and these many.
_MIN_STALE: Final = 64


class Timers:
    """Each key is one timer, running or stopped. `works` is what is done in parts, and has no deadline.

    Invariant: the heap has a place for every running timer that is not later than its deadline, at `_placed`.
    """

    __slots__ = ("_heap", "_order", "_placed", "_running", "works")

    def __init__(self) -> None:
        # The deadline, the number of the start and the handler of each.
        self._running: dict[Hashable, tuple[float, int, Handler]] = {}
        self._placed: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._order = 0
        self.works: dict[Hashable, Handler] = {}

    def start_work(self, key: Hashable, part: Handler) -> None:
        """Do a part of some work with the next firing. A part that leaves more to do starts the work again."""
        self.works[key] = part

    def start(self, key: Hashable, at: float, handler: Handler) -> None:
        """Start a timer, or start it again with another deadline."""
        self._order = order = self._order + 1
        self._running[key] = at, order, handler
        placed = self._placed.get(key)
        if placed is None or at < placed:
            self._placed[key] = at
            heappush(self._heap, (at, order, key))

    def stop(self, key: Hashable) -> None:
        self._running.pop(key, None)
        if len(self._heap) > 2 * len(self._running) + _MIN_STALE:
            self._sweep()

    def is_running(self, key: Hashable) -> bool:
        return key in self._running

    def deadline(self, key: Hashable) -> float | None:
        running = self._running.get(key)
        return None if running is None else running[0]

    def earliest(self) -> float | None:
        """The deadline of the timer that is at the top of the heap, after the heap was corrected there."""
        heap = self._heap
        while heap:
            placed, _, key = heap[0]
            running = self._running.get(key)
            if self._placed.get(key) != placed:
                heappop(heap)
            elif running is None:
                heappop(heap)
                del self._placed[key]
            elif running[0] == placed:
                return placed
            else:
                self._placed[key] = running[0]
                heapreplace(heap, (running[0], running[1], key))
        return None

    def fire(self, now: Now, *, works: bool = True) -> None:
        """Call the handlers of the timers whose deadline has come, the earliest first, and do a part of each work.

        Each is stopped before. Without `works` the parts wait for another firing.

        Handlers may start and stop timers. A timer that they start fires with the next call, also if it is due now, so
        that work in parts leaves others their turn.
        """
        self._fire(now)
        if works and self.works:
            parts, self.works = self.works, {}
            for part in parts.values():
                part(now)

    def _fire(self, now: Now) -> None:
        last = self._order
        while (deadline := self.earliest()) is not None and deadline <= now.monotonic:
            _, place, key = self._heap[0]
            _, order, handler = self._running[key]
            if order > last:
                if place == order:
                    # A timer that ran before has a smaller number, and comes first.
                    return
                heapreplace(self._heap, (deadline, order, key))
                continue
            heappop(self._heap)
            del self._placed[key], self._running[key]
            handler(now)

    def _sweep(self) -> None:
        self._placed = {key: at for key, (at, _, _) in self._running.items()}
        self._heap = [(at, order, key) for key, (at, order, _) in self._running.items()]
        heapify(self._heap)
