"""Power failures: `python -m tests.power.campaign [--states N]`.

A subject (a queue manager in a process or a daemon, two that send to each other, one whose folder is upgraded, or one
that is backed up and restored) is loaded in several rounds, and what it does to the files of its folder is recorded
(recorder.py): it makes its folder, stops and starts again, and leaves without stopping. Out of the record come states
that a disk may have after a power failure (disk.py, states.py). The subject is started on each of them in another
process (examiner.py), and what it has is compared with what was acknowledged by then. Then one of the states is what
the next recording begins with, so that power fails again and again. The seed decides what is drawn, but not how threads
interleave: the same seed need not fail twice. A broken state is kept.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.power import ptrace
from tests.power.disk import Lie, unseen
from tests.power.embedded import Daemon, Embedded
from tests.power.examiner import Examiner, examiner
from tests.power.log import Log, Over, Told
from tests.power.recorder import PROJECT, record
from tests.power.restore import Restore
from tests.power.states import State, states
from tests.power.subject import Subject
from tests.power.transfer import Transfer
from tests.power.upgrade import Upgrade

# The ways in which the rounds of one recording end.
ENDS: Final = ("stop", "kill", "stop")
STATES_OF_A_RECORDING: Final = 200
# So many recordings follow on each other; then the next begins with nothing.
CHAIN: Final = 4


@dataclass(slots=True)
class Broken:
    """A state that breaks a promise."""

    how: str
    problems: list[str]
    folder: Path


@dataclass(slots=True)
class Report:
    states: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.failures and not self.broken

    def summary(self) -> str:
        counts = self.counts
        return (
            f"{self.states:,} states of {counts['recordings']} recordings with {counts['Write']:,} writes, "
            f"{counts['Flush']:,} flushes and {counts['Told']:,} lines told; {len(self.broken)} of them are broken"
        )

    def sentences(self) -> list[str]:
        """All that is wrong."""
        found = list(self.failures)
        for broken in self.broken:
            found += [f"BROKEN: {broken.how}; see {broken.folder}", *broken.problems[:10]]
        return found


class Campaign:
    """Recordings in `place`, each on a state of the one before; states are opened in `quick`."""

    def __init__(self, subject: Subject, place: Path, quick: Path, seed: int) -> None:
        self.report: Final = Report()
        self._subject: Final = subject
        self._place: Final = place
        self._quick: Final = quick
        self._seed: Final = seed
        self._dice: Final = random.Random(seed)
        self._rounds = 0
        # Reports before the recording.
        self._told: list[Told] = []

    def record(self, base: State | None = None, ends: Sequence[str] = ENDS) -> Log:
        """Load the subject on a folder in that state, or on none. Its rounds end so."""
        number = self.report.counts["recordings"] = self.report.counts["recordings"] + 1
        place = self._place / f"{self._subject.name}-{number}"
        root = place / "root"
        root.mkdir(parents=True)
        if base is None:
            self._subject.prepare(root)
        else:
            base.write_to(root)
        programs = {
            self._rounds + more: self._subject.program(root, self._rounds + more, self._seed, end)
            for more, end in enumerate(ends, 1)
        }
        self._rounds += len(ends)
        log = record(root, place, programs)
        over = [entry for entry in log.entries if isinstance(entry, Over)]
        self.report.failures += [f"round {each.round} ended with {each.code}" for each in over if each.code]
        self.report.failures += [f"not all that was done to {name} is recorded" for name in unseen(log, root)]
        self.report.counts.update(type(entry).__name__ for entry in log.entries)
        return log

    def check(self, log: Log, amount: int, lie: Lie = Lie.NONE) -> State | None:
        """Start on states of the log. Returns one of them, drawn by chance."""
        kept: State | None = None
        with examiner(self._subject) as worker:
            for number, state in enumerate(states(log, amount, self._dice, lie, self._subject.machines)):
                self._examine(worker, log, state)
                self.report.states += 1
                if self._dice.randrange(number + 1) == 0:
                    kept = state
                if self.report.broken:
                    break
        return kept

    def run(self, amount: int, progress: Callable[[str], None]) -> Report:
        base: State | None = None
        while self.report.states < amount and self.report.is_clean:
            log = self.record(base)
            base = self.check(log, min(STATES_OF_A_RECORDING, amount - self.report.states))
            progress(f"{self._subject.name}: {self.report.states:,} of {amount:,} states")
            if base is None or self._subject.begins_anew or self.report.counts["recordings"] % CHAIN == 0:
                base = None
                self._told = []
            else:
                self._told = self._told_until(log, base)
        return self.report

    def _told_until(self, log: Log, state: State) -> list[Told]:
        return self._told + [entry for entry in log.entries[: state.position] if isinstance(entry, Told)]

    def _examine(self, worker: Examiner, log: Log, state: State) -> None:
        root = Path(tempfile.mkdtemp(prefix="state-", dir=self._quick))
        state.write_to(root)
        answer = worker.examine(root)
        shutil.rmtree(root)
        wrong: list[str] = answer["problems"]
        if not wrong:
            wrong = list(self._subject.problems(self._told_until(log, state), answer["found"]))
        if wrong:
            kept = self._place / f"{self._subject.name}-broken-{len(self.report.broken)}"
            kept.mkdir()
            state.write_to(kept)
            last = type(log.entries[state.position - 1]).__name__
            how = f"power fails at {state.position} of {len(log.entries)}, after {last}; {state.how}"
            self.report.broken.append(Broken(how, wrong, kept))


@contextmanager
def quick_place() -> Iterator[Path]:
    """Where flushes cost nothing, if there is such a place: what is opened there is not recorded."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="waypost-power-", dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Start on what disks may hold after a power failure, and check it.")
    parser.add_argument("--states", type=int, default=2000, help="number of states to open (2000)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the work, and of the states that are drawn")
    arguments = parser.parse_args()
    if reason := ptrace.why_not():
        print(f"power failures are not testable here: {reason}")
        return 1
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    (PROJECT / "build").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="power-", dir=PROJECT / "build"))
    print(f"seed {seed}, on {place}")
    started = time.monotonic()
    upgrades = arguments.states // 20
    restores = arguments.states // 10
    transfers = arguments.states // 2 - upgrades - restores
    daemons = arguments.states // 10
    shares: list[tuple[Subject, int]] = [
        (Embedded(), arguments.states - daemons - transfers - upgrades - restores),
        (Daemon(), daemons),
        (Transfer(), transfers),
        (Upgrade(), upgrades),
        (Restore(), restores),
    ]
    is_clean = True
    with quick_place() as quick:
        for subject, amount in shares:
            report = Campaign(subject, place, quick, seed).run(amount, lambda line: print(line, flush=True))
            print(report.summary(), *report.sentences(), sep="\n")
            is_clean = is_clean and report.is_clean
    if not is_clean:
        return 1
    shutil.rmtree(place)
    print(f"nothing acknowledged was lost, nothing came twice ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
