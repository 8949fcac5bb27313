"""Streams of format("msmq") from a real daemon, with Spark's own checkpoints."""

from __future__ import annotations

import urllib.request
from collections import Counter
from queue import SimpleQueue
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import waypost.spark
from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import listener as events
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.crash.daemons import Daemon
    from waypost.spark import lag
else:
    events = late("pyspark.sql.streaming.listener")
    lag = late("waypost.spark.lag")
    errors = late("pyspark.errors")


def start(spark: SparkSession, daemon: Daemon, place: Path, **options: str) -> StreamingQuery:
    """Rows go to Parquet, all that is there now and no more."""
    source = (
        spark.readStream.format("msmq")
        .options(server=daemon.url, **options)
        .schema("queue string, seq long, body binary")
    )
    return (
        source.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "rows"))
    )


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(300)
    failure = query.exception()
    if failure is not None:
        raise failure


def rows(spark: SparkSession, place: Path) -> Counter[bytes]:
    return Counter(bytes(row.body) for row in spark.read.parquet(str(place / "rows")).collect())


def left(daemon: Daemon, queue: str) -> int:
    with daemon.connect() as manager:
        return manager.queue(queue).info().message_count


def expected(stop: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(stop))


def send(daemon: Daemon, queue: str, begin: int, stop: int) -> None:
    with daemon.connect() as manager:
        manager.queue(queue).send_many([b"%d" % number for number in range(begin, stop)])


@pytest.mark.parametrize("mode", ["peek", "drain", "claim"])
def test_runs_go_on_where_the_last_one_ended(spark: SparkSession, daemon: Daemon, tmp_path: Path, mode: str) -> None:
    name = f"stream-{mode}"
    with daemon.connect() as manager:
        manager.create_queue(name)
    send(daemon, name, 0, 50)
    query = start(spark, daemon, tmp_path, queue=name, mode=mode, maxMessagesPerTrigger="30")
    finish(query)
    batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert batches == [30, 20]
    assert rows(spark, tmp_path) == expected(50)
    # Peek takes nothing; the others have taken the last batch too.
    assert left(daemon, name) == (50 if mode == "peek" else 0)
    send(daemon, name, 50, 60)
    finish(start(spark, daemon, tmp_path, queue=name, mode=mode))
    assert rows(spark, tmp_path) == expected(60)
    assert left(daemon, name) == (60 if mode == "peek" else 0)


def test_a_queue_that_was_created_again_stops_a_strict_query(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as manager:
        manager.create_queue("stream-again")
        send(daemon, "stream-again", 0, 3)
        finish(start(spark, daemon, tmp_path, queue="stream-again"))
        manager.delete_queue("stream-again")
        manager.create_queue("stream-again")
    send(daemon, "stream-again", 3, 5)
    with pytest.raises(
        errors.StreamingQueryException, match="was deleted, or deleted and created again, after the query"
    ):
        finish(start(spark, daemon, tmp_path, queue="stream-again", failOnDataLoss="true"))
    finish(start(spark, daemon, tmp_path, queue="stream-again", failOnDataLoss="false"))
    assert rows(spark, tmp_path) == expected(5)


def test_a_queue_that_is_added_by_a_run_without_messages_is_read_from_there_by_the_next_run(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as manager:
        for name in ("stream-old", "stream-new"):
            manager.create_queue(name)
    send(daemon, "stream-old", 0, 2)
    send(daemon, "stream-new", 90, 92)
    finish(start(spark, daemon, tmp_path, queue="stream-old"))
    both = {"queues": "stream-old,stream-new", "startingOffsets": '{"stream-old": -2, "stream-new": -1}'}
    finish(start(spark, daemon, tmp_path, **both))
    send(daemon, "stream-new", 2, 4)
    finish(start(spark, daemon, tmp_path, **both))
    assert rows(spark, tmp_path) == expected(4)


def test_the_lag_of_a_query_is_in_its_progress_and_in_metrics(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as manager:
        name = manager.create_queue("stream-lag").format_name
    send(daemon, "stream-lag", 0, 9)
    query = start(spark, daemon, tmp_path, queue="stream-lag", maxMessagesPerTrigger="4")
    finish(query)
    reports = [list(lag.lags(progress)) for progress in query.recentProgress]
    first = reports[0][0]
    assert (first.messages, first.rows, first.queue.lower()) == (5, 4, name.lower())
    assert first.bytes > 5 * 100
    assert 0 <= first.seconds < 3600
    assert reports[-1][0].messages == 0
    assert '"rows": 9' in str(query.recentProgress[0].sources[0].latestOffset)
    listener = waypost.spark.LagListener()
    listener.onQueryProgress(events.QueryProgressEvent(query.recentProgress[0]))
    port = listener.serve()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        listener.close()
    queue = first.queue.replace("\\", "\\\\")
    assert f'waypost_spark_lag_messages{{query="{query.id}",queue="{queue}"}} 5\n' in text
    listener.onQueryTerminated(events.QueryTerminatedEvent(UUID(query.id), UUID(query.runId), None, None))
    assert listener.lags() == []


@pytest.fixture
def told(spark: SparkSession) -> Iterator[tuple[waypost.spark.LagListener, SimpleQueue[None]]]:
    """A listener, and an item for each report of Spark."""
    reports: SimpleQueue[None] = SimpleQueue()

    class Listener(lag.LagListener):  # type: ignore[misc, name-defined, unused-ignore]
        def onQueryIdle(self, event: events.QueryIdleEvent) -> None:  # noqa: N802, the name is Spark's
            super().onQueryIdle(event)
            reports.put(None)

    listener = Listener()
    spark.streams.addListener(listener)
    yield listener, reports
    spark.streams.removeListener(listener)


def watched(spark: SparkSession, daemon: Daemon, place: Path, **options: str) -> StreamingQuery:
    source = spark.readStream.format("msmq").options(server=daemon.url, startingOffsets="earliest", **options).load()
    return source.writeStream.format("noop").option("checkpointLocation", str(place)).start()


def test_the_lag_of_a_query_that_waits_for_more_messages_is_a_metric_before_its_first_batch(
    spark: SparkSession,
    daemon: Daemon,
    tmp_path: Path,
    told: tuple[waypost.spark.LagListener, SimpleQueue[None]],
) -> None:
    listener, reports = told
    with daemon.connect() as manager:
        manager.create_queue("stream-few")
    send(daemon, "stream-few", 0, 50)
    query = watched(spark, daemon, tmp_path, queue="stream-few", minMessagesPerTrigger="100")
    try:
        reports.get(timeout=300)
        assert [(each.messages, each.behind) for each in listener.lags()] == [(50, 0)]
    finally:
        query.stop()


def test_messages_that_a_locked_one_holds_back_are_a_metric(
    spark: SparkSession,
    daemon: Daemon,
    tmp_path: Path,
    told: tuple[waypost.spark.LagListener, SimpleQueue[None]],
) -> None:
    listener, reports = told
    with daemon.connect() as manager:
        queue = manager.create_queue("stream-behind", transactional=True)
        with manager.transaction() as transaction:
            queue.send_many([b"%d" % number for number in range(36)], transaction=transaction)
        with manager.transaction() as transaction:
            queue.receive(0, transaction=transaction)
            query = watched(spark, daemon, tmp_path, queue="stream-behind")
            try:
                reports.get(timeout=300)
                assert [(each.messages, each.behind) for each in listener.lags()] == [(0, 36)]
                assert "waypost_spark_lag_behind{" in listener.text()
            finally:
                query.stop()
            transaction.abort()
