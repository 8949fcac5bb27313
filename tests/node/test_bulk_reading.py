"""Ranges of a queue by arrival: what is planned, read and removed, and when it is told."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.node import bulk_rig
from tests.node.rig import EXPRESS, IN_TX, OTHER_TX, RECEIVE, TX, direct, letter
from tests.store.engines import LmdbEngine
from waypost.api.bulk import BulkQueue, FindSeq, PlannedRange, PlanRange, ReadRange, Removed, RemoveRange, ShowBulkQueue
from waypost.api.frames import Frame
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.queues import ShareMode
from waypost.core.stored_message import stored_message
from waypost.errors import QueueDeleted, QueueNotFound, SharingViolation, StoreFull
from waypost.guid import NULL_GUID
from waypost.node.epochs import epoch_of
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.records import ASKS_FOR_NOTHING, MessageRecord
from waypost.wire.message_class import MessageClass

PART = "DIRECT=OS:host\\private$\\orders;part"
JOURNAL = "DIRECT=OS:host\\private$\\orders;JOURNAL"
ADMIN = "DIRECT=OS:host\\private$\\admin"
FAR = "DIRECT=OS:far\\private$\\orders"
ALL = SEQUENCE_MASK
ATTRIBUTES = 19


class BulkRig(bulk_rig.BulkRig):
    """A rig that reads in bulk."""

    def state(self, name: str = "orders") -> BulkQueue:
        return self.ask_for(ShowBulkQueue(name=full(name)))

    def plan(self, name: str = "orders", **wanted: Any) -> PlannedRange:
        return self.ask_for(PlanRange(name=full(name), **wanted))

    def read(self, name: str = "orders", *, up_to: int = ALL, **wanted: Any) -> Frame:
        return self.ask_for(ReadRange(name=full(name), up_to=up_to, **wanted))

    def remove(self, up_to: int, max_messages: int = 1000, **wanted: Any) -> Removed:
        return self.ask_for(RemoveRange(name=full("orders"), up_to=up_to, max_messages=max_messages, **wanted))

    def seq_at(self, time: float) -> int:
        return self.ask_for(FindSeq(name=full("orders"), time=time)).seq

    def sent(self, message: Message | str, name: str = "orders", tx: bytes | None = None) -> int:
        """The number of a message that is sent."""
        return self.message(self.send(message, name, tx)).lookup_identifier & SEQUENCE_MASK


def full(name: str) -> str:
    return str(direct(name))


def labels(rows: Frame) -> list[str]:
    return [stored_message(packet).label for packet in rows.each_packet()]


def numbers(rows: Frame) -> list[int]:
    return [lookup_id & SEQUENCE_MASK for lookup_id in rows.numbers()]


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.create("ledger", transactional=True)
    return rig


def test_rows_are_in_the_order_of_arrival_whatever_their_priority(rig: BulkRig) -> None:
    sent = [rig.sent(letter(str(number), priority=number % 8)) for number in range(16)]
    rows = rig.read()
    assert labels(rows) == [str(number) for number in range(16)]
    assert numbers(rows) == sent
    assert (rows.end, rows.is_last) == (ALL, True)


def test_a_packet_and_its_attributes_are_those_of_the_store(rig: BulkRig) -> None:
    rig.done(rig.send(letter("a", body=b"bolts")))
    rows = rig.read()
    record = MessageRecord.decode(bytes(rows.attributes) + rows.each_packet()[0])
    assert (record.arrival_time, record.flags, record.details) == (1_000_000, ASKS_FOR_NOTHING, None)
    assert stored_message(record.packet).body == b"bolts"


def test_details_that_only_the_store_has_are_not_shown(rig: BulkRig) -> None:
    rig.create("dead", transactional=False)
    for label, dead in (("a", ""), ("b", "host\\private$\\dead"), ("c", "")):
        rig.done(rig.send(letter(label, application_deadletter_queue=dead)))
    rows = rig.read()
    assert labels(rows) == ["a", "b", "c"]
    assert len(rows.attributes) == 3 * ATTRIBUTES
    assert rows.attributes[ATTRIBUTES + 1] < 0x80


def test_what_a_transaction_has_sent_holds_the_stable_number_back(rig: BulkRig) -> None:
    for tx in (TX, OTHER_TX):
        rig.done(rig.begin(tx))
    first = rig.sent("first", "ledger", TX)
    rig.done(rig.commit(TX))
    rig.done(rig.begin(TX))
    held = rig.sent("held", "ledger", TX)
    later = rig.sent("later", "ledger", OTHER_TX)
    rig.done(rig.commit(OTHER_TX))
    state = rig.state("ledger")
    assert (state.first, state.last, state.held) == (first, later, 1)
    assert state.stable == state.committed == held - 1
    for locked in ("wait", "skip"):
        assert rig.plan(locked=locked, name="ledger").bounds == [0, first]
        # A reader that does not ask for it does not see it all the same.
        assert labels(rig.read(locked=locked, name="ledger")) == ["first", "later"]
    rig.done(rig.commit(TX))
    assert rig.state("ledger").stable == later
    assert rig.plan(after=first, name="ledger").bounds == [first, later]
    assert labels(rig.read(after=first, up_to=later, name="ledger")) == ["held", "later"]


def test_what_a_reader_has_locked_is_waited_for_or_skipped(rig: BulkRig) -> None:
    first, second = rig.sent("first"), rig.sent("second")
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    state = rig.state()
    assert (state.stable, state.committed, state.held) == (first - 1, second, 1)
    assert rig.plan().bounds == [0]
    assert rig.plan().counts == []
    assert rig.plan(locked="skip").bounds == [0, second]
    assert labels(rig.read(up_to=second, locked="skip")) == ["second"]
    assert labels(rig.read(up_to=second)) == ["first", "second"]
    rig.done(rig.abort())
    rows = rig.read(up_to=rig.state().stable)
    assert labels(rows) == ["first", "second"]
    assert MessageRecord.decode(bytes(rows.attributes[:ATTRIBUTES]) + rows.each_packet()[0]).abort_count == 1


def test_a_message_that_goes_with_its_lock_counts_as_locked(rig: BulkRig) -> None:
    first = rig.sent("first")
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.purge())
    second = rig.sent("second")
    assert (rig.state().stable, rig.state().held) == (first - 1, 1)
    rig.done(rig.abort())
    assert (rig.state().stable, rig.state().first) == (second, second)


def test_how_long_the_same_message_holds_others_back_is_told(rig: BulkRig) -> None:
    rig.sent("first")
    rig.sent("second")
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    assert rig.state().held_s == 0
    rig.advance(7)
    rig.done(rig.receive(options=IN_TX))
    assert (rig.state().held_s, rig.state().held) == (7, 2)
    rig.done(rig.commit())
    assert (rig.state().held_s, rig.state().held) == (0, 0)
    rig.sent("third")
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.advance(1)
    # Nobody has looked before.
    assert rig.state().held_s == 0


def test_an_empty_queue_is_stable_up_to_the_last_number_of_all(rig: BulkRig) -> None:
    last = rig.sent("elsewhere")
    state = rig.state("ledger")
    assert (state.first, state.last, state.oldest, state.stable, state.committed) == (0, 0, 0, last, last)
    rows = rig.read(up_to=last, name="ledger")
    assert (rows.each_packet(), rows.end, rows.is_last) == ([], last, True)


def test_a_plan_has_parts_of_about_the_same_count(rig: BulkRig) -> None:
    sent = [rig.sent(letter("", priority=number % 3)) for number in range(10)]
    plan = rig.plan(parts=3)
    assert plan.counts == [3, 3, 4]
    assert plan.bounds == [0, sent[2], sent[5], sent[9]]
    assert rig.plan(parts=100).counts == [1] * 10
    assert rig.plan(after=sent[4], max_messages=2).bounds == [sent[4], sent[6]]
    assert rig.plan(up_to=sent[4], parts=2).bounds == [0, sent[1], sent[4]]
    half = rig.queue().total_bytes // 2
    assert sum(rig.plan(max_bytes=half).counts) == 5
    assert rig.plan(max_bytes=1).counts == [1]
    assert rig.plan(after=sent[9]).bounds == [sent[9]]


def test_a_frame_ends_at_its_limits_and_says_where(rig: BulkRig) -> None:
    sent = [rig.sent(letter(str(number), body=bytes(1000 * number))) for number in range(6)]
    rows = rig.read(up_to=ALL, max_messages=4)
    assert (labels(rows), rows.end, rows.is_last) == (["0", "1", "2", "3"], sent[3], False)
    rows = rig.read(after=rows.end, up_to=ALL, max_bytes=1)
    assert (labels(rows), rows.end, rows.is_last) == (["4"], sent[4], False)
    rows = rig.read(after=rows.end, up_to=ALL)
    assert (labels(rows), rows.end, rows.is_last) == (["5"], ALL, True)
    sizes = [len(packet) for packet in rig.read().each_packet()]
    rows = rig.read(up_to=ALL, max_bytes=sum(sizes[:4]))
    assert labels(rows) == ["0", "1", "2", "3"]
    assert len(rows.attributes) == 4 * ATTRIBUTES
    assert labels(rig.read(up_to=ALL, max_bytes=sum(sizes[:4]) - 1)) == ["0", "1", "2"]
    assert labels(rig.read(up_to=sent[2], max_messages=3)) == ["0", "1", "2"]
    assert rig.read(up_to=sent[2], max_messages=3).is_last


def test_express_messages_are_read_from_memory_between_the_others(rig: BulkRig) -> None:
    for number in range(8):
        rig.done(rig.send(letter(str(number), delivery_guarantee=EXPRESS) if number % 3 else str(number)))
    assert labels(rig.read()) == [str(number) for number in range(8)]
    assert labels(rig.read(up_to=ALL, max_messages=3)) == ["0", "1", "2"]


def test_what_is_not_durable_is_not_shown_before_it_is(rig: BulkRig) -> None:
    rig.sent("old")
    rig.hold_disk()
    rig.send("new")
    requests = [
        rig.do(ReadRange(name="orders", up_to=ALL)),
        rig.do(ShowBulkQueue(name="orders")),
        rig.do(PlanRange(name="orders")),
        rig.do(FindSeq(name="orders", time=2e9)),
    ]
    assert not any(map(rig.is_answered, requests))
    rig.release_disk()
    rows = rig.done(requests[0])
    assert isinstance(rows, Frame)
    assert labels(rows) == ["old", "new"]


def test_nobody_hears_that_a_message_is_gone_that_a_crash_could_bring_back(rig: BulkRig) -> None:
    rig.sent("first")
    rig.sent("second")
    rig.open()
    rig.hold_disk()
    rig.receive()
    request = rig.do(ReadRange(name="orders", up_to=ALL))
    assert not rig.is_answered(request)
    rig.crash()
    assert labels(rig.read()) == ["first", "second"]


@pytest.mark.parametrize("restart", [BulkRig.stop, BulkRig.crash])
def test_numbers_and_epochs_outlive_the_process(rig: BulkRig, restart: Callable[[BulkRig], None]) -> None:
    sent = [rig.sent(letter(str(number), priority=number)) for number in range(5)]
    before = [rig.state(name) for name in ("orders", JOURNAL, "ledger")]
    rig.settle()
    restart(rig)
    after = [rig.state(name) for name in ("orders", JOURNAL, "ledger")]
    assert [state.epoch for state in after] == [state.epoch for state in before]
    assert len({state.epoch for state in after}) == 3
    assert (after[0].first, after[0].last) == (sent[0], sent[-1])
    assert numbers(rig.read()) == sent
    # A number that was given as stable is never given again.
    assert rig.sent("later") > before[0].stable


def test_a_queue_that_was_created_again_is_another(rig: BulkRig) -> None:
    rig.sent("old")
    epoch = rig.state().epoch
    rig.read(epoch=epoch)
    rig.done(rig.delete())
    with pytest.raises(QueueNotFound, match="not a queue of this computer"):
        rig.read()
    rig.create("orders")
    assert rig.state().epoch != epoch
    for operation in (
        ReadRange(name="orders", up_to=ALL, epoch=epoch),
        PlanRange(name="orders", epoch=epoch),
        RemoveRange(name="orders", up_to=ALL, max_messages=1, epoch=epoch),
    ):
        with pytest.raises(QueueDeleted, match="deleted and created again"):
            rig.do(operation)


def test_a_queue_without_an_identifier_has_an_epoch_of_its_own(rig: BulkRig) -> None:
    queue, other = rig.queue(), rig.queue("ledger")
    queue.identifier = other.identifier = NULL_GUID
    assert len(epoch_of(queue)) == 16
    assert epoch_of(queue) == epoch_of(queue) != epoch_of(other)


def test_removed_messages_go_as_received_ones_do(rig: BulkRig) -> None:
    rig.create("admin")
    rig.modify("orders", journaling=True)
    first = rig.sent(
        letter("first", acknowledgements_requested=0x0F, administration_queue_format_name=direct(ADMIN))
    )  # fmt: skip
    second, third = rig.sent("second"), rig.sent("third")
    assert rig.remove(second) == Removed(2, 0)
    assert numbers(rig.read()) == [third]
    assert labels(rig.read(name=JOURNAL)) == ["first", "second"]
    classes = [message.message_class for message in rig.contents(rig.queue("admin"))]
    assert classes == [MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, MessageClass.MQMSG_CLASS_ACK_RECEIVE]
    assert rig.remove(second) == Removed(0, 0)
    rig.stop()
    assert first < rig.state().first == third


def test_what_is_left_is_what_the_limit_or_a_lock_has_left(rig: BulkRig) -> None:
    sent = [rig.sent(str(number)) for number in range(6)]
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    assert rig.remove(sent[4], 2) == Removed(2, 3)
    assert rig.remove(sent[4]) == Removed(2, 1)
    assert rig.remove(sent[4]) == Removed(0, 1)
    rig.done(rig.abort())
    assert rig.remove(sent[4]) == Removed(1, 0)
    assert rig.labels() == ["5"]


def test_only_the_range_is_removed(rig: BulkRig) -> None:
    sent = [rig.sent(letter(str(number), priority=number % 3)) for number in range(6)]
    request = rig.do(RemoveRange(name="orders", up_to=sent[4], max_messages=10, after=sent[1]))
    assert rig.done(request) == Removed(3, 0)
    assert numbers(rig.read()) == [sent[0], sent[1], sent[5]]


def test_a_removal_is_told_when_it_is_durable(rig: BulkRig) -> None:
    number = rig.sent("first")
    rig.hold_disk()
    request = rig.do(RemoveRange(name="orders", up_to=number, max_messages=10))
    again = rig.do(RemoveRange(name="orders", up_to=number, max_messages=10))
    assert not rig.is_answered(request)
    # That there is nothing rests on the first.
    assert not rig.is_answered(again)
    rig.release_disk()
    assert (rig.done(request), rig.done(again)) == (Removed(1, 0), Removed(0, 0))


def test_nothing_is_removed_while_the_disk_is_full(rig: BulkRig) -> None:
    number = rig.sent("first")
    rig.node.kernel.trouble = StoreFull("no room")
    with pytest.raises(StoreFull):
        rig.remove(number)
    assert labels(rig.read()) == ["first"]


def test_nothing_is_removed_from_a_queue_that_a_reader_has_for_itself(rig: BulkRig) -> None:
    number = rig.sent("first")
    rig.done(rig.ask("orders", RECEIVE, ShareMode.DENY_RECEIVE))
    with pytest.raises(SharingViolation, match="open exclusively"):
        rig.remove(number)
    assert labels(rig.read()) == ["first"]


def test_the_number_at_a_time_is_that_of_the_last_that_came_before(rig: BulkRig) -> None:
    sent: list[int] = []
    for _ in range(9):
        sent.append(rig.sent(letter("", priority=len(sent) % 3)))
        rig.advance(10)
    start = 1_000_000
    assert rig.seq_at(start) == rig.seq_at(0) == 0
    assert rig.seq_at(start + 0.5) == rig.seq_at(start + 10) == sent[0]
    assert rig.seq_at(start + 45) == sent[4]
    assert rig.seq_at(2e9) == rig.seq_at(float("inf")) == sent[8]
    rig.remove(sent[8])
    assert rig.seq_at(2e9) == 0


def test_system_and_outgoing_queues_can_be_read(rig: BulkRig) -> None:
    rig.send("on its way", FAR)
    assert labels(rig.read(name=FAR)) == ["on its way"]
    assert rig.state(FAR).last
    assert labels(rig.read(name=FAR, outgoing=True)) == ["on its way"]
    with pytest.raises(QueueNotFound, match="not an outgoing queue"):
        rig.do(ReadRange(name="orders", up_to=ALL, outgoing=True))
    rig.send(letter("late", time_to_be_received=1, negative_journaling_requested=True))
    rig.advance(5)
    name = "DIRECT=OS:host\\SYSTEM$;DEADLETTER"
    assert labels(rig.read(name=name)) == ["late"]
    assert rig.state(name).kind == "system"


def test_queues_of_the_queue_manager_itself_are_not_read(rig: BulkRig) -> None:
    with pytest.raises(QueueNotFound):
        rig.read(name="order_queue$")


def test_a_message_that_the_store_lacks_is_set_aside(rig: BulkRig) -> None:
    rig.sent("first")
    number = rig.sent("second")
    batch = Batch()
    (lookup_id,) = [each for each in rig.queue().positions if each & SEQUENCE_MASK == number]
    batch.delete(Table.MESSAGES, keys.message_key(rig.queue().number, lookup_id))
    rig.store.commit(batch, 1_000)
    assert labels(rig.read()) == ["first"]
    assert rig.node.damaged.by_queue == [(str(rig.queue()), 1)]


@pytest.mark.parametrize("value", [b"", b"\1\2", b"\2" + bytes(40)])
def test_a_record_that_cannot_be_decoded_is_set_aside(rig: BulkRig, value: bytes) -> None:
    for label in ("first", "second", "third"):
        rig.sent(label)
    batch = Batch()
    batch.put(Table.MESSAGES, rig.store.keys(Table.MESSAGES)[1], value)
    rig.store.commit(batch, 1_000)
    assert labels(rig.read()) == ["first", "third"]
    (kept,) = rig.node.damaged.all()
    assert "cannot decode" in kept.reason


sends = st.tuples(st.sampled_from((3, 3, 0, 7)), st.booleans(), st.integers(0, 3000))


@settings(max_examples=40)
@given(st.lists(sends, max_size=30), st.lists(st.integers(0, 40), max_size=10), st.integers(1, 7), st.integers(1, 9000))
def test_pages_together_are_the_queue(
    messages: list[tuple[int, bool, int]], received: list[int], max_messages: int, max_bytes: int
) -> None:
    rig = BulkRig()
    for at, (priority, is_express, size) in enumerate(messages):
        message = letter(str(at), priority=priority, body=bytes(size))
        rig.send(replace(message, delivery_guarantee=EXPRESS) if is_express else message)
    rig.settle()
    for at in received:
        rig.remove(at, 1)
    expected = sorted(rig.contents(), key=lambda message: int(message.label))
    found: list[str] = []
    after, is_last = 0, False
    end = rig.state().stable
    while not is_last:
        rows = rig.read(after=after, up_to=end, max_messages=max_messages, max_bytes=max_bytes)
        assert 1 <= rows.count <= max_messages or rows.is_last
        assert len(rows.packets) <= max_bytes or rows.count == 1
        assert rows.each_packet() == [m.packet for m in expected[len(found) : len(found) + rows.count]]
        found += labels(rows)
        after, is_last = rows.end, rows.is_last
    assert found == [message.label for message in expected]
    assert after == end


@pytest.fixture
def on_lmdb(tmp_path: Path) -> Iterator[BulkRig]:
    engine = LmdbEngine(tmp_path)
    yield BulkRig(engine)
    engine.stop()


def test_thousands_of_messages_come_in_one_frame(on_lmdb: BulkRig) -> None:
    rig = on_lmdb
    rig.done(rig.send_many([b"%d" % number for number in range(3000)]))
    rig.done(rig.send(letter("", body=b"between", priority=7)))
    rig.done(rig.send_many([b"%d" % number for number in range(3000, 5000)]))
    rig.remove(10)
    rows = rig.read(up_to=ALL, max_messages=10_000, max_bytes=1 << 24)
    bodies = [stored_message(packet).body for packet in rows.each_packet()]
    assert bodies == [*(b"%d" % at for at in range(10, 3000)), b"between", *(b"%d" % at for at in range(3000, 5000))]
    assert rows.is_last
    assert len(rows.attributes) == ATTRIBUTES * len(bodies)


# --- Messages that are moved to a range


def taken_away(rig: BulkRig, count: int = 4) -> list[int]:
    """Messages of the queue; the second is moved to a subqueue."""
    sent = [rig.message(rig.send(str(number))).lookup_identifier for number in range(count)]
    rig.done(rig.move(sent[1], PART))
    return sent


def test_a_message_that_was_moved_to_a_range_after_its_plan_is_not_removed(rig: BulkRig) -> None:
    sent = taken_away(rig)
    plan = rig.plan(marks_moves=True)
    rig.done(rig.move(sent[1], "orders", source=PART))
    up_to = plan.bounds[-1]
    assert rig.remove(up_to, as_of=plan.as_of, fresh=plan.fresh) == Removed(3, 1, sent[1] & SEQUENCE_MASK, up_to)
    assert labels(rig.read()) == ["1"]
    # Without these fields, as before.
    assert rig.remove(up_to) == Removed(1, 0)


def test_a_message_that_was_moved_in_the_second_of_the_plan_but_earlier_is_removed(rig: BulkRig) -> None:
    sent = taken_away(rig)
    rig.done(rig.move(sent[1], "orders", source=PART))
    plan = rig.plan(marks_moves=True)
    assert plan.fresh == [sent[1] & SEQUENCE_MASK]
    assert rig.remove(plan.bounds[-1], as_of=plan.as_of, fresh=plan.fresh).count == 4


def test_a_message_that_goes_away_and_comes_back_after_the_plan_is_not_removed(rig: BulkRig) -> None:
    sent = taken_away(rig)
    rig.done(rig.move(sent[1], "orders", source=PART))
    plan = rig.plan(marks_moves=True)
    rig.done(rig.move(sent[1], PART))
    rig.done(rig.move(sent[1], "orders", source=PART))
    assert rig.remove(plan.bounds[-1], as_of=plan.as_of, fresh=plan.fresh).first_moved == sent[1] & SEQUENCE_MASK


@pytest.mark.parametrize("back_s", [0.0, 3600.0])
def test_moves_are_later_than_the_plan_after_a_restart_and_if_the_clock_goes_back(rig: BulkRig, back_s: float) -> None:
    sent = taken_away(rig)
    plan = rig.plan(marks_moves=True)
    if back_s:
        rig.now = Now(rig.now.monotonic, rig.now.wall - back_s)
    else:
        rig.settle()
        rig.crash()
    rig.done(rig.move(sent[1], "orders", source=PART))
    assert rig.remove(plan.bounds[-1], as_of=plan.as_of, fresh=plan.fresh).first_moved == sent[1] & SEQUENCE_MASK


def test_removal_goes_on_behind_messages_that_stay(rig: BulkRig) -> None:
    sent = taken_away(rig)
    plan = rig.plan(marks_moves=True)
    rig.done(rig.move(sent[1], "orders", source=PART))
    marks: dict[str, Any] = {"as_of": plan.as_of, "fresh": plan.fresh}
    first = rig.remove(plan.bounds[-1], 2, **marks)
    assert (first.count, first.end) == (1, sent[1] & SEQUENCE_MASK)
    rest = rig.remove(plan.bounds[-1], 2, after=first.end, **marks)
    assert (rest.count, rest.left, rest.end) == (2, 0, plan.bounds[-1])


def test_a_plan_does_not_list_too_many_fresh_messages(rig: BulkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.bulk.MAX_FRESH", 1)
    sent = [rig.message(rig.send(str(number))).lookup_identifier for number in range(4)]
    for lookup_id in sent[1:3]:
        rig.done(rig.move(lookup_id, PART))
        rig.done(rig.move(lookup_id, "orders", source=PART))
    plan = rig.plan(marks_moves=True)
    assert (plan.counts, plan.fresh) == ([2], [sent[1] & SEQUENCE_MASK])


def test_a_plan_without_locked_messages_has_the_age_of_the_first_free_one(rig: BulkRig) -> None:
    rig.sent("locked")
    rig.advance(100)
    rig.sent("free")
    rig.begin()
    rig.message(rig.receive(options=IN_TX))
    plan = rig.plan(up_to=ALL, locked="skip")
    assert (plan.counts, plan.held, plan.oldest) == ([1], 1, int(rig.now.wall))
