"""MS-DTYP 2.4.2 SID: a security identifier as packet and as text, and those with a fixed meaning that MSMQ needs."""

import re
from dataclasses import dataclass
from struct import Struct, pack, unpack_from
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_SUB_AUTHORITIES
from waypost.wire.codec import cut_short

PACKET: Final = "MS-DTYP 2.4.2.2"
TEXT: Final = "MS-DTYP 2.4.2.1"

REVISION: Final = 1

# Revision, SubAuthorityCount, IdentifierAuthority: 48 bits with the most significant byte first, unlike the rest.
HEADER: Final = Struct(">BBHI")

_TEXT: Final = re.compile(
    rf"[sS]-1-(?:0[xX]([0-9a-fA-F]{{12}})|([0-9]{{1,10}}))((?:-[0-9]{{1,10}}){{0,{MAX_SUB_AUTHORITIES}}})"
)


@dataclass(frozen=True, slots=True)
class Sid:
    """A principal: who issued it, and a path of numbers below the issuer."""

    identifier_authority: int
    sub_authority: tuple[int, ...]

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[Sid, int]":
        start = at + HEADER.size
        if len(buf) < start:
            raise cut_short(PACKET, "SID", at, len(buf))
        revision, count, high, low = HEADER.unpack_from(buf, at)
        if revision != REVISION:
            raise DecodeError(PACKET, "Revision", at, f"must be 1, not {revision}")
        if count > MAX_SUB_AUTHORITIES:
            raise DecodeError(
                PACKET, "SubAuthorityCount", at + 1, f"must be at most {MAX_SUB_AUTHORITIES}, not {count}"
            )
        end = start + 4 * count
        if len(buf) < end:
            raise cut_short(PACKET, "SubAuthority", start, len(buf))
        return cls(high << 32 | low, unpack_from(f"<{count}I", buf, start)), end

    def encode(self) -> bytes:
        count = len(self.sub_authority)
        if count > MAX_SUB_AUTHORITIES:
            raise EncodeError(PACKET, "SubAuthorityCount", f"must be at most {MAX_SUB_AUTHORITIES}, not {count}")
        high, low = divmod(self.identifier_authority, 1 << 32)
        return HEADER.pack(REVISION, count, high, low) + pack(f"<{count}I", *self.sub_authority)

    @classmethod
    def parse(cls, text: str) -> "Sid":
        """The reverse of str(): S-1-5-32-544."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise DecodeError(TEXT, "SID", 0, f"must be S-1- followed by 1 to 16 numbers, not {text[:60]!r}")
        hexadecimal, decimal, rest = match.groups()
        sub_authority = tuple(map(int, rest.split("-")[1:]))
        if any(number >> 32 for number in sub_authority):
            raise DecodeError(TEXT, "SubAuthority", 0, f"{text!r} contains a number above 4294967295")
        return cls(int(hexadecimal, 16) if hexadecimal else int(decimal), sub_authority)

    def __str__(self) -> str:
        # MS-DTYP 2.4.2.1: an authority of 2^32 or more is written in hexadecimal, with 12 digits.
        wide = self.identifier_authority >> 32
        authority = f"0x{self.identifier_authority:012X}" if wide else f"{self.identifier_authority}"
        return "-".join(("S-1", authority, *map(str, self.sub_authority)))


EVERYONE: Final = Sid(1, (0,))
OWNER_RIGHTS: Final = Sid(3, (4,))
ANONYMOUS: Final = Sid(5, (7,))
NETWORK: Final = Sid(5, (2,))
AUTHENTICATED_USERS: Final = Sid(5, (11,))
LOCAL_SYSTEM: Final = Sid(5, (18,))
ADMINISTRATORS: Final = Sid(5, (32, 544))
