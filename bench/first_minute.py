"""The first minute: seconds and megabytes from nothing installed to a first message that was sent and received.

Waypost is measured twice: `make run` in a fresh clone, with an empty home and no virtual environment, and its wheel in
an empty virtual environment. RabbitMQ and Redis are Debian's packages, installed with apt-get into a fresh Debian in a
folder (debootstrap), where they run in a separate network; that needs root. Nothing is installed on the computer.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Timer
from time import time
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record

ROOT: Final = Path(__file__).resolve().parents[1]
SECONDS: Final = 900
MESSAGE: Final = "42 bolts"

# The programs that Waypost needs and a fresh Debian lacks.
PREREQUISITES: Final = ("git", "make", "python3", "python3-venv")


class NotMeasured(Exception):
    """Something is missing, or did not work."""


@dataclass(frozen=True, slots=True)
class Figures:
    """`start` begins when it is installed, and `message` when it is ready. Megabytes are those of 1,000,000 bytes."""

    name: str
    install: float
    start: float
    message: float
    downloaded: float
    installed: float

    @property
    def total(self) -> float:
        return self.install + self.start + self.message

    def row(self) -> str:
        seconds = "".join(f"{each:>9.1f}" for each in (self.install, self.start, self.message, self.total))
        return f"{self.name:<30}{seconds}{self.downloaded:>12.0f}{self.installed:>11.0f}"


HEAD: Final = f"{'':<30}{'install':>9}{'start':>9}{'message':>9}{'total s':>9}{'download MB':>12}{'disk MB':>11}"


@dataclass(frozen=True, slots=True)
class Debian:
    """A server of Debian: how it starts, what succeeds when it is ready, and how a message is sent and received."""

    name: str
    packages: tuple[str, ...]
    start: str
    is_ready: str
    message: str


SERVERS: Final = (
    Debian(
        "RabbitMQ",
        ("rabbitmq-server", "amqp-tools"),
        "RABBITMQ_NODENAME=rabbit@localhost rabbitmq-server",
        "bash -c '< /dev/tcp/127.0.0.1/5672'",
        f"amqp-declare-queue -d -q orders && amqp-publish -r orders -b '{MESSAGE}' && amqp-get -q orders",
    ),
    Debian(
        "Redis",
        ("redis-server",),
        "redis-server /etc/redis/redis.conf --daemonize no",
        "redis-cli ping | grep -q PONG",
        f"redis-cli lpush orders '{MESSAGE}' && redis-cli rpop orders",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="python3", help="interpreter for Waypost (default: python3)")
    parser.add_argument("--path", default=os.environ["PATH"], help="PATH for Waypost (default: that of this process)")
    parser.add_argument("--without-debian", action="store_true", help="measure Waypost alone")
    given = parser.parse_args()
    (ROOT / "build").mkdir(exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="first-minute-", dir=ROOT / "build") as name:
        work = Path(name)
        measured = [measured_checkout(work, given.python, given.path), measured_wheel(work, given.python, given.path)]
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n{HEAD}", flush=True)
        for figures in chain(measured, () if given.without_debian else measured_debian(work)):
            print(figures.row(), flush=True)
            found.append(figures)
    record.keep({"first_minute": {**record.setting(), "rows": [asdict(each) for each in found]}})


def measured_checkout(work: Path, python: str, path: str) -> Figures:
    checkout, environment = work / "checkout", fresh_environment(work, path)
    run(["git", "clone", "--quiet", str(ROOT), str(checkout)])
    began = time()
    with ready(["make", f"PYTHON={python}", "run"], checkout, environment) as (lines, was_ready):
        stamps = (checkout / ".venv").glob("installed-*")
        installed = max(path.stat().st_mtime for path in stamps)
        sent = time()
        command = next(line for line in lines if " queue create " in line)
        answer = run(["sh", "-c", command], checkout, environment)
        received = time()
    check(answer)
    venv = checkout / ".venv"
    return Figures(
        "Waypost, make run",
        installed - began,
        was_ready - installed,
        received - sent,
        download_size(venv, checkout, work / "downloads", environment),
        size(venv),
    )


def measured_wheel(work: Path, python: str, path: str) -> Figures:
    environment, venv = fresh_environment(work, path), work / "venv"
    tools, wheels = work / "tools", work / "wheels"
    run([python, "-m", "venv", str(tools)], work, environment)
    run([f"{tools}/bin/pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)], work, environment)
    (wheel,) = wheels.glob("waypost-*.whl")
    began = time()
    run([python, "-m", "venv", str(venv)], work, environment)
    run([f"{venv}/bin/pip", "install", "-q", str(wheel)], work, environment)
    installed = time()
    command = [f"{venv}/bin/waypost", "serve", "--hints", "--data", str(work / "data"), "--bind", "127.0.0.1"]
    with ready(command, work, environment) as (lines, was_ready):
        sent = time()
        answer = run(["sh", "-c", next(line for line in lines if " queue create " in line)], work, environment)
        received = time()
    check(answer)
    downloaded = download_size(venv, wheel, work / "downloads-of-wheel", environment)
    return Figures(
        "Waypost, pip install", installed - began, was_ready - installed, received - sent, downloaded, size(venv)
    )


def measured_debian(work: Path) -> Iterator[Figures]:
    try:
        base = fresh_debian(work)
        yield measured_prerequisites(base)
        for server in SERVERS:
            yield measured_server(base, server)
    except NotMeasured as error:
        print(f"not measured: {error}", flush=True)


def fresh_debian(work: Path) -> Path:
    if os.geteuid() != 0 or not all(map(shutil.which, ("debootstrap", "unshare", "ip"))):
        raise NotMeasured("RabbitMQ and Redis need root, and the programs debootstrap, unshare and ip")
    release = run(["sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"]).strip()
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)"]).splitlines()
    mirror = next((uri for uri, _, name in (line.partition(" ") for line in targets) if name == release), None)
    base = work / "debian"
    run(["debootstrap", "--variant=minbase", release, str(base), *([mirror] if mirror else [])])
    shutil.copy("/etc/resolv.conf", base / "etc/resolv.conf")
    (base / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (base / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (base / "usr/sbin/policy-rc.d").chmod(0o755)
    inside(base, "apt-get -q update")
    return base


def measured_prerequisites(base: Path) -> Figures:
    """In a copy: the servers do not find them."""
    place = base.with_name("prerequisites")
    run(["cp", "-a", str(base), str(place)])
    seconds, downloaded, installed = install(place, PREREQUISITES)
    return Figures("Python, make and git, apt-get", seconds, 0, 0, downloaded, installed)


def measured_server(base: Path, server: Debian) -> Figures:
    place = base.with_name(server.name)
    run(["cp", "-a", str(base), str(place)])
    seconds, downloaded, installed = install(place, server.packages)
    script = (
        f"mount -t proc proc /proc; date +%s.%N; {{ {server.start}; }} > /log 2>&1 & date +%s.%N; "
        f"for attempt in $(seq 1200); do {{ {server.is_ready}; }} > /dev/null 2>&1 && break; sleep 0.05; done; "
        f"date +%s.%N; {{ {server.message}; }} > /answer 2>&1; date +%s.%N; cat /answer"
    )
    began, _, ready_at, received, *answer = inside(place, script, alone=True).splitlines()
    check("\n".join(answer))
    return Figures(
        f"{server.name}, apt-get",
        seconds,
        float(ready_at) - float(began),
        float(received) - float(ready_at),
        downloaded,
        installed,
    )


def install(place: Path, packages: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, and the megabytes that apt-get says."""
    began = time()
    text = inside(
        place, f"DEBIAN_FRONTEND=noninteractive apt-get -y install --no-install-recommends {' '.join(packages)}"
    )
    return time() - began, told(text, "Need to get"), told(text, "After this operation,")


def told(text: str, words: str) -> float:
    """Megabytes in the words of apt-get. Of "1,360 kB/2 MB" the first is still to be downloaded."""
    found = re.search(rf"{words} ([\d,.]+) (k|M|G)?B", text)
    if found is None:
        raise NotMeasured(f"apt-get did not say: {words}")
    return float(found[1].replace(",", "")) * {None: 1e-6, "k": 1e-3, "M": 1, "G": 1e3}[found[2]]


def inside(place: Path, script: str, *, alone: bool = False) -> str:
    """Run in the Debian of this folder. Processes that it leaves end with it; `alone` runs in a separate network."""
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if alone else [])]
    up = "ip link set lo up; " if alone else ""
    return run([*spaces, "sh", "-c", f'{up}exec chroot "$0" sh -c "$1"', str(place), script])


@contextmanager
def ready(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[tuple[list[str], float]]:
    """The lines of its ready message, and when it came. It is stopped afterwards."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        bound = Timer(SECONDS, partial(os.killpg, process.pid, signal.SIGKILL))
        bound.start()
        try:
            assert process.stdout is not None
            lines, was_ready = list[str](), 0.0
            for line in process.stdout:
                lines.append(line)
                was_ready = was_ready or (line.startswith("Queue manager ") and time())
                if line.startswith("Press Ctrl-C"):
                    break
            else:
                raise NotMeasured(f"{command[0]} did not become ready: {''.join(lines)}")
            yield lines, was_ready
        finally:
            bound.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def fresh_environment(work: Path, path: str) -> dict[str, str]:
    """An empty home, and nothing else but where pip finds packages."""
    home = Path(tempfile.mkdtemp(dir=work))
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    user = Path.home() / ".config/pip/pip.conf"
    if user.exists():
        settings.setdefault("PIP_CONFIG_FILE", str(user))
    return {**settings, "HOME": str(home), "PATH": path}


def download_size(venv: Path, what: Path, place: Path, environment: dict[str, str]) -> float:
    """All that pip fetches, with what builds the package."""
    builders = ["hatchling", "editables"] if what.is_dir() else []
    run(
        [f"{venv}/bin/python", "-m", "pip", "download", "-q", "-d", str(place), str(what), *builders],
        what.parent,
        environment,
    )
    return sum(path.stat().st_size for path in place.iterdir() if what.is_file() or "waypost" not in path.name) / 1e6


def size(folder: Path) -> float:
    return int(run(["du", "-sk", str(folder)]).split()[0]) * 1024 / 1e6


def check(answer: str) -> None:
    if MESSAGE not in answer:
        raise NotMeasured(f"the message did not come back: {answer}")


def run(command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if done.returncode != 0:
        raise NotMeasured(f"{' '.join(command)[:200]} failed: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        main()
    except NotMeasured as error:
        sys.exit(f"not measured: {error}")
