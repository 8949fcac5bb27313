"""The messages of a queue in the order of their arrival: ranges of SequentialIDs over all priorities.

A range is open at its start and closed at its end: (after, up_to]. The arrays of a PositionList are the index (ADR 19),
so that to count a range or to find the n-th message of one takes a few searches, however long the queue is, and to list
one takes time for its messages only. Numbers in the arrays that are not in the range (removed, left out) are known by
spans, so that a million invisible messages are passed over in one step.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter
from typing import Final

from waypost.core.positions import SEQUENCE_BITS, SEQUENCE_MASK, Numbers, PositionList
from waypost.core.transaction_records import spans_of

_start: Final = attrgetter("start")


class Arrivals:
    """The positions of a queue, in any state, by their SequentialIDs. Only valid until the list changes."""

    __slots__ = ("_bands",)

    def __init__(self, positions: PositionList, left_out: Iterable[range] = ()) -> None:
        """Positions in the `left_out` spans, which are in the list, count as if they were not."""
        bands = positions.numbers()
        without: dict[int, list[range]] = {}
        for span in left_out:
            base = span.start >> SEQUENCE_BITS << SEQUENCE_BITS
            without.setdefault(base, []).append(range(span.start - base, span.stop - base))
        self._bands: Final = [_Band(numbers, without.get(numbers.base, ())) for numbers in bands]

    @property
    def first(self) -> int:
        """The SequentialID of the message that arrived first, 0 if the queue is empty."""
        return self.nth(0, SEQUENCE_MASK, 1)

    @property
    def last(self) -> int:
        """The SequentialID of the message that arrived last, 0 if the queue is empty."""
        return self.nth(0, SEQUENCE_MASK, self.count(0, SEQUENCE_MASK))

    def count(self, after: int, up_to: int) -> int:
        """Number of messages in the range."""
        return sum([max(band.rank(up_to) - band.rank(after), 0) for band in self._bands])

    def nth(self, after: int, up_to: int, number: int) -> int:
        """The SequentialID of the n-th message of the range, counted from 1; 0 if the range has fewer."""
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
    """One priority. `_gaps` are the spans in the array that are not in the list, ascending."""

    __slots__ = ("_base", "_before", "_gaps", "_start", "ids")

    def __init__(self, numbers: Numbers, left_out: Iterable[range]) -> None:
        self._base, self.ids, self._start, gone = numbers
        self._gaps = sorted((*spans_of(sorted(gone)), *left_out), key=_start)
        # Number of numbers in all gaps before each one.
        self._before = list(accumulate(map(len, self._gaps), initial=0))

    def rank(self, number: int) -> int:
        """Number of positions up to this number, plus a constant: those before the start of the array."""
        rank = bisect_right(self.ids, number, self._start)
        at = bisect_right(self._gaps, number, key=_start) - 1
        if at < 0:
            return rank
        gap = self._gaps[at]
        return rank - self._before[at] - min(number + 1 - gap.start, len(gap))

    def lookup_ids(self, after: int, up_to: int) -> list[int]:
        ids, at = self.ids, bisect_right(self.ids, after, self._start)
        found: list[int] = []
        first = max(bisect_right(self._gaps, after, key=_start) - 1, 0)
        for gap in self._gaps[first : bisect_right(self._gaps, up_to, key=_start)]:
            found += map(self._base.__or__, ids[at : bisect_left(ids, gap.start, at)])
            at = bisect_left(ids, gap.stop, at)
        found += map(self._base.__or__, ids[at : bisect_right(ids, up_to, at)])
        return found
