"""MS-MQMQ 2.2.18.1.6: the classes of a message.

A class is a 16-bit number of which two bits carry the meaning: 0x8000 says that something failed, 0x4000 that it
happened at receiving and not on arrival. A message on the wire may have any class; only those that an application makes
up are checked.
"""

from enum import IntEnum
from typing import Final

NEGATIVE: Final = 0x8000
RECEIVE: Final = 0x4000

CUSTOM_CLASS_MASK: Final = 0xE1FF


class MessageClass(IntEnum):
    """MESSAGE_CLASS_VALUES."""

    MQMSG_CLASS_NORMAL = 0x0000
    MQMSG_CLASS_REPORT = 0x0001
    MQMSG_CLASS_ACK_REACH_QUEUE = 0x0002
    MQMSG_CLASS_ORDER_ACK = 0x00FF
    MQMSG_CLASS_ACK_RECEIVE = 0x4000
    MQMSG_CLASS_NACK_BAD_DST_Q = 0x8000
    MQMSG_CLASS_NACK_DELETED = 0x8001
    MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT = 0x8002
    MQMSG_CLASS_NACK_Q_EXCEED_QUOTA = 0x8003
    MQMSG_CLASS_NACK_ACCESS_DENIED = 0x8004
    MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED = 0x8005
    MQMSG_CLASS_NACK_BAD_SIGNATURE = 0x8006
    MQMSG_CLASS_NACK_BAD_ENCRYPTION = 0x8007
    MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q = 0x8009
    MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG = 0x800A
    MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    MQMSG_CLASS_NACK_Q_DELETED = 0xC000
    MQMSG_CLASS_NACK_Q_PURGED = 0xC001
    MQMSG_CLASS_NACK_RECEIVE_TIMEOUT = 0xC002
    MQMSG_CLASS_NACK_RECEIVE_REJECTED = 0xC004

    # Not in MS-MQMQ: classes that MS-MQQB and MS-MQDMPR name without a number (readings MQQB 3.30, MQDMPR 2.5).
    MQMSG_CLASS_NACK_COULD_NOT_ENCRYPT = 0x8008
    MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    MQMSG_CLASS_NACK_MESSAGE_TOO_LARGE = 0x800D
    MQMSG_CLASS_NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003


_MEANINGS: Final = {
    MessageClass.MQMSG_CLASS_NORMAL: "a message of an application",
    MessageClass.MQMSG_CLASS_REPORT: "a report on the route of a traced message",
    MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE: "the message reached its queue",
    MessageClass.MQMSG_CLASS_ORDER_ACK: "the transactional messages up to this one arrived in order",
    MessageClass.MQMSG_CLASS_ACK_RECEIVE: "the message was received by an application",
    MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q: "the destination queue is not available to the sender",
    MessageClass.MQMSG_CLASS_NACK_DELETED: "an administrator deleted the message during transfer",
    MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT: "the message expired before it reached its queue",
    MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA: "the destination queue is full",
    MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED: "the sender does not have the right to send to the queue",
    MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED: "the message went through too many queue managers",
    MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE: "the message has no valid signature",
    MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION: (
        "the destination could not decrypt the message, or its queue accepts only encrypted (or only unencrypted) "
        "messages"
    ),
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q: "a transactional message arrived at a nontransactional queue",
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG: "a nontransactional message arrived at a transactional queue",
    MessageClass.MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER: "the destination lacks the cryptographic provider",
    MessageClass.MQMSG_CLASS_NACK_Q_DELETED: "the queue was deleted before the message was received",
    MessageClass.MQMSG_CLASS_NACK_Q_PURGED: "the queue was purged before the message was received",
    MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT: "the message expired in the queue before it was received",
    MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED: "the receiving application rejected the message",
    MessageClass.MQMSG_CLASS_NACK_COULD_NOT_ENCRYPT: "the message could not be encrypted for its destination",
    MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED: "the sending queue manager has a new identity",
    MessageClass.MQMSG_CLASS_NACK_MESSAGE_TOO_LARGE: "the message is too large for its destination",
    MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT_AT_SENDER: "no acknowledgment of receipt reached the sender in time",
}

_POSITIVE_ACKS: Final = frozenset({MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, MessageClass.MQMSG_CLASS_ACK_RECEIVE})


def is_positive_ack(message_class: int) -> bool:
    """An administration acknowledgment that a message arrived or was received. An order ack is none."""
    return message_class in _POSITIVE_ACKS


def is_arrival_nack(message_class: int) -> bool:
    return message_class & (NEGATIVE | RECEIVE) == NEGATIVE


def is_receive_nack(message_class: int) -> bool:
    return message_class & (NEGATIVE | RECEIVE) == NEGATIVE | RECEIVE


def is_negative_ack(message_class: int) -> bool:
    return message_class & NEGATIVE != 0


def is_valid_custom_class(message_class: int) -> bool:
    """An application sets one or more bits of the mask and none outside it."""
    return message_class != 0 and message_class & ~CUSTOM_CLASS_MASK == 0


def meaning(message_class: int) -> str:
    """The meaning of the class, in half a sentence."""
    try:
        return _MEANINGS[MessageClass(message_class)]
    except ValueError:
        return f"a class defined by the application, 0x{message_class:04X}"
