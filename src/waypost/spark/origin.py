"""Origins of messages: the interface of a daemon, of any MSMQ host, or of a store on this computer for Spark.

An origin is made from options in every process that needs one (the driver plans, executors read), and closed there.
waypost.api.bulk defines the terms. The origin takes the treatment of locked messages and the lease of a claim from the
options.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from waypost.api.bulk import (
    Batches,
    BulkQueue,
    Claim,
    Claimed,
    KeepClaim,
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


class Origin(Protocol):
    """A source of messages. Every method raises WaypostError if it fails. Queues are format names."""

    def queues(self, pattern: str) -> Sequence[BulkQueue]: ...

    def queue(self, name: str) -> BulkQueue: ...

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]: ...

    def seq_at(self, name: str, time: datetime) -> int: ...

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        """All messages of the range, page by page."""

    def remove(self, wanted: RemoveRange) -> Removed:
        """Remove all messages of the range from the queue, in several steps if it is long."""

    def claim(self, wish: Claim) -> Claimed: ...

    def take_claim(self, wish: TakeClaim) -> Taken: ...

    def keep_claim(self, wish: KeepClaim) -> None: ...

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]: ...

    def batches(self, query: str) -> Batches:
        """The last batches of a query that were committed here."""

    def close(self) -> None: ...
