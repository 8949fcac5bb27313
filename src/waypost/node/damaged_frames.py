"""Frames of committed stages that are damaged on disk: their messages did not enter the queues (ADR 37).

They stay in the store, where a salvage may still read them, until an operator has them forgotten. Without them a store
has no frame that belongs to no stage, so that a start finds them by their keys.
"""

from collections.abc import Mapping
from typing import Final

from waypost.errors import RecordDamaged
from waypost.guid import guid_text
from waypost.node import scans
from waypost.store import keys
from waypost.store.bulk_records import StageRecord
from waypost.store.port import Batch, Reader, Table


class DamagedFrames:
    """The damaged frames of one node, by their keys, each with a sentence."""

    __slots__ = ("_reader", "frames")

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader
        self.frames: Final[dict[bytes, str]] = {}

    def __len__(self) -> int:
        return len(self.frames)

    def restore(self, stages: Mapping[bytes, StageRecord]) -> None:
        """Find those that were left out before the start; `stages` are all stages of the store."""
        for key in scans.keys(self._reader, Table.BULK, *keys.all_frames()):
            frame = keys.frame_of(key)
            assert frame is not None, "the range has only frames"
            stage = stages.get(frame[0])
            if stage is None or frame[1] < stage.frames_done:
                self.frames[key] = _name(key)

    def add(self, batch: str, key: bytes, damage: RecordDamaged) -> None:
        """A frame of this batch of a query is left out."""
        self.frames[key] = f"{_name(key)}, of {batch}: {damage}"

    def forget(self, batch: Batch) -> int:
        """Delete them from the store. Returns their number."""
        count = len(self.frames)
        for key in self.frames:
            batch.delete(Table.BULK, key)
        self.frames.clear()
        return count


def _name(key: bytes) -> str:
    frame = keys.frame_of(key)
    assert frame is not None, "the key is not the key of a frame"
    return f"frame {frame[1]} of the stage {guid_text(frame[0])}"
