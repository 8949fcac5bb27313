"""Fixtures of every test: the ledger, and a Hypothesis that gives the same answer every time on any machine."""

import os
import tempfile

from hypothesis import HealthCheck, settings

# scapy keeps caches, in the home of whoever runs the tests unless told otherwise.
for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
    os.environ[variable] = os.path.join(tempfile.gettempdir(), "waypost-tests")

pytest_plugins = ["pytester", "tools.ledger", "tools.sharing"]

# New inputs are the work of `make fuzz`; a slow machine is not a failure.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
