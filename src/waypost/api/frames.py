"""A frame: thousands of messages in one binary answer of the bulk interface, application/vnd.waypost.packets.

All numbers are little-endian. The header is followed by the columns, each with a value for every message:

    magic        4 bytes   "WPB1"
    count        u32
    end          u64       end of the answered part of the request: a seq, or a place in a claim
    epoch        16 bytes  the identifier of the queue
    is_last      u32       1 if nothing of the request is left
    reserved     u32
    lookup_ids   u64 each
    offsets      i32 each, and one more: where packets begin and end in `packets`
    attributes   19 bytes each: format u8 (1), flags u8, authentication level u8, arrival time u32, abort count u32,
                 move count u32, last move time u32 (seconds since 1970)
    packets      the packets, as MSMQ transfers them (MS-MQMQ 2.2.20)
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from struct import Struct, unpack
from typing import Final

from waypost.errors import DecodeError

MEDIA_TYPE: Final = "application/vnd.waypost.packets"
MAGIC: Final = b"WPB1"
ATTRIBUTES_SIZE: Final = 19

_HEADER: Final = Struct("<4sIQ16sII")
_IS_BIG: Final = array("H", [1]).tobytes() != b"\1\0"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in one piece, `data`. The columns are views of its bytes; nothing is copied."""

    data: bytes | bytearray | memoryview
    count: int
    end: int
    epoch: bytes
    is_last: bool
    lookup_ids: memoryview
    offsets: memoryview
    attributes: memoryview
    packets: memoryview

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> "Frame":
        """Decode a frame. Raises DecodeError for other bytes. Only the last offset is checked."""
        view = memoryview(data)
        if len(view) < _HEADER.size:
            raise DecodeError("docs/bulk.md", "frame", 0, f"{len(view)} bytes are not enough for a header")
        magic, count, end, epoch, is_last, _ = _HEADER.unpack_from(view)
        if magic != MAGIC:
            raise DecodeError("docs/bulk.md", "frame", 0, "the frame does not begin with WPB1")
        ids = _HEADER.size
        offsets = ids + 8 * count
        attributes = offsets + 4 * (count + 1)
        packets = attributes + ATTRIBUTES_SIZE * count
        if packets > len(view) or int.from_bytes(view[attributes - 4 : attributes], "little") != len(view) - packets:
            raise DecodeError(
                "docs/bulk.md", "frame", len(view), f"{len(view)} bytes are not enough for {count} packets"
            )
        return cls(
            data,
            count,
            end,
            epoch,
            bool(is_last),
            view[ids:offsets],
            view[offsets:attributes],
            view[attributes:packets],
            view[packets:],
        )

    @classmethod
    def of(
        cls, columns: tuple[Sequence[int], bytes, Sequence[bytes]], *, end: int, epoch: bytes, is_last: bool
    ) -> "Frame":
        """Build a frame from LookupIdentifiers, attributes of 19 bytes each, and packets, of the same number."""
        lookup_ids, attributes, packets = columns
        count = len(packets)
        assert len(lookup_ids) == count, f"{len(lookup_ids)} LookupIdentifiers of {count} packets"
        assert len(attributes) == ATTRIBUTES_SIZE * count, f"{len(attributes)} bytes of attributes of {count} packets"
        header = _HEADER.pack(MAGIC, count, end, epoch, is_last, 0)
        offsets = _little("i", list(accumulate(map(len, packets), initial=0)))
        return cls.decode(b"".join((header, _little("Q", lookup_ids), offsets, attributes, *packets)))

    def numbers(self) -> list[int]:
        """The LookupIdentifiers."""
        return list(unpack(f"<{self.count}Q", self.lookup_ids))

    def each_packet(self) -> list[bytes]:
        """The packets, copied."""
        bounds = unpack(f"<{self.count + 1}i", self.offsets)
        return [bytes(self.packets[start:stop]) for start, stop in pairwise(bounds)]


def _little(code: str, numbers: Sequence[int]) -> bytes:
    values = array(code, numbers)
    if _IS_BIG:
        values.byteswap()
    return values.tobytes()
