"""`waypost sim` as a developer runs it."""

import json

import pytest
from typer.testing import CliRunner, Result

from tests.sim.mutants import MUTANTS
from waypost.cli import app
from waypost.sim.patches import patched

SABOTAGE = next(mutant for mutant in MUTANTS if mutant.name == "acknowledge-before-commit").patches


def sim(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", *arguments])


def test_seeds_without_a_violation_end_with_0() -> None:
    result = sim("--seeds", "2", "--from", "7")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "seeds 7 to 8: no violation"
    assert "digest" in lines[1]
    assert "seeds/s" in result.stderr


def test_what_was_never_reached_is_told() -> None:
    result = sim("--seeds", "1")
    assert "never reached: " in result.stdout


def test_a_violation_shows_the_events_before_it_and_how_to_see_all() -> None:
    with patched(*SABOTAGE):
        result = sim("--seeds", "5", "--from", "3")
    assert result.exit_code == 1
    *events, verdict, replay = result.stdout.splitlines()
    assert events
    assert verdict.startswith("seed 3: ")
    assert "was answered too early: expected" in verdict
    assert replay == "replay: waypost sim --replay 3"


def test_a_replay_shows_every_event() -> None:
    first, again = sim("--replay", "3"), sim("--replay", "3")
    assert first.exit_code == 0
    assert first.stdout == again.stdout
    assert len(first.stdout.splitlines()) > 150
    assert "seed 3: no violation" in first.stdout


def test_a_replay_of_a_violation_ends_with_1() -> None:
    with patched(*SABOTAGE):
        result = sim("--replay", "3")
    assert result.exit_code == 1
    assert "seed 3: CreateQueue(" in result.stdout


def test_the_result_as_json() -> None:
    summary = json.loads(sim("--seeds", "2", "--json").stdout)
    assert (summary["from"], summary["seeds"], summary["violation"]) == (0, 2, None)
    assert summary["operations"] > 150
    assert isinstance(summary["never_reached"], list)


def test_a_violation_as_json() -> None:
    with patched(*SABOTAGE):
        result = sim("--seeds", "2", "--json")
    violation = json.loads(result.stdout)["violation"]
    assert result.exit_code == 1
    assert violation["seed"] == 0
    assert violation["replay"] == "waypost sim --replay 0"
    assert violation["last_events"]


def test_a_replay_as_json() -> None:
    trace = json.loads(sim("--replay", "3", "--json").stdout)
    assert trace["violation"] is None
    assert len(trace["events"]) > 150


@pytest.mark.parametrize("arguments", [["--replay", "1", "--seeds", "2"], ["--seeds", "0"], ["--from", "-1"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    result = sim(*arguments)
    assert result.exit_code == 2
    assert "hint: waypost sim --help shows the usage." in result.stderr
