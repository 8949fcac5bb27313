"""MS-MQMQ 2.2.20.5 TransactionHeader: the place of a message in its transactional sequence.

A TxSequenceID is kept as one unsigned 64-bit number: TimeStamp is its high half, so the numbers compare as
MS-MQMQ 2.2.18.1.2 says.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.wire.codec import cut_short, encodes, exactly

SECTION: Final = "MS-MQMQ 2.2.20.5"

CG: Final = 0x0000_0001
FA: Final = 0x0000_0002
FM: Final = 0x0000_0004
LM: Final = 0x0000_0008
ID: Final = 0x00FF_FFF0
X: Final = 0xFF00_0000

ID_SHIFT: Final = 4

LAYOUT: Final = Struct("<IQII")
FIXED_SIZE: Final = 20

FIRST_NUMBER: Final = 1
LAST_PREVIOUS_NUMBER: Final = 0xFFFF_FFFE


class IllegalSequenceNumber(DecodeError):
    """A number that no message of a sequence has. The packet around it can be read."""


@dataclass(slots=True)
class TransactionHeader:
    """CG is computed from the presence of ConnectorQMGuid."""

    flags: int = 0
    tx_sequence_id: int = 0
    tx_sequence_number: int = 1
    previous_tx_sequence_number: int = 0
    connector_qm_guid: bytes | None = None

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[TransactionHeader, int]":
        header, end = cls.read(buf, at)
        header.check_numbers(at)
        return header, end

    @classmethod
    def read(cls, buf: bytes, at: int) -> "tuple[TransactionHeader, int]":
        """The same, whatever numbers it has: stored packets may have any."""
        if len(buf) - at < FIXED_SIZE:
            raise cut_short(SECTION, "TransactionHeader", at, len(buf))
        header = cls(*LAYOUT.unpack_from(buf, at))
        at += FIXED_SIZE
        if header.flags & CG:
            if len(buf) - at < 16:
                raise cut_short(SECTION, "ConnectorQMGuid", at, len(buf))
            header.connector_qm_guid = buf[at : at + 16]
            at += 16
        return header, at

    def check_numbers(self, at: int) -> None:
        """IllegalSequenceNumber if the header, which stands at `at`, has a number outside its range."""
        if self.tx_sequence_number < FIRST_NUMBER:
            raise IllegalSequenceNumber(SECTION, "TxSequenceNumber", at + 12, "must be at least 1, not 0")
        if self.previous_tx_sequence_number > LAST_PREVIOUS_NUMBER:
            reason = "must be at most 0xFFFFFFFE, not 0xFFFFFFFF"
            raise IllegalSequenceNumber(SECTION, "PreviousTxSequenceNumber", at + 16, reason)

    @encodes(SECTION, "TransactionHeader")
    def encode(self) -> bytes:
        guid = self.connector_qm_guid
        flags = self.flags & ~CG if guid is None else self.flags | CG
        fixed = LAYOUT.pack(flags, self.tx_sequence_id, self.tx_sequence_number, self.previous_tx_sequence_number)
        return fixed if guid is None else fixed + exactly(16, guid, SECTION, "ConnectorQMGuid")

    @property
    def has_legal_numbers(self) -> bool:
        return self.tx_sequence_number >= FIRST_NUMBER and self.previous_tx_sequence_number <= LAST_PREVIOUS_NUMBER

    @property
    def transaction_id(self) -> int:
        """ID: the 20 bits that all messages of one transaction share.

        They wrap: no key for durable state (readings MQMQ 3.15).
        """
        return (self.flags & ID) >> ID_SHIFT

    @property
    def is_first(self) -> bool:
        return self.flags & FM != 0

    @property
    def is_last(self) -> bool:
        return self.flags & LM != 0

    @property
    def wants_final_ack(self) -> bool:
        return self.flags & FA != 0
