"""Messages for other queue managers: MS-MQQB 3.1.5.8.2 and 3.1.5.8.5."""

from struct import Struct
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.stored_message import stored_message
from waypost.core.writing import EnqueueStatus
from waypost.node.network.hop_finder import HopFinder
from waypost.node.transactional_acks import peer_of
from waypost.transfer.statistics import Statistics
from waypost.wire import base_header, user_header
from waypost.wire.format_names import DirectFormatName, FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.originated import MAX_HOP_COUNT
from waypost.wire.user_message import UserMessage

# The place of UserHeader.Flags in a packet; RC has these bits.
_FLAGS: Final = Struct("<I")
_FLAGS_AT: Final = base_header.SIZE + 44


class Forwarding:
    """Forwards messages unchanged, except for the hop count.

    Without a route nothing is kept: a sender to names that nobody has must not fill this computer.
    """

    __slots__ = ("_finder", "_is_routing_server", "_manager", "_statistics")

    def __init__(
        self, manager: QueueManager, finder: HopFinder, statistics: Statistics, *, is_routing_server: bool
    ) -> None:  # fmt: skip
        self._manager: Final = manager
        self._finder: Final = finder
        self._statistics: Final = statistics
        self._is_routing_server: Final = is_routing_server

    def forward(
        self, packet: UserMessage, message: Message, data: bytes, now: Now
    ) -> tuple[EnqueueStatus, Message] | MessageClass:
        """Forward the message. Returns it as forwarded with its status, or the reason of a refusal.

        Raises a WaypostError if the outgoing queue cannot exist.
        """
        manager, name = self._manager, message.destination_queue_format_name
        assert name is not None
        hops = packet.user.hop_count + 1
        if hops > MAX_HOP_COUNT:
            return MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED
        queue = manager.collection.outgoing.get(name)
        # A queue that programs on this computer use, or that is for acknowledgments, is not a route for others.
        if (queue is None or isinstance(name, DirectFormatName)) and not self._forwards(name):
            return MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q
        if queue is None:
            queue = manager.outgoing.create(name, now)
        flags = (packet.user.flags & ~user_header.RC) | hops
        message = stored_message(b"".join((data[:_FLAGS_AT], _FLAGS.pack(flags), data[_FLAGS_AT + 4 :])))
        status = manager.writing.enqueue_message(queue, message, None, now)
        self._statistics.messages_forwarded += status is EnqueueStatus.ACCEPTED
        return status, message

    def _forwards(self, name: FormatName) -> bool:
        """Whether messages for this name are forwarded: only a routing server is a relay to any host."""
        if isinstance(name, DirectFormatName):
            return self._is_routing_server and peer_of(name) is None and self._finder.leads_to(name)
        return self._finder.leads_to(name)
