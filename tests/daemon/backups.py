"""Shared parts of the tests of backups: commands, daemons with messages, and their results."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import waypost
from tests.crash.daemons import ROOT, SHORT_TIMERS, Daemon, patience
from tests.forks import run

SECONDS: Final = 60
# So that a backup of a few megabytes takes as long as a test needs to disturb it.
SLOW: Final = "store.backup_mb_per_s=0.2"
BODY: Final = "x" * 1000


def store(*arguments: str | Path, **options: Any) -> "subprocess.Popen[bytes]":
    """`waypost store ...` in a separate process."""
    words = [sys.executable, "-m", "waypost.cli", *map(str, arguments)]
    return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, **options)


def done(*arguments: str | Path, **options: Any) -> tuple[int, str]:
    """The exit code and what was said."""
    if not options:
        ended = run("waypost.cli", *map(str, arguments))
        return ended.returncode, ended.stderr
    process = store(*arguments, **options)
    _, told = process.communicate(timeout=SECONDS)
    return process.returncode, told.decode()


def back_up(daemon: Daemon, target: Path) -> None:
    code, told = done("--url", daemon.url, "store", "backup", target)
    assert code == 0, told


def fill(manager: waypost.Manager, queue: str, count: int) -> None:
    """Messages of 1000 bytes."""
    manager.queue(queue).send_many([BODY] * count)


def texts(queue: waypost.Queue) -> list[str | None]:
    """The texts in a queue, which stay there."""
    return [message.text for message in queue.browse()]


def send_all(manager: waypost.Manager, name: str, *bodies: str) -> None:
    """Send each in a separate transaction."""
    for body in bodies:
        with manager.transaction() as transaction:
            manager.send(name, body, transaction=transaction)


def settle(manager: waypost.Manager) -> None:
    """Until nothing waits in outgoing queues: all is acknowledged."""
    with patience(SECONDS, "messages are left in outgoing queues") as turns:
        for _ in turns:
            if not any(queue.info().message_count for queue in manager.outgoing_queues()):
                break


def move_to(daemon: Daemon, folder: Path) -> None:
    """The daemon starts on another folder from now on."""
    daemon.folder = folder


@contextmanager
def one_daemon(place: Path, address: str, *settings: str) -> Iterator[tuple[Daemon, waypost.Manager]]:
    with Daemon(place, "alpha", address, *SHORT_TIMERS, *settings) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            yield daemon, manager


def copiers(folder: Path) -> list[int]:
    """The processes that make a backup of this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"waypost.client.backups.copying" in words and os.fsencode(folder) in words:
                found.append(int(process.name))
    return found


def await_no_copier(folder: Path) -> None:
    with patience(SECONDS, "a process still makes a backup") as turns:
        for _ in turns:
            if not copiers(folder):
                break
