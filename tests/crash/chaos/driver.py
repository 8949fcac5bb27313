"""The Spark programs of the chaos campaign: queue `in` -> Spark -> queues b and c, until they are killed.

A query that fails, because the daemon or a worker was killed, is started again with the same program and checkpoint.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.crash.chaos.legs import EVEN, LEGS, ODD, SOURCE, STAGE_LEASE_S
from tests.crash.chaos.points import Plot, Point, Victim, plot_here
from tests.spark.clusters import SHORT_LIVED
from waypost.client.bulk.client import BulkClient
from waypost.errors import WaypostError
from waypost.spark import purge, session

COLUMNS: Final = "body binary, label string"
ROWS: Final = 50
PARTITIONS: Final = 2
TRIGGER: Final = "100 milliseconds"
AGAIN_SECONDS: Final = 0.3

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.log.level": "WARN",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}


class Program:
    def __init__(self, spark: SparkSession, arguments: argparse.Namespace, plot: Plot) -> None:
        self._spark: Final = spark
        self._plot: Final = plot
        self._name: Final[str] = arguments.leg
        self._url: Final[str] = arguments.url
        self._place: Final[Path] = arguments.place
        self._lease_s: Final[int | None] = arguments.lease

    def run(self) -> None:
        """Work until an error."""
        if self._name == "batch":
            while True:
                self._batch()
        self._start().awaitTermination()

    # --- Streams

    def _start(self) -> StreamingQuery:
        source = self._source("drain" if self._name == "drain" else "claim")
        if self._name == "foreachbatch":
            writer = source.writeStream.foreachBatch(self._writes)
        else:
            options = self._sink | ({} if self._name == "union" else {"queue": "b"})
            writer = self._rows(source).writeStream.format("msmq").options(**options)
        checkpoint = str(self._place / "checkpoint")
        return writer.option("checkpointLocation", checkpoint).trigger(processingTime=TRIGGER).start()

    def _source(self, mode: str) -> DataFrame:
        reader = self._spark.readStream.format("msmq").schema(COLUMNS)
        options = {"server": self._url, "queue": SOURCE, "mode": mode, "minPartitions": str(PARTITIONS)}
        if mode == "claim" and self._lease_s is not None:
            # The same messages are released over and over here.
            options |= {"claimLease": f"{self._lease_s}s", "claimMaxAborts": "0"}
        return reader.options(**options).option("maxMessagesPerTrigger", ROWS).load()

    def _rows(self, source: DataFrame) -> DataFrame:
        if self._name == "join":
            return source.alias("one").join(source.alias("other"), "body").selectExpr("body", "one.label")
        if self._name == "union":
            return source.selectExpr("*", "'b' AS dest_queue").unionAll(source.selectExpr("*", "'c' AS dest_queue"))
        return source

    def _writes(self, rows: DataFrame, batch: int) -> None:
        """Two writes to one queue, and one to another."""
        for number, (which, queue) in enumerate(((f"label = '{EVEN}'", "b"), (f"label = '{ODD}'", "b"), ("true", "c"))):
            if number == 1 + batch % 2:
                self._plot.reach(Point.BETWEEN)
            self._writer(rows.where(which), queue).save()

    def _writer(self, rows: DataFrame, queue: str) -> DataFrameWriter:
        return rows.write.format("msmq").mode("append").options(**self._sink, queue=queue)

    @property
    def _sink(self) -> dict[str, str]:
        """A batch whose messages were given back is repeated without them, and its old stages wait for their lease."""
        return {"server": self._url} | ({} if self._lease_s is None else {"stageLease": f"{STAGE_LEASE_S}s"})

    # --- Batches

    def _batch(self) -> None:
        """Move the messages of one version: a range that is written down before, so that a repetition has the same."""
        job = self._place / "job.json"
        version, up_to, is_open = json.loads(job.read_bytes()) if job.exists() else (0, 0, False)
        if not is_open:
            with BulkClient(self._url) as client:
                while not client.queue(SOURCE).count:
                    time.sleep(0.1)
                version, up_to = version + 1, client.queue(SOURCE).stable
            _replace(job, [version, up_to, True])
        source = self._spark.read.format("msmq").schema(COLUMNS).options(server=self._url, queue=SOURCE)
        ending = json.dumps({SOURCE: up_to})
        rows = source.options(endingOffsets=ending, minPartitions=str(PARTITIONS)).load()
        self._writer(rows, "b").options(txnAppId="chaos", txnVersion=str(version)).save()
        self._plot.reach(Point.PURGE)
        purge(SOURCE, up_to, server=self._url)
        _replace(job, [version, up_to, False])


def _replace(path: Path, content: object) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.rename(path)


def _end_with(process: int) -> None:
    """End this process when that one has ended: without its JVM, Python may wait for it."""
    while True:
        try:
            status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        except OSError:
            break
        if "State:\tZ" in status:
            break
        time.sleep(0.1)
    os._exit(3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("leg", choices=LEGS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--lease", type=int)
    parser.add_argument("--master", required=True)
    parser.add_argument("--settings", type=json.loads, default={})
    arguments = parser.parse_args()
    plot = plot_here()
    assert plot is not None
    spark = session("waypost-chaos", master=arguments.master, conf={**SETTINGS, **arguments.settings})
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    plot.name(Victim.JVM, java)
    Thread(target=_end_with, args=(java,), daemon=True).start()
    print("ready", file=sys.stderr, flush=True)
    program = Program(spark, arguments, plot)
    while True:
        try:
            program.run()
        except (PySparkException, Py4JJavaError, WaypostError) as error:
            print(f"again: {str(error)[:4000]}", file=sys.stderr, flush=True)
            time.sleep(AGAIN_SECONDS)


if __name__ == "__main__":
    main()
