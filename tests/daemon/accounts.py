"""Programs of another account of this computer. Only root can start them."""

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Final

import pytest

from tests.forks import ROOT

NOBODY: Final = 65534

as_root: Final = pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can start programs of another account"
)

# Everything is loaded while root can read it. A connection that fails loads the rest of the client.
_BEGIN: Final = f"""
import http.client, json, os, socket, sys
from contextlib import suppress
import encodings.idna
import waypost
from waypost.errors import WaypostError
with suppress(WaypostError):
    waypost.connect("http://127.0.0.1:9")
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
arguments = json.loads(sys.argv[1])
def tell(value):
    print(json.dumps(value), flush=True)
"""


class Started(subprocess.Popen[str]):
    """A process that does not outlive a test that fails: its end would be waited for."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, trace)


def start_as_nobody(program: str, *arguments: object) -> Started:
    """A program of another account, which has `arguments` and `tell`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
    environment |= {"HOME": "/nonexistent", "PYTHONPATH": f"{ROOT / 'src'}"}
    command = [sys.executable, "-c", _BEGIN + program, json.dumps(arguments)]
    return Started(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/", text=True
    )  # fmt: skip


def as_nobody(program: str, *arguments: object) -> Any:
    """The value that a program of another account reports."""
    with start_as_nobody(program, *arguments) as process:
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    return json.loads(told)
