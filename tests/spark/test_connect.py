"""A client of Spark Connect, and a declarative pipeline, read and write queues as a session does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from tests.crash.daemons import ROOT
from tests.spark.connect import server_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.daemons import Daemon
    from tests.spark.connect import Server

ORDERS = [f"order {number}" for number in range(20)]
PAGE = ROOT / "docs/spark.md"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def server(class_archive: Path | None, warehouse: Path) -> Iterator[Server]:
    with server_in(warehouse) as started:
        yield started


@pytest.fixture(scope="module")
def outcome(server: Server, daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with daemon.connect() as manager:
        manager.create_queue("connect-orders").send_many(ORDERS)
        for name in ("connect-invoices", "connect-copies"):
            manager.create_queue(name, transactional=True)
    place = tmp_path_factory.mktemp("client")
    printed = server.run(sys.executable, "-m", "tests.spark.connect_job", server.remote, daemon.url, str(place))
    result: dict[str, Any] = json.loads(printed)
    return result


def bodies(daemon: Daemon, queue: str) -> list[str]:
    with daemon.connect() as manager:
        return sorted(message.text for message in manager.queue(queue).browse())


def test_a_client_of_connect_reads_a_queue_that_the_server_finds(outcome: dict[str, Any]) -> None:
    assert (outcome["found"], outcome["view"]) == (20, 20)


@pytest.mark.usefixtures("outcome")
def test_a_version_and_a_claimed_stream_are_written_once_through_connect(daemon: Daemon) -> None:
    assert bodies(daemon, "connect-invoices") == sorted([*ORDERS, *(f"invoice {number}" for number in range(10))])
    assert bodies(daemon, "connect-orders") == []


def test_a_repeated_batch_of_foreach_batch_is_written_once_through_connect(
    outcome: dict[str, Any], daemon: Daemon
) -> None:
    assert bodies(daemon, "connect-copies") == bodies(daemon, "connect-invoices")


def test_connect_does_not_name_the_query_to_tasks_of_foreach_batch(outcome: dict[str, Any]) -> None:
    assert outcome["named"] is False


def test_the_declarative_pipeline_of_the_page_reads_and_writes_queues_once(
    server: Server, daemon: Daemon, warehouse: Path, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```text\n(from pyspark import pipelines as dp\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    (tmp_path / "orders.py").write_text(found[1], encoding="utf-8")
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(
        f"name: orders\nstorage: {(tmp_path / 'storage').as_uri()}\nlibraries:\n  - glob:\n      include: orders.py\n",
        encoding="utf-8",
    )
    with daemon.connect() as manager:
        orders = manager.create_queue("pipeline-orders")
        orders.send_many(ORDERS, label="new")
        manager.create_queue("pipeline-invoices", transactional=True)
    program = str(Path(server.environment["SPARK_HOME"], "bin/spark-pipelines"))
    for _ in range(2):
        server.run(program, "--remote", server.remote, "run", "--spec", str(spec), WAYPOST_URL=daemon.url)
    assert bodies(daemon, "pipeline-invoices") == sorted(ORDERS)
    assert ds.dataset(warehouse / "warehouse/orders").count_rows() == 20
