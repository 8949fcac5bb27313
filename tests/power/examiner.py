"""Look at folders one after the other, in a process that a damaged file can kill.

    python -m tests.power.examiner SUBJECT

A line of standard input is the path of a folder; the line that answers is JSON: what the subject found in it, or the
traceback of what went wrong.
"""

import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.power.embedded import Daemon, Embedded
from tests.power.recorder import PROJECT
from tests.power.restore import Restore
from tests.power.subject import Subject
from tests.power.transfer import Transfer
from tests.power.upgrade import Upgrade

SUBJECTS: Final[dict[str, type[Subject]]] = {each.name: each for each in (Embedded, Daemon, Transfer, Upgrade, Restore)}


class Examiner:
    """That process, started again whenever it dies."""

    def __init__(self, subject: Subject) -> None:
        self._command = [sys.executable, "-m", "tests.power.examiner", subject.name]
        self._process: subprocess.Popen[str] | None = None

    def examine(self, root: Path) -> dict[str, Any]:
        """Its report on the folder; `problems` has a sentence if it does not survive it."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, cwd=PROJECT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{root}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        _, errors = process.communicate()
        self._process = None
        return {"problems": [f"to start on it ended the process with {process.returncode}: {errors[-1000:]}"]}

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


@contextmanager
def examiner(subject: Subject) -> Iterator[Examiner]:
    one = Examiner(subject)
    try:
        yield one
    finally:
        one.close()


def main() -> None:
    subject = SUBJECTS[sys.argv[1]]()
    for line in sys.stdin:
        try:
            answer = subject.examine(Path(line.rstrip("\n")))
        except Exception:  # noqa: BLE001, whatever it is, the test has to hear of it
            answer = {"problems": [traceback.format_exc()[-2000:]]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
