"""Packets by the thousand, not decoded yet: the input of the decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.api.frames import Frame
from waypost.errors import DecodeError, InvalidParameter

# Arrow counts the bytes of an array in 31 bits, and texts grow to three times their bytes at most in UTF-8.
MAX_BYTES: Final = 0x7FFF_FFFF // 3

# Facts about a message that the queue manager has beside the packet: `attributes` of a frame.
ATTRIBUTES: Final = np.dtype(
    [
        ("format", "u1"),
        ("flags", "u1"),
        ("authentication_level", "u1"),
        ("arrival_time", "<u4"),
        ("abort_count", "<u4"),
        ("move_count", "<u4"),
        ("last_move_time", "<u4"),
    ]
)


class OnMalformed(Enum):
    """Treatment of a malformed packet.

    FAIL raises DecodeError. NULL sets all columns that come from the packet to null. QUARANTINE does the same, and
    stores the reason in `packet_error`.
    """

    FAIL = "fail"
    NULL = "null"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Packets:
    """Packet i is data[offsets[i]:offsets[i + 1]].

    The other fields are None if the packets do not come from a queue manager.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    queue: str | None = None
    lookup_ids: npt.NDArray[np.uint64] | None = None
    attributes: npt.NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of_frame(cls, frame: Frame, queue: str) -> "Packets":
        """Packets of a frame, as views: nothing is copied."""
        return cls(
            np.frombuffer(frame.packets, np.uint8),
            np.frombuffer(frame.offsets, "<i4"),
            queue,
            np.frombuffer(frame.lookup_ids, "<u8"),
            np.frombuffer(frame.attributes, ATTRIBUTES),
        )

    @classmethod
    def of(cls, packets: Sequence[bytes]) -> "Packets":
        """Packets from a capture, an archive or a file."""
        data = b"".join(packets)
        _check_size(len(data))
        offsets = np.zeros(len(packets) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, packets), np.int32, len(packets)), out=offsets[1:])
        return cls(np.frombuffer(data, np.uint8), offsets)

    @classmethod
    def of_array(cls, packets: pa.BinaryArray) -> "Packets":
        """Packets of an Arrow array of type binary, which is not copied, or of a type that casts to binary.

        A null is an empty packet.
        """
        if packets.type != pa.binary():
            try:
                packets = packets.cast(pa.binary())
            except pa.ArrowException as error:
                raise InvalidParameter(f"`packets` must be a binary array, not {packets.type}: {error}") from None
        if packets.null_count:
            packets = packets.fill_null(b"")
        if not len(packets):
            return cls.of([])
        _, offsets, data = packets.buffers()
        return cls(
            np.frombuffer(data or b"", np.uint8),
            np.frombuffer(offsets, np.int32, len(packets) + 1, 4 * packets.offset),
        )

    def chosen(self, rows: npt.NDArray[np.bool_]) -> "Packets":
        """The packets of some rows, copied."""
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.offsets)), pa.py_buffer(self.data)]
        everything = pa.Array.from_buffers(pa.binary(), len(self), buffers)
        some = Packets.of_array(everything.filter(pa.array(rows)))
        ids, attributes = self.lookup_ids, self.attributes
        return Packets(
            some.data,
            some.offsets,
            self.queue,
            None if ids is None else ids[rows],
            None if attributes is None else attributes[rows],
        )

    def packet(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def describe(self, row: int) -> str:
        """The packet in words, for an error."""
        lookup_id = "" if self.lookup_ids is None else f" with the lookup id {self.lookup_ids[row]}"
        queue = "" if self.queue is None else f" of {self.queue}"
        return f"packet {row}{lookup_id}{queue}"

    def check(self) -> None:
        """Check offsets from outside. Raises DecodeError unless packets follow each other inside the data.

        Raises InvalidParameter if the packets are too large together.
        """
        offsets = self.offsets
        is_ordered = len(offsets) and offsets[0] >= 0 and offsets[-1] <= len(self.data)
        if not is_ordered or (offsets[1:] < offsets[:-1]).any():
            raise DecodeError("docs/bulk.md", "offsets", 0, "`offsets` must not decrease, and must lie inside the data")
        _check_size(int(offsets[-1]) - int(offsets[0]))


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise InvalidParameter(f"all packets together must not be larger than {MAX_BYTES} bytes, but have {size} bytes")
