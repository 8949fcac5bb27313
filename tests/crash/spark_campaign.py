"""Kill Spark drivers and the daemon: `python -m tests.crash.spark_campaign [--rounds N]`.

Messages go into queue a of a real daemon, a driver (tests/crash/spark_driver.py) moves them to queue b, and some of its
tasks fail. A round sends messages and kills the driver with its JVM, or the daemon, in turns. Before a killed driver
starts again, the last entry of its commit log is deleted now and then, so that Spark repeats a batch that was done. In
the end a driver runs until a is empty: then b has every message once. The seed decides who is killed when, but not how
the processes interleave.
"""

import argparse
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.crash.daemons import ROOT, Daemon, loopback, patience

MESSAGES: Final = 600
WORK_SECONDS: Final = (0.0, 5.0)
# One round in so many kills the daemon instead of the driver.
DAEMON_KILLS: Final = 2
REPLAYS: Final = 0.5
FAILURES: Final = 0.05
ROWS: Final = 150
START_SECONDS: Final = 120.0
END_SECONDS: Final = 300.0


@dataclass(slots=True)
class Report:
    seed: int
    mode: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        counts = self.counts
        return (
            f"{self.mode}: {counts['rounds']} rounds: the driver was killed {counts['drivers']} times and the daemon "
            f"{counts['daemons']}; {counts['replays']} commit entries were deleted, {counts['again']} queries failed "
            f"and were started again\n"
            f"messages: {counts['sent']:,} sent to a, {counts['arrived']:,} in b, {counts['left']:,} left in a"
        )


class Driver:
    def __init__(self, place: Path, url: str, mode: str) -> None:
        self.checkpoint: Final = place / "checkpoint"
        self.finish: Final = place / "finish"
        self._log: Final = place / "driver.log"
        self._command: Final = [
            *(sys.executable, "-m", "tests.crash.spark_driver", "--url", url, "--checkpoint", str(self.checkpoint)),
            *("--finish", str(self.finish), "--mode", mode, "--failures", str(FAILURES), "--rows", str(ROWS)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            # A separate group, so that its JVM dies with it.
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self.hear(b"ready", START_SECONDS)

    def forget(self) -> None:
        """Forget its output so far."""
        assert self._process is not None
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], 0)[0] and os.read(self._process.stdout.fileno(), 1000):
            pass

    def hear(self, word: bytes, seconds: float) -> None:
        """Wait until it says this."""
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        deadline = time.monotonic() + seconds
        while word + b"\n" not in self._said:
            has_spoken = select.select([stream], [], [], max(deadline - time.monotonic(), 0))[0]
            said = os.read(stream.fileno(), 1000) if has_spoken else b""
            assert said, f"the driver did not say {word.decode()}:\n{self.log[-3000:]}"
            self._said += said
        self._said = b""

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._process = None
        self._said = b""

    def end(self) -> None:
        """Let it move what is left, and end."""
        self.finish.touch()
        self.hear(b"drained", END_SECONDS)
        self.kill()

    def forget_last_commit(self) -> bool:
        """Delete the last entry of the commit log. False if there is none."""
        commits = self.checkpoint / "commits"
        numbers = [int(path.name) for path in commits.iterdir() if path.name.isdigit()] if commits.is_dir() else []
        if not numbers:
            return False
        (commits / str(max(numbers))).unlink()
        (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)
        return True

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


class Campaign:
    def __init__(self, place: Path, seed: int, mode: str) -> None:
        self.report: Final = Report(seed, mode)
        self._dice: Final = random.Random(seed)
        self._daemon: Final = Daemon(place, "alpha", loopback(51))
        self._driver: Final = Driver(place, self._daemon.url, mode)
        self._sent: set[bytes] = set()

    def run(self, rounds: int) -> Report:
        with self._daemon, self._driver:
            self._daemon.start()
            with self._daemon.connect() as manager:
                for name in ("a", "b"):
                    manager.create_queue(name, transactional=True)
            self._driver.start()
            for number in range(rounds):
                self._round(number)
            self._send()
            self._driver.end()
            self._check()
            self.report.counts["again"] = self._driver.log.count("again: ")
        return self.report

    def _round(self, number: int) -> None:
        self.report.counts["rounds"] += 1
        self._driver.forget()
        self._send()
        self._driver.hear(b"working", START_SECONDS)
        time.sleep(self._dice.uniform(*WORK_SECONDS))
        if number % DAEMON_KILLS:
            self.report.counts["daemons"] += 1
            self._daemon.kill()
            time.sleep(self._dice.uniform(0, 1))
            self._daemon.start()
            return
        self.report.counts["drivers"] += 1
        self._driver.kill()
        if self._dice.random() < REPLAYS and self._driver.forget_last_commit():
            self.report.counts["replays"] += 1
        self._driver.start()

    def _send(self) -> None:
        with self._daemon.connect() as manager:
            for _ in range(4):
                first = len(self._sent)
                bodies = [f"{number} ".encode() * 20 for number in range(first, first + MESSAGES // 4)]
                with manager.transaction() as transaction:
                    manager.queue("a").send_many(bodies, transaction=transaction, label="chaos")
                self._sent.update(bodies)
        self.report.counts["sent"] = len(self._sent)

    def _check(self) -> None:
        counts, problems = self.report.counts, self.report.problems
        with self._daemon.connect() as manager:
            with patience(10, "a is not empty") as turns:
                for _ in turns:
                    counts["left"] = manager.queue("a").info().message_count
                    if not counts["left"]:
                        break
            arrived: Counter[bytes] = Counter()
            # Messages that killed tasks have staged are in b too, and hidden.
            arrived.update(message.body for message in manager.queue("b").browse())
        counts["arrived"] = arrived.total()
        twice = [body for body, times in arrived.items() if times > 1]
        lost = self._sent - arrived.keys()
        foreign = arrived.keys() - self._sent
        for what, bodies in (("twice", twice), ("lost", lost), ("nobody sent", foreign)):
            if bodies:
                problems.append(f"{len(bodies)} messages {what}, such as {min(bodies)[:10]!r}")


def run(rounds: int, seed: int, mode: str) -> Report:
    place = Path(tempfile.mkdtemp(prefix="waypost-spark-"))
    try:
        return Campaign(place, seed, mode).run(rounds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--mode", choices=("drain", "claim"), action="append")
    arguments = parser.parse_args()
    for mode in arguments.mode or ("drain", "claim"):
        report = run(arguments.rounds, arguments.seed, mode)
        print(f"seed {report.seed}\n{report.summary()}", flush=True)
        if report.problems:
            raise SystemExit("\n".join(report.problems))


if __name__ == "__main__":
    main()
