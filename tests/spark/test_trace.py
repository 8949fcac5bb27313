"""Report messages become hops, ways and journeys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.late import late
from tests.spark.frames import ALPHA, BETA, DELTA, GAMMA, ORDERS, at, by_id, frame, message_id
from waypost.guid import guid_text
from waypost.spark.pipelines.report import Table
from waypost.transfer import reports
from waypost.wire.identifiers import MessageIdentifier

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from waypost.spark.pipelines import trace, trace_report
else:
    trace = late("waypost.spark.pipelines.trace")
    trace_report = late("waypost.spark.pipelines.trace_report")


ADDRESSES = {BETA: "10.0.0.2", GAMMA: "10.0.0.3", DELTA: "10.0.0.4"}
A, B, C, D = map(guid_text, (ALPHA, BETA, GAMMA, DELTA))


def told(ordinal: int, by: bytes, hops: int, seconds: float, to: bytes | None = None) -> dict[str, Any]:
    """The report of `by` that it received the message, or sent it on, in the words of the queue manager."""
    identifier = MessageIdentifier(ALPHA, ordinal)
    body = (
        reports.received_body(identifier, ORDERS)
        if to is None
        else reports.sent_body(identifier, ORDERS, ADDRESSES[to], hops)
    )
    return {
        "message_class": 1,
        "label": reports.label(identifier, hops, at(seconds).timestamp()),
        "body": body,
        "source_qm": guid_text(by),
        "sent_time": at(seconds),
    }


# alpha -> beta -> delta. This router reports the hops of a received message after it has counted itself.
STRAIGHT = [told(1, ALPHA, 0, 0, BETA), told(1, BETA, 1, 1), told(1, BETA, 1, 2, DELTA), told(1, DELTA, 1, 5)]
# The same way; gamma is a router that reports them before.
OTHER = [told(2, ALPHA, 0, 0, GAMMA), told(2, GAMMA, 0, 1), told(2, GAMMA, 1, 2, DELTA), told(2, DELTA, 1, 42)]
# Sent twice, never received.
HANGING = [told(3, ALPHA, 0, 0, BETA), told(3, BETA, 1, 1), told(3, BETA, 1, 2, DELTA), told(3, BETA, 1, 60, DELTA)]
# Still at the router.
RESTING = [told(4, ALPHA, 0, 0, BETA), told(4, BETA, 1, 3)]
# alpha -> beta -> gamma -> beta -> delta
LOOPING = [
    told(5, ALPHA, 0, 0, BETA),
    told(5, BETA, 1, 1),
    told(5, BETA, 1, 1, GAMMA),
    told(5, GAMMA, 2, 2),
    told(5, GAMMA, 2, 2, BETA),
    told(5, BETA, 3, 3),
    told(5, BETA, 3, 3, DELTA),
    told(5, DELTA, 3, 4),
]
# The first report of all is missing.
PARTLY = [told(6, BETA, 1, 1), told(6, BETA, 1, 2, DELTA), told(6, DELTA, 1, 3)]
OTHERS = [
    told(7, ALPHA, 0, 0, BETA) | {"message_class": 0},
    told(8, ALPHA, 0, 0, BETA) | {"label": "a label of somebody else"},
    told(9, ALPHA, 0, 0, BETA) | {"body": b"\x00\xd8" * 9},
    told(10, ALPHA, 0, 0, BETA) | {"body": None},
    told(11, ALPHA, 0, 0, BETA) | {"label": None},
]


@pytest.fixture(scope="module")
def queue(spark: SparkSession) -> DataFrame:
    return frame(spark, [*STRAIGHT, *OTHER, *HANGING, *RESTING, *LOOPING, *PARTLY, *OTHERS]).cache()


@pytest.fixture(scope="module")
def hops(queue: DataFrame) -> DataFrame:
    return trace.trace(queue).cache()


def test_a_report_is_read_and_what_is_none_is_left_out(spark: SparkSession) -> None:
    name = "DIRECT=OS:beta\\private$\\b\udc00stellung"
    odd = told(1, ALPHA, 0, 0, BETA) | {
        "body": reports.sent_body(MessageIdentifier(ALPHA, 1), name, "10.0.0.2", 0),
    }
    far = told(2, ALPHA, 0, 0, BETA) | {
        "body": reports.received_body(MessageIdentifier(ALPHA, 2), ORDERS.replace("orders", "Aufträge"))
    }
    first, second = trace.steps(frame(spark, [odd, far, *OTHERS])).orderBy("message_id").collect()
    assert (first["message_id"], first["source_qm"], first["reporter"], first["hops"]) == (message_id(1), A, A, 0)
    # A lone surrogate in a name damages the name, but not the job.
    assert (first["next_hop"], first["is_sent"], first["time"] is None) == ("10.0.0.2", True, False)
    assert (second["dest_queue"], second["is_sent"]) == (ORDERS.replace("orders", "Aufträge"), False)


def test_hops_are_put_together_from_both_ends(hops: DataFrame) -> None:
    rows = hops.orderBy("message_id", "hop").collect()
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        ordinal = int.from_bytes(row["message_id"][16:], "little")
        found.setdefault(ordinal, []).append((row["hop"], row["from_qm"], row["to_qm"], row["seconds"]))
    assert found == {
        1: [(0, A, B, 1.0), (1, B, D, 3.0)],
        2: [(0, A, C, 1.0), (1, C, D, 40.0)],
        3: [(0, A, B, 1.0), (1, B, None, None)],
        4: [(0, A, B, 3.0)],
        5: [(0, A, B, 1.0), (1, B, C, 1.0), (2, C, B, 1.0), (3, B, D, 1.0)],
        6: [(0, A, B, None), (1, B, D, 1.0)],
    }


def test_a_journey_tells_what_is_remarkable(hops: DataFrame) -> None:
    found = by_id(trace.journeys(hops).collect())
    assert {ordinal for ordinal, row in found.items() if not row["arrived"]} == {3}
    assert {ordinal for ordinal, row in found.items() if row["loop"]} == {5}
    assert found[1]["path"] == [A, B, D]
    assert found[3]["path"] == [A, B, "10.0.0.4"]
    assert found[5]["path"] == [A, B, C, B, D]
    assert (found[2]["seconds"], found[2]["slowest_hop"], found[2]["slowest_seconds"]) == (42.0, 1, 40.0)
    assert found[3]["seconds"] is None


def test_ways_are_counted_and_timed(hops: DataFrame) -> None:
    found = {(row["from_qm"], row["to_qm"]): row for row in trace.edges(hops).collect()}
    assert {way: row["messages"] for way, row in found.items()} == {
        (A, B): 5,
        (B, D): 3,
        (A, C): 1,
        (B, C): 1,
        (B, None): 1,
        (C, B): 1,
        (C, D): 1,
    }
    assert (found[A, B]["p50"], found[A, B]["max"], found[A, B]["address"]) == (1.0, 3.0, "10.0.0.2")
    assert (found[B, None]["unfinished"], found[B, None]["repeated"], found[B, D]["unfinished"]) == (1, 1, 0)


def test_the_report_tells_it_all(queue: DataFrame, tmp_path: Path) -> None:
    made = trace_report.report(queue, "a test")
    assert made.summary == (
        "Of 6 traced messages, 1 did not arrive and 1 went in a loop, according to the reports; 1 link is slow."
    )
    tables = {part.name: part for part in made.parts() if isinstance(part, Table)}
    assert [row[2] for row in tables["loops"].rows] == [
        "1a1a1a1a → 10.0.0.2 (2b2b) → 10.0.0.3 (3c3c) → 10.0.0.2 (2b2b) → 10.0.0.4 (4d4d)"
    ]
    assert [str(row[0])[-1] for row in tables["unfinished"].rows] == ["3"]
    assert (str(tables["slowest"].rows[0][0])[-1], tables["slowest"].rows[0][-1]) == ("2", 42.0)
    assert "Route graph" in made.write(tmp_path).html.read_text("utf-8")


def test_lists_that_are_cut_say_so(queue: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowest() -> Table:
        (found,) = (
            part for part in trace_report.report(queue).parts() if isinstance(part, Table) and part.name == "slowest"
        )
        return found

    whole = len(slowest().rows)
    monkeypatch.setattr(trace, "LISTED", 1)
    assert slowest().remark.startswith(f"The table shows the first 1 of {whole} rows.")


def test_a_queue_without_reports_says_so(spark: SparkSession, tmp_path: Path) -> None:
    made = trace_report.report(frame(spark, []))
    assert made.summary == "The report queue contains no reports about traced messages."
    made.write(tmp_path)
