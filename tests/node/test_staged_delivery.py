"""Committed stages on their way into the queues: in order, in parts, as far as there is room, over restarts."""

from pathlib import Path
from typing import Any

import pytest

from tests.node.bulk_rig import BulkRig, batch_of, commit_of, group
from tests.node.rig import direct, letter
from waypost.api.bulk import Committed
from waypost.api.operations import ForgetDamaged
from waypost.client.doctor import examine_node
from waypost.core.message_values import Acknowledgements
from waypost.errors import TransactionSequence
from waypost.guid import guid_text
from waypost.node import staged_delivery, stages
from waypost.node.explain import explain_queue
from waypost.node.stages import Group, Place
from waypost.store import keys
from waypost.store.bulk_records import FrameRecord, StageRecord
from waypost.store.port import Table
from waypost.wire.format_names import Suffix

ONE, TWO = b"\x11" * 16, b"\x22" * 16
BODY = bytes(1000)


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.ledger()
    rig.create("books", transactional=True)
    return rig


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames and parts of two messages."""
    monkeypatch.setattr(stages, "MAX_STAGED_FRAME", 2)
    monkeypatch.setattr(staged_delivery, "MAX_DELIVERED", 2)


def large(*labels: str, name: str = "ledger", **properties: Any) -> Group:
    """Messages of about a kilobyte."""
    return Group(direct(name), messages=[letter(label, body=BODY, **properties) for label in labels])


def finish(rig: BulkRig) -> None:
    while rig.node.stages.delivery.is_under_way:
        rig.advance(0)
    rig.settle()


# Order.


def test_messages_stand_by_partition_then_by_stage_then_by_row(rig: BulkRig) -> None:
    """The order in which tasks ended does not matter."""
    places = {(2, 0): "g", (1, 1): "ef", (0, 0): "ab", (1, 0): "cd"}
    found = [rig.stage_of(group(*labels), place=Place(*place)) for place, labels in places.items()]
    rig.stop()
    assert rig.commit_stages(*found).count == 7
    assert rig.seen("ledger") == list("abcdefg")


def test_the_order_is_that_of_the_commit_for_each_of_several_queues(rig: BulkRig) -> None:
    late = rig.stage_of(group("l2"), group("b2", name="books"), place=Place(1))
    early = rig.stage_of(group("b1", name="books"), group("l1"), place=Place(0))
    rig.done(rig.begin(TWO))
    rig.done(rig.send("between", "ledger", TWO))
    rig.done(rig.commit(TWO))
    rig.commit_stages(late, early)
    assert rig.seen("ledger") == ["between", "l1", "l2"]
    assert rig.seen("books") == ["b1", "b2"]


# Parts.


def test_a_large_commit_is_delivered_in_parts_and_once(rig: BulkRig, in_parts: None) -> None:
    first, second = rig.stage(*"abcde"), rig.stage(*"fg")
    assert rig.commit_stages(first, second) == Committed(7, is_repeated=False, left=5)
    assert rig.commit_stages(first, second).is_repeated
    finish(rig)
    assert rig.seen("ledger") == list("abcdefg")
    assert rig.commit_stages(first, second) == Committed(0, is_repeated=True, left=0)
    assert rig.staged_bytes == 0
    assert {key[0] for key, _ in rig.store.scan(Table.BULK)} == {5}


def test_a_commit_is_answered_when_its_messages_are_in_their_queues(rig: BulkRig, in_parts: None) -> None:
    stage = rig.stage(*"abcde")
    request = rig.do(commit_of([stage], batch_of(), wait_s=10.0))
    again = rig.do(commit_of([stage], batch_of(), wait_s=10.0))
    for answer, count in ((request, 5), (again, 0)):
        assert not rig.is_answered(answer) or count
    finish(rig)
    assert rig.done(request) == Committed(5, is_repeated=False)
    assert rig.done(again) == Committed(0, is_repeated=True)


def test_the_wait_for_a_delivery_ends_in_time(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    request = rig.do(commit_of([rig.stage_of(large(*"abc"))], batch_of(), wait_s=10.0))
    rig.advance(9.0)
    assert not rig.is_answered(request)
    rig.advance(1.0)
    assert rig.done(request) == Committed(3, is_repeated=False, left=2)


@pytest.mark.parametrize("written", range(8))
def test_a_crash_between_any_two_parts_neither_loses_nor_repeats(rig: BulkRig, in_parts: None, written: int) -> None:
    found = rig.stage(*"abcde"), rig.stage_of(group("f", name="books"), group(*"ghi"))
    rig.hold_disk()
    rig.commit_request(*found, to=None)
    for _ in range(written):
        rig.advance(0)
        rig.write()
    rig.crash(written=0)
    finish(rig)
    if not rig.batches():
        assert written <= 1
        assert rig.seen("ledger") == []
        rig.commit_stages(*found)
        finish(rig)
    assert rig.commit_stages(*found).is_repeated
    assert rig.seen("ledger") == list("abcdeghi")
    assert rig.seen("books") == ["f"]
    assert rig.staged_bytes == 0


def test_messages_that_ask_for_acknowledgments_get_them_in_every_part(rig: BulkRig, in_parts: None) -> None:
    rig.create("admin")
    asks: dict[str, Any] = {
        "acknowledgements_requested": Acknowledgements.ACK_POS_ARRIVAL,
        "administration_queue_format_name": direct("admin"),
    }
    rig.commit_stages(rig.stage_of(large(*"abcde", **asks)))
    finish(rig)
    assert rig.seen("ledger") == list("abcde")
    assert len(rig.labels(rig.queue("admin"))) == 5


# Room.


def test_a_commit_waits_for_room_and_ends_by_itself_as_the_queue_is_drained(rig: BulkRig) -> None:
    rig.modify("ledger", quota=3)
    stage = rig.stage_of(large(*"abcdefgh"))
    assert rig.commit_stages(stage).left == 6
    taken: list[str] = []
    while len(taken) < 8:
        assert rig.queue("ledger").total_bytes <= 3 * 1024
        taken.append(rig.message(rig.receive("ledger")).label)
        finish(rig)
    assert taken == list("abcdefgh")
    assert rig.commit_stages(stage) == Committed(0, is_repeated=True, left=0)


def test_a_restart_goes_on_with_a_commit_that_waits_for_room(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    stage = rig.stage_of(large(*"abc"))
    rig.commit_stages(stage, to=None)
    rig.stop()
    assert rig.seen("ledger") == ["a"]
    assert rig.commit_stages(stage) == Committed(0, is_repeated=True, left=2)
    for label in "abc":
        assert rig.message(rig.receive("ledger")).label == label
        finish(rig)
    assert rig.seen("ledger") == []


def test_a_larger_quota_makes_room(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    rig.commit_stages(rig.stage_of(large(*"abc")))
    rig.modify("ledger", quota=20)
    finish(rig)
    assert rig.seen("ledger") == list("abc")


def test_an_empty_queue_takes_the_next_message_whatever_its_quota(rig: BulkRig) -> None:
    stage = rig.stage_of(large(*"ab"))
    rig.modify("ledger", quota=0)
    assert rig.commit_stages(stage).left == 1
    assert rig.message(rig.receive("ledger")).label == "a"
    finish(rig)
    assert rig.seen("ledger") == ["b"]


def test_later_commits_to_a_full_queue_wait_behind_and_others_pass(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    rig.commit_stages(rig.stage_of(large(*"ab")))
    assert rig.commit_stages(rig.stage("c", batch=1), batch=1).left == 1
    both = rig.stage_of(group("x", name="books"), group("d"), batch=2)
    assert rig.commit_stages(both, batch=2).left == 2
    assert rig.commit_stages(rig.stage("y", name="books", batch=3), batch=3).left == 1
    rig.create("free", transactional=True)
    assert rig.commit_stages(rig.stage("z", name="free", batch=4), batch=4).left == 0
    taken = []
    for _ in range(4):
        taken.append(rig.message(rig.receive("ledger")).label)
        finish(rig)
    assert taken == list("abcd")
    assert rig.seen("books") == ["x", "y"]


def test_a_queue_without_room_says_what_waits_for_it(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    rig.commit_stages(rig.stage_of(large(*"abc")))
    said = explain_queue(rig.node, direct("ledger"), rig.now)
    assert (
        "2 messages of committed batches wait for room in this queue, or in other queues of the same batches."
        in said.sentences
    )
    assert rig.node.long_work == ""


# Events meanwhile.


def delete(rig: BulkRig, name: str) -> None:
    request = rig.delete(name)
    while not rig.is_answered(request):
        rig.advance(0)
    rig.settle()


@pytest.mark.parametrize("is_started_again", [False, True])
def test_a_deleted_queue_takes_its_committed_messages_along(rig: BulkRig, *, is_started_again: bool) -> None:
    rig.modify("ledger", quota=2)
    groups = large(*"ab", negative_journaling_requested=True), large("c"), group("d", name="books")
    rig.commit_stages(rig.stage_of(*groups))
    if is_started_again:
        rig.stop()
    delete(rig, "ledger")
    finish(rig)
    assert rig.seen("books") == ["d"]
    assert rig.staged_bytes == 0
    assert rig.labels(rig.node.manager.system_queues[Suffix.DEADXACT]) == ["a", "b"]


def test_a_purge_ends_before_the_messages_that_come_later(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    rig.commit_stages(rig.stage_of(large(*"ab")))
    rig.done(rig.purge("ledger"))
    finish(rig)
    assert rig.seen("ledger") == ["b"]


# Damage.


def test_a_damaged_frame_is_left_out_and_the_others_come(rig: BulkRig, in_parts: None) -> None:
    rig.modify("ledger", quota=2)
    stage = rig.stage_of(large(*"abcdef"))
    rig.commit_stages(stage, to=None)
    with rig.node.kernel.operation(rig.now):
        rig.node.messages.batch.put(Table.BULK, keys.frame_key(stage, 1), b"\1damaged")
    rig.settle()
    rig.stop()
    for label in "abef":
        assert rig.message(rig.receive("ledger")).label == label
        finish(rig)
    assert rig.seen("ledger") == []
    assert rig.staged_bytes == 0
    # It is named until an operator has it forgotten.
    name = f"frame 1 of the stage {guid_text(stage)}"
    (found,) = examined(rig)
    assert found.startswith(f"{name}, of batch 0 of the query q: ")
    rig.stop()
    assert examined(rig) == [name]
    assert rig.ask_for(ForgetDamaged()).forgotten == 1
    assert examined(rig) == []
    rig.stop()
    assert examined(rig) == []
    assert rig.store.scan(Table.BULK, *keys.all_frames()) == []


def test_the_frames_of_stages_that_wait_are_not_taken_for_damaged_ones(rig: BulkRig, in_parts: None) -> None:
    rig.stage_of(large(*"ab"))
    rig.modify("ledger", quota=2)
    rig.commit_stages(rig.stage_of(large(*"abcdef"), batch=1), batch=1)
    rig.stop()
    assert rig.store.scan(Table.BULK, *keys.all_frames())
    assert examined(rig) == []


def examined(rig: BulkRig) -> list[str]:
    """The damaged frames that the doctor names."""
    (check,) = [check for check in examine_node(rig.node, Path("."), rig.now) if check.check == "damage"]
    assert check.ok == (check.message == "no damaged messages were found")
    return [] if check.ok else check.message.partition("frames are damaged: ")[2].split("; ")


def test_any_number_of_damaged_frames_is_left_out(rig: BulkRig, in_parts: None) -> None:
    rig.modify("ledger", quota=2)
    stage = rig.stage_of(large(*map(str, range(2400))))
    rig.commit_stages(stage, to=None)
    with rig.node.kernel.operation(rig.now):
        for number in range(1, 1199):
            rig.node.messages.batch.put(Table.BULK, keys.frame_key(stage, number), b"\1damaged")
    rig.settle()
    rig.stop()
    for label in ("0", "1", "2398", "2399"):
        assert rig.message(rig.receive("ledger")).label == label
        finish(rig)
    assert rig.seen("ledger") == []
    assert rig.staged_bytes == 0


# Records.


@pytest.mark.parametrize("cut", [1, 5, 20, -1])
def test_a_record_that_is_cut_off_is_damaged(rig: BulkRig, cut: int) -> None:
    rig.stage_of(large("a"), group("b", name="books"))
    for key, value in rig.store.scan(Table.BULK):
        record: type[StageRecord | FrameRecord] = StageRecord if key[0] == 1 else FrameRecord
        assert record.decode(value).encode() == value
        with pytest.raises(Exception, match="damaged"):
            record.decode(value[:cut])
        with pytest.raises(Exception, match="damaged"):
            record.decode(value + b"x")


def test_a_stage_of_another_write_is_not_committed(rig: BulkRig) -> None:
    stage = rig.stage("a", to="ledger", run=ONE, write="1")
    with pytest.raises(TransactionSequence, match="belongs to another run"):
        rig.commit_stages(stage, to="ledger", run=ONE, write="2")
