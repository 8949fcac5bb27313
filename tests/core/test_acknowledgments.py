"""MS-MQQB 3.1.7.15: who asks for an administration acknowledgment, and what it looks like."""

from dataclasses import replace

import pytest

from tests.core.messages import through_a_packet
from tests.core.strategies import DESTINATION, OTHER, SOURCE
from waypost.core.acknowledgments import acknowledgment, asks_in_vain, is_requested
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements, AuthenticationLevel, DeliveryGuarantee, QueueType
from waypost.core.serialization import serialize_message_to_buffer
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

ARRIVED = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
QUOTA = MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA
PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
TOO_LARGE = MessageClass.MQMSG_CLASS_NACK_MESSAGE_TOO_LARGE
EVERYTHING = 0x0F

ADMIN = FormatName.parse("DIRECT=OS:sender\\private$\\admin")
ORDERS = PrivateFormatName(DESTINATION, 7)
ACK_ID = MessageIdentifier(DESTINATION, 99)

# MS-MQQB 3.1.7.15, and 0x8005, which its table forgets.
TOLD = (
    *(0x0002, 0x4000, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800A, 0x800B),
    *(0xC000, 0xC001, 0xC002, 0xC004),
)


def sent(**changes: object) -> Message:
    """A message that asks for everything, as the destination has it."""
    message = Message(
        identifier=MessageIdentifier(SOURCE, 41),
        destination_queue_format_name=ORDERS,
        administration_queue_format_name=ADMIN,
        acknowledgements_requested=EVERYTHING,
        body=b"\x01\x02\x03",
        body_type=0x1011,
        label="order",
        priority=7,
    )
    return through_a_packet(replace(message, **changes))  # type: ignore[arg-type]


def test_each_request_is_a_bit_of_its_own() -> None:
    happenings = {ARRIVED: 0x01, RECEIVED: 0x02, QUOTA: 0x04, PURGED: 0x08}
    for requested in range(0x10):
        message = replace(sent(), acknowledgements_requested=requested)
        for happening, bit in happenings.items():
            assert is_requested(message, happening) is (requested & bit != 0)


@pytest.mark.spec("MQDMPR-3.1.1.12-21", "MQQB-3.1.7.15-01")
def test_without_an_administration_queue_nobody_is_told() -> None:
    assert Message().administration_queue_format_name is None
    assert Message().administration_multi_queue_format_name == ()
    message = replace(sent(), administration_queue_format_name=None)
    for happening in MessageClass:
        assert not is_requested(message, happening)
    assert is_requested(sent(), ARRIVED)


@pytest.mark.parametrize("message_class", [0x0001, 0x0002, 0x00FF, 0x4000, 0x8003, 0xC001])
def test_acknowledgments_and_reports_are_not_acknowledged(message_class: int) -> None:
    for happening in (ARRIVED, RECEIVED, QUOTA, PURGED):
        assert not is_requested(sent(message_class=message_class), happening)
        assert is_requested(sent(message_class=0x0100), happening)


@pytest.mark.parametrize(
    "name",
    [
        "DIRECT=OS:far\\private$\\order_queue$",
        "DIRECT=TCP:10.0.0.9\\PRIVATE$\\NOTIFY_QUEUE$",
        "DIRECT=OS:far\\private$\\admin_queue$",
    ],
)
def test_messages_to_the_queues_of_the_system_are_not_acknowledged(name: str) -> None:
    assert asks_in_vain(sent(destination_queue_format_name=FormatName.parse(name)))
    assert asks_in_vain(sent(destination_queue_format_name=PrivateFormatName(DESTINATION, 4)))
    assert not asks_in_vain(sent(destination_queue_format_name=PrivateFormatName(DESTINATION, 5)))
    assert not asks_in_vain(sent(destination_queue_format_name=FormatName.parse("DIRECT=OS:far\\order_queue$")))


@pytest.mark.spec("MQQB-3.1.7.15-03")
def test_an_acknowledgment_has_the_class_of_what_happened() -> None:
    for number in TOLD:
        answer = acknowledgment(sent(), MessageClass(number), ACK_ID, 5)
        assert UserMessage.decode(serialize_message_to_buffer(answer)).properties.message_class == number


@pytest.mark.spec("MQQB-3.1.7.15-05", "MQMQ-2.2.19.3-10")
def test_an_acknowledgment_names_the_message_by_its_correlation_identifier() -> None:
    answer = acknowledgment(sent(), ARRIVED, ACK_ID, 5)
    assert answer.identifier == ACK_ID
    correlation = UserMessage.decode(serialize_message_to_buffer(answer)).properties.correlation_id
    assert correlation == SOURCE + (41).to_bytes(4, "little")


@pytest.mark.spec("MQQB-3.1.7.15-04")
@pytest.mark.parametrize(
    ("name", "queue_type"),
    [
        (PrivateFormatName(SOURCE, 9), QueueType.PRIVATE_QUEUE_ON_SOURCE),
        (PrivateFormatName(DESTINATION, 9), QueueType.PRIVATE_QUEUE_ON_DESTINATION),
        (PublicFormatName(OTHER), QueueType.PUBLIC_QUEUE),
        (PrivateFormatName(OTHER, 9), QueueType.PRIVATE_QUEUE_ON_OTHER),
        (ADMIN, QueueType.DIRECT_QUEUE),
    ],
)
def test_an_acknowledgment_goes_to_the_administration_queue_of_the_packet(
    name: FormatName, queue_type: QueueType
) -> None:
    message = sent(administration_queue_format_name=name)
    assert UserMessage.decode(message.packet).user.flags >> 13 & 7 == queue_type
    assert acknowledgment(message, ARRIVED, ACK_ID, 5).destination_queue_format_name == name


@pytest.mark.spec("MQQB-3.1.7.15-06")
@pytest.mark.parametrize(
    "name", [ORDERS, PublicFormatName(OTHER), FormatName.parse("DIRECT=OS:far\\private$\\orders")]
)  # fmt: skip
def test_an_acknowledgment_can_be_answered_at_the_queue_of_the_message(name: FormatName) -> None:
    message = sent(destination_queue_format_name=name, destination_queue_manager_identifier=DESTINATION)
    answer = through_a_packet(acknowledgment(message, ARRIVED, ACK_ID, 5))
    assert answer.response_queue_format_name == name


@pytest.mark.spec("MQQB-3.1.7.15-07", "MQQB-3.1.7.2.1-03")
@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_an_acknowledgment_is_as_recoverable_as_its_message_and_asks_for_nothing(guarantee: DeliveryGuarantee) -> None:
    message = sent(
        delivery_guarantee=guarantee,
        time_to_reach_queue=60,
        time_to_be_received=60,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
    )
    message.authentication_level = AuthenticationLevel.SIG20
    answer = through_a_packet(acknowledgment(message, PURGED, ACK_ID, 5))
    assert answer.delivery_guarantee is guarantee
    assert answer.acknowledgements_requested == Acknowledgements.NONE
    assert answer.administration_queue_format_name is None
    assert answer.time_to_reach_queue == answer.time_to_be_received == 0xFFFF_FFFF
    assert not answer.positive_journaling_requested
    assert not answer.negative_journaling_requested
    assert answer.privacy_level == PrivacyLevel.NONE
    assert answer.authentication_level is AuthenticationLevel.NONE
    assert not answer.is_transactional
    assert (answer.sent_time, answer.label) == (5, "")


@pytest.mark.spec("MQQB-3.1.7.15-08")
def test_only_bad_news_brings_the_body_back() -> None:
    for good in (ARRIVED, RECEIVED):
        assert acknowledgment(sent(), good, ACK_ID, 5).body == b""
    for bad in (number for number in TOLD if number >= 0x8000):
        answer = acknowledgment(sent(), MessageClass(bad), ACK_ID, 5)
        assert (answer.body, answer.body_type) == (b"\x01\x02\x03", 0x1011)
        secret = replace(sent(), privacy_level=PrivacyLevel.ENHANCED)
        assert acknowledgment(secret, MessageClass(bad), ACK_ID, 5).body == b""
    assert acknowledgment(sent(), TOO_LARGE, ACK_ID, 5).body == b""
