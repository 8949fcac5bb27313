"""Transactions and their operations: MS-MQDMPR 3.1.1.13 and 3.1.1.14."""

from dataclasses import dataclass, field
from enum import Enum, auto

from waypost.core.message import Message
from waypost.core.queues import Queue
from waypost.wire.message_class import MessageClass


class OperationType(Enum):
    ENQUEUE = auto()
    DEQUEUE = auto()
    MOVE = auto()


@dataclass(slots=True)
class TransactionalOperation:
    """MS-MQDMPR 3.1.1.13. A Move has a target, a Dequeue the reason that its acknowledgment will tell.

    `message` is what was read with the operation, so that its commit need not read it again. A quiet Enqueue is of a
    message that is known to ask for no attention.
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
        """An Enqueue whose queue was not deleted meanwhile."""
        return self.operation_type is OperationType.ENQUEUE and self.queue.positions.is_held(self.lookup_id)


@dataclass(slots=True)
class Transaction:
    """MS-MQDMPR 3.1.1.14. `single_phase` is True for a transaction of this queue manager alone.

    `number` is what the packets that it sends carry. The operations are in the order of their recording, by the number
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
