"""Spark and delta-rs refuse something, or leave it to their caller, in the words that docs/spark.md quotes.

A failing test says that more works now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.late import late

if TYPE_CHECKING:
    from pathlib import Path

    import deltalake
    from deltalake import exceptions
    from pyspark.sql import SparkSession, datasource

    from tests.spark.contract.recorder import Record
else:
    datasource = late("pyspark.sql.datasource")
    deltalake = late("deltalake")
    exceptions = late("deltalake.exceptions")


@pytest.mark.parametrize(
    ("sink", "trigger", "options", "words"),
    [
        ("recorder", {"continuous": "1 second"}, {}, "does not support continuous processing"),
        ("recorder", {"realTime": "10 minutes"}, {}, "is not in the sink allowlist for Real-Time Mode"),
        ("console", {"realTime": "10 minutes"}, {}, "is not supported in Real-time Mode"),
        ("recorder", {"once": True}, {"asyncProgressTrackingEnabled": "true"}, "not support async progress tracking"),
    ],
)
def test_a_stream_with_a_python_source_or_sink_is_refused(
    sink: str, trigger: dict[str, Any], options: dict[str, str], words: str, spark: SparkSession, record: Record
) -> None:
    place = str(record.place)
    stream = spark.readStream.format("recorder").option("place", place).load()
    writer = stream.writeStream.format(sink).options(place=place, checkpointLocation=f"{place}/checkpoint")
    # Spark demands this mode of a stream in real time.
    writer = writer.outputMode("update") if "realTime" in trigger else writer
    with pytest.raises(Exception, match=words):
        writer.options(**options).trigger(**trigger).start().awaitTermination()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka", "deployment section of Structured Streaming . Kafka Integration Guide"),
        ("delta", "Failed to find the data source: delta"),
        ("iceberg", "Failed to find the data source: iceberg"),
    ],
)
def test_pyspark_comes_without_this_connector(name: str, words: str, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=words):
        spark.read.format(name).load("nowhere")


def test_no_catalog_can_be_written_in_python(spark: SparkSession) -> None:
    assert [name for name in dir(datasource) if "catalog" in name.lower()] == []
    # A catalog is a class of Java, so the name of a source is not one.
    spark.conf.set("spark.sql.catalog.queues", "recorder")
    try:
        with pytest.raises(Exception, match=r"(?i)plugin class"):
            spark.sql("SHOW TABLES IN queues").collect()
    finally:
        spark.conf.unset("spark.sql.catalog.queues")


def test_delta_records_the_version_of_an_application_and_does_not_compare_it(tmp_path: Path) -> None:
    def write(table: deltalake.DeltaTable | str, version: int) -> None:
        once = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("application", version)])
        deltalake.write_deltalake(table, pa.table({"number": [version]}), mode="append", commit_properties=once)

    place = str(tmp_path / "table")
    write(place, 1)
    write(place, 1)
    assert deltalake.DeltaTable(place).count() == 2, "the caller must ask for the version before a write"
    assert deltalake.DeltaTable(place).transaction_version("application") == 1
    first, second = deltalake.DeltaTable(place), deltalake.DeltaTable(place)
    write(first, 2)
    with pytest.raises(exceptions.CommitFailedError, match="Concurrent transaction failed"):
        write(second, 2)
