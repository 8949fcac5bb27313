"""Kill daemons that send to each other, and check what arrives: `python -m tests.crash.transfer_campaign [--rounds N]`.

Three daemons run, with applications in separate processes (tests/crash/application.py). Alpha and beta send to each
other directly, and alpha and gamma send to each other by way of beta. A round lets them work for a moment, kills one of
them or two with SIGKILL, and starts them again; now and then one is killed again while it starts, or is asked to stop.
In the end all of them run until nothing is left in any queue, and tests/crash/transfer_history.py checks what was told.
The seed decides who is killed when, but not how the processes interleave: the same seed need not fail twice.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.crash.daemons import ROOT, SECONDS, SHORT_TIMERS, Daemon, loopback, patience, start_all
from tests.crash.transfer_history import EXPRESS, RECOVERABLE, TRANSACTIONAL, TransferHistory

WORK_SECONDS: Final = (0.02, 0.6)
DOWN_SECONDS: Final = (0.0, 0.4)
STARTING_SECONDS: Final = (0.1, 1.0)
# One round in so many kills two of them, kills one again while it starts, or asks it to stop instead.
TWO_AT_ONCE: Final = 5
WHILE_STARTING: Final = 8
STOPS: Final = 12
DELIVERY_SECONDS: Final = 90

# Queues, and how messages are sent to them.
DIRECT: Final = {"orders": TRANSACTIONAL, "more": TRANSACTIONAL, "plain": RECOVERABLE, "quick": EXPRESS}
ROUTED: Final = {"far": TRANSACTIONAL, "farplain": RECOVERABLE}


# By its short name, what a queue is called in the history and by its senders.
Queues: TypeAlias = dict[str, list[str]]
Duties: TypeAlias = list[list[object]]


class Application:
    """tests/crash/application.py in a separate process, which ends with its standard input."""

    def __init__(self, place: Path, name: str, url: str, seed: int, duties: Duties) -> None:
        self._told = place / f"{name}.jsonl"
        command = [sys.executable, "-m", "tests.crash.application", url, str(seed), *map(json.dumps, duties)]
        with self._told.open("wb") as told, (place / f"{name}.err").open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=told, stderr=errors)

    def await_ready(self) -> None:
        with patience(SECONDS, "an application is not ready") as turns:
            for _ in turns:
                assert self._process.poll() is None, "an application cannot start"
                if b"ready" in self._told.read_bytes():
                    break

    def stop(self) -> int:
        self._process.communicate(timeout=SECONDS)
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def told(self) -> list[str]:
        return self._told.read_text(encoding="utf-8").splitlines()


@dataclass(slots=True)
class Report:
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        counts = self.counts
        lines = [
            f"{counts['rounds']} rounds, {counts['kills']} kills, {counts['kills while starting']} of them while it "
            f"started, and {counts['stops']} stops; {counts['reads in doubt']} receives in doubt at a kill"
        ]
        lines += [
            f"{kind}: {counts[f'{kind} done']:,} accepted, {counts[f'{kind} undone']:,} aborted, "
            f"{counts[f'{kind} open']:,} in doubt; {counts[f'{kind} arrived']:,} arrived, "
            f"{counts[f'{kind} lost']:,} lost, {counts[f'{kind} again']:,} came again, "
            f"{counts[f'{kind} late']:,} came late"
            for kind in (TRANSACTIONAL, RECOVERABLE, EXPRESS)
        ]
        return "\n".join(lines)


class TransferCampaign:
    """Rounds with the daemons whose folders are in `place`."""

    def __init__(self, place: Path, seed: int) -> None:
        self.report = Report(seed)
        self._place = place
        self._dice = random.Random(seed)
        self._alpha, self._beta, self._gamma = (
            Daemon(place, name, loopback(number), *SHORT_TIMERS)
            for number, name in enumerate(("alpha", "beta", "gamma"), 21)
        )
        self._daemons = [self._alpha, self._beta, self._gamma]

    def run(self, rounds: int, progress: Callable[[str], None]) -> Report:
        with ExitStack() as stack:
            for daemon in self._daemons:
                stack.enter_context(daemon)
            self._prepare()
            senders, readers = self._applications()
            for application in (*senders, *readers):
                stack.callback(application.kill)
                application.await_ready()
            for number in range(1, rounds + 1):
                self._round()
                self.report.counts["rounds"] = number
                if number % 5 == 0:
                    progress(f"round {number} of {rounds}: {self.report.counts['kills']} kills")
                if self.report.problems:
                    return self.report
            time.sleep(self._dice.uniform(*WORK_SECONDS))
            codes = [application.stop() for application in senders]
            self._await_delivery()
            codes += [application.stop() for application in readers]
            self.report.problems += ["an application failed" for code in codes if code]
            self._check([*senders, *readers])
            self.report.problems += [f"{daemon.name} did not stop" for daemon in self._daemons if daemon.stop()]
        return self.report

    def _prepare(self) -> None:
        """The daemons learn the ways to each other, and get their queues."""
        alpha, beta, gamma = self._daemons
        for daemon in self._daemons:
            daemon.prepare()
        alpha.settings.append(f"routing.routes={gamma.guid}=via {beta.guid},{beta.guid}={beta.address}")
        beta.settings.append(f"routing.routes={alpha.guid}={alpha.address},{gamma.guid}={gamma.address}")
        gamma.settings.append(f"routing.routes={alpha.guid}=via {beta.guid},{beta.guid}={beta.address}")
        start_all(self._daemons)
        for daemon in self._daemons:
            with daemon.connect() as manager:
                for name, kind in (DIRECT | ROUTED).items():
                    manager.create_queue(name, transactional=kind == TRANSACTIONAL)

    def _applications(self) -> tuple[list[Application], list[Application]]:
        """Those that send and those that read."""
        alpha, beta, gamma = self._daemons
        to_alpha, to_beta = self._near(alpha), self._near(beta)
        far_alpha, far_gamma = self._far(alpha), self._far(gamma)
        sending: dict[Daemon, Duties] = {
            alpha: [
                *_senders("alpha", to_beta),
                [TRANSACTIONAL, "alpha-both", to_beta["orders"], far_gamma["far"]],
                *_senders("alpha-far", far_gamma),
            ],
            beta: _senders("beta", to_alpha),
            gamma: _senders("gamma-far", far_alpha),
        }
        reading = {alpha: DIRECT | ROUTED, beta: DIRECT, gamma: ROUTED}
        senders = [
            Application(self._place, f"{daemon.name}-sends", daemon.url, self.report.seed, duties)
            for daemon, duties in sending.items()
        ]
        readers = [
            Application(self._place, f"{daemon.name}-reads", daemon.url, self.report.seed, _readers(daemon.name, kinds))
            for daemon, kinds in reading.items()
        ]
        return senders, readers

    def _near(self, daemon: Daemon) -> Queues:
        return {name: [f"{kind} {daemon.name} {name}", daemon.direct(name)] for name, kind in DIRECT.items()}

    def _far(self, daemon: Daemon) -> Queues:
        with daemon.connect() as manager:
            return {
                name: [f"{kind} {daemon.name} {name}", manager.queue(name).info().private_format_name or ""]
                for name, kind in ROUTED.items()
            }

    def _round(self) -> None:
        dice, counts = self._dice, self.report.counts
        time.sleep(dice.uniform(*WORK_SECONDS))
        victims = dice.sample(self._daemons, 2 if dice.randrange(TWO_AT_ONCE) == 0 else 1)
        for daemon in self._daemons:
            if not daemon.is_up:
                self.report.problems.append(f"{daemon.name} ended by itself:\n{daemon.log[-3000:]}")
                return
        if dice.randrange(STOPS) == 0:
            counts["stops"] += 1
            self.report.problems += [f"{daemon.name} did not stop well" for daemon in victims if daemon.stop()]
        else:
            self._kill(victims)
        time.sleep(dice.uniform(*DOWN_SECONDS))
        for daemon in victims:
            daemon.launch()
        if dice.randrange(WHILE_STARTING) == 0:
            time.sleep(dice.uniform(*STARTING_SECONDS))
            counts["kills while starting"] += len(victims)
            self._kill(victims)
            for daemon in victims:
                daemon.launch()
        for daemon in victims:
            daemon.await_ready()

    def _kill(self, victims: list[Daemon]) -> None:
        self.report.counts["kills"] += len(victims)
        for daemon in victims:
            daemon.kill()

    def _await_delivery(self) -> None:
        """Until nothing waits anywhere."""
        try:
            for daemon in self._daemons:
                with daemon.connect() as manager, patience(DELIVERY_SECONDS, f"{daemon.name} has messages") as turns:
                    for _ in turns:
                        waiting = [queue.info() for queue in (*manager.outgoing_queues(), *manager.queues())]
                        if not any(info.message_count for info in waiting):
                            break
        except AssertionError as error:
            left = [
                f"{info.format_name}: {info.message_count} {info.state or ''}" for info in waiting if info.message_count
            ]
            self.report.problems.append(f"{error}: {left}")

    def _check(self, applications: list[Application]) -> None:
        history = TransferHistory()
        for application in applications:
            history.read(application.told())
        self.report.problems += history.problems()
        self.report.counts += history.counts
        for daemon in self._daemons:
            if "unexpected error" in daemon.log:
                self.report.problems.append(f"{daemon.name} met an unexpected error: see its log")
            with daemon.connect() as manager:
                for name in ("system$;deadletter", "system$;deadxact"):
                    if manager.queue(name).info().message_count:
                        self.report.problems.append(f"{daemon.name}: {name} has messages, but nothing has expired")


def _senders(name: str, queues: Queues) -> Duties:
    """One for every kind, and one whose transactions go to all queues that take them."""
    kinds = {queue: label[0].partition(" ")[0] for queue, label in queues.items()}
    transactional = [queues[queue] for queue, kind in kinds.items() if kind == TRANSACTIONAL]
    plain: Duties = [
        [kind, f"{name}-{queue}", queues[queue]] for queue, kind in kinds.items() if kind != TRANSACTIONAL
    ]  # fmt: skip
    return [[TRANSACTIONAL, f"{name}-1", *transactional], [TRANSACTIONAL, f"{name}-2", transactional[0]], *plain]


def _readers(name: str, kinds: dict[str, str]) -> Duties:
    return [["reader", f"{name}-reads-{queue}", [f"{kind} {name} {queue}", queue]] for queue, kind in kinds.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill daemons that send to each other, and check what arrives.")
    parser.add_argument("--rounds", type=int, default=100, help="number of kills (100)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the choice and times of kills")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    (ROOT / "build").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="transfer-", dir=ROOT / "build"))
    print(f"seed {seed}, on {place}")
    started = time.monotonic()
    report = TransferCampaign(place, seed).run(arguments.rounds, lambda line: print(line, flush=True))
    print(report.summary())
    if report.problems:
        print(f"BROKEN; seed {seed}; see {place}", *report.problems[:50], sep="\n")
        return 1
    shutil.rmtree(place)
    seconds = time.monotonic() - started
    print(f"every transaction came whole, once and in order, and nothing recoverable was lost ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
