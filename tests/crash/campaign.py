"""Kill a loaded queue manager again and again, and check what it kept: `python -m tests.crash.campaign [--rounds N]`.

A round starts tests/crash/load.py on the folder and kills it with SIGKILL after 20 to 300 milliseconds of load, or
already while it opens the folder. After some rounds tests/crash/inventory.py empties the folder, and tests/crash/
checks.py compares that with what the killed processes told. A violation ends the campaign; the folder is kept then,
with the lines that were told beside it. The seed decides what the threads do and when they are killed, but not how they
interleave: the same seed need not fail twice.
"""

import argparse
import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.crash.checks import Checks, Register
from tests.crash.history import History, Outcome

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS_BETWEEN_CHECKS: Final = 5
LOAD_SECONDS: Final = (0.02, 0.3)
# One round in so many is killed while the folder is opened, which takes about this long with the imports.
OPENINGS: Final = 8
OPENING_SECONDS: Final = (0.2, 1.0)
SECONDS_TO_START: Final = 60


@dataclass(slots=True)
class Report:
    seed: int
    rounds: int = 0
    checks: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        counts = self.counts
        return (
            f"{self.rounds} rounds, {counts['openings']} of them killed while the folder was opened; "
            f"{self.checks} inventories\n"
            f"operations: {counts['done']:,} acknowledged, {counts['undone']:,} aborted, "
            f"{counts['open']:,} in flight at a kill, of which {counts['happened']:,} had happened\n"
            f"messages: {counts['sent']:,} sent, {counts['taken']:,} received with acknowledgment, "
            f"{counts['left']:,} found in their queues, {counts['copies']:,} in journals"
        )


class Campaign:
    """Rounds on one folder, `place`/store."""

    def __init__(self, place: Path, seed: int) -> None:
        self.report = Report(seed)
        self._place = place
        self._store = place / "store"
        self._dice = random.Random(seed)
        self._register = Register()
        self._history = History()
        self._lines: list[str] = []

    def run(self, rounds: int, progress: Callable[[str], None]) -> Report:
        report = self.report
        for number in range(1, rounds + 1):
            self._kill_one(number)
            report.rounds = number
            if number % ROUNDS_BETWEEN_CHECKS == 0 or number == rounds:
                self._check()
                progress(f"round {number} of {rounds}: {report.counts['done']:,} operations acknowledged")
            if report.problems:
                (self._place / "told.jsonl").write_text("".join(self._lines))
                break
        return report

    def _kill_one(self, number: int) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.load", str(self._store), str(number), str(self.report.seed)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        told = bytearray()
        deadline = time.monotonic() + SECONDS_TO_START
        if self._dice.randrange(OPENINGS) == 0:
            self.report.counts["openings"] += 1
            deadline = time.monotonic() + self._dice.uniform(*OPENING_SECONDS)
        else:
            self._read(child, told, deadline, until=b"ready")
            if b"ready" not in told:
                self.report.problems.append(f"round {number}: the process did not open the folder")
            deadline = time.monotonic() + self._dice.uniform(*LOAD_SECONDS)
        self._read(child, told, deadline)
        if child.poll() is not None:
            self.report.problems.append(f"round {number}: the process ended by itself with {child.returncode}")
        child.kill()
        told += child.stdout.read()
        child.stdout.close()
        child.wait()
        for line in told.decode().splitlines(keepends=True):
            self._lines.append(line)
            self._history.read(line, number)
        self._history.end_of_round(number)

    def _read(self, child: "subprocess.Popen[bytes]", told: bytearray, deadline: float, until: bytes = b"\0") -> None:
        """Take the reports of the process until then, until a certain report, or until its end."""
        assert child.stdout is not None
        while until not in told and (left := deadline - time.monotonic()) > 0:
            if select.select([child.stdout], [], [], left)[0]:
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    child.wait(left)
                    return
                told += data

    def _check(self) -> None:
        self.report.checks += 1
        command = [sys.executable, "-m", "tests.crash.inventory", str(self._store)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            self.report.problems.append(f"the folder does not become empty: {result.stderr}")
            return
        found = json.loads(result.stdout)
        (self._place / "found.json").write_text(result.stdout)
        checks = Checks(self._history, found["queues"])
        self.report.problems += found["problems"]
        self.report.problems += checks.problems()
        self.report.problems += self._register.problems(self._history, found["queues"])
        self._count(checks, found["queues"])
        self._history = History(self._history.now)
        if not self.report.problems:
            self._lines.clear()

    def _count(self, checks: Checks, queues: dict[str, list[Any]]) -> None:
        counts = self.report.counts
        for operation in checks.operations:
            counts[operation.outcome.name.lower()] += 1
            counts["sent"] += len(operation.sends)
            if operation.outcome is Outcome.OPEN:
                counts["happened"] += checks.happened[operation.name]
            elif operation.outcome is Outcome.DONE:
                counts["taken"] += len(operation.taken)
        for queue, entries in queues.items():
            counts["copies" if queue in checks.copies else "left"] += len(entries)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a loaded queue manager again and again, and check what it kept.")
    parser.add_argument("--rounds", type=int, default=200, help="number of kills (200)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the work of the threads and the times of kills")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    (ROOT / "build").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="crash-", dir=ROOT / "build"))
    print(f"seed {seed}, on {place}")
    report = Campaign(place, seed).run(arguments.rounds, lambda line: print(line, flush=True))
    print(report.summary())
    if report.problems:
        print(f"BROKEN in round {report.rounds}; seed {seed}; see {place}", *report.problems, sep="\n")
        return 1
    shutil.rmtree(place)
    print("nothing acknowledged was lost, nothing came twice, every transaction was whole")
    return 0


if __name__ == "__main__":
    sys.exit(main())
