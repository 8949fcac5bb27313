"""Queue names as a UserHeader packs them: MS-MQMQ 2.2.18.1.5 and 2.2.18.1.7.

Each begins on a 4-byte boundary and ends on one.
"""

import struct
from codecs import utf_16_le_decode, utf_16_le_encode
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import EncodeError
from waypost.wire.codec import PADDING, bad_text, cut_short, encodes, exactly

_DIRECT: Final = "MS-MQMQ 2.2.18.1.5.2"
_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_GUID_U32: Final = Struct("<16sI")


@dataclass(slots=True)
class PrivateQueueFormatNameId:
    """MS-MQMQ 2.2.18.1.5.1: a private queue of a host that the header names elsewhere."""

    private_queue_identifier: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[PrivateQueueFormatNameId, int]":
        if len(buf) - at < 4:
            raise cut_short("MS-MQMQ 2.2.18.1.5.1", "PrivateQueueIdentifier", at, len(buf))
        return cls(*_U32.unpack_from(buf, at)), at + 4

    @encodes("MS-MQMQ 2.2.18.1.5.1", "PrivateQueueIdentifier")
    def encode(self) -> bytes:
        return _U32.pack(self.private_queue_identifier)

    def encode_into(self, parts: list[bytes]) -> int:
        parts.append(self.encode())
        return 4


@dataclass(slots=True)
class DirectQueueFormatName:
    """MS-MQMQ 2.2.18.1.5.2: a direct format name without its DIRECT= prefix. Count is computed."""

    direct_format_name: str
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[DirectQueueFormatName, int]":
        try:
            (count,) = _U16.unpack_from(buf, at)
        except struct.error:
            raise cut_short(_DIRECT, "Count", at, len(buf)) from None
        start = at + 2
        end = start + count
        # The padding counts from the start of the header, which is itself on a 4-byte boundary of the packet.
        after = end + (at - end & 3)
        if after > len(buf):
            raise cut_short(_DIRECT, "DirectFormatName", start, len(buf))
        # decode_text, in line: every message has a destination.
        units, used = utf_16_le_decode(buf[start:end], "surrogatepass")
        text, null, rest = units.partition("\0")
        if rest or not null or used != count:
            raise bad_text(units, _DIRECT, "DirectFormatName", start)
        name = cls(text)
        if after != end:
            name.padding = buf[end:after]
        return name, after

    def encode(self) -> bytes:
        parts: list[bytes] = []
        self.encode_into(parts)
        return b"".join(parts)

    def encode_into(self, parts: list[bytes]) -> int:
        # encode_text, in line: every message has a destination.
        name = self.direct_format_name
        if "\0" in name:
            raise EncodeError(_DIRECT, "DirectFormatName", "contains a null before the end")
        text = utf_16_le_encode(name + "\0", "surrogatepass")[0]
        count = len(text)
        if count > 0xFFFF:
            raise EncodeError(_DIRECT, "Count", f"the length of the name, {count} bytes, does not fit into 16 bits")
        parts.append(_U16.pack(count))
        parts.append(text)
        size = 2 + count
        fill = -size & 3
        if fill:
            parts.append(self.padding if len(self.padding) == fill else PADDING[fill])
        return size + fill


@dataclass(slots=True)
class PublicQueueFormatName:
    """MS-MQMQ 2.2.18.1.7.1."""

    public_queue_identifier: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[PublicQueueFormatName, int]":
        if len(buf) - at < 16:
            raise cut_short("MS-MQMQ 2.2.18.1.7.1", "PublicQueueIdentifier", at, len(buf))
        return cls(buf[at : at + 16]), at + 16

    def encode(self) -> bytes:
        return exactly(16, self.public_queue_identifier, "MS-MQMQ 2.2.18.1.7.1", "PublicQueueIdentifier")

    def encode_into(self, parts: list[bytes]) -> int:
        parts.append(self.encode())
        return 16


@dataclass(slots=True)
class PrivateQueueFormatName:
    """MS-MQMQ 2.2.18.1.7.2: a private queue with the queue manager that hosts it."""

    source_queue_manager: bytes
    private_queue_identifier: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[PrivateQueueFormatName, int]":
        if len(buf) - at < 20:
            raise cut_short("MS-MQMQ 2.2.18.1.7.2", "PrivateQueueFormatName", at, len(buf))
        return cls(*_GUID_U32.unpack_from(buf, at)), at + 20

    @encodes("MS-MQMQ 2.2.18.1.7.2", "PrivateQueueFormatName")
    def encode(self) -> bytes:
        guid = exactly(16, self.source_queue_manager, "MS-MQMQ 2.2.18.1.7.2", "SourceQueueManager")
        return _GUID_U32.pack(guid, self.private_queue_identifier)

    def encode_into(self, parts: list[bytes]) -> int:
        parts.append(self.encode())
        return 20


QueueName = PrivateQueueFormatNameId | DirectQueueFormatName | PublicQueueFormatName | PrivateQueueFormatName
