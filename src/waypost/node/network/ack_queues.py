"""The outgoing queues of OrderAcks and FinalAcks, by receiver, and their limits.

An owed acknowledgment is never refused, so the limit applies earlier: a message that would lead to one more FinalAck is
not accepted while too many wait for the queue manager that it comes from, or for too many queue managers at its
address. Only its source is affected: it sends the message again, and there is room when it takes its acknowledgments.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.positions import START
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue
from waypost.limits import MAX_ACK_QUEUES_AT_ADDRESS, MAX_WAITING_ACKS, OVERDUE_ACK_SECONDS
from waypost.node.network.hop_finder import HopFinder
from waypost.node.network.outgoing_links import OutgoingLinks
from waypost.node.transactional_acks import ack_queue, address_of, may_relay, peer_of
from waypost.transfer.session import Session
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.user_message import UserMessage


@dataclass(frozen=True, slots=True)
class Overdue:
    """Acknowledgments of an outgoing queue that wait for a host without contact for long, in seconds."""

    queue: OutgoingQueue
    count: int
    seconds: int


class OutgoingAckQueues:
    """The AckQueues of waypost.node.transactional_acks, for a queue manager with transfer."""

    __slots__ = ("_finder", "_links", "_manager", "_statistics")

    def __init__(
        self, manager: QueueManager, links: OutgoingLinks, finder: HopFinder, statistics: Statistics
    ) -> None:  # fmt: skip
        self._manager: Final = manager
        self._links: Final = links
        self._finder: Final = finder
        self._statistics: Final = statistics

    def owes(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue:
        manager = self._manager
        queue = manager.collection.outgoing.get(name) or manager.outgoing.create_owed(name, now)
        self._note(queue, origin)
        return queue

    def leads_to(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue | None:
        manager = self._manager
        queue = manager.collection.outgoing.get(name)
        if queue is None:
            if not self._has_way(name) and self._links.is_crowded(address_of(origin)):
                return None
            queue = manager.outgoing.create(name, now)
        elif len(queue.positions) >= MAX_WAITING_ACKS:
            return None
        self._note(queue, origin)
        return queue

    def refusal(self, session: Session, packet: UserMessage) -> str | None:
        """The reason why the source of the message may not be owed one more FinalAck; None if it may.

        With a reason, the message is refused, and its sequence does not move: it comes again without an OrderAck.
        """
        is_direct = isinstance(packet.user.destination_queue, DirectQueueFormatName)
        target = session.remote_qm_guid if is_direct else packet.user.source_queue_manager
        address = session.remote_qm_address
        reason = self._refusal(ack_queue(target, self._manager, address, is_direct=is_direct), address)
        if reason is None:
            return None
        self._statistics.messages_refused_for_acks += 1
        return reason

    def _refusal(self, name: FormatName, address: str) -> str | None:
        """The reason to refuse messages with FinalAcks for this queue, or None."""
        queue = self._manager.collection.outgoing.get(name)
        if queue is not None:
            if len(queue.positions) < MAX_WAITING_ACKS:
                return None
            return f"{len(queue.positions)} acknowledgments already wait for the queue manager of the sender"
        if self._links.is_crowded(address):
            return (
                f"acknowledgments already wait for {MAX_ACK_QUEUES_AT_ADDRESS} queue managers at the sender's address"
            )
        return None

    def overdue(self, wall: float, queues: Iterable[OutgoingQueue]) -> Iterator[Overdue]:
        """The outgoing queues among these without contact to their queue manager for long.

        A session with it takes the waiting messages, so their age shows the time without a session.
        """
        for queue in queues:
            if queue.is_deleted or not len(queue.positions) or peer_of(queue.destination_format_name) is None:
                continue
            oldest = self._manager.positions.find(queue, queue.positions.next_any(START))
            if oldest is None:
                continue
            seconds = int(wall - oldest.arrival_time)
            if seconds >= OVERDUE_ACK_SECONDS:
                yield Overdue(queue, len(queue.positions), seconds)

    def _note(self, queue: OutgoingQueue, origin: Origin) -> None:
        self._links.note_origin(self._links.link_of(queue), origin)

    def _has_way(self, name: FormatName) -> bool:
        guid = peer_of(name)
        finder = self._finder
        return guid is not None and (finder.is_connected_with(guid) or (may_relay(name) and finder.is_routed(guid)))
