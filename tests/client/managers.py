"""Shared by the tests of the client: a manager on a fresh folder, and how to run something beside it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import waypost


def opened(path: Path, **options: Any) -> waypost.Manager:
    """A manager with a name that does not depend on the host."""
    return waypost.open(path, name="HOST", **options)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may be interrupted, fork or end without closing, in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class Beside:
    """Calls a function in another thread; the end of the `with` block waits for it and raises what it raised."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.result: Any = None
        self.error: BaseException | None = None

        def call() -> None:
            try:
                self.result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001, it is raised in the thread of the test
                self.error = error

        self._thread = Thread(target=call, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the other thread does not end"
        if kind is None and self.error is not None:
            raise self.error

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()
