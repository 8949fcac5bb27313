"""Replay: every chosen message of an archive once, in order, at the rate that was asked for."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.late import late
from tests.spark.pipeline_samples import BEGAN, INVOICES, ORDERS, message
from waypost.errors import InvalidParameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.pandas import types

    from waypost.spark.pipelines import archive, archived, manifest, replay
    from waypost.spark.pipelines.replay import Plan
    from waypost.spark.pipelines.sending import Delivery
else:
    archive = late("waypost.spark.pipelines.archive")
    archived = late("waypost.spark.pipelines.archived")
    manifest = late("waypost.spark.pipelines.manifest")
    replay = late("waypost.spark.pipelines.replay")
    types = late("pyspark.sql.pandas.types")


BETA = r"DIRECT=OS:beta\private$\orders"
GAMMA = r"DIRECT=OS:gamma\private$\invoices"


class Crash(Exception):
    pass


@dataclass
class ListSink:
    """Sent messages in their order; a transaction counts once. `crash_at` ends after the commit of that send."""

    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    transactions: set[str] = field(default_factory=set)
    crash_at: int | None = None

    def send(self, messages: DataFrame, delivery: Delivery, transaction: str) -> None:
        rows = messages.select("dest_queue", "label", "body").collect()
        if transaction not in self.transactions:
            self.transactions.add(transaction)
            self.sent += [(row.dest_queue, row.label, bytes(row.body)) for row in rows]
            self.sizes.append(len(rows))
        if self.crash_at == len(self.sizes):
            self.crash_at = None
            raise Crash


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """An archive with two batches: orders 1 to 5 and invoices 6 to 7, then orders 8 to 9 and a packet that is none."""
    place = str(tmp_path / "archive")
    table, query = archive.table_of(place, "parquet"), str(uuid4())
    batches = [
        [*(message(seq) for seq in range(1, 6)), *(message(seq, INVOICES, dest_queue=GAMMA) for seq in (6, 7))],
        [message(8), message(9), message(10, packet_error="it is none", body=None, label=None)],
    ]
    for number, rows in enumerate(batches):
        archive.archive_batch(
            spark.createDataFrame(rows, types.from_arrow_schema(manifest.MESSAGE)),
            place,
            table,
            manifest.Batch(query, number),
        )
    return place


def run(plan: Plan, sink: ListSink) -> list[int]:
    return [chunk.messages for chunk in replay.replay(plan, sink)]


def test_an_interrupted_replay_sends_each_message_once_and_in_order(spark: SparkSession, path: str) -> None:
    wanted = replay.Wanted(destinations={"Invoices": "invoices", "nobody": "x"}, label="again: {label}")
    sink = ListSink(crash_at=2)
    with pytest.raises(Crash):
        run(replay.make_plan(spark, path, wanted, name="one", size=2), sink)
    # The rate has nothing to say once there is a plan.
    plan = replay.make_plan(spark, path, wanted, name="one", size=1000)
    assert (plan.messages, plan.messages_sent, len(plan.chunks)) == (9, 2, 5)
    assert run(plan, sink) == [2, 1, 2, 2]
    expected = [
        (BETA if seq not in (6, 7) else "invoices", f"again: label {seq}", b"body %d" % seq) for seq in range(1, 10)
    ]
    assert sorted(sink.sent, key=lambda each: each[2]) == expected
    assert [each for each in sink.sent if each[0] == BETA] == [each for each in expected if each[0] == BETA]
    again = replay.make_plan(spark, path, wanted, name="one")
    assert run(again, sink) == []
    assert again.messages_sent == 9
    found = replay.found_there(again, lambda name: None if name == BETA else _there(spark, [6, 6, 7, 99])).collect()
    assert [(row.dest_queue, row.messages, row.found) for row in found] == [(BETA, 7, None), ("invoices", 2, 2)]
    found = replay.found_there(again, lambda name: _there(spark, [6, 8, 8])).collect()
    assert [(row.dest_queue, row.found) for row in found] == [(BETA, 1), ("invoices", 1)]


def test_a_plan_that_a_run_could_not_save_is_made_anew(spark: SparkSession, path: str) -> None:
    (Path(path) / "_replays/four/plan/_temporary").mkdir(parents=True)
    plan = replay.make_plan(spark, path, replay.Wanted(), name="four")
    assert not plan.is_saved
    sink = ListSink()
    run(plan, sink)
    assert len(sink.sent) == 9
    assert replay.make_plan(spark, path, replay.Wanted(), name="four").messages_sent == 9


def test_names_of_a_map_differ_by_more_than_their_case(spark: SparkSession, path: str) -> None:
    wanted = replay.Wanted(destinations={"Orders": "one", "orders": "two"})
    assert {
        row.dest_queue
        for row in replay.make_plan(spark, path, wanted, name="five")
        .wanted.of(archived.read_archive(spark, path))
        .collect()
    } == {"two", GAMMA}


def _there(spark: SparkSession, seqs: list[int]) -> DataFrame:
    rows = [message(seq, label=f"again: label {seq}") for seq in seqs]
    return spark.createDataFrame(rows, types.from_arrow_schema(manifest.MESSAGE))


def test_a_part_of_an_archive_is_replayed_with_another_label(spark: SparkSession, path: str) -> None:
    wanted = replay.Wanted(
        queue="*orders*",
        label_pattern="label *",
        since=BEGAN + timedelta(hours=2),
        until=BEGAN + timedelta(hours=9),
        label="replayed",
    )
    sink = ListSink()
    run(replay.make_plan(spark, path, wanted, name="two"), sink)
    assert [body for _, _, body in sink.sent] == [b"body %d" % seq for seq in (2, 3, 4, 5, 8)]
    assert Counter(label for _, label, _ in sink.sent) == {"replayed": 5}
    assert sink.sizes == [4, 1]


def test_messages_are_sent_no_faster_than_asked(spark: SparkSession, path: str) -> None:
    now, slept = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    plan = replay.make_plan(spark, path, replay.Wanted(queue=ORDERS), name="three", size=replay.chunk_size(2.5))
    assert [chunk.messages for chunk in plan.chunks] == [2, 2, 1, 2]
    assert (
        sum(chunk.messages for chunk in replay.replay(plan, ListSink(), rate=2.5, clock=lambda: now, sleep=sleep)) == 7
    )
    assert slept == pytest.approx([0, 0.8, 0.8, 0.4])


def test_the_same_command_is_the_same_replay() -> None:
    wanted = replay.Wanted(destinations={"a": "b", "c": "d"})
    assert replay.replay_id("/archive/", wanted, "x") == replay.replay_id(
        "/archive", replay.Wanted(destinations={"c": "d", "a": "b"}), "x"
    )
    assert (
        len({replay.replay_id("/archive", each, "x") for each in (wanted, replay.Wanted(), replay.Wanted(label="new"))})
        == 3
    )
    assert replay.replay_id("/archive", wanted, "x") != replay.replay_id("/archive", wanted, "y")
    assert [replay.chunk_size(rate) for rate in (None, 0.2, 500.5, 10**9)] == [10_000, 1, 500, 10_000]


def test_what_decides_what_goes_out_is_told_as_it_was_given() -> None:
    assert replay.Wanted().options("") == ""
    wanted = replay.Wanted("*orders*", "a b", BEGAN, BEGAN, {"Orders": "one", "a": r"DIRECT=OS:x\private$\a"}, "")
    assert shlex.split(wanted.options("http://x")) == [
        *("--url", "http://x", "--queue", "*orders*", "--label", "a b"),
        *("--since", BEGAN.isoformat(), "--until", BEGAN.isoformat(), "--relabel", ""),
        *("--map", r"a=DIRECT=OS:x\private$\a", "--map", "orders=one"),
    ]
    turned = replay.Wanted(destinations={"b": "2", "A": "1"})
    assert turned.options("") == replay.Wanted(destinations={"a": "1", "b": "2"}).options("")


def test_a_replay_does_not_go_on_with_other_options(spark: SparkSession, path: str) -> None:
    orders = replay.Wanted(queue="*orders*")
    sink = ListSink(crash_at=1)
    with pytest.raises(Crash):
        run(replay.make_plan(spark, path, orders, name="six", target="x", size=2), sink)
    for wanted, target in (
        (replay.Wanted(queue="*invoices*"), "x"),
        (replay.Wanted(queue="*orders*", destinations={"orders": "y"}), "x"),
        (orders, "y"),
    ):
        with pytest.raises(InvalidParameter) as caught:
            replay.make_plan(spark, path, wanted, name="six", target=target)
        assert str(caught.value) == (
            "the replay six was started with other options (--url x --queue '*orders*'); "
            "use the same options, or another --id"
        )
    run(replay.make_plan(spark, path, orders, name="six", target="x"), sink)
    assert sorted(body for _, _, body in sink.sent) == [b"body %d" % seq for seq in (1, 2, 3, 4, 5, 8, 9)]
    # An earlier version has not saved them.
    shutil.rmtree(Path(path) / "_replays/six/options")
    assert replay.make_plan(spark, path, replay.Wanted(), name="six").messages_sent == 7
