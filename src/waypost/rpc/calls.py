"""The PDUs of calls: C706 12.6.4.7 fault, 12.6.4.9 request and 12.6.4.10 response; MS-RPCE 2.2.2.6 and 2.2.2.8.

A request or a response that is longer than a fragment travels in several: `cut` makes them and `Assembly` joins them.
Both work on fragments in clear, so what protects them stands between these and the wire.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from struct import Struct
from typing import ClassVar, Final, Generic, Self, TypeVar

from waypost.errors import DecodeError
from waypost.rpc.pdu import (
    PFC_FIRST_FRAG,
    PFC_LAST_FRAG,
    PFC_OBJECT_UUID,
    Fragment,
    Header,
    PacketType,
)
from waypost.wire.codec import cut_short, encodes, exactly

REQUEST: Final = "C706 12.6.4.9"
RESPONSE: Final = "C706 12.6.4.10"
FAULT: Final = "C706 12.6.4.7"

_REQUEST: Final = Struct("<IHH")
_RESPONSE: Final = Struct("<IHBB")
_FAULT: Final = Struct("<IHBBI")

OBJECT_SIZE: Final = 16

# C706 12.6.2: the stub data of all fragments but the last is a multiple of 8 bytes; MS-RPCE 2.2.2.11 aligns to 16.
STUB_STEP: Final = 16


class FaultStatus(IntEnum):
    """Status of a fault: Win32 codes that MS-RPCE names, and C706 Appendix N.2. A fault may have any other number."""

    ACCESS_DENIED = 0x0000_0005
    BAD_STUB_DATA = 0x0000_06F7
    UNKNOWN_AUTHN_SERVICE = 0x0000_06D3
    PROTOCOL_ERROR = 0x0000_06C0
    CALL_FAILED = 0x0000_06BE
    CALL_CANCELLED = 0x0000_071A
    SEC_PKG_ERROR = 0x0000_0721
    NCA_FAULT_INVALID_TAG = 0x1C00_0006
    NCA_FAULT_INVALID_BOUND = 0x1C00_0007
    NCA_FAULT_CANCEL = 0x1C00_000D
    NCA_FAULT_UNSPEC = 0x1C00_0012
    NCA_FAULT_CONTEXT_MISMATCH = 0x1C00_001A
    NCA_FAULT_REMOTE_NO_MEMORY = 0x1C00_001B
    NCA_INVALID_PRES_CONTEXT_ID = 0x1C00_001C
    NCA_UNSUPPORTED_AUTHN_LEVEL = 0x1C00_001D
    NCA_INVALID_CHECKSUM = 0x1C00_001F
    NCA_COMM_FAILURE = 0x1C01_0001
    NCA_OP_RNG_ERROR = 0x1C01_0002
    NCA_UNK_IF = 0x1C01_0003
    NCA_PROTO_ERROR = 0x1C01_000B
    NCA_OUT_ARGS_TOO_BIG = 0x1C01_0013
    NCA_SERVER_TOO_BUSY = 0x1C01_0014
    NCA_UNSUPPORTED_TYPE = 0x1C01_0017


@dataclass(slots=True)
class Request:
    """C706 12.6.4.9. `object` is the 16 bytes that a call for an object has, else empty."""

    packet_type: ClassVar[PacketType] = PacketType.REQUEST

    alloc_hint: int
    context_id: int
    opnum: int
    stub_data: bytes = field(repr=False)
    object: bytes = b""

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        size = stub_offset(fragment.header)
        if len(buf) < size:
            raise cut_short(REQUEST, "request", 0, len(buf))
        alloc_hint, context_id, opnum = _REQUEST.unpack_from(buf, 0)
        return cls(alloc_hint, context_id, opnum, buf[size:], buf[_REQUEST.size : size])

    @encodes(REQUEST, "request")
    def encode(self) -> bytes:
        return self.head(self.alloc_hint) + self.stub_data

    def head(self, alloc_hint: int) -> bytes:
        """The bytes before the stub data of a fragment with this alloc_hint."""
        fixed = _REQUEST.pack(alloc_hint, self.context_id, self.opnum)
        return fixed + exactly(OBJECT_SIZE, self.object, REQUEST, "object") if self.object else fixed

    @property
    def extra_flags(self) -> int:
        return PFC_OBJECT_UUID if self.object else 0


@dataclass(slots=True)
class Response:
    """C706 12.6.4.10."""

    packet_type: ClassVar[PacketType] = PacketType.RESPONSE

    alloc_hint: int
    context_id: int
    stub_data: bytes = field(repr=False)
    cancel_count: int = 0
    reserved: int = 0

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        try:
            alloc_hint, context_id, cancel_count, reserved = _RESPONSE.unpack_from(buf, 0)
        except struct.error:
            raise cut_short(RESPONSE, "response", 0, len(buf)) from None
        return cls(alloc_hint, context_id, buf[_RESPONSE.size :], cancel_count, reserved)

    @encodes(RESPONSE, "response")
    def encode(self) -> bytes:
        return self.head(self.alloc_hint) + self.stub_data

    def head(self, alloc_hint: int) -> bytes:
        """The bytes before the stub data of a fragment with this alloc_hint."""
        return _RESPONSE.pack(alloc_hint, self.context_id, self.cancel_count, self.reserved)

    @property
    def extra_flags(self) -> int:
        return 0


@dataclass(slots=True)
class Fault:
    """C706 12.6.4.7, MS-RPCE 2.2.2.8: `status` is the error, and what stands in `rest` is ignored."""

    packet_type: ClassVar[PacketType] = PacketType.FAULT

    status: int
    context_id: int = 0
    alloc_hint: int = 0
    cancel_count: int = 0
    reserved: int = 0
    rest: bytes = bytes(4)

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        try:
            alloc_hint, context_id, cancel_count, reserved, status = _FAULT.unpack_from(buf, 0)
        except struct.error:
            raise cut_short(FAULT, "fault", 0, len(buf)) from None
        return cls(status, context_id, alloc_hint, cancel_count, reserved, buf[_FAULT.size :])

    @encodes(FAULT, "fault")
    def encode(self) -> bytes:
        fixed = _FAULT.pack(self.alloc_hint, self.context_id, self.cancel_count, self.reserved, self.status)
        return fixed + self.rest


Call = TypeVar("Call", Request, Response)


def stub_offset(header: Header) -> int:
    """Number of bytes before the stub data in the body of a request or a response."""
    return _REQUEST.size + (OBJECT_SIZE if header.ptype == PacketType.REQUEST and header.has_object else 0)


def cut(call: Request | Response, call_id: int, room: int) -> Iterator[Fragment]:
    """The call in fragments of at most `room` bytes of stub data, in order.

    MS-RPCE 2.2.2.6: alloc_hint counts the stub data from its fragment on.
    """
    stub = call.stub_data
    for at in range(0, max(len(stub), 1), room):
        flags = call.extra_flags
        flags |= PFC_FIRST_FRAG if at == 0 else 0
        flags |= PFC_LAST_FRAG if at + room >= len(stub) else 0
        body = call.head(len(stub) - at) + stub[at : at + room]
        yield Fragment(Header(ptype=call.packet_type, pfc_flags=flags, call_id=call_id), body)


class StubTooLong(DecodeError):
    """MS-RPCE 3.3.3.5.4: the stub data of all fragments together is longer than is taken here."""


class Assembly(Generic[Call]):
    """Joins the fragments of one call, which come one by one and in clear."""

    __slots__ = ("_call", "_call_id", "_limit", "_record", "_stub")

    def __init__(self, record: type[Call], limit: int) -> None:
        self._record: Final[type[Call]] = record
        self._limit: Final = limit
        self._call: Call | None = None
        self._call_id = 0
        self._stub = bytearray()

    @property
    def is_empty(self) -> bool:
        return self._call is None

    def add(self, fragment: Fragment) -> Call | None:
        """The whole call with its last fragment, else None. The Assembly is empty again after the last."""
        return self.join(self._record.decode(fragment), fragment.header)

    def join(self, part: Call, header: Header) -> Call | None:
        """The same for a fragment that is decoded already."""
        if header.is_first != self.is_empty:
            where = "the first" if self.is_empty else "a later"
            raise DecodeError(
                "C706 12.6.3.1", "pfc_flags", 3, f"0x{header.pfc_flags:02X} is wrong for {where} fragment"
            )
        if self._call is None:
            self._call, self._call_id = part, header.call_id
        elif header.call_id != self._call_id or not _is_same(part, self._call):
            raise DecodeError("C706 12.6.3.1", "call_id", 12, "the fragments have different call_ids or operations")
        if len(self._stub) + len(part.stub_data) > self._limit:
            raise StubTooLong("MS-RPCE 3.3.3.5.4", "stub_data", 0, f"must have at most {self._limit} bytes")
        if header.is_first and header.is_last:
            self._call = None
            return part
        self._stub += part.stub_data
        if not header.is_last:
            return None
        whole = replace(self._call, stub_data=bytes(self._stub))
        self._call = None
        self._stub = bytearray()
        return whole


def _is_same(part: Request | Response, first: Request | Response) -> bool:
    """Whether a later fragment names the context and the method of the first."""
    if isinstance(part, Request) and isinstance(first, Request) and part.opnum != first.opnum:
        return False
    return part.context_id == first.context_id
