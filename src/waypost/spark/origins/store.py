"""The folder of a queue manager as an origin, read only, on the same host, with or without a daemon on it."""

from collections.abc import Iterator

from msgspec import UNSET

from waypost.api.bulk import Claim, Claimed, PlannedRange, PlanRange, ReadClaim, RemoveRange
from waypost.arrow.packets import Packets
from waypost.client.bulk.folder import FolderReader
from waypost.errors import StoreReadOnly
from waypost.spark.origins.reading import RangeReading


class StoreOrigin(RangeReading[FolderReader]):
    """See waypost.spark.origin.Origin. What is in the folder stays there."""

    def plan(self, wanted: PlanRange) -> PlannedRange:
        if wanted.up_to is UNSET:
            # Whoever asks where the queue ends means by now.
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
    return StoreReadOnly("nothing can be taken out of a folder that is only read; use the mode peek, or a daemon")
