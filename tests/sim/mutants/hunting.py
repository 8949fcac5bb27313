"""Search the seeds for the first one that finds a planted mistake."""

from collections.abc import Iterable
from typing import Final

from tests.sim.mutants.planting import Mutant
from waypost.sim.marks import Marks
from waypost.sim.run import Outcome, run_seed

# The errors of an engine whose method has another form than the mutant believes: they prove nothing.
_MISFITS: Final = ("TypeError", "AttributeError", "NameError")


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Outcome | None:
    """The first seed that finds the mutant. A seed with a violation on the sound engine too does not count."""
    marks, nodes = Marks(mutant.nodes), mutant.nodes
    for seed in seeds:
        outcome = run_seed(seed, marks, nodes=nodes, patches=mutant.patches)
        if outcome.violation is not None and any(f"with {name}:" in outcome.violation for name in _MISFITS):
            raise AssertionError(f"{mutant.name} does not fit the engine any more: {outcome.violation}")
        if outcome.violation is not None and run_seed(seed, marks, nodes=nodes).violation is None:
            return outcome
    return None
