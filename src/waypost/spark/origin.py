"""Where messages come from: what a source of Spark asks of a daemon, of any MSMQ host, or of a store on this computer.

An origin is made from options in every process that needs one (the driver plans, executors read), and closed there.
The words are those of waypost.api.bulk, which says what they mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from waypost.api.bulk import BulkQueue, PlannedRange
from waypost.arrow.packets import Packets


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a plan may take; None is everything."""

    max_messages: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a claim: the messages at the places [start, stop) of part `number`."""

    claim: str
    number: int
    start: int
    stop: int


class Origin(Protocol):
    """Raises WaypostError with a sentence for everything that cannot be done. Queues are format names."""

    def queues(self, pattern: str) -> Sequence[BulkQueue]: ...

    def queue(self, name: str) -> BulkQueue: ...

    def plan(self, name: str, after: int, up_to: int | None, limits: Limits, *, parts: int, epoch: str) -> PlannedRange:
        """With `up_to` None it ends where the queue is stable."""

    def seq_at(self, name: str, time: datetime) -> int: ...

    def read(self, name: str, after: int, up_to: int, *, epoch: str) -> Iterator[Packets]:
        """All messages of the range, page by page."""

    def remove(self, name: str, after: int, up_to: int, *, epoch: str) -> int:
        """Take what is there of the range out of the queue; how many messages that were."""

    def claim(self, name: str, claim: str, after: int, limits: Limits, *, epoch: str) -> tuple[int, int]:
        """The number of the part, and how many messages it has; no messages if there is none."""

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        """Take the parts up to number `after` out of the queue for good, and claim nothing more."""

    def read_claim(self, name: str, part: Part, *, epoch: str) -> Iterator[Packets]: ...

    def close(self) -> None: ...
