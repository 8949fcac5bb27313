"""Any packet of MS-MQQB from its bytes: identification by MS-MQQB 3.1.5.1.1."""

from typing import Final

from waypost.errors import DecodeError
from waypost.wire import base_header, ping, session_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck, decode_internal
from waypost.wire.ping import Ping
from waypost.wire.transactional_acks import FinalAck, OrderAck, identify
from waypost.wire.user_message import UserMessage

_IN_OR_SH: Final = base_header.IN | base_header.SH
_LIOR: Final = base_header.SIGNATURE.to_bytes(4, "little")

# Bound once: to look a classmethod up costs as much as to call it.
_decode_base: Final = BaseHeader.decode
_decode_message: Final = UserMessage.decode_behind

Packet = UserMessage | OrderAck | FinalAck | EstablishConnection | ConnectionParameters | SessionAck | Ping


def decode_packet(data: bytes) -> Packet:
    """One whole packet: as `Splitter` gives it, or the datagram of a Ping.

    `encode()` of what is returned gives `data` again.
    """
    size = len(data)
    if size == ping.SIZE and data[4:8] != _LIOR:
        return Ping.decode(data)
    base, at = _decode_base(data, 0)
    if base.flags & _IN_OR_SH:
        if base.flags & base_header.IN:
            return decode_internal(data)
        size -= session_header.SIZE
    if size != base.packet_size:
        reason = f"it asks for {base.total_size} bytes in all, but {len(data)} are there"
        raise DecodeError(base_header.SECTION, "PacketSize", 8, reason)
    message = _decode_message(base, data, at)
    header = message.transaction
    if header is not None and not header.has_legal_numbers:
        header.check_numbers(base_header.SIZE + len(message.user.encode()))
    return identify(message) if message.properties.message_class else message
