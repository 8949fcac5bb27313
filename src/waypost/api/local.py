"""Operations inside the process only: they have no path, and clients cannot request them."""

from dataclasses import dataclass
from typing import Final

from waypost.api.bulk import BulkQueues
from waypost.api.operations import Operation, QueueName, Right, operation
from waypost.core.message import Message
from waypost.wire.format_names import FormatName


@operation("", asks=Right.READ, status=204)
class CancelReads(Operation[None], frozen=True, kw_only=True):
    """Cancel the reads that wait on a queue, and close its shared handles: all, or only those for reading."""

    name: QueueName
    keeps_sending: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """Messages that have come to a queue, and the `since` and `held` to go on with."""

    messages: list[Message]
    since: int
    held: tuple[int, ...]


@operation("", asks=Right.READ)
class Follow(Operation[Followed], frozen=True, kw_only=True):
    """Peek at messages that came to a queue after the SequentialID `since`, in the order of arrival.

    The answer has at most `limit` of them, and those of `held`: LookupIdentifiers of earlier messages that were not
    visible yet.
    """

    name: QueueName
    since: int
    limit: int
    held: tuple[int, ...] = ()


@operation("", asks=Right.READ)
class ShowBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """Show these queues, for a part of a list. Deleted ones are left out."""

    names: tuple[FormatName, ...]


LOCAL_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (CancelReads, Follow, ShowBulkQueues)
