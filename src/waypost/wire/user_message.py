"""MS-MQMQ 2.2.20 UserMessage Packet: the chain of headers that carries one whole message.

The order is fixed, presence is told by bits of BaseHeader.Flags and UserHeader.Flags. PacketSize covers everything but
the SessionHeader at the end (readings MQMQ 3.1). A message that came over HTTP has two headers more (MS-MQRR 2.2.5.1),
and headers of MS-MQRR 2.2.5.2 may stand inside PacketSize behind all others: tests/vectors/srmp-user-message.bin has
both.

Presence bits and sizes are computed when encoding; every other bit, reserved byte and padding byte is written as it is.
Whether a message may be sent is another question: waypost.wire.originated answers it. A packet that is stored is read
whatever sequence numbers it has; waypost.wire.packets looks at those of a packet that comes.
"""

import struct
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire import base_header, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import cut_short
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.security_header import SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader

SECTION: Final = "MS-MQMQ 2.2.20"

_EXTENSION: Final = Struct("<II")

# Set in few messages: flags that announce a header after MessagePropertiesHeader, or that are never set.
_BASE_RARE: Final = base_header.IN | base_header.SH | base_header.DH | base_header.TR
_USER_RARE: Final = user_header.MQ | user_header.AH | user_header.HH

# The other messages are express, recoverable or transactional.
_SHAPE: Final = user_header.MP | user_header.DM | user_header.TH | _USER_RARE
_EXPRESS: Final = user_header.MP
_RECOVERABLE: Final = user_header.MP | user_header.RECOVERABLE << user_header.DM_SHIFT
_TRANSACTIONAL: Final = _RECOVERABLE | user_header.TH
_USUAL_SHAPES: Final = frozenset({_EXPRESS, _RECOVERABLE, _TRANSACTIONAL})

# The bits that are not computed when encoding.
_BASE_KEPT: Final = ~(base_header.SH | base_header.DH)
_USER_KEPT: Final = ~(user_header.TH | user_header.SH | _USER_RARE)

# Bound once: to look a classmethod up costs as much as to call it.
_decode_user: Final = UserHeader.decode
_decode_transaction: Final = TransactionHeader.read
_decode_security: Final = SecurityHeader.decode
_decode_properties: Final = MessagePropertiesHeader.decode


@dataclass(slots=True)
class UserMessage:
    base: BaseHeader = field(default_factory=BaseHeader)
    user: UserHeader = field(default_factory=UserHeader)
    transaction: TransactionHeader | None = None
    security: SecurityHeader | None = None
    properties: MessagePropertiesHeader = field(default_factory=MessagePropertiesHeader)
    debug: DebugHeader | None = None
    srmp_envelope: SrmpEnvelopeHeader | None = None
    compound_message: CompoundMessageHeader | None = None
    soap: SoapHeader | None = None
    multi_queue: MultiQueueFormatHeader | None = None
    extension: bytes = b""
    session: SessionHeader | None = None

    @classmethod
    def decode(cls, buf: bytes) -> "UserMessage":
        """One whole packet, with the SessionHeader behind PacketSize if there is one."""
        base, at = BaseHeader.decode(buf, 0)
        message = cls.decode_behind(base, buf, at)
        if len(buf) != base.total_size:
            reason = f"{len(buf) - base.total_size} extra bytes follow"
            raise DecodeError(SECTION, "UserMessage Packet", base.total_size, reason)
        return message

    @classmethod
    def decode_behind(cls, base: BaseHeader, buf: bytes, at: int) -> "UserMessage":
        """The rest of a packet whose BaseHeader has been read. Bytes after it in `buf` are ignored."""
        user, at = _decode_user(buf, at)
        flags = user.flags
        rare = base.flags & _BASE_RARE or flags & _SHAPE not in _USUAL_SHAPES
        if rare:
            _check_flags(base.flags, flags)
        transaction = security = None
        if flags & user_header.TH:
            transaction, at = _decode_transaction(buf, at)
        if flags & user_header.SH:
            security, at = _decode_security(buf, at)
        properties, at = _decode_properties(buf, at)
        message = cls(base, user, transaction, security, properties)
        if rare or at != base.packet_size:
            message._decode_rare(buf, at)
        return message

    def _decode_rare(self, buf: bytes, at: int) -> None:
        """The headers behind MessagePropertiesHeader, which most messages do not have."""
        flags = self.user.flags
        if self.base.flags & base_header.DH:
            self.debug, at = DebugHeader.decode(buf, at)
        if flags & user_header.AH:
            self.srmp_envelope, at = SrmpEnvelopeHeader.decode(buf, at)
            self.compound_message, at = CompoundMessageHeader.decode(buf, at)
        if flags & user_header.HH:
            self.soap, at = SoapHeader.decode(buf, at)
        if flags & user_header.MQ:
            self.multi_queue, at = MultiQueueFormatHeader.decode(buf, at)
        if at != self.base.packet_size:
            self.extension, at = _decode_extension(buf, at, self.base.packet_size)
        if self.base.flags & base_header.SH:
            self.session, _ = SessionHeader.decode(buf, at)

    def encode(self) -> bytes:
        parts, _ = self.encode_parts()
        return b"".join(parts)

    def encode_parts(self) -> tuple[list[bytes], int]:
        """The packet in parts, of which one is the body, and the index of the body."""
        try:
            base_flags = self.base.flags & _BASE_KEPT
            user_flags = self.user.flags & _USER_KEPT | user_header.MP
            before = after = b""
            if self.transaction is not None:
                user_flags |= user_header.TH
                before = self.transaction.encode()
            if self.security is not None:
                user_flags |= user_header.SH
                before += self.security.encode()
            if self.debug is not None:
                base_flags |= base_header.DH
                after = self.debug.encode()
            if self.srmp_envelope is not None or self.compound_message is not None:
                if self.srmp_envelope is None or self.compound_message is None:
                    raise EncodeError(
                        SECTION,
                        "CompoundMessageHeader",
                        "must be present if and only if SRMPEnvelopeHeader is present",
                    )
                user_flags |= user_header.AH
                after += self.srmp_envelope.encode() + self.compound_message.encode()
            if self.soap is not None:
                user_flags |= user_header.HH
                after += self.soap.encode()
            if self.multi_queue is not None:
                user_flags |= user_header.MQ
                after += self.multi_queue.encode()
            if self.extension:
                after += self.extension
            parts = [b""]
            size = base_header.SIZE + self.user.encode_into(parts, user_flags) + len(before) + len(after)
            if before:
                parts.append(before)
            # In front of the body is the fixed part, and the label and the extension if there are any.
            body_at = len(parts) + 1 + (self.properties.label is not None) + bool(self.properties.extension_data)
            size += self.properties.encode_into(parts)
            if after:
                parts.append(after)
            if size > MAX_PACKET_SIZE:
                reason = f"the packet must have at most {MAX_PACKET_SIZE} bytes, not {size}"
                raise EncodeError(SECTION, "PacketSize", reason)
            if self.session is not None:
                base_flags |= base_header.SH
                parts.append(self.session.encode())
            parts[0] = self.base.encode_with(base_flags, size)
            return parts, body_at
        except struct.error as error:
            raise EncodeError(SECTION, "UserMessage Packet", f"a value does not fit its field ({error})") from None


def _check_flags(base_flags: int, user_flags: int) -> None:
    if base_flags & base_header.IN:
        raise DecodeError(base_header.SECTION, "Flags", 2, "IN is set in a UserMessage Packet")
    if base_flags & base_header.TR and not base_flags & base_header.DH:
        raise DecodeError(base_header.SECTION, "Flags", 2, "TR is set without DH")
    if not user_flags & user_header.MP:
        raise DecodeError(
            user_header.SECTION, "Flags", 60, "MP is clear, but a packet always has a MessagePropertiesHeader"
        )
    delivery = (user_flags & user_header.DM) >> user_header.DM_SHIFT
    if delivery > user_header.RECOVERABLE:
        raise DecodeError(user_header.SECTION, "Flags", 60, f"DM must be 0 or 1, not {delivery}")
    if delivery == user_header.EXPRESS and user_flags & user_header.TH:
        raise DecodeError(user_header.SECTION, "Flags", 60, "TH is set in an express message")


def _decode_extension(buf: bytes, at: int, packet_size: int) -> tuple[bytes, int]:
    """The bytes between the last header and PacketSize.

    They are an ExtensionHeader (MS-MQRR 2.2.5.2) with what it announces, or an error.
    """
    left = packet_size - at
    if left < 0:
        raise DecodeError(
            base_header.SECTION, "PacketSize", 8, f"the value is {packet_size}, but the headers have {at} bytes"
        )
    if len(buf) < packet_size:
        raise cut_short(SECTION, "UserMessage Packet", 0, len(buf))
    if left < 12:
        raise DecodeError(
            SECTION, "UserMessage Packet", at, f"the packet ends with {left} bytes that belong to no header"
        )
    header_size, remaining = _EXTENSION.unpack_from(buf, at)
    if header_size != 12:
        raise DecodeError("MS-MQRR 2.2.5.2", "HeaderSize", at, f"must be 12, not {header_size}")
    if remaining != left - 12:
        raise DecodeError(
            "MS-MQRR 2.2.5.2",
            "RemainingHeadersSize",
            at + 4,
            f"must be {left - 12}, the number of remaining bytes, not {remaining}",
        )
    return buf[at:packet_size], packet_size
