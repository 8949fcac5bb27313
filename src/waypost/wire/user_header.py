"""MS-MQMQ 2.2.19.2 UserHeader: where a message comes from, where it goes, and which headers follow.

DQ, AQ and RQ say what kind of name stands in DestinationQueue, AdminQueue and ResponseQueue. When encoding, the code in
Flags is written if it allows the kind of the name at hand, else the first code that does: for a bare private queue
number that is 2 (on the source host) in AQ and RQ and 3 (on the destination host) in DQ.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from types import NoneType
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.guid import NULL_GUID
from waypost.wire.codec import INFINITE, cut_short, encodes, exactly
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)

SECTION: Final = "MS-MQMQ 2.2.19.2"

RC: Final = 0x0000_001F
DM: Final = 0x0000_0060
X1: Final = 0x0000_0080
JN: Final = 0x0000_0100
JP: Final = 0x0000_0200
DQ: Final = 0x0000_1C00
AQ: Final = 0x0000_E000
RQ: Final = 0x0007_0000
SH: Final = 0x0008_0000
TH: Final = 0x0010_0000
MP: Final = 0x0020_0000
CQ: Final = 0x0040_0000
MQ: Final = 0x0080_0000
X2: Final = 0x0100_0000
AH: Final = 0x0200_0000
X3: Final = 0x0C00_0000
HH: Final = 0x1000_0000
X4: Final = 0xE000_0000

DM_SHIFT: Final = 5
DQ_SHIFT: Final = 10
AQ_SHIFT: Final = 13
RQ_SHIFT: Final = 16

_OPTIONAL: Final = AQ | RQ | CQ

EXPRESS: Final = 0
RECOVERABLE: Final = 1

LAYOUT: Final = Struct("<16s16sIIII")
FIXED_SIZE: Final = 48


# The kind of name for each code of DQ, AQ and RQ: NoneType for a code that brings no bytes, None for one that the
# section does not have. readings MQMQ 3.11: RQ 1 brings no bytes, RQ 4 does.
_Kind = type[QueueName] | type[None] | None
DESTINATION_KINDS: Final[tuple[_Kind, ...]] = (
    NoneType,
    None,
    None,
    PrivateQueueFormatNameId,
    None,
    PublicQueueFormatName,
    None,
    DirectQueueFormatName,
)
ADMIN_KINDS: Final[tuple[_Kind, ...]] = (
    NoneType,
    None,
    PrivateQueueFormatNameId,
    PrivateQueueFormatNameId,
    None,
    PublicQueueFormatName,
    PrivateQueueFormatName,
    DirectQueueFormatName,
)
RESPONSE_KINDS: Final[tuple[_Kind, ...]] = (
    NoneType,
    NoneType,
    PrivateQueueFormatNameId,
    PrivateQueueFormatNameId,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    PrivateQueueFormatName,
    DirectQueueFormatName,
)


def _decode_nothing(_buf: bytes, at: int) -> tuple[None, int]:
    return None, at


class _UndefinedCode(Exception):
    """DQ, AQ or RQ has a value that no kind of queue name has."""


def _refuse(bits: str, code: int, _buf: bytes, _at: int) -> tuple[None, int]:
    raise _UndefinedCode(f"{bits} is {code}, which is not a type of queue name")


def _decoders(bits: str, kinds: tuple[_Kind, ...]) -> tuple[Callable[[bytes, int], tuple[QueueName | None, int]], ...]:
    """The decoder of the name for each code."""
    return tuple(
        partial(_refuse, bits, code) if kind is None else _decode_nothing if issubclass(kind, NoneType) else kind.decode
        for code, kind in enumerate(kinds)
    )


# Bound once: to look a classmethod up costs as much as to call it.
_DECODE_DESTINATION: Final = _decoders("DQ", DESTINATION_KINDS)
_DECODE_ADMIN: Final = _decoders("AQ", ADMIN_KINDS)
_DECODE_RESPONSE: Final = _decoders("RQ", RESPONSE_KINDS)


@dataclass(slots=True)
class UserHeader:
    source_queue_manager: bytes = NULL_GUID
    queue_manager_address: bytes = NULL_GUID
    time_to_be_received: int = INFINITE
    sent_time: int = 0
    message_id: int = 0
    flags: int = MP
    destination_queue: QueueName | None = None
    admin_queue: QueueName | None = None
    response_queue: QueueName | None = None
    connector_type: bytes | None = None

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[UserHeader, int]":
        start = at
        try:
            header = cls(*LAYOUT.unpack_from(buf, at))
        except struct.error:
            raise cut_short(SECTION, "UserHeader", at, len(buf)) from None
        flags = header.flags
        at += FIXED_SIZE
        try:
            header.destination_queue, at = _DECODE_DESTINATION[flags >> DQ_SHIFT & 7](buf, at)
            if flags & _OPTIONAL:
                at = header._decode_optional(buf, at)
        except _UndefinedCode as error:
            raise DecodeError(SECTION, "Flags", start + FIXED_SIZE - 4, str(error)) from None
        return header, at

    def _decode_optional(self, buf: bytes, at: int) -> int:
        """The names behind DestinationQueue, which most messages do not have."""
        flags = self.flags
        self.admin_queue, at = _DECODE_ADMIN[flags >> AQ_SHIFT & 7](buf, at)
        self.response_queue, at = _DECODE_RESPONSE[flags >> RQ_SHIFT & 7](buf, at)
        if flags & CQ:
            if len(buf) - at < 16:
                raise cut_short(SECTION, "ConnectorType", at, len(buf))
            self.connector_type = buf[at : at + 16]
            at += 16
        return at

    @encodes(SECTION, "UserHeader")
    def encode(self) -> bytes:
        parts: list[bytes] = []
        self.encode_into(parts, self.flags)
        return b"".join(parts)

    def encode_into(self, parts: list[bytes], flags: int) -> int:
        """Append the header with these flags, adjusted in DQ, AQ, RQ and CQ, and return its size."""
        destination = self.destination_queue
        if type(destination) is not DESTINATION_KINDS[flags >> DQ_SHIFT & 7]:
            flags = flags & ~DQ | _code(destination, DESTINATION_KINDS, "DestinationQueue") << DQ_SHIFT
        optional = b""
        if (
            flags & _OPTIONAL
            or self.admin_queue is not None
            or self.response_queue is not None
            or self.connector_type is not None
        ):
            flags, optional = self._encode_optional(flags)
        parts.append(
            LAYOUT.pack(
                self.source_queue_manager,
                self.queue_manager_address,
                self.time_to_be_received,
                self.sent_time,
                self.message_id,
                flags,
            )
        )
        size = FIXED_SIZE
        if destination is not None:
            size += destination.encode_into(parts)
        if optional:
            parts.append(optional)
            size += len(optional)
        return size

    def _encode_optional(self, flags: int) -> tuple[int, bytes]:
        """The fields after DestinationQueue, and the flags that announce them."""
        data = b""
        if type(self.admin_queue) is not ADMIN_KINDS[flags >> AQ_SHIFT & 7]:
            flags = flags & ~AQ | _code(self.admin_queue, ADMIN_KINDS, "AdminQueue") << AQ_SHIFT
        if type(self.response_queue) is not RESPONSE_KINDS[flags >> RQ_SHIFT & 7]:
            flags = flags & ~RQ | _code(self.response_queue, RESPONSE_KINDS, "ResponseQueue") << RQ_SHIFT
        if self.admin_queue is not None:
            data = self.admin_queue.encode()
        if self.response_queue is not None:
            data += self.response_queue.encode()
        if self.connector_type is None:
            return flags & ~CQ, data
        return flags | CQ, data + exactly(16, self.connector_type, SECTION, "ConnectorType")

    @property
    def hop_count(self) -> int:
        """RC: how many routing servers handled the message."""
        return self.flags & RC

    @property
    def delivery(self) -> int:
        """DM: EXPRESS or RECOVERABLE."""
        return (self.flags & DM) >> DM_SHIFT

    @property
    def is_transactional(self) -> bool:
        return self.flags & TH != 0


def _code(name: QueueName | None, kinds: tuple[_Kind, ...], field: str) -> int:
    """The first code that allows the name."""
    kind = type(name)
    if kind not in kinds:
        raise EncodeError(SECTION, "Flags", f"{field} must not be a {kind.__name__}")
    return kinds.index(kind)
