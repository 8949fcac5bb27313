"""The PDUs that begin a connection: C706 12.6.3.1, 12.6.4.2 to 12.6.4.5; MS-RPCE 2.2.2.4, 2.2.2.5, 2.2.2.9 to 2.2.2.15.

bind and alter_context offer presentation contexts, each an interface with the transfer syntaxes that the client speaks;
bind_ack and alter_context_resp answer each of them in its place. The counts of the lists follow from the lists. Bytes
after the last field of a PDU are kept in `rest`.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import ClassVar, Final, Self

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, parse_guid
from waypost.rpc.pdu import Fragment, PacketType
from waypost.wire.codec import cut_short, encodes, exactly, padding_for

SYNTAX: Final = "C706 12.6.3.1 p_syntax_id_t"
CONTEXT: Final = "C706 12.6.3.1 p_cont_elem_t"
BIND: Final = "C706 12.6.4.3"
BIND_ACK: Final = "C706 12.6.4.4"
BIND_NAK: Final = "C706 12.6.4.5"

_SYNTAX: Final = Struct("<16sI")
_CONTEXT: Final = Struct("<HBB")
_FIXED: Final = Struct("<HHI")
_LIST: Final = Struct("<BBH")
_RESULT: Final = Struct("<HH")
_LENGTH: Final = Struct("<H")
_NAK: Final = Struct("<HB")
_VERSION: Final = Struct("<BB")


class BindResult(IntEnum):
    """C706 12.6.3.1 p_cont_def_result_t, with the member of MS-RPCE 2.2.2.4."""

    ACCEPTANCE = 0
    USER_REJECTION = 1
    PROVIDER_REJECTION = 2
    NEGOTIATE_ACK = 3


class RejectionReason(IntEnum):
    """C706 12.6.3.1 p_provider_reason_t: why a presentation context is not accepted."""

    REASON_NOT_SPECIFIED = 0
    ABSTRACT_SYNTAX_NOT_SUPPORTED = 1
    PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED = 2
    LOCAL_LIMIT_EXCEEDED = 3


class RejectReason(IntEnum):
    """C706 12.6.3.1 p_reject_reason_t and MS-RPCE 2.2.2.5: why a whole bind is refused."""

    REASON_NOT_SPECIFIED = 0
    TEMPORARY_CONGESTION = 1
    LOCAL_LIMIT_EXCEEDED = 2
    PROTOCOL_VERSION_NOT_SUPPORTED = 4
    AUTHENTICATION_TYPE_NOT_RECOGNIZED = 8
    INVALID_CHECKSUM = 9


@dataclass(frozen=True, slots=True)
class SyntaxId:
    """An interface or a transfer syntax. `version` has the major number in its low 16 bits, the minor in its high."""

    uuid: bytes
    version: int

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SyntaxId, int]":
        try:
            return cls(*_SYNTAX.unpack_from(buf, at)), at + _SYNTAX.size
        except struct.error:
            raise cut_short(SYNTAX, "p_syntax_id", at, len(buf)) from None

    @encodes(SYNTAX, "p_syntax_id")
    def encode(self) -> bytes:
        return _SYNTAX.pack(exactly(16, self.uuid, SYNTAX, "if_uuid"), self.version)

    @property
    def major(self) -> int:
        return self.version & 0xFFFF

    @property
    def minor(self) -> int:
        return self.version >> 16

    @property
    def feature_bitmask(self) -> int | None:
        """MS-RPCE 3.3.1.5.3: what a client offers in the place of a transfer syntax; None for one that is real."""
        if self.uuid[:8] != BIND_TIME_FEATURES or self.version != 1:
            return None
        return int.from_bytes(self.uuid[8:], "little")


# MS-RPCE 2.2.4.12 and 2.2.5.1.
NDR20: Final = SyntaxId(parse_guid("8a885d04-1ceb-11c9-9fe8-08002b104860"), 2)
NDR64: Final = SyntaxId(parse_guid("71710533-beba-4937-8319-b5dbef9ccc36"), 1)
NO_SYNTAX: Final = SyntaxId(NULL_GUID, 0)

# MS-RPCE 3.3.1.5.3: the UUID prefix 6CB71C2C-9812-4540, and the bits of 2.2.2.14.
BIND_TIME_FEATURES: Final = parse_guid("6cb71c2c-9812-4540-0000-000000000000")[:8]
SECURITY_CONTEXT_MULTIPLEXING: Final = 0x01
KEEP_CONNECTION_ON_ORPHAN: Final = 0x02


def bind_time_features(bitmask: int) -> SyntaxId:
    """MS-RPCE 3.3.1.5.3: the transfer syntax that offers these features."""
    return SyntaxId(BIND_TIME_FEATURES + bitmask.to_bytes(8, "little"), 1)


@dataclass(slots=True)
class ContextElement:
    """p_cont_elem_t: an interface that the client wants to call, under a number that it chooses."""

    context_id: int
    abstract: SyntaxId
    transfers: list[SyntaxId]
    reserved: int = 0

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[ContextElement, int]":
        try:
            context_id, count, reserved = _CONTEXT.unpack_from(buf, at)
        except struct.error:
            raise cut_short(CONTEXT, "p_cont_elem", at, len(buf)) from None
        abstract, at = SyntaxId.decode(buf, at + _CONTEXT.size)
        if count * _SYNTAX.size > len(buf) - at:
            raise cut_short(CONTEXT, "transfer_syntaxes", at, len(buf))
        transfers = [SyntaxId(*_SYNTAX.unpack_from(buf, at + n * _SYNTAX.size)) for n in range(count)]
        return cls(context_id, abstract, transfers, reserved), at + count * _SYNTAX.size

    @encodes(CONTEXT, "p_cont_elem")
    def encode(self) -> bytes:
        head = _CONTEXT.pack(self.context_id, len(self.transfers), self.reserved)
        return b"".join((head, self.abstract.encode(), *(transfer.encode() for transfer in self.transfers)))


@dataclass(slots=True)
class ContextResult:
    """p_result_t: the answer to one ContextElement.

    With NEGOTIATE_ACK `reason` is the bit mask of MS-RPCE 2.2.2.15, and `transfer` is null unless the context is
    accepted.
    """

    result: int
    reason: int = 0
    transfer: SyntaxId = NO_SYNTAX

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[ContextResult, int]":
        try:
            result, reason = _RESULT.unpack_from(buf, at)
        except struct.error:
            raise cut_short(BIND_ACK, "p_result", at, len(buf)) from None
        transfer, at = SyntaxId.decode(buf, at + _RESULT.size)
        return cls(result, reason, transfer), at

    @encodes(BIND_ACK, "p_result")
    def encode(self) -> bytes:
        return _RESULT.pack(self.result, self.reason) + self.transfer.encode()


@dataclass(slots=True)
class Bind:
    """C706 12.6.4.3. `assoc_group_id` is 0 to begin an association group."""

    packet_type: ClassVar[PacketType] = PacketType.BIND

    max_xmit_frag: int
    max_recv_frag: int
    assoc_group_id: int
    contexts: list[ContextElement]
    reserved: int = 0
    reserved2: int = 0
    rest: bytes = b""

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        try:
            xmit, recv, group = _FIXED.unpack_from(buf, 0)
            count, reserved, reserved2 = _LIST.unpack_from(buf, _FIXED.size)
        except struct.error:
            raise cut_short(BIND, "p_context_elem", 0, len(buf)) from None
        at = _FIXED.size + _LIST.size
        contexts = []
        for _ in range(count):
            context, at = ContextElement.decode(buf, at)
            contexts.append(context)
        return cls(xmit, recv, group, contexts, reserved, reserved2, buf[at:])

    @encodes(BIND, "bind")
    def encode(self) -> bytes:
        head = _FIXED.pack(self.max_xmit_frag, self.max_recv_frag, self.assoc_group_id)
        head += _LIST.pack(len(self.contexts), self.reserved, self.reserved2)
        return b"".join((head, *(context.encode() for context in self.contexts), self.rest))


@dataclass(slots=True)
class AlterContext(Bind):
    """C706 12.6.4.1: a bind on a connection that has one."""

    packet_type: ClassVar[PacketType] = PacketType.ALTER_CONTEXT


@dataclass(slots=True)
class BindAck:
    """C706 12.6.4.4. `sec_addr` is the server's port as ASCII digits with a null behind them, or nothing."""

    packet_type: ClassVar[PacketType] = PacketType.BIND_ACK

    max_xmit_frag: int
    max_recv_frag: int
    assoc_group_id: int
    sec_addr: bytes
    results: list[ContextResult]
    padding: bytes = b""
    reserved: int = 0
    reserved2: int = 0
    rest: bytes = b""

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        try:
            xmit, recv, group = _FIXED.unpack_from(buf, 0)
            (length,) = _LENGTH.unpack_from(buf, _FIXED.size)
            at = _FIXED.size + _LENGTH.size
            sec_addr = buf[at : at + length]
            at += length
            padding = buf[at : at + (-at & 3)]
            at += -at & 3
            count, reserved, reserved2 = _LIST.unpack_from(buf, at)
        except struct.error:
            raise cut_short(BIND_ACK, "p_result_list", 0, len(buf)) from None
        at += _LIST.size
        results = []
        for _ in range(count):
            result, at = ContextResult.decode(buf, at)
            results.append(result)
        return cls(xmit, recv, group, sec_addr, results, padding, reserved, reserved2, buf[at:])

    @encodes(BIND_ACK, "bind_ack")
    def encode(self) -> bytes:
        head = _FIXED.pack(self.max_xmit_frag, self.max_recv_frag, self.assoc_group_id)
        head += _LENGTH.pack(len(self.sec_addr)) + self.sec_addr
        head += padding_for(len(head), self.padding)
        head += _LIST.pack(len(self.results), self.reserved, self.reserved2)
        return b"".join((head, *(result.encode() for result in self.results), self.rest))


@dataclass(slots=True)
class AlterContextResponse(BindAck):
    """C706 12.6.4.2."""

    packet_type: ClassVar[PacketType] = PacketType.ALTER_CONTEXT_RESP


@dataclass(slots=True)
class BindNak:
    """C706 12.6.4.5, MS-RPCE 2.2.2.9. `versions` are pairs of a major and a minor number.

    `rest` is the optional signature with the extended error information behind it, which a client may ignore.
    """

    packet_type: ClassVar[PacketType] = PacketType.BIND_NAK

    provider_reject_reason: int
    versions: list[tuple[int, int]] = field(default_factory=lambda: [(5, 0)])
    rest: bytes = b""

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        buf = fragment.content
        try:
            reason, count = _NAK.unpack_from(buf, 0)
        except struct.error:
            raise cut_short(BIND_NAK, "provider_reject_reason", 0, len(buf)) from None
        at = _NAK.size + count * _VERSION.size
        if at > len(buf):
            raise DecodeError(
                BIND_NAK, "n_protocols", 2, f"the value is {count}, but {len(buf) - _NAK.size} bytes follow"
            )
        return cls(reason, list(_VERSION.iter_unpack(buf[_NAK.size : at])), buf[at:])

    @encodes(BIND_NAK, "bind_nak")
    def encode(self) -> bytes:
        versions = b"".join(_VERSION.pack(*version) for version in self.versions)
        return _NAK.pack(self.provider_reject_reason, len(self.versions)) + versions + self.rest


@dataclass(slots=True)
class Auth3:
    """MS-RPCE 2.2.2.10: the last token of three. Its body is ignored."""

    packet_type: ClassVar[PacketType] = PacketType.AUTH3

    pad: bytes = bytes(4)

    @classmethod
    def decode(cls, fragment: Fragment) -> Self:
        return cls(fragment.content)

    def encode(self) -> bytes:
        return self.pad
