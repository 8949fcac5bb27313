"""A daemon of the test's own: `waypost serve` on a fresh folder and free ports, and commands that talk to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forks import start

# Others run daemons at the same address.
ANY_PORTS = tuple(word for port in ("transfer", "ping", "rpc", "qm2qm", "http") for word in (f"--{port}-port", "0"))


@contextmanager
def daemon(folder: Path, *options: str) -> Iterator[dict[str, str]]:
    """The environment in which commands find it. It ends with SIGTERM."""
    words = ("serve", "--data", str(folder), "--bind", "127.0.0.1", *ANY_PORTS, *options)
    with start("waypost.cli", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            yield os.environ | {"WAYPOST_URL": f"http://{ready['http']}", "PATH": path}
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def shell(command: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in a folder."""
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
