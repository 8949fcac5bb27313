"""An Origin in memory: queues are lists of arrival numbers, and a packet is its number in eight bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

import numpy as np
from msgspec import UNSET

from waypost.api.bulk import (
    BulkQueue,
    Claim,
    Claimed,
    PlannedRange,
    PlanRange,
    ReadClaim,
    ReadRange,
    RemoveRange,
)
from waypost.arrow.packets import Packets
from waypost.errors import MessageNotFound, QueueDeleted, QueueNotFound

BYTES_EACH = 10


@dataclass
class FakeQueue:
    epoch: str = "e1"
    numbers: list[int] = field(default_factory=list)
    # The smallest number that is not certain yet.
    unstable: int | None = None
    claim: str = ""
    part: int = 0
    claimed: list[int] = field(default_factory=list)

    @property
    def stable(self) -> int:
        last = max((*self.numbers, 0))
        return last if self.unstable is None else min(last, self.unstable - 1)


class FakeOrigin:
    """See waypost.spark.origin.Origin; `gone` are the numbers that were removed or settled."""

    def __init__(self, *names: str) -> None:
        self.held = {name: FakeQueue() for name in names}
        self.gone: dict[str, list[int]] = {name: [] for name in names}
        self.seq = 0

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
        )

    def plan(self, wanted: PlanRange) -> PlannedRange:
        queue, after = self._queue(wanted.name, wanted.epoch), wanted.after
        end = queue.stable if wanted.up_to is UNSET else wanted.up_to
        found = sorted(number for number in queue.numbers if after < number <= end)
        if wanted.max_messages is not UNSET:
            found = found[: wanted.max_messages]
        if wanted.max_bytes is not UNSET:
            found = found[: max(wanted.max_bytes // BYTES_EACH, 1)]
        parts = min(wanted.parts, len(found))
        edges = [len(found) * part // parts for part in range(parts + 1)] if parts else [0]
        bounds = [after, *(found[edge - 1] for edge in edges[1:])]
        behind = sum(number > end for number in queue.numbers) if wanted.up_to is UNSET else 0
        counts = [b - a for a, b in pairwise(edges)]
        held_by = "a stage" if behind else ""
        return PlannedRange(epoch=queue.epoch, bounds=bounds, counts=counts, held_by=held_by, behind=behind)

    def seq_at(self, name: str, time: datetime) -> int:
        return max((number for number in self._queue(name, "").numbers if number < time.timestamp()), default=0)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        numbers = self._queue(wanted.name, wanted.epoch).numbers
        yield from pages(wanted.name, sorted(each for each in numbers if wanted.after < each <= wanted.up_to))

    def remove(self, wanted: RemoveRange) -> int:
        queue = self._queue(wanted.name, wanted.epoch)
        going = [number for number in queue.numbers if wanted.after < number <= wanted.up_to]
        self.gone[wanted.name].extend(going)
        queue.numbers = [number for number in queue.numbers if number not in going]
        return len(going)

    def claim(self, wish: Claim) -> Claimed:
        self.settle(wish.name, wish.claim, wish.after, epoch=wish.epoch)
        queue, most = self._queue(wish.name, wish.epoch), wish.max_messages
        if not queue.claimed:
            assert most
            queue.claimed, queue.numbers = queue.numbers[:most], queue.numbers[most:]
            queue.part = wish.after + 1
        number = queue.part if queue.claimed else wish.after
        return Claimed(number=number, count=len(queue.claimed), bytes=0, epoch=queue.epoch)

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        queue = self._queue(name, epoch)
        if queue.claim != claim:
            queue.numbers, queue.claimed = sorted(queue.claimed + queue.numbers), []
            queue.claim = claim
        if queue.claimed and queue.part <= after:
            self.gone[name].extend(queue.claimed)
            queue.claimed = []

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        queue = self._queue(wanted.name, wanted.epoch)
        if (queue.claim, queue.part) != (wanted.claim, wanted.number):
            raise MessageNotFound(f"part {wanted.number} is not claimed")
        yield from pages(wanted.name, queue.claimed[wanted.start : wanted.stop])

    def close(self) -> None:
        pass

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
