"""A sample of `make damage`: nothing is silent, nothing is a loop of crashes, and what is whole comes back."""

import random
from pathlib import Path

import pytest

from tests.damage.campaign import special
from tests.damage.cases import Pristine, examine

SPECIAL = 6


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return Pristine.make(tmp_path_factory.mktemp("pristine"), 120)


@pytest.mark.parametrize("number", range(SPECIAL))
def test_what_leads_to_everything_else_may_be_destroyed(number: int, pristine: Pristine, tmp_path: Path) -> None:
    cases = list(special(pristine))
    assert len(cases) == SPECIAL
    outcome = examine(pristine, cases[number], tmp_path)
    assert outcome.problems == []
    assert outcome.is_seen_by_verify
    assert outcome.brought_back


@pytest.mark.parametrize("seed", range(8))
def test_a_bit_that_flips_is_not_silent(seed: int, pristine: Pristine, tmp_path: Path) -> None:
    for damage in pristine.flips(random.Random(seed), 1):
        assert examine(pristine, damage, tmp_path).problems == []


@pytest.mark.parametrize("seed", range(8))
def test_a_page_of_zeros_or_garbage_is_not_silent(seed: int, pristine: Pristine, tmp_path: Path) -> None:
    *_, damage = pristine.pages(random.Random(seed), 1 + seed % 2)
    outcome = examine(pristine, damage, tmp_path)
    assert outcome.problems == []
    assert outcome.is_seen_by_verify
