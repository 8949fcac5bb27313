"""MS-MQMQ 2.2.19.1 BaseHeader: the 16 bytes that start every packet but a Ping."""

import struct
from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire.codec import INFINITE, cut_short, encodes

SECTION: Final = "MS-MQMQ 2.2.19.1"
SIZE: Final = 16
VERSION: Final = 0x10
SIGNATURE: Final = 0x524F494C  # "LIOR" on the wire

PR: Final = 0x0007
IN: Final = 0x0008
SH: Final = 0x0010
DH: Final = 0x0020
TR: Final = 0x0100

DEFAULT_PRIORITY: Final = 3

LAYOUT: Final = Struct("<BBHIII")


@dataclass(slots=True)
class BaseHeader:
    """The headers that follow, the size of the packet, and the time it has to reach its queue."""

    version_number: int = VERSION
    reserved: int = 0
    flags: int = DEFAULT_PRIORITY
    signature: int = SIGNATURE
    packet_size: int = 0
    time_to_reach_queue: int = INFINITE

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[BaseHeader, int]":
        try:
            header = cls(*LAYOUT.unpack_from(buf, at))
        except struct.error:
            raise cut_short(SECTION, "BaseHeader", at, len(buf)) from None
        if (
            header.version_number != VERSION
            or header.signature != SIGNATURE
            or not SIZE <= header.packet_size <= MAX_PACKET_SIZE
        ):
            raise header._error(at)
        return header, at + SIZE

    def _error(self, at: int) -> DecodeError:
        if self.version_number != VERSION:
            return DecodeError(SECTION, "VersionNumber", at, f"must be 0x10, not 0x{self.version_number:02X}")
        if self.signature != SIGNATURE:
            return DecodeError(SECTION, "Signature", at + 4, f"must be 0x524F494C, not 0x{self.signature:08X}")
        return DecodeError(SECTION, "PacketSize", at + 8, f"must be 16 to {MAX_PACKET_SIZE}, not {self.packet_size}")

    @encodes(SECTION, "BaseHeader")
    def encode(self) -> bytes:
        return self.encode_with(self.flags, self.packet_size)

    def encode_with(self, flags: int, packet_size: int) -> bytes:
        """The bytes of the header with Flags and PacketSize as they follow from the packet around it."""
        return LAYOUT.pack(
            self.version_number, self.reserved, flags, self.signature, packet_size, self.time_to_reach_queue
        )  # fmt: skip

    @property
    def total_size(self) -> int:
        """Size of the packet in a stream: PacketSize of a UserMessage Packet leaves out the SessionHeader."""
        return self.packet_size + 16 if self.flags & (IN | SH) == SH else self.packet_size

    @property
    def priority(self) -> int:
        return self.flags & PR

    @property
    def is_internal(self) -> bool:
        return self.flags & IN != 0

    @property
    def has_session_header(self) -> bool:
        return self.flags & SH != 0

    @property
    def has_debug_header(self) -> bool:
        return self.flags & DH != 0

    @property
    def is_traced(self) -> bool:
        return self.flags & TR != 0


def has_expired(sent_time: int, time_limit: int, now: float) -> bool:
    """Whether TimeToReachQueue, or TimeToBeReceived of MS-MQMQ 2.2.19.2, is over. Times are seconds since 1970 UTC.

    At the very end of its time a message has not expired yet, nor has one whose SentTime is in the future.
    A packet of MS-MQRR has the end itself in TimeToReachQueue and is not for this function.
    """
    return time_limit != INFINITE and now - sent_time > time_limit
