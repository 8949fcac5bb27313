"""The times of answers: nothing before it is durable, and at once if it has nothing to wait for."""

from collections.abc import Callable

import pytest

from tests.node.rig import (
    EXPRESS,
    IN_TX,
    OTHER_TX,
    RECEIVE,
    RECOVERABLE,
    SEND,
    TX,
    ReadOptions,
    Rig,
    direct,
    letter,
)
from waypost.api.opened import Handle
from waypost.api.operations import CloseQueue, CreateQueue, CursorNext, OpenQueue, Receive, SetQueue
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.core.queues import AccessType
from waypost.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidHandle,
    LabelTooLong,
    MessageNotFound,
    QueueExists,
    Timeout,
    TransactionSequence,
    TransactionUsage,
    WaypostError,
)
from waypost.guid import guid_text
from waypost.store.port import Table
from waypost.wire.format_names import Suffix
from waypost.wire.message_class import MessageClass

DONE = "DIRECT=OS:host\\private$\\orders;done"
PAID = "DIRECT=OS:host\\private$\\books;paid"
ADMIN = "DIRECT=OS:host\\private$\\admin"


@pytest.fixture
def rig() -> Rig:
    """With a message in `orders` that is locked for end_receive, one behind it, and a transaction that has sent one."""
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.create("books", transactional=True)
    rig.create("old")
    for name in ("orders", "ledger", "books"):
        rig.open(name, SEND)
        rig.open(name)
    rig.open(DONE, AccessType.MOVE)
    rig.open(PAID, AccessType.MOVE)
    rig.done(rig.send("first"))
    rig.done(rig.send("second"))
    rig.done(rig.begin_receive())
    rig.done(rig.begin())
    rig.done(rig.send("booked", "books", TX))
    rig.done(rig.commit())
    rig.done(rig.begin())
    rig.done(rig.send("third", "ledger", TX))
    rig.hold_disk()
    return rig


def ids(rig: Rig) -> list[int]:
    return list(rig.queue().positions)


def create(rig: Rig) -> int:
    return rig.do(CreateQueue(name="new"))


def delete(rig: Rig) -> int:
    return rig.delete("old")


def modify(rig: Rig) -> int:
    return rig.do(SetQueue(name="orders", label="Orders"))


def receive_by_lookup_id(rig: Rig) -> int:
    return rig.do(Receive(name="orders", lookup_id=str(ids(rig)[1])))


DURABLE: dict[str, Callable[[Rig], int]] = {
    "send": lambda rig: rig.send("third"),
    "receive": Rig.receive,
    "receive_by_lookup_id": receive_by_lookup_id,
    "end_receive": lambda rig: rig.end_receive(ids(rig)[0], delete=True),
    "purge": Rig.purge,
    "move": lambda rig: rig.move(ids(rig)[1], DONE),
    "commit": Rig.commit,
    "create": create,
    "modify": modify,
    "delete": delete,
    "open an outgoing queue": lambda rig: rig.ask("DIRECT=OS:far\\q", SEND),
    "open a new subqueue": lambda rig: rig.ask(f"{DONE}2", RECEIVE),
}


@pytest.mark.parametrize("operation", DURABLE.values(), ids=DURABLE)
def test_what_changes_something_durable_is_answered_when_its_batch_is_durable(
    rig: Rig, operation: Callable[[Rig], int]
) -> None:
    request = operation(rig)
    assert not rig.is_answered(request)
    assert rig.pending == 1
    rig.write()
    assert rig.is_answered(request)


@pytest.mark.parametrize("operation", DURABLE.values(), ids=DURABLE)
def test_a_batch_before_it_is_not_enough(rig: Rig, operation: Callable[[Rig], int]) -> None:
    rig.send("before")
    rig.turn()
    request = operation(rig)
    rig.turn()
    rig.write()
    assert not rig.is_answered(request)
    rig.write()
    assert rig.is_answered(request)


AT_ONCE: dict[str, Callable[[Rig], int]] = {
    "send express": lambda rig: rig.send(letter("express", delivery_guarantee=EXPRESS)),
    "send in a transaction": lambda rig: rig.send("fourth", "ledger", TX),
    "receive in a transaction": lambda rig: rig.receive(options=IN_TX),
    "move in a transaction": lambda rig: rig.move(next(iter(rig.queue("books").positions)), PAID, TX, "books"),
    "begin_receive": Rig.begin_receive,
    "end_receive without deletion": lambda rig: rig.end_receive(ids(rig)[0], delete=False),
    "peek": Rig.peek,
    "begin": lambda rig: rig.begin(b"\x73" * 16),
    "abort a send": Rig.abort,
    "open": lambda rig: rig.ask("orders", RECEIVE),
}


@pytest.mark.parametrize("operation", AT_ONCE.values(), ids=AT_ONCE)
def test_what_changes_nothing_durable_is_answered_at_once(rig: Rig, operation: Callable[[Rig], int]) -> None:
    rig.open(DONE)
    rig.send("something else that waits")
    assert rig.is_answered(operation(rig))
    assert rig.pending


def test_express_messages_pass_from_sender_to_receiver_without_the_disk(rig: Rig) -> None:
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS, priority=7)))
    assert rig.message(rig.receive()).label == "express"
    rig.send(letter("another", delivery_guarantee=EXPRESS), "orders")
    assert not rig.pending


READS: dict[str, Callable[[Rig], int]] = {
    "peek": Rig.peek,
    "begin_receive": Rig.begin_receive,
    "receive in a transaction": lambda rig: rig.receive(options=IN_TX),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_of_a_message_that_is_not_yet_durable_waits_for_it(rig: Rig, read: Callable[[Rig], int]) -> None:
    rig.send(letter("urgent", priority=7))
    rig.turn()
    request = read(rig)
    assert not rig.is_answered(request)
    rig.send("later")
    rig.turn()
    rig.write()
    assert rig.message(request).label == "urgent"


def test_a_read_waits_for_the_last_state_of_the_message(rig: Rig) -> None:
    """The same message is written again, in a later batch, when a receive is taken back."""
    rig.send(letter("urgent", priority=7))
    rig.turn()
    rig.receive(options=IN_TX)
    rig.abort()
    rig.turn()
    requests = [rig.peek()]
    rig.write()
    requests.append(rig.peek())
    assert not any(rig.is_answered(request) for request in requests)
    rig.write()
    assert [rig.message(request).abort_count for request in (*requests, rig.peek())] == [1, 1, 1]


def test_a_wait_that_a_recoverable_message_ends_is_answered_with_its_batch(rig: Rig) -> None:
    request = rig.receive("ledger", ReadOptions(timeout_ms=None))
    sent = rig.commit()
    assert not rig.is_answered(request)
    assert not rig.is_answered(sent)
    rig.write()
    assert rig.message(request).label == "third"
    assert rig.is_answered(sent)


def test_a_wait_that_ends_without_a_message_fails_at_once(rig: Rig) -> None:
    request = rig.receive("ledger", ReadOptions(timeout_ms=1000))
    cancelled = rig.peek("ledger", ReadOptions(timeout_ms=None))
    rig.handlers.reading.cancel_message(rig.now, rig.open("ledger"), cancelled)
    rig.advance(1)
    rig.turn()
    assert {type(rig.answers[request]).__name__, type(rig.answers[cancelled]).__name__} == {
        "Timeout",
        "OperationCancelled",
    }


REFUSED: dict[str, tuple[type[WaypostError], Callable[[Rig], object]]] = {
    "a transactional queue without a transaction": (TransactionUsage, lambda rig: rig.send("x", "ledger")),
    "a transaction without a transactional queue": (TransactionUsage, lambda rig: rig.send("x", tx=TX)),
    "no such transaction": (TransactionSequence, lambda rig: rig.commit(OTHER_TX)),
    "a send in no such transaction": (TransactionSequence, lambda rig: rig.send("x", "ledger", OTHER_TX)),
    "a label that no packet carries": (LabelTooLong, lambda rig: rig.send("x" * 250)),
    "nothing to receive": (Timeout, lambda rig: rig.receive("ledger")),
    "no such message": (MessageNotFound, lambda rig: rig.move(1, DONE)),
    "a queue that is there": (QueueExists, lambda rig: rig.create("orders")),
    "an end without a begin": (TransactionSequence, lambda rig: rig.end_receive(ids(rig)[1], delete=True)),
}


@pytest.mark.parametrize(("error", "operation"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_raised_at_once_and_changes_nothing(
    rig: Rig, error: type[WaypostError], operation: Callable[[Rig], object]
) -> None:
    before = state(rig)
    with pytest.raises(error):
        operation(rig)
    assert state(rig) == before
    assert not rig.node.kernel.take_effects()


def test_a_handle_is_refused_for_what_it_is_not(rig: Rig) -> None:
    receiving, closed = rig.open(), guid_text(TX)
    with pytest.raises(AccessDenied):
        rig.handlers.messages.send_message(rig.call(), receiving, letter("x"), None)
    with pytest.raises(InvalidHandle):
        rig.do(Receive(name="orders", handle=closed))
    with pytest.raises(InvalidHandle):
        rig.do(CursorNext(identifier=closed))
    rig.close(receiving)
    opened = rig.done(rig.do(OpenQueue(queue="orders")))
    assert isinstance(opened, Handle)
    assert rig.is_answered(rig.do(CloseQueue(identifier=opened.id)))
    with pytest.raises(InvalidHandle):
        rig.do(Receive(name="orders", handle=opened.id))
    assert not rig.pending


def test_a_full_queue_refuses_and_stays_as_it_is() -> None:
    rig = Rig()
    rig.create("small", quota=1)
    with pytest.raises(InsufficientResources):
        rig.send(letter("x", body=bytes(2000)), "small")
    assert not rig.labels(rig.queue("small"))
    assert not rig.node.kernel.take_effects()


def state(rig: Rig) -> object:
    queues = rig.node.manager.collection.by_number.values()
    held = [
        (str(queue), [(i, queue.positions.state(i)) for i in queue.positions], queue.total_bytes) for queue in queues
    ]
    transactions = rig.node.manager.transactions.collection.values()
    return held, [(each.identifier, tuple(each.operations)) for each in transactions]


def test_what_came_together_is_one_batch(rig: Rig) -> None:
    requests = [rig.send("a"), rig.receive(), rig.commit(), rig.purge()]
    assert rig.pending == 0
    rig.turn()
    assert rig.pending == 1
    rig.write()
    assert all(request in rig.answers for request in requests)


def test_a_received_message_its_journal_copy_and_its_acknowledgment_are_one_batch() -> None:
    rig = Rig()
    rig.create("admin")
    rig.modify("orders", journaling=True)
    message = letter(
        "order",
        administration_queue_format_name=direct(ADMIN),
        acknowledgements_requested=Acknowledgements.ACK_POS_RECEIVE,
    )
    rig.done(rig.send(message))
    rig.open()
    rig.hold_disk()
    rig.receive()
    rig.settle()
    (batch,) = rig.submitted[-1:]
    assert rig.pending == 1
    written = [(action.name, table) for action, table, *_ in batch.operations if table is Table.MESSAGES]
    assert sorted(written) == [("DELETE", Table.MESSAGES), ("PUT", Table.MESSAGES), ("PUT", Table.MESSAGES)]
    rig.crash()
    assert held(rig) == ([("order", MessageClass.MQMSG_CLASS_NORMAL)], [], [])
    rig.hold_disk()
    rig.receive()
    rig.settle()
    rig.crash(written=1)
    assert held(rig) == (
        [],
        [("order", MessageClass.MQMSG_CLASS_NORMAL)],
        [("", MessageClass.MQMSG_CLASS_ACK_RECEIVE)],
    )


def test_an_expired_message_and_its_dead_letter_are_one_batch() -> None:
    rig = Rig()
    rig.done(rig.send(letter("order", time_to_be_received=60, negative_journaling_requested=True)))
    rig.hold_disk()
    rig.advance(61)
    rig.turn()
    assert rig.pending == 1
    rig.crash()
    assert (rig.labels(), rig.labels(rig.system(Suffix.DEADLETTER))) == (["order"], [])
    rig.hold_disk()
    rig.advance(0)
    rig.turn()
    rig.crash(written=1)
    assert (rig.labels(), rig.labels(rig.system(Suffix.DEADLETTER))) == ([], ["order"])


def held(rig: Rig) -> tuple[list[tuple[str, int]], ...]:
    """Labels and classes in the queue, in its journal and in the administration queue."""
    journal = rig.queue().journal
    assert journal is not None
    return tuple(
        [(message.label, message.message_class) for message in rig.contents(queue)]
        for queue in (rig.queue(), journal, rig.queue("admin"))
    )


def test_messages_that_are_durable_are_not_kept_in_memory(rig: Rig) -> None:
    message = rig.message(rig.peek())
    for number in range(10):
        rig.send(str(number))
    rig.move(ids(rig)[1], DONE)
    rig.release_disk()
    assert rig.message(rig.peek()) is not message
    assert isinstance(message, Message)
    assert message.delivery_guarantee is RECOVERABLE
    assert not rig.node.messages._pending
