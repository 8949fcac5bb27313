"""A world of one machine, and what happens to it."""

from typing import Final

from waypost.sim import swarm
from waypost.sim.bulk import swarm as bulk_swarm
from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.bulk.notebook import Notebook
from waypost.sim.bulk.scripts import BULK_SCRIPTS
from waypost.sim.client import Client
from waypost.sim.healing import healer
from waypost.sim.machine import Machine
from waypost.sim.marks import Marks
from waypost.sim.network import Network, NoNetwork
from waypost.sim.remote import swarm as remote_swarm
from waypost.sim.remote.lounge import Lounge
from waypost.sim.stage import Living, Stage
from waypost.sim.violation import Violation
from waypost.sim.workloads import SCRIPTS, setup

# When everybody waits for something that does not come, the healing tells.
_MAX_TIME: Final = 300.0

# How many events healing may take: far more than all messages and requests together need.
_MAX_HEALING: Final = 20_000

_SCRIPTS: Final = {"setup": setup, **SCRIPTS, **BULK_SCRIPTS}


class World(Stage[Living]):
    def __init__(self, seed: int, marks: Marks, interval: int = 1) -> None:
        super().__init__(seed, marks)
        self.interval: Final = interval
        self.swarm: Final = swarm.draw(self.rng)
        # The transactions that a coordinator has decided to commit, and whether that is done.
        self.decided: Final[dict[bytes, bool]] = {}
        readers = remote_swarm.draw(seed)
        self.bulk: Final = bulk_swarm.draw(seed)
        self.bulk_limits: Final = BulkLimits() if self.bulk is None else self.bulk.limits
        # What clients of the bulk interface remember, whatever happens to the machine.
        self.notebook: Final = Notebook()
        # The remote readers, if there are any.
        self.lounge: Final = None if readers is None else Lounge(self, readers)
        self.network: Final[Network] = NoNetwork() if self.lounge is None else self.lounge
        self.machines: Final[list[Machine]] = []

    def run(self) -> None:
        """Raises Violation."""
        self.trace.note(0.0, 0, self.swarm)
        machine = Machine("host", self, self.swarm)
        self.machines.append(machine)
        workloads, operations = self.swarm.workloads, self.swarm.operations
        if self.lounge is not None:
            self.trace.note(0.0, 0, self.lounge.swarm)
            self.lounge.open(machine)
            workloads, operations = self.lounge.swarm.workloads, operations + self.lounge.swarm.operations
        if self.bulk is not None:
            self.trace.note(0.0, 0, self.bulk)
            workloads = self.bulk.workloads if self.lounge is None else (*workloads, *self.bulk.workloads)
            operations += self.bulk.operations
        for number, name in enumerate(("setup", *workloads)):
            machine.add_client(Client(f"{name}{number}", machine, _SCRIPTS[name]))
        while self.operations < operations and self.time < _MAX_TIME:
            before = self.operations
            self.step()
            if self.operations > before:
                self._strike(machine)
        self._heal(machine)

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
            self.step()
        else:
            raise Violation(f"healing does not come to an end; still unanswered: {machine.unanswered}")
        machine.check_healed()
