"""The links of outgoing queues, and the receivers of the OrderAcks and FinalAcks that some of them carry.

`queue.link` is the link of a queue, once it has something to send. A link for acknowledgments is known here from its
creation to the end of its queue.
"""

from typing import Final, TypeVar

from waypost.core.outgoing import is_http
from waypost.core.positions import END, START, PositionState
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue
from waypost.limits import MAX_ACK_QUEUES_AT_ADDRESS
from waypost.node.destinations import Destinations
from waypost.node.sequences import Sequences
from waypost.node.transactional_acks import address_of, peer_of
from waypost.peers import peer_of as stranger_of
from waypost.routing.routing import Hop
from waypost.transfer.links import Link
from waypost.transfer.outbox import Outbox
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.transfer.settings import TransferSettings
from waypost.wire.remote_packet import Origin

_AVAILABLE: Final = PositionState.AVAILABLE
# Number of addresses from which the messages came that are tried, the last ones.
_ORIGINS: Final = 4

K = TypeVar("K", bytes, str)


class OutgoingLinks:
    """The links of one queue manager."""

    __slots__ = ("_at", "_by_guid", "_destinations", "_manager", "_sequences", "_settings")

    def __init__(
        self, manager: QueueManager, sequences: Sequences, destinations: Destinations, settings: TransferSettings
    ) -> None:  # fmt: skip
        self._manager: Final = manager
        self._sequences: Final = sequences
        self._destinations: Final = destinations
        self._settings: Final = settings
        # Links for acknowledgments, by the queue manager that they are for, and by those that brought the messages.
        self._by_guid: dict[bytes, dict[Link, None]] = {}
        # By the address from which the messages came.
        self._at: dict[str, dict[Link, None]] = {}

    def link_of(self, queue: OutgoingQueue) -> Link:
        """The link of a queue with messages that are sent here, which may be new."""
        return queue.link or self._new_link(queue)

    def for_acks_of(self, guid: bytes) -> list[Link]:
        """The links with acknowledgments that a session with this queue manager can carry."""
        return list(self._by_guid.get(guid, ()))

    def is_crowded(self, address: str) -> bool:
        """Whether acknowledgments for too many queue managers at this address wait."""
        links = self._at.get(stranger_of(address), ())
        if len(links) < MAX_ACK_QUEUES_AT_ADDRESS:
            return False
        waiting = sum(not link.is_open and len(link.queue.positions) > 0 for link in links)
        return waiting >= MAX_ACK_QUEUES_AT_ADDRESS

    def note_origin(self, link: Link, origin: Origin) -> None:
        """Note the origin of the message that an acknowledgment is for."""
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

    def forget(self, link: Link) -> None:
        """Forget the link of a deleted queue."""
        if link.is_for_acks:
            assert link.peer is not None
            _drop(self._by_guid, link.peer, link)
            for hop in link.origins:
                _drop(self._by_guid, hop.queue_manager_guid, link)
                _drop(self._at, stranger_of(hop.host_name), link)
        link.queue.link = None

    def _new_link(self, queue: OutgoingQueue) -> Link:
        positions = queue.positions
        outbox = Outbox(
            positions.next_available,
            lambda lookup_id: positions.state(lookup_id) is _AVAILABLE,
            start=START,
            end=END,
        )
        table = self._settings.resend_timeouts.resend_timer_table
        written = self._destinations.written(queue.destination_format_name)
        sequence = TxOutgoingSequence.of(self._sequences.outgoing_of(queue), table, written)
        link = queue.link = Link(queue, outbox, sequence, peer=peer_of(queue.destination_format_name))
        if link.is_for_acks:
            self._add_for_acks(link)
        return link

    def _add_for_acks(self, link: Link) -> None:
        assert link.peer is not None
        self._by_guid.setdefault(link.peer, {})[link] = None
        positions, lookup_id = link.queue.positions, START
        for _ in range(min(len(positions), _ORIGINS)):
            lookup_id = positions.next_any(lookup_id)
            message = self._manager.positions.find(link.queue, lookup_id)
            if message is not None and message.origin is not None:
                self.note_origin(link, message.origin)


def is_sent_here(queue: OutgoingQueue) -> bool:
    """MS-MQQB 3.1.7.12: whether it is sent here; multicast and HTTP are not."""
    return not queue.multicast and not is_http(queue.destination_format_name)


def _drop(index: dict[K, dict[Link, None]], key: K, link: Link) -> None:
    links = index.get(key)
    if links is not None:
        links.pop(link, None)
        if not links:
            del index[key]


def queue_of(link: Link) -> OutgoingQueue:
    """The queue of a link; waypost.transfer knows nothing of queues."""
    queue: OutgoingQueue = link.queue
    return queue


def linked(queue: OutgoingQueue | None) -> Link | None:
    """The link of a queue, if it has one; waypost.core knows nothing of links."""
    link: Link | None = None if queue is None else queue.link
    return link
