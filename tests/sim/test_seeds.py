"""Fixed seeds: they hold what must hold, reach what is rare, and are the same everywhere."""

import os
import subprocess
import sys

import pytest

from waypost.sim.marks import SOMETIMES, Marks
from waypost.sim.run import run_seed

SEEDS = range(150)

DIGESTS = """
from waypost.sim.marks import Marks
from waypost.sim.run import run_seed
print([run_seed(seed, Marks()).digest for seed in range(8)])
"""


@pytest.fixture(scope="module")
def marks() -> Marks:
    """What the fixed seeds reached, after each of them held its promises."""
    marks = Marks()
    for seed in SEEDS:
        assert run_seed(seed, marks).violation is None, f"waypost sim --replay {seed}"
    return marks


@pytest.mark.parametrize("name", SOMETIMES)
def test_the_seeds_reach(marks: Marks, name: str) -> None:
    assert marks.counts[name] > 0


def test_the_same_seed_gives_the_same_events_whatever_the_hashes() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(set(printed[0].split())) == 8


def test_a_run_leaves_nothing_behind_for_the_next() -> None:
    assert run_seed(5, Marks()).digest == run_seed(5, Marks()).digest


def test_a_seed_tells_what_happened() -> None:
    outcome = run_seed(0, Marks())
    lines = outcome.trace.lines()
    assert outcome.operations > 200
    assert any("host starts for the 1. time" in line for line in lines)
    assert any("healing begins" in line for line in lines)
    assert outcome.trace.lines(3) == lines[-3:]
