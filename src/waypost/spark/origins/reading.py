"""What a daemon and the folder of a store are read by alike: ranges of arrival numbers."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import UNSET

from waypost.api.bulk import BulkQueue, Locked, PlannedRange, PlanRange, ReadRange
from waypost.arrow.packets import Packets
from waypost.spark.origin import Limits

# Loaded by who needs one of them: see waypost.spark.origins.
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

    def plan(self, name: str, after: int, up_to: int | None, limits: Limits, *, parts: int, epoch: str) -> PlannedRange:
        wanted = PlanRange(
            name=name,
            after=after,
            up_to=UNSET if up_to is None else up_to,
            max_messages=UNSET if limits.max_messages is None else limits.max_messages,
            max_bytes=UNSET if limits.max_bytes is None else limits.max_bytes,
            parts=parts,
            locked=self._locked,
            epoch=epoch,
        )
        return self._client.plan(wanted)

    def seq_at(self, name: str, time: datetime) -> int:
        return self._client.seq_at(name, time)

    def read(self, name: str, after: int, up_to: int, *, epoch: str) -> Iterator[Packets]:
        wanted = ReadRange(name=name, after=after, up_to=up_to, locked=self._locked, epoch=epoch)
        for frame in self._client.read_all(wanted):
            yield Packets.of_frame(frame, name)

    def close(self) -> None:
        self._client.close()
