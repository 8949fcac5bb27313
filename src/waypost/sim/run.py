"""Running seeds, with the limits of the engine as small as each seed wants them."""

from dataclasses import dataclass
from typing import Final

from waypost.core import queue_manager
from waypost.node import deleting, purging, remote, reserves, scans
from waypost.sim.marks import Marks
from waypost.sim.net.eager import eager_windows
from waypost.sim.net.marks import net_sometimes
from waypost.sim.net.world import NetWorld
from waypost.sim.patches import Patch, patched
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation
from waypost.sim.world import World
from waypost.transfer import session

# After how many events the queues that changed are compared message by message.
QUICK: Final = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one seed. `violation` is None if everything held; `trace` tells what happened."""

    seed: int
    operations: int
    starts: int
    violation: str | None
    trace: Trace

    @property
    def digest(self) -> str:
        return self.trace.digest


def run_seed(
    seed: int, marks: Marks, *, interval: int = QUICK, nodes: int = 1, patches: tuple[Patch, ...] = ()
) -> Outcome:
    """One world from its first to its last event, or to the first violation.

    With the interval 1 a violation is seen a little earlier, and the run takes longer; nothing else is different.
    `patches` change the engine for this run.
    """
    world = World(seed, marks, interval) if nodes == 1 else NetWorld(seed, marks, nodes)
    violation: str | None = None
    with patched(*_limits(world), *patches):
        try:
            world.run()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001, whatever the engine raises is a finding
            violation = f"the engine broke down with {type(error).__name__}: {error}"
    machines = world.machines if isinstance(world, World) else world.hosts
    starts = sum(machine.starts for machine in machines)
    return Outcome(seed, world.operations, starts, violation, world.trace)


def new_marks(nodes: int) -> Marks:
    """What worlds of so many machines have to reach."""
    return Marks() if nodes == 1 else Marks(net_sometimes())


def _limits(world: World | NetWorld) -> tuple[Patch, ...]:
    drawn = world.swarm
    limits: tuple[Patch, ...] = Patch(reserves, "BLOCK", drawn.block), Patch(scans, "_PAGE", drawn.page)
    if isinstance(world, NetWorld):
        eager = world.swarm.eager
        limits = *limits, Patch(session, "LAST_NUMBER", world.swarm.last_number), *world.hostility.patches()
        return (*limits, *eager_windows(eager)) if eager else limits
    drawn = world.swarm
    limits = *limits, *(Patch(module, "PURGE_PART", drawn.purge_part) for module in (purging, deleting))
    limits = *limits, Patch(queue_manager, "EXPIRY_PART", drawn.expiry_part)
    if world.bulk is not None:
        limits = *limits, *world.bulk_limits.patches()
    if world.lounge is not None:
        return *limits, Patch(remote, "BIND_SECONDS", world.lounge.swarm.patience.bind)
    return limits
