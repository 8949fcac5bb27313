"""MS-MQMQ 2.2.20.4 SessionHeader: the session acknowledgment.

It stands alone in a SessionAck Packet or behind a UserMessage Packet.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.wire.codec import cut_short, encodes

SECTION: Final = "MS-MQMQ 2.2.20.4"
SIZE: Final = 16
DEFAULT_WINDOW_SIZE: Final = 0x0040
# MS-MQQB 2.1.1: TCP port of sessions.
SESSION_PORT: Final = 1801

LAYOUT: Final = Struct("<HHIHHHH")


@dataclass(slots=True)
class SessionHeader:
    ack_sequence_number: int = 0
    recoverable_msg_ack_seq_number: int = 0
    recoverable_msg_ack_flags: int = 0
    user_msg_sequence_number: int = 0
    recoverable_msg_seq_number: int = 0
    window_size: int = DEFAULT_WINDOW_SIZE
    reserved: int = 0

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SessionHeader, int]":
        if len(buf) - at < SIZE:
            raise cut_short(SECTION, "SessionHeader", at, len(buf))
        return cls(*LAYOUT.unpack_from(buf, at)), at + SIZE

    @encodes(SECTION, "SessionHeader")
    def encode(self) -> bytes:
        return LAYOUT.pack(
            self.ack_sequence_number,
            self.recoverable_msg_ack_seq_number,
            self.recoverable_msg_ack_flags,
            self.user_msg_sequence_number,
            self.recoverable_msg_seq_number,
            self.window_size,
            self.reserved,
        )

    @property
    def window(self) -> int:
        """WindowSize, with the illegal 0 read as 1 (readings MQQB 3.13)."""
        return self.window_size or 1
