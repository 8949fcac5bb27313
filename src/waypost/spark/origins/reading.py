"""Reading by ranges of arrival numbers, for a daemon and for the folder of a store."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec.structs import replace

from waypost.api.bulk import BulkQueue, Locked, PlannedRange, PlanRanges, ReadRange
from waypost.arrow.packets import Packets

# Imported only for types: waypost.spark.origins loads the one that is needed.
if TYPE_CHECKING:
    from waypost.client.bulk.client import BulkClient
    from waypost.client.bulk.folder import FolderReader

C = TypeVar("C", "BulkClient", "FolderReader")


class RangeReading(Generic[C]):
    """The reading half of an Origin."""

    def __init__(self, client: C, locked: Locked) -> None:
        self._client: Final[C] = client
        self._locked: Final[Locked] = locked

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        return self._client.queues(pattern, "all")

    def queue(self, name: str) -> BulkQueue:
        return self._client.queue(name)

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        return self._client.plan_all(replace(wanted, locked=self._locked))

    def seq_at(self, name: str, time: datetime) -> int:
        return self._client.seq_at(name, time)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        for frame in self._client.read_all(replace(wanted, locked=self._locked)):
            yield Packets.of_frame(frame, wanted.name)

    def close(self) -> None:
        self._client.close()
