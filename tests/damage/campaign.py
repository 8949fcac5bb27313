"""Damage a folder in many ways and see what follows: `python -m tests.damage.campaign [--flips N] [--pages N]`.

Every case changes one bit, or one page, of a copy of a real data folder. Nothing may be silent: what changes a message
is seen by a verification, by the start or by the read. No start may be ended by a signal twice. A salvage has to bring
back every message whose pages are whole, and none that was gone. A case with a problem ends with exit code 1.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.damage.cases import Damage, Outcome, Pristine, examine

FLIPS = 400
PAGES = 200


def special(pristine: Pristine) -> Iterator[Damage]:
    """The records that lead to everything else."""
    anatomy = pristine.anatomy
    root = anatomy.roots["messages"]
    yield pristine.destroyed("one meta page", 0)
    yield pristine.destroyed("the other meta page", 1)
    yield pristine.destroyed("both meta pages", 0, 1)
    yield pristine.destroyed("both meta pages and the root of the messages", 0, 1, root)
    yield pristine.destroyed("the root of the messages", root)
    yield pristine.destroyed("all roots", *(page for page in anatomy.roots.values() if page < anatomy.count))


def run(pristine: Pristine, damage: Damage, place: Path, number: int) -> Outcome:
    work = place / f"case-{number}"
    work.mkdir()
    return examine(pristine, damage, work)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=FLIPS)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    counts: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory(prefix="waypost-damage-") as name, ProcessPoolExecutor(options.workers) as pool:
        place = Path(name)
        pristine = Pristine.make(place)
        cases = [
            *special(pristine), *pristine.flips(chance, options.flips), *pristine.pages(chance, options.pages)
        ]  # fmt: skip
        futures = [pool.submit(run, pristine, case, place, number) for number, case in enumerate(cases)]
        for future in futures:
            outcome = future.result()
            counts["cases"] += 1
            counts["seen by verify"] += outcome.is_seen_by_verify
            counts["seen by the start or a read"] += outcome.is_seen_by_start
            counts["ended by a signal once"] += bool(outcome.starts[0].signal)
            counts["messages brought back"] += outcome.brought_back
            problems += [f"{outcome.words}: {problem}" for problem in outcome.problems]
            if counts["cases"] % 50 == 0:
                print(f"{counts['cases']} of {len(cases)}, {len(problems)} problems", file=sys.stderr)
    for words, count in counts.items():
        print(f"{words}: {count:,}")
    print("\n".join(problems) or "no problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
