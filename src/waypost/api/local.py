"""Operations that are asked for inside the process alone: they have no path, and nobody else can ask for them."""

from dataclasses import dataclass
from typing import Final

from waypost.api.bulk import BulkQueues
from waypost.api.operations import Operation, QueueName, Right, operation
from waypost.core.message import Message
from waypost.wire.format_names import FormatName


@operation("", asks=Right.READ, status=204)
class CancelReads(Operation[None], frozen=True, kw_only=True):
    """End the reads that wait on a queue, and close what is open there for all, or only for those who read."""

    name: QueueName
    keeps_sending: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """Messages that have come to a queue, and the place and the messages to go on with."""

    messages: list[Message]
    since: int
    held: tuple[int, ...]


@operation("", asks=Right.READ)
class Follow(Operation[Followed], frozen=True, kw_only=True):
    """Look at messages that have come to a queue behind the SequentialID `since`, in the order of arrival.

    There are `limit` of them at most, and those of `held` beside: LookupIdentifiers of messages that were there before,
    and could not be seen yet.
    """

    name: QueueName
    since: int
    limit: int
    held: tuple[int, ...] = ()


@operation("", asks=Right.READ)
class ShowBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """Show how far these queues can be read: a part of a list. Those that are gone are left out."""

    names: tuple[FormatName, ...]


LOCAL_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (CancelReads, Follow, ShowBulkQueues)
