"""The messages of a queue in the order of their arrival: ranges of SequentialIDs over all priorities.

A range is open at its start and closed at its end: (after, up_to]. The arrays of a PositionList are the index (ADR 19),
so that to count a range or to find the n-th message of one takes a few searches, however long the queue is, and to list
one takes what its messages take. What the arrays have and the range has not (removed, left out) is walked over once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import Final

from waypost.core.positions import SEQUENCE_BITS, SEQUENCE_MASK, Numbers, PositionList


class Arrivals:
    """The positions of a queue, whatever their state, by their SequentialIDs. Only of use until the list changes."""

    __slots__ = ("_bands",)

    def __init__(self, positions: PositionList, left_out: Collection[int] = ()) -> None:
        """Positions that are `left_out` count as if they were not in the list, where they are."""
        bands = positions.numbers()
        without: dict[int, list[int]] = {}
        for lookup_id in left_out:
            without.setdefault(lookup_id >> SEQUENCE_BITS, []).append(lookup_id & SEQUENCE_MASK)
        self._bands: Final = [_Band(numbers, without.get(numbers.base >> SEQUENCE_BITS, ())) for numbers in bands]

    @property
    def first(self) -> int:
        """The SequentialID of the message that arrived first, 0 if there is none."""
        return self.nth(0, SEQUENCE_MASK, 1)

    @property
    def last(self) -> int:
        """The same of the message that arrived last."""
        return self.nth(0, SEQUENCE_MASK, self.count(0, SEQUENCE_MASK))

    def count(self, after: int, up_to: int) -> int:
        """How many messages the range has."""
        return sum([max(band.rank(up_to) - band.rank(after), 0) for band in self._bands])

    def nth(self, after: int, up_to: int, number: int) -> int:
        """The SequentialID of the n-th message of the range, counted from 1; 0 if it has not so many."""
        up_to = min(up_to, max([band.ids[-1] for band in self._bands], default=0))
        if not 0 < number <= self.count(after, up_to):
            return 0
        before = sum([band.rank(after) for band in self._bands])
        # It is behind `low`, and not behind `high`.
        low, high = after, up_to
        while high - low > 1:
            middle = (low + high) // 2
            if sum([band.rank(middle) for band in self._bands]) - before < number:
                low = middle
            else:
                high = middle
        return high

    def take(self, after: int, up_to: int, limit: int) -> list[int]:
        """The LookupIdentifiers of the first `limit` messages of the range, in the order of arrival."""
        if self.count(after, up_to) > limit:
            up_to = self.nth(after, up_to, limit)
        runs = [run for band in self._bands if (run := band.lookup_ids(after, up_to))]
        if len(runs) == 1:
            return runs[0]
        return sorted([lookup_id for run in runs for lookup_id in run], key=SEQUENCE_MASK.__and__)


class _Band:
    """One priority. `_gaps` are the numbers that the array has and the list has not, ascending."""

    __slots__ = ("_base", "_gaps", "_start", "ids")

    def __init__(self, numbers: Numbers, left_out: Collection[int]) -> None:
        self._base, self.ids, self._start, gone = numbers
        self._gaps = sorted((*gone, *left_out)) if gone or left_out else []

    def rank(self, number: int) -> int:
        """How many there are up to this number, and some more, always as many: those before the start of the array."""
        rank = bisect_right(self.ids, number, self._start)
        return rank - bisect_right(self._gaps, number) if self._gaps else rank

    def lookup_ids(self, after: int, up_to: int) -> list[int]:
        start = bisect_right(self.ids, after, self._start)
        ids = self.ids[start : bisect_right(self.ids, up_to, start)]
        if self._gaps:
            first = bisect_left(self._gaps, after + 1)
            gaps = frozenset(self._gaps[first : bisect_right(self._gaps, up_to, first)])
            if gaps:
                return [self._base | number for number in ids if number not in gaps]
        return list(map(self._base.__or__, ids))
