"""The store folder of a queue manager as a read-only origin, on the same host, with or without a running daemon."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from waypost.api.bulk import (
    Claim,
    Claimed,
    KeepClaim,
    PlannedRange,
    PlanRanges,
    ReadClaim,
    RemoveRange,
    TakeClaim,
    Taken,
)
from waypost.arrow.packets import Packets
from waypost.client.bulk.folder import FolderReader
from waypost.errors import StoreReadOnly
from waypost.spark.origins.reading import RangeReading


class StoreOrigin(RangeReading[FolderReader]):
    """The Origin of a store folder. It never changes the folder."""

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        if any(each.up_to is UNSET for each in wanted.ranges):
            # A plan without an end needs the current end of the queue.
            self._client.renew()
        return super().plan(wanted)

    def remove(self, wanted: RemoveRange) -> int:
        raise _read_only()

    def claim(self, wish: Claim) -> Claimed:
        raise _read_only()

    def take_claim(self, wish: TakeClaim) -> Taken:
        raise _read_only()

    def keep_claim(self, wish: KeepClaim) -> None:
        raise _read_only()

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        raise _read_only()

    def batches(self, query: str) -> Sequence[int]:
        return ()


def _read_only() -> StoreReadOnly:
    return StoreReadOnly("a store folder is read-only, so messages stay in it; use the mode peek, or a daemon")
