"""The frame of connection-oriented PDUs: C706 12.6.1 and 12.6.3.1, MS-RPCE 2.2.2.1, 2.2.2.3 and 2.2.2.11.

A PDU travels as one or more fragments. A fragment is a common header of 16 bytes, a body that depends on the packet
type, and, when it is authenticated, a sec_trailer of 8 bytes with an authentication token behind it. The body
is in `binds` and `calls`, the signing and sealing of requests and responses in `protection`.

Only integers in little-endian order are read, as every Windows computer sends them. frag_length and auth_length follow
from the parts of a fragment and are computed when it is encoded.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import ClassVar, Final, Protocol

from waypost.errors import DecodeError, EncodeError
from waypost.wire.codec import cut_short

HEADER: Final = "C706 12.6.3.1"
TRAILER: Final = "MS-RPCE 2.2.2.11"

HEADER_SIZE: Final = 16
TRAILER_SIZE: Final = 8

# C706 12.6.3.1 pfc_flags. MS-RPCE 2.2.2.3: 0x04 announces header signing in the PDUs that build a security context, and
# a cancel that was pending in all others.
PFC_FIRST_FRAG: Final = 0x01
PFC_LAST_FRAG: Final = 0x02
PFC_PENDING_CANCEL: Final = 0x04
PFC_SUPPORT_HEADER_SIGN: Final = 0x04
PFC_CONC_MPX: Final = 0x10
PFC_DID_NOT_EXECUTE: Final = 0x20
PFC_OBJECT_UUID: Final = 0x80

WHOLE: Final = PFC_FIRST_FRAG | PFC_LAST_FRAG

# C706 14.1: little-endian integers, ASCII characters, IEEE floating point.
LITTLE_ENDIAN: Final = b"\x10\0\0\0"

_LAYOUT: Final = Struct("<BBBB4sHHI")
_BIG_ENDIAN: Final = Struct(">BBBB4sHHI")
_TRAILER: Final = Struct("<BBBBI")


class PacketType(IntEnum):
    """C706 12.6.3.1 PTYPE, those of connections; MS-RPCE 2.2.2.10 adds rpc_auth_3."""

    REQUEST = 0
    RESPONSE = 2
    FAULT = 3
    BIND = 11
    BIND_ACK = 12
    BIND_NAK = 13
    ALTER_CONTEXT = 14
    ALTER_CONTEXT_RESP = 15
    AUTH3 = 16
    SHUTDOWN = 17
    CO_CANCEL = 18
    ORPHANED = 19


class UnsupportedHeader(DecodeError):
    """A header that is well formed and of another version of the protocol, or of another data representation.

    `header` is there for an answer: its packet type and its call_id are readable.
    """

    def __init__(self, section: str, field_name: str, offset: int, reason: str, *, header: "Header") -> None:
        super().__init__(section, field_name, offset, reason)
        self.header = header


class UnsupportedVersion(UnsupportedHeader):
    """MS-RPCE 3.3.1.5.1: the version is not 5.0."""


class UnsupportedRepresentation(UnsupportedHeader):
    """C706 14.1: the integers are not little-endian."""


@dataclass(slots=True)
class Header:
    """The common header. `frag_length` and `auth_length` are those that were received."""

    rpc_vers: int = 5
    rpc_vers_minor: int = 0
    ptype: int = PacketType.REQUEST
    pfc_flags: int = WHOLE
    packed_drep: bytes = LITTLE_ENDIAN
    frag_length: int = HEADER_SIZE
    auth_length: int = 0
    call_id: int = 0

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[Header, int]":
        try:
            header = cls(*_LAYOUT.unpack_from(buf, at))
        except struct.error:
            raise cut_short(HEADER, "header", at, len(buf)) from None
        if header.packed_drep[0] >> 4 != 1:
            header = cls(*_BIG_ENDIAN.unpack_from(buf, at))
            reason = f"must be little-endian, not 0x{header.packed_drep.hex()}"
            raise UnsupportedRepresentation(HEADER, "packed_drep", at + 4, reason, header=header)
        if header.rpc_vers != 5 or header.rpc_vers_minor != 0:
            reason = f"must be 5.0, not {header.rpc_vers}.{header.rpc_vers_minor}"
            raise UnsupportedVersion(HEADER, "rpc_vers", at, reason, header=header)
        header._check_lengths(at)
        try:
            header.ptype = PacketType(header.ptype)
        except ValueError:
            reason = f"{header.ptype} is not the type of a connection-oriented PDU"
            raise DecodeError(HEADER, "PTYPE", at + 2, reason) from None
        return header, at + HEADER_SIZE

    def _check_lengths(self, at: int) -> None:
        least = HEADER_SIZE + (TRAILER_SIZE + self.auth_length if self.auth_length else 0)
        if self.frag_length < least:
            reason = f"must be at least {least} with auth_length {self.auth_length}, not {self.frag_length}"
            raise DecodeError(HEADER, "frag_length", at + 8, reason)

    def encode(self) -> bytes:
        try:
            return _LAYOUT.pack(
                self.rpc_vers, self.rpc_vers_minor, self.ptype, self.pfc_flags,
                self.packed_drep, self.frag_length, self.auth_length, self.call_id,
            )  # fmt: skip
        except struct.error as error:
            raise EncodeError(HEADER, "header", f"a value does not fit its field ({error})") from None

    @property
    def is_first(self) -> bool:
        return self.pfc_flags & PFC_FIRST_FRAG != 0

    @property
    def is_last(self) -> bool:
        return self.pfc_flags & PFC_LAST_FRAG != 0

    @property
    def has_object(self) -> bool:
        return self.pfc_flags & PFC_OBJECT_UUID != 0


@dataclass(slots=True)
class SecurityTrailer:
    """MS-RPCE 2.2.2.11 sec_trailer: how the fragment is protected, and how many bytes of its body only fill it up."""

    auth_type: int
    auth_level: int
    auth_pad_length: int = 0
    auth_reserved: int = 0
    auth_context_id: int = 0

    def encode(self) -> bytes:
        try:
            return _TRAILER.pack(
                self.auth_type, self.auth_level, self.auth_pad_length, self.auth_reserved, self.auth_context_id
            )
        except struct.error as error:
            raise EncodeError(TRAILER, "sec_trailer", f"a value does not fit its field ({error})") from None


class Body(Protocol):
    """A record of `binds` or `calls`: what stands between the common header and the sec_trailer.

    The offsets of its errors count from its own start.
    """

    packet_type: ClassVar[PacketType]

    def encode(self) -> bytes: ...


@dataclass(slots=True)
class Fragment:
    """One fragment. `body` is as it stands in the fragment: with its padding, and sealed if the fragment is."""

    header: Header
    body: bytes = b""
    trailer: SecurityTrailer | None = None
    auth_value: bytes = field(default=b"", repr=False)

    @classmethod
    def decode(cls, data: bytes) -> "Fragment":
        """The fragment that `data` is from its first to its last byte."""
        header, _ = Header.decode(data, 0)
        if header.frag_length != len(data):
            reason = f"the value is {header.frag_length}, but the fragment has {len(data)} bytes"
            raise DecodeError(HEADER, "frag_length", 8, reason)
        return cls.behind(header, data)

    @classmethod
    def behind(cls, header: Header, data: bytes) -> "Fragment":
        """The fragment that `data` is, whose header was decoded already."""
        if not header.auth_length:
            return cls(header, data[HEADER_SIZE:])
        behind = len(data) - header.auth_length
        trailer = SecurityTrailer(*_TRAILER.unpack_from(data, behind - TRAILER_SIZE))
        body = data[HEADER_SIZE : behind - TRAILER_SIZE]
        if trailer.auth_pad_length > len(body):
            reason = f"the value is {trailer.auth_pad_length}, but the body has {len(body)} bytes"
            raise DecodeError(TRAILER, "auth_pad_length", behind - TRAILER_SIZE + 2, reason)
        return cls(header, body, trailer, data[behind:])

    def encode(self) -> bytes:
        """The bytes of the fragment; `header` gets the lengths that they have."""
        parts = [self.body]
        if self.trailer is not None:
            if not self.auth_value:
                raise EncodeError(TRAILER, "auth_value", "a sec_trailer must be followed by a token")
            parts += (self.trailer.encode(), self.auth_value)
        self.header.auth_length = len(self.auth_value)
        self.header.frag_length = HEADER_SIZE + sum(map(len, parts))
        return b"".join((self.header.encode(), *parts))

    @property
    def content(self) -> bytes:
        """The body without the bytes that only fill it up. It is of use once it is in clear."""
        padding = self.trailer.auth_pad_length if self.trailer is not None else 0
        return self.body[: len(self.body) - padding]

    def authenticate(self, trailer: SecurityTrailer, token: bytes) -> "Fragment":
        """The same with a token that builds a security context (MS-RPCE 2.2.2.12): nothing is signed or sealed.

        C706 13.2.6.1: the sec_trailer of these PDUs is aligned to 4 bytes.
        """
        padding = -len(self.body) % 4
        trailer.auth_pad_length = padding
        return Fragment(self.header, self.body + bytes(padding), trailer, token)


def fragment_of(record: Body, call_id: int, pfc_flags: int = WHOLE) -> Fragment:
    """The record as the only fragment of its PDU."""
    return Fragment(Header(ptype=record.packet_type, pfc_flags=pfc_flags, call_id=call_id), record.encode())


def bare_fragment(ptype: PacketType, call_id: int) -> Fragment:
    """C706 12.6.4.1, 12.6.4.8 and 12.6.4.11: co_cancel, orphaned and shutdown have no body."""
    return Fragment(Header(ptype=ptype, call_id=call_id))


class FragmentReader:
    """Cuts one direction of one connection into fragments, whatever the segments.

    When the stream breaks, the fragments before the break are still returned and `error` is set; a `feed` that has
    none to return raises it, and so does every later one. At most one unfinished fragment, of 64 KiB, is held.
    """

    __slots__ = ("_buffer", "_wanted", "error")

    def __init__(self) -> None:
        self.error: DecodeError | None = None
        self._buffer = bytearray()
        self._wanted = HEADER_SIZE

    @property
    def pending(self) -> int:
        """Number of bytes of an unfinished fragment."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Fragment]:
        """Take the next bytes of the stream; return the fragments that they complete, in order."""
        self._raise_error()
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
        fragments, used = self._cut(data)
        self._buffer = bytearray(data[used:])
        if not fragments:
            self._raise_error()
        return fragments

    def _raise_error(self) -> None:
        if self.error is not None:
            # Without the old traceback, which keeps the data of every caller.
            raise self.error.with_traceback(None)

    def _cut(self, data: bytes) -> tuple[list[Fragment], int]:
        """The whole fragments that `data` starts with, and how many of its bytes need not be seen again."""
        fragments: list[Fragment] = []
        at = 0
        self._wanted = HEADER_SIZE
        try:
            while len(data) - at >= HEADER_SIZE:
                header, _ = Header.decode(data, at)
                size = header.frag_length
                if len(data) - at < size:
                    self._wanted = size
                    break
                fragments.append(Fragment.behind(header, data[at : at + size]))
                at += size
        except DecodeError as error:
            self.error = error
            at = len(data)
        return fragments, at
