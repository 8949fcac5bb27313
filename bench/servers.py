"""The servers of bench/transfer.py, each on loopback with separate ports and folder, ended with all they started.

Two Waypost daemons that know each other's port, two RabbitMQ nodes of which the first has a shovel to the second, and
one Redis. Nothing of the computer's own configuration of them is read, and nothing that runs already is touched.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Final

SECONDS_TO_START: Final = 60.0

# Four times the default, which is that of MSMQ: with more messages under way there are more of them in one flush.
WINDOW: Final = 1000

# Where Debian puts the script that runs as anybody; the one in /usr/sbin changes to another user.
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_PACKAGE: Final = "rabbitmq-server"
REDIS_PACKAGE: Final = "redis-server"

SHOVELLED: Final = "shovelled"
SHOVEL: Final = """[{{rabbitmq_shovel, [{{shovels, [{{bench, [
  {{source, [{{protocol, amqp091}}, {{uris, ["amqp://guest:guest@127.0.0.1:{a}"]}},
    {{declarations, [{{'queue.declare', [{{queue, <<"{queue}">>}}, durable]}}]}},
    {{queue, <<"{queue}">>}}, {{prefetch_count, 1000}}]}},
  {{destination, [{{protocol, amqp091}}, {{uris, ["amqp://guest:guest@127.0.0.1:{b}"]}},
    {{declarations, [{{'queue.declare', [{{queue, <<"{queue}">>}}, durable]}}]}},
    {{publish_fields, [{{exchange, <<>>}}, {{routing_key, <<"{queue}">>}}]}}]}},
  {{ack_mode, on_confirm}}, {{reconnect_delay, 1}}]}}]}}]}}].
"""


class NotStarted(Exception):
    """A server that ended, or was silent for too long."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process group, and where it listens: an address with a port, or a URL. A Waypost daemon names all its ports."""

    group: int
    address: str
    endpoints: Mapping[str, str] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process) for process in _members(self.group))


def cpu_seconds(process: int) -> float:
    """The processor time that it has used, with all its threads."""
    return sum(map(int, _stat(process)[11:13])) / os.sysconf("SC_CLK_TCK")


def has_rabbitmq() -> bool:
    return RABBITMQ.exists() and shutil.which("epmd") is not None


def has_redis() -> bool:
    return shutil.which("redis-server") is not None


@contextmanager
def waypost_daemons(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Two, on 127.0.0.2 and 127.0.0.3."""
    port = free_port("")
    with waypost_daemon(folder / "a", "127.0.0.2", port) as a, waypost_daemon(folder / "b", "127.0.0.3", port) as b:
        yield a, b


@contextmanager
def waypost_daemon(folder: Path, address: str, port: int, **more: object) -> Iterator[Server]:
    """`more` are settings, as SECTION__KEY=VALUE."""
    folder.parent.mkdir(exist_ok=True)
    log = folder.with_suffix(".log")
    settings = {
        "store.path": folder,
        "names.computer": folder.name,
        "transfer.bind": address,
        "transfer.port": port,
        "transfer.peer_port": port,
        "transfer.ping_port": 0,
        "transfer.retry_connect_s": 0.5,
        "transfer.window_size": WINDOW,
        "rpc.port": 0,
        "rpc.qm2qm_port": 0,
        "http.port": 0,
        "log.level": "warning",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
    command = [sys.executable, "-m", "waypost.cli", "serve", *options]
    with _running(command, environment, log) as process:
        assert process.stdout is not None
        is_there, _, _ = select.select([process.stdout], [], [], SECONDS_TO_START)
        line = process.stdout.readline() if is_there else b""
        if not line:
            raise NotStarted(f"waypost serve did not start: {log.read_text()[-2000:]}")
        endpoints = json.loads(line)
        yield Server(process.pid, f"http://{endpoints['http']}", endpoints)


@contextmanager
def rabbitmq_nodes(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Two nodes that form no cluster. Messages in the queue SHOVELLED of the first go to that of the second."""
    folder.mkdir()
    epmd, a, b = free_port(), free_port(), free_port()
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "ERL_EPMD_PORT": str(epmd)}
    # A node that finds no epmd starts one that outlives it.
    with (
        _running(["epmd", "-port", str(epmd), "-address", "127.0.0.1"], environment, folder / "epmd.log"),
        _rabbitmq_node(folder / "b", b, environment, "[].") as second,
        _rabbitmq_node(folder / "a", a, environment, SHOVEL.format(a=a, b=b, queue=SHOVELLED)) as first,
    ):
        yield first, second


@contextmanager
def _rabbitmq_node(folder: Path, port: int, environment: Mapping[str, str], configuration: str) -> Iterator[Server]:
    folder.mkdir()
    (folder / "advanced.config").write_text(configuration)
    (folder / "rabbitmq.conf").write_text("")
    (folder / "plugins").write_text("[rabbitmq_shovel].\n" if SHOVELLED in configuration else "[].\n")
    own = {
        "NODENAME": f"bench-{folder.name}@localhost",
        "NODE_IP_ADDRESS": "127.0.0.1",
        "NODE_PORT": port,
        "DIST_PORT": free_port(),
        "MNESIA_BASE": folder / "data",
        "LOG_BASE": folder,
        "ENABLED_PLUGINS_FILE": folder / "plugins",
        "CONFIG_FILE": folder / "rabbitmq.conf",
        "ADVANCED_CONFIG_FILE": folder / "advanced.config",
        "CONF_ENV_FILE": "/dev/null",
    }
    named = {f"RABBITMQ_{name}": str(value) for name, value in own.items()}
    with _running([str(RABBITMQ)], {**environment, **named}, folder / "log") as process:
        _wait_for_port(process, port, folder / "log")
        yield Server(process.pid, f"127.0.0.1:{port}")


@contextmanager
def redis(folder: Path) -> Iterator[Server]:
    """Every command is on disk before its answer."""
    folder.mkdir()
    port = free_port()
    options = {
        "bind": "127.0.0.1",
        "port": port,
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    command = ["redis-server", *(word for key, value in options.items() for word in (f"--{key}", str(value)))]
    with _running(command, os.environ, folder / "log") as process:
        _wait_for_port(process, port, folder / "log")
        yield Server(process.pid, f"127.0.0.1:{port}")


@contextmanager
def _running(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a separate group. It is killed, not asked to end: its data is of no use."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if "serve" in command else errors,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            while _members(process.pid) != [process.pid] and _members(process.pid):
                sleep(0.01)


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = monotonic() + SECONDS_TO_START
    while process.poll() is None and monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        sleep(0.05)
    raise NotStarted(f"{process.args!r} did not start: {log.read_text()[-2000:]}")


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if int(_stat(int(entry.name))[2]) == group:
                    found.append(int(entry.name))
    return found


def _stat(process: int) -> list[str]:
    """The fields of proc(5) after the name of the command, which may have spaces: state, parent, group, ..."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def free_port(address: str = "127.0.0.1") -> int:
    with closing(socket.socket()) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
