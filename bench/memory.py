"""The largest memory of processes while something runs: measured several times a second, on Linux.

Counted is Pss, in which a page that several processes share counts once: workers of Spark are forked from one.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SECONDS: Final = 0.5
_PROCESSES: Final = Path("/proc")


class Peaks:
    """The most megabytes that each kind of process had, all of a kind together."""

    def __init__(self, kind_of: Callable[[int, str], str | None]) -> None:
        """`kind_of` gives the kind of a process from its number and its command line, None if it does not count."""
        self._kind_of: Final = kind_of
        self._ended: Final = threading.Event()
        self.megabytes: dict[str, float] = defaultdict(float)

    @contextmanager
    def watching(self) -> Iterator["Peaks"]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS):
            now: dict[str, float] = defaultdict(float)
            for process in descendants(os.getpid()):
                kind = self._kind_of(process, command_of(process))
                if kind is not None:
                    now[kind] += megabytes_of(process)
            for kind, megabytes in now.items():
                self.megabytes[kind] = max(self.megabytes[kind], megabytes)


def descendants(process: int) -> list[int]:
    """The process itself and all that it, or one of them, has started."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in _PROCESSES.iterdir():
        if path.name.isdigit():
            try:
                # The name of the program stands in brackets, and may hold anything.
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children[parent].append(int(path.name))
    found = [process]
    for each in found:
        found += children[each]
    return found


def command_of(process: int) -> str:
    try:
        return (_PROCESSES / str(process) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def megabytes_of(process: int) -> float:
    try:
        text = (_PROCESSES / str(process) / "smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(text.partition("Pss:")[2].split()[0]) / 1024 if "Pss:" in text else 0.0
