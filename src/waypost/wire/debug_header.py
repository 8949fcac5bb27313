"""MS-MQMQ 2.2.20.8 DebugHeader: the queue that gets the report messages of a traced message."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.wire.codec import cut_short, encodes, exactly

SECTION: Final = "MS-MQMQ 2.2.20.8"

QT: Final = 0x0003
NO_QUEUE: Final = 0
PUBLIC_QUEUE: Final = 1

LAYOUT: Final = Struct("<HH")
FIXED_SIZE: Final = 4


@dataclass(slots=True)
class DebugHeader:
    """QT is computed from the presence of QueueIdentifier."""

    flags: int = 0
    reserved: int = 0
    queue_identifier: bytes | None = None

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[DebugHeader, int]":
        if len(buf) - at < FIXED_SIZE:
            raise cut_short(SECTION, "DebugHeader", at, len(buf))
        header = cls(*LAYOUT.unpack_from(buf, at))
        queue_type = header.flags & QT
        if queue_type > PUBLIC_QUEUE:
            raise DecodeError(SECTION, "Flags", at, f"QT must be 0 or 1, not {queue_type}")
        at += FIXED_SIZE
        if queue_type == PUBLIC_QUEUE:
            if len(buf) - at < 16:
                raise cut_short(SECTION, "QueueIdentifier", at, len(buf))
            header.queue_identifier = buf[at : at + 16]
            at += 16
        return header, at

    @encodes(SECTION, "DebugHeader")
    def encode(self) -> bytes:
        guid = self.queue_identifier
        if guid is None:
            return LAYOUT.pack(self.flags & ~QT, self.reserved)
        return LAYOUT.pack(self.flags & ~QT | PUBLIC_QUEUE, self.reserved) + exactly(
            16, guid, SECTION, "QueueIdentifier"
        )
