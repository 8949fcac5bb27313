"""MS-MQDMPR 3.1.1.12 Class and MS-MQMQ 2.2.18.1.6: for what reason which negative acknowledgment is made."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.core import office as words
from tests.core.office import ADMIN, THEM, Office
from waypost.core.delivery import STATUS_CLASSES
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.core.queues import Queue
from waypost.core.writing import EnqueueStatus
from waypost.wire.message_class import MessageClass, is_arrival_nack
from waypost.wire.property_values import QueuePrivacy

NEGATIVE = Acknowledgements.ACK_NACK_RECEIVE
WISH = {"acknowledgements_requested": NEGATIVE, "administration_queue_format_name": ADMIN}
PROTOCOL_CLASSES = [
    MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED,
    MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED,
    MessageClass.MQMSG_CLASS_NACK_COULD_NOT_ENCRYPT,
    MessageClass.MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED,
]


@pytest.fixture
def office() -> Office:
    office = Office()
    office.delivery.send_insecure_nacks = True
    return office


def arrive(office: Office, letter: Message, queue: Queue) -> None:
    """Do with a message what transfer does with one from others."""
    refusal = office.delivery.refusal(queue, letter)
    if refusal is None:
        status = office.enqueue(letter, queue)
        refusal = None if status is EnqueueStatus.ACCEPTED else STATUS_CLASSES[status]
    if refusal is not None:
        office.delivery.rejected(letter, refusal, office.now)
    office.settle()


def to_a_system_queue(office: Office) -> None:
    arrive(office, office.letter(THEM, **WISH), office.dead)


def transactional(office: Office) -> None:
    arrive(office, office.transactional(THEM, **WISH), office.orders)


def to_a_transactional_queue(office: Office) -> None:
    office.orders.attributes.transactional = True
    arrive(office, office.letter(THEM, **WISH), office.orders)


def to_a_full_queue(office: Office) -> None:
    office.orders.attributes.quota = 0
    arrive(office, office.letter(THEM, **WISH), office.orders)


def unsigned(office: Office) -> None:
    office.orders.attributes.authentication = True
    arrive(office, office.letter(THEM, **WISH), office.orders)


def in_clear(office: Office) -> None:
    office.orders.attributes.privacy_level = QueuePrivacy.MQ_PRIV_LEVEL_BODY
    arrive(office, office.letter(THEM, **WISH), office.orders)


def too_late(office: Office) -> None:
    letter = office.letter(THEM, **WISH, time_to_reach_queue=10)
    office.advance(11)
    arrive(office, letter, office.orders)


def purged_on_its_way(office: Office) -> None:
    queue = office.outgoing()
    office.deliver(office.letter(**WISH), queue)
    office.manager.writing.purge_queue(queue)
    office.settle()


def in_its_queue(end: Callable[[Office], None]) -> Callable[[Office], None]:
    def cause(office: Office) -> None:
        arrive(office, office.letter(THEM, **WISH, time_to_be_received=60), office.orders)
        end(office)

    return cause


# The causes that the engine itself finds, and their names.
CAUSES: dict[MessageClass, Callable[[Office], None]] = {
    words.BAD_QUEUE: to_a_system_queue,
    words.DELETED: purged_on_its_way,
    words.TOO_LATE: too_late,
    words.QUOTA: to_a_full_queue,
    words.BAD_SIGNATURE: unsigned,
    words.BAD_ENCRYPTION: in_clear,
    words.NOT_TRANSACTIONAL_Q: transactional,
    words.NOT_TRANSACTIONAL_MSG: to_a_transactional_queue,
    words.Q_DELETED: in_its_queue(Office.delete),
    words.PURGED: in_its_queue(Office.purge),
    words.EXPIRED: in_its_queue(Office.expire),
}


@pytest.mark.parametrize("message_class", CAUSES, ids=lambda each: each.name)
def test_each_cause_has_its_class_and_is_told_once(office: Office, message_class: MessageClass) -> None:
    CAUSES[message_class](office)
    assert office.classes(office.admin) == [message_class]


@pytest.mark.parametrize("message_class", PROTOCOL_CLASSES, ids=lambda each: each.name)
def test_what_only_a_protocol_finds_out_is_told_as_it_says(office: Office, message_class: MessageClass) -> None:
    letter = office.letter(THEM, **WISH)
    office.delivery.rejected(letter, message_class, office.now)
    office.delivery.rejected(replace(letter, acknowledgements_requested=0x0B), message_class, office.now)
    (answer,) = office.contents(office.admin)
    assert (answer.message_class, answer.correlation_identifier) == (message_class, letter.identifier)
    assert message_class not in CAUSES


@pytest.mark.parametrize(
    "message_class", [each for each in MessageClass if not is_arrival_nack(each)], ids=lambda each: each.name
)
def test_a_message_is_rejected_only_for_what_keeps_it_from_arriving(
    office: Office, message_class: MessageClass
) -> None:
    wish = {**WISH, "acknowledgements_requested": 0x0F, "negative_journaling_requested": True}
    with pytest.raises(AssertionError, match=message_class.name):
        office.delivery.rejected(office.letter(**wish), message_class, office.now)
    assert office.messages.held == {}


@pytest.mark.parametrize("name", ["order_queue$", "notify_queue$", "NOTIFY_QUEUE$"])
def test_the_queues_of_the_system_take_no_dead_letters(office: Office, name: str) -> None:
    letter = office.letter(
        application_deadletter_queue=f"host\\private$\\{name}", negative_journaling_requested=True
    )  # fmt: skip
    office.delivery.rejected(letter, words.QUOTA, office.now)
    assert office.classes(office.dead) == [words.QUOTA]
    assert len(office.messages.held) == 1
