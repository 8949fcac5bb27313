"""Dead-letter messages: told apart by reasons, and sent again once, wherever a run ends and however many run."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import waypost
from tests.late import late
from tests.spark.pipeline_samples import BEGAN, message
from waypost.api.bulk import CommitStages, Stage
from waypost.arrow import schema
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.errors import InvalidParameter, QueueNotFound, SharingViolation
from waypost.spark.pipelines.report import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.pandas import types
    from pyspark.sql.types import StructType

    from waypost.spark.pipelines import deadletter_actions as actions
    from waypost.spark.pipelines import deadletters as pipeline
    from waypost.spark.pipelines import deadletters_report
    from waypost.spark.pipelines.deadletters import Choice
else:
    deadletters_report = late("waypost.spark.pipelines.deadletters_report")
    actions = late("waypost.spark.pipelines.deadletter_actions")
    pipeline = late("waypost.spark.pipelines.deadletters")
    types = late("pyspark.sql.pandas.types")


REASONS = {0xC001, 0xC002}


def row_type() -> StructType:
    return types.from_arrow_schema(schema.DEFAULT)


class Crash(Exception):
    pass


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[waypost.Manager]:
    """With three dead-letter messages for a transactional queue and one for another; the queues exist and are empty."""
    with waypost.open(tmp_path, name="alpha") as opened:
        opened.create_queue("orders", transactional=True)
        plain = opened.create_queue("plain")
        _die(opened)
        plain.send(b"body 9", label="plain 9", dead_letter=True, time_to_be_received=0)
        yield opened


def _die(manager: waypost.Manager) -> None:
    """Three dead-letter messages for the transactional queue."""
    orders = manager.queue("orders")
    with manager.transaction() as transaction:
        for number in range(3):
            orders.send(b"body %d" % number, label=f"order {number}", dead_letter=True, transaction=transaction)
    orders.purge()


def dead(manager: waypost.Manager, *names: str) -> Any:
    """A table of the messages, as the source gives them."""
    rows: list[dict[str, Any]] = []
    for name in names or pipeline.QUEUES:
        queue = manager.queue(name)
        found = list(queue.browse())
        if found:
            columns = [name for name in schema.DEFAULT.names if name not in {each.name for each in schema.PLACE}]
            packets = Packets.of([each.packet for each in found])
            decoded = decode(packets, columns, on_malformed=OnMalformed.FAIL).to_pylist()
            for row, each in zip(decoded, found, strict=True):
                place = {"queue": queue.format_name, "seq": each.lookup_id & (1 << 56) - 1, "lookup_id": each.lookup_id}
                rows.append(row | place | {"arrived_time": datetime.now(UTC)})
    return pa.Table.from_pylist(rows, schema=schema.DEFAULT)


def transactional(table: Any) -> Any:
    return table.filter(table["transactional"])


def resend(manager: waypost.Manager, table: Any, **options: str) -> actions.Done:
    return actions.resend(actions.table_slices(table), manager, **options)


class Crashing:
    """A manager that ends the program with the n-th request of this kind, before or after it is carried out."""

    def __init__(self, manager: waypost.Manager, kind: type, at: int, *, is_done: bool) -> None:
        self._manager, self._kind, self._left, self._is_done = manager, kind, at, is_done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def call(self, operation: Any) -> Any:
        call: Any = self._manager.call
        is_it = isinstance(operation, self._kind)
        self._left -= is_it
        if is_it and self._left == 0:
            if self._is_done:
                call(operation)
            raise Crash
        return call(operation)


def bodies(manager: waypost.Manager, name: str) -> list[bytes]:
    return [each.body for each in manager.queue(name).browse()]


ORDERS = [b"body 0", b"body 1", b"body 2"]


def test_messages_are_grouped_by_reason_destination_and_form_of_label(spark: SparkSession) -> None:
    rows = [
        message(1, label="order 17", message_class=0x8002, body_type=8),
        message(2, label="order 23", message_class=0x8002, body_type=8),
        message(3, label="{8e5ddd7d-0411-49b5-94d9-8e85f1d0ff1a} paid", message_class=0x8000, body_type=8),
        message(4, label="order 4", message_class=0x1234, body_type=0x300, transactional=False),
    ]
    found = pipeline.triage(spark.createDataFrame(rows, row_type())).collect()
    assert [(row.reason, row.label_form, row.body_kind, row.messages, row.transactional) for row in found] == [
        ("reach-queue-timeout", "order #", "0x0008", 2, 2),
        ("0x1234", "order #", "0x0300", 1, 0),
        ("bad-dst-q", "{#} paid", "0x0008", 1, 1),
    ]
    assert (found[0].sample, found[0].sample_id) == ("order 17", r"{00000000-0000-0000-0000-000000000000}\16777216")
    assert found[0].newest - found[0].oldest == timedelta(hours=1)


def test_messages_are_chosen_by_all_that_is_given(spark: SparkSession) -> None:
    rows = [
        message(1, label="Order 1", message_class=0x8002),
        message(2, label="order_2", message_class=0x8000),
        message(3, label="invoice", message_class=0x8002, dest_queue=r"DIRECT=OS:gamma\private$\invoices"),
    ]
    found = spark.createDataFrame(rows, row_type())

    def seqs(choice: Choice) -> list[int]:
        return sorted(row.seq for row in pipeline.chosen(found, choice).collect())

    assert seqs(pipeline.Choice()) == [1, 2, 3]
    assert seqs(pipeline.Choice(reasons=["reach-queue-timeout"])) == [1, 3]
    assert seqs(pipeline.Choice(reasons=["0x8000", "Reach-Queue-Timeout"], labels=["order?2"])) == [2]
    assert seqs(pipeline.Choice(destinations=[r"direct=os:gamma\*"])) == [3]
    assert seqs(pipeline.Choice(labels=["order_*"])) == [2]
    assert seqs(pipeline.Choice(before=rows[1]["arrived_time"])) == [1]
    with pytest.raises(InvalidParameter, match="unknown reason 'late'; use one of bad-dst-q"):
        pipeline.chosen(found, pipeline.Choice(reasons=["late"]))


def test_messages_are_sent_again_and_removed(manager: waypost.Manager) -> None:
    found = dead(manager)
    assert set(found["message_class"].to_pylist()) == REASONS
    assert resend(manager, found) == actions.Done(sent_once=3, sent_at_least_once=1, removed=4)
    assert (bodies(manager, "orders"), bodies(manager, "plain")) == (ORDERS, [b"body 9"])
    assert [bodies(manager, name) for name in pipeline.QUEUES] == [[], []]


def test_many_messages_are_sent_and_dropped_in_slices(
    manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "SLICE", 2)
    assert resend(manager, dead(manager)) == actions.Done(3, 1, removed=4)
    assert bodies(manager, "orders") == ORDERS
    # The messages that were sent again die again.
    _die(manager)
    assert actions.drop(actions.table_slices(dead(manager)), manager) == actions.Done(removed=6)
    assert [bodies(manager, name) for name in pipeline.QUEUES] == [[], []]


def test_slices_of_a_dataframe_have_so_many_messages_and_bytes_of_a_queue(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "SLICE", 10)
    monkeypatch.setattr(actions, "SLICE_BYTES", 1000)
    near = [message(seq, body_size=1) for seq in (*range(5, 31), 10_000, 10_001, 70_000)]
    large = [message(seq, body_size=400) for seq in (80_000, 80_010, 80_020)]
    other = [message(7, queue="DIRECT=OS:beta\\private$\\other")]
    found = list(actions.slices(spark.createDataFrame([*near, *large, *other], row_type())))
    seqs = [each["seq"].to_pylist() for each in found if each["queue"][0].as_py() == near[0]["queue"]]
    assert [(each[0], each[-1], len(each)) for each in seqs] == [
        *((5, 9, 5), (10, 19, 10), (20, 29, 10), (30, 80_010, 6), (80_020, 80_020, 1)),
    ]
    assert [each["seq"].to_pylist() for each in found if each["queue"][0].as_py() == other[0]["queue"]] == [[7]]


@pytest.mark.parametrize(
    ("kind", "is_done", "left"),
    [(Stage, False, 3), (Stage, True, 3), (CommitStages, False, 3), (CommitStages, True, 0)],
)
def test_messages_are_sent_once_wherever_a_run_ends(
    manager: waypost.Manager, kind: type, left: int, *, is_done: bool
) -> None:
    with pytest.raises(Crash):
        resend(Crashing(manager, kind, 1, is_done=is_done), transactional(dead(manager)))  # type: ignore[arg-type]
    assert len(bodies(manager, r"system$;deadxact")) == left
    assert len(bodies(manager, "orders")) == 3 - left
    # Another program, which knows nothing of the first, and another choice of messages.
    resend(manager, dead(manager))
    assert (bodies(manager, "orders"), bodies(manager, r"system$;deadxact")) == (ORDERS, [])


def test_two_runs_at_the_same_time_send_every_message_once(
    manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "SLICE", 2)
    for _ in range(10):
        _die(manager)
    found = transactional(dead(manager))
    # Both have read all messages before either sends one.
    barrier = Barrier(2)

    def run(_: int) -> actions.Done:
        barrier.wait()
        return resend(manager, found)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, range(2)))
    assert sorted(bodies(manager, "orders")) == sorted(ORDERS * 11)
    assert sum(each.sent_once for each in done) == sum(each.removed for each in done) == 33
    assert sum(each.gone for each in done) == 33
    assert bodies(manager, r"system$;deadxact") == []


def test_a_run_goes_on_without_the_messages_that_are_gone(manager: waypost.Manager) -> None:
    found = transactional(dead(manager))
    manager.queue(r"system$;deadxact").receive(0)
    assert resend(manager, found) == actions.Done(sent_once=2, removed=2, gone=1)
    assert bodies(manager, "orders") == ORDERS[1:]
    assert resend(manager, found) == actions.Done(gone=3)


def test_a_message_that_another_reader_holds_is_not_sent(manager: waypost.Manager) -> None:
    found = transactional(dead(manager))
    with manager.transaction() as reader:
        manager.queue(r"system$;deadxact").receive(0, transaction=reader)
        with pytest.raises(
            SharingViolation, match=r"has locked dead-letter messages in .*; run the command again when that reader has"
        ):
            resend(manager, found)
        assert bodies(manager, "orders") == []
        reader.abort()
    assert resend(manager, found).sent_once == 3
    assert bodies(manager, "orders") == ORDERS


def test_messages_of_a_queue_that_is_gone_are_gone(manager: waypost.Manager) -> None:
    actions.park(actions.table_slices(transactional(dead(manager))), manager)
    found = actions.unparked_table(dead(manager, "parked"))
    manager.queue("parked").delete()
    assert resend(manager, found) == actions.Done(gone=3)


def test_messages_can_be_sent_somewhere_else(manager: waypost.Manager) -> None:
    manager.create_queue("rescued", transactional=True)
    assert resend(manager, dead(manager), to="rescued") == actions.Done(sent_once=4, removed=4)
    assert sorted(bodies(manager, "rescued")) == [*ORDERS, b"body 9"]


def test_parked_messages_can_be_sent_where_they_were_to_go(spark: SparkSession, manager: waypost.Manager) -> None:
    found = dead(manager)
    kept = ["label", "dest_queue", "message_class", "transactional", "journal", "extension"]
    before = found.select(kept).sort_by("label").to_pylist()
    assert actions.park(actions.table_slices(found), manager) == actions.Done(sent_once=4, removed=4)
    assert [bodies(manager, name) for name in pipeline.QUEUES] == [[], []]
    with manager.transaction() as transaction:
        manager.queue("parked").send(b"another message", transaction=transaction)
    parked = dead(manager, "parked")
    restored = actions.unparked_table(parked)
    assert restored.select(kept).sort_by("label").to_pylist() == before
    by_spark = actions.unparked(spark.createDataFrame(parked)).select(*kept).toArrow()
    assert by_spark.sort_by("label").to_pylist() == before
    assert resend(manager, restored) == actions.Done(sent_once=3, sent_at_least_once=1, removed=4)
    assert (bodies(manager, "orders"), bodies(manager, "plain")) == (ORDERS, [b"body 9"])
    assert bodies(manager, "parked") == [b"another message"]
    with pytest.raises(InvalidParameter, match="cannot park messages in plain: the queue is not transactional"):
        actions.park([], manager, to="plain")


def test_dropped_messages_are_gone_and_the_others_stay(manager: waypost.Manager) -> None:
    found = dead(manager)
    some = found.filter(pc.equal(found["label"], "order 1"))
    assert actions.drop(actions.table_slices(some), manager) == actions.Done(removed=1)
    assert bodies(manager, r"system$;deadxact") == [b"body 0", b"body 2"]
    assert bodies(manager, r"system$;deadletter") == [b"body 9"]


def note(manager: waypost.Manager, body: object) -> waypost.Message:
    """As an earlier version noted what it had sent."""
    with manager.transaction() as transaction:
        # In upper case, unlike the name that is looked up.
        queue = manager.create_queue(actions.RECEIPTS.upper(), transactional=True)
        return queue.send(json.dumps(body).encode(), transaction=transaction)


def test_messages_that_an_earlier_version_had_sent_are_removed_once(manager: waypost.Manager) -> None:
    ids = transactional(dead(manager))["lookup_id"].to_pylist()
    note(manager, {"queue": r"system$;deadxact", "lookup_ids": [*ids[:2], 7]})
    assert actions.settle(manager) == 3
    assert bodies(manager, r"system$;deadxact") == [b"body 2"]
    with pytest.raises(QueueNotFound):
        manager.queue(actions.RECEIPTS).info()
    assert actions.settle(manager) == 0
    note(manager, {"queue": "DIRECT=OS:.\\private$\\gone", "lookup_ids": [7]})
    assert actions.settle(manager) == 1


def test_a_message_that_is_no_receipt_is_named(manager: waypost.Manager) -> None:
    sent = note(manager, [1, 2])
    with pytest.raises(
        InvalidParameter, match="was not written by an earlier version of Waypost; move this message to another queue"
    ) as caught:
        actions.settle(manager)
    assert sent.id in str(caught.value)


@pytest.mark.parametrize("word", ["bad", "dead", "8002", "0x", "0x18002", "-0x1", "0x_1", "0x8002 "])
def test_only_a_number_with_0x_is_taken_for_one(word: str) -> None:
    with pytest.raises(InvalidParameter, match=f"unknown reason '{word}'; use one of bad-dst-q"):
        pipeline.class_of(word)
    assert (pipeline.class_of("0x8002"), pipeline.class_of("0xc00a")) == (0x8002, 0xC00A)


def test_messages_beyond_the_listed_groups_count(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "GROUPS", 1)
    rows = [
        message(1, label="paid", message_class=0x8002),
        *(message(seq, label="order", message_class=0x8000) for seq in (2, 3)),
        message(4, label="sent", message_class=0x8002),
        message(5, label="gone", message_class=0x8002),
    ]
    found = pipeline.tally(spark.createDataFrame(rows, row_type()))
    assert [(row["reason"], row["messages"]) for row in found.groups] == [("bad-dst-q", 2)]
    made = deadletters_report.report(found, action="drop", done=actions.Done(removed=5), now=BEGAN + timedelta(hours=3))
    assert made.summary == "5 of 5 dead-letter messages were dropped."
    figures = {figure.name: figure.value for figure in made.figures}
    assert figures == {"Messages": 5, "Oldest": 7200.0, "reach-queue-timeout": 3, "bad-dst-q": 2, "Removed": 5}
    tables = {part.name: part for part in made.parts() if isinstance(part, Table)}
    assert (len(tables["groups"].rows), tables["groups"].total) == (1, 4)
    assert [row[2] for row in tables["reasons"].rows] == [3, 2]


def test_a_report_says_what_others_and_earlier_versions_did() -> None:
    done = actions.Done(sent_once=2, removed=2, gone=1, settled=3)
    made = deadletters_report.report(pipeline.Tally([], []), action="resend", done=done, now=BEGAN)
    assert made.summary == "No dead-letter message was sent again. 3 messages were sent by an earlier, interrupted run."
    figures = {figure.name: figure.value for figure in made.figures}
    assert figures == {"Messages": 0, "Removed": 2, "Sent once": 2, "Gone": 1, "Settled": 3}
