"""Daemons in separate processes, each on an address of loopback with the standard ports, to stop and to kill."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.request import Request, urlopen

import waypost
from tests.forks import ROOT as ROOT
from tests.forks import Forked, start

TRANSFER_PORT: Final = 1801
PING_PORT: Final = 3527
HTTP_PORT: Final = 8181
SECONDS: Final = 60

# Everything that takes seconds otherwise.
SHORT_TIMERS: Final = (
    "transfer.retry_connect_s=0.1",
    "transfer.order_ack_timeout_ms=50",
    "transfer.maximum_order_ack_delay_s=0.5",
    "transfer.resend_timeouts_s=0.5,1,2,4",
)


def loopback(number: int) -> str:
    """An address that no other process has, as long as it lives."""
    process = os.getpid()
    return f"127.{process >> 8 & 0x7F | 0x80}.{process & 0xFF}.{number}"


class Daemon:
    """`waypost serve` on the folder `place`/`name`, with its log beside it. `settings` count from the next start.

    A `with` block kills it in the end if it runs.
    """

    def __init__(self, place: Path, name: str, address: str, *settings: str) -> None:
        self.name = name
        self.address = address
        self.url = f"http://{address}:{HTTP_PORT}"
        self.guid = ""
        self.settings = list(settings)
        self.folder = place / name
        self._log = place / f"{name}.log"
        self._process: Forked | subprocess.Popen[bytes] | None = None
        self._clients: list[waypost.Manager] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_up:
            self.kill()

    def prepare(self) -> None:
        """Give it an identity before its first start, so that others can be told of it."""
        with waypost.open(self.folder, name=self.name) as manager:
            self.guid = manager.guid

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        assert not self.is_up, f"{self.name} runs already"
        words = [word for setting in self.settings for word in ("--set", setting)]
        with self._log.open("ab") as log:
            self._process = start(
                *("waypost.cli", "serve", "--data", str(self.folder), "--name", self.name),
                *("--bind", self.address, "--http-port", str(HTTP_PORT), *words),
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def await_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        has_spoken = select.select([self._process.stdout], [], [], SECONDS)[0]
        line = self._process.stdout.readline() if has_spoken else b""
        assert line, f"{self.name} is not ready:\n{self.log[-3000:]}"
        self.guid = json.loads(line)["guid"]

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Without a warning, as kill -9 does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop. Returns its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.await_end()

    def await_end(self) -> int:
        """It ends by itself, as when it cannot start. Returns its exit code."""
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.wait(SECONDS)
        self._process.stdout.close()
        self._process = None
        # A client looks whether a connection still stands if it has rested for half a second, and a start takes less.
        for client in self._clients:
            client._transport._close_idle()  # type: ignore[attr-defined]
        return code

    @contextmanager
    def down(self) -> Iterator[None]:
        """Killed, and started again in the end."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def connect(self) -> waypost.Manager:
        client = waypost.connect(self.url)
        self._clients.append(client)
        return client

    @property
    def headers(self) -> dict[str, str]:
        """The header with its token, for requests by hand over TCP."""
        return {"Authorization": f"Bearer {(self.folder / 'token').read_text(encoding='ascii').strip()}"}

    def get(self, path: str) -> str:
        """The answer to a GET. Raises urllib.error.HTTPError."""
        with urlopen(Request(f"{self.url}{path}", headers=self.headers), timeout=SECONDS) as answer:
            text: str = answer.read().decode()
            return text

    def direct(self, queue: str) -> str:
        """The name of a private queue of this daemon for others."""
        return rf"DIRECT=TCP:{self.address}\private$\{queue}"

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def process(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def memory(self) -> int:
        """Bytes of it that are in memory now, without the pages of its store, which the system takes back at will."""
        return self._status("RssAnon") * 1024

    @property
    def files(self) -> int:
        """The number of open files, sockets too."""
        return len(list(Path(f"/proc/{self.process}/fd").iterdir()))

    @property
    def threads(self) -> int:
        return self._status("Threads")

    def _status(self, key: str) -> int:
        text = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        return int(text.partition(f"{key}:")[2].split()[0])


def start_all(daemons: list[Daemon]) -> None:
    """At the same time."""
    for daemon in daemons:
        daemon.launch()
    for daemon in daemons:
        daemon.await_ready()


@contextmanager
def patience(seconds: float, what: str) -> Iterator[Iterator[None]]:
    """Turns to look whether something has happened."""
    deadline = time.monotonic() + seconds

    def turns() -> Iterator[None]:
        while time.monotonic() < deadline:
            yield
            time.sleep(0.05)
        raise AssertionError(f"after {seconds:g} s: {what}")

    yield turns()
