"""`waypost spark audit`, `trace` and `inventory` as an operator runs them, on queues of a daemon and on files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests.spark.frames import sent, word
from waypost.arrow.schema import DEFAULT
from waypost.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.crash.daemons import Daemon


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, records: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(records, schema=DEFAULT), path)


def test_an_audit_of_files(spark: SparkSession, files: Path) -> None:
    write(files / "sent.parquet", [sent(1), sent(2)])
    write(files / "admin.parquet", [word(1, 2, 3)])
    result = run("spark", "audit", "./admin.parquet", "--sent", "./sent.parquet")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("1 lost of 2 messages.", "report: waypost-audit/report.html")
    assert "Lost            1      no acknowledgment arrived in time" in lines
    assert result.stderr == "engine: arrow, because the input has 3 messages and 0.0 MiB\n"
    assert (files / "waypost-audit/lost.csv").read_text("utf-8").count("\n") == 2


def test_queues_of_a_daemon(spark: SparkSession, daemon: Daemon, files: Path) -> None:
    with daemon.connect() as manager:
        orders, admin = (manager.create_queue(name) for name in ("audit-orders", "audit-admin"))
        properties: dict[str, Any] = {"acknowledge": "full-reach-queue", "admin_queue": admin.format_name}
        orders.send_many([b"x" * 100] * 3, **properties)
    program = ("--url", daemon.url, "spark")
    audited = run(*program, "audit", "audit-admin", "--sent", "audit-orders", "--json")
    assert audited.exit_code == 0, audited.stderr
    figures = json.loads(audited.stdout)["figures"]
    assert (figures["Sent"], figures["In their queue"], figures["Lost"]) == (3, 3, 0)
    counted = run(*program, "inventory", "audit-orders", "--bodies", "--report", "found", "--json")
    assert counted.exit_code == 0, counted.stderr
    told = json.loads(counted.stdout)
    assert (told["figures"]["Messages"], told["figures"]["Bodies"], told["report"]) == (3, 300, "found/report.html")
    traced = run(*program, "trace", "audit-orders")
    assert traced.stdout.startswith("The report queue contains no reports about traced messages.")
    missing = run(*program, "inventory", "audit-nowhere")
    assert missing.exit_code == 1
    assert "audit-nowhere" in missing.stderr.splitlines()[0]
    assert len(missing.stderr.splitlines()) == 2
    assert "Traceback" not in missing.stderr


def test_what_is_not_there_is_one_sentence(spark: SparkSession, files: Path) -> None:
    gone = run("spark", "trace", "./gone.parquet")
    assert (gone.exit_code, len(gone.stderr.splitlines())) == (2, 2)
    assert "gone.parquet does not exist" in gone.stderr
    gone = run("spark", "trace", "./gone.parquet", "--engine", "spark")
    assert (gone.exit_code, len(gone.stderr.splitlines())) == (1, 2)
    assert "Path does not exist" in gone.stderr
    nobody = run("--url", "http://127.0.0.1:9", "spark", "trace", "reports")
    assert (nobody.exit_code, len(nobody.stderr.splitlines())) == (3, 2)
    assert "127.0.0.1:9" in nobody.stderr
    none = run("spark", "inventory", "./")
    assert none.exit_code == 2
    assert "is not an archive" in none.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "admin", "--lost", "1e12"),
        ("audit", "admin", "--late", "inf"),
        ("audit", "admin", "--late", "nan"),
        ("replay", "a", "--rate", "inf"),
        ("replay", "a", "--rate", "nan"),
    ],
)
def test_a_number_beyond_all_measure_is_a_wrong_option(arguments: tuple[str, ...]) -> None:
    result = run("spark", *arguments)
    assert result.exit_code == 2, result.exception
    assert f"Invalid value for '{arguments[2]}'" in result.stderr
