"""The example of a streaming ETL to Delta and back goes on where it ended, and repeats nothing."""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING

import waypost.spark
from tests.crash.daemons import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from tests.crash.daemons import Daemon

EXAMPLE = str(ROOT / "examples/spark_delta.py")


def test_orders_are_in_the_table_once_and_have_one_invoice_each_version_after_a_lost_commit(
    spark: SparkSession,
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WAYPOST_URL", daemon.url)
    monkeypatch.setattr(waypost.spark, "session", lambda _: spark)
    monkeypatch.setattr(sys, "argv", [EXAMPLE, str(tmp_path)])
    runpy.run_path(EXAMPLE)
    assert capsys.readouterr().out.splitlines() == [
        "versions of the table: 2",
        "orders in the table: 30",
        "orders in the queue: 0",
        "invoices: 6",
    ]
    # As if the driver had ended between the commit of Delta and that of Spark.
    commits = tmp_path / "checkpoint/commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    runpy.run_path(EXAMPLE)
    assert capsys.readouterr().out.splitlines() == [
        "batch 1 is already in the table",
        "versions of the table: 4",
        "orders in the table: 60",
        "orders in the queue: 0",
        "invoices: 12",
    ]
