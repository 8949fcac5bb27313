"""Administration acknowledgments for messages of others: the outgoing queues that they may open, and their limits.

A queue counts while a message waits in it, for the peer (an address, or a /64 network of IPv6) with the message that
caused it. A peer that causes many blocks only itself: when there are many in all, a peer with few of them still gets
its own. Acknowledgments that are not sent are counted and logged.
"""

from collections.abc import Sequence
from typing import Final

from waypost.core.message import Message
from waypost.core.outgoing import is_http
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue
from waypost.guid import guid_text
from waypost.limits import (
    FEW_QUEUES_FOR_ACKS,
    MAX_ANSWER_QUEUES,
    MAX_QUEUES_FOR_ACKS,
    MAX_QUEUES_FOR_ACKS_OF_PEER,
)
from waypost.node.kernel import Kernel
from waypost.node.network.ack_hosts import AckHosts
from waypost.node.transactional_acks import address_of, peer_of
from waypost.peers import peer_of as stranger_of
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName


class AdminAcks:
    """The Gate of waypost.core.delivery. `last_refusal` names the last refused acknowledgment, and the reason.

    `not_allowed`: number of those that were refused because of the setting alone.
    """

    __slots__ = ("_kernel", "_manager", "_queues", "_statistics", "hosts", "last_refusal", "not_allowed")

    def __init__(self, kernel: Kernel, manager: QueueManager, hosts: AckHosts, statistics: Statistics) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._statistics: Final = statistics
        self.hosts: Final = hosts
        self._queues: dict[str, dict[OutgoingQueue, None]] = {}
        self.last_refusal = ""
        self.not_allowed = 0

    def admits(self, name: FormatName, message: Message) -> bool:
        reason = None if self._is_ours(message) else self._refusal(name, message)
        if reason is not None:
            self.refused(name, message, reason)
        return reason is None

    def opened(self, queue: OutgoingQueue, message: Message) -> None:
        if not self._is_ours(message):
            self._note(queue, _peer(message))

    def refused(self, name: FormatName, message: Message, reason: str) -> None:
        self._statistics.acks_refused += 1
        self.last_refusal = f"for a message from {_peer(message)} to {name}: {reason}"
        self._kernel.notice("acknowledgment refused", queue=str(name), peer=_peer(message), reason=reason)

    def left_out(self, names: Sequence[FormatName], message: Message) -> None:
        """Write one line of the log for all of them: a message of a stranger can name thousands."""
        self._statistics.acks_refused += len(names) - 1
        self.refused(names[0], message, f"a message may have at most {MAX_ANSWER_QUEUES} administration queues")

    def restore(self, queue: OutgoingQueue, message: Message) -> None:
        """Restore the peer that caused a queue, from its first message."""
        if message.origin is not None and peer_of(queue.destination_format_name) is None:
            self._note(queue, _peer(message))

    def sent(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """Note a message in a queue that others caused: if a program here has sent it, the queue is theirs now."""
        message = self._manager.positions.find(queue, lookup_id)
        if message is not None and message.origin is None:
            self.forget(queue)

    def forget(self, queue: OutgoingQueue) -> None:
        queues = self._queues.get(queue.opened_for)
        if queues is not None:
            queues.pop(queue, None)
            if not queues:
                del self._queues[queue.opened_for]
        queue.opened_for = ""

    def _refusal(self, name: FormatName, message: Message) -> str | None:
        if is_http(name):
            return "acknowledgments over HTTP are not supported"
        if peer_of(name) is not None:
            # They would take the room of those that are owed to that queue manager.
            return "this queue is reserved for the system"
        queue = self._manager.collection.outgoing.get(name)
        if queue is not None and not queue.opened_for:
            return None
        if not self.hosts.allow(name):
            self.not_allowed += 1
            return "transfer.ack_hosts does not allow this host"
        if queue is not None:
            return None
        peer = _peer(message)
        waiting = _waiting(self._queues.get(peer, {}))
        if waiting >= MAX_QUEUES_FOR_ACKS_OF_PEER:
            return f"acknowledgments for this peer already wait in {waiting} queues"
        if waiting >= FEW_QUEUES_FOR_ACKS and sum(map(_waiting, self._queues.values())) >= MAX_QUEUES_FOR_ACKS:
            return f"acknowledgments already wait in {MAX_QUEUES_FOR_ACKS} queues, {waiting} of them for this peer"
        return None

    def _note(self, queue: OutgoingQueue, peer: str) -> None:
        queue.opened_for = peer
        self._queues.setdefault(peer, {})[queue] = None

    def _is_ours(self, message: Message) -> bool:
        return message.source_machine_identifier == self._manager.identity.identifier


def _waiting(queues: dict[OutgoingQueue, None]) -> int:
    return sum(len(queue.positions) > 0 for queue in queues)


def _peer(message: Message) -> str:
    """The address of a message; the source that it names if an older version stored it without one."""
    if message.origin is None or not message.origin.host.address:
        return guid_text(message.source_machine_identifier)
    return stranger_of(address_of(message.origin))
