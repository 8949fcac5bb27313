"""The store folder of a queue manager as a read-only origin, on the same host, with or without a running daemon."""

from collections.abc import Iterator

from msgspec import UNSET

from waypost.api.bulk import Claim, Claimed, PlannedRange, PlanRange, ReadClaim, RemoveRange
from waypost.arrow.packets import Packets
from waypost.client.bulk.folder import FolderReader
from waypost.errors import StoreReadOnly
from waypost.spark.origins.reading import RangeReading


class StoreOrigin(RangeReading[FolderReader]):
    """The Origin of a store folder. It never changes the folder."""

    def plan(self, wanted: PlanRange) -> PlannedRange:
        if wanted.up_to is UNSET:
            # A plan without an end needs the current end of the queue.
            self._client.renew()
        return super().plan(wanted)

    def remove(self, wanted: RemoveRange) -> int:
        raise _read_only()

    def claim(self, wish: Claim) -> Claimed:
        raise _read_only()

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        raise _read_only()

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        raise _read_only()


def _read_only() -> StoreReadOnly:
    return StoreReadOnly("a store folder is read-only, so messages stay in it; use the mode peek, or a daemon")
