"""Tags: eight bytes that stand for the identifier of a message, so that it is found among a million of them.

A position keeps the tag of its message (waypost.core.positions). Two identifiers have the same tag once in 2**64 pairs,
and nobody can choose one that collides, because the hash is keyed anew in every process; whoever finds a tag looks at
the message all the same. Nothing of this is stored.
"""

from collections.abc import Iterable
from typing import Final

from waypost.core.message import Message
from waypost.wire import base_header
from waypost.wire.identifiers import OBJECT_ID, MessageIdentifier

# SourceQueueManager and MessageID of the UserHeader.
_GUID: Final = slice(base_header.SIZE, base_header.SIZE + 16)
_ORDINAL: Final = slice(base_header.SIZE + 40, base_header.SIZE + 44)


def tag_of(message: Message) -> int:
    packet = message.packet
    return tag_of_packet(packet) if packet else tag_of_identifier(message.identifier)


def tags_of(messages: Iterable[Message]) -> list[int]:
    """The same for many, in half of the time."""
    return [
        hash(packet[_GUID] + packet[_ORDINAL]) if (packet := message.packet) else tag_of_identifier(message.identifier)
        for message in messages
    ]


def tag_of_packet(packet: bytes) -> int:
    return hash(packet[_GUID] + packet[_ORDINAL])


def tag_of_identifier(identifier: MessageIdentifier) -> int:
    return hash(OBJECT_ID.pack(identifier.queue_manager_guid, identifier.ordinal))
