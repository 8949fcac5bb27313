"""What every test gets: the ledger, and a Hypothesis that gives the same answer every time on any machine."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tools.ledger"]

# New inputs are the work of `make fuzz`; a slow machine is not a failure.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
