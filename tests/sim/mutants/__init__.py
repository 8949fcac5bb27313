"""Mistakes that the simulator must find. `python -m tests.sim.mutants` shows which seed finds each."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.sim.mutants.bulk import BULK_MUTANTS
from tests.sim.mutants.keys import KEY_MUTANTS
from tests.sim.mutants.local import LOCAL_MUTANTS
from tests.sim.mutants.network import NETWORK_MUTANTS
from tests.sim.mutants.remote import REMOTE_MUTANTS

MUTANTS: Final = (*LOCAL_MUTANTS, *REMOTE_MUTANTS, *BULK_MUTANTS, *NETWORK_MUTANTS, *KEY_MUTANTS)

# The seed that found each of them last, where to begin. It is a shortcut and no promise: another engine, other seeds.
SEEDS: Final = Path(__file__).with_name("seeds.toml")
FOUND_BY: Final[Mapping[str, int]] = tomllib.loads(SEEDS.read_text(encoding="utf-8"))
