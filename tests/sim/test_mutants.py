"""The simulator finds what was planted, and nothing of it stays in the engine."""

import pytest

from waypost.node.stored_messages import StoredMessages
from waypost.sim.marks import Marks
from waypost.sim.mutants import MUTANTS
from waypost.sim.net.mutants import NET_MUTANTS
from waypost.sim.patches import Patch, patched
from waypost.sim.planting import Mutant
from waypost.sim.run import hunt, run_seed

BUDGET = range(100)

# Those that a wrong state shows soon, not a healing that takes too long: `waypost sim --mutants` finds the others too.
QUICK = [mutant for mutant in (*MUTANTS, *NET_MUTANTS) if not mutant.is_slow]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_planted_mistake_is_found(mutant: Mutant) -> None:
    found = hunt(mutant, BUDGET)
    assert found is not None
    assert found.violation


def test_every_mutant_has_a_name_of_its_own() -> None:
    every = [*MUTANTS, *NET_MUTANTS]
    assert len({mutant.name for mutant in every}) == len(every) >= 80


def test_the_engine_is_whole_again_behind_a_mutant() -> None:
    originals = [
        (patch.owner, patch.name, getattr(patch.owner, patch.name)) for each in MUTANTS for patch in each.patches
    ]
    for mutant in MUTANTS[:3]:
        run_seed(0, Marks(), mutant)
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
