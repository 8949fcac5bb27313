"""Fixtures of every test: the ledger, and a Hypothesis that gives the same answer every time on any machine."""

import gc
import os
import signal
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# scapy keeps caches, in the home of whoever runs the tests unless told otherwise.
for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
    os.environ[variable] = os.path.join(tempfile.gettempdir(), "waypost-tests")

# Without bytecode, every worker rewrites the assertions of all tests, and every process of a test compiles all of
# Waypost: minutes in a run. `make clean` removes what is written.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell lets what it runs in the background ignore Ctrl-C, and so would every process of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A search for cycles finds nothing while ten thousand tests are collected, and takes a quarter of that time.
gc.disable()

pytest_plugins = ["pytester", "tools.ledger", "tools.needs", "tools.sharing"]

# New inputs are the work of `make fuzz`; a slow machine is not a failure.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep everything that all tests share out of later searches for cycles: ten thousand tests are there."""
    gc.freeze()
    gc.enable()
