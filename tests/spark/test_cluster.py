"""A standalone cluster of Spark on loopback runs what the session runs in one process."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.late import late

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.daemons import Daemon
    from tests.spark import cluster_job
    from tests.spark.clusters import Cluster
    from tests.spark.contract import recorder
else:
    cluster_job = late("tests.spark.cluster_job")
    recorder = late("tests.spark.contract.recorder")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


@pytest.fixture(scope="module")
def outcome(cluster: Cluster, daemon: Daemon, place: Path) -> dict[str, Any]:
    with daemon.connect() as manager:
        manager.create_queue("speculated", transactional=True)
    record = recorder.Record(place)
    record.tell("refuse", 3)
    record.tell("attempts", 1)
    printed = cluster.run("tests.spark.cluster_job", str(place), json.dumps(dict(cluster.settings)), daemon.url)
    result: dict[str, Any] = json.loads(printed)
    return result


def test_a_job_in_python_runs_on_both_executors(outcome: dict[str, Any]) -> None:
    assert outcome == {"rows": 1000, "executors": 2}


@pytest.mark.usefixtures("outcome")
def test_a_task_that_fails_is_tried_again_and_the_job_commits_what_succeeded(place: Path) -> None:
    writes = recorder.Record(place).events("write")
    # On a busy computer, speculation may try others again too.
    assert {(event["numbers"][-1], event["attempt"]) for event in writes} >= {(1, 0), (3, 0), (3, 1)}
    (commit,) = recorder.Record(place).events("sink commit")
    assert sorted(number for message in commit["messages"] for number in message["numbers"]) == [0, 1, 2, 3]
    assert recorder.Record(place).events("sink abort") == []


@pytest.mark.usefixtures("outcome")
def test_rows_of_a_task_that_ran_twice_by_speculation_are_written_once(daemon: Daemon, place: Path) -> None:
    assert {path.name for path in place.glob("attempt*")} >= {"attempt0", "attempt1"}
    with daemon.connect() as manager:
        found = Counter(int(message.text) for message in manager.queue("speculated").browse())
    assert found == Counter(range(cluster_job.ROWS))


def test_the_pipelines_run_there_unchanged(cluster: Cluster, daemon: Daemon, tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(40)]
    with daemon.connect() as manager:
        source = manager.create_queue("clustered", transactional=True)
        target = manager.create_queue("clustered-again", transactional=True)
        with manager.transaction() as transaction:
            source.send_many(texts, transaction=transaction, label="order")
        folder = str(tmp_path / "archive")
        reports = ("--json", "--report", str(tmp_path / "report"))
        archived = json.loads(cluster.command(daemon.url, "archive", folder, "clustered", *reports))
        assert archived["summary"].startswith("40 messages of 1 queue are in")
        assert source.info().message_count == 0
        mapping = ("--map", f"{source.format_name}={target.format_name}")
        replayed = json.loads(cluster.command(daemon.url, "replay", folder, *mapping, "--do", *reports))
        assert replayed["summary"] == "All 40 messages were sent once."
        assert sorted(message.text for message in target.browse()) == sorted(texts)
