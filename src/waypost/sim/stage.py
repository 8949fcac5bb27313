"""What every simulated world has: its time, its chance, its events, and the trace of them.

One Random decides everything, and nothing is taken from a set, so the same seed gives the same trace everywhere.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from waypost.sim.marks import Marks
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation


class Living(Protocol):
    """`life` counts the starts and the ends: what was planned in an earlier one does not happen."""

    @property
    def life(self) -> int: ...


L = TypeVar("L", bound=Living)

# When, the number that orders events of the same time, for whom and in which life, and what happens.
Event = tuple[float, int, L, int, Callable[[], None]]


class Stage(Generic[L]):
    def __init__(self, seed: int, marks: Marks) -> None:
        self.rng: Final = Random(seed)
        self.marks: Final = marks
        self.trace: Final = Trace()
        self.time = 0.0
        self.is_healing = False
        self.operations = 0
        self._events: list[Event[L]] = []
        self._scheduled = 0
        self._uids = 0

    def schedule(self, delay: float, action: Callable[[], None], machine: L, /) -> None:
        """Do it in a while, if the machine lives the same life then."""
        self._scheduled += 1
        heappush(self._events, (self.time + delay, self._scheduled, machine, machine.life, action))

    def strikes(self, rate: float, /) -> bool:
        """Whether a fault of this rate happens now."""
        return rate > 0.0 and not self.is_healing and self.rng.random() < rate

    def new_uid(self) -> int:
        self._uids += 1
        return self._uids

    def step(self) -> None:
        """The next event."""
        if not self._events:
            raise Violation("nothing happens any more")
        self.time, _, machine, life, action = heappop(self._events)
        if life == machine.life:
            action()
