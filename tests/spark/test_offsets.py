"""Streams without Spark: offsets, limits and what is gone, on an origin in memory."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crash.daemons import patience
from tests.late import late
from tests.spark.fake_origin import BYTES_EACH, FakeOrigin
from waypost.api.bulk import Batches
from waypost.arrow.packets import OnMalformed
from waypost.errors import ClaimTaken, DecodeError, InvalidParameter, MessageNotFound, QueueDeleted, QueueNotFound
from waypost.spark.options import Endpoint, ReadOptions, read_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyspark
    from pyspark.sql import datasource
    from pyspark.sql.streaming import datasource as streaming_datasource
    from pyspark.sql.streaming.datasource import ReadLimit

    from waypost.spark import batch as batch_reading
    from waypost.spark import offsets, ranges, schema, stream_claims, stream_ranges, tasks
    from waypost.spark.stream import MessageStream
else:
    batch_reading = late("waypost.spark.batch")
    datasource = late("pyspark.sql.datasource")
    offsets = late("waypost.spark.offsets")
    pyspark = late("pyspark")
    ranges = late("waypost.spark.ranges")
    schema = late("waypost.spark.schema")
    stream_claims = late("waypost.spark.stream_claims")
    stream_ranges = late("waypost.spark.stream_ranges")
    streaming_datasource = late("pyspark.sql.streaming.datasource")
    tasks = late("waypost.spark.tasks")


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOrigin]:
    found = FakeOrigin("orders", "returns")
    for module in ("batch", "stream", "ranges", "stream_claims"):
        monkeypatch.setattr(f"waypost.spark.{module}.open_origin", lambda _: found)
    made: list[stream_claims.Heartbeats] = []
    heartbeats = stream_claims.Heartbeats

    def beating(endpoint: Endpoint) -> stream_claims.Heartbeats:
        made.append(heartbeats(endpoint))
        return made[-1]

    monkeypatch.setattr("waypost.spark.stream_claims.Heartbeats", beating)
    yield found
    for each in made:
        each.stop()


def options_of(**given: str) -> ReadOptions:
    return read_options({"queue": "orders"} | given if "queues" not in given else given)


def started(load: str = "", **given: str) -> MessageStream:
    """`load` is the name of the load(); each has another."""
    options = options_of(**given)
    shape = replace(schema.shape_of(schema.default_schema(options.columns), options.columns), names=("seq",))
    if options.mode == "claim":
        return stream_claims.ClaimStream(options, shape, load or str(uuid4()))
    return stream_ranges.RangeStream(options, shape)


def next_of(reader: MessageStream, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
    """As Spark does it: offsets travel as JSON."""
    found = reader.latestOffset(json.loads(json.dumps(start)), limit or reader.getDefaultReadLimit())
    return dict(json.loads(json.dumps(found)))


def rows(reader: MessageStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for partition in reader.partitions(start, end):
        for page in reader.read(partition):
            found.extend(seqs_of(page))
    return found


def seqs_of(batch: Any) -> list[int]:
    return list(batch.column("seq").to_pylist())


def shipped(reader: MessageStream) -> bytes:
    """As Spark hands it to its workers."""
    return bytes(pyspark.cloudpickle.dumps(reader))  # type: ignore[no-untyped-call]


def run(reader: MessageStream, start: dict[str, Any] | None = None) -> Iterator[list[int]]:
    """Batches until nothing is left; the last end is settled, as Spark does it."""
    start = start or reader.initialOffset()
    while (end := next_of(reader, start)) != start:
        yield sorted(rows(reader, start, end))
        start = end


def test_everything_is_read_once_in_batches_of_the_limit(origin: FakeOrigin) -> None:
    origin.arrive("orders", 7)
    assert list(run(started(maxMessagesPerTrigger="3"))) == [[1, 2, 3], [4, 5, 6], [7]]
    assert origin.gone["orders"] == []


def test_both_limits_hold_at_once(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(maxMessagesPerTrigger="4", maxBytesPerTrigger=str(2 * BYTES_EACH))
    assert reader.getDefaultReadLimit() == streaming_datasource.ReadMaxRows(4)
    assert [len(batch) for batch in run(reader)] == [2, 2, 1]
    other = started(maxBytesPerTrigger=str(3 * BYTES_EACH))
    assert other.getDefaultReadLimit() == streaming_datasource.ReadMaxBytes(3 * BYTES_EACH)
    assert [len(batch) for batch in run(other)] == [3, 2]


def test_nothing_is_read_at_or_behind_what_is_uncommitted(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    origin.held["orders"].unstable = 3
    reader = started()
    start = reader.initialOffset()
    end = next_of(reader, start)
    assert rows(reader, start, end) == [1, 2]
    origin.held["orders"].unstable = None
    assert rows(reader, end, next_of(reader, end)) == [3, 4, 5]


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_stream_that_ends_short_says_so_once(
    origin: FakeOrigin, caplog: pytest.LogCaptureFixture, *, is_available_now: bool
) -> None:
    origin.arrive("orders", 5)
    origin.held["orders"].unstable = 3
    reader = started()
    if is_available_now:
        reader.prepareForTriggerAvailableNow()
    end = next_of(reader, reader.initialOffset())
    for _ in range(3):
        end = next_of(reader, end)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "waypost.spark"]
    assert "the read of orders ends early, at the arrival number 2: 3 later messages are held back by a stage" in said


def test_latest_begins_behind_what_is_there_and_a_replay_of_the_first_batch_too(origin: FakeOrigin) -> None:
    origin.arrive("orders", 3)
    reader = started(startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.initialOffset() is start
    origin.arrive("orders", 2)
    end = next_of(reader, start)
    assert rows(reader, start, end) == [4, 5]
    # A new driver makes up another beginning; the logged end has the true one.
    origin.arrive("orders", 2)
    again = started(startingOffsets="latest")
    assert rows(again, again.initialOffset(), end) == [4, 5]


def test_a_limit_is_divided_fairly_among_queues(origin: FakeOrigin) -> None:
    origin.arrive("orders", 30)
    origin.arrive("returns", 2)
    reader = started(queues="orders,returns", maxMessagesPerTrigger="8")
    first = next(run(reader))
    assert len([number for number in first if number <= 30]) == 7
    assert len([number for number in first if number > 30]) == 1
    assert sorted(chain(*run(started(queues="orders,returns", maxMessagesPerTrigger="7")))) == list(range(1, 33))


def test_queues_that_come_to_match_the_pattern_are_read_from_their_beginning(origin: FakeOrigin) -> None:
    reader = stream_ranges.RangeStream(read_options({"queuePattern": "or*"}), started()._shape)
    start = reader.initialOffset()
    assert list(start) == ["orders"]
    origin.add("orders2")
    origin.arrive("orders2", 2)
    end = next_of(reader, start)
    assert rows(reader, start, end) == [1, 2]


def test_what_is_there_now_ends_where_it_began(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(maxMessagesPerTrigger="3", minMessagesPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = next_of(reader, start)
    origin.arrive("orders", 5)
    last = next_of(reader, end)
    assert rows(reader, end, last) == [4, 5]
    assert next_of(reader, last) == last


def test_a_stream_waits_for_enough_messages_but_not_for_ever(origin: FakeOrigin) -> None:
    origin.arrive("orders", 2)
    reader = started(minMessagesPerTrigger="3", maxTriggerDelay="1h")
    start = reader.initialOffset()
    assert next_of(reader, start) == start
    origin.arrive("orders", 1)
    assert rows(reader, start, next_of(reader, start)) == [1, 2, 3]
    late = started(minMessagesPerTrigger="9", maxTriggerDelay="1ms")
    late._last_data -= 1
    assert rows(late, start, next_of(late, start)) == [1, 2, 3]


def test_a_stream_does_not_wait_for_more_than_a_limit_of_bytes_lets_it_take(origin: FakeOrigin) -> None:
    origin.arrive("orders", 9)
    origin.arrive("returns", 9)
    limits = {"maxBytesPerTrigger": str(4 * BYTES_EACH), "maxTriggerDelay": "1h"}
    reader = started(queues="orders,returns", minMessagesPerTrigger="18", **limits)
    start = reader.initialOffset()
    assert rows(reader, start, next_of(reader, start)) == [1, 2, 10, 11]
    more = started(queues="orders,returns", minMessagesPerTrigger="19", **limits)
    assert next_of(more, start) == start


@pytest.mark.parametrize("mode", ["drain", "claim"])
def test_a_query_that_starts_again_reads_the_queues_that_it_names_now(origin: FakeOrigin, mode: str) -> None:
    origin.arrive("orders", 2)
    origin.arrive("returns", 2)
    reader = started(mode=mode)
    start = reader.initialOffset()
    end = next_of(reader, start)
    assert rows(reader, start, end) == [1, 2]
    origin.arrive("orders", 1)
    again = started(queues="returns", mode=mode)
    last = next_of(again, end)
    assert rows(again, end, last) == [3, 4]
    # The messages that were read of the other queue are settled, and its place is kept.
    assert origin.gone["orders"] == [1, 2]
    assert next_of(again, last) == last
    assert list(run(started(queues="orders,returns", mode=mode), last)) == [[5]]


def test_a_query_goes_on_without_a_queue_that_is_gone(origin: FakeOrigin) -> None:
    origin.arrive("returns", 1)
    reader = started(queues="orders,returns")
    start = next_of(reader, reader.initialOffset())
    del origin.held["orders"]
    origin.arrive("returns", 1)
    again = started(queues="orders,returns")
    assert rows(again, start, next_of(again, start)) == [2]


@pytest.mark.parametrize("mode", ["peek", "claim"])
def test_a_misspelt_queue_is_an_error_at_a_restart_too(origin: FakeOrigin, mode: str) -> None:
    origin.arrive("orders", 1)
    reader = started(mode=mode)
    start = next_of(reader, reader.initialOffset())
    with pytest.raises(QueueNotFound, match="retruns"):
        next_of(started(queues="orders,retruns", mode=mode), start)
    # A queue that was read before and is gone does not keep the query from a new one.
    del origin.held["orders"]
    origin.arrive("returns", 1)
    again = started(queues="orders,returns", mode=mode, failOnDataLoss="false")
    end = next_of(again, start)
    assert rows(again, start, end) == [2]
    assert end["orders"] == start["orders"]


def test_a_name_means_the_place_of_its_queue() -> None:
    orders, journal = r"DIRECT=OS:shop\PRIVATE$\orders", r"DIRECT=OS:shop\PRIVATE$\orders;journal"
    for name in ("orders", "ORDERS", r"private$\orders", r".\private$\orders", orders):
        assert ranges.is_name_of(name, orders)
        assert not ranges.is_name_of(name, journal)
    assert ranges.is_name_of("orders;journal", journal)
    assert not ranges.is_name_of("order", orders)


def test_only_outgoing_queues_are_read_as_such(origin: FakeOrigin) -> None:
    with pytest.raises(QueueNotFound, match="orders is not an outgoing queue"):
        ranges.chosen(origin, options_of(queueType="outgoing"))


def test_the_distance_to_the_end_is_reported_in_messages(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(maxMessagesPerTrigger="2")
    assert reader.reportLatestOffset() is None
    end = next_of(reader, reader.initialOffset())
    latest = reader.reportLatestOffset()
    assert latest is not None
    assert latest["orders"]["rows"] - end["orders"]["rows"] == 3
    assert latest["orders"]["held"] == 0


def test_partitions_are_as_many_as_asked_for(origin: FakeOrigin) -> None:
    origin.arrive("orders", 10)
    reader = started(minPartitions="3")
    start = reader.initialOffset()
    end = next_of(reader, start)
    assert len(reader.partitions(start, end)) == 3
    assert rows(pickle.loads(shipped(reader)), start, end) == list(range(1, 11))
    assert len(started(maxMessagesPerPartition="4").partitions(start, end)) == 3
    assert len(started().partitions(start, end)) == 1


# --- Losses


def test_messages_that_somebody_took_are_an_error_where_that_matters(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    reader = started(failOnDataLoss="true")
    start = reader.initialOffset()
    end = next_of(reader, start)
    partitions = reader.partitions(start, end)
    origin.held["orders"].numbers.remove(2)
    with pytest.raises(MessageNotFound, match="1 of 4 messages of orders with arrival numbers from 1 to 4 are gone"):
        reader.partitions(start, end)
    with pytest.raises(MessageNotFound, match="are gone"):
        list(reader.read(partitions[0]))
    assert rows(started(), start, end) == [1, 3, 4]


def test_a_queue_that_was_created_again_is_an_error_or_begins_anew(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    strict, lenient = started(failOnDataLoss="true"), started()
    start = strict.initialOffset()
    end = next_of(strict, start)
    origin.recreate("orders")
    origin.arrive("orders", 2)
    for attempt in (lambda: started(failOnDataLoss="true").partitions(start, end), lambda: next_of(strict, end)):
        with pytest.raises(QueueDeleted, match="was deleted, or deleted and created again"):
            attempt()
    assert rows(lenient, start, end) == []
    last = next_of(lenient, end)
    assert rows(lenient, end, last) == [5, 6]
    assert last["orders"]["rows"] == 6


def test_a_queue_that_is_gone_stays_in_the_offset(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    reader = started(queues="orders,returns")
    start = next_of(reader, reader.initialOffset())
    del origin.held["orders"]
    origin.arrive("returns", 1)
    end = next_of(reader, start)
    assert end["orders"] == start["orders"]
    assert rows(reader, start, end) == [5]


def test_a_checkpoint_of_another_mode_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="continue in the mode"):
        offsets.range_places({"orders": {"claim": "x", "epoch": "", "number": 1, "rows": 1}})


def test_a_packet_that_is_none_fails_is_null_or_tells_why(origin: FakeOrigin) -> None:
    origin.arrive("orders", 2)

    def read(policy: str) -> list[dict[str, object]]:
        options = options_of(onMalformed=policy)
        known = started()._shape
        assert isinstance(known, schema.Shape)
        shape = replace(known, names=("seq", "label", "packet_error"), on_malformed=OnMalformed(policy))
        reader = batch_reading.BatchReader(options, shape)
        return [row for part in reader.partitions() for page in reader.read(part) for row in page.to_pylist()]

    with pytest.raises(DecodeError, match="orders"):
        read("fail")
    assert read("null") == [{"seq": number, "label": None, "packet_error": None} for number in (1, 2)]
    assert all(row["packet_error"] and row["label"] is None for row in read("quarantine"))


def test_a_queue_that_is_added_at_a_restart_keeps_its_position_if_nothing_is_read(origin: FakeOrigin) -> None:
    origin.arrive("orders", 2)
    origin.arrive("returns", 2)
    first = started(queues="orders", startingOffsets="earliest")
    end = next_of(first, first.initialOffset())
    given = {"queues": "orders,returns", "startingOffsets": "latest"}
    second = started(**given)
    added = next_of(second, end)
    assert added.keys() != end.keys()
    assert rows(second, end, added) == []
    assert next_of(second, added) == added
    origin.arrive("returns", 2)
    third = started(**given)
    assert sorted(rows(third, added, next_of(third, added))) == [5, 6]


# --- Drain


def test_drain_removes_what_is_settled_and_the_last_batch_too(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(mode="drain", maxMessagesPerTrigger="2")
    batches = run(reader)
    assert next(batches) == [1, 2]
    assert origin.gone["orders"] == []
    assert next(batches) == [3, 4]
    assert origin.gone["orders"] == [1, 2]
    assert list(batches) == [[5]]
    assert origin.gone["orders"] == [1, 2, 3, 4, 5]


def test_drain_removes_what_peek_has_read_before_and_nothing_that_was_moved_below_that(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    peeking = started(mode="peek", maxMessagesPerTrigger="2")
    place = peeking.initialOffset()
    for _ in range(2):
        place = next_of(peeking, place)
    draining = started(mode="drain", maxMessagesPerTrigger="2")
    end = next_of(draining, place)
    assert origin.gone["orders"] == [1, 2, 3, 4]
    origin.held["orders"].numbers.insert(0, 3)
    assert next_of(draining, end) == end
    assert origin.gone["orders"] == [1, 2, 3, 4, 5]
    assert origin.held["orders"].numbers == [3]


def test_commit_removes_as_well_and_twice_is_as_good_as_once(origin: FakeOrigin) -> None:
    origin.arrive("orders", 3)
    reader = started(mode="drain")
    end = next_of(reader, reader.initialOffset())
    reader.commit(end)
    reader.commit(end)
    assert next_of(reader, end) == end
    assert origin.gone["orders"] == [1, 2, 3]


# --- Claims


def test_claims_are_settled_by_the_next_one(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(mode="claim", maxMessagesPerTrigger="2")
    batches = run(reader)
    assert next(batches) == [1, 2]
    assert origin.gone["orders"] == []
    assert list(batches) == [[3, 4], [5]]
    assert origin.gone["orders"] == [1, 2, 3, 4, 5]


def test_a_part_that_was_claimed_before_a_crash_is_offered_again(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    reader = started(mode="claim", maxMessagesPerTrigger="2")
    start = next_of(reader, reader.initialOffset())
    lost = next_of(reader, start)
    # The offset was never written down; the next driver asks from the same start.
    again = started(mode="claim", maxMessagesPerTrigger="2")
    assert next_of(again, start) == lost
    assert rows(again, start, lost) == [3, 4]
    # And a replay of the first batch has a start with another name.
    assert claims_of(again.initialOffset()) != claims_of(start)


def claims_of(offset: dict[str, Any]) -> set[str]:
    return {place["claim"] for place in offset.values()}


def test_a_first_batch_is_replayed_though_its_start_is_made_up_anew(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    reader = started(mode="claim")
    end = next_of(reader, reader.initialOffset())
    again = started(mode="claim", maxMessagesPerPartition="2")
    assert len(again.partitions(again.initialOffset(), end)) == 2
    assert rows(again, again.initialOffset(), end) == [1, 2, 3, 4]


def test_a_claimed_part_is_divided_by_bytes_also_when_it_is_repeated(origin: FakeOrigin) -> None:
    origin.arrive("orders", 7)
    options = {"mode": "claim", "maxBytesPerPartition": str(3 * BYTES_EACH)}
    reader = started(**options)
    start = reader.initialOffset()
    end = next_of(reader, start)
    for each in (reader, started(**options)):
        assert edges(each.partitions(start, end)) == [0, 3, 6, 7]
    assert rows(started(**options), start, end) == list(range(1, 8))
    # More parts than the bytes ask for, and fewer messages.
    for more in ({"minPartitions": "4"}, {"maxMessagesPerPartition": "2"}):
        assert edges(started(**options, **more).partitions(start, end)) == [0, 1, 3, 5, 6, 7]


def edges(parts: Iterable[Any]) -> list[int]:
    return [0, *(part.wanted.stop for part in parts)]


def test_a_claim_of_what_is_there_now_ends_and_settles_though_more_comes(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(mode="claim", maxMessagesPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    batches = run(reader)
    assert next(batches) == [1, 2, 3]
    origin.arrive("orders", 5)
    assert list(batches) == [[4, 5]]
    assert origin.gone["orders"] == [1, 2, 3, 4, 5]
    assert origin.held["orders"].claimed == []


def test_claims_of_several_queues_share_the_limit(origin: FakeOrigin) -> None:
    origin.arrive("orders", 6)
    origin.arrive("returns", 2)
    reader = started(queues="orders,returns", mode="claim", maxMessagesPerTrigger="4")
    assert [len(batch) for batch in run(reader)] == [4, 4]
    assert origin.gone == {"orders": [1, 2, 3, 4, 5, 6], "returns": [7, 8]}


def test_claims_of_many_queues_keep_to_the_limit(origin: FakeOrigin) -> None:
    origin.add("third")
    for name in ("orders", "returns", "third"):
        origin.arrive(name, 3)
    reader = started(queues="orders,returns,third", mode="claim", maxMessagesPerTrigger="2")
    assert [len(batch) for batch in run(reader)] == [2, 2, 2, 2, 1]
    assert sorted(chain(*origin.gone.values())) == list(range(1, 10))


def test_readers_of_one_load_share_a_claim_and_get_the_same_batches(origin: FakeOrigin) -> None:
    one, two = (started(load="l", mode="claim", maxMessagesPerTrigger="2") for _ in range(2))
    starts = [one.initialOffset(), two.initialOffset()]
    assert starts[0] == starts[1]
    assert claims_of(starts[0]) == {"l"}
    first = next_of(one, starts[0])
    origin.arrive("orders", 3)
    # The message came between the questions to both.
    assert [first, next_of(two, starts[1])] == starts
    batches = []
    while True:
        ends = [next_of(one, starts[0]), next_of(two, starts[1])]
        assert ends[0] == ends[1]
        if ends == starts:
            break
        batches.append([rows(reader, starts[0], ends[0]) for reader in (one, two)])
        starts = ends
    assert batches == [[[1, 2], [1, 2]], [[3], [3]]]
    assert origin.gone["orders"] == [1, 2, 3]


def test_the_option_names_the_claim_and_the_checkpoint_has_precedence(origin: FakeOrigin) -> None:
    origin.arrive("orders", 2)
    reader = started(mode="claim", claimId="nightly", maxMessagesPerTrigger="1")
    end = next_of(reader, reader.initialOffset())
    assert claims_of(end) == {"nightly"}
    again = started(mode="claim", claimId="daily", maxMessagesPerTrigger="1")
    assert claims_of(next_of(again, end)) == {"nightly"}


def test_a_driver_is_refused_after_another_has_started_on_its_checkpoint(origin: FakeOrigin) -> None:
    origin.arrive("orders", 4)
    reader = started(mode="claim", maxMessagesPerTrigger="2")
    start = reader.initialOffset()
    end = next_of(reader, start)
    parts = reader.partitions(start, end)
    again = started(mode="claim", maxMessagesPerTrigger="2")
    assert rows(again, start, end) == [1, 2]
    with pytest.raises(ClaimTaken):
        next_of(reader, end)
    with pytest.raises(ClaimTaken):
        list(reader.read(parts[0]))
    assert rows(again, end, next_of(again, end)) == [3, 4]


def test_a_batch_whose_messages_were_given_back_is_repeated_without_them(
    origin: FakeOrigin, caplog: pytest.LogCaptureFixture
) -> None:
    origin.arrive("orders", 2)
    reader = started(mode="claim")
    start = reader.initialOffset()
    end = next_of(reader, start)
    origin.give_back("orders")
    again = started(mode="claim")
    assert again.partitions(start, end) == []
    assert "Spark repeats the batch without these messages, and later batches read them" in caplog.text
    assert rows(again, end, next_of(again, end)) == [1, 2]


@pytest.mark.parametrize("mode", ["claim", "drain"])
def test_a_repeated_batch_without_its_messages_is_an_error_unless_it_is_committed(
    origin: FakeOrigin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    origin.arrive("orders", 4)
    reader = started(mode=mode, maxMessagesPerTrigger="2")
    start = reader.initialOffset()
    end = next_of(reader, start)
    next_of(reader, end)
    assert origin.gone["orders"] == [1, 2]
    # The entry in the log of commits is lost.
    again = started(mode=mode)
    (part,) = again.partitions(start, end)
    reason = (
        "is processed, and its messages are removed" if mode == "claim" else "2 of 2 messages of orders .* are gone"
    )
    with pytest.raises(MessageNotFound, match=reason):
        list(again.read(part))
    monkeypatch.setattr("waypost.spark.stream.query_task", lambda: tasks.QueryTask("q", 7, "", ""))
    with pytest.raises(MessageNotFound, match=reason):
        list(again.read(part))
    # A foreachBatch has committed a write. A claim is processed only when Spark has recorded the batch; from a queue
    # that is drained, anybody may have removed the messages before the next write.
    origin.committed["q"] = Batches([6, 7], [6])
    if mode == "drain":
        with pytest.raises(MessageNotFound, match=f"{reason}.* but perhaps not all writes"):
            list(again.read(part))
        origin.committed["q"] = Batches([6, 7], [6, 7])
    assert list(again.read(part)) == []
    assert "batch 7 of the query q was committed before" in caplog.text
    lax = started(mode=mode, failOnDataLoss="false")
    assert rows(lax, start, end) == []


def test_a_thread_of_the_driver_keeps_the_claim_while_a_batch_is_processed(origin: FakeOrigin) -> None:
    origin.arrive("orders", 1)
    reader = started(mode="claim", claimLease="20ms")
    end = next_of(reader, reader.initialOffset())
    with patience(60, "the claim is not kept") as turns:
        for _ in turns:
            if origin.beats > 2:
                break
    reader.stop()
    beats = origin.beats
    assert all(thread.name != "waypost-heartbeats" for thread in threading.enumerate())
    assert origin.beats == beats
    # Nothing is claimed, and nothing kept.
    assert next_of(started(mode="claim", claimLease="20ms"), end) == end
    assert all(thread.name != "waypost-heartbeats" for thread in threading.enumerate())


def test_heartbeats_end_with_the_claim(origin: FakeOrigin, caplog: pytest.LogCaptureFixture) -> None:
    origin.arrive("orders", 1)
    reader = started(mode="claim", claimLease="20ms")
    end = next_of(reader, reader.initialOffset())
    started(mode="claim").partitions({}, end)
    with patience(60, "nothing is said of the claim") as turns:
        for _ in turns:
            if "is no longer renewed" in caplog.text:
                break
    reader.stop()


@pytest.mark.parametrize("mode", ["drain", "claim"])
def test_a_query_that_removes_messages_warns_of_asynchronous_progress_once(
    origin: FakeOrigin, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    reader = started(mode=mode)
    for _ in range(3):
        next_of(reader, reader.initialOffset())
    assert caplog.text.count("asyncProgressTrackingEnabled") == 1


# --- Facts that hold for all


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["orders", "returns", "crash", "replay"]), st.integers(1, 9)), max_size=15
    ),
    mode=st.sampled_from(["peek", "drain", "claim"]),
    limit=st.integers(1, 7),
)
@settings(max_examples=30, deadline=None)
def test_every_message_is_in_one_batch_whatever_crashes(steps: list[tuple[str, int]], mode: str, limit: int) -> None:
    origin = FakeOrigin("orders", "returns")
    with pytest.MonkeyPatch.context() as patched:
        for module in ("stream", "ranges", "stream_claims"):
            patched.setattr(f"waypost.spark.{module}.open_origin", lambda _: origin)
        patched.setattr("waypost.spark.stream_claims.Heartbeats.keep", lambda *_: None)
        given = {"queues": "orders,returns", "mode": mode, "maxMessagesPerTrigger": str(limit)}
        reader = started(**given)
        start = reader.initialOffset()
        batches: list[list[int]] = []
        for step, number in steps:
            if step in origin.held:
                origin.arrive(step, number)
                continue
            end = next_of(reader, start)
            if step == "crash":
                # Before the end was written down.
                reader = started(**given)
                continue
            if end == start:
                continue
            reader = started(**given) if number % 2 else reader
            batch = sorted(rows(reader, start, end))
            if number % 3:
                # The batch is repeated by another start of the query.
                reader = started(**given)
                assert batch == sorted(rows(reader, start, end))
            # Messages that were claimed before a crash come on top.
            assert len(batch) <= limit * (2 if mode == "claim" else 1)
            batches.append(batch)
            start = end
        batches.extend(run(reader, start))
        assert sorted(chain(*batches)) == list(range(1, origin.seq + 1))
        if mode != "peek":
            assert sorted(origin.gone["orders"] + origin.gone["returns"]) == list(range(1, origin.seq + 1))


def test_no_rows_between_two_offsets_make_no_stretch() -> None:
    place = {"orders": offsets.RangePlace(7, "e", 3, 0)}
    assert offsets.stretches(place, place) == []


def test_a_worker_without_the_package_says_what_to_install() -> None:
    content = shipped(started())
    program = (
        "import sys, pickle\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'waypost':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "pickle.loads(sys.stdin.buffer.read())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=False)
    assert (
        b"the Python installation of a Spark worker does not contain the module waypost: install waypost[spark]"
        in done.stderr
    )


def test_a_batch_of_several_queues_is_planned_with_one_request(origin: FakeOrigin) -> None:
    origin.arrive("orders", 8)
    origin.arrive("returns", 4)
    reader = started(queues="orders,returns", maxMessagesPerTrigger="6", maxMessagesPerPartition="2")
    start = reader.initialOffset()
    end = next_of(reader, start)
    parts = reader.partitions(start, end)
    assert origin.requests == 1
    assert len(parts) == 3
    # Another run does not know the plan.
    again = started(queues="orders,returns", maxMessagesPerPartition="3")
    assert sorted(rows(again, start, end)) == [1, 2, 3, 4, 9, 10]
    assert origin.requests == 2


def test_the_lag_is_in_messages_and_bytes_and_has_an_age(origin: FakeOrigin) -> None:
    origin.arrive("orders", 5)
    reader = started(maxMessagesPerTrigger="2")
    next_of(reader, reader.initialOffset())
    latest = reader.reportLatestOffset()
    assert latest is not None
    assert (latest["orders"]["lag_messages"], latest["orders"]["lag_bytes"]) == (3, 3 * BYTES_EACH)
    assert latest["orders"]["lag_s"] > 1_000_000_000
    assert latest["orders"]["rows"] == 5


def test_a_queue_that_is_added_at_a_restart_begins_by_the_starting_offsets(origin: FakeOrigin) -> None:
    origin.arrive("orders", 2)
    first = started(startingOffsets="latest")
    start = first.initialOffset()
    origin.arrive("returns", 3)
    origin.arrive("orders", 1)
    again = started(queues="orders,returns")
    end = next_of(again, start)
    assert sorted(rows(again, start, end)) == [3, 4, 5, 6]
    newest = started(queues="orders,returns", startingOffsets="latest")
    assert next_of(newest, start)["returns"]["seq"] == 5
