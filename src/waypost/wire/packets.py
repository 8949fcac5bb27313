"""Packets out of a byte stream, MS-MQQB 2.1 over TCP, and any packet from its bytes, MS-MQQB 3.1.5.1.1.

A packet says its own length in BaseHeader.PacketSize, with one trap (readings MQQB 1, MQMQ 3.1): behind a UserMessage
Packet with SH set stand 16 bytes more that PacketSize does not count, while the SessionHeader of a SessionAck Packet,
which has IN set, is counted.
"""

from struct import Struct
from typing import Final, NoReturn

from waypost.errors import DecodeError
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire import base_header, ping, session_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck, decode_internal
from waypost.wire.ping import Ping
from waypost.wire.transactional_acks import FinalAck, OrderAck, identify
from waypost.wire.user_message import UserMessage

_BASE: Final = Struct("<BxHII")
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
        reason = f"the packet announces {base.total_size} bytes in total, but has {len(data)}"
        raise DecodeError(base_header.SECTION, "PacketSize", 8, reason)
    message = _decode_message(base, data, at)
    header = message.transaction
    if header is not None and not header.has_legal_numbers:
        header.check_numbers(base_header.SIZE + len(message.user.encode()))
    return identify(message) if message.properties.message_class else message


class Splitter:
    """Cuts one direction of one connection into whole packets, whatever the segments.

    Only what the length depends on is checked here. When the stream breaks, the packets before the break are still
    returned and `error` is set; a `feed` that has no packet to return raises it, and so does every later one. At most
    one unfinished packet is held.
    """

    __slots__ = ("_buffer", "_wanted", "error", "pending")

    def __init__(self) -> None:
        self.error: DecodeError | None = None
        self._buffer = bytearray()
        self._wanted = base_header.SIZE
        # Number of bytes of an unfinished packet.
        self.pending = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the packets that they complete, in order."""
        if self.error is not None:
            self._raise_error(self.error)
        if self._buffer:
            self._buffer += data
            self.pending = len(self._buffer)
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
        packets, used = self._cut(data)
        self._buffer = bytearray(data[used:])
        self.pending = len(self._buffer)
        if not packets and self.error is not None:
            self._raise_error(self.error)
        return packets

    def _raise_error(self, error: DecodeError) -> NoReturn:
        # A fresh one, because an exception that is raised again keeps every caller's data with its traceback.
        raise DecodeError(*error.args)

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        """The whole packets that `data` starts with, and how many of its bytes need not be seen again."""
        packets: list[bytes] = []
        at = 0
        self._wanted = base_header.SIZE
        while len(data) - at >= base_header.SIZE:
            version, flags, signature, size = _BASE.unpack_from(data, at)
            if (
                version != base_header.VERSION
                or signature != base_header.SIGNATURE
                or not base_header.SIZE <= size <= MAX_PACKET_SIZE
            ):
                self.error = _explain(data[at : at + base_header.SIZE])
                return packets, len(data)
            if flags & _IN_OR_SH == base_header.SH:
                size += session_header.SIZE
            if len(data) - at < size:
                self._wanted = size
                break
            packets.append(data[at : at + size])
            at += size
        return packets, at


def _explain(header: bytes) -> DecodeError:
    """The error that BaseHeader.decode has for a header which cannot start a packet."""
    try:
        BaseHeader.decode(header, 0)
    except DecodeError as error:
        return error
    raise AssertionError("the splitter and BaseHeader.decode have different results")
