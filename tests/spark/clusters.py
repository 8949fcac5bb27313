"""A cluster of Spark on loopback: a master and two workers of one core each, in separate processes."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.daemons import ROOT, loopback, patience
from waypost.spark.java import find_java, launcher_home, spark_home

MEMORY: Final = "512m"
# Each query runs once or twice, so that code which is optimized in full comes too late. Without such code Java takes
# less room for the rest, and a thread searches it all the time for what to throw away.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
PORT: Final = 7077
WORKERS: Final = 2
SECONDS: Final = 900
TIMEOUT: Final = 900


class Nodes:
    """The workers of a cluster: processes that start executors."""

    def __init__(self, start: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self._start: Final = start
        self._running = [start(number) for number in range(WORKERS)]

    @property
    def processes(self) -> list[int]:
        return [each.pid for each in self._running]

    def revive(self) -> int:
        """Start the workers again that have ended. Returns their number."""
        ended = [number for number, each in enumerate(self._running) if each.poll() is not None]
        for number in ended:
            self._running[number] = self._start(number)
        return len(ended)


@dataclass(frozen=True, slots=True)
class Cluster:
    """`master` is for --master. A driver needs `settings`, and an environment that has `environment`."""

    master: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]
    nodes: Nodes

    @property
    def settings_text(self) -> str:
        return json.dumps(dict(self.settings))

    def command(self, url: str, verb: str, *words: str) -> str:
        """`waypost spark VERB` on the cluster. Returns what it printed."""
        settings = [word for name, value in self.settings.items() for word in ("--conf", f"{name}={value}")]
        return self._run("waypost.cli", "--url", url, "spark", verb, "--master", self.master, *settings, *words)

    def run(self, module: str, *words: str) -> str:
        """A module of Python as the driver, in a separate process. Returns what it printed."""
        return self._run(module, self.master, *words)

    def _run(self, module: str, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@contextmanager
def cluster_in(
    place: Path, class_archive: Path | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """It stops in the end. `place` gets its logs and the work of its executors; `extra` joins its environment."""
    options = SHORT_LIVED
    if class_archive is not None:
        options += f" -XX:SharedArchiveFile={class_archive} -Xshare:auto -Xlog:disable"
    address = loopback(240)
    url = f"spark://{address}:{PORT}"
    environment = {
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(spark_home()),
        "SPARK_DAEMON_MEMORY": MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": options,
        "SPARK_LOCAL_IP": address,
        "SPARK_LOCAL_DIRS": str(place),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        **(extra or {}),
    }
    settings = {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": options,
        "spark.executor.memory": MEMORY,
        "spark.executor.cores": "1",
        # Both executors, before the first task.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{SECONDS}s",
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, host: str, *words: str) -> subprocess.Popen[bytes]:
        program = Path(environment["SPARK_HOME"], "bin/spark-class")
        kind = role.rstrip("0123456789")
        at = ("--host", host, "--webui-port", "0")
        command = [str(program), f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", *at, *words]
        surroundings = {**os.environ, **environment, "SPARK_LOCAL_IP": host}
        with (place / f"{role}.log").open("ab") as log:
            processes.append(subprocess.Popen(command, cwd=place, env=surroundings, stdout=log, stderr=log))
        return processes[-1]

    def start_worker(number: int) -> subprocess.Popen[bytes]:
        folder = str(place / f"work{number}")
        # Separate hosts for Spark: a speculative copy of a task never runs on the host of the first attempt.
        host = loopback(241 + number)
        return start(f"worker{number}", host, "--cores", "1", "--memory", MEMORY, "--work-dir", folder, url)

    try:
        start("master", address, "--port", str(PORT))
        _await_port(address, place / "master.log")
        yield Cluster(url, settings, environment, Nodes(start_worker))
    finally:
        # The master goes last, so that workers end their executors first.
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_port(address: str, log: Path) -> None:
    with patience(SECONDS, f"the master does not listen, see {log}") as turns:
        for _ in turns:
            with socket.socket() as probe:
                if probe.connect_ex((address, PORT)) == 0:
                    return
