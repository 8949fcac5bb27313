"""A simulation of one host, with remote readers and bulk clients in some, and what is checked when it has healed."""

from typing import Final

from waypost.core import queue_manager
from waypost.node import deleting, purging, remote_reading
from waypost.sim.bulk import swarm as bulk_swarm
from waypost.sim.bulk.checkpoints import Checkpoints
from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.bulk.scripts import BULK_SCRIPTS
from waypost.sim.client import Client
from waypost.sim.local import swarm
from waypost.sim.local.arguments import ATTRIBUTES
from waypost.sim.local.healing import healer
from waypost.sim.local.host import LocalHost
from waypost.sim.local.workloads import SCRIPTS, setup
from waypost.sim.marks import Marks
from waypost.sim.network import Network, NoNetwork
from waypost.sim.patches import Patch
from waypost.sim.remote import swarm as remote_swarm
from waypost.sim.remote.readers import RemoteReaders
from waypost.sim.simulation import Simulation
from waypost.sim.violation import Violation

# How many events healing may take: far more than all messages and requests together need.
_MAX_HEALING: Final = 20_000

_SCRIPTS: Final = {"setup": setup, **SCRIPTS, **BULK_SCRIPTS}


class LocalSimulation(Simulation[LocalHost]):
    def __init__(self, seed: int, marks: Marks, interval: int = 1) -> None:
        super().__init__(seed, marks)
        self.interval: Final = interval
        self.swarm: Final = swarm.draw(self.rng)
        # The transactions that a coordinator has decided to commit, and whether that is done.
        self.decided: Final[dict[bytes, bool]] = {}
        readers = remote_swarm.draw(seed)
        self.bulk: Final = bulk_swarm.draw(seed)
        self.bulk_limits: Final = BulkLimits() if self.bulk is None else self.bulk.limits
        # What clients of the bulk interface remember, whatever happens to the host.
        self.checkpoints: Final = Checkpoints()
        # The remote readers, if there are any.
        self.remote: Final = None if readers is None else RemoteReaders(self, readers)
        self.network: Final[Network] = NoNetwork() if self.remote is None else self.remote

    def limits(self) -> tuple[Patch, ...]:
        drawn = self.swarm
        limits = [
            *ATTRIBUTES,
            *drawn.limits(),
            *(Patch(module, "PURGE_PART", drawn.purge_part) for module in (purging, deleting)),
            Patch(queue_manager, "EXPIRY_PART", drawn.expiry_part),
        ]
        if self.bulk is not None:
            limits += self.bulk_limits.patches()
        if self.remote is not None:
            limits.append(Patch(remote_reading, "BIND_SECONDS", self.remote.swarm.patience.bind))
        return tuple(limits)

    def _set_up(self) -> int:
        self.trace.note(0.0, 0, self.swarm)
        host = LocalHost("host", self, self.swarm)
        self.hosts.append(host)
        workloads, operations = self.swarm.workloads, self.swarm.operations
        if self.remote is not None:
            self.trace.note(0.0, 0, self.remote.swarm)
            self.remote.open(host)
            workloads, operations = self.remote.swarm.workloads, operations + self.remote.swarm.operations
        if self.bulk is not None:
            self.trace.note(0.0, 0, self.bulk)
            workloads = self.bulk.workloads if self.remote is None else (*workloads, *self.bulk.workloads)
            operations += self.bulk.operations
        for number, name in enumerate(("setup", *workloads)):
            host.add_client(Client(f"{name}{number}", host, _SCRIPTS[name]))
        return operations

    def _heal(self) -> None:
        host = self.hosts[0]
        host.heal(Client("healer", host, healer))
        for _ in range(_MAX_HEALING):
            if host.is_healed:
                break
            if not self._events:
                raise Violation(f"requests are never answered: {host.unanswered}")
            self.step()
        else:
            raise Violation(f"healing does not come to an end; still unanswered: {host.unanswered}")
        host.check_healed()
