"""Commands and questions for a daemon in a separate process."""

import json
import os
import subprocess
from typing import Any

from tests.crash.daemons import Daemon
from tests.forks import run

SECONDS = 60


def waypost_of(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that talks to the daemon."""
    return run("waypost.cli", *arguments, env=os.environ | {"WAYPOST_URL": daemon.url}, timeout=SECONDS)


def check_of(daemon: Daemon, name: str) -> dict[str, Any]:
    """One check of `waypost doctor`."""
    found = json.loads(waypost_of(daemon, "doctor", "--json").stdout)
    (check,) = [each for each in found["checks"] if each["check"] == name]
    return dict(check)


def metric(daemon: Daemon, name: str) -> float:
    lines = daemon.get("/metrics").splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])
