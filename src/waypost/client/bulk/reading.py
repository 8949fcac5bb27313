"""Bulk reads that a daemon and the folder of a store have in common."""

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
    PlanRanges,
    ReadRange,
    ShowBulkQueue,
)
from waypost.api.frames import Frame
from waypost.api.operations import Operation
from waypost.client.bulk.paging import frames
from waypost.errors import InvalidParameter

R = TypeVar("R")


class BulkReading(ABC):
    """Bulk reads. Close the object, or use it in a `with` statement. Queue names are as in `waypost.connect`."""

    __slots__ = ()

    @abstractmethod
    def call(self, operation: Operation[R], /) -> R:
        """Run an operation of waypost.api.bulk, and wait for its reply."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queues(self, pattern: str = "", kind: BulkKind = "") -> list[BulkQueue]:
        """List the queues that applications have created, or the queues of one kind: see ListBulkQueues."""
        return self.call(ListBulkQueues(kind=kind, pattern=pattern)).queues

    def queue(self, name: str) -> BulkQueue:
        """The current state of the queue, with the numbers of its first and last messages."""
        return self.call(ShowBulkQueue(name=name))

    def plan(self, wanted: PlanRange) -> PlannedRange:
        """Divide the messages after a given arrival number into ranges of about the same size in bytes."""
        return self.call(wanted)

    def plan_all(self, wanted: PlanRanges) -> list[PlannedRange]:
        """Plan ranges of several queues together, in one request."""
        return self.call(wanted).plans

    def read(self, wanted: ReadRange) -> Frame:
        """The messages of a range, as many as its limits allow."""
        return self.call(wanted)

    def read_all(self, wanted: ReadRange) -> Iterator[Frame]:
        """Return all messages of a range, in frames of at least one message.

        Fails if the queue is deleted and created again.
        """
        return frames(self.read, wanted)

    def seq_at(self, name: str, time: datetime | float) -> int:
        """The number before the first message that arrived at this time or later. A datetime must have a time zone."""
        if isinstance(time, datetime):
            if time.tzinfo is None:
                raise InvalidParameter(f"the time {time} must have a time zone")
            time = time.timestamp()
        return self.call(FindSeq(name=name, time=time)).seq
