"""TCP reassembly: from segments in the order of a capture to the bytes of each direction in the order of the stream.

A segment that comes too early waits in a heap; one that repeats bytes is trimmed. When more waits than limits.py
allows, or the capture ends, the missing bytes count as a gap and the stream goes on behind it. The first segment seen
is the start of a stream whose SYN was not captured. A SYN with another sequence number, or a number farther away than
any window, begins a new stream on the same ports.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from waypost.captures.frames import Flow, Segment
from waypost.captures.packets import Cutter, Finding, Origin
from waypost.limits import (
    MAX_CAPTURE_FLOWS,
    MAX_CAPTURE_HELD,
    MAX_TCP_WINDOW,
    MAX_WAITING_BYTES,
    MAX_WAITING_SEGMENTS,
)

SEGMENT_OVERHEAD: Final = 512

_HALF: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


@dataclass(slots=True, order=True)
class _Waiting:
    """A segment and its place: `at` counts bytes from the start of the stream and does not wrap."""

    at: int
    segment: Segment = field(compare=False)


class _Stream:
    """One direction of one connection."""

    def __init__(self, first: Segment) -> None:
        self._has_syn = first.starts
        self._start = first.sequence
        self._next = 0
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._packets = Cutter(Origin(first.flow.source_text, first.flow.destination_text))

    @property
    def held(self) -> int:
        """Bytes in memory for this stream, with what the objects of waiting segments take."""
        return self._waiting_bytes + len(self._waiting) * SEGMENT_OVERHEAD + self._packets.held

    def is_continued_by(self, segment: Segment) -> bool:
        if segment.starts:
            return self._has_syn and segment.sequence == self._start
        return abs(self._distance(segment)) <= MAX_TCP_WINDOW

    def _distance(self, segment: Segment) -> int:
        """Distance from the next byte wanted to the start of the segment, negative for old bytes; modulo 2**32."""
        return ((segment.sequence - self._start - self._next + _HALF) & _MASK) - _HALF

    def feed(self, segment: Segment) -> Iterator[Finding]:
        if not segment.data and not segment.cut:
            return
        at = self._next + self._distance(segment)
        if at < 0 and not self._has_syn:
            yield from self._packets.late(segment.time, min(-at, len(segment.data)))
        heapq.heappush(self._waiting, _Waiting(at, segment))
        self._waiting_bytes += len(segment.data)
        yield from self._deliver()
        while len(self._waiting) > MAX_WAITING_SEGMENTS or self._waiting_bytes > MAX_WAITING_BYTES:
            yield from self._skip()

    def finish(self) -> Iterator[Finding]:
        while self._waiting:
            yield from self._skip()
        yield from self._packets.finish()

    def _skip(self) -> Iterator[Finding]:
        first = self._waiting[0]
        yield from self._packets.gap(first.segment.time, first.at - self._next, "is missing from the capture")
        self._next = first.at
        yield from self._deliver()

    def _deliver(self) -> Iterator[Finding]:
        while self._waiting and self._waiting[0].at <= self._next:
            item = heapq.heappop(self._waiting)
            segment = item.segment
            self._waiting_bytes -= len(segment.data)
            data = segment.data[self._next - item.at :]
            self._next += len(data)
            yield from self._packets.feed(segment.time, data)
            cut = item.at + len(segment.data) + segment.cut - self._next
            if segment.cut and cut > 0:
                self._next += cut
                yield from self._packets.gap(segment.time, cut, "was truncated by the snap length of the capture")


class Reassembler:
    """All streams of a capture."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Flow, _Stream] = OrderedDict()
        self._held = 0

    def feed(self, segment: Segment) -> Iterator[Finding]:
        stream = self._streams.get(segment.flow)
        if stream is not None and not stream.is_continued_by(segment):
            yield from self._close(segment.flow)
            stream = None
        if stream is None:
            stream = self._streams[segment.flow] = _Stream(segment)
        self._streams.move_to_end(segment.flow)
        before = stream.held
        yield from stream.feed(segment)
        self._held += stream.held - before
        while len(self._streams) > MAX_CAPTURE_FLOWS or self._held > MAX_CAPTURE_HELD:
            yield from self._close(next(iter(self._streams)))

    def finish(self) -> Iterator[Finding]:
        while self._streams:
            yield from self._close(next(iter(self._streams)))

    def _close(self, flow: Flow) -> Iterator[Finding]:
        stream = self._streams.pop(flow)
        self._held -= stream.held
        yield from stream.finish()
