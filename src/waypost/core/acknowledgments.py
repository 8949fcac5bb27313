"""Administration acknowledgments: the requests for them, and their messages (MS-MQQB 3.1.7.15).

A message asks bit by bit (readings MQDMPR 2.6): for reports of its arrival, of its receipt, of its failure to arrive
and of its failure to be received. The class of the outcome selects the bit. Messages that the system itself made, and
those to its own queues, are never acknowledged (MS-MQQB 3.1.5.8.10).
"""

from typing import Final

from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.core.queues import NOTIFICATION_QUEUE, ORDER_QUEUE
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import DirectFormatName, PrivateFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass, is_arrival_nack, is_negative_ack, is_receive_nack
from waypost.wire.path_names import QueueKind
from waypost.wire.transactional_acks import ORDER_QUEUE_NUMBER
from waypost.wire.unknown_names import UnknownFormatName

# MS-MQQB 3.1.7.15: classes that reveal queues and rights to a stranger; sent only if SendInsecureNacks allows it.
INSECURE_NACKS: Final = frozenset(
    {
        MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q,
        MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION,
        MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE,
        MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED,
        MessageClass.MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)

_SYSTEM_CLASSES: Final = frozenset(MessageClass) - {MessageClass.MQMSG_CLASS_NORMAL}

# The private queues of the queue manager itself: on every host they have the numbers up to that of the order queue.
_SYSTEM_QUEUES: Final = frozenset({"admin_queue$", NOTIFICATION_QUEUE, ORDER_QUEUE})


def asks_in_vain(message: Message) -> bool:
    """Whether the message is an acknowledgment, a report or a dead-letter message, or goes to a queue of the system.

    MS-MQMQ 2.2.19.2 and MS-MQQB 3.1.5.8.10: such a message is neither acknowledged nor journaled, even if it asks.
    """
    if message.message_class in _SYSTEM_CLASSES:
        return True
    match message.destination_queue_format_name:
        case PrivateFormatName(number=number):
            return number <= ORDER_QUEUE_NUMBER
        case DirectFormatName(kind=QueueKind.PRIVATE, queue=queue):
            return queue.lower() in _SYSTEM_QUEUES
    return False


def is_requested(message: Message, message_class: MessageClass) -> bool:
    """Whether the message asks for an acknowledgment of this class, and has an administration queue."""
    name = message.administration_queue_format_name
    if name is None or isinstance(name, UnknownFormatName) or asks_in_vain(message):
        return False
    return message.acknowledgements_requested & _request_for(message_class) != 0


def acknowledgment(
    message: Message, message_class: MessageClass, identifier: MessageIdentifier, sent_time: int
) -> Message:  # fmt: skip
    """MS-MQQB 3.1.7.15: the message that reports the outcome of `message` to its administration queue."""
    answer = Message(
        identifier=identifier,
        message_class=message_class,
        delivery_guarantee=message.delivery_guarantee,
        destination_queue_format_name=message.administration_queue_format_name,
        response_queue_format_name=message.destination_queue_format_name,
        correlation_identifier=message.identifier,
        sent_time=sent_time,
        time_to_reach_queue=INFINITE,
        time_to_be_received=INFINITE,
    )
    returns_the_body = (
        is_negative_ack(message_class) and message_class is not MessageClass.MQMSG_CLASS_NACK_MESSAGE_TOO_LARGE
    )
    if returns_the_body and message.privacy_level == PrivacyLevel.NONE:
        answer.body, answer.body_type = message.body, message.body_type
    return answer


def _request_for(message_class: MessageClass) -> Acknowledgements:
    if message_class is MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE:
        return Acknowledgements.ACK_POS_ARRIVAL
    if message_class is MessageClass.MQMSG_CLASS_ACK_RECEIVE:
        return Acknowledgements.ACK_POS_RECEIVE
    if is_arrival_nack(message_class):
        return Acknowledgements.ACK_NEG_ARRIVAL
    return Acknowledgements.ACK_NEG_RECEIVE if is_receive_nack(message_class) else Acknowledgements.NONE
