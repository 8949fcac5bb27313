"""Messages on their way to other computers, over a restart: their time, their numbers, and word of their end."""

from collections.abc import Callable, Sequence

import pytest

from tests.node.rig import RECOVERABLE, SEND, TX, Rig, direct, letter
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import sequence_of, set_sequence
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.records import MessageRecord
from waypost.wire.format_names import Suffix
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.message_class import MessageClass

Restart = Callable[[Rig], None]
both_restarts = pytest.mark.parametrize("restart", [Rig.stop, Rig.crash])
FAR = "DIRECT=OS:far\\private$\\orders"
SEQUENCE = TxSequenceId(1, 77)
RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.open(FAR, SEND)
    return rig


def far(rig: Rig) -> OutgoingQueue:
    return rig.node.manager.collection.outgoing[direct(FAR)]


def contents(rig: Rig, queue: Queue) -> list[Message]:
    return [rig.node.messages.get(queue.number, lookup_id) for lookup_id in queue.positions]


def dead_letters(rig: Rig, suffix: Suffix) -> list[str]:
    return [message.label for message in contents(rig, rig.node.manager.system_queues[suffix])]


def send_in_transaction(rig: Rig, *letters: Message) -> None:
    rig.done(rig.begin())
    for each in letters:
        rig.done(rig.send(each, FAR, TX))
    rig.done(rig.commit())


def deliver(rig: Rig) -> None:
    """All messages reach their queue, and wait for word of their end."""
    with rig.node.kernel.operation(rig.now):
        for lookup_id in tuple(far(rig).positions):
            rig.node.manager.final_acks.await_final_ack(far(rig), lookup_id)
    rig.settle()


def final_ack(rig: Rig, message: Message, message_class: MessageClass) -> bool:
    with rig.node.kernel.operation(rig.now):
        found = rig.node.manager.final_acks.final_ack_arrived(message.identifier, message_class, rig.now)
    rig.settle()
    return found


@both_restarts
@pytest.mark.spec("MQQB-3.1.7.1.2-01")
def test_a_message_on_its_way_expires_after_a_restart_too(rig: Rig, restart: Restart) -> None:
    rig.done(rig.send(letter("short", time_to_reach_queue=60, negative_journaling_requested=True), FAR))
    rig.done(rig.send(letter("short life", time_to_be_received=61, negative_journaling_requested=True), FAR))
    send_in_transaction(rig, letter("in transaction", time_to_reach_queue=60, negative_journaling_requested=True))
    rig.done(rig.send(letter("four days"), FAR))
    rig.settle()
    restart(rig)
    rig.finish_index()
    assert rig.node.next_deadline(rig.now) == rig.now.monotonic + 61
    rig.advance(60)
    assert len(far(rig).positions) == 4
    rig.advance(1)
    rig.settle()
    assert [message.label for message in contents(rig, far(rig))] == ["four days"]
    assert dead_letters(rig, Suffix.DEADLETTER) == ["short", "short life"]
    assert dead_letters(rig, Suffix.DEADXACT) == ["in transaction"]
    restart(rig)
    rig.finish_index()
    assert rig.node.next_deadline(rig.now) == rig.now.monotonic + 345_601 - 61


def test_the_time_of_a_message_on_its_way_takes_no_write_of_its_own(rig: Rig) -> None:
    rig.done(rig.send(letter("four days"), FAR))
    rig.settle()
    assert rig.store.keys(Table.POSITIONS) == []


@both_restarts
@pytest.mark.spec("MQQB-3.1.1.3.1-08")
def test_what_was_delivered_waits_for_its_final_ack_over_restarts(rig: Rig, restart: Restart) -> None:
    table = rig.node.manager.awaiting_final_ack
    assert list(table.positions) == []
    send_in_transaction(
        rig,
        letter("journaled", positive_journaling_requested=True),
        letter("dead", negative_journaling_requested=True),
        letter("received", negative_journaling_requested=True),
    )
    deliver(rig)
    for _ in range(2):
        restart(rig)
        waiting = contents(rig, rig.node.manager.awaiting_final_ack)
        assert [message.label for message in waiting] == ["journaled", "dead", "received"]
        assert contents(rig, far(rig)) == []
        assert rig.node.manager.final_acks.count(far(rig)) == 3
        rig.advance(10_000_000)
    for message, message_class in zip(waiting, (RECEIVED, PURGED, RECEIVED), strict=True):
        assert final_ack(rig, message, message_class)
    for _ in range(2):
        assert contents(rig, rig.node.manager.awaiting_final_ack) == []
        assert rig.node.manager.final_acks.count(far(rig)) == 0
        assert dead_letters(rig, Suffix.JOURNAL) == ["journaled"]
        assert dead_letters(rig, Suffix.DEADXACT) == ["dead"]
        restart(rig)
    assert not final_ack(rig, waiting[0], RECEIVED)


@both_restarts
def test_a_final_ack_that_comes_before_its_message_left_is_understood_after_a_restart(
    rig: Rig, restart: Restart
) -> None:
    send_in_transaction(rig, letter("a", positive_journaling_requested=True), letter("b"))
    restart(rig)
    first, second = contents(rig, far(rig))
    assert final_ack(rig, first, RECEIVED)
    assert not final_ack(rig, second, RECEIVED)
    restart(rig)
    assert [message.label for message in contents(rig, far(rig))] == ["b"]
    assert dead_letters(rig, Suffix.JOURNAL) == ["a"]


def number(rig: Rig, first: int) -> None:
    """Number what commits from now on."""

    def number_sends(queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        # A queue with numbered messages has a sequence.
        rig.node.sequences.outgoing_of(queue)
        for at, message in enumerate(messages, first):
            set_sequence(message, SEQUENCE, at, at - 1)

    rig.node.manager.transactions.number_sends = number_sends


def numbers(rig: Rig) -> list[tuple[str, int]]:
    return [(message.label, sequence_of(message.packet)[1]) for message in contents(rig, far(rig))]


@both_restarts
def test_numbers_are_stored_with_the_messages(rig: Rig, restart: Restart) -> None:
    number(rig, 5)
    send_in_transaction(rig, letter("a"), letter("b", positive_journaling_requested=True), letter("c"))
    rig.settle()
    for _ in range(2):
        assert numbers(rig) == [("a", 5), ("b", 6), ("c", 7)]
        restart(rig)


@both_restarts
def test_many_messages_of_one_transaction_are_numbered_and_stored(rig: Rig, restart: Restart) -> None:
    number(rig, 1)
    rig.done(rig.begin())
    rig.done(rig.send_many([b"%d" % each for each in range(100)], FAR, TX))
    rig.done(rig.commit())
    for _ in range(2):
        assert numbers(rig) == [("", each) for each in range(1, 101)]
        assert [message.body for message in contents(rig, far(rig))] == [b"%d" % each for each in range(100)]
        restart(rig)


@both_restarts
def test_what_was_prepared_and_committed_in_one_life_is_stored_with_its_numbers(rig: Rig, restart: Restart) -> None:
    rig.enlist()
    rig.done(rig.send(letter("a"), FAR, TX))
    rig.prepare()
    rig.settle()
    assert numbers(rig) == [("a", 1)]
    number(rig, 5)
    before = list(far(rig).positions)
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_commit(TX, rig.now.wall)
    rig.settle()
    for _ in range(2):
        assert numbers(rig) == [("a", 5)]
        assert list(far(rig).positions) == before
        restart(rig)


@both_restarts
@pytest.mark.parametrize("is_overtaken", [False, True])
def test_what_was_prepared_is_numbered_at_commit_and_stored_so(
    rig: Rig, restart: Restart, *, is_overtaken: bool
) -> None:
    rig.enlist()
    for label in ("a", "b"):
        rig.done(rig.send(letter(label), FAR, TX))
    rig.prepare()
    rig.settle()
    restart(rig)
    earlier: list[tuple[str, int]] = []
    if is_overtaken:
        number(rig, 1)
        other = b"\x99" * 16
        rig.done(rig.begin(other))
        rig.done(rig.send(letter("quick", delivery_guarantee=RECOVERABLE), FAR, other))
        rig.done(rig.commit(other))
        earlier = [("quick", 1)]
    number(rig, 5)
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_reenlistment_commit(TX, rig.now.wall)
    rig.settle()
    for _ in range(2):
        assert numbers(rig) == [*earlier, ("a", 5), ("b", 6)]
        assert far(rig).total_bytes == sum(len(message.packet) for message in contents(rig, far(rig)))
        restart(rig)


def test_a_message_on_its_way_that_cannot_be_decoded_is_set_aside_at_the_start(rig: Rig) -> None:
    rig.done(rig.send("a", FAR))
    rig.done(rig.send("b", FAR))
    rig.settle()
    lookup_id, _ = far(rig).positions
    key = keys.message_key(far(rig).number, lookup_id)
    batch = Batch()
    batch.put(Table.MESSAGES, key, MessageRecord(b"no packet").encode())
    rig.store.submit(batch, 1_000_000)
    rig.memory.complete(1)
    rig.crash()
    rig.settle()
    assert [message.label for message in contents(rig, far(rig))] == ["b"]
    (kept,) = rig.node.damaged.all()
    assert (kept.lookup_id, kept.queue) == (lookup_id, str(far(rig)))
    assert "cannot decode" in kept.reason
