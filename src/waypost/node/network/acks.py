"""The outgoing queues of OrderAcks and FinalAcks: which there are, for whom, and how many there may be.

What is owed is never refused, so the bound is before that: a message that would lead to one more FinalAck is not taken
while too many wait for the queue manager that it comes from, or for too many queue managers at its address. Its source
pays, and nobody else: it sends the message again, and as soon as it takes its acknowledgments there is room.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from waypost.clock import Now
from waypost.core.positions import START
from waypost.core.queues import OutgoingQueue
from waypost.guid import guid_text
from waypost.limits import MAX_ACK_QUEUES_AT_ADDRESS, MAX_WAITING_ACKS, OVERDUE_ACK_SECONDS
from waypost.node.transactional_acks import ack_queue, address_of, may_relay, peer_of
from waypost.peers import peer_of as stranger_of
from waypost.routing.routing import Hop
from waypost.transfer.links import Link
from waypost.transfer.session import Session
from waypost.wire.format_names import FormatName
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.user_message import UserMessage

if TYPE_CHECKING:
    from waypost.node.network.network import Network
    from waypost.node.node import Node

# How many of the addresses from which the messages came are tried, the last ones.
_ORIGINS: Final = 4

K = TypeVar("K", bytes, str)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Acknowledgments of an outgoing queue that wait for a host that was not met for long, in seconds."""

    queue: OutgoingQueue
    count: int
    seconds: int


class Acks:
    """See waypost.node.transactional_acks.Ways. Links are known here from their making to the end of their queue."""

    __slots__ = ("_at", "_by_guid", "_network", "_node")

    def __init__(self, node: "Node", network: "Network") -> None:
        self._node: Final = node
        self._network: Final = network
        # By the queue manager that they are for, and by those that brought the messages.
        self._by_guid: dict[bytes, dict[Link, None]] = {}
        # By the address from which the messages came.
        self._at: dict[str, dict[Link, None]] = {}

    def owes(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue:
        manager = self._node.manager
        queue = manager.collection.outgoing.get(name) or manager.outgoing.create_owed(name, now)
        self._note(queue, origin)
        return queue

    def leads_to(self, name: FormatName, origin: Origin, now: Now) -> OutgoingQueue | None:
        manager = self._node.manager
        queue = manager.collection.outgoing.get(name)
        if queue is None:
            if not self._has_way(name) and self._is_crowded(address_of(origin)):
                return None
            queue = manager.outgoing.create(name, now)
        elif len(queue.positions) >= MAX_WAITING_ACKS:
            return None
        self._note(queue, origin)
        return queue

    def may_owe(self, session: Session, packet: UserMessage) -> bool:
        """Whether one more FinalAck may become owed to where the message comes from.

        If not, the message is not taken, and its sequence does not move: it comes again without an OrderAck.
        """
        is_direct = isinstance(packet.user.destination_queue, DirectQueueFormatName)
        target = session.remote_qm_guid if is_direct else packet.user.source_queue_manager
        address = session.remote_qm_address
        reason = self._refusal(ack_queue(target, self._node.manager, address, is_direct=is_direct), address)
        if reason is None:
            return True
        self._network.statistics.messages_refused_for_acks += 1
        source = guid_text(packet.user.source_queue_manager)
        self._network.notice("message not taken", peer=session.remote_qm_address, source=source, reason=reason)
        return False

    def _refusal(self, name: FormatName, address: str) -> str | None:
        """Why no message is taken whose FinalAck would go to this queue, or None."""
        queue = self._node.manager.collection.outgoing.get(name)
        if queue is not None:
            if len(queue.positions) < MAX_WAITING_ACKS:
                return None
            return f"{len(queue.positions)} acknowledgments wait for its queue manager already"
        if self._is_crowded(address):
            return f"acknowledgments wait for {MAX_ACK_QUEUES_AT_ADDRESS} queue managers at its address already"
        return None

    def of(self, guid: bytes) -> list[Link]:
        """Those that a session with this queue manager can carry."""
        return list(self._by_guid.get(guid, ()))

    def add(self, link: Link) -> None:
        assert link.peer is not None
        self._by_guid.setdefault(link.peer, {})[link] = None
        positions, lookup_id = link.queue.positions, START
        for _ in range(min(len(positions), _ORIGINS)):
            lookup_id = positions.next_any(lookup_id)
            message = self._node.manager.positions.find(link.queue, lookup_id)
            if message is not None and message.origin is not None:
                self._note_at(link, message.origin)

    def remove(self, link: Link) -> None:
        assert link.peer is not None
        _drop(self._by_guid, link.peer, link)
        for hop in link.origins:
            _drop(self._by_guid, hop.queue_manager_guid, link)
            _drop(self._at, stranger_of(hop.host_name), link)

    def overdue(self, wall: float) -> Iterator[Overdue]:
        """A session with its queue manager takes what waits, so what waits for long tells since when there was none."""
        for queue in self._node.manager.collection.outgoing.values():
            if not len(queue.positions) or peer_of(queue.destination_format_name) is None:
                continue
            oldest = self._node.manager.positions.find(queue, queue.positions.next_any(START))
            if oldest is None:
                continue
            seconds = int(wall - oldest.arrival_time)
            if seconds >= OVERDUE_ACK_SECONDS:
                yield Overdue(queue, len(queue.positions), seconds)

    def _note(self, queue: OutgoingQueue, origin: Origin) -> None:
        self._note_at(self._network.departures.link_of(queue), origin)

    def _note_at(self, link: Link, origin: Origin) -> None:
        hop = Hop(origin.queue_manager, address_of(origin))
        if not hop.host_name or (link.origins and link.origins[0] == hop):
            return
        if hop in link.origins:
            link.origins.remove(hop)
        link.origins.insert(0, hop)
        self._by_guid.setdefault(hop.queue_manager_guid, {})[link] = None
        self._at.setdefault(stranger_of(hop.host_name), {})[link] = None
        if len(link.origins) > _ORIGINS:
            gone = link.origins.pop()
            if gone.queue_manager_guid not in (link.peer, *(other.queue_manager_guid for other in link.origins)):
                _drop(self._by_guid, gone.queue_manager_guid, link)
            if stranger_of(gone.host_name) not in {stranger_of(other.host_name) for other in link.origins}:
                _drop(self._at, stranger_of(gone.host_name), link)

    def _has_way(self, name: FormatName) -> bool:
        guid = peer_of(name)
        ways = self._network.hops
        return guid is not None and (ways.is_connected_with(guid) or (may_relay(name) and ways.is_routed(guid)))

    def _is_crowded(self, address: str) -> bool:
        links = self._at.get(stranger_of(address), ())
        if len(links) < MAX_ACK_QUEUES_AT_ADDRESS:
            return False
        waiting = sum(not link.is_open and len(link.queue.positions) > 0 for link in links)
        return waiting >= MAX_ACK_QUEUES_AT_ADDRESS


def _drop(index: dict[K, dict[Link, None]], key: K, link: Link) -> None:
    links = index.get(key)
    if links is not None:
        links.pop(link, None)
        if not links:
            del index[key]
