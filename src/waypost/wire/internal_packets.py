"""The packets that set up and acknowledge a session: MS-MQQB 2.2.1 to 2.2.3 and 2.2.6.

Each has IN set and a fixed size.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.wire import base_header
from waypost.wire.base_header import DEFAULT_PRIORITY, BaseHeader
from waypost.wire.codec import cut_short, encodes, exactly
from waypost.wire.session_header import DEFAULT_WINDOW_SIZE, SessionHeader

# InternalHeader.Flags
PT: Final = 0x000F
CS: Final = 0x0010

SESSION_ACK: Final = 0x1
ESTABLISH_CONNECTION: Final = 0x2
CONNECTION_PARAMETERS: Final = 0x3

# EstablishConnectionHeader.OperatingSystem
RE: Final = 0x00FF
SE: Final = 0x0100
OS: Final = 0x0200
QS: Final = 0x0400
RE_VALUE: Final = 0x10

INTERNAL_AT: Final = 16
BODY_AT: Final = 20
INTERNAL_LAYOUT: Final = Struct("<HH")
ESTABLISH_LAYOUT: Final = Struct("<16s16sIHH512s")
PARAMETERS_LAYOUT: Final = Struct("<IIHH")

ESTABLISH_SIZE: Final = 572
PARAMETERS_SIZE: Final = 32
SESSION_ACK_SIZE: Final = 36

RESPONSE_PADDING: Final = b"\x5a" * 512


def _base(flags: int, packet_size: int) -> BaseHeader:
    return BaseHeader(flags=DEFAULT_PRIORITY | base_header.IN | flags, packet_size=packet_size)


@dataclass(slots=True)
class InternalHeader:
    """MS-MQQB 2.2.1: which internal packet this is, and whether the connection is refused."""

    reserved: int = 0
    flags: int = 0

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[InternalHeader, int]":
        if len(buf) - at < 4:
            raise cut_short("MS-MQQB 2.2.1", "InternalHeader", at, len(buf))
        return cls(*INTERNAL_LAYOUT.unpack_from(buf, at)), at + 4

    @encodes("MS-MQQB 2.2.1", "InternalHeader")
    def encode(self) -> bytes:
        return INTERNAL_LAYOUT.pack(self.reserved, self.flags)

    @property
    def packet_type(self) -> int:
        return self.flags & PT

    @property
    def is_refused(self) -> bool:
        return self.flags & CS != 0


@dataclass(slots=True)
class EstablishConnection:
    """MS-MQQB 2.2.3: asks for a session and, echoed by the acceptor, grants or refuses it."""

    base: BaseHeader = field(default_factory=lambda: _base(0, ESTABLISH_SIZE))
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=ESTABLISH_CONNECTION))
    client_guid: bytes = NULL_GUID
    server_guid: bytes = NULL_GUID
    time_stamp: int = 0
    operating_system: int = RE_VALUE
    reserved: int = 0
    padding: bytes = RESPONSE_PADDING

    @classmethod
    def decode(cls, buf: bytes) -> "EstablishConnection":
        base, internal = _decode_headers(buf, ESTABLISH_SIZE, "MS-MQQB 2.2.3")
        return cls(base, internal, *ESTABLISH_LAYOUT.unpack_from(buf, BODY_AT))

    @encodes("MS-MQQB 2.2.3", "EstablishConnection Packet")
    def encode(self) -> bytes:
        body = ESTABLISH_LAYOUT.pack(
            exactly(16, self.client_guid, "MS-MQQB 2.2.3.1", "ClientGuid"),
            exactly(16, self.server_guid, "MS-MQQB 2.2.3.1", "ServerGuid"),
            self.time_stamp,
            self.operating_system,
            self.reserved,
            exactly(512, self.padding, "MS-MQQB 2.2.3.1", "Padding"),
        )
        return self.base.encode() + self.internal.encode() + body

    @classmethod
    def request(
        cls, client_guid: bytes, server_guid: bytes, time_stamp: int, operating_system: int
    ) -> "EstablishConnection":
        """MS-MQQB 3.1.5.2.3.

        `server_guid` is NULL_GUID for a direct format name; `operating_system` holds SE, OS and QS; of `time_stamp`,
        milliseconds since the system started, the low 32 bits count.
        """
        return cls(
            client_guid=client_guid,
            server_guid=server_guid,
            time_stamp=time_stamp & 0xFFFF_FFFF,
            operating_system=operating_system & (SE | OS | QS) | RE_VALUE,
        )

    def accepted(self, own_guid: bytes) -> "EstablishConnection":
        """MS-MQQB 3.1.5.3.1: the response to this request that grants the session."""
        return self.request(self.client_guid, own_guid, self.time_stamp, self.operating_system)

    def refused(self, own_guid: bytes) -> "EstablishConnection":
        """MS-MQQB 3.1.5.3.1: the response to this request that refuses the session."""
        response = self.accepted(own_guid)
        response.internal.flags |= CS
        return response


@dataclass(slots=True)
class ConnectionParameters:
    """MS-MQQB 2.2.2: acknowledgment time-outs and the window, once from each side."""

    base: BaseHeader = field(default_factory=lambda: _base(0, PARAMETERS_SIZE))
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=CONNECTION_PARAMETERS))
    recoverable_ack_timeout: int = 0
    ack_timeout: int = 0
    reserved: int = 0
    window_size: int = DEFAULT_WINDOW_SIZE

    @classmethod
    def decode(cls, buf: bytes) -> "ConnectionParameters":
        base, internal = _decode_headers(buf, PARAMETERS_SIZE, "MS-MQQB 2.2.2")
        return cls(base, internal, *PARAMETERS_LAYOUT.unpack_from(buf, BODY_AT))

    @encodes("MS-MQQB 2.2.2", "ConnectionParameters Packet")
    def encode(self) -> bytes:
        body = PARAMETERS_LAYOUT.pack(self.recoverable_ack_timeout, self.ack_timeout, self.reserved, self.window_size)
        return self.base.encode() + self.internal.encode() + body

    def response(self, window_size: int) -> "ConnectionParameters":
        """MS-MQQB 3.1.5.4.1: the acceptor's answer echoes the time-outs and states its own window."""
        return ConnectionParameters(
            recoverable_ack_timeout=self.recoverable_ack_timeout, ack_timeout=self.ack_timeout, window_size=window_size
        )

    @property
    def window(self) -> int:
        """WindowSize, with 0 read as 1 (readings MQQB 3.13)."""
        return self.window_size or 1


@dataclass(slots=True)
class SessionAck:
    """MS-MQQB 2.2.6: a session acknowledgment alone. Its PacketSize counts the SessionHeader (readings MQQB 1)."""

    base: BaseHeader = field(default_factory=lambda: _base(base_header.SH, SESSION_ACK_SIZE))
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=SESSION_ACK))
    session: SessionHeader = field(default_factory=SessionHeader)

    @classmethod
    def decode(cls, buf: bytes) -> "SessionAck":
        base, internal = _decode_headers(buf, SESSION_ACK_SIZE, "MS-MQQB 2.2.6")
        if not base.flags & base_header.SH:
            raise DecodeError("MS-MQQB 2.2.6", "Flags", 2, "SH is clear in a SessionAck Packet")
        if internal.flags & CS:
            raise DecodeError("MS-MQQB 2.2.1", "Flags", INTERNAL_AT + 2, "CS is set in a SessionAck Packet")
        session, _ = SessionHeader.decode(buf, BODY_AT)
        return cls(base, internal, session)

    @encodes("MS-MQQB 2.2.6", "SessionAck Packet")
    def encode(self) -> bytes:
        return self.base.encode() + self.internal.encode() + self.session.encode()


_ACK_HEADERS: Final = SessionAck().encode()[:BODY_AT]


def encode_session_ack(header: SessionHeader) -> bytes:
    """The bytes of a SessionAck with this header: what is before it is always the same."""
    return _ACK_HEADERS + header.encode()


def is_session_ack(data: bytes) -> bool:
    """Whether these are bytes of `encode_session_ack`."""
    return data.startswith(_ACK_HEADERS)


InternalPacket = EstablishConnection | ConnectionParameters | SessionAck

_KINDS: Final[dict[int, type[InternalPacket]]] = {
    SESSION_ACK: SessionAck,
    ESTABLISH_CONNECTION: EstablishConnection,
    CONNECTION_PARAMETERS: ConnectionParameters,
}


def decode_internal(buf: bytes) -> InternalPacket:
    """MS-MQQB 3.1.5.1.1: a packet with IN set is known by InternalHeader.Flags.PT."""
    internal, _ = InternalHeader.decode(buf, INTERNAL_AT)
    kind = _KINDS.get(internal.packet_type)
    if kind is None:
        raise DecodeError(
            "MS-MQQB 2.2.1", "Flags", INTERNAL_AT + 2, f"PT must be 1, 2 or 3, not {internal.packet_type}"
        )
    return kind.decode(buf)


def _decode_headers(buf: bytes, size: int, section: str) -> tuple[BaseHeader, InternalHeader]:
    base, at = BaseHeader.decode(buf, 0)
    internal, _ = InternalHeader.decode(buf, at)
    # TR demands DH (MS-MQMQ 2.2.19.1).
    if base.flags & (base_header.DH | base_header.TR):
        reason = "DH or TR is set in a packet that is not a UserMessage Packet"
        raise DecodeError(base_header.SECTION, "Flags", 2, reason)
    if base.packet_size != size:
        raise DecodeError(section, "PacketSize", 8, f"must be {size}, not {base.packet_size}")
    if len(buf) != size:
        raise DecodeError(section, "PacketSize", 8, f"the value is {size}, but the packet has {len(buf)} bytes")
    return base, internal
