"""Dead-letter messages: told apart by reasons, and sent again once, even if a run ends between sending and removing."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from typer.testing import CliRunner

import waypost
from tests.late import late
from tests.spark.pipeline_samples import BEGAN, message
from waypost.api.bulk import Removed, RemoveRange
from waypost.arrow import schema
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.cli import app
from waypost.errors import InvalidParameter, MessageNotFound, SharingViolation
from waypost.spark.pipelines.report import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.pandas import types
    from pyspark.sql.types import StructType

    from waypost.spark.pipelines import deadletters as pipeline
    from waypost.spark.pipelines import deadletters_report
    from waypost.spark.pipelines import desk as desks
    from waypost.spark.pipelines.deadletters import Choice
    from waypost.spark.pipelines.desk import Desk
    from waypost.spark.pipelines.sending import Delivery
else:
    deadletters_report = late("waypost.spark.pipelines.deadletters_report")
    desks = late("waypost.spark.pipelines.desk")
    pipeline = late("waypost.spark.pipelines.deadletters")
    types = late("pyspark.sql.pandas.types")


REASONS = {0xC001, 0xC002}


def row_type() -> StructType:
    return types.from_arrow_schema(schema.DEFAULT)


class Crash(Exception):
    pass


@dataclass
class LocalSink:
    """Sends as the sink of Spark does: all in one transaction, once under each name; `fails` ends before the commit."""

    manager: waypost.Manager
    transactions: set[str] = field(default_factory=set)
    fails: bool = False

    def send(self, messages: DataFrame, delivery: Delivery, transaction: str) -> None:
        rows = messages.collect()
        if delivery == "at-least-once":
            for row in rows:
                self._send(row, None)
        elif transaction not in self.transactions:
            with self.manager.transaction() as opened:
                for row in rows:
                    self._send(row, opened)
                if self.fails:
                    raise Crash
            self.transactions.add(transaction)

    def _send(self, row: Row, transaction: waypost.Transaction | None) -> None:
        queue = self.manager.queue(row.dest_queue)
        given = {name: row[name] for name in ("label", "extension") if row[name] is not None}
        queue.send(bytes(row.body), transaction=transaction, **given)


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


def letters(spark: SparkSession, manager: waypost.Manager, *names: str) -> DataFrame:
    """As the source gives them."""
    batches = []
    for name in names or pipeline.QUEUES:
        queue = manager.queue(name)
        found = list(queue.browse())
        if found:
            columns = [name for name in schema.DEFAULT.names if name not in {each.name for each in schema.PLACE}]
            packets = Packets.of([each.packet for each in found])
            rows = decode(packets, columns, on_malformed=OnMalformed.FAIL).to_pylist()
            for row, each in zip(rows, found, strict=True):
                place = {"queue": queue.format_name, "seq": each.lookup_id & (1 << 56) - 1, "lookup_id": each.lookup_id}
                batches.append(row | place | {"arrived_time": datetime.now(UTC)})
    return spark.createDataFrame(pa.Table.from_pylist(batches, schema=schema.DEFAULT)) if batches else _none(spark)


def _none(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], row_type())


def bodies(manager: waypost.Manager, name: str) -> list[bytes]:
    return [each.body for each in manager.queue(name).browse()]


ORDERS = [b"body 0", b"body 1", b"body 2"]


def test_letters_are_grouped_by_reason_destination_and_form_of_label(spark: SparkSession) -> None:
    rows = [
        message(1, label="order 17", message_class=0x8002, body_type=8),
        message(2, label="order 23", message_class=0x8002, body_type=8),
        message(3, label="{8e5ddd7d-0411-49b5-94d9-8e85f1d0ff1a} paid", message_class=0x8000, body_type=8),
        message(4, label="order 4", message_class=0x1234, body_type=0x300, transactional=False),
    ]
    found = pipeline.triage(spark.createDataFrame(rows, row_type())).collect()
    assert [(row.reason, row.label_form, row.body_kind, row.letters, row.transactional) for row in found] == [
        ("reach-queue-timeout", "order #", "0x0008", 2, 2),
        ("0x1234", "order #", "0x0300", 1, 0),
        ("bad-dst-q", "{#} paid", "0x0008", 1, 1),
    ]
    assert (found[0].sample, found[0].sample_id) == ("order 17", r"{00000000-0000-0000-0000-000000000000}\16777216")
    assert found[0].newest - found[0].oldest == timedelta(hours=1)


def test_letters_are_chosen_by_all_that_is_given(spark: SparkSession) -> None:
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
    with pytest.raises(InvalidParameter, match="unknown reason 'late'; reasons are bad-dst-q"):
        pipeline.chosen(found, pipeline.Choice(reasons=["late"]))


def test_letters_are_sent_again_and_removed(spark: SparkSession, manager: waypost.Manager) -> None:
    found = letters(spark, manager)
    assert {row.message_class for row in found.collect()} == REASONS
    done = desks.resend(found, desks.Desk(manager, LocalSink(manager)))
    assert done == desks.Done(sent_once=3, sent_at_least_once=1, removed=4, settled=0)
    assert bodies(manager, "orders") == ORDERS
    assert bodies(manager, "plain") == [b"body 9"]
    assert [bodies(manager, name) for name in (*pipeline.QUEUES, desks.RECEIPTS)] == [[], [], []]


def test_many_letters_are_sent_and_dropped_in_slices(
    spark: SparkSession, manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "SLICE", 2)
    sink = LocalSink(manager)
    assert desks.resend(letters(spark, manager), desks.Desk(manager, sink)) == desks.Done(3, 1, removed=4)
    assert bodies(manager, "orders") == ORDERS
    assert len(sink.transactions) == 2
    _die(manager)
    assert desks.drop(letters(spark, manager), desks.Desk(manager, sink)) == desks.Done(removed=3)
    assert [bodies(manager, name) for name in (*pipeline.QUEUES, desks.RECEIPTS)] == [[], [], []]


def test_slices_have_so_many_letters_of_a_queue(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "SLICE", 10)
    near = [message(seq) for seq in (*range(5, 31), 10_000, 10_001, 70_000)]
    other = [message(7, queue="DIRECT=OS:beta\\private$\\other")]
    found = desks._ranges(spark.createDataFrame([*near, *other], row_type()))
    assert [(each.first, each.last, each.count) for each in found if each.queue == near[0]["queue"]] == [
        *((5, 9, 5), (10, 19, 10), (20, 29, 10), (30, 70_000, 4)),
    ]
    assert [(each.first, each.last, each.count) for each in found if each.queue == other[0]["queue"]] == [(7, 7, 1)]


def test_letters_that_follow_each_other_are_removed_together() -> None:
    asked = []

    class Bulk:
        def remove(self, wanted: RemoveRange) -> Removed:
            call = wanted.name, wanted.after, wanted.up_to
            asked.append(call)
            return Removed(1, 2) if asked.count(call) < wanted.up_to - wanted.after else Removed(1, 0)

    band = 3 << 56
    names = [("a", band + 5), ("a", band + 6), ("a", 7), ("a", band + 9), ("b", 10), ("b", 11)]
    desk = desks.Desk(None, LocalSink(None), Bulk())  # type: ignore[arg-type]
    assert desks._remove(desk, names) == 6
    assert sorted(asked) == [*[("a", 4, 7)] * 3, ("a", 8, 9), *[("b", 9, 11)] * 2]


class Held:
    """A client for which others hold what is to be removed."""

    def remove(self, *_: object) -> Removed:
        return Removed(0, 1)


@pytest.mark.parametrize("bulk", [Held(), None])
def test_a_letter_that_another_reader_holds_keeps_its_receipt(
    spark: SparkSession, manager: waypost.Manager, bulk: Any
) -> None:
    found = letters(spark, manager).where("transactional")
    reader = manager.transaction()
    manager.queue(r"system$;deadxact").receive(0, transaction=reader)
    with pytest.raises(
        SharingViolation, match=r"holds dead-letter messages of .*; run the command again when that reader has finished"
    ):
        desks.resend(found, desks.Desk(manager, LocalSink(manager), bulk))
    reader.abort()
    done = desks.resend(letters(spark, manager).where("transactional"), desks.Desk(manager, LocalSink(manager)))
    assert (done.sent_once, done.settled, bodies(manager, "orders")) == (0, 3, ORDERS)


def test_a_letter_that_is_given_back_just_now_is_not_taken_for_removed() -> None:
    class Queue:
        def receive(self, *_: object, **__: object) -> None:
            raise MessageNotFound("a transaction holds it")

        def peek(self, *_: object, **__: object) -> None: ...

    desk = desks.Desk(SimpleNamespace(queue=lambda _: Queue()), LocalSink(None))  # type: ignore[arg-type]
    with pytest.raises(SharingViolation):
        desks._remove(desk, [("a", 1)])


def test_what_is_removed_was_sent_if_a_second_read_finds_less(
    spark: SparkSession, manager: waypost.Manager, tmp_path: Path
) -> None:
    rows = str(tmp_path / "rows.parquet")
    pq.write_table(letters(spark, manager).where("transactional").toArrow(), rows)

    def read(_: Iterator[object]) -> Iterator[object]:
        yield from pq.read_table(rows).to_batches()

    class Losing(LocalSink):
        def send(self, messages: DataFrame, delivery: Delivery, transaction: str) -> None:
            pq.write_table(pq.read_table(rows).slice(0, 1), rows)
            super().send(messages, delivery, transaction)

    found = spark.range(0, 1, 1, 1).mapInArrow(read, row_type())
    assert desks.resend(found, desks.Desk(manager, Losing(manager))) == desks.Done(sent_once=3, removed=3)
    assert bodies(manager, "orders") == ORDERS


def test_letters_of_a_queue_that_is_gone_are_gone(manager: waypost.Manager) -> None:
    with manager.transaction() as transaction:
        body = json.dumps({"queue": "DIRECT=OS:.\\private$\\gone", "lookup_ids": [7]}).encode()
        # In upper case, unlike the name that is looked up.
        manager.create_queue(desks.RECEIPTS.upper(), transactional=True).send(body, transaction=transaction)
    assert len(desks.settle(desks.Desk(manager, LocalSink(manager)))) == 1
    assert bodies(manager, desks.RECEIPTS) == []


@pytest.mark.parametrize("step", ["send", "settle", "remove", "receipt"])
def test_letters_are_sent_once_wherever_a_run_ends(
    spark: SparkSession, manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink = LocalSink(manager, fails=step == "send")
    with monkeypatch.context() as patch:
        if step == "settle":
            patch.setattr(desks, "settle", _crash_when_called_again(desks.settle))
        elif step == "remove":
            patch.setattr(desks, "_remove", _remove_one_and_crash)
        elif step == "receipt":
            patch.setattr(desks, "_remove", _remove_all_and_crash)
        with pytest.raises(Crash):
            desks.resend(letters(spark, manager).where("transactional"), desks.Desk(manager, sink))
    left = {"send": 3, "settle": 3, "remove": 2, "receipt": 0}[step]
    assert len(bodies(manager, r"system$;deadxact")) == left
    # Another program, which knows nothing of the first, and another choice of messages.
    done = desks.resend(letters(spark, manager).where("transactional"), desks.Desk(manager, LocalSink(manager)))
    assert done.settled == (0 if step == "send" else 3)
    assert bodies(manager, "orders") == ORDERS
    assert [bodies(manager, name) for name in (r"system$;deadxact", desks.RECEIPTS)] == [[], []]


def _crash_when_called_again(settle: object) -> object:
    calls = iter((False, True))

    def once(desk: Desk) -> object:
        if next(calls):
            raise Crash
        return settle(desk)  # type: ignore[operator]

    return once


def _remove_one_and_crash(desk: Desk, names: list[tuple[str, int]]) -> int:
    queue, lookup_id = names[0]
    desk.manager.queue(queue).receive(0, lookup_id=lookup_id)
    raise Crash


def _remove_all_and_crash(desk: Desk, names: list[tuple[str, int]]) -> int:
    for queue, lookup_id in names:
        desk.manager.queue(queue).receive(0, lookup_id=lookup_id)
    raise Crash


def test_letters_can_be_sent_somewhere_else(spark: SparkSession, manager: waypost.Manager) -> None:
    manager.create_queue("rescued", transactional=True)
    done = desks.resend(letters(spark, manager), desks.Desk(manager, LocalSink(manager)), to="rescued")
    assert done == desks.Done(sent_once=4, removed=4)
    assert sorted(bodies(manager, "rescued")) == [*ORDERS, b"body 9"]


def test_parked_letters_can_be_sent_where_they_were_to_go(spark: SparkSession, manager: waypost.Manager) -> None:
    desk = desks.Desk(manager, LocalSink(manager))
    found = letters(spark, manager)
    before = sorted(found.select("dest_queue", "label", "message_class", "transactional", "journal").collect())
    assert desks.park(found, desk) == desks.Done(sent_once=4, removed=4)
    assert [bodies(manager, name) for name in pipeline.QUEUES] == [[], []]
    with manager.transaction() as transaction:
        manager.queue("parked").send(b"another message", transaction=transaction)
    parked = desks.unparked(letters(spark, manager, "parked"))
    assert sorted(parked.select("dest_queue", "label", "message_class", "transactional", "journal").collect()) == before
    assert desks.resend(parked, desk) == desks.Done(sent_once=3, sent_at_least_once=1, removed=4)
    assert (bodies(manager, "orders"), bodies(manager, "plain")) == (ORDERS, [b"body 9"])
    assert bodies(manager, "parked") == [b"another message"]
    with pytest.raises(InvalidParameter, match="cannot park in plain: the queue is not transactional"):
        desks.park(_none(spark), desk, to="plain")


def test_dropped_letters_are_gone_and_the_others_stay(spark: SparkSession, manager: waypost.Manager) -> None:
    found = pipeline.chosen(letters(spark, manager), pipeline.Choice(labels=["order 1"]))
    assert desks.drop(found, desks.Desk(manager, LocalSink(manager))) == desks.Done(removed=1)
    assert bodies(manager, r"system$;deadxact") == [b"body 0", b"body 2"]
    assert bodies(manager, r"system$;deadletter") == [b"body 9"]


def test_a_message_that_is_no_receipt_is_named(manager: waypost.Manager) -> None:
    with manager.transaction() as transaction:
        sent = manager.create_queue(desks.RECEIPTS, transactional=True).send(b"[1, 2]", transaction=transaction)
    with pytest.raises(InvalidParameter, match="is not a receipt; remove it") as caught:
        desks.settle(desks.Desk(manager, LocalSink(manager)))
    assert sent.id in str(caught.value)


@pytest.mark.parametrize("word", ["bad", "dead", "8002", "0x", "0x18002", "-0x1", "0x_1", "0x8002 "])
def test_only_a_number_with_0x_is_taken_for_one(word: str) -> None:
    with pytest.raises(InvalidParameter, match=f"unknown reason '{word}'; reasons are bad-dst-q"):
        pipeline.class_of(word)
    assert (pipeline.class_of("0x8002"), pipeline.class_of("0xc00a")) == (0x8002, 0xC00A)


def test_letters_beyond_the_listed_groups_count(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "GROUPS", 1)
    rows = [
        message(1, label="paid", message_class=0x8002),
        *(message(seq, label="order", message_class=0x8000) for seq in (2, 3)),
        message(4, label="sent", message_class=0x8002),
        message(5, label="gone", message_class=0x8002),
    ]
    found = pipeline.tally(spark.createDataFrame(rows, row_type()))
    assert [(row.reason, row.letters) for row in found.groups] == [("bad-dst-q", 2)]
    made = deadletters_report.report(found, action="drop", done=desks.Done(removed=5), now=BEGAN + timedelta(hours=3))
    assert made.summary == "5 of 5 dead-letter messages were dropped."
    figures = {figure.name: figure.value for figure in made.figures}
    assert figures == {"Letters": 5, "Oldest": 7200.0, "reach-queue-timeout": 3, "bad-dst-q": 2, "Removed": 5}
    tables = {part.name: part for part in made.parts() if isinstance(part, Table)}
    assert (len(tables["letters"].rows), tables["letters"].total) == (1, 4)
    assert [row[2] for row in tables["reasons"].rows] == [3, 2]


def test_letters_that_an_interrupted_run_had_sent_are_told(
    manager: waypost.Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = import_module("waypost.cli.spark.deadletters")

    @contextmanager
    def working(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(target=SimpleNamespace(url="", token=None), read=lambda *_, **__: None)

    monkeypatch.setattr(command, "working", working)
    monkeypatch.setattr(command, "_desk", lambda _: nullcontext(desks.Desk(manager, LocalSink(manager))))
    monkeypatch.setattr(pipeline, "tally", lambda _: pipeline.Tally([], []))
    ids = [letter.lookup_id for letter in manager.queue(r"system$;deadxact").browse()]
    with manager.transaction() as transaction:
        receipts = manager.create_queue(desks.RECEIPTS, transactional=True)
        receipts.send(json.dumps({"queue": r"system$;deadxact", "lookup_ids": ids}).encode(), transaction=transaction)
    arguments = ["spark", "deadletters", "resend", "--do", "--json", "--report", str(tmp_path / "report")]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert told["summary"] == (
        "No dead-letter message was sent again. 3 messages were sent by an earlier, interrupted run."
    )
    assert told["figures"] == {"Letters": 0, "Removed": 0, "Settled": 3}
    assert bodies(manager, r"system$;deadxact") == []
    again = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert again["summary"] == "No dead-letter message was sent again."
    assert again["figures"] == {"Letters": 0, "Removed": 0}


@pytest.mark.parametrize("seconds", ["1e12", "inf", "nan"])
def test_an_age_that_no_letter_has_is_refused(seconds: str) -> None:
    result = CliRunner().invoke(app, ["spark", "deadletters", "--older", seconds])
    assert result.exit_code == 2
    assert "--older" in result.stderr
