"""The simulation: its hosts, time, random numbers, events, faults of hosts, and trace.

One Random decides everything, and nothing is taken from a set, so the same seed gives the same trace everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from waypost.sim.client import Client, Script
from waypost.sim.host import Host
from waypost.sim.marks import Marks
from waypost.sim.patches import Patch
from waypost.sim.swarm import Swarm
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation

# When all applications wait for something that does not come, healing reports it.
_MAX_TIME: Final = 300.0

# The longest healing, in simulated seconds: a connection that fell silent is detected after twice the time for
# acknowledgments of direct names, two times, and the traffic that waited for it may meet another one.
_MAX_HEALING: Final = 400.0
_MAX_EVENTS: Final = 200_000


class Living(Protocol):
    """Something with a `life` that counts starts and ends: events planned in an earlier life do not happen."""

    @property
    def life(self) -> int: ...


H = TypeVar("H", bound=Host[Any])

# The time, the number that orders events of the same time, the object with its life, and the action.
Event = tuple[float, int, Living, int, Callable[[], None]]


class Simulation(ABC, Generic[H]):
    """A simulation: first safety under faults, for a number of operations; then everything heals, and must finish."""

    # All scripts that may be drawn, with `setup` and `healer`; and the interval of the slow checks of healing.
    scripts: Mapping[str, Callable[[Client[H]], Script]]
    look_s: float
    swarm: Swarm

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
        """Do it after this time, if the object is in the same life then."""
        self._scheduled += 1
        heappush(self._events, (self.time + delay, self._scheduled, living, living.life, action))

    def strikes(self, rate: float, /) -> bool:
        """Whether a fault of this rate happens now."""
        return rate > 0.0 and not self.is_healing and self.rng.random() < rate

    def new_uid(self) -> int:
        self._uids += 1
        return self._uids

    def run(self) -> None:
        """Run the simulation. Raises Violation."""
        self.trace.note(0.0, 0, self.swarm)
        self._set_up()
        for number, (name, script) in enumerate(self.swarm.scripts, 1):
            host = self.host(name)
            host.add_client(self.new_client(host, script, str(number)))
        while self.operations < self.swarm.operations and self.time < _MAX_TIME:
            before = self.operations
            self.step()
            if self.operations > before:
                self._strike_network()
                self._strike()
        self.is_healing = True
        self.trace.note(self.time, 0, "healing begins")
        self._heal()

    def host(self, name: str) -> H:
        return next(host for host in self.hosts if host.name == name)

    def new_client(self, host: H, script: str, number: str = "") -> Client[H]:
        prefix = f"{host.name}." if len(self.hosts) > 1 else ""
        return Client(f"{prefix}{script}{number}", host, self.scripts[script])

    def _heal(self) -> None:
        """Go on until everything has finished, and check the final state."""
        for host in self.hosts:
            host.heal(self.new_client(host, "healer"))
        end, look = self.time + _MAX_HEALING, self.time + self.look_s
        for _ in range(_MAX_EVENTS):
            if self.time >= look:
                look = self.time + self.look_s
                stuck = self._stuck()
                if not stuck:
                    break
                if self.time > end or not self._events:
                    raise Violation(f"the simulation does not finish after the last fault: {stuck}")
            self.step()
        else:
            raise Violation(f"the simulation does not finish after the last fault: {self._stuck()}")
        self._check_healed()

    def step(self) -> None:
        """Execute the next event."""
        if not self._events:
            raise Violation("no more events are planned")
        self.time, _, living, life, action = heappop(self._events)
        if life == living.life:
            action()

    def _strike(self) -> None:
        """Perhaps cause one fault of a host; called with each operation."""
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

    def patches(self) -> tuple[Patch, ...]:
        """Values for the engine that this seed changes."""
        return self.swarm.patches()

    @abstractmethod
    def _set_up(self) -> None:
        """Start the hosts, and let them create their queues."""

    def _strike_network(self) -> None:
        """Perhaps cause a fault between hosts; called with each operation."""

    @abstractmethod
    def _stuck(self) -> str:
        """The part that has not finished yet during healing, or an empty text."""

    @abstractmethod
    def _check_healed(self) -> None: ...
