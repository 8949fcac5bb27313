"""`docker` as far as the head of packaging/Dockerfile needs it: a container is a process with a network and a host name
to itself, whose files are those of the folder that tests/packaging/image.py made. IMAGE names the file of the image.
"""

import argparse
import fcntl
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from tests.packaging.image import SECONDS, Image, rooted

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_LISTENS: Final = "0A"


class Container(msgspec.Struct, frozen=True):
    """A process that was started, and the ports of it that are published."""

    process: int
    log: str
    environment: dict[str, str]
    ports: list[int]

    def is_running(self) -> bool:
        try:
            state = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state != "Z"

    def await_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while '"event":"ready"' not in Path(self.log).read_text(encoding="utf-8"):
            if not self.is_running() or time.monotonic() > deadline:
                sys.exit(f"docker: the container did not start: {Path(self.log).read_text(encoding='utf-8')}")
            time.sleep(0.05)

    def run(self, command: list[str], more: dict[str, str]) -> int:
        ways = ["nsenter", f"--target={self.process}", "--user", "--preserve-credentials", "--net", "--uts", "--"]
        environment = self.environment | more
        return subprocess.run([*ways, "env", *command], env=environment, check=False, timeout=SECONDS).returncode

    def hidden_ports(self) -> list[int]:
        """The published ports that nobody beyond the container can connect to."""
        tables = [Path(f"/proc/{self.process}/net/{name}").read_text(encoding="utf-8") for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        places = [row[1].split(":") for row in rows if row[3] == _LISTENS]
        return [port for port in self.ports if port not in {int(at, 16) for host, at in places if not int(host, 16)}]


def main() -> int:
    words = sys.argv[1:]
    if words[0] == "init":
        _init(words[1], words[2:])
    image = msgspec.json.decode(Path(os.environ["IMAGE"]).read_bytes(), type=Image)
    match words[0]:
        case "build":
            return 0
        case "run":
            return _run(image, words[1:])
        case "exec":
            return _exec(image, words[1:])
        case "stop":
            return _stop(image, words[1])
        case _:
            sys.exit(f"docker: {shlex.join(words)} is not known here")


def _run(image: Image, words: list[str]) -> int:
    parser = argparse.ArgumentParser("docker run", exit_on_error=True)
    parser.add_argument("--rm", action="store_true", required=True)
    parser.add_argument("--detach", action="store_true", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--hostname", required=True)
    parser.add_argument("-p", action="append", default=[])
    parser.add_argument("-v", action="append", default=[])
    parser.add_argument("-e", action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args(words)
    root = Path(image.root)
    for volume in given.v:
        source, target, *_ = volume.split(":")
        place = Path(rooted(target, root))
        if "/" in source:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(source)
        elif not place.is_dir():
            sys.exit(f"docker: the image has no folder {target} for a volume")
    variables = {name: rooted(value, root) for name, _, value in (each.partition("=") for each in given.e)}
    environment = image.environment | variables
    log = root / f"{given.name}.log"
    command = ["unshare", "--map-root-user", "--net", "--uts", sys.executable, "-m", "tests.packaging.docker"]
    with log.open("wb") as stream:
        started = subprocess.Popen(
            [*command, "init", given.hostname, *image.entrypoint, *given.arguments],
            env={**os.environ, "CONTAINER": msgspec.json.encode(environment).decode()},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    ports = [int(published.rpartition(":")[2]) for published in given.p]
    container = Container(started.pid, str(log), environment, ports)
    _file(image, given.name).write_bytes(msgspec.json.encode(container))
    # A container is there when this returns, but nobody waits for its program.
    started.returncode = 0
    return 0


def _init(hostname: str, command: list[str]) -> NoReturn:
    """The first process of a container, in separate namespaces."""
    socket.sethostname(hostname)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    environment = msgspec.json.decode(os.environ["CONTAINER"], type=dict[str, str])
    os.execvpe(command[0], command, environment)


def _exec(image: Image, words: list[str]) -> int:
    parser = argparse.ArgumentParser("docker exec", exit_on_error=True)
    parser.add_argument("-e", action="append", default=[])
    parser.add_argument("name")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    container = _container(image, given.name)
    container.await_ready()
    return container.run(given.command, dict(re.findall(r"^(\w+)=(.*)$", "\n".join(given.e), re.MULTILINE)))


def end_all(image: Image) -> None:
    """Kill the containers that were not stopped."""
    for file in Path(image.root).glob("*.container"):
        with suppress(ProcessLookupError):
            os.kill(msgspec.json.decode(file.read_bytes(), type=Container).process, signal.SIGKILL)
        file.unlink()


def _stop(image: Image, name: str) -> int:
    container = _container(image, name)
    container.await_ready()
    if hidden := container.hidden_ports():
        sys.exit(f"docker: nothing listens on the published ports {hidden}")
    if container.run(image.healthcheck, {}) != 0:
        sys.exit("docker: the container is not healthy")
    os.kill(container.process, signal.SIGTERM)
    deadline = time.monotonic() + SECONDS
    while container.is_running():
        if time.monotonic() > deadline:
            sys.exit("docker: the container did not stop")
        time.sleep(0.05)
    _file(image, name).unlink()
    return 0 if '"event":"stopped"' in Path(container.log).read_text(encoding="utf-8") else 1


def _container(image: Image, name: str) -> Container:
    return msgspec.json.decode(_file(image, name).read_bytes(), type=Container)


def _file(image: Image, name: str) -> Path:
    return Path(image.root, f"{name}.container")


if __name__ == "__main__":
    sys.exit(main())
