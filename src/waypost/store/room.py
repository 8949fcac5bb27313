"""Room left in the store: reported with every poll, and judged without a disk (ADR 33).

A part of the disk is a reserve: nothing new is stored when only the reserve is left, so that receives, removals and
acknowledgments, which need new pages before they give others back, always find some.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from waypost.errors import StoreFull

# A value larger than this takes whole pages, which have to be neighbours; the smallest pages have 4 KiB.
_SMALL: Final = 2000
_PAGE: Final = 4096
# Header of a value there.
_OVERHEAD: Final = 64
# Of each byte that is stored: half-filled pages, the last page of a large value, and keys.
_COST: Final = 2
_MEGABYTE: Final = 1 << 20
# So few bytes beside the reserve are none to a person.
_LITTLE: Final = _MEGABYTE // 10


@dataclass(frozen=True, slots=True)
class Room:
    """Room beyond the reserve, in bytes of the disk.

    `free` is for values of any size that fit on a page with others. Those that need neighbouring pages find them in
    `extent`, after the last used page, and in `runs`: the number of runs of free pages of each length.
    `is_low` says that nothing new is to be stored; it ends when there is some more room than it takes to begin.
    """

    where: str
    free: int
    extent: int
    reserve: int
    is_low: bool = False
    runs: Mapping[int, int] = field(default_factory=dict)

    def takes(self, pending: int, size: int, largest: int = 0) -> bool:
        """Whether values of this size find room behind those that were admitted before and are not durable yet.

        `largest` is the size of the largest of them.
        """
        return not self.is_low and _COST * (pending + size) <= self._room_for(largest)

    def _room_for(self, largest: int) -> int:
        """Bytes for values up to this size."""
        return self.free if largest <= _SMALL else min(self.free, self._neighbours(largest))

    def _neighbours(self, largest: int) -> int:
        """Bytes for values of this size."""
        pages = (largest + _OVERHEAD) // _PAGE + 1
        return self.extent + _PAGE * sum(length // pages * pages * count for length, count in self.runs.items())

    @property
    def left(self) -> int:
        """Bytes with those of the reserve."""
        return max(self.free + self.reserve, 0)

    @property
    def sentence(self) -> str:
        return (
            f"{self.where} is nearly full: {megabytes(self.left)} are left, and {megabytes(self.reserve)} of it are "
            "kept for receiving messages (store.reserve_mb)"
        )

    def refusal(self, pending: int = 0, size: int = 0, largest: int = 0) -> StoreFull:
        """Why something is not stored, and never will be unless it is asked for again. As `takes` was asked."""
        left = self._room_for(largest) - _COST * pending
        if self.is_low or left < _LITTLE:
            return StoreFull(f"{self.sentence}; nothing was stored")
        return StoreFull(
            f"{self.where} has no room for it: it needs {megabytes(_COST * size)}, and {megabytes(left)} are left "
            f"beside the {megabytes(self.reserve)} that are kept for receiving messages (store.reserve_mb); nothing "
            "was stored"
        )


def megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB"


LOW: Final = "New messages are refused; receives, purges and acknowledgments go on."
LOW_HINT: Final = "receive or purge messages, or make room on the disk"

# Of a store that has no end.
PLENTY: Final = Room("the store", 1 << 62, 1 << 62, 0)
