"""MS-MQRR 2.2.5: a message as a remote reader gets it, and MS-MQRR 3.1.4.7: its cutting into sections.

The packet is the UserMessage as it was received and headers behind it. For a direct destination the sender's address is
laid over UserHeader.QueueManagerAddress; when the sections are cut, TimeToReachQueue becomes a moment instead of a
duration. Flags.AH marks a message that came over HTTP. The message is patched, never encoded again.

PacketSize is written without the headers behind the UserMessage (readings MQRR 3.30), but a reader cannot rely on it:
tests/vectors/srmp-user-message.bin counts its ExtensionHeader. The end of the UserMessage is found by walking.
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.errors import DecodeError
from waypost.wire import base_header, session_header, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import INFINITE
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_trailers import (
    DL,
    EA,
    EXTENSION_SECTION,
    SQ,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    HostAddress,
    SenderAddress,
    SubqueueHeader,
)
from waypost.wire.section_buffer import SectionBuffer, SectionType
from waypost.wire.security_header import SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

QUEUE_MANAGER_ADDRESS: Final = slice(32, 48)
SEQUENCE_ID_MASK: Final = 0x00FF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class Origin:
    """The host from which a message was received."""

    queue_manager: bytes
    host: HostAddress = field(default_factory=HostAddress)


@dataclass(slots=True)
class RemotePacket:
    """2.2.5. Old peers send the UserMessage alone (product notes 5 to 8); `extension` is None then."""

    user_message: bytes
    extension: ExtensionHeader | None = field(default_factory=ExtensionHeader)
    subqueue: SubqueueHeader | None = field(default_factory=SubqueueHeader)
    dead_letter: DeadLetterHeader | None = None
    extended_address: ExtendedAddressHeader | None = field(default_factory=ExtendedAddressHeader)

    @classmethod
    def of(cls, stored: bytes, origin: Origin) -> "RemotePacket":
        """The packet for a reader from one that was received, without what served its transport."""
        layout = _Layout.of(stored)
        message = bytearray(stored[: layout.end])
        message[: base_header.SIZE] = layout.base.encode_with(layout.base.flags & ~base_header.SH, layout.end)
        message[QUEUE_MANAGER_ADDRESS] = queue_manager_address(layout.user, origin)
        return cls(bytes(message), extended_address=ExtendedAddressHeader.of(origin.host))

    @classmethod
    def decode(cls, buf: bytes) -> "RemotePacket":
        layout = _Layout.of(buf)
        at = layout.end
        if layout.base.has_session_header:
            _, at = SessionHeader.decode(buf, at)
        packet = cls(buf[:at], None, None, None, None)
        if at == len(buf):
            return packet
        packet.extension, at = ExtensionHeader.decode(buf, at)
        if packet.extension.remaining_headers_size != len(buf) - at:
            reason = (
                f"must be {len(buf) - at}, the number of remaining bytes, not {packet.extension.remaining_headers_size}"
            )
            raise DecodeError(EXTENSION_SECTION, "RemainingHeadersSize", at - 8, reason)
        flags = packet.extension.flags
        if flags & SQ:
            packet.subqueue, at = SubqueueHeader.decode(buf, at)
        if flags & DL:
            packet.dead_letter, at = DeadLetterHeader.decode(buf, at)
        if flags & EA:
            packet.extended_address, at = ExtendedAddressHeader.decode(buf, at)
        if at != len(buf):
            reason = f"{len(buf) - at} extra bytes follow the headers that Flags announces"
            raise DecodeError(EXTENSION_SECTION, "RemainingHeadersSize", at, reason)
        return packet

    def encode(self) -> bytes:
        if self.extension is None:
            return self.user_message
        flags = self.extension.flags & ~(SQ | DL | EA)
        headers = b""
        for flag, header in ((SQ, self.subqueue), (DL, self.dead_letter), (EA, self.extended_address)):
            if header is not None:
                flags |= flag
                headers += header.encode()
        return self.user_message + ExtensionHeader(len(headers), flags, self.extension.reserved).encode() + headers

    @property
    def placement(self) -> SubqueueHeader | None:
        """The SubqueueHeader of a message that is in a subqueue. A reader ignores that of any other (2.2.5.3)."""
        return self.subqueue if self.subqueue is not None and self.subqueue.is_in_subqueue else None

    def message(self) -> UserMessage:
        """The UserMessage as a record, its PacketSize made to fit."""
        base, at = BaseHeader.decode(self.user_message, 0)
        size = len(self.user_message) - (session_header.SIZE if base.has_session_header else 0)
        return UserMessage.decode(base.encode_with(base.flags, size) + self.user_message[at:])


def queue_manager_address(user: UserHeader, origin: Origin) -> bytes:
    """2.2.5.1: the 16 bytes behind SourceQueueManager, which tell a reader from where the message was received."""
    if isinstance(user.destination_queue, DirectQueueFormatName):
        return SenderAddress.of(origin.host).encode()
    return origin.queue_manager


def sender_address(user: UserHeader) -> SenderAddress | None:
    """The address in a header that a remote reader got; None if it names the queue manager instead."""
    if isinstance(user.destination_queue, DirectQueueFormatName):
        return SenderAddress.decode(user.queue_manager_address, 0)[0]
    return None


def absolute_time_to_reach_queue(sent_time: int, time_to_reach_queue: int) -> int:
    """3.1.4.7. readings MQRR 3.25: infinite stays infinite, and so does what 32 bits cannot hold."""
    return min(sent_time + time_to_reach_queue, INFINITE)


def cut_sections(packet: bytes, body_limit: int, compound_limit: int) -> list[SectionBuffer]:
    """3.1.4.7 ppPacketSections, with the limits dwMaxBodySize and dwMaxCompoundMessageSize.

    The padding of a cut body opens the second section (readings MQRR 3.24), so that SectionSizeAlloc of the first one
    is where the second one belongs.
    """
    layout = _Layout.of(packet)
    base = layout.base
    base.time_to_reach_queue = absolute_time_to_reach_queue(layout.user.sent_time, base.time_to_reach_queue)
    packet = base.encode() + packet[base_header.SIZE :]
    if layout.is_srmp:
        limit = compound_limit
        first_type, second_type = SectionType.ST_SRMP_FIRST_SECTION, SectionType.ST_SRMP_SECOND_SECTION
    else:
        limit = body_limit
        first_type, second_type = SectionType.ST_BINARY_FIRST_SECTION, SectionType.ST_BINARY_SECOND_SECTION
    if limit >= layout.body_size:
        return [SectionBuffer(SectionType.ST_FULL_PACKET, len(packet), len(packet), packet)]
    first = packet[: layout.body_at + limit]
    body_end = layout.body_at + layout.body_size
    sections = [SectionBuffer(first_type, body_end, len(first), first)]
    trailers = packet[body_end:]
    if trailers:
        sections.append(SectionBuffer(second_type, len(trailers), len(trailers), trailers))
    return sections


def sequence_id(lookup_id: int) -> int:
    """3.1.4.7, 3.1.4.13 pSequenceId: the low 7 bytes of Message.LookupIdentifier."""
    return lookup_id & SEQUENCE_ID_MASK


@dataclass(slots=True)
class _Layout:
    """Where things stand in a UserMessage. The body is what a reader's limit cuts: for SRMP the CompoundMessageHeader.

    Both are without their padding. `end` is the end of the last header before a SessionHeader.
    """

    base: BaseHeader
    user: UserHeader
    is_srmp: bool
    body_at: int
    body_size: int
    end: int

    @classmethod
    def of(cls, packet: bytes) -> "_Layout":
        base, at = BaseHeader.decode(packet, 0)
        user, at = UserHeader.decode(packet, at)
        flags = user.flags
        if flags & user_header.TH:
            _, at = TransactionHeader.read(packet, at)
        if flags & user_header.SH:
            _, at = SecurityHeader.decode(packet, at)
        properties, at = MessagePropertiesHeader.decode(packet, at)
        # readings MQRR 3.24: an encrypted body takes AllocationBodySize.
        body_size = len(properties.message_body) + len(properties.allocation_remainder)
        body_at = at - len(properties.padding) - body_size
        if base.has_debug_header:
            _, at = DebugHeader.decode(packet, at)
        is_srmp = flags & user_header.AH != 0
        if is_srmp:
            _, body_at = SrmpEnvelopeHeader.decode(packet, at)
            compound, at = CompoundMessageHeader.decode(packet, body_at)
            body_size = at - len(compound.padding) - body_at
        if flags & user_header.HH:
            _, at = SoapHeader.decode(packet, at)
        if flags & user_header.MQ:
            _, at = MultiQueueFormatHeader.decode(packet, at)
        return cls(base, user, is_srmp, body_at, body_size, at)
