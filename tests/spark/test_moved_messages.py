"""Drain, and messages that are moved to a queue, to numbers that a batch has planned, read or passed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.late import late
from waypost.errors import MessageNotFound
from waypost.spark.options import read_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.crash.daemons import Daemon
    from waypost import Queue
    from waypost.client.message import Message
    from waypost.spark import schema, stream_ranges
else:
    schema = late("waypost.spark.schema")
    stream_ranges = late("waypost.spark.stream_ranges")


@pytest.fixture
def queue(daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Queue]:
    """A queue with the messages 0 to 3."""
    with daemon.connect() as manager:
        made = manager.create_queue(f"moved-{abs(hash(request.node.name)) % 10**9}")
        made.send_many([b"%d" % number for number in range(4)])
        yield made


class Stream:
    """A drain without Spark, which calls the reader as Spark does."""

    def __init__(self, daemon: Daemon, queue: Queue) -> None:
        options = read_options({"server": daemon.url, "queue": queue.format_name, "mode": "drain"})
        self._given = options, schema.shape_of(schema.default_schema(options.columns), options.columns)
        self.reader = stream_ranges.RangeStream(*self._given)
        self.at: dict[str, Any] = self.reader.initialOffset()

    def begin_again(self) -> None:
        """Start the query again, from the same checkpoint."""
        self.reader.stop()
        self.reader = stream_ranges.RangeStream(*self._given)

    def plan(self) -> dict[str, Any]:
        found = self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())
        return dict(json.loads(json.dumps(found)))

    def read(self, end: dict[str, Any]) -> list[str]:
        parts = self.reader.partitions(self.at, end)
        pages = [page for part in parts for page in self.reader.read(part)]
        return sorted(bytes(body).decode() for page in pages for body in page.column("body").to_pylist())

    def batch(self) -> list[str]:
        end = self.plan()
        found = self.read(end) if end != self.at else []
        self.at = end
        return found


@pytest.fixture
def begun(daemon: Daemon) -> Iterator[Callable[[Queue], Stream]]:
    """Make a stream of a queue, which ends with the test."""
    made: list[Stream] = []

    def begin(queue: Queue) -> Stream:
        made.append(Stream(daemon, queue))
        return made[-1]

    yield begin
    for stream in made:
        stream.reader.stop()


Begun: TypeAlias = "Callable[[Queue], Stream]"


def away(queue: Queue, *which: int) -> list[Message]:
    there = list(queue.browse())
    chosen = [there[each] for each in which]
    for message in chosen:
        queue.move(message, queue.subqueue("sub"))
    return chosen


def back(queue: Queue, messages: list[Message]) -> None:
    for message in messages:
        queue.subqueue("sub").move(message, queue)


@pytest.mark.parametrize("when", ["planned", "read", "restarted"])
def test_a_message_that_is_moved_to_a_drained_range_is_read_by_the_next_batch(
    begun: Begun, queue: Queue, when: str
) -> None:
    moved = away(queue, 1)
    stream = begun(queue)
    end = stream.plan()
    if when == "planned":
        back(queue, moved)
    assert stream.read(end) == ["0", "2", "3"]
    stream.at = end
    if when != "planned":
        back(queue, moved)
    if when == "restarted":
        stream.begin_again()
    assert stream.batch() == ["1"]
    assert [message.text for message in queue.browse()] == ["1"]
    assert stream.batch() == []
    assert queue.info().message_count == 0


def test_a_repeated_batch_leaves_out_a_message_that_was_moved_there_since(begun: Begun, queue: Queue) -> None:
    moved = away(queue, 1)
    stream = begun(queue)
    end = stream.plan()
    back(queue, moved)
    stream.begin_again()
    assert stream.read(end) == ["0", "2", "3"]
    stream.at = end
    assert stream.batch() == ["1"]
    stream.begin_again()
    assert stream.batch() == []
    assert queue.info().message_count == 0


def test_a_message_that_is_moved_there_does_not_hide_one_that_is_gone(begun: Begun, queue: Queue) -> None:
    moved = away(queue, 1)
    stream = begun(queue)
    end = stream.plan()
    back(queue, moved)
    queue.receive(0)
    stream.begin_again()
    with pytest.raises(MessageNotFound, match="1 of 3 messages"):
        stream.read(end)


def test_messages_that_were_moved_just_before_the_plan_are_read_and_removed(begun: Begun, queue: Queue) -> None:
    back(queue, away(queue, 0, 1, 2, 3))
    stream = begun(queue)
    assert stream.batch() == ["0", "1", "2", "3"]
    assert stream.batch() == []
    assert queue.info().message_count == 0


def test_drain_goes_on_behind_many_messages_that_stay(begun: Begun, queue: Queue) -> None:
    moved = away(queue, 0, 1, 2)
    stream = begun(queue)
    queue.send_many([b"%d" % number for number in range(4, 7)])
    assert stream.batch() == ["3", "4", "5", "6"]
    back(queue, moved)
    queue.send(b"7")
    assert stream.batch() == ["0", "1", "2", "7"]
    assert stream.batch() == []
    assert queue.info().message_count == 0


def test_a_query_of_spark_reads_a_message_that_is_moved_back_during_its_batch(
    spark: SparkSession, daemon: Daemon, queue: Queue, tmp_path: Path
) -> None:
    moved, seen = away(queue, 1), list[str]()

    def write(batch: DataFrame, number: int) -> None:
        seen.extend(bytes(row.body).decode() for row in batch.select("body").collect())
        if not number:
            back(queue, moved)

    source = spark.readStream.format("msmq").options(server=daemon.url, queue=queue.format_name, mode="drain").load()
    query = (
        source.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    assert query.exception() is None
    assert sorted(seen) == ["0", "1", "2", "3"]
    assert queue.info().message_count == 0
