"""Planning asks the daemon once for each batch, however many queues are read; and what waits for enough messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pytest

from tests.late import late
from waypost.client.transports.http.blocking import Http
from waypost.spark.options import read_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crash.daemons import Daemon
    from waypost.api.operations import Operation
    from waypost.spark import batch, schema, stream_claims, stream_ranges
    from waypost.spark.stream import MessageStream
else:
    batch = late("waypost.spark.batch")
    schema = late("waypost.spark.schema")
    stream_claims = late("waypost.spark.stream_claims")
    stream_ranges = late("waypost.spark.stream_ranges")

R = TypeVar("R")

EACH = 5


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that this process asks of a daemon, without heartbeats."""
    found: list[str] = []
    call = Http.call

    def noted(self: Http, operation: Operation[R]) -> R:
        if type(operation).__name__ != "KeepClaim":
            found.append(type(operation).__name__)
        return call(self, operation)

    monkeypatch.setattr(Http, "call", noted)
    return found


@pytest.fixture
def names(daemon: Daemon) -> Iterator[list[str]]:
    """Three queues, each with five messages."""
    made = [f"planned-{uuid4()}" for _ in range(3)]
    with daemon.connect() as manager:
        for name in made:
            manager.create_queue(name).send_many([b"%d" % number for number in range(EACH)])
        yield made
        for name in made:
            manager.delete_queue(name)


def options_of(daemon: Daemon, names: list[str], **given: str) -> Any:
    return read_options({"server": daemon.url, "queues": ",".join(names)} | given)


def shape_of(options: Any) -> Any:
    return schema.shape_of(schema.default_schema(options.columns), options.columns)


def stream_of(daemon: Daemon, names: list[str], **given: str) -> MessageStream:
    options = options_of(daemon, names, **given)
    if options.mode == "claim":
        return stream_claims.ClaimStream(options, shape_of(options), str(uuid4()))
    return stream_ranges.RangeStream(options, shape_of(options))


def read(parts: list[Any], reader: Any) -> int:
    return sum(page.num_rows for part in parts for page in reader.read(part))


class Query:
    """A stream without Spark, which calls the reader as Spark does."""

    def __init__(self, reader: MessageStream) -> None:
        self.reader = reader
        self.at: dict[str, Any] = reader.initialOffset()
        self.latest: dict[str, Any] = {}

    def plan(self) -> list[Any]:
        end = json.loads(json.dumps(self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())))
        self.latest = self.reader.reportLatestOffset() or {}
        parts = [] if end == self.at else self.reader.partitions(self.at, end)
        self.at = end
        return list(parts)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"startingTimestamp": "2020-01-01", "endingTimestamp": "2100-01-01"},
        {"maxBytesPerPartition": "1k", "minPartitions": "4", "lockedMessages": "skip"},
    ],
)
def test_a_batch_read_asks_once(
    daemon: Daemon, names: list[str], asked: list[str], count: int, given: dict[str, str]
) -> None:
    options = options_of(daemon, names[:count], **given)
    reader = batch.BatchReader(options, shape_of(options))
    parts = reader.partitions()
    assert asked == ["PlanRanges"]
    assert read(parts, reader) == count * EACH


def test_a_batch_read_asks_for_queues_that_it_does_not_know_by_name(
    daemon: Daemon, names: list[str], asked: list[str]
) -> None:
    options = read_options({"server": daemon.url, "queuePattern": "planned-*"})
    batch.BatchReader(options, shape_of(options)).partitions()
    assert asked == ["ListBulkQueues", "PlanRanges"]
    asked.clear()
    options = options_of(daemon, names, startingOffsets=json.dumps(dict.fromkeys(names, 0)))
    batch.BatchReader(options, shape_of(options)).partitions()
    assert asked == ["ShowBulkQueue"] * 3 + ["PlanRanges"]


other_names = pytest.mark.parametrize(
    "other",
    [r"private$\{}".format, lambda name: rf"private$\{name.upper()}", r"DIRECT=OS:.\private$\{}".format],
    ids=["path", "case", "host"],
)


@other_names
def test_two_names_of_one_queue_are_read_once(daemon: Daemon, names: list[str], other: Callable[[str], str]) -> None:
    options = options_of(daemon, [names[0], other(names[0])])
    reader = batch.BatchReader(options, shape_of(options))
    assert read(reader.partitions(), reader) == EACH


@other_names
@pytest.mark.parametrize("mode", ["peek", "drain", "claim"])
def test_two_names_of_one_queue_are_streamed_once(
    daemon: Daemon, names: list[str], mode: str, other: Callable[[str], str]
) -> None:
    query = Query(stream_of(daemon, [names[0], other(names[0])], mode=mode))
    assert read(query.plan(), query.reader) == EACH
    assert query.plan() == []
    query.reader.stop()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mode", ["peek", "drain"])
@pytest.mark.parametrize("limits", [{}, {"maxMessagesPerTrigger": "3"}, {"maxBytesPerTrigger": "600"}])
def test_a_batch_of_a_stream_asks_once(
    daemon: Daemon, names: list[str], asked: list[str], mode: str, count: int, limits: dict[str, str]
) -> None:
    query = Query(stream_of(daemon, names[:count], mode=mode, maxBytesPerPartition="500", **limits))
    asked.clear()
    seen = 0
    while parts := query.plan():
        assert [each for each in asked if each != "RemoveRange"] == ["PlanRanges"]
        assert asked.count("RemoveRange") <= (count if mode == "drain" else 0)
        seen += sum(part.count for part in parts)
        lag = sum(place["lag_messages"] for place in query.latest.values())
        assert lag == count * EACH - seen
        assert all(bool(place["lag_s"]) <= bool(place["lag_messages"]) for place in query.latest.values())
        assert sum(place["rows"] for place in query.latest.values()) == count * EACH
        asked.clear()
    assert seen == count * EACH
    query.reader.stop()


def test_the_lag_of_a_stream_that_waits_for_messages_has_all_of_them(
    daemon: Daemon, names: list[str], asked: list[str]
) -> None:
    limits = {"minMessagesPerTrigger": "16", "maxBytesPerTrigger": "600", "maxTriggerDelay": "1h"}
    query = Query(stream_of(daemon, names, **limits))
    asked.clear()
    assert query.plan() == []
    assert asked == ["PlanRanges"]
    assert [place["lag_messages"] for place in query.latest.values()] == [EACH] * 3
    query.reader.stop()


def test_a_query_that_has_read_what_it_wants_needs_its_queue_no_more(
    daemon: Daemon, names: list[str], asked: list[str]
) -> None:
    with daemon.connect() as manager:
        # Its last message is the last one of the daemon.
        queue = manager.create_queue(f"planned-{uuid4()}")
        queue.send(b"last")
        reader = stream_of(daemon, [names[0], queue.name], failOnDataLoss="true")
        reader.prepareForTriggerAvailableNow()
        query = Query(reader)
        assert read(query.plan(), reader) == EACH + 1
        manager.queue(names[0]).send(b"late")
        queue.delete()
        asked.clear()
        assert query.plan() == []
        assert asked == ["PlanRanges"]
        assert [place["lag_messages"] for place in query.latest.values()] == [1, 0]
    reader.stop()


def test_a_claim_asks_once_for_its_part_of_each_queue(daemon: Daemon, names: list[str], asked: list[str]) -> None:
    # Each part is claimed in a transaction, by its term, and fails alone. Several queues take one more request for the
    # division of the limit, and the lag another one for all queues.
    for some, shared in ((names[:1], []), (names, ["PlanRanges"])):
        query = Query(stream_of(daemon, some, mode="claim", maxMessagesPerTrigger="3"))
        query.plan()
        asked.clear()
        query.plan()
        assert asked == [*shared, *["Claim"] * len(some), "PlanRanges"]
        query.reader.stop()


def test_messages_that_a_query_has_processed_do_not_wait_for_it(daemon: Daemon, names: list[str]) -> None:
    query = Query(stream_of(daemon, names[:1], mode="claim", minMessagesPerTrigger=str(EACH), maxTriggerDelay="1h"))
    assert read(query.plan(), query.reader) == EACH
    with daemon.connect() as manager:
        queue = manager.queue(names[0])
        queue.send(b"more")
        # The five of the first part are in the queue until this request, which removes them.
        assert query.plan() == []
        assert queue.info().message_count == 1
        queue.send_many([b"more"] * (EACH - 1))
        assert read(query.plan(), query.reader) == EACH
    query.reader.stop()


def test_claims_of_several_queues_share_a_limit_of_bytes(daemon: Daemon) -> None:
    names = [f"planned-{uuid4()}" for _ in range(3)]
    with daemon.connect() as manager:
        for name in names:
            manager.create_queue(name).send(bytes(3000))
        # A third of the limit is less than each message has, but one message fits.
        query = Query(stream_of(daemon, names, mode="claim", maxBytesPerTrigger="4000"))
        assert [read(query.plan(), query.reader) for _ in range(4)] == [1, 1, 1, 0]
        query.reader.stop()
        for name in names:
            manager.delete_queue(name)
