"""The small identifiers of MS-MQMQ 2.2.5, 2.2.8 to 2.2.10, 2.2.18.1.2, 2.2.18.1.3 and 2.2.18.1.8.

They are values: frozen, hashable, good as keys. GUIDs are 16 bytes. DL_ID and MULTICAST_ID travel in NDR only, so here
they are records without a packet form.
"""

import re
from dataclasses import dataclass
from functools import total_ordering
from ipaddress import IPv4Address
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.guid import braced_guid_text, parse_guid
from waypost.wire.codec import cut_short, encodes

OBJECT_ID: Final = Struct("<16sI")
TX_SEQUENCE_ID: Final = Struct("<II")
SEQUENCE_INFO: Final = Struct("<qII")
XACT_UOW_SIZE: Final = 16

# Where TimeStamp begins in a TxSequenceID that is one number of 64 bits, as headers have it. Ordinal is below.
TIME_STAMP_SHIFT: Final = 32

# ASCII digits without leading zeros.
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class ObjectId:
    """MS-MQMQ 2.2.8 OBJECTID: a group (a queue manager) and a number within it."""

    lineage: bytes
    uniquifier: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[ObjectId, int]":
        if len(buf) - at < OBJECT_ID.size:
            raise cut_short("MS-MQMQ 2.2.8", "OBJECTID", at, len(buf))
        return cls(*OBJECT_ID.unpack_from(buf, at)), at + OBJECT_ID.size

    @encodes("MS-MQMQ 2.2.8", "OBJECTID")
    def encode(self) -> bytes:
        return OBJECT_ID.pack(self.lineage, self.uniquifier)


@dataclass(frozen=True, slots=True)
class MessageIdentifier:
    """MS-MQMQ 2.2.18.1.3: the queue manager that sent a message and its number there. Its text is `{guid}\\ordinal`."""

    queue_manager_guid: bytes
    ordinal: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MessageIdentifier, int]":
        if len(buf) - at < OBJECT_ID.size:
            raise cut_short("MS-MQMQ 2.2.18.1.3", "MessageIdentifier", at, len(buf))
        return cls(*OBJECT_ID.unpack_from(buf, at)), at + OBJECT_ID.size

    @encodes("MS-MQMQ 2.2.18.1.3", "MessageIdentifier")
    def encode(self) -> bytes:
        values = (self.queue_manager_guid, self.ordinal)
        return OBJECT_ID.pack(*values)

    @classmethod
    def parse(cls, text: str) -> "MessageIdentifier":
        """The reverse of str(). A GUID without braces is taken too."""
        guid, _, number = text.partition("\\")
        if not _DECIMAL.fullmatch(number) or int(number) > 0xFFFF_FFFF:
            reason = f"{number[:20]!r} is not a number from 0 to 4294967295"
            raise DecodeError("MS-MQMQ 2.2.18.1.3", "Ordinal", len(text) - len(number), reason)
        return cls(parse_guid(guid), int(number))

    def __str__(self) -> str:
        return f"{braced_guid_text(self.queue_manager_guid)}\\{self.ordinal}"


@total_ordering
@dataclass(frozen=True, slots=True)
class TxSequenceId:
    """MS-MQMQ 2.2.18.1.2 TxSequenceID: a stream of transactional messages. It is ordered by `value`."""

    ordinal: int
    time_stamp: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[TxSequenceId, int]":
        if len(buf) - at < TX_SEQUENCE_ID.size:
            raise cut_short("MS-MQMQ 2.2.18.1.2", "TxSequenceID", at, len(buf))
        return cls(*TX_SEQUENCE_ID.unpack_from(buf, at)), at + TX_SEQUENCE_ID.size

    @classmethod
    def of(cls, value: int) -> "TxSequenceId":
        """The reverse of `value`."""
        time_stamp, ordinal = divmod(value, 1 << TIME_STAMP_SHIFT)
        return cls(ordinal, time_stamp)

    @encodes("MS-MQMQ 2.2.18.1.2", "TxSequenceID")
    def encode(self) -> bytes:
        return TX_SEQUENCE_ID.pack(self.ordinal, self.time_stamp)

    @property
    def value(self) -> int:
        """One unsigned 64-bit number, TimeStamp above Ordinal."""
        return self.time_stamp << TIME_STAMP_SHIFT | self.ordinal

    def __lt__(self, other: "TxSequenceId") -> bool:
        return self.value < other.value


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """MS-MQMQ 2.2.5 SEQUENCE_INFO: a message's place in a stream. `seq_id` is signed, unlike a TxSequenceID's value."""

    seq_id: int
    seq_no: int
    prev_no: int

    @classmethod
    def of(cls, stream: TxSequenceId, seq_no: int, prev_no: int) -> "SequenceInfo":
        """The same 64 bits make a negative number once TimeStamp is past 2038."""
        return cls(int.from_bytes(stream.encode(), "little", signed=True), seq_no, prev_no)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SequenceInfo, int]":
        if len(buf) - at < SEQUENCE_INFO.size:
            raise cut_short("MS-MQMQ 2.2.5.1", "SEQUENCE_INFO", at, len(buf))
        return cls(*SEQUENCE_INFO.unpack_from(buf, at)), at + SEQUENCE_INFO.size

    @encodes("MS-MQMQ 2.2.5.1", "SEQUENCE_INFO")
    def encode(self) -> bytes:
        values = (self.seq_id, self.seq_no, self.prev_no)
        return SEQUENCE_INFO.pack(*values)


@dataclass(frozen=True, slots=True)
class XactUow:
    """MS-MQMQ 2.2.18.1.8 XACTUOW: the GUID of a transactional unit of work."""

    rgb: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[XactUow, int]":
        end = at + XACT_UOW_SIZE
        if len(buf) < end:
            raise cut_short("MS-MQMQ 2.2.18.1.8", "XACTUOW", at, len(buf))
        return cls(buf[at:end]), end

    def encode(self) -> bytes:
        return self.rgb


@dataclass(frozen=True, slots=True)
class DlId:
    """MS-MQMQ 2.2.9 DL_ID: a distribution list and the directory domain that holds it."""

    guid: bytes
    domain: str


@dataclass(frozen=True, slots=True)
class MulticastId:
    """MS-MQMQ 2.2.10 MULTICAST_ID. The first octet is the lowest byte of `address` (readings MQMQ 7.1)."""

    address: int
    port: int

    @classmethod
    def of(cls, ip_address: IPv4Address, port: int) -> "MulticastId":
        return cls(int.from_bytes(ip_address.packed, "little"), port)

    @property
    def ip_address(self) -> IPv4Address:
        return IPv4Address(self.address.to_bytes(4, "little"))
