"""Contents of queues: amounts, ages, kinds, senders, and whether transactional messages are whole and in order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.late import late
from tests.spark.frames import ALPHA, BETA, BILLS, ORDERS, at, frame, message_id
from waypost.guid import guid_text
from waypost.spark.pipelines import plots
from waypost.spark.pipelines.report import Plot, Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from waypost.spark.pipelines import expressions, inventory, inventory_report
else:
    expressions = late("waypost.spark.pipelines.expressions")
    inventory = late("waypost.spark.pipelines.inventory")
    inventory_report = late("waypost.spark.pipelines.inventory_report")


A, B = guid_text(ALPHA), guid_text(BETA)
NOW = at(3600)


def message(seq: int, queue: str = ORDERS, ordinal: int | None = None, **values: Any) -> dict[str, Any]:
    """One that came so many minutes after the start."""
    return {
        "queue": queue,
        "seq": seq,
        "message_id": message_id(seq if ordinal is None else ordinal),
        "source_qm": A,
        "arrived_time": at(60 * seq),
        "body_size": 100 * seq,
        "body_type": 8,
        "priority": 3,
        "delivery": 1,
        "transactional": False,
    } | values


def transactional(seq: int, ordinal: int, xact: int, ends: str = "") -> dict[str, Any]:
    """`ends` has F for the first message of its transaction and L for the last."""
    told = {"xact_id": message_id(xact), "xact_first": "F" in ends, "xact_last": "L" in ends}
    return message(seq, BILLS, ordinal, transactional=True) | told


MESSAGES = [
    message(1),
    message(2, body_type=0x300, priority=7),
    message(3, source_qm=B, delivery=0),
    # A capture does not say when it arrived; the bytes of the last are not a packet.
    message(4, arrived_time=None, sent_time=at(240), body_type=4242),
    {"queue": ORDERS, "seq": 5},
    transactional(10, 100, 1, "F"),
    transactional(11, 102, 1),
    transactional(12, 101, 1, "L"),
    # Twice the same, at its own place and once more.
    transactional(13, 110, 2, "FL"),
    transactional(14, 110, 2, "FL"),
    # The first was received already, the last is missing.
    transactional(15, 121, 3, "L"),
    transactional(16, 130, 4, "F"),
]


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return frame(spark, MESSAGES).cache()


def test_queues_are_counted_weighed_and_dated(messages: DataFrame) -> None:
    bills, orders = (row.asDict() for row in inventory.inventory(messages, NOW).collect())
    assert (bills["queue"], bills["messages"], bills["transactional"], bills["malformed"]) == (BILLS, 7, 7, 0)
    assert (orders["queue"], orders["messages"], orders["bytes"]) == (ORDERS, 5, 1000)
    assert (orders["size_p50"], orders["size_max"]) == (200, 400)
    assert (orders["age_p50"], orders["age_max"]) == (3420.0, 3540.0)
    assert orders["per_hour"] == 5 * 3600 / 180
    assert (orders["senders"], orders["express"], orders["malformed"]) == (2, 1, 1)


def test_messages_are_sorted_by_kind_priority_and_sender(messages: DataFrame) -> None:
    orders = messages.where(messages["queue"] == ORDERS)
    assert [(row["kind"], row["messages"], row["bytes"]) for row in inventory.kinds(orders).collect()] == [
        ("string", 2, 400),
        (None, 1, 0),
        ("net-binary", 1, 200),
        ("type-4242", 1, 400),
    ]
    assert [(row["priority"], row["messages"]) for row in inventory.priorities(orders).collect()] == [
        (3, 3),
        (None, 1),
        (7, 1),
    ]
    assert [(row["source_qm"], row["messages"]) for row in inventory.talkers(orders).collect()] == [
        (A, 3),
        (None, 1),
        (B, 1),
    ]


def test_a_kind_that_the_source_knows_counts(messages: DataFrame) -> None:
    (row,) = inventory.kinds(messages.limit(2).selectExpr("*", "'xml' as body_kind")).collect()
    assert (row["kind"], row["messages"]) == ("xml", 2)


def test_arrivals_are_counted_in_spans_of_time(messages: DataFrame) -> None:
    orders = messages.where(messages["queue"] == ORDERS)
    assert [row["messages"] for row in inventory.arrivals(orders, 120).collect()] == [1, 2, 1]


def test_the_span_grows_with_the_time() -> None:
    assert [inventory.bucket_for(span) for span in (0, 7200, 7201, 86_400, 10**9)] == [60, 60, 300, 900, 2_592_000]


def test_transactional_streams_are_checked(messages: DataFrame) -> None:
    (row,) = inventory.streams(messages).collect()
    assert (row["queue"], row["source_qm"], row["transactions"], row["messages"]) == (BILLS, A, 4, 7)
    assert (row["duplicates"], row["out_of_order"]) == (1, 1)
    assert (row["cut_at_start"], row["cut_at_end"]) == (1, 1)


def test_the_report_tells_it_all(messages: DataFrame, tmp_path: Path) -> None:
    made = inventory_report.report(messages, NOW, "a test")
    assert made.summary == "12 messages (9.9 KiB) are in 2 queues; the oldest message is 59 min old."
    tables = {part.name: part for part in made.parts() if isinstance(part, Table)}
    assert [row[:2] for row in tables["queues"].rows] == [[BILLS, 7], [ORDERS, 5]]
    assert [row[4:6] for row in tables["streams"].rows] == [[1, 1]]
    assert "Transactional streams" in made.write(tmp_path).markdown.read_text("utf-8")


def test_an_inventory_of_nothing_says_so(spark: SparkSession, tmp_path: Path) -> None:
    made = inventory_report.report(frame(spark, []), NOW)
    assert made.summary == "No messages were found."
    made.write(tmp_path)


def test_a_list_that_is_cut_says_how_much_there_is(messages: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "LISTED", 1)
    parts = inventory_report._contents(inventory.take_stock(messages, NOW))
    tables = {part.name: (len(part.rows), part.total) for part in parts if isinstance(part, Table)}
    assert tables == {"kinds": (1, 5), "talkers": (1, 4), "priorities": (1, 4)}
    (drawn,) = (part.svg for part in parts if isinstance(part, Plot))
    # 7 messages of one queue and 2 of the other have a string.
    assert all(f">{text}<" in drawn for text in ("string", "9", "?", "net-binary", "type-4242"))


def test_arrivals_are_drawn_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[datetime] = []

    def columns(name: str, title: str, times: list[datetime], *_: object, **__: object) -> Plot:
        drawn.extend(times)
        return Plot(name, title, "", "")

    monkeypatch.setattr(plots, "columns", columns)
    # As Spark returns it: a time of this computer, without a zone.
    start = at(0).astimezone().replace(tzinfo=None)
    nothing = expressions.Listed([], 0)
    arrivals = [{"start": start, "messages": 1, "bytes": 1}]
    inventory_report._times(inventory.Stock([], [], 60, arrivals, [], nothing, nothing, nothing))
    assert drawn == [at(0)]
    assert drawn[0].tzinfo is UTC
