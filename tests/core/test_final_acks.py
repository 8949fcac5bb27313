"""Messages that wait for a FinalAck, and the effect of the FinalAck: MS-MQQB 3.1.1.3.1, 3.1.5.6 and 3.1.5.7."""

from dataclasses import replace

import pytest

from tests.core.office import ADMIN, BAD_QUEUE, PURGED, RECEIVED, THEM, Office
from waypost.core.final_acks import FinalAcks
from waypost.core.message import Message
from waypost.core.ports import MessagePositionDeleted
from waypost.core.queues import OutgoingQueue
from waypost.errors import AccessDenied
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import QueueKind

EVERYTHING = 0x0F
BOTH = {"positive_journaling_requested": True, "negative_journaling_requested": True}
JP = {"positive_journaling_requested": True}
JN = {"negative_journaling_requested": True}
FA = {"final_ack_required": True}
FAR = FormatName.parse("DIRECT=OS:far\\private$\\orders")
NEAR = "DIRECT=OS:near\\private$\\orders"

where = pytest.mark.parametrize("is_delivered", [True, False], ids=["table", "outgoing"])


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def far(office: Office) -> OutgoingQueue:
    return outgoing(office)


def outgoing(office: Office, name: str = str(FAR)) -> OutgoingQueue:
    queue = office.outgoing(name)
    assert isinstance(queue, OutgoingQueue)
    return queue


def sent(office: Office, queue: OutgoingQueue, *, is_delivered: bool, **changes: object) -> Message:
    """A message of ours in an outgoing queue, or delivered from there."""
    message = replace(office.transactional(), **{"destination_queue_format_name": FAR, **changes})  # type: ignore[arg-type]
    office.deliver(message, queue)
    if is_delivered:
        office.manager.final_acks.await_final_ack(queue, message.lookup_identifier)
        assert message.lookup_identifier not in queue.positions
        assert message.lookup_identifier in office.manager.awaiting_final_ack.positions
        assert office.manager.take_events() == []
    return message


def arrived(office: Office, message: Message, message_class: int) -> bool:
    found = office.manager.final_acks.final_ack_arrived(message.identifier, message_class, office.now)
    office.settle()
    return found


def is_gone(office: Office, queue: OutgoingQueue) -> bool:
    return len(queue.positions) + len(office.manager.awaiting_final_ack.positions) == 0


@where
@pytest.mark.spec("MQQB-3.1.5.7-02")
def test_a_message_that_was_received_goes_to_the_journal_if_it_asked_for_it(
    office: Office, far: OutgoingQueue, *, is_delivered: bool
) -> None:
    message = sent(office, far, is_delivered=is_delivered, **BOTH)
    assert arrived(office, message, RECEIVED)
    (copy,) = office.contents(office.journal)
    assert (copy.identifier, copy.body, copy.message_class) == (message.identifier, message.body, 0)
    assert is_gone(office, far)
    assert office.contents(office.dead_tx) == office.contents(office.dead) == []
    assert office.manager.total_bytes == office.journal.total_bytes


@where
@pytest.mark.spec("MQQB-3.1.5.7-03")
@pytest.mark.parametrize("message_class", [PURGED, BAD_QUEUE, 0x8FFF])
@pytest.mark.parametrize("pathname", ["", "host\\private$\\box", "host\\private$\\no such queue"])
def test_a_message_that_was_not_received_becomes_a_dead_letter_if_it_asked_for_it(
    office: Office, far: OutgoingQueue, message_class: int, pathname: str, *, is_delivered: bool
) -> None:
    box = office.create("box")
    message = sent(office, far, is_delivered=is_delivered, **BOTH, application_deadletter_queue=pathname)
    assert arrived(office, message, message_class)
    own, others = (box, office.dead_tx) if pathname.endswith("box") else (office.dead_tx, box)
    (letter,) = office.contents(own)
    assert (letter.identifier, letter.message_class) == (message.identifier, message_class)
    assert letter.time_to_reach_queue == letter.time_to_be_received == INFINITE
    assert office.contents(others) == office.contents(office.journal) == office.contents(office.dead) == []
    assert is_gone(office, far)


@where
@pytest.mark.spec("MQQB-3.1.5.7-04")
@pytest.mark.parametrize(("wish", "message_class"), [(JN, RECEIVED), (JP, PURGED), (FA, RECEIVED), (FA, PURGED)])
def test_a_message_that_asked_for_the_other_outcome_is_dropped(
    office: Office, far: OutgoingQueue, wish: dict[str, bool], message_class: MessageClass, *, is_delivered: bool
) -> None:
    message = sent(office, far, is_delivered=is_delivered, **wish)
    assert arrived(office, message, message_class)
    assert is_gone(office, far)
    assert office.manager.total_bytes == 0
    assert not arrived(office, message, message_class)


@where
def test_the_end_is_told_to_nobody_but_those_who_transfer(
    office: Office, far: OutgoingQueue, *, is_delivered: bool
) -> None:
    """The host that refused or received the message has acknowledged that."""
    wish = {"administration_queue_format_name": ADMIN, "acknowledgements_requested": EVERYTHING}
    message = sent(office, far, is_delivered=is_delivered, **BOTH, **wish)
    office.manager.final_acks.final_ack_arrived(message.identifier, PURGED, office.now)
    gone = [event for event in office.manager.take_events() if isinstance(event, MessagePositionDeleted)]
    assert [event.queue for event in gone] == ([] if is_delivered else [far])
    for event in gone:
        office.delivery.handle(event, office.now)
    office.settle()
    assert office.contents(office.admin) == []
    assert len(office.contents(office.dead_tx)) == 1


def test_a_message_waits_without_an_end(office: Office, far: OutgoingQueue) -> None:
    message = sent(office, far, is_delivered=True, **BOTH, time_to_reach_queue=5, time_to_be_received=5)
    office.advance(10**9)
    office.settle()
    assert office.contents(office.dead_tx) == []
    assert arrived(office, message, RECEIVED)


def test_a_final_ack_for_nothing_changes_nothing(office: Office, far: OutgoingQueue) -> None:
    message = sent(office, far, is_delivered=True, **BOTH)
    assert not arrived(office, replace(message, identifier=MessageIdentifier(THEM, message.identifier.ordinal)), PURGED)
    assert not arrived(office, office.transactional(**BOTH), PURGED)
    quiet = sent(office, far, is_delivered=False)
    assert not arrived(office, quiet, PURGED)
    foreign = office.transactional(THEM, **BOTH)
    office.deliver(foreign, far)
    assert not arrived(office, foreign, PURGED)
    assert len(far.positions) == 2
    assert arrived(office, message, RECEIVED)


def test_a_sequence_tells_which_of_several_copies_is_meant(office: Office, far: OutgoingQueue) -> None:
    near = outgoing(office, NEAR)
    identifier = MessageIdentifier(office.manager.identity.identifier, 500)
    first, second = TxSequenceId(1, 10), TxSequenceId(1, 11)
    for queue, sequence in ((far, first), (near, second)):
        sent(
            office,
            queue,
            is_delivered=queue is far,
            identifier=identifier,
            transactional_message_sequence_identifier=sequence,
            **JP,
        )
    final_acks, now = office.manager.final_acks, office.now
    assert not final_acks.final_ack_arrived(identifier, RECEIVED, now, sequence=(first, 2))
    assert final_acks.final_ack_arrived(identifier, RECEIVED, now, sequence=(second, 1))
    assert (len(near.positions), len(office.manager.awaiting_final_ack.positions)) == (0, 1)
    assert not final_acks.final_ack_arrived(identifier, RECEIVED, now, sequence=(second, 1))
    assert final_acks.final_ack_arrived(identifier, RECEIVED, now)
    assert is_gone(office, far)


def test_a_queue_knows_how_many_of_its_messages_wait(office: Office, far: OutgoingQueue) -> None:
    near = outgoing(office, NEAR)
    first = sent(office, far, is_delivered=True, **JP)
    sent(office, far, is_delivered=True, **JN)
    sent(office, far, is_delivered=False, **JP)
    sent(office, near, is_delivered=True, **JP, destination_queue_format_name=FormatName.parse(NEAR))
    final_acks = office.manager.final_acks
    assert (final_acks.count(far), final_acks.count(near)) == (2, 1)
    arrived(office, first, RECEIVED)
    assert (final_acks.count(far), final_acks.count(near)) == (1, 1)


def test_the_table_is_for_the_queue_manager_alone(office: Office) -> None:
    table = office.manager.awaiting_final_ack
    assert table.queue_type is QueueKind.SYSTEM
    assert table.private_queue_number == 0
    with pytest.raises(AccessDenied):
        office.open(name="DIRECT=OS:host\\private$\\awaiting_final_ack$")
    assert office.delivery.refusal(table, office.letter()) is BAD_QUEUE


def test_what_left_otherwise_is_forgotten_in_the_end(office: Office, far: OutgoingQueue) -> None:
    stays = sent(office, far, is_delivered=False, **JP)
    for _ in range(1000):
        message = sent(office, far, is_delivered=False, **JP)
        office.manager.positions.deleted(far, message.lookup_identifier, PURGED)
        office.settle()
    places = office.manager.final_acks._places
    assert len(places) < 200
    assert arrived(office, stays, RECEIVED)


def test_what_outlived_the_process_is_found_again(office: Office, far: OutgoingQueue) -> None:
    on_its_way = sent(office, far, is_delivered=False, **JP)
    waits = sent(office, far, is_delivered=True, **JN)
    manager = office.manager
    again = FinalAcks(manager.collection, manager.positions, manager.writing)
    for queue in (far, manager.awaiting_final_ack, manager.order_queue):
        again.restore(queue, office.contents(queue))
    assert again.count(far) == 1
    assert again.final_ack_arrived(on_its_way.identifier, RECEIVED, office.now)
    assert again.final_ack_arrived(waits.identifier, PURGED, office.now)
    assert again.count(far) == 0
    assert (len(office.contents(office.journal)), office.classes(office.dead_tx)) == (1, [PURGED])
