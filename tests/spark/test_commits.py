"""The exactly-once sink on a real daemon and a real Spark when queues, tasks and checkpoints change under it."""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

import waypost
from tests.crash.daemons import Daemon, loopback, patience
from tests.late import late
from waypost.api.bulk import PlanRange, StagedMessages
from waypost.api.properties import MessageProperties
from waypost.client.bulk.client import BulkClient
from waypost.errors import MessageNotFound
from waypost.spark.options import read_options, write_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyspark
    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.upgrade import make
    from waypost.spark import batch as batch_reading
    from waypost.spark import schema, sink
else:
    batch_reading = late("waypost.spark.batch")
    errors = late("pyspark.errors")
    make = late("tests.spark.upgrade.make")
    pyspark = late("pyspark")
    schema = late("waypost.spark.schema")
    sink = late("waypost.spark.sink")


SECONDS = 300
ROWS = "cast(cast(id as string) as binary) body"
COLUMNS = "body binary"


def transactional(daemon: Daemon, *names: str) -> None:
    with daemon.connect() as manager:
        for name in names:
            manager.create_queue(name, transactional=True)


def write(frame: DataFrame, daemon: Daemon, **options: str) -> None:
    frame.write.format("msmq").mode("append").options(server=daemon.url, **options).save()


def numbers(daemon: Daemon, queue: str) -> Counter[int]:
    """Messages of a queue, by the numbers in the bodies."""
    with daemon.connect() as manager:
        return Counter(int(message.body) for message in manager.queue(queue).browse())


def stream(spark: SparkSession, daemon: Daemon, come: str) -> DataFrame:
    given = {"server": daemon.url, "queue": come}
    return spark.readStream.format("msmq").options(**given).schema(COLUMNS).load()


def start(rows: DataFrame, daemon: Daemon, go: str, checkpoint: Path) -> StreamingQuery:
    options = {"server": daemon.url, "queue": go, "checkpointLocation": str(checkpoint)}
    query = rows.writeStream.format("msmq").options(**options).trigger(availableNow=True).start()
    # The exception of the query is told by itself.
    with suppress(errors.PySparkException):
        assert query.awaitTermination(SECONDS)
    return query


def await_held(url: str, queue: str) -> None:
    """Until something is staged for the queue."""
    with BulkClient(url) as client, patience(60, "nothing was staged") as turns:
        for _ in turns:
            if client.queue(queue).held:
                return


# Queues that are deleted or created again.


class Recreating:
    """The first task goes on; the second waits until that has staged its rows, and creates the queue again."""

    def __init__(self, daemon: Daemon, queue: str) -> None:
        self._url = daemon.url
        self._queue = queue

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        context = pyspark.TaskContext.get()
        assert context is not None
        if context.partitionId() == 1:
            await_held(self._url, self._queue)
            with waypost.connect(self._url) as manager:
                manager.delete_queue(self._queue)
                manager.create_queue(self._queue, transactional=True)
        yield from batches


def test_rows_do_not_vanish_with_a_queue_that_is_created_again(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "again")
    frame = spark.range(0, 2000, 1, 2).selectExpr(ROWS)
    with pytest.raises(errors.PySparkException) as error:
        write(frame.mapInArrow(Recreating(daemon, "again"), COLUMNS), daemon, queue="again", txnId="recreated")
    assert "again was deleted, or deleted and created again, after messages were staged for it" in str(error.value)
    assert numbers(daemon, "again") == Counter()
    with BulkClient(daemon.url) as client:
        assert client.queue("again").held == 0
    # Nothing is taken for done.
    write(frame, daemon, queue="again", txnId="recreated")
    assert numbers(daemon, "again") == Counter(range(2000))


def test_the_driver_counts_what_is_committed(daemon: Daemon) -> None:
    """A daemon that commits less than was staged is not believed."""
    transactional(daemon, "counted")
    options = write_options({"server": daemon.url, "queue": "counted"})
    with BulkClient(daemon.url) as client:
        group = StagedMessages(queue="counted", like=MessageProperties(), bodies=[b"1", b"2"])
        stage = client.stage("counting", 0, [group], destination="counted")
    with pytest.raises(MessageNotFound, match="2 messages were committed for 3 rows; some are missing"):
        sink._commit(options, [sink.Written(sink.Name("counting", 0), (stage,), 3)])


# Tasks that die.


class Killing:
    """Hands on so many rows that the sink stages some, and then kills all other Python workers: the sink is one."""

    def __init__(self, daemon: Daemon, queue: str) -> None:
        self._url = daemon.url
        self._queue = queue

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for _ in batches:
            # The second pushes the first out of the buffers on the way.
            for _ in range(2):
                yield pa.RecordBatch.from_pydict({"body": [b"0"] * 50_000})
            await_held(self._url, self._queue)
            for worker in _siblings():
                os.kill(worker, signal.SIGKILL)
            raise RuntimeError("the workers are killed")


def _siblings() -> list[int]:
    """Processes of the same parent."""
    parent, found = os.getppid(), []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


def test_what_a_killed_task_has_staged_goes_with_its_job(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "aborted")
    killing = spark.range(0, 1, 1, 1).selectExpr(ROWS).mapInArrow(Killing(daemon, "aborted"), COLUMNS)
    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
        write(killing, daemon, queue="aborted")
    with BulkClient(daemon.url) as client:
        assert client.queue("aborted").count == 0


def test_what_a_killed_run_has_staged_hides_nothing_after_the_next_one(
    spark: SparkSession, daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver died too, so that nobody has dropped the stage."""
    transactional(daemon, "killed")
    with BulkClient(daemon.url) as client:
        group = StagedMessages(queue="killed", like=MessageProperties(), bodies=[b"0"] * 10)
        assert client.stage("import-k", 0, [group], destination="killed", run=str(uuid4()))
    with daemon.connect() as manager, manager.transaction() as transaction:
        manager.queue("killed").send(b"1000", transaction=transaction)
    # The orphan hides it, and readers are told.
    with BulkClient(daemon.url) as client:
        queue = client.queue("killed")
        assert (queue.held, queue.behind) == (10, 1)
        assert f"staged for batch 0 of the query import-k to {queue.path.lower()}" in queue.held_by
        assert client.plan(PlanRange(name="killed")).counts == []
    options = read_options({"server": daemon.url, "queue": "killed"})
    reader = batch_reading.BatchReader(
        options, schema.shape_of(schema.default_schema(options.columns), options.columns)
    )
    assert reader.partitions() == []
    said = [record.getMessage() for record in caplog.records]
    assert any("ends early" in each and queue.held_by in each for each in said)
    write(spark.range(100).selectExpr(ROWS), daemon, queue="killed", txnId="import-k", runId=str(uuid4()))
    assert numbers(daemon, "killed") == Counter([*range(100), 1000])
    with BulkClient(daemon.url) as client:
        assert client.queue("killed").held == 0
        assert client.plan(PlanRange(name="killed")).counts == [101]


# Names of what is written.


def test_a_copied_checkpoint_writes_to_another_queue_what_it_has_written_to_the_first(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    transactional(daemon, "copy-one", "copy-two")
    with daemon.connect() as manager:
        manager.create_queue("copy-come").send_many([str(number).encode() for number in range(100)])
    rows = stream(spark, daemon, "copy-come")
    assert start(rows, daemon, "copy-one", tmp_path / "first").exception() is None
    shutil.rmtree(tmp_path / "first/commits")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    for name, checkpoint in (("copy-two", "copy"), (r".\private$\COPY-ONE", "first")):
        assert start(rows, daemon, name, tmp_path / checkpoint).exception() is None
    assert numbers(daemon, "copy-two") == numbers(daemon, "copy-one") == Counter(range(100))


def test_a_second_write_under_a_txn_id_is_refused_and_never_dropped(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "named", "named-too")
    frame = spark.range(10).selectExpr(ROWS)
    run = str(uuid4())
    write(frame, daemon, queue="named", txnId="nightly", runId=run)
    for options in ({}, {"runId": run}):
        with pytest.raises(errors.PySparkException) as error:
            write(frame, daemon, queue="named", txnId="nightly", **options)
        assert "is committed already, with 10 messages: a second write under its name" in str(error.value)
        assert "needs another txnId" in str(error.value)
    write(frame, daemon, queue="named", txnId="nightly", runId=str(uuid4()))
    write(frame, daemon, queue="named-too", txnId="nightly", runId=run)
    assert numbers(daemon, "named") == numbers(daemon, "named-too") == Counter(range(10))


def test_writes_of_foreach_batch_know_their_run(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    transactional(daemon, "each-go")
    with daemon.connect() as manager:
        manager.create_queue("each-come").send_many([str(number).encode() for number in range(10)])

    def run(*names: str) -> StreamingQuery:
        def each(frame: DataFrame, batch: int) -> None:
            for name in names:
                write(frame, daemon, queue="each-go", txnId=f"{name} {batch}")

        written = stream(spark, daemon, "each-come").writeStream.foreachBatch(each)
        query = written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        with suppress(errors.PySparkException):
            assert query.awaitTermination(SECONDS)
        return query

    # Two writes under one name: the second is refused.
    assert "needs another txnId" in str(run("one", "one").exception())
    assert numbers(daemon, "each-go") == Counter(range(10))
    # The batch is repeated by another run.
    assert run("one", "two").exception() is None
    assert numbers(daemon, "each-go") == Counter([*range(10), *range(10)])


class Context:
    def __init__(self, **properties: str) -> None:
        self._properties = {
            "sql.streaming.queryId": properties.get("query"),
            "sql.streaming.runId": properties.get("run"),
            "spark.jobGroup.id": properties.get("group"),
        }

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802, the name is Spark's
        return self._properties[name]


def test_the_run_of_a_task_is_that_of_its_query_or_is_not_known() -> None:
    query, one, two = (str(uuid4()) for _ in range(3))
    known: Callable[[Any], str] = sink.run_of
    assert known(Context(query=query, run=one, group=two)) == one
    assert known(Context(query=query, group=two)) == two
    assert known(Context(query=query, group="mine")) == ""
    assert known(Context(query=query)) == ""
    # Outside of a query, whoever has named the group.
    assert known(Context(group=two)) == ""
    assert known(None) == ""


# From one version to the next.


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon on the folder that an older version left in the middle of its queries; see tests/spark/upgrade."""
    with tarfile.open(Path(__file__).parent / "upgrade/interrupted.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    with Daemon(tmp_path, make.NAME, loopback(231)) as daemon:
        daemon.start()
        yield daemon


def test_queries_go_on_over_an_upgrade_and_nothing_is_lost_or_doubled(
    spark: SparkSession, upgraded: Daemon, tmp_path: Path
) -> None:
    with BulkClient(upgraded.url) as client:
        assert client.queue("go-staged").held == 5
    for query in make.QUERIES:
        given = {"server": upgraded.url, "queue": f"come-{query}", "maxMessagesPerTrigger": "10", "minPartitions": "2"}
        rows = spark.readStream.format("msmq").options(**given).schema("body binary, label string").load()
        assert start(rows, upgraded, f"go-{query}", tmp_path / query).exception() is None
        with upgraded.connect() as manager:
            found = [message.body.decode() for message in manager.queue(f"go-{query}").browse()]
            assert Counter(found) == Counter(f"{query} {number}" for number in range(20))
    with BulkClient(upgraded.url) as client:
        assert client.queue("go-staged").held == 0
    # A write under a txnId is done, for all destinations.
    frame = spark.range(3).selectExpr(ROWS)
    transactional(upgraded, "elsewhere")
    for name in ("go-import", "elsewhere"):
        write(frame, upgraded, queue=name, txnId=make.IMPORT)
    assert numbers(upgraded, "go-import") == Counter(range(3))
    assert numbers(upgraded, "elsewhere") == Counter()
