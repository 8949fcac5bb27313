"""Kill remote readers and their daemon, and check what was read: `python -m tests.crash.remote_campaign [--rounds N]`.

Consumers in separate processes (tests/crash/remote_consumer.py) read the queues of a daemon over RPC. A round sends
messages, lets the consumers work for a moment and kills some of them with SIGKILL, now and then the daemon too, or
instead. After some rounds all consumers are killed and one more takes what is left. It has to get everything that was
not received at once: a message that a killed one had is free again. tests/crash/remote_history.py checks the reports.
The seed decides who is killed when, but not how the processes interleave: the same seed need not fail twice.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Self

import waypost
from tests.crash.bodies import NOBODY, compose
from tests.crash.daemons import ROOT, Daemon, loopback, patience
from tests.crash.remote_consumer import ALONE, SHARED, Consumer, Diary
from tests.crash.remote_history import RemoteHistory

CONSUMERS: Final = 4
WORK_SECONDS: Final = (0.005, 0.25)
ROUNDS_BETWEEN_CHECKS: Final = 10
# One round in so many kills the daemon, of which one in so many spares the consumers.
DAEMON_KILLS: Final = 8
ONLY_THE_DAEMON: Final = 3
MESSAGES: Final = {"orders": 30, "deeds": 15, ALONE: 10}
SIZES: Final = (60, 500, 3000, 20_000)
LARGE_SIZE: Final = 400_000
LARGE_ONES: Final = 40
# Seconds that a message may seem locked after the death of its reader. The daemon itself would wait 300 for an end.
SECONDS_TO_FREE: Final = 60.0


@dataclass(slots=True)
class Report:
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        counts = self.counts
        return (
            f"{counts['rounds']} rounds: {counts['consumers']:,} consumers and the daemon {counts['daemons']:,} times "
            f"were killed; {counts['checks']} inventories\n"
            f"messages: {counts['sent']:,} sent, {counts['received']:,} received, {counts['in doubt']:,} by somebody "
            f"who was gone before the answer; {counts['left']:,} of them found by the inventories\n"
            f"reads: {counts['reads']:,}, of which {counts['given back']:,} gave the message back and "
            f"{counts['cut off']:,} were cut off; {counts['alone']:,} times a reader was alone"
        )


class Consumers:
    """Those of tests/crash/remote_consumer.py, by their names. They begin at once: what they need is loaded."""

    def __init__(self, address: str, place: Path, seed: int) -> None:
        self.running: list[str] = []
        self._names = (f"{seed}.{number}" for number in count(1))
        command = [sys.executable, "-m", "tests.crash.remote_consumer", address, str(place)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self) -> None:
        name = next(self._names)
        self._say(name)
        self.running.append(name)

    def kill(self, names: list[str]) -> None:
        for name in tuple(names):
            self._say(name)
            self.running.remove(name)

    def _say(self, name: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name.encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline(), "the process of the consumers does not answer"


class RemoteCampaign:
    """Rounds with a daemon whose folder is in `place`."""

    def __init__(self, place: Path, seed: int) -> None:
        self.report = Report(seed)
        self._place = place
        self._dice = random.Random(seed)
        self._daemon = Daemon(place, "alpha", loopback(51))
        self._history = RemoteHistory()
        self._messages = count(1)

    def run(self, rounds: int, progress: Callable[[str], None]) -> Report:
        report = self.report
        with self._daemon, Consumers(self._daemon.address, self._place, report.seed) as consumers:
            self._daemon.start()
            with self._daemon.connect() as manager:
                for queue in MESSAGES:
                    manager.create_queue(queue, transactional=SHARED.get(queue, False))
            for number in range(1, rounds + 1):
                self._round(consumers)
                report.counts["rounds"] = number
                if number % ROUNDS_BETWEEN_CHECKS == 0 or number == rounds:
                    consumers.kill(consumers.running)
                    self._check()
                    progress(f"round {number} of {rounds}: {report.counts['reads']:,} reads")
                if report.problems:
                    break
            if self._daemon.is_up and self._daemon.stop():
                report.problems.append("the daemon did not stop well")
        return report

    def _round(self, consumers: Consumers) -> None:
        dice, counts = self._dice, self.report.counts
        with self._daemon.connect() as manager:
            self._send(manager)
        while len(consumers.running) < CONSUMERS:
            consumers.start()
        time.sleep(dice.uniform(*WORK_SECONDS))
        if not self._daemon.is_up:
            self.report.problems.append(f"the daemon ended by itself:\n{self._daemon.log[-3000:]}")
            return
        is_daemon_killed = dice.randrange(DAEMON_KILLS) == 0
        if not is_daemon_killed or dice.randrange(ONLY_THE_DAEMON):
            victims = dice.sample(consumers.running, dice.randint(1, CONSUMERS))
            counts["consumers"] += len(victims)
            consumers.kill(victims)
        if is_daemon_killed:
            counts["daemons"] += 1
            with self._daemon.down():
                pass

    def _send(self, manager: waypost.Manager) -> None:
        for queue, amount in MESSAGES.items():
            names = [f"m{next(self._messages)}" for _ in range(amount)]
            bodies = [compose(name, NOBODY, self._size()) for name in names]
            if SHARED.get(queue):
                with manager.transaction() as transaction:
                    manager.queue(queue).send_many(bodies, transaction=transaction)
            else:
                manager.queue(queue).send_many(bodies, recoverable=True)
            self._history.sent[queue].update(names)

    def _size(self) -> int:
        return LARGE_SIZE if self._dice.randrange(LARGE_ONES) == 0 else self._dice.choice(SIZES)

    def _check(self) -> None:
        report, history = self.report, self._history
        report.counts["checks"] += 1
        self._drain()
        told = sorted(self._place.glob("*.jsonl"))
        for path in told:
            history.read(path.read_text(encoding="utf-8").splitlines())
        report.problems += history.problems()
        report.counts += history.counts
        if "unexpected error" in self._daemon.log:
            report.problems.append("the daemon met an unexpected error: see its log")
        self._history = RemoteHistory()
        if not report.problems:
            for path in told:
                path.unlink()

    def _drain(self) -> None:
        """Take what is left, which is to be free at once."""
        name = f"last{self.report.counts['checks']}"
        diary = Diary(self._place / f"{name}.jsonl")
        consumer = Consumer(name, self._daemon.address, diary)
        try:
            with self._daemon.connect() as manager:
                for queue in MESSAGES:
                    self.report.counts["left"] += manager.queue(queue).info().message_count
                    with patience(SECONDS_TO_FREE, f"messages of {queue} stay locked") as turns:
                        for _ in turns:
                            consumer.drain(queue)
                            if not manager.queue(queue).info().message_count:
                                break
        except AssertionError as error:
            self.report.problems.append(str(error))
        finally:
            diary.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill remote readers and their daemon, and check what was read.")
    parser.add_argument("--rounds", type=int, default=200, help="number of kills (200)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the choice and times of kills")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    (ROOT / "build").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="remote-", dir=ROOT / "build"))
    print(f"seed {seed}, on {place}")
    started = time.monotonic()
    report = RemoteCampaign(place, seed).run(arguments.rounds, lambda line: print(line, flush=True))
    print(report.summary())
    if report.problems:
        print(f"BROKEN; seed {seed}; see {place}", *report.problems[:50], sep="\n")
        return 1
    shutil.rmtree(place)
    seconds = time.monotonic() - started
    print(f"nothing was lost, nothing received came again, and nothing stayed locked ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
