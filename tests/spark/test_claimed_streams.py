"""Streams in the mode `claim` and drain on a real daemon: one claim for each load, lost commits, and lost leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.daemons import patience
from tests.late import late
from tests.spark.test_stream import finish, send
from waypost.spark.options import read_options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.crash.daemons import Daemon
    from waypost.spark import schema, stream_claims
else:
    schema = late("waypost.spark.schema")
    stream_claims = late("waypost.spark.stream_claims")
    errors = late("pyspark.errors")


def load(spark: SparkSession, daemon: Daemon, **options: str) -> DataFrame:
    stream = spark.readStream.format("msmq").options(server=daemon.url, **options)
    return stream.schema("seq long, body binary").load()


def to_parquet(stream: DataFrame, place: Path) -> StreamingQuery:
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(place / "rows"))


def to_queue(stream: DataFrame, daemon: Daemon, place: Path, queue: str) -> StreamingQuery:
    options = {"server": daemon.url, "queue": queue, "checkpointLocation": str(place / "checkpoint")}
    return stream.select("body").writeStream.format("msmq").options(**options).trigger(availableNow=True).start()


def to_nowhere(stream: DataFrame, place: Path) -> StreamingQuery:
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def forget_commit(place: Path, batch: int) -> None:
    for name in (str(batch), f".{batch}.crc"):
        (place / "checkpoint/commits" / name).unlink(missing_ok=True)


def count(daemon: Daemon, queue: str) -> int:
    with daemon.connect() as manager:
        return manager.queue(queue).info().message_count


def test_a_stream_that_is_joined_with_itself_gives_all_rows_and_belongs_to_one_query(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as manager:
        manager.create_queue("claims-join")
    send(daemon, "claims-join", 0, 20)
    stream = load(spark, daemon, queue="claims-join", mode="claim")
    finish(to_parquet(stream.alias("one").join(stream.alias("two"), "seq").select("seq"), tmp_path / "join"))
    assert spark.read.parquet(str(tmp_path / "join/rows")).count() == 20
    assert count(daemon, "claims-join") == 0
    send(daemon, "claims-join", 20, 25)
    with pytest.raises(errors.StreamingQueryException, match=r"belongs to the query .*: call load\(\) again"):
        finish(to_parquet(stream, tmp_path / "second"))
    assert count(daemon, "claims-join") == 5
    finish(to_parquet(load(spark, daemon, queue="claims-join", mode="claim"), tmp_path / "third"))
    assert spark.read.parquet(str(tmp_path / "third/rows")).count() == 5


@pytest.mark.parametrize("mode", ["drain", "claim"])
def test_a_lost_entry_of_the_commit_log_is_repaired_where_the_sink_is_the_daemon(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, mode: str
) -> None:
    source, sink = f"lost-{mode}", f"lost-{mode}-sink"
    with daemon.connect() as manager:
        manager.create_queue(source)
        manager.create_queue(sink, transactional=True)
    send(daemon, source, 0, 10)
    finish(to_queue(load(spark, daemon, queue=source, mode=mode), daemon, tmp_path / "queue", sink))
    assert (count(daemon, source), count(daemon, sink)) == (0, 10)
    forget_commit(tmp_path / "queue", 0)
    send(daemon, source, 10, 12)
    finish(to_queue(load(spark, daemon, queue=source, mode=mode), daemon, tmp_path / "queue", sink))
    assert (count(daemon, source), count(daemon, sink)) == (0, 12)
    # Elsewhere it is an error, and never an empty batch.
    send(daemon, source, 12, 14)
    finish(to_nowhere(load(spark, daemon, queue=source, mode=mode), tmp_path / "elsewhere"))
    forget_commit(tmp_path / "elsewhere", 0)
    with pytest.raises(errors.StreamingQueryException, match=r"are gone|are removed"):
        finish(to_nowhere(load(spark, daemon, queue=source, mode=mode), tmp_path / "elsewhere"))


def test_a_query_goes_on_after_its_lease_and_its_process_ends_with_it(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    """The sink fails in the first batch. Heartbeats keep the claim only as long as the query runs."""
    with daemon.connect() as manager:
        manager.create_queue("claims-lease")
    send(daemon, "claims-lease", 0, 5)
    options = {"queue": "claims-lease", "mode": "claim", "claimLease": "1s"}
    broken = load(spark, daemon, **options).selectExpr("assert_true(seq < 0) AS never", "seq")
    with pytest.raises(errors.StreamingQueryException):
        finish(to_parquet(broken, tmp_path))
    with daemon.connect() as manager, patience(120, "the claim is not released") as turns:
        for _ in turns:
            if not manager.claims("claims-lease"):
                break
    stream = load(spark, daemon, **options).selectExpr("CAST(NULL AS void) IS NULL AS never", "seq")
    finish(to_parquet(stream, tmp_path))
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 5
    assert count(daemon, "claims-lease") == 0


def test_a_write_of_an_application_counts_as_a_commit_of_the_batch_that_reads_the_claim(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    """The query fails after the first of two writes, and is away for longer than its lease."""
    with daemon.connect() as manager:
        manager.create_queue("claims-app")
        manager.create_queue("claims-app-sink", transactional=True)
    send(daemon, "claims-app", 0, 5)
    options = {"server": daemon.url, "queue": "claims-app-sink"}
    fails = [True]

    def write(rows: DataFrame, batch: int) -> None:
        for application in ("first", "second"):
            writer = rows.select("body").write.format("msmq").mode("append").options(**options)
            writer.options(txnAppId=f"{tmp_path} {application}", txnVersion=str(batch)).save()
            if fails.pop():
                raise RuntimeError("between two writes")
            fails.append(False)

    def run() -> StreamingQuery:
        stream = load(spark, daemon, queue="claims-app", mode="claim", claimLease="1s")
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(errors.StreamingQueryException, match="between two writes"):
        finish(run())
    with daemon.connect() as manager, patience(120, "the lease does not end") as turns:
        for _ in turns:
            (claim,) = manager.claims("claims-app")
            if not claim.lease_left_s:
                break
    assert "has committed some of batch 0" in claim.held_by
    fails[:] = [False]
    finish(run())
    assert (count(daemon, "claims-app"), count(daemon, "claims-app-sink")) == (0, 10)


def test_asynchronous_progress_is_refused_where_it_can_be_seen(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as manager:
        manager.create_queue("claims-async", transactional=True)
    with pytest.raises(Exception, match="the option `asyncProgressTrackingEnabled` is refused"):
        finish(to_parquet(load(spark, daemon, queue="claims-async", asyncProgressTrackingEnabled="true"), tmp_path))


def test_the_lag_of_a_claimed_stream_is_that_of_the_free_messages(daemon: Daemon) -> None:
    with daemon.connect() as manager:
        queue = manager.create_queue("claims-lag")
        queue.send(b"x" * 50_000)
        queue.send(b"y")
        size = min(message.size for message in queue.browse())
    options = read_options(
        {"server": daemon.url, "queue": "claims-lag", "mode": "claim", "maxMessagesPerTrigger": "1"}
    )  # fmt: skip
    shape = schema.shape_of(schema.default_schema(options.columns), options.columns)
    reader = stream_claims.ClaimStream(options, shape, "claims-lag")
    try:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        (latest,) = (reader.reportLatestOffset() or {}).values()
    finally:
        reader.stop()
    assert (latest["lag_messages"], latest["lag_bytes"], latest["count"], latest["held"]) == (1, size, 2, 1)
