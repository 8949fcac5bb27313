"""The simulator finds what was planted, and nothing of it stays in the engine."""

import pytest

from tests.sim.mutants import FOUND_BY, MUTANTS, hunting
from tests.sim.mutants.__main__ import main
from tests.sim.mutants.hunting import hunt
from tests.sim.mutants.planting import Mutant, instead
from waypost.node.stored_messages import StoredMessages
from waypost.sim.marks import Marks
from waypost.sim.patches import Patch, patched
from waypost.sim.run import Outcome, run_seed
from waypost.sim.trace import Trace

BUDGET = range(100)

# Those that a wrong state shows soon, not a healing that takes too long: `make mutants` finds the others too.
QUICK = [mutant for mutant in MUTANTS if not mutant.is_slow]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_planted_mistake_is_found(mutant: Mutant) -> None:
    found = hunt(mutant, [FOUND_BY.get(mutant.name, 0), *BUDGET])
    assert found is not None
    assert found.violation


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 80


def test_the_seeds_are_those_of_mutants() -> None:
    assert FOUND_BY.keys() <= {mutant.name for mutant in MUTANTS}


def test_the_engine_is_whole_again_behind_a_mutant() -> None:
    originals = [
        (patch.owner, patch.name, getattr(patch.owner, patch.name)) for each in MUTANTS for patch in each.patches
    ]
    for mutant in MUTANTS[:3]:
        run_seed(0, Marks(), patches=mutant.patches)
    assert all(getattr(owner, name) is original for owner, name, original in originals)


def test_a_patch_ends_with_an_error_too() -> None:
    original = StoredMessages.seal
    with pytest.raises(TypeError), patched(Patch(StoredMessages, "seal", None)):
        StoredMessages.seal(None)  # type: ignore[arg-type]
    assert StoredMessages.seal is original


def test_what_is_found_without_the_mutant_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    culprit, other = MUTANTS[0], MUTANTS[1]
    for patch in culprit.patches:
        monkeypatch.setattr(patch.owner, patch.name, patch.value)
    assert hunt(other, range(2)) is None


def test_mutants_that_are_found_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "20", "acknowledge-before-commit", "show-before-commit"]) == 0
    printed = capsys.readouterr().out
    assert "acknowledge-before-commit" in printed
    assert "seed 0: " in printed


def test_a_mutant_that_is_not_found_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hunting, "run_seed", lambda seed, marks, **_: Outcome(seed, 0, 0, None, Trace()))
    assert main(["--seeds", "1", "acknowledge-before-commit"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


def test_a_mutant_that_does_not_fit_the_engine_is_not_taken_for_found() -> None:
    misfit = Mutant("misfit", "does not exist", instead(StoredMessages, "seal", lambda _original: lambda: None))
    with pytest.raises(AssertionError, match="does not fit the engine any more"):
        hunt(misfit, range(1))
