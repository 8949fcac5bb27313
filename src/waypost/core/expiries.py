"""Deadlines of messages: one for each, for messages that mostly leave before.

Every message on its way has a deadline, so a deadline costs eight bytes: those of one queue that end in the same second
share a bucket. A deadline is not stopped: its message is gone by then, as the holder of the messages reports. Stale
ones are cleared away when there may be more of them than of others, a few with every deadline that starts, so that the
work for each is constant and no call does the work for all of them.
"""

from array import array
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

_FEW: Final = 256
# Number of deadlines to check for stale ones, when others start or the next one is asked for.
_LOOKED_AT: Final = 256

# The deadline in whole seconds, and the number of the queue.
_Key = tuple[int, int]


class Holder(Protocol):
    """Knows which messages exist."""

    def remaining(self, queue: int, lookup_ids: Sequence[int]) -> list[int]:
        """The messages among these that the queue still holds."""

    def held(self) -> int:
        """Number of messages in the queues that have deadlines."""


class Expiries:
    """The deadlines of all queues. None is before `first`."""

    __slots__ = ("_bound", "_buckets", "_clearing", "_count", "_heap", "_holder", "_unsorted", "first")

    def __init__(self, holder: Holder) -> None:
        self._holder: Final = holder
        self._buckets: dict[_Key, array[int]] = {}
        # The keys of all buckets, and of some that are empty and gone.
        self._heap: list[_Key] = []
        # The buckets in which a message is behind one with a greater number.
        self._unsorted: set[_Key] = set()
        # The buckets to clear of stale deadlines.
        self._clearing: list[_Key] = []
        self._count = 0
        self._bound = _FEW
        self.first: float = inf

    def __len__(self) -> int:
        return self._count

    def start(self, deadline: int, queue: int, lookup_ids: Sequence[int]) -> None:
        """Start the same deadline for these messages of a queue, which are ascending."""
        key = deadline, queue
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = array("Q")
            heappush(self._heap, key)
            self.first = self._heap[0][0]
        elif bucket[-1] >= lookup_ids[0]:
            self._unsorted.add(key)
        bucket.extend(lookup_ids)
        self._count += len(lookup_ids)
        if self._clearing:
            self._clear_some(_LOOKED_AT + 2 * len(lookup_ids))
        elif self._count > self._bound:
            self._bound = max(2 * self._holder.held(), _FEW)
            if self._count > self._bound:
                self._clearing = list(self._buckets)
                self._clear_some(_LOOKED_AT + 2 * len(lookup_ids))

    def due(self, time: float) -> Iterator[tuple[int, Sequence[int]]]:
        """Take the deadlines that have passed at `time`: each queue with its LookupIdentifiers, ascending.

        The earliest come first. Some may be of messages that are gone.
        """
        while self._heap and self._heap[0][0] <= time:
            key = heappop(self._heap)
            bucket = self._buckets.pop(key, None)
            if bucket is not None:
                self._count -= len(bucket)
                yield key[1], self._sorted(key, bucket)
        self.first = self._heap[0][0] if self._heap else inf

    def earliest(self) -> int | None:
        """The earliest deadline of an existing message. Behind many stale ones it may be too early."""
        left = _LOOKED_AT
        while left and self._heap:
            _, queue = key = self._heap[0]
            bucket = self._buckets.get(key)
            while left and bucket and not self._holder.remaining(queue, bucket[-1:]):
                bucket.pop()
                self._count -= 1
                left -= 1
            if bucket:
                break
            if bucket is not None:
                self._drop(key)
            heappop(self._heap)
        self.first = self._heap[0][0] if self._heap else inf
        return self._heap[0][0] if self._heap else None

    def _sorted(self, key: _Key, bucket: "array[int]") -> Sequence[int]:
        """The numbers of a bucket, sorted and once each: a message that was moved away and back has started twice."""
        if key not in self._unsorted:
            return bucket
        self._unsorted.remove(key)
        return sorted(set(bucket))

    def _clear_some(self, count: int) -> None:
        """Check about this many deadlines, and drop the stale ones."""
        while count > 0 and self._clearing:
            key = self._clearing.pop()
            bucket = self._buckets.get(key)
            if bucket is None:
                continue
            remaining = self._holder.remaining(key[1], self._sorted(key, bucket))
            count -= len(bucket)
            self._count += len(remaining) - len(bucket)
            if remaining:
                self._buckets[key] = array("Q", remaining)
            else:
                self._drop(key)
        if not self._clearing and len(self._heap) > 2 * len(self._buckets) + _FEW:
            self._heap = list(self._buckets)
            heapify(self._heap)

    def _drop(self, key: _Key) -> None:
        del self._buckets[key]
        self._unsorted.discard(key)
