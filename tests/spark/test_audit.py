"""Sent messages against their acknowledgments: each outcome, routes, the report, and the same for streams."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.late import late
from tests.spark.frames import BILLS, ORDERS, at, by_id, frame, message_id, sent, word
from waypost.arrow.schema import DEFAULT
from waypost.guid import guid_text
from waypost.spark.pipelines.report import Plot, Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from waypost.spark.pipelines import audit, audit_report
    from waypost.spark.pipelines.audit import Rules
    from waypost.spark.pipelines.report import Report
else:
    audit = late("waypost.spark.pipelines.audit")
    audit_report = late("waypost.spark.pipelines.audit_report")


REACH, RECEIVE, ORDER_ACK, QUOTA, EXPIRED = 0x0002, 0x4000, 0x00FF, 0x8003, 0xC002

SENT = [
    sent(1),
    sent(2, 10),
    sent(3, 20),
    sent(4, 30),
    sent(5, 40),
    sent(6, 50),
    # Too young to be lost, asks for nothing, asks for negative ones only.
    sent(7, 900),
    sent(8, 60, acknowledge=0),
    sent(9, 60, acknowledge=0x0C),
    sent(10, 70, BILLS, label="<b>late|</b>"),
    sent(11, 80, BILLS),
]
WORDS = [
    word(1, REACH, 2),
    word(1, RECEIVE, 5),
    word(2, REACH, 11),
    word(3, QUOTA, 21),
    # Reached, then expired in its queue.
    word(4, REACH, 31),
    word(4, EXPIRED, 95),
    # 5 is lost; what order acks say is for queue managers only.
    word(5, ORDER_ACK, 41),
    # Received twice.
    word(6, REACH, 51),
    word(6, RECEIVE, 52),
    word(6, RECEIVE, 53),
    word(10, REACH, 170),
    # Its clock is behind.
    word(11, REACH, 78),
    word(99, REACH, 5),
    word(99, RECEIVE, 6),
]


def rules() -> Rules:
    return audit.Rules(late_after=timedelta(seconds=30), lost_after=timedelta(seconds=600), now=at(1000))


@pytest.fixture(scope="module")
def journal(spark: SparkSession) -> DataFrame:
    return frame(spark, SENT).cache()


@pytest.fixture(scope="module")
def words(spark: SparkSession) -> DataFrame:
    return frame(spark, WORDS).cache()


@pytest.fixture(scope="module")
def audited(journal: DataFrame, words: DataFrame) -> DataFrame:
    return audit.audit(journal, words, rules()).cache()


def test_each_message_has_its_outcome(audited: DataFrame) -> None:
    found = by_id(audited.collect())
    assert {ordinal: row["outcome"] for ordinal, row in found.items()} == {
        1: "received",
        2: "reached",
        3: "refused",
        4: "refused",
        5: "lost",
        6: "received",
        7: "waiting",
        8: "unasked",
        9: "unasked",
        10: "reached",
        11: "reached",
    }
    assert {ordinal for ordinal, row in found.items() if row["late"]} == {10}
    assert {ordinal for ordinal, row in found.items() if row["duplicated"]} == {6}
    assert (found[1]["reach_seconds"], found[1]["receive_seconds"]) == (2.0, 5.0)
    assert (found[3]["refusal"], found[4]["refusal"]) == (QUOTA, EXPIRED)
    assert (found[5]["reach_seconds"], found[5]["reach_count"]) == (None, 0)
    assert found[11]["reach_seconds"] == -2.0


def test_routes_are_counted_and_timed(audited: DataFrame) -> None:
    orders, bills = (row.asDict() for row in audit.routes(audited).collect())
    assert (orders["source_qm"], orders["dest_queue"]) == (guid_text(b"\x1a" * 16), ORDERS)
    counted = ("sent", "received", "reached", "refused", "lost", "waiting", "unasked", "late", "duplicated")
    assert [orders[name] for name in counted] == [9, 2, 1, 2, 1, 1, 2, 0, 1]
    assert [bills[name] for name in counted] == [2, 0, 2, 0, 0, 0, 0, 1, 0]
    assert (orders["reach_p50"], orders["reach_p99"], orders["reach_max"]) == (1.0, 2.0, 2.0)
    assert (orders["receive_p50"], orders["receive_max"]) == (2.0, 5.0)
    assert (bills["reach_p50"], bills["reach_max"], bills["receive_max"]) == (-2.0, 100.0, None)


def test_acknowledgments_of_unknown_messages_are_told(journal: DataFrame, words: DataFrame) -> None:
    (row,) = audit.unmatched(journal, words).collect()
    assert row["message_id"] == message_id(99)
    assert (row["reached_time"] is None, row["receive_count"]) == (False, 1)


def test_the_report_tells_it_all(journal: DataFrame, words: DataFrame, tmp_path: Path) -> None:
    made = audit_report.report(journal, words, rules(), "a test")
    assert made.summary == "1 lost, 2 refused, 1 late, 1 duplicated of 11 messages."
    tables = {part.name: part for part in made.parts() if isinstance(part, Table)}
    assert [row[0] for row in tables["lost"].rows] == ["{1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a}\\5"]
    assert [row[1] for row in tables["refusals"].rows] == [
        "the destination queue is full",
        "the message expired in the queue before it was received",
    ]
    assert [str(row[0])[-2:] for row in tables["unmatched"].rows] == ["99"]
    assert [row[-2:] for row in tables["duplicated"].rows] == [[1, 2]]
    paths = made.write(tmp_path)
    assert "1 lost, 2 refused" in paths.html.read_text("utf-8")


def test_a_receipt_does_not_count_as_the_time_to_reach_the_queue() -> None:
    """A message may wait in its queue for days before it is received, and its sender asks for receipts only."""
    journal = [sent(1), sent(2), sent(3, acknowledge=0x02)]
    answers = [word(1, REACH, 2), word(2, REACH, 4), word(3, RECEIVE, 90_000)]

    def told(first: int) -> Report:
        """The report on the messages from this one on."""
        tables = [pa.Table.from_pylist(rows[first:], schema=DEFAULT) for rows in (journal, answers)]
        return audit_report.report(tables[0], tables[1], audit.Rules(now=at(100_000)))

    made = told(0)
    (reach,) = (figure for figure in made.figures if figure.name == "99% reach in")
    assert (reach.value, reach.note) == (4.0, "50% reach their queue in 2 s")
    only_receipts = told(2)
    assert [figure.value for figure in only_receipts.figures if figure.name == "99% reach in"] == [None]
    assert not [part for part in only_receipts.parts() if isinstance(part, Plot) and part.name == "reach"]


def test_an_audit_of_nothing_says_so(spark: SparkSession, tmp_path: Path) -> None:
    made = audit_report.report(frame(spark, []), frame(spark, []), rules())
    assert made.summary == "No message was sent."
    made.write(tmp_path)


def test_streams_are_audited_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """Each file is a batch; the last ones only bring the time on."""
    journals = [[sent(1), sent(2, 1)], [sent(3, 5000)], [sent(4, 9000)]]
    answers = [[word(1, REACH, 2), word(1, RECEIVE, 90)], [word(3, QUOTA, 5001)], [word(9, REACH, 9000)]]
    for name, batches in (("sent", journals), ("words", answers)):
        for number, batch in enumerate(batches):
            path = tmp_path / name / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(batch, schema=DEFAULT), path)
    reader = spark.readStream.schema(frame(spark, []).schema).option("maxFilesPerTrigger", 1)
    streamed = audit.audit_stream(
        reader.parquet(str(tmp_path / "sent")), reader.parquet(str(tmp_path / "words")), rules()
    )
    query = (
        streamed.writeStream.format("memory")
        .queryName("audited")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    rows = spark.table("audited").orderBy("sent_time", "word_time").collect()
    assert [(row["label"], row["outcome"], row["late"], row["seconds"]) for row in rows] == [
        ("order 1", "reached", False, 2.0),
        ("order 1", "received", True, 90.0),
        ("order 2", "lost", False, None),
        ("order 3", "refused", False, 1.0),
    ]
    assert rows[-1]["refusal"] == QUOTA
