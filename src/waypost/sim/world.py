"""One simulated world: its time, its chance, its machines, and what happens to them.

One Random decides everything, and nothing is taken from a set, so the same seed gives the same trace everywhere.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final

from waypost.sim import swarm
from waypost.sim.client import Client
from waypost.sim.healing import healer
from waypost.sim.machine import Machine
from waypost.sim.marks import Marks
from waypost.sim.network import Network, NoNetwork
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation
from waypost.sim.workloads import SCRIPTS, setup

# When everybody waits for something that does not come, the healing tells.
_MAX_TIME: Final = 300.0

# How many events healing may take: far more than all messages and requests together need.
_MAX_HEALING: Final = 20_000

# When, the number that orders events of the same time, for whom and in which life, and what happens.
Event = tuple[float, int, Machine, int, Callable[[], None]]


class World:
    def __init__(self, seed: int, marks: Marks, interval: int = 1) -> None:
        self.interval: Final = interval
        self.rng: Final = Random(seed)
        self.marks: Final = marks
        self.swarm: Final = swarm.draw(self.rng)
        self.trace: Final = Trace()
        self.time = 0.0
        self.is_healing = False
        self.operations = 0
        # The transactions that a coordinator has decided to commit, and whether that is done.
        self.decided: Final[dict[bytes, bool]] = {}
        self.network: Network = NoNetwork()
        self.machines: Final[list[Machine]] = []
        self._events: list[Event] = []
        self._scheduled = 0
        self._uids = 0

    def schedule(self, delay: float, action: Callable[[], None], machine: Machine) -> None:
        """Do it in a while, if the machine lives the same life then."""
        self._scheduled += 1
        heappush(self._events, (self.time + delay, self._scheduled, machine, machine.life, action))

    def strikes(self, rate: float) -> bool:
        """Whether a fault of this rate happens now."""
        return rate > 0.0 and not self.is_healing and self.rng.random() < rate

    def new_uid(self) -> int:
        self._uids += 1
        return self._uids

    def run(self) -> None:
        """Raises Violation."""
        self.trace.note(0.0, 0, self.swarm)
        machine = Machine("host", self, self.swarm)
        self.machines.append(machine)
        for number, name in enumerate(("setup", *self.swarm.workloads)):
            machine.add_client(Client(f"{name}{number}", machine, SCRIPTS.get(name, setup)))
        while self.operations < self.swarm.operations and self.time < _MAX_TIME:
            before = self.operations
            self._step()
            if self.operations > before:
                self._strike(machine)
        self._heal(machine)

    def _step(self) -> None:
        if not self._events:
            raise Violation("nothing happens any more")
        self.time, _, machine, life, action = heappop(self._events)
        if life == machine.life:
            action()

    def _strike(self, machine: Machine) -> None:
        """At most one fault with an operation."""
        swarm = self.swarm
        fault = self.rng.random()
        if not machine.is_up or fault >= swarm.crash + swarm.stop + swarm.full + swarm.jump:
            return
        if fault < swarm.crash:
            machine.crash("at any moment")
        elif fault < swarm.crash + swarm.stop:
            machine.stop()
        elif fault < swarm.crash + swarm.stop + swarm.full:
            machine.drive.fill()
        else:
            machine.jump()

    def _heal(self, machine: Machine) -> None:
        self.is_healing = True
        self.trace.note(self.time, 0, "healing begins")
        machine.heal(Client("healer", machine, healer))
        for _ in range(_MAX_HEALING):
            if machine.is_healed:
                break
            if not self._events:
                raise Violation(f"requests are never answered: {machine.unanswered}")
            self._step()
        else:
            raise Violation(f"healing does not come to an end; still unanswered: {machine.unanswered}")
        machine.check_healed()
