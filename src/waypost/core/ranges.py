"""The messages of a queue in the order of their arrival: ranges of SequentialIDs over all priorities.

A range is open at its start and closed at its end: (after, up_to]. The arrays of a PositionList are the index (ADR 19),
so that to count a range or to find the n-th message of one takes a few searches, however long the queue is, and to list
one takes time for its messages only. The bytes of a range take one pass over all sizes, 10 ns each. Numbers in the
arrays that are not in the range (removed, left out) are known by spans, so that a million invisible messages are passed
over in one step.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter
from typing import Final

from waypost.core.positions import SEQUENCE_BITS, SEQUENCE_MASK, UNKNOWN_SIZE, Numbers, PositionList
from waypost.core.transaction_records import spans_of

_start: Final = attrgetter("start")
# Number of sizes that are added up at a time.
_BLOCK: Final = 512


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

    def size(self, after: int, up_to: int) -> int:
        """Bytes of the messages in the range with a known size."""
        return sum([max(band.size(up_to) - band.size(after), 0) for band in self._bands])

    def unsized(self, after: int, up_to: int) -> int:
        """Number of messages in the range with an unknown size."""
        return sum([band.unsized(after, up_to) for band in self._bands])

    def fitting(self, after: int, up_to: int, max_bytes: int, typical: int) -> int:
        """The number up to which the first messages of the range have at most `max_bytes`, or one message has more.

        A message of unknown size counts as `typical`. The range has messages.
        """
        first = self.nth(after, up_to, 1)
        assert first, "the range has no messages"
        up_to = min(up_to, max([band.ids[-1] for band in self._bands]))
        bands = self._bands
        before = sum([band.weight(after, typical) for band in bands])
        # All up to `low` fit, unless it is the first; those up to `high` do not, unless it is the end.
        low, high = first, up_to + 1
        while high - low > 1:
            middle = (low + high) // 2
            if sum([band.weight(middle, typical) for band in bands]) - before <= max_bytes:
                low = middle
            else:
                high = middle
        # The last message that fits.
        return self.nth(after, up_to, self.count(after, low))

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

    __slots__ = ("_base", "_before", "_gap_sizes", "_gaps", "_sizes", "_start", "_sums", "_unknown", "ids")

    def __init__(self, numbers: Numbers, left_out: Iterable[range]) -> None:
        self._base, self.ids, self._start, gone, self._sizes = numbers
        self._gaps = sorted((*spans_of(sorted(gone)), *left_out), key=_start)
        # Number of numbers in all gaps before each one.
        self._before = list(accumulate(map(len, self._gaps), initial=0))
        # Made when they are needed: the bytes and the unknown sizes before each block of the array, and in the gaps.
        self._sums: list[int] = []
        self._unknown: list[int] = []
        self._gap_sizes: list[tuple[int, int]] = []

    def rank(self, number: int) -> int:
        """Number of positions up to this number, plus a constant: those before the start of the array."""
        rank = bisect_right(self.ids, number, self._start)
        at = bisect_right(self._gaps, number, key=_start) - 1
        if at < 0:
            return rank
        gap = self._gaps[at]
        return rank - self._before[at] - min(number + 1 - gap.start, len(gap))

    def size(self, number: int) -> int:
        """Bytes of the positions up to this number."""
        return self._up_to(number)[0]

    def unsized(self, after: int, up_to: int) -> int:
        return max(self._up_to(up_to)[1] - self._up_to(after)[1], 0)

    def weight(self, number: int, typical: int) -> int:
        """Bytes of the positions up to this number, if those of unknown size have `typical`."""
        known, unknown = self._up_to(number)
        return known + unknown * typical

    def _up_to(self, number: int) -> tuple[int, int]:
        """The bytes, and the number of unknown sizes, of the positions up to this number."""
        if not self._sums:
            self._add_up()
        known, unknown = self._in_array(bisect_right(self.ids, number, self._start))
        at = bisect_right(self._gaps, number, key=_start) - 1
        if at < 0:
            return known, unknown
        gone, gone_unknown = self._gap_sizes[at]
        gap = self._gaps[at]
        in_gap = self._in_gap(range(gap.start, min(gap.stop, number + 1)))
        return known - gone - in_gap[0], unknown - gone_unknown - in_gap[1]

    def _add_up(self) -> None:
        blocks = [self._sizes[at : at + _BLOCK] for at in range(self._start, len(self._sizes), _BLOCK)]
        self._sums = list(accumulate(map(sum, blocks), initial=0))
        self._unknown = list(accumulate([block.count(UNKNOWN_SIZE) for block in blocks], initial=0))
        sizes = [self._in_gap(gap) for gap in self._gaps]
        known = accumulate([size for size, _ in sizes], initial=0)
        self._gap_sizes = list(zip(known, accumulate([count for _, count in sizes], initial=0), strict=True))

    def _in_array(self, stop: int) -> tuple[int, int]:
        """The same of the array from its start to a place, gaps included."""
        block, rest = divmod(stop - self._start, _BLOCK)
        some = self._sizes[stop - rest : stop]
        return self._sums[block] + sum(some), self._unknown[block] + some.count(UNKNOWN_SIZE)

    def _in_gap(self, gap: range) -> tuple[int, int]:
        start = bisect_left(self.ids, gap.start, self._start)
        some = self._sizes[start : bisect_left(self.ids, gap.stop, start)]
        return sum(some), some.count(UNKNOWN_SIZE)

    def lookup_ids(self, after: int, up_to: int) -> list[int]:
        ids, at = self.ids, bisect_right(self.ids, after, self._start)
        found: list[int] = []
        first = max(bisect_right(self._gaps, after, key=_start) - 1, 0)
        for gap in self._gaps[first : bisect_right(self._gaps, up_to, key=_start)]:
            found += map(self._base.__or__, ids[at : bisect_left(ids, gap.start, at)])
            at = bisect_left(ids, gap.stop, at)
        found += map(self._base.__or__, ids[at : bisect_right(ids, up_to, at)])
        return found
