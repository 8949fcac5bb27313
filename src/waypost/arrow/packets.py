"""Packets by the thousand, before anybody has looked into them: the input of the decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from waypost.client.bulk.frame import Frame

# What the queue manager knows of a message that is not in its packet: `attributes` of a frame.
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


@dataclass(frozen=True, slots=True)
class Packets:
    """Packet i is data[offsets[i]:offsets[i + 1]]. Where no queue manager is asked, nothing beside them is known."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    queue: str | None = None
    lookup_ids: npt.NDArray[np.uint64] | None = None
    attributes: npt.NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of_frame(cls, frame: Frame, queue: str) -> "Packets":
        """Views of the frame; nothing is copied."""
        return cls(
            np.frombuffer(frame.packets, np.uint8),
            np.frombuffer(frame.offsets, "<i4"),
            queue,
            np.frombuffer(frame.lookup_ids, "<u8"),
            np.frombuffer(frame.attributes, ATTRIBUTES),
        )

    @classmethod
    def of(cls, packets: Sequence[bytes]) -> "Packets":
        """Packets from somewhere else: a capture, an archive, a file."""
        offsets = np.zeros(len(packets) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, packets), np.int64, len(packets)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(packets), np.uint8), offsets)
