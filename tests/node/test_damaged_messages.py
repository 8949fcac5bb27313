"""A message whose record is damaged or missing is set aside by the first who wants it; the rest goes on (ADR 30)."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.node.bulk_rig import BulkRig
from tests.node.rig import IN_TX, TX, Rig, direct, letter, path
from waypost.api.bulk import FindSeq, PlanRanges, RangeOfQueue, ReadRange, Removed, RemoveRange, Rest, ShowBulkQueue
from waypost.api.frames import Frame
from waypost.api.opened import Handle
from waypost.api.operations import CursorNext, CursorPeek, CursorReceive, OpenCursor
from waypost.core.damaged_message import DamagedMessage
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.queues import Queue
from waypost.core.reading import MessageSeekAction
from waypost.core.serialization import size_in_bytes
from waypost.core.stored_message import stored_message
from waypost.errors import MessageAlreadyReceived, MessageNotFound, RecordDamaged, StoreDamaged, Timeout
from waypost.node import damaged
from waypost.node.effects import Notice
from waypost.node.explain import explain_message, explain_queue
from waypost.store import keys
from waypost.store.port import Action, Table

Spoil = Callable[[Rig, str], None]


def spoil(rig: Rig, label: str, name: str = "orders", *, is_lost: bool = False) -> None:
    """Damage the record of the message with this label."""
    queue = rig.queue(name)
    (lookup_id,) = [each for each in queue.positions if label_of(rig, queue, each) == label]
    key = keys.message_key(queue.number, lookup_id)
    assert rig.memory.lose(Table.MESSAGES, key) if is_lost else rig.memory.damage(Table.MESSAGES, key)


def label_of(rig: Rig, queue: Queue, lookup_id: int) -> str:
    try:
        return rig.node.messages.get(queue.number, lookup_id).label
    except RecordDamaged:
        return ""


def lose(rig: Rig, label: str) -> None:
    spoil(rig, label, is_lost=True)


both = pytest.mark.parametrize("ruin", [spoil, lose], ids=["damaged", "missing"])


@pytest.fixture
def rig() -> BulkRig:
    """With the messages a, b and c in `orders`."""
    rig = BulkRig()
    rig.create("other")
    for label in "abc":
        rig.done(rig.send(label))
    return rig


def check(rig: Rig, *labels: str, name: str = "orders") -> None:
    """The queue has these messages and counts them right, now and after a restart."""
    rig.settle()
    for _ in range(2):
        queue = rig.queue(name)
        found = rig.contents(queue)
        assert [message.label for message in found] == list(labels)
        assert queue.total_bytes == sum(map(size_in_bytes, found))
        rig.crash()
        rig.settle()


def set_aside(rig: Rig) -> list[DamagedMessage]:
    rig.settle()
    return list(rig.node.damaged.all())


@both
def test_a_receive_goes_on_with_the_next_message(rig: BulkRig, ruin: Spoil) -> None:
    ruin(rig, "a")
    assert rig.message(rig.receive()).label == "b"
    assert len(set_aside(rig)) == 1
    assert rig.message(rig.receive()).label == "c"
    check(rig)


@both
def test_a_peek_goes_on_with_the_next_message(rig: BulkRig, ruin: Spoil) -> None:
    ruin(rig, "a")
    assert rig.message(rig.peek()).label == "b"
    assert len(set_aside(rig)) == 1


def test_a_queue_of_nothing_but_damage_is_empty(rig: BulkRig) -> None:
    for label in "abc":
        spoil(rig, label)
    with pytest.raises(Timeout):
        rig.done(rig.receive())
    assert len(set_aside(rig)) == 3
    assert rig.queue().total_bytes == rig.node.manager.total_bytes == 0
    check(rig)


def test_what_is_known_of_it_is_kept_and_told(rig: BulkRig) -> None:
    message = rig.contents()[1]
    spoil(rig, "b")
    rig.node.kernel.take_effects()
    request = rig.receive_many(3)
    notices = [effect for effect in rig.node.kernel._effects if isinstance(effect, Notice)]
    rig.settle()
    assert [each.label for each in cast("list[object]", rig.answers[request])] == ["a", "c"]  # type: ignore[attr-defined]
    (kept,) = set_aside(rig)
    assert kept.queue == str(rig.queue())
    assert kept.lookup_id == message.lookup_identifier
    assert kept.message_id == str(message.identifier)
    assert kept.time == int(rig.now.wall)
    assert kept.has_bytes
    assert "is damaged in the store" in kept.reason
    (notice,) = notices
    assert notice.event == "message damaged"
    assert notice.facts["queue"] == str(rig.queue())
    assert notice.facts["lookup_id"] == message.lookup_identifier
    assert notice.facts["message_id"] == str(message.identifier)
    assert rig.node.damaged.since_start == 1
    explanation = explain_queue(rig.node, direct("orders"), rig.now)
    assert explanation.facts["damaged"] == 1
    assert any("damaged on disk and removed" in sentence for sentence in explanation.sentences)
    (sentence, *_) = explain_message(rig.node, message.identifier, rig.now).sentences
    assert "was found damaged on disk at" in sentence


def test_it_is_set_aside_in_one_batch(rig: BulkRig) -> None:
    spoil(rig, "a")
    rig.open()
    rig.hold_disk()
    before = len(rig.submitted)
    rig.peek()
    rig.settle()
    (batch,) = rig.submitted[before:]
    tables = {(action, table) for action, table, _, _ in batch.operations}
    assert {(Action.DELETE, Table.MESSAGES), (Action.PUT, Table.DAMAGED), (Action.PUT, Table.COUNTERS)} <= tables
    rig.crash()
    assert not len(rig.node.damaged)
    assert rig.message(rig.peek()).label == "b"
    rig.crash()
    assert len(rig.node.damaged) == 1
    check(rig, "b", "c")


def test_the_bytes_of_many_are_not_kept_and_the_log_says_so(rig: BulkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged, "MAX_DAMAGED_KEPT", 1)
    spoil(rig, "a")
    spoil(rig, "b")
    assert rig.message(rig.receive()).label == "c"
    assert [each.has_bytes for each in set_aside(rig)] == [True, False]
    assert len([key for key in rig.store.keys(Table.DAMAGED) if keys.is_damaged_bytes(key)]) == 1


def test_they_are_forgotten_when_an_operator_says_so(rig: BulkRig) -> None:
    spoil(rig, "a")
    rig.done(rig.peek())
    with rig.node.kernel.operation(rig.now):
        assert rig.node.damaged.forget(rig.node.messages.batch) == 1
    assert set_aside(rig) == []
    assert len(rig.node.damaged) == 0
    assert not rig.store.keys(Table.DAMAGED)


def cursor_of(rig: Rig) -> str:
    opened = rig.done(rig.do(OpenCursor(queue="orders")))
    assert isinstance(opened, Handle)
    return opened.id


def peek_next(rig: Rig, cursor: str) -> str:
    return rig.message(rig.do(CursorNext(identifier=cursor))).label


def test_a_cursor_goes_on_behind_what_is_damaged(rig: BulkRig) -> None:
    cursor = cursor_of(rig)
    spoil(rig, "a")
    assert rig.message(rig.do(CursorPeek(identifier=cursor))).label == "b"
    spoil(rig, "c")
    with pytest.raises(Timeout):
        peek_next(rig, cursor)
    check(rig, "b")


def test_a_cursor_that_showed_the_message_says_that_it_is_gone(rig: BulkRig) -> None:
    """To receive another one than it showed would be wrong."""
    for action in (CursorPeek, CursorReceive):
        cursor = cursor_of(rig)
        label = rig.message(rig.do(CursorPeek(identifier=cursor))).label
        spoil(rig, label)
        with pytest.raises(MessageAlreadyReceived):
            rig.done(rig.do(action(identifier=cursor)))
    assert rig.labels() == ["c"]


def test_a_receive_with_a_cursor_that_shows_nothing_goes_on(rig: BulkRig) -> None:
    cursor = cursor_of(rig)
    spoil(rig, "a")
    assert rig.message(rig.do(CursorReceive(identifier=cursor))).label == "b"
    check(rig, "c")


@pytest.mark.parametrize(
    ("action", "found"),
    [(MessageSeekAction.SEEK_FIRST, "b"), (MessageSeekAction.SEEK_CURRENT, None)],
)
def test_a_lookup_goes_on_or_says_that_there_is_none(
    rig: BulkRig, action: MessageSeekAction, found: str | None
) -> None:  # fmt: skip
    lookup_id = rig.contents()[0].lookup_identifier
    spoil(rig, "a")
    call, handle = rig.call(), rig.open()
    if found is None:
        with pytest.raises(MessageNotFound):
            rig.handlers.reading.peek_found_message(call, handle, (lookup_id, action))
    else:
        rig.handlers.reading.peek_found_message(call, handle, (lookup_id, action))
        assert rig.message(call.request).label == found
    check(rig, "b", "c")


@both
def test_a_transaction_receives_the_next_message(rig: BulkRig, ruin: Spoil) -> None:
    ruin(rig, "a")
    rig.done(rig.begin())
    assert rig.message(rig.receive(options=IN_TX)).label == "b"
    rig.done(rig.abort())
    assert rig.labels() == ["b", "c"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_message_that_is_damaged_while_a_transaction_has_it_hurts_nobody(rig: BulkRig, end: str) -> None:
    rig.done(rig.begin())
    assert rig.message(rig.receive(options=IN_TX)).label == "a"
    spoil(rig, "a")
    rig.done(rig.commit() if end == "commit" else rig.abort())
    # An abort writes the message that the transaction has, so that its record is whole again.
    assert set_aside(rig) == []
    assert rig.labels() == (["a"] if end == "abort" else []) + ["b", "c"]


def test_a_prepared_transaction_ends_without_what_is_damaged(rig: BulkRig) -> None:
    rig.ledger()
    rig.enlist()
    assert rig.message(rig.receive(options=IN_TX)).label == "a"
    rig.done(rig.send("d", "ledger", tx=TX))
    rig.done(rig.send("e", "ledger", tx=TX))
    rig.prepare()
    rig.settle()
    spoil(rig, "a")
    spoil(rig, "d", "ledger")
    rig.crash()
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.transactions.transaction_commit(TX, rig.now.wall)
    check(rig, "b", "c")
    check(rig, "e", name="ledger")


@pytest.mark.parametrize("delete", [True, False])
def test_the_end_of_a_two_phase_read_of_what_is_damaged_meanwhile_is_quiet(rig: BulkRig, *, delete: bool) -> None:
    message = rig.message(rig.begin_receive())
    spoil(rig, "a")
    rig.done(rig.end_receive(message.lookup_identifier, delete=delete))
    if not delete:
        # It is for others again, and the first of them finds out.
        assert rig.message(rig.peek()).label == "b"
    check(rig, "b", "c")


@both
def test_a_damaged_message_cannot_be_moved(rig: BulkRig, ruin: Spoil) -> None:
    lookup_id = rig.contents()[0].lookup_identifier
    rig.create("orders;later")
    ruin(rig, "a")
    with pytest.raises(MessageNotFound):
        rig.move(lookup_id, "orders;later")
    assert rig.labels() == ["b", "c"]


@both
def test_a_purge_takes_the_rest(rig: BulkRig, ruin: Spoil) -> None:
    ruin(rig, "b")
    rig.done(rig.purge())
    assert len(set_aside(rig)) == 1
    check(rig)


def test_a_queue_with_damage_can_be_deleted(rig: BulkRig) -> None:
    spoil(rig, "b")
    rig.done(rig.delete())
    assert path("orders") not in rig.node.manager.queues
    assert len(set_aside(rig)) == 1


def test_a_damaged_message_that_expires_is_set_aside(rig: BulkRig) -> None:
    rig.done(rig.send(letter("late", time_to_be_received=10), "other"))
    spoil(rig, "late", "other")
    rig.advance(60)
    assert len(set_aside(rig)) == 1
    check(rig, name="other")


def test_a_damaged_copy_in_a_journal_is_set_aside(rig: BulkRig) -> None:
    rig.modify("orders", journaling=True)
    rig.done(rig.receive())
    journal = rig.queue().journal
    assert isinstance(journal, Queue)
    ((lookup_id,)) = journal.positions
    rig.memory.damage(Table.MESSAGES, keys.message_key(journal.number, lookup_id))
    with pytest.raises(Timeout):
        rig.receive("DIRECT=OS:host\\private$\\orders;journal")
    assert len(set_aside(rig)) == 1


# In bulk.


def read(rig: BulkRig, **limits: Any) -> Frame:
    return rig.ask_for(ReadRange(name="orders", up_to=SEQUENCE_MASK, **limits))


def labels_of(rows: Frame) -> list[str]:
    return [stored_message(packet).label for packet in rows.each_packet()]


@pytest.mark.parametrize("victims", ["a", "b", "c", "ab", "bc", "ac", "abc"])
@both
def test_a_range_is_read_without_what_is_damaged(rig: BulkRig, victims: str, ruin: Spoil) -> None:
    for label in victims:
        ruin(rig, label)
    rows = read(rig)
    left = [label for label in "abc" if label not in victims]
    assert labels_of(rows) == left
    assert rows.is_last
    assert len(rows.numbers()) == len(left)
    assert len(set_aside(rig)) == len(victims)


def test_a_range_that_is_read_in_parts_goes_on_behind_what_is_damaged(rig: BulkRig) -> None:
    spoil(rig, "b")
    rows = read(rig, max_messages=2)
    assert labels_of(rows) == ["a"]
    assert not rows.is_last
    rows = read(rig, after=rows.end, max_messages=2)
    assert (labels_of(rows), rows.is_last) == (["c"], True)


def test_what_is_removed_in_bulk_is_counted_without_damage(rig: BulkRig) -> None:
    spoil(rig, "b")
    assert rig.ask_for(RemoveRange(name="orders", up_to=1 << 50)) == Removed(2, 0)
    check(rig)


def test_the_state_and_the_times_of_a_queue_are_told_without_what_is_damaged(rig: BulkRig) -> None:
    for label in "ab":
        spoil(rig, label)
    found = rig.ask_for(FindSeq(name="orders", time=rig.now.wall + 1))
    assert found.seq == [*rig.queue().positions][-1] & SEQUENCE_MASK
    assert rig.ask_for(ShowBulkQueue(name="orders")).oldest == int(rig.now.wall)
    check(rig, "c")


@both
def test_a_plan_that_begins_or_ends_at_damaged_messages_is_made(rig: BulkRig, ruin: Spoil) -> None:
    for label in "ab":
        ruin(rig, label)
    # Two names of one queue, the second of which is planned when the first has found the damage.
    twice = [RangeOfQueue(name="orders"), RangeOfQueue(name=str(direct("orders")))]
    for plan in rig.ask_for(PlanRanges(ranges=twice, max_messages=2)).plans:
        assert sum(plan.counts) + plan.rest.count in (2, 3)
    (plan,) = rig.ask_for(PlanRanges(ranges=twice[:1])).plans
    assert (plan.counts, plan.oldest, plan.rest) == ([1], int(rig.now.wall), Rest())
    assert labels_of(read(rig)) == ["c"]


def test_a_claim_has_only_messages_that_can_be_read(rig: BulkRig) -> None:
    spoil(rig, "a")
    number, count = rig.claim(max_messages=10)
    assert count == 2
    assert rig.claimed(number) == ["b", "c"]


def test_a_claim_goes_on_when_a_part_of_it_is_damaged(rig: BulkRig) -> None:
    number, count = rig.claim(max_messages=10)
    assert count == 3
    spoil(rig, "b")
    assert rig.claimed(number) == ["a", "c"]
    assert rig.claimed(number, range(2, 3)) == ["c"]
    rig.crash()
    assert rig.claimed(number) == ["a", "c"]
    rig.claim(number, max_messages=10)
    check(rig)


def test_a_claim_is_given_back_without_what_is_damaged(rig: BulkRig) -> None:
    rig.claim(max_messages=10)
    spoil(rig, "b")
    rig.return_claim()
    assert rig.seen() == ["a", "c"]


# At a start.


def test_a_damaged_message_does_not_keep_the_queue_manager_from_starting(rig: BulkRig) -> None:
    spoil(rig, "a")
    rig.crash()
    assert rig.message(rig.receive()).label == "b"
    check(rig, "c")


def test_a_message_with_another_key_is_set_aside_where_it_was_and_where_it_is(rig: BulkRig) -> None:
    """It is missing while the queue manager runs, and a stray record after the next start."""
    last = rig.contents()[-1]
    old = keys.message_key(rig.queue().number, last.lookup_identifier)
    new = keys.message_key(rig.queue().number, last.lookup_identifier + 100)
    value = rig.store.get(Table.MESSAGES, old)
    assert value is not None
    lose(rig, "c")
    rig.memory._tables[Table.MESSAGES].apply(Action.PUT, new, value)
    rig.memory.damage(Table.MESSAGES, new)
    assert len(cast("list[object]", rig.done(rig.receive_many(3)))) == 2
    assert [each.has_bytes for each in set_aside(rig)] == [False]
    rig.crash()
    assert [each.has_bytes for each in set_aside(rig)] == [False, True]
    check(rig)


def test_a_start_on_a_count_that_does_not_fit_is_refused(rig: BulkRig) -> None:
    lose(rig, "b")
    with pytest.raises(StoreDamaged, match="has 2 messages, but its record contains the count 3"):
        rig.crash()


@pytest.mark.parametrize("table", [Table.QUEUES, Table.COUNTERS])
def test_a_start_names_a_record_that_it_cannot_do_without(rig: BulkRig, table: Table) -> None:
    for key in rig.store.keys(table):
        rig.memory.damage(table, key)
        with pytest.raises(StoreDamaged, match="is damaged in the store") as caught:
            rig.crash()
        assert "the record of queue" in str(caught.value) if table is Table.QUEUES else "of" in str(caught.value)
        value = rig.memory._tables[table].values[key]
        rig.memory._tables[table].apply(Action.PUT, key, value)


def test_the_table_of_messages_has_nobody_elses(rig: BulkRig) -> None:
    rig.memory._tables[Table.MESSAGES].apply(Action.PUT, keys.message_key(999, 1), b"stray")
    with pytest.raises(StoreDamaged, match="the table messages should have 4 records, but 3 were found"):
        rig.crash()
