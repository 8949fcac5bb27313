"""`python -m tests.sim.mutants [--seeds N] [NAME...]`: which seed finds each planted mistake.

The exit code is 1 when a mistake was not found.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.sim.mutants import MUTANTS
from tests.sim.mutants.hunting import hunt


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="Seeds to try for each mistake (default: 500).")
    parser.add_argument("names", nargs="*", help="Mistakes to plant (default: all).")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    is_complete = True
    for mutant in MUTANTS:
        if options.names and mutant.name not in options.names:
            continue
        outcome = hunt(mutant, range(options.seeds))
        is_complete = is_complete and outcome is not None
        found = "NOT FOUND" if outcome is None else f"seed {outcome.seed}: {outcome.violation}"
        print(f"{mutant.name:26} the engine {mutant.mistake}\n{'':26} {found}", flush=True)
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
