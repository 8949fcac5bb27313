"""A standalone cluster of Spark on loopback runs what the session runs in one process."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters import Cluster
from tests.spark.contract.recorder import Record


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job")


@pytest.fixture(scope="module")
def outcome(cluster: Cluster, place: Path) -> dict[str, Any]:
    record = Record(place)
    record.tell("refuse", 3)
    record.tell("attempts", 1)
    printed = cluster.run("tests.spark.cluster_job", str(place), json.dumps(dict(cluster.settings)))
    result: dict[str, Any] = json.loads(printed)
    return result


def test_a_job_in_python_runs_on_both_executors(outcome: dict[str, Any]) -> None:
    assert outcome == {"rows": 1000, "executors": 2}


@pytest.mark.usefixtures("outcome")
def test_a_task_that_fails_is_tried_again_and_the_job_commits_what_succeeded(place: Path) -> None:
    writes = Record(place).events("write")
    assert sorted((event["numbers"][-1], event["attempt"]) for event in writes) == [(1, 0), (3, 0), (3, 1)]
    (commit,) = Record(place).events("sink commit")
    assert sorted(number for message in commit["messages"] for number in message["numbers"]) == [0, 1, 2, 3]
    assert Record(place).events("sink abort") == []
