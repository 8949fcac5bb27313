"""Kinds of input, and the findings in them: the one place where files of all kinds become findings."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from waypost.captures.containers import is_capture, read_frames
from waypost.captures.frames import Datagram, Dissector, Remark, Segment
from waypost.captures.hextext import HexText, is_text
from waypost.captures.packets import Cutter, Finding, FoundPing, Gap, Origin
from waypost.captures.source import InputError, Source, UnknownKind
from waypost.captures.streams import Reassembler
from waypost.wire import base_header, ping
from waypost.wire.ping import PING_PORT
from waypost.wire.session_header import SESSION_PORT

_SIGNATURE: Final = base_header.SIGNATURE.to_bytes(4, "little")
_PING_SIGNATURE: Final = ping.SIGNATURE.to_bytes(2, "little")

# Files that people have in place of a capture: the kind, the advice, and the first bytes.
OTHER_FORMATS: Final = (
    ("compressed with gzip", "decompress the file first, with gunzip.", b"\x1f\x8b"),
    ("a capture of Network Monitor", "open the file in Wireshark and save it as pcapng.", b"GMBU"),
)


class Kind(StrEnum):
    """Kind of input; pcap includes pcapng."""

    RAW = "raw"
    HEX = "hex"
    PCAP = "pcap"


@dataclass(slots=True, frozen=True)
class Ports:
    """The ports of queue managers in a capture."""

    tcp: frozenset[int] = frozenset({SESSION_PORT})
    ping: frozenset[int] = frozenset({PING_PORT})


def detect(source: Source) -> Kind:
    head = source.head
    if is_capture(head):
        return Kind.PCAP
    _refuse_other_formats(source)
    if is_text(head):
        return Kind.HEX
    if _SIGNATURE in head or (len(head) == ping.SIZE and head[2:4] == _PING_SIGNATURE):
        return Kind.RAW
    raise UnknownKind(
        f"{source.name} is not a packet file, hexadecimal text or a capture.",
        "specify the format of the file: raw, hex or pcap.",
    )


def _refuse_other_formats(source: Source) -> None:
    for what, hint, magic in OTHER_FORMATS:
        if source.head.startswith(magic):
            raise InputError(f"{source.name} is {what}.", hint)
    # An event trace has no magic number.
    if source.name.lower().endswith(".etl"):
        raise InputError(f"{source.name} is an event trace of Windows.", "convert the file with etl2pcapng first.")


def findings(source: Source, kind: Kind, ports: Ports) -> Iterator[Finding | Remark]:
    match kind:
        case Kind.RAW:
            return _raw(source)
        case Kind.HEX:
            return _hex(source)
        case Kind.PCAP:
            return _capture(source, ports)


def _raw(source: Source) -> Iterator[Finding]:
    cutter = Cutter(Origin(source.name))
    for chunk in source.chunks():
        yield from cutter.feed(None, chunk)
    yield from cutter.finish()


def _hex(source: Source) -> Iterator[Finding]:
    cutters = (Cutter(Origin(source.name)), Cutter(Origin(f"{source.name}, indented lines")))
    failure = None
    try:
        for stream, data in HexText(source).pieces():
            yield from cutters[stream].feed(None, data)
    except InputError as error:
        failure = error
    for cutter in cutters:
        yield from cutter.finish()
    if failure is not None:
        raise failure


def _capture(source: Source, ports: Ports) -> Iterator[Finding | Remark]:
    dissector = Dissector(ports.tcp, ports.ping)
    reassembler = Reassembler()
    failure = None
    try:
        for frame in read_frames(source):
            match dissector.dissect(frame):
                case Segment() as segment:
                    yield from reassembler.feed(segment)
                case Datagram() as datagram:
                    yield from _ping(datagram)
                case Remark() as remark:
                    yield remark
    except InputError as error:
        failure = error
    yield from reassembler.finish()
    if failure is not None:
        raise failure


def _ping(datagram: Datagram) -> Iterator[Finding]:
    origin = Origin(datagram.flow.source_text, datagram.flow.destination_text)
    yield FoundPing(origin, datagram.time, datagram.data, len(datagram.data) + datagram.cut)
    if datagram.cut:
        yield Gap(origin, datagram.time, datagram.cut, "was truncated by the snap length of the capture")
