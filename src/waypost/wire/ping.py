"""MS-MQQB 2.2.7 Ping Packet: 24 bytes over UDP, without a BaseHeader."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.wire.codec import encodes, exactly

SECTION: Final = "MS-MQQB 2.2.7"
SIZE: Final = 24
SIGNATURE: Final = 0x5548
# MS-MQQB 2.1.2.
PING_PORT: Final = 3527

RC: Final = 0x0001
RF: Final = 0x0002

LAYOUT: Final = Struct("<HHI16s")


@dataclass(slots=True)
class Ping:
    """A request, or the response that repeats its RC and Cookie.

    RC: the initiator is not a server; RF: the acceptor would refuse a session.
    """

    flags: int = 0
    signature: int = SIGNATURE
    cookie: int = 0
    qm_guid: bytes = NULL_GUID

    @classmethod
    def decode(cls, buf: bytes) -> "Ping":
        if len(buf) != SIZE:
            raise DecodeError(SECTION, "Ping Packet", 0, f"must have 24 bytes, not {len(buf)}")
        ping = cls(*LAYOUT.unpack(buf))
        if ping.signature != SIGNATURE:
            raise DecodeError(SECTION, "Signature", 2, f"must be 0x5548, not 0x{ping.signature:04X}")
        return ping

    @encodes(SECTION, "Ping Packet")
    def encode(self) -> bytes:
        return LAYOUT.pack(self.flags, self.signature, self.cookie, exactly(16, self.qm_guid, SECTION, "QMGuid"))

    def accepted(self, own_guid: bytes) -> "Ping":
        """The response of an acceptor that would take a session from this initiator now."""
        return Ping(flags=self.flags & RC, cookie=self.cookie, qm_guid=own_guid)

    def refused(self, own_guid: bytes) -> "Ping":
        """The response of an acceptor that would not."""
        return Ping(flags=self.flags & RC | RF, cookie=self.cookie, qm_guid=own_guid)

    def answers(self, request: "Ping") -> bool:
        """Whether this is the response to `request`."""
        return self.cookie == request.cookie
