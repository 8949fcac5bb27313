"""An Origin in memory: queues are lists of arrival numbers, and a packet is its number in eight bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from math import ceil

import numpy as np
from msgspec import UNSET, UnsetType

from waypost.api.bulk import (
    Batches,
    BulkQueue,
    PlanLimits,
    PlannedRange,
    PlanRanges,
    RangeOfQueue,
    ReadRange,
    Removed,
    RemoveRange,
    Rest,
)
from waypost.api.claims import Claim, Claimed, KeepClaim, ReadClaim, TakeClaim, Taken
from waypost.arrow.packets import Packets
from waypost.errors import ClaimTaken, MessageNotFound, QueueDeleted, QueueNotFound

BYTES_EACH = 10


@dataclass
class FakeQueue:
    epoch: str
    numbers: list[int] = field(default_factory=list)
    # The smallest number that is not certain yet.
    unstable: int | None = None
    claim: str = ""
    part: int = 0
    settled: int = 0
    term: int = 0
    driver: str = ""
    asked: float = 0.0
    leader: str = ""
    claimed: list[int] = field(default_factory=list)

    @property
    def stable(self) -> int:
        last = max((*self.numbers, 0))
        return last if self.unstable is None else min(last, self.unstable - 1)


class FakeOrigin:
    """See waypost.spark.origins.Origin; `gone` are the numbers that were removed or settled."""

    def __init__(self, *names: str) -> None:
        self.held: dict[str, FakeQueue] = {}
        self.gone: dict[str, list[int]] = {}
        for name in names:
            self.add(name)
        self.seq = 0
        # Number of plans that were asked for.
        self.requests = 0
        self.beats = 0
        self.committed: dict[str, Batches] = {}

    def add(self, name: str) -> None:
        self.held[name], self.gone[name] = FakeQueue(f"e{len(self.held)}"), []

    def arrive(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            self.seq += 1
            self.held[name].numbers.append(self.seq)

    def recreate(self, name: str) -> None:
        self.held[name] = FakeQueue(epoch=self.held[name].epoch + "+")

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        return [self.queue(name) for name in self.held if name.startswith(pattern.rstrip("*"))]

    def queue(self, name: str) -> BulkQueue:
        queue = self._queue(name, "")
        return BulkQueue(
            format_name=name,
            path=name,
            kind="private",
            transactional=True,
            epoch=queue.epoch,
            count=len(queue.numbers),
            bytes=len(queue.numbers) * BYTES_EACH,
            first=min(queue.numbers, default=0),
            last=max(queue.numbers, default=0),
            stable=queue.stable,
            committed=max(queue.numbers, default=0),
            oldest=0,
            held=int(queue.unstable is not None),
            held_s=0.0,
            held_by="a stage" if any(number > queue.stable for number in queue.numbers) else "",
            behind=sum(number > queue.stable for number in queue.numbers),
        )

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        self.requests += 1
        found = {each.name: self._waiting(each) for each in wanted.ranges}
        limits = [sum(map(len, found.values()))]
        if wanted.max_messages is not UNSET:
            limits.append(wanted.max_messages)
        if wanted.max_bytes is not UNSET:
            limits.append(max(wanted.max_bytes // BYTES_EACH, 1))
        some = _shares({name: len(numbers) for name, numbers in found.items()}, min(limits))
        return [self._plan(each, wanted, found[each.name], some[each.name]) for each in wanted.ranges]

    def _waiting(self, wanted: RangeOfQueue) -> list[int]:
        try:
            queue = self._queue(wanted.name, wanted.epoch)
        except (QueueNotFound, QueueDeleted):
            return []
        end = queue.stable if wanted.up_to is UNSET else wanted.up_to
        end = end if wanted.before is UNSET else max(number for number in (0, *queue.numbers) if number < wanted.before)
        return sorted(number for number in queue.numbers if self._after(wanted) < number <= end)

    def _after(self, wanted: RangeOfQueue) -> int:
        if wanted.since is UNSET:
            return wanted.after
        return max(number for number in (0, *self.held[wanted.name].numbers) if number < wanted.since)

    def _plan(self, wanted: RangeOfQueue, limits: PlanLimits, found: list[int], count: int) -> PlannedRange:
        try:
            queue = self._queue(wanted.name, wanted.epoch)
        except (QueueNotFound, QueueDeleted):
            return PlannedRange(epoch="", bounds=[wanted.after], counts=[], is_gone=True)
        found = found[:count]
        parts = min(limits.parts, len(found))
        if limits.part_messages is not UNSET:
            parts = max(parts, ceil(len(found) / limits.part_messages))
        edges = [len(found) * part // parts for part in range(parts + 1)] if parts else [0]
        bounds = [self._after(wanted), *(found[edge - 1] for edge in edges[1:])]
        behind = sum(number > queue.stable for number in queue.numbers)
        last = queue.stable if wanted.up_to is UNSET else max(queue.stable, wanted.up_to)
        rest = [number for number in sorted(queue.numbers) if bounds[-1] < number <= last]
        held_by = "a stage" if behind else ""
        is_whole = wanted.up_to is UNSET and not rest
        counts = [b - a for a, b in pairwise(edges)]
        return PlannedRange(
            name=wanted.name,
            kind="private",
            epoch=queue.epoch,
            bounds=bounds,
            counts=counts,
            sizes=[each * BYTES_EACH for each in counts],
            oldest=1 if counts else 0,
            held=int(queue.unstable is not None),
            held_by=held_by if is_whole else "",
            behind=behind if is_whole else 0,
            rest=Rest(
                count=len(rest),
                bytes=len(rest) * BYTES_EACH,
                last=max(rest, default=0),
                oldest=int(bool(rest)),
                held_by=held_by,
                behind=behind,
            ),
        )

    def seq_at(self, name: str, time: datetime) -> int:
        return max((number for number in self._queue(name, "").numbers if number < time.timestamp()), default=0)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        numbers = self._queue(wanted.name, wanted.epoch).numbers
        yield from pages(wanted.name, sorted(each for each in numbers if wanted.after < each <= wanted.up_to))

    def remove(self, wanted: RemoveRange) -> Removed:
        queue = self._queue(wanted.name, wanted.epoch)
        going = [number for number in queue.numbers if wanted.after < number <= wanted.up_to]
        self.gone[wanted.name].extend(going)
        queue.numbers = [number for number in queue.numbers if number not in going]
        return Removed(len(going), 0)

    def take_claim(self, wish: TakeClaim) -> Taken:
        """As long as the claim is not lost, there is one for each queue; another one gives its messages back."""
        queue = self._queue(wish.name, wish.epoch)
        if queue.claim != wish.claim:
            queue.numbers, queue.claimed = sorted(queue.claimed + queue.numbers), []
            queue.claim, queue.part, queue.settled, queue.term = wish.claim, 0, 0, 0
        if queue.driver != wish.driver or wish.started >= queue.asked:
            queue.term += 1
            queue.driver, queue.asked, queue.leader = wish.driver, wish.asked, ""
        return Taken(
            term=queue.term,
            settled=queue.settled,
            given=queue.part,
            is_held=bool(queue.claimed),
            places=_places(queue.claimed, wish.part_bytes),
        )

    def keep_claim(self, wish: KeepClaim) -> None:
        self._of_term(wish)
        self.beats += 1

    def claim(self, wish: Claim) -> Claimed:
        queue, most = self._of_term(wish), wish.max_messages
        queue.leader = queue.leader or wish.reader
        if wish.after == queue.part and queue.leader == wish.reader:
            self.gone[wish.name].extend(queue.claimed)
            queue.claimed, queue.settled = [], queue.part
            if queue.numbers[:most]:
                queue.claimed, queue.numbers = queue.numbers[:most], queue.numbers[most:]
                queue.part += 1
        is_next = bool(queue.claimed) and queue.part > wish.after
        number, count = (queue.part, len(queue.claimed)) if is_next else (wish.after, 0)
        places = _places(queue.claimed, wish.part_bytes) if is_next else []
        return Claimed(number=number, count=count, bytes=0, epoch=queue.epoch, places=places)

    def give_back(self, name: str) -> None:
        queue = self.held[name]
        queue.numbers, queue.claimed = sorted(queue.claimed + queue.numbers), []

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        queue = self._of_term(wanted)
        if queue.part != wanted.number:
            raise MessageNotFound(f"part {wanted.number} is not claimed")
        yield from pages(wanted.name, queue.claimed[wanted.start : wanted.stop])

    def batches(self, query: str) -> Batches:
        return self.committed.get(query, Batches([]))

    def close(self) -> None:
        pass

    def _of_term(self, wish: Claim | KeepClaim | ReadClaim) -> FakeQueue:
        queue = self._queue(wish.name, wish.epoch)
        if (queue.claim, queue.term) != (wish.claim, wish.term):
            raise ClaimTaken(f"the term {wish.term} is over")
        return queue

    def _queue(self, name: str, epoch: str) -> FakeQueue:
        if name not in self.held:
            raise QueueNotFound(f"the queue {name} does not exist")
        if epoch and epoch != self.held[name].epoch:
            raise QueueDeleted(f"{name} is another queue now")
        return self.held[name]


def pages(name: str, numbers: Sequence[int]) -> Iterator[Packets]:
    for start in range(0, len(numbers), 3):
        page = numbers[start : start + 3]
        found = Packets.of([number.to_bytes(8, "little") for number in page])
        yield Packets(found.data, found.offsets, name, np.array(page, np.uint64))


def _shares(available: dict[str, int], limit: int) -> dict[str, int]:
    """Divide a limit in proportion, and the remainder among the smallest shares."""
    total = sum(available.values())
    found = {name: min(count, limit * count // max(total, 1)) for name, count in available.items()}
    for name in sorted(available, key=lambda name: (found[name], -available[name])):
        if sum(found.values()) < limit and found[name] < available[name]:
            found[name] += 1
    return found


def _places(claimed: Sequence[int], part_bytes: int | UnsetType) -> list[int]:
    if part_bytes is UNSET or not claimed:
        return []
    return [*range(0, len(claimed), max(part_bytes // BYTES_EACH, 1)), len(claimed)]
