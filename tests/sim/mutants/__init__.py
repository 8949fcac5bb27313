"""Mistakes that the simulator must find. `python -m tests.sim.mutants` shows which seed finds each."""

from typing import Final

from tests.sim.mutants.bulk import BULK_MUTANTS
from tests.sim.mutants.local import LOCAL_MUTANTS
from tests.sim.mutants.network import NETWORK_MUTANTS
from tests.sim.mutants.remote import REMOTE_MUTANTS

MUTANTS: Final = (*LOCAL_MUTANTS, *REMOTE_MUTANTS, *BULK_MUTANTS, *NETWORK_MUTANTS)
