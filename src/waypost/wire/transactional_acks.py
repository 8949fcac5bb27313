"""The two acknowledgments of transactional messages, end to end: OrderAck (MS-MQQB 2.2.4) and FinalAck (2.2.5).

Both are UserMessage Packets to the order queue of the original sender, told apart by their message class. The text's
"all flags 0" is demanded of what we send; on receipt SH and reserved bits are ignored (readings MQQB 3.15).
"""

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.wire import base_header, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import encodes, exactly
from waypost.wire.message_class import MessageClass
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

LABEL: Final = "QM Ordering Ack"
ORDER_QUEUE_NUMBER: Final = 4
ORDER_QUEUE_NAME: Final = "\\PRIVATE$\\order_queue$"
BODY_SIZE: Final = 0x24
ORDER_ACK_CLASS: Final = int(MessageClass.MQMSG_CLASS_ORDER_ACK)
FIRST_FINAL_ACK_CLASS: Final = 0x4000

ORDER_LAYOUT: Final = Struct("<QII20s")
FINAL_LAYOUT: Final = Struct("<QII16sI")
_MEANINGFUL_BASE_FLAGS: Final = base_header.PR | base_header.IN | base_header.DH | base_header.TR

OrderQueue = PrivateQueueFormatNameId | DirectQueueFormatName


def order_queue_of_address(ip_address: str) -> DirectQueueFormatName:
    """MS-MQQB 3.1.7.17: the order queue of the host at an IPv4 or IPv6 address, for a session by direct name."""
    return DirectQueueFormatName(f"TCP:{ip_address}{ORDER_QUEUE_NAME}")


def local_order_queue() -> PrivateQueueFormatNameId:
    """MS-MQQB 3.1.7.17: the order queue of the queue manager that UserHeader.QueueManagerAddress names."""
    return PrivateQueueFormatNameId(ORDER_QUEUE_NUMBER)


@dataclass(slots=True)
class OrderAckBody:
    """MS-MQQB 2.2.4.1: everything of the sequence up to TxSequenceNumber has arrived in order and is stored."""

    tx_sequence_id: int
    tx_sequence_number: int
    tx_previous_sequence_number: int
    reserved: bytes = bytes(20)

    @encodes("MS-MQQB 2.2.4.1", "OrderAck Body")
    def encode(self) -> bytes:
        return ORDER_LAYOUT.pack(
            self.tx_sequence_id,
            self.tx_sequence_number,
            self.tx_previous_sequence_number,
            exactly(20, self.reserved, "MS-MQQB 2.2.4.1", "Reserved"),
        )


@dataclass(slots=True)
class FinalAckBody:
    """MS-MQQB 2.2.5.1: what became of the message with this number and identifier."""

    tx_sequence_id: int
    tx_sequence_number: int
    tx_previous_sequence_number: int
    source_guid: bytes
    message_id: int

    @encodes("MS-MQQB 2.2.5.1", "FinalAck Body")
    def encode(self) -> bytes:
        return FINAL_LAYOUT.pack(
            self.tx_sequence_id,
            self.tx_sequence_number,
            self.tx_previous_sequence_number,
            exactly(16, self.source_guid, "MS-MQQB 2.2.5.1", "SourceGUID"),
            self.message_id,
        )


@dataclass(slots=True)
class OrderAck:
    message: UserMessage
    body: OrderAckBody

    def encode(self) -> bytes:
        return _with_body(self.message, self.body.encode()).encode()


@dataclass(slots=True)
class FinalAck:
    message: UserMessage
    body: FinalAckBody

    def encode(self) -> bytes:
        return _with_body(self.message, self.body.encode()).encode()

    @property
    def message_class(self) -> int:
        return self.message.properties.message_class


def order_ack(user: UserHeader, order_queue: OrderQueue, body: OrderAckBody) -> OrderAck:
    """MS-MQQB 2.2.4.

    `user` brings the identities and the times of the acknowledgment; its flags and names are replaced.
    """
    message = _message(user, order_queue, user_header.EXPRESS, ORDER_ACK_CLASS)
    return OrderAck(_with_body(message, body.encode()), body)


def final_ack(user: UserHeader, order_queue: OrderQueue, message_class: int, body: FinalAckBody) -> FinalAck:
    """MS-MQQB 2.2.5, which is recoverable."""
    message = _message(user, order_queue, user_header.RECOVERABLE, message_class)
    return FinalAck(_with_body(message, body.encode()), body)


def identify(message: UserMessage) -> UserMessage | OrderAck | FinalAck:
    """MS-MQQB 3.1.5.1.1: the transactional acknowledgment that the message is, or the message itself."""
    properties = message.properties
    message_class = properties.message_class
    is_order_ack = message_class == ORDER_ACK_CLASS
    if not is_order_ack and message_class < FIRST_FINAL_ACK_CLASS:
        return message
    if (
        message.base.flags & _MEANINGFUL_BASE_FLAGS
        or properties.label != LABEL
        or not _is_order_queue(message.user)
    ):  # fmt: skip
        return message
    body = properties.message_body
    if len(body) != BODY_SIZE:
        section = "MS-MQQB 2.2.4" if is_order_ack else "MS-MQQB 2.2.5"
        raise DecodeError(section, "MessageSize", _message_size_at(message), f"must be 36, not {len(body)}")
    if is_order_ack:
        return OrderAck(message, OrderAckBody(*ORDER_LAYOUT.unpack(body)))
    return FinalAck(message, FinalAckBody(*FINAL_LAYOUT.unpack(body)))


def _message_size_at(message: UserMessage) -> int:
    headers = (message.base, message.user, message.transaction, message.security)
    return sum(len(header.encode()) for header in headers if header is not None) + 32


def _is_order_queue(user: UserHeader) -> bool:
    match user.destination_queue:
        case PrivateQueueFormatNameId(number):
            return number == ORDER_QUEUE_NUMBER
        case DirectQueueFormatName(name):
            return name.lower().endswith(ORDER_QUEUE_NAME.lower())
        case _:
            return False


def _message(user: UserHeader, order_queue: OrderQueue, delivery: int, message_class: int) -> UserMessage:
    header = replace(
        user,
        flags=user_header.MP | delivery << user_header.DM_SHIFT,
        destination_queue=order_queue,
        admin_queue=None,
        response_queue=None,
        connector_type=None,
    )
    return UserMessage(
        base=BaseHeader(flags=0),
        user=header,
        properties=MessagePropertiesHeader(message_class=message_class, label=LABEL),
    )


def _with_body(message: UserMessage, body: bytes) -> UserMessage:
    return replace(message, properties=replace(message.properties, message_body=body))
