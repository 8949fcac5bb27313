"""A verification in a separate process (waypost.client.storage.child), and the wait for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import waypost
from waypost import errors
from waypost.api.records import record_of
from waypost.api.status import StoreReport
from waypost.errors import StoreError
from waypost.store.progress import Progress, unheard


class Verification:
    """A running verification. One thread may call `wait`, and another `stop`."""

    __slots__ = ("_process",)

    def __init__(self, folder: Path) -> None:
        """Raises StoreError if the process does not start."""
        home = str(Path(waypost.__file__).parents[1])
        others = os.environ.get("PYTHONPATH")
        try:
            # -P keeps the working folder out of the module search path.
            self._process: Final = subprocess.Popen(
                [sys.executable, "-P", "-m", "waypost.client.storage.child", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([home, *([others] if others else [])])},
            )
        except OSError as error:
            raise StoreError(f"cannot start the process that verifies the store: {error.strerror or error}") from None

    def wait(self, progress: Progress) -> StoreReport:
        """The report. Raises the error of the other process, and StoreError if it ended without a report."""
        process = self._process
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                found: dict[str, Any] = json.loads(line)
                if "report" in found:
                    return record_of(found["report"], StoreReport)
                if "error" in found:
                    kind = getattr(errors, found["error"], StoreError)
                    raise kind(found["message"])
                progress(found["done"], found["total"])
            told = process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise StoreError("the process that verifies the store has ended" + (f": {told}" if told else ""))

    def stop(self) -> None:
        """Stop the process. A `wait` in another thread then raises StoreError."""
        self._process.kill()


def verify_beside(folder: Path, progress: Progress | None = None) -> StoreReport:
    """Verify the store in a folder that this process uses."""
    return Verification(folder).wait(progress or unheard)
