"""Run seeds, with the limits of the engine as small as each seed sets them."""

from dataclasses import dataclass
from typing import Final

from waypost.sim.local.simulation import LocalSimulation
from waypost.sim.marks import Marks
from waypost.sim.net.simulation import NetworkSimulation
from waypost.sim.patches import Patch, patched
from waypost.sim.trace import Trace
from waypost.sim.violation import Violation

# The number of events after which the queues that changed are compared message by message.
QUICK: Final = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed. `violation` is None if every check held; `trace` shows what happened."""

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
    """Run one simulation from its first to its last event, or to the first violation.

    With the interval 1 a violation is found a little earlier, and the run takes longer; nothing else differs.
    `patches` change the engine for this run.
    """
    simulation = LocalSimulation(seed, marks, interval) if nodes == 1 else NetworkSimulation(seed, marks, nodes)
    violation: str | None = None
    with patched(*simulation.patches(), *patches):
        try:
            simulation.run()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001, whatever the engine raises is a finding
            violation = f"the engine failed with {type(error).__name__}: {error}"
    starts = sum(host.starts for host in simulation.hosts)
    return Outcome(seed, simulation.operations, starts, violation, simulation.trace)
