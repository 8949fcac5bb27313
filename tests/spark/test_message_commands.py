"""The commands of the pipelines that change something, one after the other on a real daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import waypost
from tests.late import late
from tests.spark.pipeline_samples import message, write_messages
from waypost.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.pandas import types

    from tests.crash.daemons import Daemon
    from waypost.spark.pipelines import archive, manifest
else:
    archive = late("waypost.spark.pipelines.archive")
    manifest = late("waypost.spark.pipelines.manifest")
    types = late("pyspark.sql.pandas.types")


COUNT = 5


def do(daemon: Daemon, *arguments: str) -> str:
    """The summary of the report."""
    result = CliRunner().invoke(app, ["--url", daemon.url, "spark", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    summary: str = json.loads(result.stdout)["summary"]
    return summary


def bodies(manager: waypost.Manager, name: str) -> list[str]:
    return sorted(each.text for each in manager.queue(name).browse())


def archived(spark: SparkSession, path: Path, *rows: dict[str, Any]) -> None:
    given = spark.createDataFrame(list(rows), types.from_arrow_schema(manifest.MESSAGE))
    archive.archive_batch(given, str(path), archive.table_of(str(path), "parquet"), manifest.Batch("query", 0))


def test_messages_are_archived_replayed_rescued_and_decoded(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"text {number}" for number in range(COUNT)]
    with daemon.connect() as manager:
        orders = manager.create_queue("commands", transactional=True, journal=True)
        with manager.transaction() as transaction:
            for number, text in enumerate(texts):
                orders.send(text, label=f"order {number}", dead_letter=True, transaction=transaction)
        orders.receive_many(COUNT, 0)

        # With --keep they stay, and are not archived a second time then.
        assert do(daemon, "archive", "archive", "commands;journal", "--keep").startswith("5 messages of 1 queue are in")
        assert bodies(manager, "commands;journal") == texts
        assert do(daemon, "archive", "archive", "commands;journal").startswith(
            "The queues contain no new messages for the archive "
        )
        assert bodies(manager, "commands;journal") == []
        assert do(daemon, "archive", "archive", "--verify").startswith("The only file of ")

        assert do(daemon, "replay", "archive") == "5 messages would be sent; nothing was done."
        again = ("replay", "archive", "--relabel", "again {label}", "--check")
        assert do(daemon, *again, "--do") == "All 5 messages were sent once."
        assert (
            do(daemon, *again, "--do")
            == "All 5 messages were sent by an earlier run; to send the same messages again, use another --id."
        )
        assert bodies(manager, "commands") == texts
        assert sorted(each.label for each in orders.browse()) == [f"again order {number}" for number in range(COUNT)]

        orders.purge()
        dest = ("--dest", "*commands")
        assert do(daemon, "deadletters", *dest) == "There are 5 dead-letter messages."
        dry_run = "5 dead-letter messages would be sent again; nothing was done."
        assert do(daemon, "deadletters", "resend", *dest) == dry_run
        drop = ("deadletters", "drop", *dest, "--label", "again order 4", "--reason", "q-purged", "--do")
        assert do(daemon, *drop) == "1 of 1 dead-letter message was dropped."
        assert do(daemon, "deadletters", "park", *dest, "--do") == "4 of 4 dead-letter messages were parked."
        assert bodies(manager, "parked") == texts[:4]
        resent = do(daemon, "deadletters", "resend", "--parked", "parked", "--do")
        assert resent == "4 of 4 dead-letter messages were sent again."
        assert bodies(manager, "commands") == texts[:4]
        assert bodies(manager, "parked") == []

    assert do(daemon, "decode", "archive", "--as", "archive", "--out", "out", "--format", "json") == (
        "5 messages were decoded; 0 packets are malformed."
    )
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(row["body_text"] for row in rows) == texts


def test_dead_letter_messages_of_both_kinds_are_sent_again_in_one_run(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with daemon.connect() as manager:
        strict, plain = manager.create_queue("both-strict", transactional=True), manager.create_queue("both-plain")
        with manager.transaction() as transaction:
            strict.send("once", dead_letter=True, transaction=transaction)
        plain.send("often", dead_letter=True, time_to_be_received=0)
        strict.purge()
        resent = do(daemon, "deadletters", "resend", "--dest", "*both-*", "--do")
        assert resent == "2 of 2 dead-letter messages were sent again."
        assert (bodies(manager, "both-strict"), bodies(manager, "both-plain")) == (["once"], ["often"])


def test_a_replay_to_another_computer_is_not_looked_for_here(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = message(1, acknowledge=5, admin_queue=None, dest_queue=r"DIRECT=OS:nowhere\private$\orders")
    archived(spark, tmp_path, row)
    # It asks for acknowledgments, but not where to: it is sent all the same.
    assert do(daemon, "replay", ".", "--do", "--check") == "The message was sent once."
    assert (
        "Messages in queues of other computers are not counted" in (tmp_path / "waypost-replay/report.md").read_text()
    )


def packet_with(store: Path, body: bytes) -> bytes:
    with waypost.open(store, name="alpha") as manager:
        queue = manager.create_queue("orders")
        queue.send(body)
        return queue.peek().packet


def test_archives_are_decoded_together_and_tell_kinds_of_bodies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packet = packet_with(tmp_path / "store", b"a body")
    archived(spark, tmp_path / "one", message(1, packet=packet))
    archived(spark, tmp_path / "two", message(2, packet=packet), message(3))
    both = CliRunner().invoke(app, ["spark", "decode", "one", "two", "--as", "archive"])
    assert both.exit_code == 0, both.stderr
    assert both.stdout.startswith("2 messages were decoded; 1 packet is malformed.")

    told = CliRunner().invoke(app, ["spark", "inventory", "./two", "--bodies"])
    assert told.exit_code == 0, told.stderr
    kinds = (tmp_path / "waypost-inventory/kinds.csv").read_text().splitlines()[1:]
    assert sorted(line.split(",")[1] for line in kinds) == ["", "bytes"]

    write_messages(tmp_path / "whole.parquet", [message(1)])
    pq.write_table(pq.read_table(tmp_path / "whole.parquet").drop_columns(["packet"]), tmp_path / "bare.parquet")
    refused = CliRunner().invoke(app, ["spark", "inventory", "./bare.parquet", "--bodies"])
    assert refused.exit_code == 2
    sentence = f"{tmp_path}/bare.parquet has neither a column 'body_kind' nor a column `packet`;"
    assert refused.stderr.splitlines()[1].startswith(sentence)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_decoded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.bin").write_bytes(packet_with(tmp_path / "store", b"a body"))
    result = CliRunner().invoke(app, ["spark", "decode", "gone.pcap", "good.bin", "--out", "out"])
    sentence = "1 message was decoded; 0 packets are malformed; the command could not read these files to their end: "
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{sentence}{tmp_path}/gone.pcap.")
    engine, error = result.stderr.split("\n", 1)
    assert engine == "engine: arrow, because the input has 2 files and 0.0 MiB"
    assert error.startswith(f"{sentence}{tmp_path}/gone.pcap.\nhint: the report describes")
    assert "gone.pcap does not exist" in (tmp_path / "waypost-decode/files.csv").read_text()
    assert list((tmp_path / "out").glob("part-*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("deadletters", "--do"), "the action is missing; specify resend, park or drop"),
        (("deadletters", "drop", "--to", "x"), "--to is only valid with the actions resend and park"),
        (("replay", "a", "--map", "orders"), "'orders' does not have the form FROM=TO"),
        (("replay", "a", "--since", "noon"), "'noon' is not a time such as 2026-03-01T12:00"),
        (("replay", "a", "--map-file", "nothing.csv"), "Cannot read nothing.csv"),
        (("replay", "a", "--id", "../x"), "only letters, digits, underscores, dots and hyphens are allowed"),
        (("replay", "a", "--id", ".."), "the first character must not be a dot or a hyphen"),
        (("archive", "a", "x", "--pattern", "y"), "--pattern and QUEUE are mutually exclusive"),
        (("archive", "a", "x", "--verify"), "Invalid value for QUEUE: QUEUE and --verify are mutually exclusive"),
        (
            ("archive", "a", "--verify", "--pattern", "y"),
            "for --pattern: --pattern and --verify are mutually exclusive",
        ),
        (("archive", "a", "--verify", "--type", "journal"), "for --type: --type and --verify are mutually exclusive"),
        (("archive", "a", "--verify", "--keep"), "for --keep: --keep and --verify are mutually exclusive"),
        (
            ("archive", "a", "--verify", "--format", "parquet"),
            "for --format: --format and --verify are mutually exclusive",
        ),
        (("archive", "a", "--verify", "--batch", "5"), "for --batch: --batch and --verify are mutually exclusive"),
        (
            ("archive", "a", "--verify", "--checkpoint", "c"),
            "for --checkpoint: --checkpoint and --verify are mutually exclusive",
        ),
        (("decode", "a", "--columns", "label"), "for --columns: --columns is only valid with --out"),
        (("decode", "a", "--format", "parquet"), "for --format: --format is only valid with --out"),
        (
            ("decode", "x/part-1.parquet", "--out", "x"),
            "for --out: the input x/part-1.parquet is in this folder and would be deleted",
        ),
        (
            ("decode", "b", "x/y/*", "--out", "./y/../x/"),
            "for --out: the input x/y/* is in this folder and would be deleted",
        ),
        (
            ("decode", "x?/*/part-1", "--out", "xy/out"),
            "for --out: the input x?/*/part-1 is in this folder and would be deleted",
        ),
        (
            ("decode", "{x,y}/part-1", "--out", "x"),
            "for --out: the input {x,y}/part-1 is in this folder and would be deleted",
        ),
        (("decode", "x", "--out", "x"), "for --out: the input x is in this folder and would be deleted"),
        (("inventory", "orders", "--pattern", "a*"), "for --pattern: --pattern and a SOURCE are mutually exclusive"),
    ],
)
def test_what_cannot_be_is_said_before_spark_starts(arguments: tuple[str, ...], sentence: str) -> None:
    result = CliRunner().invoke(app, ["spark", *arguments])
    assert result.exit_code != 0
    assert sentence in result.stderr
