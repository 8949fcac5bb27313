"""The records of messages that were set aside because their own records are damaged (ADR 30).

They stand in the table DAMAGED under the keys that the messages had. The bytes that were found in place of a message
are a separate value, so that a start need not read them.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.store.records import VERSION, damaged, decode_text, encode_text, join, split, unpack

_DAMAGED: Final = Struct("<BBI")
_TEXTS: Final = 3

# DamagedRecord.flags.
HAS_BYTES: Final = 0x01


@dataclass(slots=True)
class DamagedRecord:
    """A message that was set aside at `time`, seconds since 1970.

    `queue` is the name that its queue had, `message_id` what the bytes still show of its identifier, and may be "".
    """

    flags: int
    time: int
    queue: str
    reason: str
    message_id: str = ""

    @classmethod
    def decode(cls, value: bytes) -> "DamagedRecord":
        flags, time = unpack(_DAMAGED, value, "damaged message")
        parts = split(value, _DAMAGED.size, "damaged message")
        if len(parts) != _TEXTS:
            raise damaged("damaged message")
        return cls(flags, time, *(decode_text(part, "damaged message") for part in parts))

    def encode(self) -> bytes:
        head = _DAMAGED.pack(VERSION, self.flags, self.time)
        return head + join([encode_text(text) for text in (self.queue, self.reason, self.message_id)])
