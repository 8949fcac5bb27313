"""`python -m tests.sim.mutants [--seeds N] [--record] [NAME...]`: which seed finds each planted mistake.

The exit code is 1 when a mistake was not found. `--record` writes the seeds down, and the suite begins with them.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.sim.mutants import FOUND_BY, MUTANTS, SEEDS
from tests.sim.mutants.hunting import hunt


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="Seeds to try for each mistake (default: 500).")
    parser.add_argument("--record", action="store_true", help="Write the seeds down, for the suite to begin with.")
    parser.add_argument("names", nargs="*", help="Mistakes to plant (default: all).")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    is_complete, seeds = True, dict(FOUND_BY)
    for mutant in MUTANTS:
        if options.names and mutant.name not in options.names:
            continue
        outcome = hunt(mutant, range(mutant.first, mutant.first + options.seeds))
        is_complete = is_complete and outcome is not None
        if outcome is not None:
            seeds[mutant.name] = outcome.seed
        found = "NOT FOUND" if outcome is None else f"seed {outcome.seed}: {outcome.violation}"
        print(f"{mutant.name:26} the engine {mutant.mistake}\n{'':26} {found}", flush=True)
    if options.record:
        lines = [f"{mutant.name} = {seeds[mutant.name]}\n" for mutant in MUTANTS if mutant.name in seeds]
        SEEDS.write_text("".join(lines), encoding="utf-8")
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
