"""One SparkSession for all tests of Spark, a daemon for their queues, and a cluster for those that need one.

Starting any of these takes seconds, so they live as long as the tests, and all tests that use the session run in one
process (tools/sharing.py).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.daemons import ROOT, Daemon, loopback
from tests.late import late
from tests.spark.clusters import SHORT_LIVED, Cluster, cluster_in
from waypost.spark import session
from waypost.spark.java import cache_folder, make_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from waypost.spark import warm_up
else:
    warm_up = late("waypost.spark.warm_up")

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def class_archive() -> Path | None:
    """Made once on this computer, and then every Spark that a test starts takes seconds less."""
    # It takes a minute of a core, so that another worker waits for it and does not make it too.
    with (cache_folder() / "spark-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make_archive()


@pytest.fixture(scope="session")
def spark(class_archive: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """With two cores. Its Python processes can import the tests."""
    place = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        places = [str(ROOT), str(HERE / "contract/discovered"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
        settings = {
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.streaming.checkpointLocation": str(place / "checkpoints"),
            "spark.local.dir": str(place),
        }
        # Java keeps the variables for its Python processes.
        made = session("tests", master="local[2]", conf=settings)
    yield made
    made.stop()
    # Otherwise it ends with this process, and pytest sees its pipe and its connections leak.
    warm_up.end_java()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A shared daemon: a test gives its queues unique names, and makes another Daemon to stop or kill it."""
    with Daemon(tmp_path_factory.mktemp("daemon"), "spark", loopback(230)) as started:
        started.start()
        yield started


@pytest.fixture(scope="session")
def cluster(class_archive: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("cluster"), class_archive) as started:
        yield started
