"""A server of Spark Connect on loopback, in a separate process, with two cores."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.daemons import ROOT, patience
from tests.spark.clusters import SECONDS, SHORT_LIVED, TIMEOUT
from waypost.spark.java import find_java, launcher_home, spark_home
from waypost.spark.session import JAVA_OPTIONS, SETTINGS, WORKERS, java_options

# The functions of foreachBatch are clients too, and Spark always gives them this host.
ADDRESS: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Server:
    """`remote` is the address for clients, which run with `environment`."""

    remote: str
    environment: Mapping[str, str]

    def run(self, *command: str, **environment: str) -> str:
        """Run a command as a client. Returns its output."""
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return done.stdout


@contextmanager
def server_in(place: Path) -> Iterator[Server]:
    """It stops in the end. `place` gets its log and its tables."""
    port = _free_port()
    java = find_java()
    places = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        "JAVA_HOME": str(launcher_home(java)),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": ADDRESS,
        "SPARK_LOCAL_DIRS": str(place),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    settings = {
        **SETTINGS,
        JAVA_OPTIONS: java_options(java),
        "spark.connect.grpc.binding.address": ADDRESS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": ADDRESS,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.driver.host": ADDRESS,
        "spark.python.daemon.module": WORKERS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    command = [
        str(Path(environment["SPARK_HOME"], "bin/spark-submit")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    ]
    log = place / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=place, env={**os.environ, **environment}, stdout=file, stderr=file)
    try:
        _await_port(port, process, log)
        yield Server(f"sc://{ADDRESS}:{port}", environment)
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    with patience(SECONDS, f"the server does not listen, see {log}") as turns:
        for _ in turns:
            assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:]
            with socket.socket() as probe:
                if probe.connect_ex((ADDRESS, port)) == 0:
                    return
