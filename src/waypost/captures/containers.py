"""Capture files: the frames of a pcap or pcapng file, one after the other.

pcap headers are read with dpkt. dpkt's pcapng reader knows one section with one interface, skips simple packet blocks
and refuses a file for a badly encoded comment; real captures have several interfaces, so the blocks are walked here. A
block is never larger than limits.py says, whatever the file claims, and only one is held at a time. A file that breaks
off or is damaged gives its good frames first, then InputError.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from dpkt import pcap

from waypost.captures.source import InputError, Source, UnknownKind
from waypost.limits import MAX_CAPTURE_BLOCK

NANOSECONDS: Final = 1_000_000_000
# The last second that a calendar date can have, 9999-12-31. A frame may claim any time.
LAST_TIME: Final = 253_402_300_799 * NANOSECONDS

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
PACKET: Final = 2
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6

IF_TSRESOL: Final = 9
IF_TSOFFSET: Final = 14

_BIG_MAGICS: Final = frozenset(magic.to_bytes(4, "big") for magic in pcap.MAGIC_TO_PKT_HDR)
_NANOSECOND_MAGICS: Final = frozenset((pcap.TCPDUMP_MAGIC_NANO, pcap.PMUDPCT_MAGIC_NANO))
_PCAPNG_MAGIC: Final = SECTION_HEADER.to_bytes(4, "big")


@dataclass(slots=True, frozen=True)
class Frame:
    """One frame. `number` counts from 1; `time` is nanoseconds since 1970; `cut` bytes of it were not kept."""

    number: int
    time: int | None
    link_type: int
    data: bytes
    cut: int


def is_capture(head: bytes) -> bool:
    """Whether a file that starts with these bytes is pcap or pcapng."""
    return head[:4] == _PCAPNG_MAGIC or head[:4] in _BIG_MAGICS


def read_frames(source: Source) -> Iterator[Frame]:
    if source.head[:4] == _PCAPNG_MAGIC:
        return _PcapngFile(source).frames()
    if source.head[:4] in _BIG_MAGICS:
        return _pcap_frames(source)
    raise UnknownKind(
        f"{source.name} is not a pcap or pcapng capture.",
        "save the capture as pcapng in Wireshark, or specify the format of the file: raw or hex.",
    )


def _broken(source: Source, what: str) -> InputError:
    return InputError(
        f"{source.name} is damaged: {what}.",
        "everything before the damage was decoded. To decode the rest, save the capture again.",
    )


def _exactly(source: Source, size: int) -> bytes:
    if size > MAX_CAPTURE_BLOCK:
        raise _broken(source, f"a block has an invalid length of {size} bytes")
    data = source.read(size)
    if len(data) < size:
        raise _broken(source, "the file ends inside a block")
    return data


def _pcap_frames(source: Source) -> Iterator[Frame]:
    header = _exactly(source, pcap.FileHdr.__hdr_len__)
    magic = pcap.FileHdr(header).magic
    packet_header = pcap.MAGIC_TO_PKT_HDR[magic]
    little = issubclass(packet_header, (pcap.LEPktHdr, pcap.LEPktModHdr))
    # The high half of the field can hold the length of a frame check sequence.
    link_type = (pcap.LEFileHdr if little else pcap.FileHdr)(header).linktype & 0xFFFF
    scale = 1 if magic in _NANOSECOND_MAGICS else 1000
    number = 0
    while start := source.read(packet_header.__hdr_len__):
        if len(start) < packet_header.__hdr_len__:
            raise _broken(source, "the file ends inside a frame header")
        number += 1
        frame = packet_header(start)
        data = _exactly(source, frame.caplen)
        time = frame.tv_sec * NANOSECONDS + frame.tv_usec * scale
        yield Frame(number, time, link_type, data, max(frame.len - frame.caplen, 0))


@dataclass(slots=True, frozen=True)
class _Interface:
    link_type: int
    snap_length: int
    units_per_second: int
    offset_seconds: int

    def time(self, high: int, low: int) -> int:
        return self.offset_seconds * NANOSECONDS + (high << 32 | low) * NANOSECONDS // self.units_per_second


class _PcapngFile:
    """The walk over the blocks. A section header forgets the interfaces and may change the byte order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.order = "<"
        self.interfaces: list[_Interface] = []
        self.number = 0

    def frames(self) -> Iterator[Frame]:
        while start := self.source.read(8):
            if len(start) < 8:
                raise _broken(self.source, "the file ends inside a block")
            if start[:4] == _PCAPNG_MAGIC:
                self._section(start)
                continue
            block_type, size = self._unpack("II", start, 0)
            body = self._body(size, 8)
            if block_type == INTERFACE_DESCRIPTION:
                self.interfaces.append(self._interface(body))
            elif block_type in (ENHANCED_PACKET, PACKET, SIMPLE_PACKET):
                self.number += 1
                yield self._simple(body) if block_type == SIMPLE_PACKET else self._packet(block_type, body)

    def _unpack(self, layout: str, data: bytes, at: int) -> tuple[int, ...]:
        fields = Struct(self.order + layout)
        if len(data) - at < fields.size:
            raise _broken(self.source, "a block is too short for its type")
        return fields.unpack_from(data, at)

    def _body(self, size: int, consumed: int) -> bytes:
        """The block after its first `consumed` bytes, without the length that is repeated at its end."""
        if size < consumed + 4 or size & 3:
            raise _broken(self.source, f"a block has an invalid length of {size} bytes")
        body = _exactly(self.source, size - consumed)
        if self._unpack("I", body, len(body) - 4)[0] != size:
            raise _broken(self.source, "the two length fields of a block differ")
        return body[:-4]

    def _section(self, start: bytes) -> None:
        mark = _exactly(self.source, 4)
        if mark not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
            raise _broken(self.source, "a section header has no valid byte-order magic")
        self.order = "<" if mark[0] == 0x4D else ">"
        self.interfaces = []
        body = self._body(self._unpack("I", start, 4)[0], 12)
        major = self._unpack("H", body, 0)[0]
        if major != 1:
            raise _broken(self.source, f"a section has the unknown pcapng version {major}")

    def _interface(self, body: bytes) -> _Interface:
        link_type, _, snap_length = self._unpack("HHI", body, 0)
        units, offset, at = 1_000_000, 0, 8
        while len(body) - at >= 4:
            code, size = self._unpack("HH", body, at)
            value = body[at + 4 : at + 4 + size]
            if code == IF_TSRESOL and len(value) == 1:
                units = (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
            elif code == IF_TSOFFSET and len(value) == 8:
                offset = self._unpack("q", value, 0)[0]
            elif code == 0:
                break
            at += 4 + size + (-size & 3)
        return _Interface(link_type, snap_length, units, offset)

    def _packet(self, block_type: int, body: bytes) -> Frame:
        layout = "IIIII" if block_type == ENHANCED_PACKET else "HxxIIII"
        index, high, low, captured, length = self._unpack(layout, body, 0)
        if index >= len(self.interfaces):
            raise _broken(self.source, f"a frame refers to interface {index}, which is not defined in the file")
        if captured > len(body) - 20:
            raise _broken(self.source, "a frame is longer than its block")
        interface = self.interfaces[index]
        data = body[20 : 20 + captured]
        return Frame(self.number, interface.time(high, low), interface.link_type, data, max(length - captured, 0))

    def _simple(self, body: bytes) -> Frame:
        length = self._unpack("I", body, 0)[0]
        if not self.interfaces:
            raise _broken(self.source, "a frame comes before the first interface")
        interface = self.interfaces[0]
        captured = min(length, interface.snap_length or length)
        if captured > len(body) - 4:
            raise _broken(self.source, "a frame is longer than its block")
        return Frame(self.number, None, interface.link_type, body[4 : 4 + captured], length - captured)
