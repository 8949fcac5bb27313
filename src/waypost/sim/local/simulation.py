"""A simulation of one host, in some seeds with remote readers and bulk clients, and its checks after healing."""

from typing import Final

from waypost.sim.bulk.checkpoints import Checkpoints
from waypost.sim.bulk.scripts import BULK_SCRIPTS
from waypost.sim.local.arguments import ATTRIBUTES
from waypost.sim.local.healing import healer
from waypost.sim.local.host import LocalHost
from waypost.sim.local.workloads import SCRIPTS, setup
from waypost.sim.marks import Marks
from waypost.sim.patches import Patch
from waypost.sim.remote.readers import RemoteReaders
from waypost.sim.simulation import Simulation
from waypost.sim.swarm import draw


class LocalSimulation(Simulation[LocalHost]):
    scripts = {"setup": setup, "healer": healer, **SCRIPTS, **BULK_SCRIPTS}
    look_s = 0.0

    def __init__(self, seed: int, marks: Marks, interval: int = 1) -> None:
        super().__init__(seed, marks)
        self.interval: Final = interval
        self.swarm = draw(seed, self.rng)
        # The transactions that a coordinator has decided to commit, and whether that is done.
        self.decided: Final[dict[bytes, bool]] = {}
        # Checkpoints of bulk clients, which outlive the host.
        self.checkpoints: Final = Checkpoints()
        # The remote readers, if there are any.
        drawn = self.swarm.readers
        self.remote: Final = None if drawn is None else RemoteReaders(self, drawn)

    def patches(self) -> tuple[Patch, ...]:
        return *ATTRIBUTES, *super().patches()

    def _set_up(self) -> None:
        host = LocalHost(self)
        self.hosts.append(host)
        if self.remote is not None:
            self.remote.open(host)
        host.add_client(self.new_client(host, "setup"))

    def _stuck(self) -> str:
        host = self.hosts[0]
        return "" if host.is_healed else f"the queues are not empty; unanswered requests: {host.unanswered or 'none'}"

    def _check_healed(self) -> None:
        self.hosts[0].check_healed()
