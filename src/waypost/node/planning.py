"""The plan of a bulk read: the end of a range within limits, its division into parts, and limits for several queues.

Sizes are those of the messages. After a start, before the index has seen all messages (waypost.node.message_index), the
first MAX_SIZES_READ of a range are read for their sizes, and the others count with their average.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bulk import WORTH_A_PART, PlanLimits
from waypost.core.queues import Queue
from waypost.core.ranges import Arrivals
from waypost.errors import StoreError
from waypost.limits import MAX_PLAN_PARTS
from waypost.node.stored_messages import StoredMessages
from waypost.store.records import split_messages


class Planning:
    """The messages of a queue in (after, up_to]. Without an end, they go up to `stable`.

    Only valid until the queue changes. `stable` is the committed number if locked messages are skipped.
    """

    __slots__ = ("_typical", "after", "arrivals", "count", "has_end", "queue", "stable", "up_to")

    def __init__(self, queue: Queue, arrivals: Arrivals, after: int, up_to: int | UnsetType, *, stable: int) -> None:
        self.queue: Final = queue
        self.arrivals: Final = arrivals
        self.after: Final = after
        self.up_to: Final = stable if up_to is UNSET else up_to
        self.stable: Final = stable
        self.has_end: Final = up_to is not UNSET
        self.count: Final = arrivals.count(after, self.up_to)
        self._typical: Final = max(queue.total_bytes // max(len(queue.positions), 1), 1)

    @property
    def last(self) -> int:
        """The number of the last message; `after` without messages."""
        return self.arrivals.nth(self.after, self.up_to, self.count) or self.after

    @property
    def first(self) -> int:
        """The number of the first message, 0 without messages."""
        return self.arrivals.nth(self.after, self.up_to, 1)

    @property
    def first_size(self) -> int:
        return self.size(self.after, self.first) if self.count else 0

    def size(self, after: int, up_to: int) -> int:
        """Bytes of the messages in a range."""
        return self.arrivals.size(after, up_to) + self.arrivals.unsized(after, up_to) * self._typical

    def end(self, limits: PlanLimits) -> int:
        """The number of the last message within the limits; `after` without one."""
        if not self.count or 0 in (limits.max_messages, limits.max_bytes):
            return self.after
        end = self.last
        if limits.max_messages is not UNSET and limits.max_messages < self.count:
            end = self.arrivals.nth(self.after, self.up_to, limits.max_messages)
        if limits.max_bytes is not UNSET:
            end = self.arrivals.fitting(self.after, end, limits.max_bytes, self._typical)
        return end

    def cuts(self, end: int, limits: PlanLimits) -> Iterator[int]:
        """The last number of each part of (after, end]: parts of about the same bytes, within their limits."""
        at, count = self.after, self.arrivals.count(self.after, end)
        if not count:
            return
        size = self.size(at, end)
        parts = min(_parts(count, size, limits), MAX_PLAN_PARTS)
        most = MAX_PLAN_PARTS
        while count:
            last = self._cut(at, end, (count, size), parts, limits) if most > 1 else end
            yield last
            count -= self.arrivals.count(at, last)
            size -= self.size(at, last)
            at, parts, most = last, max(parts - 1, 1), most - 1

    def _cut(self, at: int, end: int, left: tuple[int, int], parts: int, limits: PlanLimits) -> int:
        """The end of the next of so many parts of (at, end], which has `left` messages and bytes."""
        count, size = left
        share = ceil(size / parts)
        if limits.part_bytes is not UNSET:
            share = min(share, limits.part_bytes)
        last = self.arrivals.fitting(at, end, share, self._typical)
        # Each of the other parts gets at least one message.
        most = count - parts + 1
        if limits.part_messages is not UNSET:
            most = min(most, limits.part_messages)
        return last if self.arrivals.count(at, last) <= most else self.arrivals.nth(at, end, most)


def find_sizes(messages: StoredMessages, queue: Queue, lookup_ids: Sequence[int]) -> None:
    """Read those of these messages for their sizes that were not read since the start."""
    positions = queue.positions
    unknown = [each for each in lookup_ids if not positions.size(each)]
    at = 0
    while at < len(unknown):
        try:
            _, packets = split_messages(messages.records(queue.number, unknown, at))
        except StoreError:
            # It is damaged, and a read sets it aside.
            at += 1
            continue
        for lookup_id, packet in zip(unknown[at:], packets, strict=False):
            positions.set_size(lookup_id, len(packet))
        at += len(packets)


def shared(plannings: Sequence[Planning], limits: PlanLimits) -> list[PlanLimits]:
    """The limits for each of several queues, which share them."""
    if len(plannings) < 2:
        return [limits] * len(plannings)
    messages = _shares([planning.count for planning in plannings], limits.max_messages)
    found = [
        replace(limits, max_messages=most, max_bytes=most_bytes)
        for most, most_bytes in zip(messages, _byte_shares(plannings, limits.max_bytes), strict=True)
    ]
    sizes = [planning.size(planning.after, planning.end(each)) for planning, each in zip(plannings, found, strict=True)]
    total = max(sum(sizes), 1)
    return [
        replace(each, parts=max(ceil(limits.parts * size / total), 1), spread=max(limits.spread * size // total, 1))
        for each, size in zip(found, sizes, strict=True)
    ]


def _byte_shares(plannings: Sequence[Planning], limit: int | UnsetType) -> Sequence[int | UnsetType]:
    """Shares of a limit of bytes. The message that arrived first fits in any case, so that no queue waits for good."""
    if limit is UNSET:
        return [UNSET] * len(plannings)
    firsts = [planning.first for planning in plannings]
    oldest = min([first for first in firsts if first], default=0)
    needed = [planning.first_size if first == oldest else 0 for planning, first in zip(plannings, firsts, strict=True)]
    left = max(limit - sum(needed), 0)
    sizes = [planning.size(planning.after, planning.up_to) for planning in plannings]
    rest = _shares([size - need for size, need in zip(sizes, needed, strict=True)], left)
    found = [need + (0 if share is UNSET else share) for need, share in zip(needed, rest, strict=True)]
    return [share if share >= planning.first_size else 0 for planning, share in zip(plannings, found, strict=True)]


def _shares(available: Sequence[int], limit: int | UnsetType) -> Sequence[int | UnsetType]:
    """Divide a limit in proportion to what there is. Each that has something gets a share if possible."""
    total = sum(available)
    if limit is UNSET or total <= limit:
        return [UNSET] * len(available) if limit is UNSET else list(available)
    found = [limit * each // total for each in available]
    left = limit - sum(found)
    # The remainder goes to those with the smallest shares.
    for at in sorted(range(len(found)), key=lambda at: (found[at], -available[at])):
        if left and found[at] < available[at]:
            found[at] += 1
            left -= 1
    return found


def _parts(count: int, size: int, limits: PlanLimits) -> int:
    parts = max(limits.parts, min(limits.spread, ceil(count / WORTH_A_PART)))
    if limits.part_messages is not UNSET:
        parts = max(parts, ceil(count / limits.part_messages))
    if limits.part_bytes is not UNSET:
        parts = max(parts, ceil(size / limits.part_bytes))
    return min(parts, count)
