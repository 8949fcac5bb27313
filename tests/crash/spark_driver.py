"""A Spark driver for tests/crash/spark_campaign.py: queue a -> Spark -> queue b, over and over, until it is killed.

A query that fails because the daemon is away is started again. Where the file `finish` is, it ends when a is empty.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import waypost
from waypost.errors import WaypostError
from waypost.spark.session import session

COLUMNS = "body binary, label string"


class Flaky:
    """Hands rows on; the first attempt of a task fails now and then, with its rows half way through."""

    def __init__(self, share: float) -> None:
        self._share = share

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        fails = context is not None and context.attemptNumber() == 0 and random.random() < self._share
        for batch in batches:
            if fails:
                yield batch.slice(0, batch.num_rows // 2)
                raise RuntimeError("injected failure of a task")
            yield batch


def stream(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    source = (
        spark.readStream.format("msmq")
        .schema(COLUMNS)
        .option("server", arguments.url)
        .option("queue", "a")
        .option("mode", arguments.mode)
        .option("maxMessagesPerTrigger", arguments.rows)
        # A batch that is repeated although it was done has nothing left to read, and the sink remembers it.
        .option("failOnDataLoss", "false")
    )
    return source.load().mapInArrow(Flaky(arguments.failures), COLUMNS)


def run(spark: SparkSession, arguments: argparse.Namespace, *, to_the_end: bool) -> None:
    writer = (
        stream(spark, arguments)
        .writeStream.format("msmq")
        .option("server", arguments.url)
        .option("queue", "b")
        .option("checkpointLocation", arguments.checkpoint)
    )
    query = writer.trigger(availableNow=True).start() if to_the_end else writer.start()
    done = -1
    try:
        while query.isActive and (to_the_end or not arguments.finish.exists()):
            time.sleep(0.1)
            batches = [each["batchId"] for each in query.recentProgress if each["numInputRows"]]
            if not to_the_end and batches and batches[-1] > done:
                done = batches[-1]
                print("working", flush=True)
    finally:
        _stop(query)


def _stop(query: StreamingQuery) -> None:
    error = query.exception()
    query.stop()
    if error is not None:
        raise error


def is_empty(url: str) -> bool:
    with waypost.connect(url) as manager:
        return manager.queue("a").info().message_count == 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--finish", type=Path, required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--failures", type=float, required=True)
    parser.add_argument("--rows", type=int, required=True)
    arguments = parser.parse_args()
    # Tasks may fail: on local[2] one failure would be the end of the job.
    spark = session("waypost-chaos", master="local[2,4]")
    print("ready", flush=True)
    while True:
        is_ending = arguments.finish.exists()
        try:
            run(spark, arguments, to_the_end=is_ending)
            if is_ending and is_empty(arguments.url):
                print("drained", flush=True)
                sys.stdout.close()
                return
        except (PySparkException, WaypostError) as error:
            print(f"again: {str(error)[:2000]}", file=sys.stderr, flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
