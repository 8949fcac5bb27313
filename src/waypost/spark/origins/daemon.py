"""A Waypost daemon as an origin, through its bulk interface."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bulk import (
    Batches,
    BulkQueue,
    Claim,
    Claimed,
    KeepClaim,
    ListBatches,
    PlannedRange,
    PlanRanges,
    ReadClaim,
    ReadRange,
    Removed,
    RemoveRange,
    TakeClaim,
    Taken,
)
from waypost.arrow.packets import Packets
from waypost.client.bulk.client import BulkClient
from waypost.spark.options import Endpoint


class DaemonOrigin:
    """The Origin of a daemon."""

    def __init__(self, client: BulkClient, endpoint: Endpoint) -> None:
        self._client: Final = client
        self._endpoint: Final = endpoint

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        return self._client.queues(pattern, "all")

    def queue(self, name: str) -> BulkQueue:
        return self._client.queue(name)

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        locked = "skip" if wanted.locked == "skip" else self._endpoint.locked
        return self._client.plan_all(replace(wanted, locked=locked))

    def seq_at(self, name: str, time: datetime) -> int:
        return self._client.seq_at(name, time)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        for frame in self._client.read_all(replace(wanted, locked=self._endpoint.locked)):
            yield Packets.of_frame(frame, wanted.name)

    def remove(self, wanted: RemoveRange) -> Removed:
        count = first_moved = 0
        while True:
            removed = self._client.remove(wanted)
            count += removed.count
            first_moved = first_moved or removed.first_moved
            # The messages that are left then are locked by another reader, or were moved there after the plan.
            is_over = not removed.count if wanted.as_of is UNSET else removed.end >= wanted.up_to
            if is_over or not removed.left:
                return Removed(count, removed.left, first_moved, wanted.up_to)
            if wanted.as_of is not UNSET:
                wanted = replace(wanted, after=removed.end)

    def claim(self, wish: Claim) -> Claimed:
        return self._client.claim(replace(wish, lease_s=self._endpoint.lease_s, max_aborts=self._endpoint.max_aborts))

    def take_claim(self, wish: TakeClaim) -> Taken:
        return self._client.take_claim(wish)

    def keep_claim(self, wish: KeepClaim) -> None:
        self._client.keep_claim(wish)

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        for frame in self._client.read_claim_all(wanted):
            yield Packets.of_frame(frame, wanted.name)

    def batches(self, query: str) -> Batches:
        return self._client.call(ListBatches(query=query))

    def close(self) -> None:
        self._client.close()
