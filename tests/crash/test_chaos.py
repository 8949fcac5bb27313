"""The chaos campaign sees what it is there to see, and its plans reach every fail point. `make chaos` runs it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.crash.chaos.campaign import Report, shares, shortfalls, table
from tests.crash.chaos.ledger import Ledger, difference
from tests.crash.chaos.legs import SETUPS
from tests.crash.chaos.plans import plans
from tests.crash.chaos.points import VARIABLE, Plot, Point, Step, Victim
from tests.crash.daemons import ROOT

SENT = [b"one", b"two", b"three"]
ROUNDS_OF_A_SETUP = 20
HITS = 10


def test_every_message_once_is_no_difference() -> None:
    found = difference(SENT, reversed(SENT))
    assert list(found.sentences("b")) == []


@pytest.mark.parametrize(
    ("arrived", "sentence"),
    [
        ([b"one", b"three"], "b: 1 messages are lost, such as b'two'"),
        ([*SENT, b"two"], "b: 1 messages are doubled, such as b'two'"),
        ([*SENT, b"two", b"two"], "b: 2 messages are doubled, such as b'two'"),
        ([*SENT, b"four"], "b: 1 messages are foreign, such as b'four'"),
    ],
)
def test_a_lost_a_doubled_and_a_foreign_message_are_found(arrived: list[bytes], sentence: str) -> None:
    assert list(difference(SENT, arrived).sentences("b")) == [sentence]


def test_a_lost_message_is_not_made_good_by_a_doubled_one() -> None:
    assert len(list(difference(SENT, [b"one", b"one", b"three"]).sentences("b"))) == 2


def test_each_destination_is_compared() -> None:
    ledger = Ledger(("b", "c"))
    ledger.sent += ledger.bodies(2)
    found = ledger.compare({"b": ledger.sent, "c": ledger.sent[:1]})
    assert list(found["b"].sentences("b")) == []
    assert found["c"].lost.total() == 1


def test_no_two_messages_have_one_body() -> None:
    ledger = Ledger(("b",))
    for _ in range(3):
        ledger.sent += ledger.bodies(50)
    assert len(set(ledger.sent)) == 150


@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_rounds_plan_each_fail_point_ten_times_and_each_victim_in_each_set_up(seed: int) -> None:
    points: Counter[Point] = Counter()
    for legs in SETUPS.values():
        victims: set[Victim] = set()
        for leg in legs:
            for steps in islice(plans(leg, seed), ROUNDS_OF_A_SETUP // len(legs)):
                assert len({step.point for step in steps}) == len(steps)
                points.update(step.point for step in steps)
                victims.update(step.victim for step in steps)
        assert victims >= {Victim.WORKER, Victim.DRIVER, Victim.DAEMON, Victim.JVM}
        assert (victims >= {Victim.EXECUTOR, Victim.NODE}) == any(leg.is_cluster for leg in legs)
    assert all(points[point] >= HITS for point in Point), points
    # Only one set-up has these, and the campaign needs ten hits even if a round misses its point.
    assert all(points[point] > HITS + 1 for point in (Point.BETWEEN, Point.PURGE)), points


def test_a_fail_point_that_was_hit_nine_times_is_a_shortfall() -> None:
    hits = Counter(dict.fromkeys(Point, 5))
    reports = {name: Report(Counter(rounds=20), Counter(hits), Counter(Victim)) for name in ("batch", "stream")}
    assert list(shortfalls(reports)) == []
    reports["batch"].points[Point.STAGE] = 4
    assert list(shortfalls(reports)) == ["9 processes died before a stage, not 10"]


def test_a_set_up_of_fourteen_rounds_is_a_shortfall() -> None:
    report = Report(Counter(rounds=14), Counter(dict.fromkeys(Point, 10)), Counter(Victim))
    assert list(shortfalls({"batch": report})) == ["batch had 14 rounds, not 15"]


def test_a_campaign_that_kills_no_executor_is_a_shortfall() -> None:
    killed = Counter(set(Victim) - {Victim.EXECUTOR})
    report = Report(Counter(rounds=20), Counter(dict.fromkeys(Point, 10)), killed)
    assert list(shortfalls({"cluster": report})) == ["no executor was killed"]


def test_the_executors_are_those_of_the_plot(tmp_path: Path) -> None:
    """A process that looks like one, and others with another plot or program."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    executor = "CoarseGrainedExecutorBackend"
    environments = [{VARIABLE: str(tmp_path)}, {VARIABLE: str(tmp_path / "other")}, {VARIABLE: str(tmp_path)}]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", wait, word], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for environment, word in zip(environments, (executor, executor, "another"), strict=True)
    ]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    plot = Plot(tmp_path)
    assert plot.executors() == [started[0].pid]
    assert plot.strike(1, 0, Step(Point.ANYTIME, Victim.EXECUTOR))
    for each in started[1:]:
        each.communicate()
    assert [started[0].wait(), *(each.returncode for each in started[1:])] == [-signal.SIGKILL, 0, 0]
    started[0].communicate()
    assert plot.executors() == []


def test_the_set_ups_share_all_rounds() -> None:
    assert sum(shares(list(SETUPS), 103).values()) == 103
    assert set(shares(list(SETUPS), 100).values()) == {20}


def test_the_table_adds_the_set_ups_up() -> None:
    lost = {name: Report(Counter(rounds=1, lost=number)) for number, name in enumerate(("batch", "stream"), 1)}
    assert ["messages", "lost", "1", "2", "3"] in [line.split() for line in table(lost).splitlines()]


def victim_of(plot: Plot, victim: Victim) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    plot.name(victim, process.pid)
    return process


def test_a_step_is_taken_once(tmp_path: Path) -> None:
    plot, step = Plot(tmp_path), Step(Point.READ, Victim.DAEMON)
    for number in (1, 2):
        process = victim_of(plot, Victim.DAEMON)
        assert [plot.strike(number, 0, step), plot.strike(number, 0, step)] == [True, False]
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert [(hit.round, hit.step, hit.point, hit.victim) for hit in plot.hits()] == [
        (number, 0, Point.READ, Victim.DAEMON) for number in (1, 2)
    ]


@pytest.mark.parametrize("victim", [Victim.DAEMON, Victim.DRIVER])
def test_a_victim_that_is_dead_already_is_not_a_hit_and_the_step_stays(tmp_path: Path, victim: Victim) -> None:
    plot, step = Plot(tmp_path), Step(Point.ANYTIME, victim)
    process = victim_of(plot, victim)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # Nobody has waited for it, so that a signal reaches it.
    assert not plot.strike(1, 0, step)
    process.communicate()
    assert not plot.strike(1, 0, step)
    assert plot.hits() == []
    assert plot.taken(victim) == 0
    process = victim_of(plot, victim)
    assert plot.strike(1, 0, step)
    process.communicate()
    assert [hit.victim for hit in plot.hits()] == [victim]
    assert plot.taken(victim) == 1


def test_a_point_without_a_plan_or_in_no_step_kills_nobody(tmp_path: Path) -> None:
    plot = Plot(tmp_path)
    assert plot.reach(Point.READ) is None
    plot.arm(1, [Step(Point.STAGE, Victim.WORKER)])
    assert plot.reach(Point.READ) is None
    plot.disarm()
    assert plot.reach(Point.STAGE) is None
    assert plot.hits() == []


def test_a_process_with_the_hook_dies_at_its_point_and_the_next_one_goes_on(tmp_path: Path) -> None:
    Plot(tmp_path).arm(7, [Step(Point.SINK_COMMIT, Victim.WORKER)])
    program = "from waypost.spark.sink import StreamWriter; StreamWriter.commit(None, [], 0)"
    environment = {
        VARIABLE: str(tmp_path),
        "PYTHONPATH": f"{ROOT / 'tests/crash/chaos/hook'}:{ROOT}:{ROOT / 'src'}",
    }
    codes = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False).returncode
        for _ in range(2)
    ]
    # Without a writer, the method itself fails.
    assert codes == [-signal.SIGKILL, 1]
    assert [(hit.round, hit.point) for hit in Plot(tmp_path).hits()] == [(7, Point.SINK_COMMIT)]
