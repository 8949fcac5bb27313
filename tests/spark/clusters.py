"""A cluster of Spark on loopback: a master and two workers of one core each, in separate processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.crash.daemons import ROOT, loopback, patience
from waypost.spark.java import find_java, launcher_home

MEMORY: Final = "512m"
# Each query runs once or twice, so that code which is optimized in full comes too late.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PORT: Final = 7077
WORKERS: Final = 2
SECONDS: Final = 300
TIMEOUT: Final = 900


@dataclass(frozen=True, slots=True)
class Cluster:
    """`master` is for --master. A driver needs `settings`, and an environment that has `environment`."""

    master: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]

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
def cluster_in(place: Path) -> Iterator[Cluster]:
    """It stops in the end. `place` gets its logs and the work of its executors."""
    address = loopback(240)
    url = f"spark://{address}:{PORT}"
    environment = {
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(_home()),
        "SPARK_DAEMON_MEMORY": MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        "SPARK_LOCAL_IP": address,
        "SPARK_LOCAL_DIRS": str(place),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    settings = {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.memory": MEMORY,
        "spark.executor.cores": "1",
        # Both executors, before the first task.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{SECONDS}s",
    }
    at = ("--host", address, "--webui-port", "0")
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, *words: str) -> None:
        program = Path(environment["SPARK_HOME"], "bin/spark-class")
        kind = role.rstrip("0123456789")
        with (place / f"{role}.log").open("wb") as log:
            command = [str(program), f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", *at, *words]
            processes.append(
                subprocess.Popen(command, cwd=place, env={**os.environ, **environment}, stdout=log, stderr=log)
            )

    try:
        start("master", "--port", str(PORT))
        _await_port(address, place / "master.log")
        for number in range(WORKERS):
            folder = str(place / f"work{number}")
            start(f"worker{number}", "--cores", "1", "--memory", MEMORY, "--work-dir", folder, url)
        yield Cluster(url, settings, environment)
    finally:
        # The master goes last, so that workers end their executors first.
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _home() -> Path:
    """The folder of Spark. The module is not loaded: the driver has a process of its own."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    return Path(spark.origin).parent


def _await_port(address: str, log: Path) -> None:
    with patience(SECONDS, f"the master does not listen, see {log}") as turns:
        for _ in turns:
            with socket.socket() as probe:
                if probe.connect_ex((address, PORT)) == 0:
                    return
