"""Kill the processes of Spark pipelines: `python -m tests.crash.chaos.campaign [--rounds N] [--setups a,b] [--seed N]`.

A round sends messages to a daemon, from which a program of Spark (driver.py) takes them to other queues. Two processes
die in it, at fail points (points.py) or at any time; they are started again, and the program goes on with the same
options and checkpoint. The round ends when the source is empty. Then every message must be in each destination once,
and in the end nothing may be staged or claimed. A violation ends the set-up; its folder is kept then.

The seed decides who is killed where, but not how the processes interleave: the same seed need not fail twice.
--long runs something else: programs with default options whose drivers are down for five minutes.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.crash.chaos.ledger import Ledger
from tests.crash.chaos.legs import EVEN, LEGS, ODD, SETUPS, SOURCE, STAGE_LEASE_S, Leg
from tests.crash.chaos.plans import plans
from tests.crash.chaos.points import VARIABLE, Hit, Plot, Point, Step, Victim
from tests.crash.daemons import ROOT, Daemon, loopback
from tests.spark.clusters import Cluster, cluster_in
from waypost import connect
from waypost.client.bulk.client import BulkClient
from waypost.errors import WaypostError
from waypost.spark.java import make_archive

MESSAGES: Final = 150
# A fail point that no batch has reached gets more messages, so often.
WAVES: Final = 4
ROUND_SECONDS: Final = 600.0
DAEMON_SECONDS: Final = (0.0, 1.0)
ANYTIME_SECONDS: Final = (0.0, 2.0)
# Beyond the lease.
LATE_SECONDS: Final = 2.0
FORGETS: Final = 0.5
# Between the moment a step is taken and the death of its victim.
AFTER_SECONDS: Final = 0.3
REST_SECONDS: Final = 60.0
SOME_LOG: Final = 4000

# Executors are killed more often than a master expects.
OF_MASTER: Final = {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1"}
# Rounds of each set-up and hits of each fail point in a campaign of so many rounds.
FULL_ROUNDS: Final = 100
LEAST_ROUNDS: Final = 15
LEAST_HITS: Final = 10

Progress = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """The figures of a set-up."""

    counts: Counter[str] = field(default_factory=Counter)
    points: Counter[Point] = field(default_factory=Counter)
    victims: Counter[Victim] = field(default_factory=Counter)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        self.counts += other.counts
        self.points += other.points
        self.victims += other.victims
        self.seconds += other.seconds
        self.problems += other.problems


class Driver:
    """The driver of a leg, with its JVM in the same process group."""

    def __init__(self, place: Path, plot: Plot, leg: Leg, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._place: Final = place
        self._plot: Final = plot
        self._log: Final = place / "driver.log"
        lease = () if leg.lease_s is None else ("--lease", str(leg.lease_s))
        self._command: Final = [
            *(sys.executable, "-m", "tests.crash.chaos.driver", leg.name, "--place", str(place), *words, *lease)
        ]
        self._environment: Final = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._plot.name(Victim.DRIVER, self._process.pid)
        self.starts += 1

    def kill(self) -> None:
        """Kill it with its JVM, even if one of the two has ended already."""
        if self._process is None:
            return
        # The number of the group stays taken while one of its processes lives, or has not been waited for.
        if self.is_up:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def forget_last_commit(self) -> bool:
        """Delete the last entry of the commit log. False if there is none."""
        commits = self._place / "checkpoint" / "commits"
        numbers = [int(path.name) for path in commits.iterdir() if path.name.isdigit()] if commits.is_dir() else []
        if not numbers:
            return False
        (commits / str(max(numbers))).unlink()
        (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)
        return True

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""


class Course:
    """One leg on one daemon: its processes, and its rounds."""

    def __init__(self, place: Path, leg: Leg, seed: int) -> None:
        self.report: Final = Report()
        self.leg: Final = leg
        self._dice: Final = random.Random(seed)
        self._plans: Final = plans(leg, seed)
        self._place: Final = place
        self._ledger: Final = Ledger(leg.destinations)
        self._plot: Final = Plot(place / "plot")
        self._plot.place.mkdir(parents=True)
        self._daemon: Final = Daemon(place, "alpha", loopback(51 + list(LEGS).index(leg.name)))
        # Rounds whose driver was down for longer than its lease.
        self._late: Final[set[int]] = set()
        self._cluster: Cluster | None = None
        self._driver: Driver
        self._stack: Final = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._daemon)
            self._start_daemon()
            with connect(self._daemon.url) as manager:
                for name in (SOURCE, *self.leg.destinations):
                    manager.create_queue(name, transactional=True)
            folders = (str(Path(__file__).parent / "hook"), str(ROOT), os.environ.get("PYTHONPATH", ""))
            environment = {
                VARIABLE: str(self._plot.place),
                "PYTHONPATH": os.pathsep.join(filter(None, folders)),
            }
            words = ["--url", self._daemon.url]
            if self.leg.is_cluster:
                folder = self._place / "cluster"
                folder.mkdir()
                self._cluster = stack.enter_context(cluster_in(folder, make_archive(), extra=environment | OF_MASTER))
                self._plot.name(Victim.NODE, self._cluster.nodes.processes[0])
                environment = dict(self._cluster.environment)
                words += ["--master", self._cluster.master, "--settings", self._cluster.settings_text]
            else:
                # Tasks may fail: on local[2] one failure would be the end of the job.
                words += ["--master", "local[2,4]"]
            self._driver = stack.enter_context(Driver(self._place, self._plot, self.leg, words, environment))
            self._driver.start()
            self._stack.push(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- Rounds

    def run(self, rounds: int, progress: Progress) -> Report:
        began = time.monotonic()
        for number in range(1, rounds + 1):
            start = time.monotonic()
            steps = next(self._plans)
            self._round(number, steps)
            self.report.counts["rounds"] += 1
            progress(
                f"{self.leg.name} {number} of {rounds}: {', '.join(map(str, steps))}; "
                f"{len(self._ledger.sent):,} messages, {time.monotonic() - start:.1f} s"
            )
            if self.report.problems:
                break
        else:
            self._check_rest()
        self._count()
        self.report.seconds = time.monotonic() - began
        return self.report

    def die_at(self, point: Point) -> None:
        """Send messages, and wait until the driver has died at a point."""
        self._send()
        self._plot.arm(1, [Step(point, Victim.DRIVER)])
        self._await(lambda: not self._driver.is_up, f"the driver did not die {point}")
        self._plot.disarm()

    def go_on(self) -> Report:
        """Start the driver again, and check what arrives."""
        self._driver.start()
        self._send()
        self._await(self._is_empty, "the messages do not leave the source")
        self.report.counts["rounds"] += 1
        self._compare()
        self._check_rest()
        self._count()
        return self.report

    def _round(self, number: int, steps: list[Step]) -> None:
        self._send()
        self._plot.arm(number, steps)
        self._kill_anytime(number, steps)
        waves = 1

        def is_over() -> bool:
            nonlocal waves
            self._revive(number)
            if not self._is_empty():
                return False
            if len(self._hits(number)) == len(steps) or waves == WAVES:
                return True
            waves += 1
            self._plot.disarm()
            self._revive_all(number)
            self._send()
            self._plot.arm(number, steps)
            return False

        self._await(is_over, "the messages do not leave the source")
        self._plot.disarm()
        self._revive_all(number)
        reached = {hit.step for hit in self._hits(number)}
        self._fail(
            *(f"no process was {step.point}" for index, step in enumerate(steps) if index not in reached),
        )
        self._compare()
        if self.report.problems:
            self._fail(f"round {number} of {self.leg.name}: {', '.join(map(str, steps))}; see {self._place}")

    def _kill_anytime(self, number: int, steps: list[Step]) -> None:
        for index, step in enumerate(steps):
            if step.point is not Point.ANYTIME:
                continue
            self._sleep(ANYTIME_SECONDS)
            self._await(partial(self._strike, number, index, step), f"the {step.victim} is missing")

    def _strike(self, number: int, index: int, step: Step) -> bool:
        # Another step may have killed the victim.
        self._revive(number)
        return self._plot.strike(number, index, step)

    def _revive_all(self, number: int) -> None:
        """A step that was taken before `disarm` may still kill."""
        time.sleep(AFTER_SECONDS)
        self._revive(number)

    def _revive(self, number: int) -> None:
        """Start the processes again that were killed."""
        if not self._daemon.is_up:
            self._sleep(DAEMON_SECONDS)
            self._start_daemon()
        if self._cluster is not None and self._cluster.nodes.revive():
            self._plot.name(Victim.NODE, self._cluster.nodes.processes[0])
        if self._driver.is_up:
            return
        if self._driver.starts > self._plot.taken(Victim.DRIVER, Victim.JVM):
            self._fail("the driver has ended by itself", self._driver.log[-SOME_LOG:])
            return
        self._driver.kill()
        if number not in self._late and any(hit.point is Point.BETWEEN for hit in self._hits(number)):
            assert self.leg.lease_s is not None
            self._late.add(number)
            time.sleep(self.leg.lease_s + LATE_SECONDS)
        if self.leg.forgets and self._dice.random() < FORGETS and self._driver.forget_last_commit():
            self.report.counts["forgotten"] += 1
        self._driver.start()

    def _start_daemon(self) -> None:
        if self.report.counts["daemons"]:
            self._daemon.await_end()
        self._daemon.start()
        self.report.counts["daemons"] += 1
        self._plot.name(Victim.DAEMON, self._daemon.process)

    def _send(self) -> None:
        bodies = self._ledger.bodies(MESSAGES)
        with connect(self._daemon.url) as manager, manager.transaction() as transaction:
            for label, some in ((EVEN, bodies[::2]), (ODD, bodies[1::2])):
                manager.queue(SOURCE).send_many(some, transaction=transaction, label=label)
        self._ledger.sent += bodies

    def _is_empty(self) -> bool:
        try:
            with connect(self._daemon.url) as manager:
                return manager.queue(SOURCE).info().message_count == 0
        except WaypostError:
            # The daemon was killed.
            return False

    def _await(self, is_over: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + ROUND_SECONDS
        while not self.report.problems and not is_over():
            if time.monotonic() > deadline:
                self._fail(f"{problem} within {ROUND_SECONDS:g} s", self._driver.log[-SOME_LOG:])
            time.sleep(0.2)

    def _sleep(self, between: tuple[float, float]) -> None:
        time.sleep(self._dice.uniform(*between))

    # --- Checks

    def _compare(self) -> None:
        with connect(self._daemon.url) as manager:
            arrived = {
                name: [message.body for message in manager.queue(name).browse()] for name in self.leg.destinations
            }
        counts = self.report.counts
        counts["sent"] = len(self._ledger.sent) * len(arrived)
        counts["arrived"] = sum(map(len, arrived.values()))
        for kind in ("lost", "doubled", "foreign"):
            counts[kind] = 0
        for name, found in self._ledger.compare(arrived).items():
            for kind in ("lost", "doubled", "foreign"):
                counts[kind] += getattr(found, kind).total()
            self._fail(*found.sentences(name))

    def _check_rest(self) -> None:
        """Nothing is staged or claimed. Stages of killed tasks may wait for their lease."""
        deadline = time.monotonic() + STAGE_LEASE_S + REST_SECONDS
        while rest := self._rest():
            if time.monotonic() > deadline:
                self._fail(*rest)
                return
            time.sleep(1)

    def _rest(self) -> list[str]:
        with BulkClient(self._daemon.url) as client:
            found = [f"a part is still claimed: {claim}" for claim in client.claims(SOURCE)]
            for name in (SOURCE, *self.leg.destinations):
                queue = client.queue(name)
                counts = {"held": queue.held, "staged": queue.staged, "arriving": queue.arriving}
                found += [f"{name}: {count} messages are {kind}" for kind, count in counts.items() if count]
        return found

    def _fail(self, *problems: str) -> None:
        self.report.problems += problems

    def _hits(self, number: int) -> list[Hit]:
        return [hit for hit in self._plot.hits() if hit.round == number]

    def _count(self) -> None:
        for hit in self._plot.hits():
            self.report.points[hit.point] += 1
            self.report.victims[hit.victim] += 1
        self.report.counts["late"] = len(self._late)
        self.report.counts["starts"] = self._driver.starts
        self.report.counts["again"] = self._driver.log.count("again: ")


# --- Set-ups ----------------------------------------------------------------------------------------------------------


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that stays only if the block fails or adds a file `keep`."""
    place = Path(tempfile.mkdtemp(prefix="waypost-chaos-"))
    yield place
    if not (place / "keep").exists():
        shutil.rmtree(place, ignore_errors=True)


def run_setup(name: str, rounds: int, seed: int, progress: Progress) -> Report:
    report = Report()
    legs = SETUPS[name]
    for index, leg in enumerate(legs):
        share = rounds * (index + 1) // len(legs) - rounds * index // len(legs)
        if not share:
            continue
        with folder() as place:
            with Course(place, leg, seed) as course:
                report.add(course.run(share, progress))
            if report.problems:
                (place / "keep").touch()
                break
    return report


def run_long(down_s: float, progress: Progress) -> Report:
    """Drivers with default options die at once in three programs, and start again after `down_s`."""
    report = Report()
    points = {"claim": Point.PREPARE, "drain": Point.COMMIT_ANSWER, "foreachbatch": Point.BETWEEN}
    with folder() as place, ExitStack() as stack:
        courses = []
        for name, point in points.items():
            leg = Leg(name, LEGS[name].destinations, lease_s=None)
            course = stack.enter_context(Course(place / name, leg, 0))
            course.die_at(point)
            progress(f"{name}: the driver has died {point}")
            courses.append(course)
        progress(f"the drivers are down for {down_s:g} s")
        time.sleep(down_s)
        for course in courses:
            report.add(course.go_on())
            progress(f"{course.leg.name}: {'failed' if course.report.problems else 'went on'}")
        if report.problems:
            (place / "keep").touch()
    return report


def table(reports: Mapping[str, Report]) -> str:
    """The figures of all set-ups, and their sums."""
    total = Report()
    for each in reports.values():
        total.add(each)
    columns = {**reports, "all": total}
    rows: list[tuple[str, list[str]]] = [("", list(columns))]

    def add(title: str, value: Callable[[Report], float]) -> None:
        rows.append((title, [f"{value(each):,.0f}" for each in columns.values()]))

    add("rounds", lambda each: each.counts["rounds"])
    add("seconds", lambda each: each.seconds)
    for victim in Victim:
        add(f"killed: {victim}", lambda each, victim=victim: each.victims[victim])  # type: ignore[misc]
    for point in Point:
        add(f"hit: {point}", lambda each, point=point: each.points[point])  # type: ignore[misc]
    for title, key in (
        ("down longer than the lease", "late"),
        ("commit entries deleted", "forgotten"),
        ("starts of drivers", "starts"),
        ("queries started again", "again"),
        ("messages due", "sent"),
        ("messages arrived", "arrived"),
        ("messages lost", "lost"),
        ("messages doubled", "doubled"),
        ("messages nobody sent", "foreign"),
    ):
        add(title, lambda each, key=key: each.counts[key])  # type: ignore[misc]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title:{width}}" + "".join(f"{cell:>14}" for cell in cells) for title, cells in rows)


def shortfalls(reports: Mapping[str, Report]) -> Iterator[str]:
    """The reasons why a campaign has shown less than it should."""
    for victim in Victim:
        if not any(report.victims[victim] for report in reports.values()):
            yield f"no {victim} was killed"
    for name, report in reports.items():
        if report.counts["rounds"] < LEAST_ROUNDS:
            yield f"{name} had {report.counts['rounds']} rounds, not {LEAST_ROUNDS}"
    for point in Point:
        hits = sum(report.points[point] for report in reports.values())
        if hits < LEAST_HITS:
            yield f"{hits} processes died {point}, not {LEAST_HITS}"


def shares(names: Sequence[str], rounds: int) -> dict[str, int]:
    return {name: rounds * (index + 1) // len(names) - rounds * index // len(names) for index, name in enumerate(names)}


def _setups(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names) - SETUPS.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown set-up {min(unknown)}; the set-ups are {', '.join(SETUPS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of all set-ups together (default: 100)")
    parser.add_argument("--setups", type=_setups, default=list(SETUPS), help=f"default: {','.join(SETUPS)}")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--long", action="store_true", help="drivers that are down for --down seconds")
    parser.add_argument("--down", type=float, default=300.0, help="seconds (default: 300)")
    arguments = parser.parse_args()

    def progress(line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    # Leave no processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reports: dict[str, Report] = {}
    if arguments.long:
        reports["long"] = run_long(arguments.down, progress)
    else:
        print(f"seed {arguments.seed}", flush=True)
        # Every Java of the campaign starts sooner with it.
        make_archive()
        for name, rounds in shares(arguments.setups, arguments.rounds).items():
            reports[name] = run_setup(name, rounds, arguments.seed, progress)
    print(table(reports), flush=True)
    problems = [problem for report in reports.values() for problem in report.problems]
    if not arguments.long and arguments.rounds >= FULL_ROUNDS and arguments.setups == list(SETUPS):
        problems += shortfalls(reports)
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
