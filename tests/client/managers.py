"""Shared by the tests of the client: a manager on a fresh folder, and how to run something beside it.

A module that uses the fixtures binds them to its own names.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn, Self

import pytest

import waypost
from waypost.core.queues import OpenQueueDescriptor
from waypost.drive.driver import Driver


def opened(path: Path, **options: Any) -> waypost.Manager:
    """A manager with a name that does not depend on the host."""
    return waypost.open(path, name="HOST", **options)


def driver_of(manager: Any) -> Any:
    """The driver of the engine of a manager inside the process, synchronous or not."""
    return manager._transport.driver


def handles_of(driver: Driver) -> list[OpenQueueDescriptor]:
    """The open handles of all queues."""
    queues = driver.node.manager.collection.by_number.values()
    return [handle for queue in queues for handle in queue.descriptors.values()]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[waypost.Manager]:
    with opened(tmp_path / "data") as manager:
        yield manager


@pytest.fixture
def orders(manager: waypost.Manager) -> waypost.Queue:
    return manager.create_queue("orders")


@pytest.fixture
def ledger(manager: waypost.Manager) -> waypost.Queue:
    """A transactional queue."""
    return manager.create_queue("ledger", transactional=True)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may be interrupted, fork or end without closing, in a separate process."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


class Beside:
    """Calls a function in another thread; the end of the `with` block waits for it."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._result: Any = None
        self._error: BaseException | None = None

        def call() -> None:
            try:
                self._result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001, it is raised in the thread of the test
                self._error = error

        self._thread = Thread(target=call, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the other thread does not end"

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        """The result of the function. Raises its error."""
        if self._error is not None:
            raise self._error
        return self._result


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def send_for_ever(queue: waypost.Queue, body: str | bytes, sent: list[str]) -> NoReturn:
    """Send until something is raised, and note the ids of what was sent."""
    while True:
        sent.append(queue.send(body).id)
