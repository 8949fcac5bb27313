"""Messages, their places and their numbers over a restart."""

from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.strategies import messages
from tests.node.rig import EXPRESS, IN_TX, RECOVERABLE, SEND, START, TX, Rig, direct, letter, path
from tests.node.strategies import with_local_attributes
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements, DeliveryGuarantee
from waypost.core.positions import SEQUENCE_MASK, PositionState
from waypost.core.writing import EnqueueStatus
from waypost.store.port import Table
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import Suffix
from waypost.wire.message_class import MessageClass

Restart = Callable[[Rig], None]
RESTARTS: tuple[Restart, ...] = (Rig.stop, Rig.crash)
both_restarts = pytest.mark.parametrize("restart", RESTARTS)
PART = "DIRECT=OS:host\\private$\\orders;part"
ADMIN = "DIRECT=OS:host\\private$\\admin"


@settings(max_examples=40)
@given(messages().flatmap(with_local_attributes), st.sampled_from(RESTARTS))
@pytest.mark.spec("MQDMPR-3.1.1.12-12", "MQDMPR-3.1.1.12-56", "MQMQ-2.2.19.2-10")
def test_a_recoverable_message_is_there_again_with_all_attributes_equal(message: Message, restart: Restart) -> None:
    message.delivery_guarantee = RECOVERABLE
    message.time_to_reach_queue = message.time_to_be_received = INFINITE
    rig = Rig()
    with rig.node.kernel.operation(rig.now):
        enqueue = rig.node.manager.writing.enqueue_message
        assert enqueue(rig.queue(), message, None, rig.now) is EnqueueStatus.ACCEPTED
    rig.settle()
    restart(rig)
    # A message may name its own queue for its acknowledgment, which is then beside it.
    (after,) = [each for each in rig.contents() if each.identifier == message.identifier]
    assert after is not message
    assert after == message
    assert after.packet == message.packet
    for field in fields(Message):
        assert getattr(after, field.name) == getattr(message, field.name), field.name
    assert after.lookup_identifier != 0
    assert after.arrival_time == int(START.wall)


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.12-12", "MQDMPR-3.1.1.12-13", "MQDMPR-3.1.1.11-02", "MQMQ-2.2.19.2-09")
def test_express_messages_are_lost_and_nothing_else_with_them(restart: Restart) -> None:
    assert Message().delivery_guarantee is DeliveryGuarantee.EXPRESS
    rig = Rig()
    for number in range(6):
        rig.done(rig.send(letter(str(number), priority=number, delivery_guarantee=DeliveryGuarantee(number % 2))))
    kept = {message.lookup_identifier: message for message in rig.contents() if message.label in "135"}
    restart(rig)
    queue = rig.queue()
    assert rig.labels() == ["5", "3", "1"]
    assert {message.lookup_identifier: message for message in rig.contents()} == kept
    assert all(queue.positions.state(lookup_id) is PositionState.AVAILABLE for lookup_id in kept)
    assert queue.total_bytes == rig.node.manager.total_bytes == sum(len(each.packet) for each in kept.values())


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.11-02")
def test_a_received_message_stays_received(restart: Restart) -> None:
    rig = Rig()
    rig.done(rig.send("first"))
    rig.done(rig.send("second"))
    rig.done(rig.receive())
    restart(rig)
    assert rig.labels() == ["second"]
    assert rig.message(rig.receive()).label == "second"
    restart(rig)
    assert rig.labels() == []


@pytest.mark.parametrize("written", [0, 1])
def test_a_batch_is_there_or_not_whatever_was_told(written: int) -> None:
    rig = Rig()
    rig.done(rig.send("received"))
    rig.open()
    rig.hold_disk()
    rig.send("sent")
    request = rig.receive()
    rig.turn()
    assert not rig.is_answered(request)
    rig.crash(written=written)
    assert rig.labels() == [["received"], ["sent"]][written]


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.1-26", "MQMQ-2.2.18.1.3-02")
def test_numbers_are_never_given_again(restart: Restart) -> None:
    """Also not those of messages that were received, express or lost."""
    rig = Rig()
    guid = rig.node.manager.identity.identifier
    seen: list[Message] = []
    for _ in range(3):
        for guarantee in (RECOVERABLE, EXPRESS, RECOVERABLE):
            seen.append(rig.message(rig.send(letter("x", delivery_guarantee=guarantee))))  # noqa: PERF401, one after the other
        while rig.queue().positions:
            rig.done(rig.receive())
        restart(rig)
    numbers = [message.lookup_identifier & SEQUENCE_MASK for message in seen]
    assert numbers == sorted(set(numbers))
    assert numbers[:3] == [1, 2, 3]
    assert {message.identifier.queue_manager_guid for message in seen} == {guid}
    ordinals = [message.identifier.ordinal for message in seen]
    assert ordinals == sorted(set(ordinals))


def test_numbers_of_messages_that_were_lost_with_their_batch_are_not_given_again() -> None:
    rig = Rig()
    rig.done(rig.send("x"))
    rig.hold_disk()
    lost = letter("lost")
    rig.send(lost)
    rig.turn()
    rig.crash()
    after = rig.message(rig.send("after"))
    assert after.lookup_identifier > lost.lookup_identifier
    assert after.identifier.ordinal > lost.identifier.ordinal


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.3-18")
def test_an_unfinished_transaction_of_this_queue_manager_is_aborted(restart: Restart) -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.done(rig.send("kept"))
    (lookup_id,) = rig.queue().positions
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.send("taken back", "ledger", TX))
    assert rig.queue().positions.state(lookup_id) is PositionState.LOCKED
    restart(rig)
    assert not rig.node.manager.transactions.collection
    assert list(rig.queue().positions) == [lookup_id]
    assert rig.message(rig.receive()).label == "kept"
    assert not rig.labels(rig.queue("ledger"))
    assert rig.queue("ledger").total_bytes == 0


@both_restarts
def test_the_lock_of_a_two_phase_read_is_released(restart: Restart) -> None:
    rig = Rig()
    rig.done(rig.send("kept"))
    rig.done(rig.begin_receive())
    restart(rig)
    assert rig.message(rig.receive()).label == "kept"


@pytest.mark.parametrize("hold", [lambda rig: rig.begin_receive(), lambda rig: rig.receive(options=IN_TX)])
@both_restarts
def test_a_message_that_was_purged_while_it_was_locked_goes_with_the_restart(
    hold: Callable[[Rig], int], restart: Restart
) -> None:
    rig = Rig()
    rig.create("admin")
    rig.done(rig.begin())
    message = letter(
        "purged",
        administration_queue_format_name=direct(ADMIN),
        acknowledgements_requested=Acknowledgements.ACK_NEG_RECEIVE,
        time_to_be_received=60,
    )
    rig.done(rig.send(message))
    rig.done(hold(rig))
    rig.done(rig.purge())
    (lookup_id,) = rig.queue().positions
    assert rig.queue().positions.state(lookup_id) is PositionState.PURGE_PENDING
    restart(rig)
    assert rig.labels() == []
    (told,) = rig.contents(rig.queue("admin"))
    assert told.message_class == MessageClass.MQMSG_CLASS_NACK_Q_PURGED
    assert told.correlation_identifier == message.identifier
    rig.settle()
    assert not rig.store.keys(Table.POSITIONS)
    restart(rig)
    assert len(rig.contents(rig.queue("admin"))) == 1


@both_restarts
def test_a_message_expires_though_the_queue_manager_was_down(restart: Restart) -> None:
    rig = Rig()
    rig.done(rig.send(letter("order", time_to_be_received=60, negative_journaling_requested=True)))
    rig.done(rig.send("no limit"))
    rig.now = Now(7.0, rig.now.wall + 59)
    restart(rig)
    rig.finish_index()
    assert rig.node.next_deadline(rig.now) == 8.0
    rig.advance(1)
    assert rig.labels() == ["no limit"]
    assert rig.labels(rig.system(Suffix.DEADLETTER)) == ["order"]
    rig.settle()
    restart(rig)
    rig.finish_index()
    assert rig.labels(rig.system(Suffix.DEADLETTER)) == ["order"]
    assert rig.node.next_deadline(rig.now) is None


@both_restarts
def test_a_moved_message_is_where_it_was_moved_to(restart: Restart) -> None:
    rig = Rig()
    lookup_id = rig.message(rig.send(letter("moved", time_to_be_received=60))).lookup_identifier
    rig.done(rig.move(lookup_id, PART))
    restart(rig)
    assert rig.labels() == []
    (moved,) = rig.contents(rig.queue().subqueues["part"])
    assert (moved.lookup_identifier, moved.move_count, moved.last_move_time) == (lookup_id, 1, int(START.wall))
    rig.advance(60)
    assert rig.contents(rig.queue().subqueues["part"]) == []


@both_restarts
def test_a_receive_that_was_taken_back_is_counted_for_good(restart: Restart) -> None:
    rig = Rig()
    rig.done(rig.send("again"))
    for aborts in (1, 2):
        rig.done(rig.begin())
        rig.done(rig.receive(options=IN_TX))
        rig.done(rig.abort())
        restart(rig)
        assert rig.message(rig.peek()).abort_count == aborts


def test_a_start_reads_everything_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.scans._PAGE", 2)
    rig = Rig()
    for number in range(5):
        rig.done(rig.send(letter(str(number), time_to_be_received=60)))
    before = rig.contents()
    rig.stop()
    assert rig.contents() == before
    assert len(before) == 5
    rig.advance(60)
    assert rig.contents() == []


def delete(rig: Rig) -> int:
    return rig.delete()


@pytest.mark.parametrize("hold", [Rig.begin_receive, lambda rig: rig.receive(options=IN_TX)])
def test_a_queue_goes_with_a_message_that_a_reader_holds_and_the_store_starts_again(hold: Callable[[Rig], int]) -> None:
    rig = Rig()
    rig.done(rig.begin())
    rig.done(rig.send("a"))
    rig.done(hold(rig))
    rig.done(delete(rig))
    rig.crash()
    assert path("orders") not in rig.node.manager.queues
    assert not rig.store.keys(Table.MESSAGES)
    assert not rig.store.keys(Table.POSITIONS)


def test_a_queue_goes_with_a_held_message_that_is_not_yet_durable() -> None:
    rig = Rig()
    rig.open(access=SEND)
    rig.open()
    rig.hold_disk()
    rig.send("a")
    rig.begin_receive()
    request = delete(rig)
    rig.release_disk()
    rig.done(request)
    rig.crash()
    assert path("orders") not in rig.node.manager.queues
    assert not rig.store.keys(Table.MESSAGES)
