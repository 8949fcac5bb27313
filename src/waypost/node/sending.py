"""Messages that an application gives to be sent, as the queue manager takes them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waypost.core.message import LOCAL_ATTRIBUTES, Message
from waypost.core.plain_packets import plain_packets
from waypost.core.serialization import packet_of
from waypost.core.stored_message import quiet_message, stored_message
from waypost.guid import NULL_GUID
from waypost.wire.identifiers import MessageIdentifier

if TYPE_CHECKING:
    from waypost.core.queue_manager import QueueManager


def new_message(message: Message) -> Message:
    """A message that was in a queue before is sent as another one: without what was true of it there."""
    if not message.lookup_identifier:
        return message
    return replace(
        message,
        lookup_identifier=0,
        arrival_time=0,
        abort_count=0,
        move_count=0,
        last_move_time=0,
        target_subqueue_name="",
        unit_of_work=NULL_GUID,
        origin=None,
        destination_multi_queue_format_name=(),
        first_in_transaction=False,
        last_in_transaction=False,
        transactional_message_sequence_identifier=None,
        packet=b"",
    )


def messages_like(like: Message, bodies: Sequence[bytes], manager: "QueueManager") -> list[Message]:
    """Messages with packets and identifiers of their own, for these bodies."""
    ordinal = manager.first_ordinal(len(bodies))
    like.identifier = MessageIdentifier(manager.identity.identifier, ordinal)
    packets = plain_packets(like, bodies, ordinal)
    if packets is not None:
        form = stored_message if like.asks_for_attention else quiet_message
        messages = [form(packet) for packet in packets]
        for name in LOCAL_ATTRIBUTES:
            value = getattr(like, name)
            if value != getattr(messages[0], name):
                for message in messages:
                    setattr(message, name, value)
        return messages
    messages = []
    for number, body in enumerate(bodies, ordinal):
        identifier = MessageIdentifier(manager.identity.identifier, number)
        message = replace(like, identifier=identifier, body=body, packet=b"")
        packet_of(message)
        messages.append(message)
    return messages
