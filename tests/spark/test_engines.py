"""Two engines: Spark, and Arrow in this process. They give the same reports, and small queues need no Java."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.late import late
from tests.spark.frames import at, frame
from tests.spark.pipeline_samples import ORDERS, message, write_messages
from tests.spark.test_audit import SENT, WORDS, rules
from tests.spark.test_inventory import MESSAGES
from tests.spark.test_trace import HANGING, LOOPING, OTHER, OTHERS, PARTLY, RESTING, STRAIGHT
from waypost.arrow.schema import ALL, DEFAULT
from waypost.cli import app
from waypost.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.crash.daemons import Daemon
    from waypost.spark.pipelines import (
        archive,
        audit_report,
        deadletters,
        deadletters_report,
        in_memory,
        inventory_report,
        manifest,
        reading,
        trace_report,
    )
    from waypost.spark.pipelines.report import Report
else:
    archive = late("waypost.spark.pipelines.archive")
    audit_report = late("waypost.spark.pipelines.audit_report")
    deadletters = late("waypost.spark.pipelines.deadletters")
    deadletters_report = late("waypost.spark.pipelines.deadletters_report")
    in_memory = late("waypost.spark.pipelines.in_memory")
    inventory_report = late("waypost.spark.pipelines.inventory_report")
    manifest = late("waypost.spark.pipelines.manifest")
    reading = late("waypost.spark.pipelines.reading")
    trace_report = late("waypost.spark.pipelines.trace_report")


GUID = "8e5ddd7d-0411-49b5-94d9-8e85f1d0ff1a"
DEAD = [
    message(1, label="order 17", message_class=0x8002),
    message(2, label="order 23", message_class=0x8002, transactional=False),
    message(3, label=f"{{{GUID}}} paid", message_class=0x8000),
    message(4, label="order 4", message_class=0x1234, dest_queue=r"DIRECT=OS:gamma\private$\invoices"),
    {"queue": ORDERS, "seq": 5, "lookup_id": 5, "arrived_time": at(0)},
]


def table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, schema=DEFAULT)


def inventories(spark: SparkSession) -> list[Report]:
    return [inventory_report.report(each, at(3600), "a test") for each in (frame(spark, MESSAGES), table(MESSAGES))]


def audits(spark: SparkSession) -> list[Report]:
    by_spark = audit_report.report(frame(spark, SENT), frame(spark, WORDS), rules(), "a test")
    return [by_spark, audit_report.report(table(SENT), table(WORDS), rules(), "a test")]


def dead_letters(spark: SparkSession) -> list[Report]:
    columns = pa.schema([*DEFAULT, ALL.field("body_kind")])
    rows = pa.Table.from_pylist([row | {"body_kind": "string"} for row in DEAD], schema=columns)
    choices = [deadletters.Choice(), deadletters.Choice(labels=["ORDER*"], reasons=["reach-queue-timeout", "0x1234"])]
    tallies = [
        (
            deadletters.tally(deadletters.chosen(spark.createDataFrame(rows), choice)),
            in_memory.tally(in_memory.chosen(rows, choice)),
        )
        for choice in choices
    ]
    assert [sum(row["messages"] for row in each.reasons) for each in tallies[1]] == [3, 3]
    return [deadletters_report.report(each, now=at(100_000)) for each in tallies[0]]


def traces(spark: SparkSession) -> list[Report]:
    rows = [*STRAIGHT, *OTHER, *HANGING, *RESTING, *LOOPING, *PARTLY, *OTHERS]
    made = [trace_report.report(each, "a test") for each in (frame(spark, rows), table(rows))]
    return [replace(each, made=at(0)) for each in made]


@pytest.mark.parametrize("reports", [inventories, audits, dead_letters, traces])
def test_both_engines_give_the_same_report(
    spark: SparkSession, tmp_path: Path, reports: Callable[[SparkSession], list[Report]]
) -> None:
    by_spark, by_arrow = reports(spark)
    by_spark.write(tmp_path / "spark")
    by_arrow.write(tmp_path / "arrow")
    names = sorted(file.name for file in (tmp_path / "spark").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "arrow").iterdir())
    for name in names:
        assert (tmp_path / "arrow" / name).read_bytes() == (tmp_path / "spark" / name).read_bytes(), name


def test_both_engines_read_the_same_rows_of_archives_and_files(spark: SparkSession, tmp_path: Path) -> None:
    place, file = tmp_path / "archive", tmp_path / "messages.parquet"
    rows = spark.createDataFrame(pa.Table.from_pylist([message(1), message(2)], schema=manifest.MESSAGE))
    archive.archive_batch(rows, str(place), archive.table_of(str(place), "parquet"), manifest.Batch("query", 0))
    write_messages(file, [message(3), message(4)])
    wanted = reading.Wanted([str(place), str(file)], ("queue", "seq", "label", "arrived_time", "body"), {})
    by_spark = wanted.data_frame(spark).toArrow().sort_by("seq")
    by_arrow = reading.read_table(wanted, None).sort_by("seq")
    assert by_arrow.num_rows == 4
    assert by_arrow.to_pylist() == by_spark.cast(by_arrow.schema).to_pylist()
    size = reading.size_of(wanted, None)
    assert size is not None
    assert size.messages == 4
    pq.write_table(pa.table({"seq": [1]}), tmp_path / "bare.parquet")
    with pytest.raises(InvalidParameter, match="has no column 'body_kind', and no column `packet` to decode"):
        reading.read_table(reading.Wanted([str(tmp_path / "bare.parquet")], ("seq", "body_kind"), {}), None)
    with pytest.raises(InvalidParameter, match="is not an archive, or is empty"):
        reading.read_table(reading.Wanted([str(tmp_path / "nowhere")], ("seq",), {}), None)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session can be started."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("waypost.cli.spark.common._session", refuse)


@pytest.mark.usefixtures("without_spark")
def test_small_queues_need_no_spark(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def told(*arguments: str) -> tuple[str, str]:
        result = CliRunner().invoke(app, ["--url", daemon.url, "spark", *arguments, "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)["summary"], result.stderr

    with daemon.connect() as manager:
        queue = manager.create_queue("engines", transactional=True)
        with manager.transaction() as transaction:
            for number in range(3):
                queue.send(f"text {number}", label=f"engine {number}", dead_letter=True, transaction=transaction)
        summary, talk = told("inventory", "engines")
        assert summary.startswith("3 messages of ")
        assert talk.startswith("engine: arrow, because there are 3 messages of 0.0 MiB")
        assert told("inventory", "engines", "--bodies", "--quiet")[1] == ""
        queue.purge()
        dest = ("--dest", "*engines", "--engine", "arrow")
        assert told("deadletters", *dest)[0] == "There are 3 dead-letter messages."
        drop = ("deadletters", "drop", *dest, "--label", "engine 2", "--do")
        assert told(*drop)[0] == "1 of 1 dead-letter message was dropped."
        assert told("deadletters", "park", *dest, "--do")[0] == "2 of 2 dead-letter messages were parked."
        resent = told("deadletters", "resend", "--parked", "parked", "--engine", "arrow", "--do")[0]
        assert resent == "2 of 2 dead-letter messages were sent again."
        assert sorted(each.text for each in queue.browse()) == ["text 0", "text 1"]
        assert told("audit", "engines", "--sent", "engines")[0].startswith("None of 2 messages is lost")


def test_a_large_queue_and_a_cluster_ask_for_spark(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise InvalidParameter("Spark was asked for")

    monkeypatch.setattr("waypost.cli.spark.common._session", start)
    monkeypatch.setattr("waypost.cli.spark.common.SMALL_MESSAGES", 1)
    with daemon.connect() as manager:
        manager.create_queue("engines-large").send_many([b"1", b"2"])

    def ask(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--url", daemon.url, "spark", "inventory", "engines-large", *arguments])

    large = ask().stderr
    assert large.startswith("engine: spark, because there are 2 messages")
    assert "Spark was asked for" in large
    assert "Spark was asked for" in ask("--master", "local[1]").stderr
    refused = ask("--engine", "arrow", "--master", "local[1]")
    assert refused.exit_code == 2
    assert "mutually exclusive with --engine arrow" in refused.stderr
