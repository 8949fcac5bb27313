"""Messages that come one behind the other and are alike, put into their queue together.

Most traffic is like that: the same sender, queue and options, other bodies. To put such messages one by one takes four
times as long. What makes a message different in any way that matters to its queue ends the run, and so does anything
unusual: then the message goes the long way (waypost.node.network.arrivals). Only the first message of a run is decoded
to the last name; the others have no other names.
"""

from typing import Final

from waypost.core.queues import Queue
from waypost.transfer.sequences import IncomingSequence
from waypost.wire import base_header, user_header
from waypost.wire.base_header import has_expired
from waypost.wire.codec import INFINITE
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.user_message import UserMessage

# A message with one of these wants more than to be put into its queue, or has more names, which may be wrong.
_UNUSUAL: Final = (
    user_header.JN
    | user_header.JP
    | user_header.AQ
    | user_header.RQ
    | user_header.SH
    | user_header.CQ
    | user_header.MQ
    | user_header.AH
    | user_header.HH
)
# What may differ within a run: the hop count has no meaning at the destination.
_ALIKE: Final = 0xFFFF_FFFF & ~user_header.RC

Key = tuple[int, int, int, bytes, bytes, str, bool]


def run_key(packet: UserMessage, wall: float) -> Key | None:
    """What messages of one run have in common, or None for a message that goes alone."""
    user, base, header = packet.user, packet.base, packet.transaction
    name = user.destination_queue
    if (
        user.flags & _UNUSUAL
        or base.flags & (base_header.TR | base_header.DH)
        or user.time_to_be_received != INFINITE
        or not isinstance(name, DirectQueueFormatName)
        or has_expired(user.sent_time, base.time_to_reach_queue, int(wall))
        or (header is not None and (header.wants_final_ack or not header.has_legal_numbers))
    ):
        return None
    return (
        base.flags,
        user.flags & _ALIKE,
        base.time_to_reach_queue,
        user.source_queue_manager,
        user.queue_manager_address,
        name.direct_format_name,
        header is not None,
    )


class Run:
    """The messages so far. They are all accepted; whoever ends the run puts them into the queue.

    `destination` is what the identifiers of its messages are told apart by from those of other queues, and `peer` the
    address that brings them; `origin` is what is kept of it with every message. `line` is the sequence that its
    messages are in, if they are transactional. So many bytes as `room` fit into the queue for certain; whether more do
    has to be asked.
    """

    __slots__ = ("destination", "is_recoverable", "key", "line", "origin", "packets", "peer", "queue", "room", "size")

    line: IncomingSequence | None

    def __init__(
        self, key: Key, queue: Queue, destination: bytes, origin: Origin, *, peer: str, is_recoverable: bool
    ) -> None:  # fmt: skip
        self.key: Final = key
        self.queue: Final = queue
        self.destination: Final = destination
        self.peer: Final = peer
        self.is_recoverable: Final = is_recoverable
        self.origin: Final = origin
        self.line = None
        self.packets: list[bytes] = []
        self.size = 0
        self.room = 0.0
