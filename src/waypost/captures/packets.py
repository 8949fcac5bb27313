"""From a run of bytes to packets: cutting, and finding the way back after bytes that are not a packet.

wire.Splitter gives up when a stream breaks, as a queue manager must. Here the bytes may come from a capture with holes
or from its middle, so a break is reported and the search goes on for the next sound BaseHeader.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from waypost.errors import DecodeError
from waypost.wire import ping
from waypost.wire.base_header import SIGNATURE, SIZE, VERSION, BaseHeader

_SIGNATURE: Final = SIGNATURE.to_bytes(4, "little")
_SIGNATURE_AT: Final = 4
SAMPLE: Final = 64


@dataclass(slots=True, frozen=True)
class Origin:
    """Where bytes come from: two endpoints of a capture, or the name of a file."""

    source: str
    destination: str | None = None


@dataclass(slots=True, frozen=True)
class FoundPacket:
    """The bytes of one packet; `time` is the time of the last byte.

    `size` is the size of the whole packet, including bytes that the input lacks. It is None if the input lacks a part
    of the BaseHeader.
    """

    origin: Origin
    time: int | None
    data: bytes
    size: int | None


@dataclass(slots=True, frozen=True)
class FoundPing:
    """A datagram of the ping port; `size` as in a packet."""

    origin: Origin
    time: int | None
    data: bytes
    size: int


@dataclass(slots=True, frozen=True)
class Gap:
    """Bytes of a stream that the input does not have."""

    origin: Origin
    time: int | None
    size: int
    reason: str


@dataclass(slots=True, frozen=True)
class Stray:
    """Bytes that belong to no packet. `sample` contains the first of these bytes."""

    origin: Origin
    time: int | None
    size: int
    reason: str
    sample: bytes


Finding = FoundPacket | FoundPing | Gap | Stray


class Cutter:
    """One direction of one connection. Holds at most one packet and the bytes of one `feed`."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._buffer = bytearray()
        self._time: int | None = None
        # Why the next header is searched; None while the packets follow each other.
        self._lost: str | None = None
        self._skipped = 0
        self._sample = b""

    @property
    def held(self) -> int:
        return len(self._buffer)

    def feed(self, time: int | None, data: bytes) -> Iterator[Finding]:
        self._time = time
        self._buffer += data
        while True:
            if self._lost is not None and not self._find_header():
                return
            if self._skipped:
                yield self._stray()
            self._lost = None
            if len(self._buffer) < SIZE:
                return
            try:
                size = _size(self._buffer)
            except DecodeError as error:
                self._lost = f"no packet starts here: {error}"
                continue
            if len(self._buffer) < size:
                return
            packet = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield FoundPacket(self._origin, time, packet, size)

    def gap(self, time: int | None, size: int, reason: str) -> Iterator[Finding]:
        """`size` bytes are missing; the next bytes come after them."""
        yield from self.finish()
        yield Gap(self._origin, time, size, reason)
        self._lost = "the bytes follow a gap, and no packet starts in these bytes"

    def late(self, time: int | None, size: int) -> Iterator[Finding]:
        """`size` bytes arrived that belong before the first byte of the stream."""
        yield Stray(
            self._origin,
            time,
            size,
            "the bytes arrived out of order at the start of the capture",
            b"",
        )

    def finish(self) -> Iterator[Finding]:
        """No more bytes follow these."""
        if self._lost is None and not _may_begin(self._buffer):
            self._lost = "no packet starts here"
        if self._lost is not None:
            self._skip(len(self._buffer))
            if _is_ping(self._sample, self._skipped):
                yield FoundPing(self._origin, self._time, self._sample, self._skipped)
                self._skipped, self._sample = 0, b""
            elif self._skipped:
                yield self._stray()
        elif self._buffer:
            size = _size(self._buffer) if len(self._buffer) >= SIZE else None
            yield FoundPacket(self._origin, self._time, bytes(self._buffer), size)
        self._buffer.clear()
        self._lost = None

    def _find_header(self) -> bool:
        """Bring the next sound header to the front. False while there is none."""
        found = self._buffer.find(_SIGNATURE, _SIGNATURE_AT)
        while found != -1:
            start = found - _SIGNATURE_AT
            if len(self._buffer) - start < SIZE:
                self._skip(start)
                return False
            try:
                BaseHeader.decode(bytes(self._buffer[start : start + SIZE]), 0)
            except DecodeError:
                found = self._buffer.find(_SIGNATURE, found + 1)
                continue
            self._skip(start)
            return True
        # The last bytes may be the first of a header.
        self._skip(len(self._buffer) - (_SIGNATURE_AT + len(_SIGNATURE) - 1))
        return False

    def _skip(self, size: int) -> None:
        if size <= 0:
            return
        if len(self._sample) < SAMPLE:
            self._sample += bytes(self._buffer[: min(size, SAMPLE - len(self._sample))])
        self._skipped += size
        del self._buffer[:size]

    def _stray(self) -> Stray:
        stray = Stray(self._origin, self._time, self._skipped, self._lost or "", self._sample)
        self._skipped, self._sample = 0, b""
        return stray


def _size(packet: bytearray) -> int:
    """The length of the packet that begins so."""
    base, _ = BaseHeader.decode(bytes(packet[:SIZE]), 0)
    return base.total_size


def _may_begin(data: bytearray) -> bool:
    """Whether a packet can begin with these bytes, however few they are."""
    return data[:1] in (b"", bytes((VERSION,))) and _SIGNATURE.startswith(data[_SIGNATURE_AT:][: len(_SIGNATURE)])


def _is_ping(sample: bytes, size: int) -> bool:
    """Whether all that an input had is a ping, which has no BaseHeader."""
    return size == ping.SIZE and sample[2:4] == ping.SIGNATURE.to_bytes(2, "little")
