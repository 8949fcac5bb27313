"""The exactly-once sink on a real daemon and a real Spark when queues, tasks and checkpoints change under it."""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
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
from waypost.spark.options import write_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyspark
    from pyspark import errors
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.upgrade import make
    from waypost.spark import batch as batch_reading
    from waypost.spark import schema, sink, tasks
else:
    batch_reading = late("waypost.spark.batch")
    errors = late("pyspark.errors")
    make = late("tests.spark.upgrade.make")
    pyspark = late("pyspark")
    schema = late("waypost.spark.schema")
    sink = late("waypost.spark.sink")
    tasks = late("waypost.spark.tasks")


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


def await_staged(url: str, queue: str) -> None:
    """Until something is staged for the queue."""
    with BulkClient(url) as client, patience(60, "nothing was staged") as turns:
        for _ in turns:
            if client.queue(queue).staged:
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
            await_staged(self._url, self._queue)
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
        assert client.queue("again").staged == 0
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
    with pytest.raises(MessageNotFound, match="2 messages were committed instead of 3"):
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
            await_staged(self._url, self._queue)
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
        assert (client.queue("aborted").count, client.queue("aborted").staged) == (0, 0)


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
    with BulkClient(daemon.url) as client:
        assert client.queue("killed").staged == 10
        # A stage is not in the queue, and hides nothing.
        assert client.plan(PlanRange(name="killed")).counts == [1]
    write(spark.range(100).selectExpr(ROWS), daemon, queue="killed", txnId="import-k", runId=str(uuid4()))
    assert numbers(daemon, "killed") == Counter([*range(100), 1000])
    with BulkClient(daemon.url) as client:
        assert client.queue("killed").staged == 0


# Order and room.


class Waiting:
    """The first task goes on when the second has staged its rows."""

    def __init__(self, daemon: Daemon, queue: str) -> None:
        self._url = daemon.url
        self._queue = queue

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        context = pyspark.TaskContext.get()
        assert context is not None
        if context.partitionId() == 0:
            await_staged(self._url, self._queue)
        yield from batches


def test_rows_stand_by_partition_whatever_task_ends_first(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "ordered")
    frame = spark.range(0, 3000, 1, 2).selectExpr(ROWS)
    write(frame.mapInArrow(Waiting(daemon, "ordered"), COLUMNS), daemon, queue="ordered", txnId="ordered")
    assert list(numbers(daemon, "ordered")) == list(range(3000))
    write(spark.range(500).orderBy("id", ascending=False).selectExpr(ROWS), daemon, queue="ordered", txnId="down")
    with daemon.connect() as manager:
        found = [int(message.body) for message in manager.queue("ordered").browse()]
    assert found[3000:] == list(range(499, -1, -1))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_job_that_is_larger_than_its_queue_ends_as_the_queue_is_drained(
    spark: SparkSession, daemon: Daemon, delivery: str
) -> None:
    name = f"small-{delivery}"
    with daemon.connect() as manager:
        manager.create_queue(name, transactional=delivery == "exactly-once", quota_kb=40)
    taken: list[int] = []

    def drain() -> None:
        with daemon.connect() as manager:
            while len(taken) < 500:
                taken.append(int(manager.queue(name).receive(timeout=SECONDS).body[:6]))

    drainer = Thread(target=drain, daemon=True)
    drainer.start()
    rows = spark.range(0, 500, 1, 2).selectExpr("cast(concat(lpad(id, 6, '0'), repeat('x', 1000)) as binary) body")
    write(rows, daemon, queue=name, delivery=delivery, quotaWait="5m")
    drainer.join(SECONDS)
    assert sorted(taken) == list(range(500))
    if delivery == "exactly-once":
        assert taken == list(range(500))


def test_a_job_into_a_full_queue_fails_in_words_and_loses_nothing(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        manager.create_queue("full", transactional=True, quota_kb=4)
    rows = spark.range(0, 10, 1, 1).selectExpr("cast(concat(lpad(id, 6, '0'), repeat('x', 1000)) as binary) body")
    with pytest.raises(errors.PySparkException) as error:
        write(rows, daemon, queue="full", txnId="full", runId=str(uuid4()), quotaWait="1s")
    assert "wait for room in their queue, and no message has entered the queue for 1 seconds" in str(error.value)
    # The next run repeats it, and nothing comes twice.
    with daemon.connect() as manager:
        manager.queue("full").set(quota_kb=400)
    write(rows, daemon, queue="full", txnId="full", runId=str(uuid4()))
    with daemon.connect() as manager:
        assert [int(message.body[:6]) for message in manager.queue("full").browse()] == list(range(10))


# Rows that are not valid.


def test_an_invalid_row_ends_the_job_in_words_or_becomes_a_dead_letter_message(
    spark: SparkSession, daemon: Daemon
) -> None:
    transactional(daemon, "checked")
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "if(id = 700, null, cast(cast(id as string) as binary)) body",
        "if(id = 300, repeat('long', 100), 'fine') label",
        "cast(id % 9 as int) priority",
    )
    for delivery, outcome in (
        ("exactly-once", "nothing was sent"),
        ("at-least-once", "messages of other rows may have been sent"),
    ):
        with pytest.raises(errors.PySparkException) as error:
            write(rows, daemon, queue="checked", delivery=delivery)
        assert "a row of partition " in str(error.value)
        assert f"a priority must be a number from 0 to 7, not 8; {outcome}; correct the row" in str(error.value)
    assert numbers(daemon, "checked") == Counter()
    write(rows, daemon, queue="checked", onInvalid="deadletter")
    bad = {row for row in range(1000) if row % 9 == 8} | {300, 700}
    assert numbers(daemon, "checked") == Counter(set(range(1000)) - bad)
    with daemon.connect() as manager:
        dead = list(manager.queue("system$;deadxact").browse())
    assert {int(message.body or b"700") for message in dead} == bad
    reasons = {message.extension.decode().partition(": ")[2] for message in dead}
    assert "the body is null" in reasons
    assert any("a label must have at most 249 characters, not 400" in reason for reason in reasons)
    assert {message.message_class for message in dead} == {0xC004}


def test_rows_that_only_the_daemon_can_refuse_are_set_aside_too(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "accepting")
    with daemon.connect() as manager:
        manager.create_queue("plain")
    whole = "cast(cast(id as string) as binary)"
    rows = spark.range(0, 400, 1, 2).selectExpr(
        # The headers of the message do not fit beside it.
        f"if(id = 120, cast(repeat('x', 4194304) as binary), {whole}) body",
        "if(id = 30, cast(repeat('x', 5000000) as binary), null) extension",
        "case id % 100 when 7 then 'nowhere' when 8 then 'plain' when 9 then 'accepting,nowhere' else 'accepting' end"
        " dest_queue",
    )
    with pytest.raises(errors.PySparkException) as error:
        write(rows.where("id % 100 = 7").coalesce(1), daemon)
    assert "a row of partition 0 is not valid (row 0, counted from 0): the column `dest_queue` has the value" in str(
        error.value
    )
    assert "'nowhere': " in str(error.value)
    assert "nothing was sent; correct the row" in str(error.value)
    with daemon.connect() as manager:
        before = {message.id for message in manager.queue("system$;deadxact").browse()}
    for _ in range(2):
        write(rows, daemon, onInvalid="deadletter", txnAppId="set aside", txnVersion="1")
    bad = {row for row in range(400) if row % 100 in (7, 8, 9)} | {30, 120}
    assert numbers(daemon, "accepting") == Counter(set(range(400)) - bad)
    with daemon.connect() as manager:
        dead = [each for each in manager.queue("system$;deadxact").browse() if each.id not in before]
        assert not list(manager.queue("plain").browse())
    assert Counter(int(each.body) if each.body.isdigit() else 120 for each in dead) == Counter(bad)
    reasons = {int(each.body) if each.body.isdigit() else 120: each.extension.decode() for each in dead}
    assert "4194304" in reasons[120]
    assert "the extension has 5000000 bytes" in reasons[30]
    assert "'nowhere'" in reasons[107]
    assert "not transactional" in reasons[208]
    assert "'accepting,nowhere'" in reasons[309]


def test_rows_that_a_queue_refuses_are_set_aside_at_least_once_too(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        manager.create_queue("willing")
        before = {message.id for message in manager.queue("system$;deadxact").browse()}
    rows = spark.range(0, 20, 1, 1).selectExpr(
        "if(id = 3, repeat('x', 3000000), cast(id as string)) body",
        "if(id = 5, 'nowhere', null) dest_queue",
    )
    write(rows, daemon, queue="willing", delivery="at-least-once", onInvalid="deadletter")
    with daemon.connect() as manager:
        assert [int(each.text) for each in manager.queue("willing").browse()] == [
            row for row in range(20) if row not in (3, 5)
        ]
        dead = [each for each in manager.queue("system$;deadxact").browse() if each.id not in before]
    reasons = sorted(each.extension.decode() for each in dead)
    assert len(reasons) == 2
    assert "the body has 6000000 bytes" in reasons[0]
    assert "'nowhere'" in reasons[1]


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
        assert "is already committed with 10 messages, so this write is refused" in str(error.value)
        assert "use another txnId" in str(error.value)
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
    assert "use another txnId" in str(run("one", "one").exception())
    assert numbers(daemon, "each-go") == Counter(range(10))
    # The batch is repeated by another run.
    assert run("one", "two").exception() is None
    assert numbers(daemon, "each-go") == Counter([*range(10), *range(10)])


def test_writes_of_foreach_batch_are_exactly_once_without_any_name(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    transactional(daemon, "twice", "once")
    with daemon.connect() as manager:
        manager.create_queue("twice-come").send_many([str(number).encode() for number in range(10)])

    def run(*, fails: bool) -> StreamingQuery:
        def each(frame: DataFrame, _batch: int) -> None:
            write(frame, daemon, queue="twice")
            write(frame, daemon, queue="once")
            write(frame.limit(0), daemon, queue="twice")
            if fails:
                raise RuntimeError("between two writes")
            write(frame.selectExpr("cast(concat('1', cast(body as string)) as binary) body"), daemon, queue="twice")

        written = stream(spark, daemon, "twice-come").writeStream.foreachBatch(each)
        query = written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        with suppress(errors.PySparkException):
            assert query.awaitTermination(SECONDS)
        return query

    assert "between two writes" in str(run(fails=True).exception())
    assert numbers(daemon, "twice") == Counter(range(10))
    for fails in (True, False):
        assert (run(fails=fails).exception() is None) != fails
    # The batch is done, and its record is lost.
    for name in ("0", ".0.crc"):
        (tmp_path / "commits" / name).unlink(missing_ok=True)
    assert run(fails=False).exception() is None
    assert numbers(daemon, "twice") == Counter([*range(10), *(int(f"1{number}") for number in range(10))])
    assert numbers(daemon, "once") == Counter(range(10))


def test_a_version_at_or_below_the_last_one_of_its_application_is_skipped(spark: SparkSession, daemon: Daemon) -> None:
    transactional(daemon, "versions")
    for version, first in ((3, 0), (3, 100), (2, 100), (4, 10)):
        frame = spark.range(first, first + 10).selectExpr(ROWS)
        write(frame, daemon, queue="versions", txnAppId="etl", txnVersion=str(version))
    assert numbers(daemon, "versions") == Counter(range(20))


class Context:
    def __init__(self, **properties: str) -> None:
        self._properties = {
            "sql.streaming.queryId": properties.get("query"),
            "sql.streaming.runId": properties.get("run"),
            "spark.jobGroup.id": properties.get("group"),
            "streaming.sql.batchId": properties.get("batch"),
            "spark.sql.execution.id": properties.get("execution"),
        }

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802, the name is Spark's
        return self._properties[name]


def test_the_run_of_a_task_is_that_of_its_query_or_is_not_known() -> None:
    query, one, two = (str(uuid4()) for _ in range(3))
    known: Callable[[Any], str] = tasks.run_of
    assert known(Context(query=query, run=one, group=two)) == one
    assert known(Context(query=query, group=two)) == two
    assert known(Context(query=query, group="mine")) == ""
    assert known(Context(query=query)) == ""
    # Outside of a query, whoever has named the group.
    assert known(Context(group=two)) == ""
    assert known(None) == ""


def test_the_name_of_a_write_is_that_of_the_user_or_of_the_batch_of_its_query() -> None:
    query, run = str(uuid4()), str(uuid4())
    inside: Any = Context(query=query, run=run, batch="7", execution="41")

    def name(context: Any, **given: str) -> sink.Name:
        return sink.name_of(write_options({"queue": "q", **given}), context)

    assert name(inside) == sink.Name(query, 7, run, write="41")
    # The daemon connects a write with another name with the batch of the query.
    within = tasks.QueryTask(query, 7, run, "41")
    assert name(inside, txnId="mine") == sink.Name("mine", 0, run, within=within)
    version = sink.Name("txnAppId a", 5, is_version=True)
    assert name(inside, txnAppId="a", txnVersion="5") == replace(version, within=within)
    assert name(Context(), txnAppId="a", txnVersion="5") == version
    for context in (None, Context(), Context(query=query, batch="7", execution="41")):
        assert name(context).is_anonymous


# From one version to the next.


@pytest.fixture
def upgraded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon on the folder that an older version left in the middle of its queries; see tests/spark/upgrade."""
    name = getattr(request, "param", "interrupted")
    with tarfile.open(Path(__file__).parent / f"upgrade/{name}.tar.gz") as archive:
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


@pytest.mark.parametrize("upgraded", ["modes"], indirect=True)
@pytest.mark.parametrize("query", ["claimed", "drained"])
def test_queries_that_remove_messages_go_on_over_an_upgrade(
    spark: SparkSession, upgraded: Daemon, tmp_path: Path, query: str
) -> None:
    with upgraded.connect() as manager:
        manager.queue(f"come-{query}").send_many([f"{query} {number}".encode() for number in range(20, 25)])
    given = {"server": upgraded.url, "queue": f"come-{query}", **make.options_of(query)}
    rows = spark.readStream.format("msmq").options(**given).schema("body binary, label string").load()
    assert start(rows, upgraded, f"go-{query}", tmp_path / query).exception() is None
    with upgraded.connect() as manager:
        found = [message.body.decode() for message in manager.queue(f"go-{query}").browse()]
        assert Counter(found) == Counter(f"{query} {number}" for number in range(25))
        assert manager.queue(f"come-{query}").info().message_count == 0
