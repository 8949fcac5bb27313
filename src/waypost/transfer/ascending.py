"""Numbers in ascending order, a hundred thousand of them and more.

New ones are mostly the largest, and removed ones the smallest: neither moves the others. Numbers before `_start` are
removed, and dropped together later.
"""

from bisect import bisect_left, bisect_right, insort
from typing import Final

_COMPACT: Final = 1024


class Ascending:
    """Different numbers, the smallest first."""

    __slots__ = ("_items", "_start")

    def __init__(self) -> None:
        self._items: list[int] = []
        self._start = 0

    def __len__(self) -> int:
        return len(self._items) - self._start

    def add(self, number: int) -> None:
        insort(self._items, number, self._start)

    def discard(self, number: int) -> None:
        at = bisect_left(self._items, number, self._start)
        if at == len(self._items) or self._items[at] != number:
            return
        if at == self._start:
            self._drop_until(at + 1)
        else:
            del self._items[at]

    def before(self, number: int) -> int | None:
        """The largest number below this one."""
        at = bisect_left(self._items, number, self._start)
        return self._items[at - 1] if at > self._start else None

    def take_through(self, number: int) -> list[int]:
        """Remove all up to this one."""
        end = bisect_right(self._items, number, self._start)
        taken = self._items[self._start : end]
        self._drop_until(end)
        return taken

    def ends(self) -> tuple[int, int]:
        """The smallest and the largest; 0 for none."""
        return (self._items[self._start], self._items[-1]) if len(self) else (0, 0)

    def all(self) -> list[int]:
        return self._items[self._start :]

    def _drop_until(self, end: int) -> None:
        self._start = end
        if end == len(self._items) or (end > _COMPACT and 2 * end > len(self._items)):
            del self._items[:end]
            self._start = 0
