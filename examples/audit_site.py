"""Queue managers on this computer for audit.ipynb. The queue managers end when the program ends."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import waypost

SECONDS = 60


@dataclass(frozen=True)
class Ports:
    """Free ports for all sites, because the standard ports may be in use. Each site has a separate address."""

    transfer: int
    ping: int

    @classmethod
    def free(cls) -> "Ports":
        return cls(_free_port(socket.SOCK_STREAM), _free_port(socket.SOCK_DGRAM))


class Site:
    """A queue manager: `waypost serve` in a separate process, on an address of loopback and a temporary folder."""

    def __init__(self, name: str, address: str, ports: Ports) -> None:
        self.name = name
        self.address = address
        self.folder = Path(tempfile.mkdtemp(prefix=f"waypost-{name.lower()}-"))
        self._ports = ports
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def start(self) -> waypost.Manager:
        settings = {
            "store.path": self.folder,
            "names.computer": self.name,
            "transfer.bind": self.address,
            "transfer.port": self._ports.transfer,
            "transfer.peer_port": self._ports.transfer,
            "transfer.ping_port": self._ports.ping,
            "transfer.peer_ping_port": self._ports.ping,
            "transfer.retry_connect_s": 0.5,
            "http.port": 0,
        }
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        # The settings of another queue manager on this computer must not apply to this queue manager.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "waypost.cli", "serve", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        # When the daemon is ready, the first line of its output contains the address.
        ready = json.loads(self._process.stdout.readline())
        return waypost.connect(f"http://{ready['http']}")

    def crash(self) -> None:
        """End the queue manager as a power failure does, without a warning."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        """End the queue manager and remove its folder."""
        self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def queue(self, name: str) -> str:
        """The name that other sites use for a private queue of this site."""
        return rf"DIRECT=TCP:{self.address}\private$\{name}"


def await_count(queue: waypost.Queue, count: int) -> None:
    """Wait until a queue has `count` messages."""
    deadline = time.monotonic() + SECONDS
    while (found := queue.info().message_count) != count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {SECONDS} seconds, {queue.name} has {found} messages instead of {count}")
        time.sleep(0.1)


def take(queue: waypost.Queue, count: int) -> None:
    """Receive `count` messages, as an application does."""
    while count:
        count -= len(queue.receive_many(min(count, 200), timeout=SECONDS))


def _free_port(kind: socket.SocketKind) -> int:
    """A port that is free on every address of this computer."""
    with closing(socket.socket(socket.AF_INET, kind)) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
