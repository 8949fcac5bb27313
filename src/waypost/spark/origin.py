"""Where messages come from: what a source of Spark asks of a daemon, of any MSMQ host, or of a store on this computer.

An origin is made from options in every process that needs one (the driver plans, executors read), and closed there.
The words are those of waypost.api.bulk, which says what they mean. Where to wait for what is locked, and how long a
claim lasts, is for the origin to know from the options.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from waypost.api.bulk import (
    BulkQueue,
    Claim,
    Claimed,
    PlannedRange,
    PlanRange,
    ReadClaim,
    ReadRange,
    RemoveRange,
)
from waypost.arrow.packets import Packets


class Origin(Protocol):
    """Raises WaypostError with a sentence for everything that cannot be done. Queues are format names."""

    def queues(self, pattern: str) -> Sequence[BulkQueue]: ...

    def queue(self, name: str) -> BulkQueue: ...

    def plan(self, wanted: PlanRange) -> PlannedRange: ...

    def seq_at(self, name: str, time: datetime) -> int: ...

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        """All messages of the range, page by page."""

    def remove(self, wanted: RemoveRange) -> int:
        """Take what is there of the range out of the queue, also if it is long; how many messages that were."""

    def claim(self, wish: Claim) -> Claimed: ...

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        """Take the parts up to number `after` out of the queue for good, and claim nothing more."""

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]: ...

    def close(self) -> None: ...
