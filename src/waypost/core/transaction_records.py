"""Transactions and their operations: MS-MQDMPR 3.1.1.13 and 3.1.1.14."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain

from waypost.core.message import Message
from waypost.core.queues import Queue
from waypost.wire.message_class import MessageClass


class OperationType(Enum):
    ENQUEUE = auto()
    DEQUEUE = auto()
    MOVE = auto()


@dataclass(slots=True)
class TransactionalOperation:
    """MS-MQDMPR 3.1.1.13. A Move has a target, a Dequeue the reason for its acknowledgment.

    `message` was read with the operation, so that its commit need not read it again. A quiet Enqueue is of a message
    that is known to ask for no attention.
    """

    operation_type: OperationType
    queue: Queue
    lookup_id: int
    dequeue_reason: MessageClass = MessageClass.MQMSG_CLASS_ACK_RECEIVE
    target_queue: Queue | None = None
    message: Message | None = None
    is_quiet: bool = False

    @property
    def is_send(self) -> bool:
        """An Enqueue into a queue that was not deleted meanwhile."""
        return self.operation_type is OperationType.ENQUEUE and self.queue.positions.is_held(self.lookup_id)


@dataclass(slots=True)
class Transaction:
    """MS-MQDMPR 3.1.1.14. `single_phase` is True for a transaction of this queue manager alone.

    `number` is in the packets that it sends. The operations are in the order of their recording, by the number
    of the queue and the LookupIdentifier.
    """

    identifier: bytes
    single_phase: bool = True
    is_prepared: bool = False
    number: int = 0
    operations: dict[tuple[int, int], TransactionalOperation] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        """Whether it outlives the process: only the coordinator of an external transaction knows its outcome."""
        return self.is_prepared and not self.single_phase


@dataclass(slots=True)
class Run:
    """Operations of one type on one queue, an Enqueue or a Dequeue, by the thousand: without an object for each.

    `spans` are LookupIdentifiers in the order of arrival. A quiet Run is one of messages that ask for no attention.
    """

    operation_type: OperationType
    queue: Queue
    spans: list[range]
    is_quiet: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.spans))

    def __contains__(self, lookup_id: int) -> bool:
        return any(lookup_id in span for span in self.spans)

    def lookup_ids(self) -> list[int]:
        return list(chain.from_iterable(self.spans))

    def some(self, places: range) -> list[int]:
        """The LookupIdentifiers in these places, counted from 0."""
        found: list[int] = []
        at = 0
        for span in self.spans:
            found += span[max(places.start - at, 0) : max(places.stop - at, 0)]
            at += len(span)
        return found


def spans_of(lookup_ids: Sequence[int]) -> list[range]:
    """These numbers in the same order, with consecutive ones joined."""
    spans: list[range] = []
    first = end = -1
    for lookup_id in lookup_ids:
        if lookup_id != end:
            if first >= 0:
                spans.append(range(first, end))
            first = lookup_id
        end = lookup_id + 1
    if first >= 0:
        spans.append(range(first, end))
    return spans
