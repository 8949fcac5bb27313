"""MS-MQMQ 2.2.4 TA_ADDRESS: one transport address, and the packed array of them that PROPID_QM_ADDRESS holds.

2.2.4.1 calls an IP address a 32-bit integer and gives it no byte order. It is taken as Winsock keeps it: the four
octets in the order in which they are read.
"""

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.guid import guid_text
from waypost.wire.codec import cut_short

SECTION: Final = "MS-MQMQ 2.2.4"

HEADER: Final = Struct("<HH")


class AddressType(IntEnum):
    """Kind of address in the Address field."""

    IP = 0x0001
    IP_RAS = 0x0002
    IPX = 0x0003
    FOREIGN = 0x0005


ADDRESS_LENGTH: Final = {AddressType.IP: 4, AddressType.IP_RAS: 4, AddressType.IPX: 10, AddressType.FOREIGN: 16}


@dataclass(frozen=True, slots=True)
class TaAddress:
    """An IPv4 address, an IPX network and node, or the GUID of a connected network."""

    address_type: AddressType
    address: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[TaAddress, int]":
        start = at + HEADER.size
        if len(buf) < start:
            raise cut_short(SECTION, "TA_ADDRESS", at, len(buf))
        length, number = HEADER.unpack_from(buf, at)
        try:
            address_type = AddressType(number)
        except ValueError:
            raise DecodeError(SECTION, "AddressType", at + 2, f"0x{number:04X} is not an address type") from None
        if length != ADDRESS_LENGTH[address_type]:
            raise DecodeError(
                SECTION,
                "AddressLength",
                at,
                f"must be {ADDRESS_LENGTH[address_type]} for {address_type.name}, not {length}",
            )
        if len(buf) < start + length:
            raise cut_short(SECTION, "Address", start, len(buf))
        return cls(address_type, buf[start : start + length]), start + length

    def encode(self) -> bytes:
        if len(self.address) != ADDRESS_LENGTH[self.address_type]:
            length = ADDRESS_LENGTH[self.address_type]
            reason = f"must have {length} bytes for {self.address_type.name}, not {len(self.address)}"
            raise EncodeError(SECTION, "Address", reason)
        return HEADER.pack(len(self.address), self.address_type) + self.address

    def __str__(self) -> str:
        if self.address_type is AddressType.FOREIGN:
            return guid_text(self.address)
        if self.address_type is AddressType.IPX:
            return f"{self.address[:4].hex()}:{self.address[4:].hex()}"
        return str(IPv4Address(self.address))


def decode_addresses(data: bytes) -> list[TaAddress]:
    """The packed array of PROPID_QM_ADDRESS (MS-MQMQ 2.3.2.5)."""
    addresses = []
    at = 0
    while at < len(data):
        address, at = TaAddress.decode(data, at)
        addresses.append(address)
    return addresses


def encode_addresses(addresses: list[TaAddress]) -> bytes:
    return b"".join(address.encode() for address in addresses)
