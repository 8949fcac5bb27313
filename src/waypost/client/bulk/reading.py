"""What can be read in bulk of a daemon and of the folder of a store alike."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from typing import Self, TypeVar

from waypost.api.bulk import (
    BulkKind,
    BulkQueue,
    FindSeq,
    ListBulkQueues,
    PlannedRange,
    PlanRange,
    ReadRange,
    ShowBulkQueue,
)
from waypost.api.frames import Frame
from waypost.api.operations import Operation
from waypost.client.bulk.paging import frames
from waypost.errors import InvalidParameter

R = TypeVar("R")


class BulkReading(ABC):
    """Close it, or use it in a `with` statement. Queues are named in any way that `waypost.connect` knows."""

    __slots__ = ()

    @abstractmethod
    def call(self, operation: Operation[R], /) -> R:
        """Have an operation of waypost.api.bulk done, and wait for its reply."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queues(self, pattern: str = "", kind: BulkKind = "") -> list[BulkQueue]:
        """Those that applications have created, or of one kind: see ListBulkQueues."""
        return self.call(ListBulkQueues(kind=kind, pattern=pattern)).queues

    def queue(self, name: str) -> BulkQueue:
        """How far a queue can be read."""
        return self.call(ShowBulkQueue(name=name))

    def plan(self, wanted: PlanRange) -> PlannedRange:
        """Divide the messages behind a number into ranges of about the same count."""
        return self.call(wanted)

    def read(self, wanted: ReadRange) -> Frame:
        """Messages of a range, as many as its limits allow."""
        return self.call(wanted)

    def read_all(self, wanted: ReadRange) -> Iterator[Frame]:
        """All of the range, in frames that have one message at least. The queue has to stay the same one meanwhile."""
        return frames(self.read, wanted)

    def seq_at(self, name: str, time: datetime | float) -> int:
        """The number behind which messages are that arrived at this time or later. A datetime needs its time zone."""
        if isinstance(time, datetime):
            if time.tzinfo is None:
                raise InvalidParameter(f"{time} may be any hour of a day; give the time with its time zone")
            time = time.timestamp()
        return self.call(FindSeq(name=name, time=time)).seq
