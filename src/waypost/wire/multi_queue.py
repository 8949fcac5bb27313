"""MS-MQMQ 2.2.20.1 to 2.2.20.3 and 2.2.18.1.4: the MultiQueueFormatHeader, which lists all queues of a send to several.

Alignment inside an address header counts from its start, which is itself 4-aligned from the start of the packet
(readings MQMQ 4), so encoding does not depend on the position. Padding is uninitialized memory in practice: it is kept
and never examined.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, UnsupportedFormatName
from waypost.limits import MAX_MQF_ELEMENTS
from waypost.wire.codec import cut_short, decode_text, encode_text, padding_for
from waypost.wire.format_names import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    Suffix,
)
from waypost.wire.packet_names import direct_format_name
from waypost.wire.queue_names import PrivateQueueFormatName, PublicQueueFormatName
from waypost.wire.unknown_names import UnknownFormatName

HEADER_SECTION: Final = "MS-MQMQ 2.2.20.2"
SIGNATURE_SECTION: Final = "MS-MQMQ 2.2.20.3"
ELEMENT_SECTION: Final = "MS-MQMQ 2.2.18.1.4"
DIRECT_SECTION: Final = "MS-MQMQ 2.2.18.1.4.1"

ADDRESS_LAYOUT: Final = Struct("<IHHI")
SIGNATURE_LAYOUT: Final = Struct("<HHI")
FORMAT_TYPE: Final = Struct("<H")
SMALLEST_ELEMENT: Final = 4  # FormatType and a null


class MqfHeaderId(IntEnum):
    """MS-MQMQ 2.2.20.2: which part of the MultiQueueFormatHeader a header is."""

    DESTINATION = 0x0064
    ADMIN = 0x00C8
    RESPONSE = 0x012C
    SIGNATURE = 0x015E


class MqfFormatType(IntEnum):
    """2.2.18.1.4."""

    PUBLIC = 0x0001
    PRIVATE = 0x0002
    DIRECT = 0x0003
    DISTRIBUTION_LIST = 0x0006


@dataclass(slots=True)
class MqfDirectQueueFormatName:
    """2.2.18.1.4.1: a direct format name without its DIRECT= prefix and without a count."""

    direct_format_name: str

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqfDirectQueueFormatName, int]":
        null = buf.find(b"\0\0", at)
        while null != -1 and null - at & 1:  # the high byte of one character and the low byte of the next
            null = buf.find(b"\0\0", null + 1)
        if null == -1:
            raise DecodeError(DIRECT_SECTION, "DirectFormatName", at, "has no terminating null")
        end = null + 2
        return cls(decode_text(buf[at:end], DIRECT_SECTION, "DirectFormatName", at)), end

    def encode(self) -> bytes:
        return encode_text(self.direct_format_name, DIRECT_SECTION, "DirectFormatName")


@dataclass(slots=True)
class MqfDistributionQueueFormatName:
    """2.2.18.1.4.2."""

    distribution_list_identifier: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqfDistributionQueueFormatName, int]":
        if len(buf) - at < 16:
            raise cut_short("MS-MQMQ 2.2.18.1.4.2", "DistributionListIdentifier", at, len(buf))
        return cls(buf[at : at + 16]), at + 16

    def encode(self) -> bytes:
        return self.distribution_list_identifier


MqfName = PublicQueueFormatName | PrivateQueueFormatName | MqfDirectQueueFormatName | MqfDistributionQueueFormatName

NAME_KINDS: Final[dict[int, type[MqfName]]] = {
    MqfFormatType.PUBLIC: PublicQueueFormatName,
    MqfFormatType.PRIVATE: PrivateQueueFormatName,
    MqfFormatType.DIRECT: MqfDirectQueueFormatName,
    MqfFormatType.DISTRIBUTION_LIST: MqfDistributionQueueFormatName,
}
FORMAT_TYPES: Final = {kind: format_type for format_type, kind in NAME_KINDS.items()}


@dataclass(slots=True)
class MqfFormatNameElement:
    """2.2.18.1.4. FormatType follows from the name; `padding` stands between the two, never before a direct name."""

    format_name: MqfName
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int, start: int) -> "tuple[MqfFormatNameElement, int]":
        """The element at `at` of the address header at `start`."""
        if len(buf) - at < FORMAT_TYPE.size:
            raise cut_short(ELEMENT_SECTION, "FormatType", at, len(buf))
        (format_type,) = FORMAT_TYPE.unpack_from(buf, at)
        kind = NAME_KINDS.get(format_type)
        if kind is None:
            raise DecodeError(ELEMENT_SECTION, "FormatType", at, f"must be 1, 2, 3 or 6, not 0x{format_type:04X}")
        at += FORMAT_TYPE.size
        # 2.2.18.1.7.1 does not say that the name of a public queue is aligned; readings MQMQ 4: it is, as other GUIDs.
        name_at = at if kind is MqfDirectQueueFormatName else at + (start - at & 3)
        if name_at > len(buf):
            raise cut_short(ELEMENT_SECTION, "FormatName", at, len(buf))
        name, end = kind.decode(buf, name_at)
        return cls(name, buf[at:name_at]), end

    def encode(self, at: int) -> bytes:
        """The bytes of the element `at` bytes into its address header."""
        format_type = FORMAT_TYPE.pack(FORMAT_TYPES[type(self.format_name)])
        if isinstance(self.format_name, MqfDirectQueueFormatName):
            return format_type + self.format_name.encode()
        return format_type + padding_for(at + FORMAT_TYPE.size, self.padding) + self.format_name.encode()


@dataclass(slots=True)
class MqfAddressHeader:
    """2.2.20.2: a list of queues. Its HeaderID is its place in the MultiQueueFormatHeader.

    2.2.20.2 counts the closing padding in HeaderSize, 2.2.20.1 adds it behind the header: both are read, a new header
    is written the first way.
    """

    header_size: int = 0
    reserved: int = 0
    elements: list[MqfFormatNameElement] = field(default_factory=list)
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int, header_id: MqfHeaderId) -> "tuple[MqfAddressHeader, int]":
        if len(buf) - at < ADDRESS_LAYOUT.size:
            raise cut_short(HEADER_SECTION, "MQFAddressHeader", at, len(buf))
        header_size, found_id, reserved, element_count = ADDRESS_LAYOUT.unpack_from(buf, at)
        if found_id != header_id:
            reason = f"must be 0x{header_id:04X}, not 0x{found_id:04X}"
            raise DecodeError(HEADER_SECTION, "HeaderID", at + 4, reason)
        if not ADDRESS_LAYOUT.size <= header_size <= len(buf) - at:
            raise DecodeError(HEADER_SECTION, "HeaderSize", at, f"must be 12 to {len(buf) - at}, not {header_size}")
        most = min((header_size - ADDRESS_LAYOUT.size) // SMALLEST_ELEMENT, MAX_MQF_ELEMENTS)
        if element_count > most:
            reason = f"must be at most {most} for {header_size} bytes, not {element_count}"
            raise DecodeError(HEADER_SECTION, "ElementCount", at + 8, reason)
        elements = []
        used = at + ADDRESS_LAYOUT.size
        for _ in range(element_count):
            element, used = MqfFormatNameElement.decode(buf, used, at)
            elements.append(element)
        end = used + (at - used & 3)
        if at + header_size not in (used, end):
            raise DecodeError(
                HEADER_SECTION, "HeaderSize", at, f"must be {used - at}, the size of the elements, not {header_size}"
            )
        if end > len(buf):
            raise cut_short(HEADER_SECTION, "FormatNameList", used, len(buf))
        return cls(header_size, reserved, elements, buf[used:end]), end

    def encode(self, header_id: MqfHeaderId) -> bytes:
        parts = []
        used = ADDRESS_LAYOUT.size
        for element in self.elements:
            parts.append(element.encode(used))
            used += len(parts[-1])
        padding = padding_for(used, self.padding)
        header_size = used if self.header_size == used else used + len(padding)
        fixed = ADDRESS_LAYOUT.pack(header_size, header_id, self.reserved, len(self.elements))
        return b"".join((fixed, *parts, padding))


@dataclass(slots=True)
class MqfSignatureHeader:
    """2.2.20.3. It ends on a 4-byte boundary because PacketSize counts the padding of every header (2.2.19.1)."""

    reserved: int = 0
    signature: bytes = b""
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqfSignatureHeader, int]":
        if len(buf) - at < SIGNATURE_LAYOUT.size:
            raise cut_short(SIGNATURE_SECTION, "MQFSignatureHeader", at, len(buf))
        found_id, reserved, size = SIGNATURE_LAYOUT.unpack_from(buf, at)
        if found_id != MqfHeaderId.SIGNATURE:
            raise DecodeError(SIGNATURE_SECTION, "ID", at, f"must be 0x015E, not 0x{found_id:04X}")
        start = at + SIGNATURE_LAYOUT.size
        end = start + size
        after = end + (-size & 3)
        if after > len(buf):
            raise cut_short(SIGNATURE_SECTION, "Signature", start, len(buf))
        return cls(reserved, buf[start:end], buf[end:after]), after

    def encode(self) -> bytes:
        size = len(self.signature)
        fixed = SIGNATURE_LAYOUT.pack(MqfHeaderId.SIGNATURE, self.reserved, size)
        return fixed + self.signature + padding_for(size, self.padding)


@dataclass(slots=True)
class MultiQueueFormatHeader:
    """2.2.20.1: where the copies went, who gets acknowledgements and responses, and the signature over it."""

    destination: MqfAddressHeader = field(default_factory=MqfAddressHeader)
    administration: MqfAddressHeader = field(default_factory=MqfAddressHeader)
    response: MqfAddressHeader = field(default_factory=MqfAddressHeader)
    signature: MqfSignatureHeader = field(default_factory=MqfSignatureHeader)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MultiQueueFormatHeader, int]":
        destination, at = MqfAddressHeader.decode(buf, at, MqfHeaderId.DESTINATION)
        administration, at = MqfAddressHeader.decode(buf, at, MqfHeaderId.ADMIN)
        response, at = MqfAddressHeader.decode(buf, at, MqfHeaderId.RESPONSE)
        signature, at = MqfSignatureHeader.decode(buf, at)
        return cls(destination, administration, response, signature), at

    def encode(self) -> bytes:
        return b"".join(
            (
                self.destination.encode(MqfHeaderId.DESTINATION),
                self.administration.encode(MqfHeaderId.ADMIN),
                self.response.encode(MqfHeaderId.RESPONSE),
                self.signature.encode(),
            )
        )


def to_format_name(element: MqfFormatNameElement) -> FormatName:
    """The name that an application reads. The text of a direct name is looked at here and not before."""
    match element.format_name:
        case PublicQueueFormatName(guid):
            return PublicFormatName(guid)
        case PrivateQueueFormatName(guid, number):
            return PrivateFormatName(guid, number)
        case MqfDistributionQueueFormatName(guid):
            return DistributionListFormatName(guid)
        case MqfDirectQueueFormatName(text):
            return direct_format_name(text)


def from_format_name(name: FormatName) -> MqfFormatNameElement:
    """The element for a queue that can be sent to. The domain of a distribution list has no place in it."""
    match name:
        case PublicFormatName(guid, Suffix.NONE):
            return MqfFormatNameElement(PublicQueueFormatName(guid))
        case PrivateFormatName(guid, number, Suffix.NONE):
            return MqfFormatNameElement(PrivateQueueFormatName(guid, number))
        case DistributionListFormatName(guid):
            return MqfFormatNameElement(MqfDistributionQueueFormatName(guid))
        case DirectFormatName(suffix=Suffix.NONE):
            return MqfFormatNameElement(MqfDirectQueueFormatName(name.direct_text))
        case UnknownFormatName(text, None):
            return MqfFormatNameElement(MqfDirectQueueFormatName(text))
    raise UnsupportedFormatName(f"{name} is not allowed in a MultiQueueFormatHeader (MS-MQMQ 2.2.18.1.4)")
