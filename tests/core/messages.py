"""Messages and packets that the tests of both directions start from."""

from tests.core.strategies import DESTINATION, DIRECT
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import deserialize_message_from_buffer, serialize_message_to_buffer
from waypost.wire.format_names import PrivateFormatName
from waypost.wire.security_header import SecurityHeader
from waypost.wire.sid import Sid
from waypost.wire.user_message import UserMessage

SID = Sid(5, (21, 1, 2, 3, 1000)).encode()
PRIVATE = PrivateFormatName(DESTINATION, 7)


def plain() -> Message:
    return Message(destination_queue_format_name=DIRECT)


def transactional() -> Message:
    message = plain()
    message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    message.transaction_identifier = 0xABCDE
    return message


def through_a_packet(message: Message) -> Message:
    return deserialize_message_from_buffer(serialize_message_to_buffer(message))


def packet(message: Message) -> UserMessage:
    return UserMessage.decode(serialize_message_to_buffer(message))


def security(message: Message) -> SecurityHeader:
    header = packet(message).security
    assert header is not None
    return header
