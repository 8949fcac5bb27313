"""A queue manager of the core with Delivery beside it, and the words that tests of Delivery use."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from tests.core.engine import ME, Rig
from waypost.core.delivery import Delivery
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.ports import MessageArrived, MessagePositionDeleted
from waypost.core.queues import AccessType, Queue
from waypost.core.writing import EnqueueStatus
from waypost.wire.format_names import FormatName, Suffix
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass

THEM = b"\x22" * 16
ARRIVED = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
BAD_QUEUE = MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q
DELETED = MessageClass.MQMSG_CLASS_NACK_DELETED
TOO_LATE = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT
QUOTA = MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA
BAD_SIGNATURE = MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE
BAD_ENCRYPTION = MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
NOT_TRANSACTIONAL_Q = MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q
NOT_TRANSACTIONAL_MSG = MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG
Q_DELETED = MessageClass.MQMSG_CLASS_NACK_Q_DELETED
PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
EXPIRED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
REJECTED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED

ORDERS = FormatName.parse("DIRECT=OS:host\\private$\\orders")
ADMIN = FormatName.parse("DIRECT=OS:host\\private$\\admin")


class Office(Rig):
    """A queue manager with a queue for acknowledgments, and its Delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.admin = self.create("admin")
        self.delivery = Delivery(self.manager)
        self.numbers = count(1)
        system = self.manager.system_queues
        self.journal, self.dead, self.dead_tx = (
            system[suffix] for suffix in (Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT)
        )

    def letter(self, source: bytes = ME, /, **changes: object) -> Message:
        """A message to `orders` that an application of `source` sent now."""
        letter = replace(
            self.message("order"),
            identifier=MessageIdentifier(source, next(self.numbers)),
            destination_queue_format_name=ORDERS,
            body=b"two of them",
        )
        return replace(letter, **changes)  # type: ignore[arg-type]

    def transactional(self, source: bytes = ME, /, **changes: object) -> Message:
        return self.letter(
            source,
            priority=0,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(1, 1),
            **changes,
        )

    def deliver(self, letter: Message, queue: Queue | None = None) -> int:
        assert self.enqueue(letter, queue) is EnqueueStatus.ACCEPTED
        self.settle()
        return letter.lookup_identifier

    def settle(self) -> int:
        """Let Delivery see the events, and what they led to, until nothing happens. Returns the number of rounds."""
        for rounds in range(10):
            events = self.manager.take_events()
            if not events:
                return rounds
            for event in events:
                if isinstance(event, MessageArrived | MessagePositionDeleted):
                    self.delivery.handle(event, self.now)
        pytest.fail("it does not end")

    def receive_one(self) -> None:
        handle = self.open()
        self.receive(handle)
        self.manager.close_queue(handle)
        self.settle()

    def purge(self) -> None:
        self.manager.writing.purge_queue(self.orders)
        self.settle()

    def delete(self) -> None:
        self.manager.delete_queue(self.orders)
        self.settle()

    def expire(self) -> None:
        self.advance(61)
        self.settle()

    def reject(self) -> None:
        (lookup_id,) = self.orders.positions
        self.manager.positions.deleted(self.orders, lookup_id, REJECTED)
        self.settle()

    def outgoing(self, name: str = "DIRECT=OS:far\\private$\\orders") -> Queue:
        """The queue for what goes to this one of another computer."""
        handle = self.open(AccessType.SEND, name=name)
        queue = handle.queue
        assert queue is not None
        self.manager.close_queue(handle)
        self.manager.take_events()
        return queue

    def contents(self, queue: Queue) -> list[Message]:
        return [self.messages.get(queue.number, lookup_id) for lookup_id in queue.positions]

    def classes(self, queue: Queue) -> list[int]:
        return [message.message_class for message in self.contents(queue)]


# The ways in which a message can leave its queue.
ENDS: dict[MessageClass, Callable[[Office], None]] = {
    RECEIVED: Office.receive_one,
    PURGED: Office.purge,
    Q_DELETED: Office.delete,
    EXPIRED: Office.expire,
    REJECTED: Office.reject,
}
