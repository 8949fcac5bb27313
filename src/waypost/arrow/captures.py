"""Messages from captures, files of raw packets and hexadecimal text, in batches for the decoder.

Only packets that can be user messages are returned, malformed and incomplete ones unchanged: the decoder says what is
wrong with them. Session packets, pings and bytes outside packets are left out; `waypost decode` shows them.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Final

import pyarrow as pa

from waypost.arrow.packets import Packets
from waypost.arrow.schema import TIMESTAMP
from waypost.captures.containers import LAST_TIME
from waypost.captures.inputs import Kind, Ports, detect, findings
from waypost.captures.packets import FoundPacket
from waypost.captures.source import InputError, Source, open_file
from waypost.wire.base_header import IN

# A batch ends with the packet that reaches one of these limits.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 0x0100_0000

# Offset of the low byte of BaseHeader.Flags.
_FLAGS_AT: Final = 2

Input = str | PathLike[str] | Source


@dataclass(frozen=True, slots=True)
class Captured:
    """Packets with their times, sources and destinations. The time is that of the last byte of a packet.

    If the input is not a capture, times and destinations are null, and the source is the name of the input.
    """

    packets: Packets
    times: pa.TimestampArray
    sources: pa.StringArray
    destinations: pa.StringArray


def packets_of(data: Input, *, kind: Kind | None = None, ports: Ports | None = None) -> Iterator[Packets]:
    """Yield the messages in a file, or in an open source. Without `kind`, the content determines the kind.

    If an input is cut short or damaged, the function yields the intact packets, and then raises InputError.
    """
    return (batch.packets for batch in captured(data, kind=kind, ports=ports))


def captured(data: Input, *, kind: Kind | None = None, ports: Ports | None = None) -> Iterator[Captured]:
    """Like `packets_of`, but yield the messages with their times and addresses."""
    opened: AbstractContextManager[Source]
    opened = nullcontext(data) if isinstance(data, Source) else open_file(fspath(data), lambda _: None)
    with opened as source:
        yield from _batches(_messages(source, kind or detect(source), ports or Ports()))


def _messages(source: Source, kind: Kind, ports: Ports) -> Iterator[FoundPacket]:
    for finding in findings(source, kind, ports):
        if isinstance(finding, FoundPacket) and not _is_internal(finding.data):
            yield finding


def _is_internal(packet: bytes) -> bool:
    return len(packet) > _FLAGS_AT and packet[_FLAGS_AT] & IN != 0


def _batches(found: Iterable[FoundPacket]) -> Iterator[Captured]:
    batch: list[FoundPacket] = []
    size = 0
    failure = None
    try:
        for packet in found:
            batch.append(packet)
            size += len(packet.data)
            if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield _captured(batch)
                batch, size = [], 0
    except InputError as error:
        failure = error
    if batch:
        yield _captured(batch)
    if failure is not None:
        raise failure


def _captured(batch: list[FoundPacket]) -> Captured:
    return Captured(
        Packets.of([found.data for found in batch]),
        pa.array([_microseconds(found.time) for found in batch], TIMESTAMP),
        pa.array([_text(found.origin.source) for found in batch], pa.string()),
        pa.array([found.origin.destination for found in batch], pa.string()),
    )


def _text(name: str) -> str:
    """The name of a file as valid text: it may have bytes that are not UTF-8."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _microseconds(time: int | None) -> int | None:
    return None if time is None or not 0 <= time <= LAST_TIME else time // 1000
