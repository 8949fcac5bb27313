"""Messages of this queue manager that come back to it: MS-MQQB 3.1.5.8.2.

No other host sends in our name, so a message that claims to be from here is refused, with one exception: a wrong route
of a host to which our own routes lead can bring a message back. A host is such a one if it has the GUID of a next hop
and an address at which that one was dialled, and the message has an ordinal that was given out here. Such a message
will never arrive. A plain one comes to its end: no other host has it. One of a transaction is still in its queue or
awaits its FinalAck, and ends by the rules for that; only its copy is dropped. In both cases the log reports the loop.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.delivery import Delivery
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.guid import guid_text
from waypost.limits import MAX_LOOPS
from waypost.node.kernel import Kernel
from waypost.node.network.hop_finder import HopFinder
from waypost.node.network.outgoing_links import linked
from waypost.node.sequences import Sequences
from waypost.transfer.session import Session
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

_REASON: Final = MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED


@dataclass(slots=True)
class Loop:
    """Messages for `destination` came back from the queue manager `guid` at `address`, the last one at `time`."""

    destination: FormatName
    guid: bytes
    address: str
    count: int
    time: int

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.destination} by {guid_text(self.guid)} at {self.address}, {times}"


class Loops:
    """The loops that were seen since the start."""

    __slots__ = ("_delivery", "_finder", "_kernel", "_loops", "_manager", "_sequences", "_statistics")

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        finder: HopFinder,
        delivery: Delivery,
        *,
        sequences: Sequences,
        statistics: Statistics,
    ) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._finder: Final = finder
        self._delivery: Final = delivery
        self._sequences: Final = sequences
        self._statistics: Final = statistics
        self._loops: dict[FormatName, Loop] = {}

    def refusal(self, session: Session, packet: UserMessage) -> str | None:
        """The reason not to believe that a message which names this queue manager as its source comes back, or None."""
        if not self._finder.is_next_hop(session.remote_qm_guid, session.remote_qm_address):
            return "the message claims to be from this computer"
        if not 0 < packet.user.message_id <= self._manager.last_ordinal:
            return (
                "the message claims to be from this computer, but this computer has not sent a message with this number"
            )
        if self._has_ended(packet):
            return "the message was sent from this computer, and its delivery is complete"
        return None

    def _has_ended(self, packet: UserMessage) -> bool:
        header = packet.transaction
        if header is None:
            return self._delivery.has_ended(packet.user.message_id)
        queue = self._sequences.queue_of(header.tx_sequence_id)
        link = linked(queue)
        if link is None or link.sequence.sequence_id.value != header.tx_sequence_id:
            return True
        return link.sequence.lookup_id_of(header.tx_sequence_number) is None

    def came_back(self, session: Session, packet: UserMessage, message: Message, now: Now) -> None:
        self._statistics.messages_returned += 1
        name = message.destination_queue_format_name
        assert name is not None
        self._note(name, session, now)
        self._kernel.notice("message came back", queue=str(name), peer=session.remote_qm_address)
        if packet.transaction is None and not self._end_in_queue(name, message):
            self._delivery.rejected(message, _REASON, now)

    def of(self, name: FormatName) -> Loop | None:
        return self._loops.get(name)

    def since(self, wall: float) -> Iterator[Loop]:
        """The loops that were seen at this time or later."""
        return (loop for loop in self._loops.values() if loop.time >= wall)

    def _end_in_queue(self, name: FormatName, message: Message) -> bool:
        """End the message where it waits for the acknowledgment of the session, if it still does."""
        queue = self._manager.collection.outgoing.get(name)
        link = linked(queue)
        if queue is None or link is None:
            return False
        for sent in link.outbox.sent.values():
            if sent.message.identifier == message.identifier and sent.lookup_id in queue.positions:
                self._manager.positions.deleted(queue, sent.lookup_id, _REASON, sent.message)
                return True
        return False

    def _note(self, name: FormatName, session: Session, now: Now) -> None:
        before = self._loops.pop(name, None)
        count = 1 if before is None else before.count + 1
        self._loops[name] = Loop(name, session.remote_qm_guid, session.remote_qm_address, count, int(now.wall))
        if len(self._loops) > MAX_LOOPS:
            del self._loops[next(iter(self._loops))]
