"""The simulation: its hosts, its time, its chance, its events, the faults of hosts, and the trace.

One Random decides everything, and nothing is taken from a set, so the same seed gives the same trace everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from waypost.sim.host import Host
from waypost.sim.marks import Marks
from waypost.sim.patches import Patch
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation

# When all applications wait for something that does not come, the healing reports it.
_MAX_TIME: Final = 300.0


class Living(Protocol):
    """`life` counts the starts and the ends: what was planned in an earlier one does not happen."""

    @property
    def life(self) -> int: ...


H = TypeVar("H", bound=Host[Any])

# When, the number that orders events of the same time, for whom and in which life, and what happens.
Event = tuple[float, int, Living, int, Callable[[], None]]


class Simulation(ABC, Generic[H]):
    """First safety under faults, for a number of operations; then everything heals, and must come to its end."""

    def __init__(self, seed: int, marks: Marks) -> None:
        self.rng: Final = Random(seed)
        self.marks: Final = marks
        self.trace: Final = Trace()
        self.hosts: Final[list[H]] = []
        self.time = 0.0
        self.is_healing = False
        self.operations = 0
        self._events: Final[list[Event]] = []
        self._scheduled = 0
        self._uids = 0

    def schedule(self, delay: float, action: Callable[[], None], living: Living, /) -> None:
        """Do it in a while, if it lives the same life then."""
        self._scheduled += 1
        heappush(self._events, (self.time + delay, self._scheduled, living, living.life, action))

    def strikes(self, rate: float, /) -> bool:
        """Whether a fault of this rate happens now."""
        return rate > 0.0 and not self.is_healing and self.rng.random() < rate

    def new_uid(self) -> int:
        self._uids += 1
        return self._uids

    def run(self) -> None:
        """Raises Violation."""
        operations = self._set_up()
        while self.operations < operations and self.time < _MAX_TIME:
            before = self.operations
            self.step()
            if self.operations > before:
                self._strike_network()
                self._strike()
        self.is_healing = True
        self.trace.note(self.time, 0, "healing begins")
        self._heal()

    def step(self) -> None:
        """The next event."""
        if not self._events:
            raise Violation("nothing happens any more")
        self.time, _, living, life, action = heappop(self._events)
        if life == living.life:
            action()

    def _strike(self) -> None:
        """At most one fault of a host with an operation."""
        host = self.hosts[0] if len(self.hosts) == 1 else self.rng.choice(self.hosts)
        faults = host.faults
        fault = self.rng.random()
        if not host.is_up or fault >= faults.crash + faults.stop + faults.full + faults.jump:
            return
        if fault < faults.crash:
            host.crash("at any moment")
        elif fault < faults.crash + faults.stop:
            host.stop()
        elif fault < faults.crash + faults.stop + faults.full:
            host.disk.fill()
        else:
            host.jump()

    @abstractmethod
    def limits(self) -> tuple[Patch, ...]:
        """The limits of the engine, as small as this seed wants them."""

    @abstractmethod
    def _set_up(self) -> int:
        """Hosts and their applications. How many operations there are to be before everything heals."""

    def _strike_network(self) -> None:
        """With each operation, perhaps, something happens between hosts."""

    @abstractmethod
    def _heal(self) -> None:
        """Go on until everything has come to its end, and check that it is as it must be."""
