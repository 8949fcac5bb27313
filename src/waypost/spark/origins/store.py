"""The folder of a queue manager as an origin, read only, on the same host, with or without a daemon on it."""

from collections.abc import Iterator

from waypost.api.bulk import PlannedRange
from waypost.arrow.packets import Packets
from waypost.client.bulk.folder import FolderReader
from waypost.errors import StoreReadOnly
from waypost.spark.origin import Limits, Part
from waypost.spark.origins.reading import RangeReading


class StoreOrigin(RangeReading[FolderReader]):
    """See waypost.spark.origin.Origin. What is in the folder stays there."""

    def plan(self, name: str, after: int, up_to: int | None, limits: Limits, *, parts: int, epoch: str) -> PlannedRange:
        if up_to is None:
            # Whoever asks where the queue ends means by now.
            self._client.renew()
        return super().plan(name, after, up_to, limits, parts=parts, epoch=epoch)

    def remove(self, name: str, after: int, up_to: int, *, epoch: str) -> int:
        raise _read_only()

    def claim(self, name: str, claim: str, after: int, limits: Limits, *, epoch: str) -> tuple[int, int]:
        raise _read_only()

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        raise _read_only()

    def read_claim(self, name: str, part: Part, *, epoch: str) -> Iterator[Packets]:
        raise _read_only()


def _read_only() -> StoreReadOnly:
    return StoreReadOnly("nothing can be taken out of a folder that is only read; use the mode peek, or a daemon")
