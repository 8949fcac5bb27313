"""Journal and dead-letter messages of the source: MS-MQDMPR 3.1.1.12, MS-MQMQ 2.2.19.2 JN and JP, MS-MQQB 1.3.4."""

from dataclasses import replace

import pytest

from tests.core.engine import ME
from tests.core.office import (
    ADMIN,
    ARRIVED,
    BAD_QUEUE,
    ENDS,
    EXPIRED,
    ORDERS,
    PURGED,
    Q_DELETED,
    QUOTA,
    RECEIVED,
    THEM,
    TOO_LATE,
    Office,
)
from waypost.core.delivery import STATUS_CLASSES
from waypost.core.message import Message
from waypost.core.ports import MessageArrived, MessagePositionDeleted
from waypost.core.serialization import deserialize_message_from_buffer, serialize_message_to_buffer
from waypost.core.writing import EnqueueStatus
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

EVERYTHING = 0x0F


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.mark.spec("MQDMPR-3.1.1.12-16", "MQMQ-2.2.19.2-13")
def test_the_source_journals_what_was_delivered_if_asked(office: Office) -> None:
    assert not Message().positive_journaling_requested
    office.deliver(office.letter())
    office.deliver(office.letter(THEM, positive_journaling_requested=True))
    office.delivery.rejected(office.letter(positive_journaling_requested=True), QUOTA, office.now)
    assert office.contents(office.journal) == []
    letter = office.letter(positive_journaling_requested=True)
    office.deliver(letter)
    (copy,) = office.contents(office.journal)
    assert copy.lookup_identifier > letter.lookup_identifier
    assert replace(copy, lookup_identifier=letter.lookup_identifier) == letter
    assert copy.packet == letter.packet
    assert len(office.orders.positions) == 3


def test_a_transactional_message_is_journaled_when_it_was_received(office: Office) -> None:
    """MS-MQQB 3.1.5.7: its end decides between journal and dead-letter queue."""
    for _ in range(2):
        wish = {"positive_journaling_requested": True, "negative_journaling_requested": True}
        office.deliver(office.transactional(**wish, time_to_reach_queue=10))
    assert office.contents(office.journal) == []
    office.advance(11)
    office.receive_one()
    assert office.classes(office.journal) == [0]
    office.purge()
    assert (office.classes(office.journal), office.classes(office.dead_tx)) == ([0], [PURGED])


@pytest.mark.spec("MQDMPR-3.1.1.12-17")
@pytest.mark.parametrize("quota", ["queue", "computer"])
def test_a_copy_for_which_there_is_no_room_is_discarded_and_nothing_else_fails(office: Office, quota: str) -> None:
    if quota == "queue":
        for queue in (office.journal, office.dead, office.dead_tx):
            queue.attributes.quota = 0
    wish = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    letter = office.letter(**wish, acknowledgements_requested=0x05, administration_queue_format_name=ADMIN)
    office.enqueue(letter)
    office.manager.take_events()
    if quota == "computer":
        office.manager.set_quota(0)
    office.delivery.handle(MessageArrived(office.orders, letter), office.now)
    office.delivery.rejected(letter, QUOTA, office.now)
    office.delivery.rejected(office.transactional(**wish), QUOTA, office.now)
    assert [len(queue.positions) for queue in (office.journal, office.dead, office.dead_tx)] == [0, 0, 0]
    assert letter.lookup_identifier in office.orders.positions
    assert office.classes(office.admin) == ([ARRIVED, QUOTA] if quota == "queue" else [])


@pytest.mark.spec("MQDMPR-3.1.1.12-18", "MQMQ-2.2.19.2-12")
def test_the_source_keeps_what_was_not_delivered_if_asked(office: Office) -> None:
    assert not Message().negative_journaling_requested
    for letter in (office.letter(), office.transactional(), office.letter(THEM, negative_journaling_requested=True)):
        office.delivery.rejected(letter, BAD_QUEUE, office.now)
    assert office.messages.held == {}
    letter = office.letter(negative_journaling_requested=True)
    captured = office.transactional(negative_journaling_requested=True)
    for message in (letter, captured):
        office.delivery.rejected(message, BAD_QUEUE, office.now)
    assert [copy.identifier for copy in office.contents(office.dead)] == [letter.identifier]
    assert [copy.identifier for copy in office.contents(office.dead_tx)] == [captured.identifier]


@pytest.mark.parametrize("end", ENDS)
def test_a_transactional_message_that_was_not_received_is_a_dead_letter_of_its_source(
    office: Office, end: MessageClass
) -> None:
    for source in (ME, THEM):
        office.manager.transactions.collection.clear()
        office.deliver(office.transactional(source, negative_journaling_requested=True, time_to_be_received=60))
        if source == ME or end is not Q_DELETED:
            ENDS[end](office)
    assert office.classes(office.dead_tx) == ([] if end is RECEIVED else [end])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("source", [ME, THEM])
def test_of_the_others_that_reached_their_queue_only_the_expired_are_dead_letters(
    office: Office, source: bytes, end: MessageClass
) -> None:
    """readings MQQB 7.1."""
    office.deliver(office.letter(source, negative_journaling_requested=True, time_to_be_received=60))
    ENDS[end](office)
    assert office.classes(office.dead) == ([EXPIRED] if end is EXPIRED else [])


def test_a_message_for_a_full_queue_is_told_of_and_kept_where_it_came_to(office: Office) -> None:
    """MS-MQQB 3.1.5.8.8."""
    office.orders.attributes.quota = 0
    wish = {"acknowledgements_requested": 0x04, "administration_queue_format_name": ADMIN}
    letters = [
        office.letter(THEM),
        office.letter(THEM, **wish, negative_journaling_requested=True),
        office.transactional(THEM, **wish, negative_journaling_requested=True),
    ]
    for letter in letters:
        office.delivery.rejected(letter, STATUS_CLASSES[office.enqueue(letter)], office.now)
    assert office.classes(office.admin) == [0x8003, 0x8003]
    assert [copy.identifier for copy in office.contents(office.dead)] == [letters[1].identifier]
    assert office.contents(office.dead_tx) == office.contents(office.orders) == []


@pytest.mark.spec("MQDMPR-3.1.1.12-04")
def test_an_application_can_have_a_dead_letter_queue_of_its_own(office: Office) -> None:
    assert Message().application_deadletter_queue == ""
    own = office.create("own")
    for path in ("host\\private$\\own", ".\\PRIVATE$\\Own", "host.example.org\\private$\\own"):
        for letter in (office.letter(), office.transactional(), office.letter(time_to_reach_queue=0, sent_time=0)):
            wanted = replace(letter, application_deadletter_queue=path, time_to_be_received=1)
            office.delivery.rejected(wanted, QUOTA, office.now)
            assert office.contents(own) == []
            office.delivery.rejected(replace(wanted, negative_journaling_requested=True), QUOTA, office.now)
            (copy,) = office.contents(own)
            assert (copy.identifier, copy.message_class) == (letter.identifier, QUOTA)
            office.expire()
            assert len(own.positions) == 1
            office.manager.writing.purge_queue(own)
            office.settle()
    assert office.messages.held == {}


@pytest.mark.spec("MQDMPR-3.1.1.12-04")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "own",
        "host\\private$\\none",
        "far\\private$\\own",
        "host\\private$\\own;sub",
        "host\\private$\\order_queue$",
        "host\\system$;journal",
    ],
)
def test_any_other_path_selects_the_dead_letter_queues_of_the_system(office: Office, path: str) -> None:
    office.create("own")
    wish = {"application_deadletter_queue": path, "negative_journaling_requested": True}
    office.delivery.rejected(office.letter(**wish), QUOTA, office.now)
    office.delivery.rejected(office.transactional(**wish), QUOTA, office.now)
    assert (office.classes(office.dead), office.classes(office.dead_tx)) == ([QUOTA], [QUOTA])


@pytest.mark.spec("MQMQ-2.2.19.2-14")
@pytest.mark.parametrize(
    "changes",
    [
        {"destination_queue_format_name": FormatName.parse("DIRECT=OS:host\\private$\\order_queue$")},
        {"destination_queue_format_name": FormatName.parse("DIRECT=OS:host\\private$\\notify_queue$")},
        {"destination_queue_format_name": PrivateFormatName(ME, 4)},
        {"destination_queue_format_name": ADMIN, "message_class": ARRIVED},
        {"destination_queue_format_name": ADMIN, "message_class": PURGED},
    ],
)
def test_messages_to_administration_notification_and_order_queues_are_not_journaled(
    office: Office, changes: dict[str, object]
) -> None:
    wish = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    for letter in (office.letter(**wish, **changes), office.transactional(**wish, **changes)):
        for nack in (QUOTA, TOO_LATE):
            office.delivery.rejected(letter, nack, office.now)
        office.delivery.handle(MessageArrived(office.orders, letter), office.now)
        for end in (RECEIVED, EXPIRED):
            office.delivery.handle(MessagePositionDeleted(office.orders, letter, end), office.now)
    assert office.messages.held == {}


def test_a_dead_letter_tells_why_and_is_otherwise_the_message_that_came(office: Office) -> None:
    """MS-MQQB 4.1.7 prints a message that wants acknowledgments and names no queue for them: it is taken."""
    packet = UserMessage.decode(serialize_message_to_buffer(office.letter(THEM, negative_journaling_requested=True)))
    packet.properties.flags = 0x0F
    packet.user.flags |= 0x15
    letter = deserialize_message_from_buffer(packet.encode())
    office.delivery.rejected(letter, QUOTA, office.now)
    (copy,) = office.contents(office.dead)
    packet.properties.message_class = QUOTA
    packet.base.time_to_reach_queue = packet.user.time_to_be_received = INFINITE
    assert copy.packet == packet.encode()
    came = deserialize_message_from_buffer(copy.packet)
    kept = replace(came, lookup_identifier=copy.lookup_identifier, arrival_time=int(office.now.wall))
    assert copy == kept


@pytest.mark.parametrize("path", ["", "host\\private$\\orders", "host\\private$\\admin"])
@pytest.mark.parametrize("admin", [ORDERS, ADMIN])
def test_nothing_of_what_delivery_does_goes_on_for_ever(office: Office, path: str, admin: FormatName) -> None:
    """The administration queue is the queue itself, dead-letter messages come back to it, and all is asked for."""
    for queue in (office.orders, office.admin):
        queue.attributes.journaling = True
    for make in (office.letter, office.transactional):
        wanted = make(
            acknowledgements_requested=EVERYTHING,
            administration_queue_format_name=admin,
            positive_journaling_requested=True,
            negative_journaling_requested=True,
            application_deadletter_queue=path,
            time_to_be_received=60,
        )
        assert office.enqueue(wanted) is EnqueueStatus.ACCEPTED
        assert office.settle() <= 2
        office.advance(61)
        assert office.settle() <= 2
    queues = (office.orders, office.admin, office.journal, office.dead, office.dead_tx)
    # Arrival and end of both are reported; the journal has the first, which arrived, and both are dead-letter messages.
    assert sum(len(queue.positions) for queue in queues) == 2 * 2 + 1 + 2
    for queue in queues:
        office.manager.writing.purge_queue(queue)
        assert office.settle() <= 1
    assert office.messages.held == {}


@pytest.mark.spec("MQDMPR-3.1.1.12-18", "MQMQ-2.2.19.2-12")
def test_what_cannot_leave_is_a_dead_letter(office: Office) -> None:
    queue = office.outgoing()
    for make in (office.letter, office.transactional):
        office.deliver(make(negative_journaling_requested=True, time_to_be_received=60), queue)
        office.deliver(make(time_to_be_received=60), queue)
    office.expire()
    assert (office.classes(office.dead), office.classes(office.dead_tx)) == ([TOO_LATE], [TOO_LATE])


@pytest.mark.spec("MQDMPR-3.1.1.12-16")
def test_what_was_transferred_is_journaled_when_that_counts_as_delivered(office: Office) -> None:
    queue = office.outgoing()
    wish = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    for source in (THEM, ME):
        for make, delivered in ((office.letter, ARRIVED), (office.transactional, RECEIVED)):
            letter = make(source, **wish)
            office.deliver(letter, queue)
            assert letter.identifier not in {copy.identifier for copy in office.contents(office.journal)}
            office.manager.positions.deleted(queue, letter.lookup_identifier, delivered)
            office.settle()
    copies = office.contents(office.journal)
    assert {copy.source_machine_identifier for copy in copies} == {ME}
    assert [copy.is_transactional for copy in copies] == [False, True]
    assert office.contents(office.dead) == office.contents(office.dead_tx) == []
