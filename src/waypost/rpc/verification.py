"""MS-RPCE 2.2.2.13: the verification trailer behind the stub data of a request.

It repeats, where the security package protects it, what the client has said where nothing did: that it can sign
headers, which presentation context it negotiated, and what the header of the request says. A server that finds another
thing there has been lied to on the way.
"""

import struct
from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import ProtocolError
from waypost.hresult import HResult
from waypost.rpc.binds import SyntaxId
from waypost.rpc.pdu import LITTLE_ENDIAN, PacketType
from waypost.wire.codec import PADDING

SIGNATURE: Final = bytes.fromhex("8ae3137102f43671")

COMMAND_BITMASK_1: Final = 0x0001
COMMAND_PCONTEXT: Final = 0x0002
COMMAND_HEADER2: Final = 0x0003
COMMAND_TYPE: Final = 0x3FFF
COMMAND_END: Final = 0x4000
MUST_PROCESS_COMMAND: Final = 0x8000

CLIENT_SUPPORT_HEADER_SIGNING: Final = 0x0000_0001

_COMMAND: Final = Struct("<HH")
_BITMASK: Final = Struct("<I")
_HEADER2: Final = Struct("<BBH4sIHH")


class VerificationFailed(ProtocolError):
    """The trailer is malformed, or says something else than the rest of the connection. It answers as status 5."""

    hresult = HResult.MQ_ERROR_ACCESS_DENIED


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts that a trailer verifies, as one side of the connection knows them."""

    call_id: int
    context_id: int
    opnum: int
    abstract: SyntaxId
    transfer: SyntaxId
    signs_headers: bool

    def header2(self) -> bytes:
        return _HEADER2.pack(PacketType.REQUEST, 0, 0, LITTLE_ENDIAN, self.call_id, self.context_id, self.opnum)

    def presentation_context(self) -> bytes:
        return self.abstract.encode() + self.transfer.encode()


def append_trailer(stub: bytes, facts: CallFacts) -> bytes:
    """The stub data with the trailer of a client whose package signs headers, as MS-RPCE notes 41 to 43 have it."""
    bits = _BITMASK.pack(CLIENT_SUPPORT_HEADER_SIGNING if facts.signs_headers else 0)
    return b"".join((
        stub, PADDING[-len(stub) & 3], SIGNATURE,
        _command(COMMAND_BITMASK_1, bits),
        _command(COMMAND_PCONTEXT | COMMAND_END, facts.presentation_context()),
    ))  # fmt: skip


def _command(command: int, value: bytes) -> bytes:
    return _COMMAND.pack(command, len(value)) + value


def strip_trailer(data: bytes, facts: CallFacts) -> bytes:
    """The stub data, with what aligned the trailer but without the trailer, which is checked. None at all is right too.

    Where the stub data ends only its reader knows, so the last signature is taken.
    """
    stub, signature, _ = data.rpartition(SIGNATURE)
    if not signature:
        return data
    _check_commands(data, len(stub) + len(SIGNATURE), facts)
    return stub


def _check_commands(data: bytes, at: int, facts: CallFacts) -> None:
    command = 0
    while not command & COMMAND_END:
        try:
            command, length = _COMMAND.unpack_from(data, at)
        except struct.error:
            raise VerificationFailed("the verification trailer has no end command (MS-RPCE 2.2.2.13)") from None
        at += _COMMAND.size
        if length > len(data) - at:
            raise VerificationFailed("the verification trailer is incomplete (MS-RPCE 2.2.2.13)")
        _check_command(command, data[at : at + length], facts)
        at += length


def _check_command(command: int, value: bytes, facts: CallFacts) -> None:
    kind = command & COMMAND_TYPE
    if kind == COMMAND_BITMASK_1:
        agrees = _agrees_with_bitmask(value, facts)
    elif kind == COMMAND_PCONTEXT:
        agrees = value == facts.presentation_context()
    elif kind == COMMAND_HEADER2:
        # 2.2.2.13.3: the three bytes behind PTYPE are ignored.
        agrees = value[:1] + bytes(3) + value[4:] == facts.header2()
    else:
        agrees = not command & MUST_PROCESS_COMMAND
    if not agrees:
        raise VerificationFailed(
            f"command 0x{command:04X} of the verification trailer does not match the call, or is not supported "
            "(MS-RPCE 2.2.2.13)"
        )


def _agrees_with_bitmask(value: bytes, facts: CallFacts) -> bool:
    """2.2.2.13.2: a client that can sign headers has said so in its bind, and nobody has taken that away."""
    if len(value) != _BITMASK.size:
        return False
    (bits,) = _BITMASK.unpack(value)
    return facts.signs_headers or not bits & CLIENT_SUPPORT_HEADER_SIGNING
