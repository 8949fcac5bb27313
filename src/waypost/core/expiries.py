"""When messages expire: one deadline for each, for messages that mostly leave before.

Every message on its way has a deadline, so a deadline costs eight bytes: those of one queue that end in the same second
share a bucket. A deadline is not stopped: its message is gone by then, and whoever holds the messages says so. Stale
ones are cleared away when there may be more of them than of others, so the work for each is constant on average.
"""

from array import array
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from waypost.limits import EXPIRY_PART

_FEW: Final = 256

# The deadline in whole seconds, and the number of the queue.
_Key = tuple[int, int]


class Holder(Protocol):
    """Whoever knows which messages are there."""

    def remaining(self, queue: int, lookup_ids: Sequence[int]) -> list[int]:
        """Those of these messages that the queue still holds."""

    def held(self) -> int:
        """How many messages are in the queues that have deadlines."""


class Expiries:
    """The deadlines of all queues."""

    __slots__ = ("_bound", "_buckets", "_count", "_heap", "_holder", "_sorted")

    def __init__(self, holder: Holder) -> None:
        self._holder: Final = holder
        self._buckets: dict[_Key, array[int]] = {}
        self._heap: list[_Key] = []
        # The bucket that was put into order because it expires in parts, as long as nothing is added to it.
        self._sorted: _Key | None = None
        self._count = 0
        self._bound = _FEW

    def __len__(self) -> int:
        return self._count

    def start(self, deadline: int, queue: int, lookup_ids: Iterable[int]) -> None:
        """Start the same deadline for these messages of a queue."""
        key = deadline, queue
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = array("Q")
            heappush(self._heap, key)
        elif key == self._sorted:
            self._sorted = None
        before = len(bucket)
        bucket.extend(lookup_ids)
        self._count += len(bucket) - before
        if self._count > self._bound:
            self._bound = max(2 * self._holder.held(), _FEW)
            if self._count > self._bound:
                self._clear_away()

    def expired(self, time: float) -> list[tuple[int, int]]:
        """The queue and LookupIdentifier of those whose deadline has passed at `time`, the earliest first.

        It looks at EXPIRY_PART of them; the rest is for the next calls.
        """
        found: list[tuple[int, int]] = []
        left = EXPIRY_PART
        while left and self._heap and self._heap[0][0] <= time:
            key = self._heap[0]
            bucket = self._buckets[key]
            if key != self._sorted:
                bucket = self._buckets[key] = array("Q", sorted(bucket))
                self._sorted = key
            part = bucket[:left]
            del bucket[:left]
            left -= len(part)
            self._count -= len(part)
            if not bucket:
                self._drop_first()
            queue = key[1]
            found += [(queue, lookup_id) for lookup_id in self._holder.remaining(queue, part)]
        return found

    def next_deadline(self) -> int | None:
        """The earliest deadline of a message that is there. Behind many stale ones it may be too early."""
        left = EXPIRY_PART
        while left and self._heap:
            _, queue = key = self._heap[0]
            bucket = self._buckets[key]
            while left and bucket and not self._holder.remaining(queue, bucket[-1:]):
                bucket.pop()
                self._count -= 1
                left -= 1
            if bucket:
                break
            self._drop_first()
        return self._heap[0][0] if self._heap else None

    def _drop_first(self) -> None:
        del self._buckets[heappop(self._heap)]
        self._sorted = None

    def _clear_away(self) -> None:
        """As a set, because a message that was moved away and back has started twice."""
        buckets: dict[_Key, array[int]] = {}
        for key, bucket in self._buckets.items():
            remaining = self._holder.remaining(key[1], bucket)
            if remaining:
                buckets[key] = array("Q", sorted(set(remaining)))
        self._buckets = buckets
        self._heap = list(buckets)
        heapify(self._heap)
        self._sorted = None
        self._count = sum(map(len, buckets.values()))
