"""MS-MQRR 2.2.5.2 to 2.2.5.5: the headers that follow the UserMessage in a packet for a remote reader, and the sender's
address that MS-MQRR 2.2.5.1 lays over UserHeader.QueueManagerAddress.

Each record is one header. RemotePacket knows which of them a packet has and their total length.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.wire.codec import cut_short, encode_text, padding_for

EXTENSION_SECTION: Final = "MS-MQRR 2.2.5.2"
SUBQUEUE_SECTION: Final = "MS-MQRR 2.2.5.3"
DEAD_LETTER_SECTION: Final = "MS-MQRR 2.2.5.4"
ADDRESS_SECTION: Final = "MS-MQRR 2.2.5.5"
OVERLAY_SECTION: Final = "MS-MQRR 2.2.5.1"

# ExtensionHeader.Flags; bits 2, 5, 6 and 7 mean nothing.
DL: Final = 0x01
SQ: Final = 0x02
DI: Final = 0x08
EA: Final = 0x10

EXTENSION_LAYOUT: Final = Struct("<IIB3s")
SUBQUEUE_LAYOUT: Final = Struct("<IIIII64s64s")
DEAD_LETTER_SIZE: Final = Struct("<I")
EXTENDED_ADDRESS_LAYOUT: Final = Struct("<IHHI16s")
SENDER_ADDRESS_LAYOUT: Final = Struct("<HHI8s")

NAME_SIZE: Final = 64


@dataclass(slots=True)
class ExtensionHeader:
    """2.2.5.2: which headers follow and how long they are together."""

    remaining_headers_size: int = 0
    flags: int = 0
    reserved: bytes = bytes(3)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[ExtensionHeader, int]":
        if len(buf) - at < EXTENSION_LAYOUT.size:
            raise cut_short(EXTENSION_SECTION, "ExtensionHeader", at, len(buf))
        header_size, *fields = EXTENSION_LAYOUT.unpack_from(buf, at)
        _check_size(header_size, EXTENSION_LAYOUT.size, EXTENSION_SECTION, at)
        return cls(*fields), at + EXTENSION_LAYOUT.size

    def encode(self) -> bytes:
        return EXTENSION_LAYOUT.pack(EXTENSION_LAYOUT.size, self.remaining_headers_size, self.flags, self.reserved)

    @property
    def is_dead_letter_queue_invalid(self) -> bool:
        """DI, which counts only with DL."""
        return self.flags & (DL | DI) == DL | DI


@dataclass(slots=True)
class SubqueueHeader:
    """2.2.5.3: the subqueue a message is in and how it fared there.

    TM, AcknowledgementClass and Reserved share 32 bits, TM in the lowest. LastMoveTime is in seconds (readings MQRR
    3.26). A tail is what a peer left behind the null of a name where zeros belong.
    """

    tm: int = 0
    acknowledgement_class: int = 0
    reserved: int = 0
    abort_counter: int = 0
    move_counter: int = 0
    last_move_time: int = 0
    subqueue_name: str = ""
    subqueue_name_tail: bytes = b""
    target_subqueue_name: str = ""
    target_subqueue_name_tail: bytes = b""

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SubqueueHeader, int]":
        if len(buf) - at < SUBQUEUE_LAYOUT.size:
            raise cut_short(SUBQUEUE_SECTION, "SubqueueHeader", at, len(buf))
        header_size, bits, abort_counter, move_counter, last_move_time, name, target = SUBQUEUE_LAYOUT.unpack_from(
            buf, at
        )
        _check_size(header_size, SUBQUEUE_LAYOUT.size, SUBQUEUE_SECTION, at)
        header = cls(bits & 1, bits >> 1 & 0xFFFF, bits >> 17, abort_counter, move_counter, last_move_time)
        header.subqueue_name, header.subqueue_name_tail = _cut_name(name)
        header.target_subqueue_name, header.target_subqueue_name_tail = _cut_name(target)
        return header, at + SUBQUEUE_LAYOUT.size

    def encode(self) -> bytes:
        return SUBQUEUE_LAYOUT.pack(
            SUBQUEUE_LAYOUT.size,
            self.tm | self.acknowledgement_class << 1 | self.reserved << 17,
            self.abort_counter,
            self.move_counter,
            self.last_move_time,
            _name_field(self.subqueue_name, self.subqueue_name_tail, "SubqueueName"),
            _name_field(self.target_subqueue_name, self.target_subqueue_name_tail, "TargetSubqueueName"),
        )

    @property
    def is_in_subqueue(self) -> bool:
        """If not, a reader takes nothing from this header."""
        return self.subqueue_name != ""


@dataclass(slots=True)
class DeadLetterHeader:
    """2.2.5.4: the dead-letter queue that the application chose."""

    dead_letter_path_name: str
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[DeadLetterHeader, int]":
        start = at + DEAD_LETTER_SIZE.size
        if len(buf) < start:
            raise cut_short(DEAD_LETTER_SECTION, "HeaderSize", at, len(buf))
        (header_size,) = DEAD_LETTER_SIZE.unpack_from(buf, at)
        if header_size & 3 or not start < at + header_size <= len(buf):
            reason = f"must be a multiple of 4 from 8 to {len(buf) - at}, not {header_size}"
            raise DecodeError(DEAD_LETTER_SECTION, "HeaderSize", at, reason)
        end = at + header_size
        name, padding = _cut_at_null(buf[start:end])
        used = len(encode_text(name, DEAD_LETTER_SECTION, "DeadLetterPathName"))
        if used + len(padding) != end - start or len(padding) > 2:
            raise DecodeError(DEAD_LETTER_SECTION, "DeadLetterPathName", start, "the null must be at the end")
        return cls(name, padding), end

    def encode(self) -> bytes:
        name = encode_text(self.dead_letter_path_name, DEAD_LETTER_SECTION, "DeadLetterPathName")
        name += padding_for(len(name), self.padding)
        return DEAD_LETTER_SIZE.pack(DEAD_LETTER_SIZE.size + len(name)) + name


class HostAddressType(IntEnum):
    """2.2.5.5. NONE: the address is to be ignored."""

    NONE = 0x0000
    IP = 0x0001
    IPV6 = 0x0006


ADDRESS_LENGTHS: Final = {HostAddressType.NONE: 0, HostAddressType.IP: 4, HostAddressType.IPV6: 16}


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Where a message came from: 4 bytes of IPv4, 16 of IPv6, or nothing if that is not known."""

    address: bytes = b""
    scope: int = 0

    @property
    def address_type(self) -> HostAddressType:
        for address_type, length in ADDRESS_LENGTHS.items():
            if length == len(self.address):
                return address_type
        raise EncodeError(ADDRESS_SECTION, "Address", f"must have 4 or 16 bytes, not {len(self.address)}")

    @property
    def address_scope(self) -> int:
        """The scope of an IPv6 address; no other has one."""
        return self.scope if self.address_type is HostAddressType.IPV6 else 0


@dataclass(slots=True)
class SenderAddress:
    """2.2.5.1: the 16 bytes of UserHeader.QueueManagerAddress when the destination is a direct name.

    AddressLength is that of the whole address, though only 8 bytes of an IPv6 address fit.
    """

    address_length: int
    address_type: HostAddressType
    address_scope: int
    address: bytes

    @classmethod
    def of(cls, host: HostAddress) -> "SenderAddress":
        return cls(len(host.address), host.address_type, host.address_scope, host.address[:8].ljust(8, b"\0"))

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SenderAddress, int]":
        if len(buf) - at < SENDER_ADDRESS_LAYOUT.size:
            raise cut_short(OVERLAY_SECTION, "QueueManagerAddress", at, len(buf))
        length, number, scope, address = SENDER_ADDRESS_LAYOUT.unpack_from(buf, at)
        return cls(length, _address_type(number, OVERLAY_SECTION, at + 2), scope, address), at + 16

    def encode(self) -> bytes:
        return SENDER_ADDRESS_LAYOUT.pack(self.address_length, self.address_type, self.address_scope, self.address)


@dataclass(slots=True)
class ExtendedAddressHeader:
    """2.2.5.5: the address of the host a message came from, whole."""

    address_length: int = 0
    address_type: HostAddressType = HostAddressType.NONE
    address_scope: int = 0
    address: bytes = bytes(16)

    @classmethod
    def of(cls, host: HostAddress) -> "ExtendedAddressHeader":
        return cls(len(host.address), host.address_type, host.address_scope, host.address.ljust(16, b"\0"))

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[ExtendedAddressHeader, int]":
        if len(buf) - at < EXTENDED_ADDRESS_LAYOUT.size:
            raise cut_short(ADDRESS_SECTION, "ExtendedAddressHeader", at, len(buf))
        header_size, length, number, scope, address = EXTENDED_ADDRESS_LAYOUT.unpack_from(buf, at)
        _check_size(header_size, EXTENDED_ADDRESS_LAYOUT.size, ADDRESS_SECTION, at)
        return cls(length, _address_type(number, ADDRESS_SECTION, at + 6), scope, address), at + header_size

    def encode(self) -> bytes:
        return EXTENDED_ADDRESS_LAYOUT.pack(
            EXTENDED_ADDRESS_LAYOUT.size, self.address_length, self.address_type, self.address_scope, self.address
        )

    @property
    def host(self) -> HostAddress:
        """By AddressType alone; nothing if that is NONE."""
        return HostAddress(self.address[: ADDRESS_LENGTHS[self.address_type]], self.address_scope)


def _check_size(found: int, size: int, section: str, at: int) -> None:
    if found != size:
        raise DecodeError(section, "HeaderSize", at, f"must be {size}, not {found}")


def _address_type(number: int, section: str, at: int) -> HostAddressType:
    try:
        return HostAddressType(number)
    except ValueError:
        raise DecodeError(section, "AddressType", at, f"must be 0, 1 or 6, not 0x{number:04X}") from None


def _cut_at_null(data: bytes) -> tuple[str, bytes]:
    """UTF-16 text up to its null, and the bytes behind the null; the whole text and no bytes without a null."""
    text, _, tail = data.decode("utf-16-le", "surrogatepass").partition("\0")
    return text, tail.encode("utf-16-le", "surrogatepass")


def _cut_name(field: bytes) -> tuple[str, bytes]:
    name, tail = _cut_at_null(field)
    return name, tail if any(tail) else b""


def _name_field(name: str, tail: bytes, field: str) -> bytes:
    # readings MQRR 3.27: a name of 32 units, which MS-MQMQ 2.1.1 allows, fills the field and leaves no room for a null.
    data = encode_text(name, SUBQUEUE_SECTION, field)
    if len(data) > NAME_SIZE + 2:
        raise EncodeError(SUBQUEUE_SECTION, field, f"must have at most 32 UTF-16 units, not {len(data) // 2 - 1}")
    return data + tail if len(data) + len(tail) == NAME_SIZE else data[:NAME_SIZE].ljust(NAME_SIZE, b"\0")
