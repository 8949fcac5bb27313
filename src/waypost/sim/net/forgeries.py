"""Forged packets of strangers, as bytes: anything that a peer with a connection can write."""

from typing import Final

from waypost.guid import NULL_GUID
from waypost.wire import internal_packets, user_header
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, QueueName
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.transactional_acks import FinalAckBody, OrderAckBody, final_ack, local_order_queue, order_ack
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

# All acknowledgments, on arrival and at the receive.
_ALL_ACKS: Final = 0x0F
_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT


def hello(guid: bytes) -> bytes:
    """Ask for a session under this GUID."""
    return EstablishConnection.request(guid, NULL_GUID, 0, internal_packets.SE | internal_packets.OS).encode()


def parameters() -> bytes:
    return ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000).encode()


def forged_order_ack(liar: UserHeader, sequence_id: int, number: int) -> bytes:
    """Acknowledge all messages of the sequence up to this number."""
    return order_ack(liar, local_order_queue(), OrderAckBody(sequence_id, number, number - 1)).encode()


def forged_final_ack(liar: UserHeader, source: bytes, place: tuple[int, int, int], message_class: int) -> bytes:
    """Acknowledge the end of the message at this place. `source` is the GUID of its sender."""
    sequence_id, number, message_id = place
    body = FinalAckBody(sequence_id, number, number - 1, source, message_id)
    return final_ack(liar, local_order_queue(), message_class, body).encode()


def message(
    user: UserHeader,
    name: FormatName,
    text: str,
    *,
    sequence: tuple[int, int] | None = None,
    administration: str = "",
) -> bytes:
    """A message for the queue `name`. `sequence` is TxSequenceID and TxSequenceNumber of a transactional message.

    `administration` is a direct name without DIRECT=, for all acknowledgments.
    """
    user.destination_queue = _queue_name(name)
    if isinstance(name, PrivateFormatName):
        user.queue_manager_address = name.computer_guid
    if administration:
        user.admin_queue = DirectQueueFormatName(administration)
    transaction = None
    if sequence is not None:
        user.flags |= _RECOVERABLE
        transaction = TransactionHeader(
            tx_sequence_id=sequence[0], tx_sequence_number=sequence[1], previous_tx_sequence_number=sequence[1] - 1
        )
    properties = MessagePropertiesHeader(flags=_ALL_ACKS if administration else 0, message_body=text.encode())
    return UserMessage(user=user, transaction=transaction, properties=properties).encode()


def recoverable(user: UserHeader) -> UserHeader:
    user.flags |= _RECOVERABLE
    return user


def _queue_name(name: FormatName) -> QueueName:
    if isinstance(name, PrivateFormatName):
        return PrivateQueueFormatNameId(name.number)
    assert isinstance(name, DirectFormatName)
    return DirectQueueFormatName(name.direct_text)
