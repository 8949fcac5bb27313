"""Batch reads of format("msmq") from a real daemon."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import waypost.spark
from tests.arrow.test_extension_headers import NSERVICEBUS, NSERVICEBUS_HEADERS, REBUS, REBUS_HEADERS
from tests.crash.daemons import Daemon, loopback
from tests.late import late
from waypost.arrow.schema import DEFAULT
from waypost.errors import AccessDenied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark import errors
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
else:
    errors = late("pyspark.errors")


@pytest.fixture(scope="module")
def sent(daemon: Daemon) -> Iterator[str]:
    """A queue with messages 0 to 99 in two priorities."""
    with daemon.connect() as manager:
        queue = manager.create_queue("batch-read")
        for priority in (3, 5):
            bodies = [f"body {number}" for number in range(50 * (priority == 5), 50 * (priority == 5) + 50)]
            queue.send_many(bodies, label=f"label {priority}", priority=priority)
        yield "batch-read"
        manager.delete_queue("batch-read")


def reader(spark: SparkSession, daemon: Daemon, **options: str) -> DataFrameReader:
    return spark.read.format("msmq").options(server=daemon.url, **options)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.seq for row in frame.select("seq").collect())


def sentence(wrong: DataFrameReader) -> str:
    with pytest.raises(errors.PySparkException) as error:
        wrong.load().collect()
    return str(error.value)


def test_all_messages_are_read_with_all_columns_in_several_partitions(
    spark: SparkSession, daemon: Daemon, sent: str
) -> None:
    frame = reader(spark, daemon, queue=sent, minPartitions="3").load()
    assert frame.columns == DEFAULT.names
    rows = frame.orderBy("seq").collect()
    assert frame.rdd.getNumPartitions() == 3
    assert [bytes(row.body).decode("utf-16-le") for row in rows] == [f"body {number}" for number in range(100)]
    assert {(row.label, row.priority) for row in rows} == {("label 3", 3), ("label 5", 5)}
    assert {row.queue for row in rows} == {rf"DIRECT=OS:{daemon.name}\PRIVATE$\{sent}"}
    assert abs(rows[0].arrived_time.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_schema_of_the_user_is_a_choice_of_columns(spark: SparkSession, daemon: Daemon, sent: str) -> None:
    frame = reader(spark, daemon, queue=sent).schema("label string, seq long").load()
    assert frame.columns == ["label", "seq"]
    assert frame.count() == 100
    wrong = reader(spark, daemon, queue=sent)
    assert "the column `seq` must have the type bigint, not string" in sentence(wrong.schema("seq string"))
    assert "a message has no column 'lable'; did you mean label?" in sentence(wrong.schema("lable string"))


def test_a_range_is_chosen_by_numbers(spark: SparkSession, daemon: Daemon, sent: str) -> None:
    seqs = numbers(reader(spark, daemon, queue=sent).load())
    some = reader(spark, daemon, queue=sent, startingOffsets=f'{{"{sent}": {seqs[9]}}}')
    assert numbers(some.option("endingOffsets", f'{{"{sent}": {seqs[19]}}}').load()) == seqs[10:20]


def test_errors_of_positions_name_the_option_and_a_misspelt_queue_is_refused(
    spark: SparkSession, daemon: Daemon, sent: str
) -> None:
    def wrong(**options: str) -> str:
        return sentence(reader(spark, daemon, queue=sent, **options))

    for start, end, verb in (
        ("startingOffsets", "endingOffsets", "not be"),
        ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "not contain"),
    ):
        for option in (start, end):
            assert f"the option `{option}` has a position for 'other', but this read does not include" in wrong(
                **{option: f'{{"{sent}": 1, "other": 1}}'}
            )
        assert f"the option `{start}` of a batch read must {verb}" in wrong(**{start: f'{{"{sent}": -1}}'})
        assert f"the option `{end}` must {verb}" in wrong(**{end: f'{{"{sent}": -2}}'})
    with daemon.connect() as manager:
        manager.create_queue("batch-second")
    both = reader(spark, daemon, queues=f"{sent},batch-second")
    assert "the option `startingOffsetsByTimestamp` has no position for the queue" in sentence(
        both.option("startingOffsetsByTimestamp", f'{{"{sent}": 1}}')
    )


def test_each_queue_begins_and_ends_at_its_own_time(spark: SparkSession, daemon: Daemon, sent: str) -> None:
    with daemon.connect() as manager:
        manager.create_queue("batch-times").send_many([b"%d" % number for number in range(5)])
    later = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
    frame = reader(
        spark,
        daemon,
        queues=f"{sent},batch-times",
        startingOffsetsByTimestamp=f'{{"{sent}": {later}, "batch-times": 1000}}',
        endingOffsetsByTimestamp=f'{{"{sent}": -1, "batch-times": {later}}}',
    )
    assert [bytes(row.body) for row in frame.load().orderBy("seq").collect()] == [b"0", b"1", b"2", b"3", b"4"]
    swapped = frame.option("startingOffsetsByTimestamp", f'{{"{sent}": "2020-01-01", "batch-times": {later}}}')
    assert swapped.load().count() == 100


def test_headers_of_frameworks_are_a_column(spark: SparkSession, daemon: Daemon) -> None:
    envelope = {
        "messageId": "5b7c",
        "headers": {"tenant": "north"},
        "messageType": ["urn:message:Order"],
        "message": {},
    }
    with daemon.connect() as manager:
        queue = manager.create_queue("batch-headers")
        queue.send(b"1", extension=NSERVICEBUS)
        queue.send(b"2", extension=REBUS)
        queue.send(json.dumps(envelope).encode())
        queue.send(b"4")
    frame = reader(spark, daemon, queue="batch-headers", includeHeaders="true").load()
    found = [row.headers for row in frame.orderBy("seq").collect()]
    pairs = [None if each is None else {header.key: _text(header.value) for header in each} for each in found]
    assert pairs[:2] == [NSERVICEBUS_HEADERS, REBUS_HEADERS]
    assert pairs[2] is not None
    assert pairs[2]["tenant"] == "north"
    assert not pairs[3]


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


def test_filters_of_one_query_do_not_reach_the_next_one_of_the_same_frame(
    spark: SparkSession, daemon: Daemon, sent: str
) -> None:
    frame = reader(spark, daemon, queue=sent).load()
    seqs = numbers(frame)
    assert frame.where(f"seq > {seqs[49]}").count() == 50
    assert frame.count() == 100


def test_messages_are_chosen_by_label_and_class(spark: SparkSession, daemon: Daemon, sent: str) -> None:
    some = reader(spark, daemon, queue=sent, labelPattern="l*5", classes="normal,report", columns="label, seq")
    frame = some.load()
    assert frame.columns == ["label", "seq"]
    assert [row.label for row in frame.collect()] == ["label 5"] * 50
    assert reader(spark, daemon, queue=sent, classes="nack_q_deleted").load().count() == 0
    assert "the option `columns` and a schema are mutually exclusive" in sentence(some.schema("seq long"))


def test_two_actions_see_the_same_messages_and_a_new_load_sees_more(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        queue = manager.create_queue("batch-growing")
        queue.send_many([b"1", b"2"])
        frame = reader(spark, daemon, queue="batch-growing").schema("body binary").load()
        assert frame.count() == 2
        queue.send(b"3")
        assert frame.count() == 2
        again = reader(spark, daemon, queue="batch-growing").load()
        assert again.count() == 3
        last = max(numbers(again.limit(2)))
        assert waypost.spark.purge("batch-growing", last, server=daemon.url) == 2
        assert waypost.spark.purge("batch-growing", last, server=daemon.url) == 0
        assert [message.body for message in queue.browse()] == [b"3"]


def test_queues_are_found_by_pattern_and_type(spark: SparkSession, daemon: Daemon) -> None:
    with daemon.connect() as manager:
        for name in ("pattern-a", "pattern-b"):
            manager.create_queue(name, journal=True).send_many([b"x"] * 2)
        manager.queue("pattern-a").receive(0)
    frame = reader(spark, daemon, queuePattern="pattern-*").load()
    assert {row.queue.rpartition("\\")[2]: row["count"] for row in frame.groupBy("queue").count().collect()} == {
        "pattern-a": 1,
        "pattern-b": 2,
    }
    assert reader(spark, daemon, queuePattern="pattern-*", queueType="journal").load().count() == 1
    assert reader(spark, daemon, queueType="deadletter").load().count() == 0
    assert "no queue of the type message matches the queuePattern 'nothing*'" in sentence(
        reader(spark, daemon, queuePattern="nothing*")
    )


def test_decoded_bodies_and_packets_are_there_if_they_are_asked_for(
    spark: SparkSession, daemon: Daemon, sent: str
) -> None:
    frame = reader(
        spark, daemon, queue=sent, decodeBody="true", includePacket="true", includeBody="false", maxBodyBytes="4"
    ).load()
    row = frame.orderBy("seq").first()
    assert row is not None
    assert (row.body_text, row.body_error) == ("body 0", None)
    assert len(row.packet) > 100
    assert "body" not in frame.columns
    bodies = reader(spark, daemon, queue=sent, maxBodyBytes="4").schema("body binary, body_size long").load()
    assert {(each.body, each.body_size > 4) for each in bodies.collect()} == {(None, True)}


def test_what_is_wrong_is_said_in_one_sentence(spark: SparkSession, daemon: Daemon, sent: str) -> None:
    assert "cannot reach the daemon at http://127.0.0.1:9" in sentence(
        spark.read.format("msmq").options(server="127.0.0.1:9", queue=sent)
    )
    assert "did you mean `queue`?" in sentence(reader(spark, daemon, queu=sent))
    assert "no-such" in sentence(reader(spark, daemon, queue="no-such"))
    assert "a batch read does not remove messages" in sentence(reader(spark, daemon, queue=sent, mode="drain"))


def test_a_token_comes_from_a_file_or_the_session_and_stands_in_no_plan(spark: SparkSession, tmp_path: Path) -> None:
    with Daemon(tmp_path, "guarded", loopback(231), "http.token=open-sesame") as guarded:
        guarded.start()
        file = tmp_path / "token"
        dead_letters = reader(spark, guarded, queueType="deadletter")
        file.write_text("wrong", encoding="utf-8")
        with pytest.raises(AccessDenied, match="token"):
            waypost.spark.purge("system$;deadletter", 1, server=guarded.url, tokenFile=str(file))
        assert "token" in sentence(reader(spark, guarded, queueType="deadletter", tokenFile=str(file)))
        # Driver and executors are of the account of the daemon, and find it without a token.
        assert dead_letters.load().count() == 0
        file.write_text("open-sesame\n", encoding="utf-8")
        assert waypost.spark.purge("system$;deadletter", 1, server=guarded.url, tokenFile=str(file)) == 0
        spark.conf.set("spark.msmq.token", "open-sesame")
        try:
            waypost.spark.register(spark)
            frame = dead_letters.load()
            assert frame.count() == 0
            spark.conf.set("spark.msmq.token", "wrong")
            waypost.spark.register(spark)
            assert "token" in sentence(dead_letters)
        finally:
            spark.conf.unset("spark.msmq.token")
            waypost.spark.register(spark)
        assert "open-sesame" not in str(frame._jdf.queryExecution().toString())
