"""Running seeds, with the limits of the engine as small as the seed wants them."""

from dataclasses import dataclass

from waypost.node import node, reserves, scans
from waypost.sim.marks import Marks
from waypost.sim.patches import Patch, patched
from waypost.sim.swarm import Swarm
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation
from waypost.sim.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one seed. `violation` is None if everything held; `trace` tells what happened."""

    seed: int
    operations: int
    lives: int
    digest: str
    violation: str | None
    trace: Trace


def run_seed(seed: int, marks: Marks, sabotage: tuple[Patch, ...] = ()) -> Outcome:
    world = World(seed, marks)
    violation: str | None = None
    with patched(*_limits(world.swarm), *sabotage):
        try:
            world.run()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001, whatever the engine raises is a finding
            violation = f"the engine broke down: {type(error).__name__}: {error}"
    lives = sum(machine.life for machine in world.machines)
    return Outcome(seed, world.operations, lives, world.trace.digest, violation, world.trace)


def _limits(swarm: Swarm) -> tuple[Patch, ...]:
    return (
        Patch(reserves, "BLOCK", swarm.block),
        Patch(node, "PURGE_PART", swarm.purge_part),
        Patch(scans, "_PAGE", swarm.page),
    )
