"""Runs: similar messages that come one behind the other, put into their queue together.

Most traffic is like that: the same sender, queue and options, other bodies. To put such messages one by one takes four
times as long. Any difference that matters to the queue ends the run, and so does anything unusual: then the message
goes the long way (waypost.node.network.arrivals). Only the first message of a run is decoded with all its names; the
others have no other names. A message that was checked is in a run with others of the same sender and with the same
result; its packet says then what was verified, and has its body in the clear.
"""

from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.core.message_values import AuthenticationLevel
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.core.stored_message import quiet_message
from waypost.guid import NULL_GUID
from waypost.node.network.admission import Admission
from waypost.node.network.checking import Verdict as Checked
from waypost.node.network.order_acking import OrderAcking
from waypost.node.network.refusals import Refusals
from waypost.node.transactional_acks import origin_of
from waypost.peers import peer_of
from waypost.transfer.duplicates import KnownMessages, digest, identifier
from waypost.transfer.incoming import Verdict
from waypost.transfer.sequences import IncomingSequence
from waypost.transfer.session import Session
from waypost.wire import base_header, user_header
from waypost.wire.base_header import has_expired
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.user_message import UserMessage

# A message with one of these needs more than to be put into its queue, or has more names, which may be wrong.
_UNUSUAL: Final = (
    user_header.JN
    | user_header.JP
    | user_header.AQ
    | user_header.RQ
    | user_header.CQ
    | user_header.MQ
    | user_header.AH
    | user_header.HH
)
# The bits that must be equal within a run: the hop count has no meaning at the destination.
_ALIKE: Final = 0xFFFF_FFFF & ~user_header.RC

_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT

# The sender of a checked message, and the result: ST, SecurityID, SID, AuthenticationLevel, and if it was encrypted.
Protected = tuple[int, bytes, bytes, AuthenticationLevel, bool]
Key = tuple[int, int, int, bytes, bytes, str, bool, Protected | None]


def run_key(packet: UserMessage, wall: float, checked: Checked | None = None) -> Key | None:
    """The common attributes of messages of one run, or None for a message that goes alone.

    `checked` is the result for a message that was checked. Others with a SecurityHeader go alone.
    """
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
    protected = None
    if packet.security is not None:
        if checked is None or checked.refusal is not None:
            return None
        security = packet.security
        protected = security.sender_type, security.security_id, checked.sid, checked.level, checked.was_encrypted
    return (
        base.flags,
        user.flags & _ALIKE,
        base.time_to_reach_queue,
        user.source_queue_manager,
        user.queue_manager_address,
        name.direct_format_name,
        header is not None,
        protected,
    )


class Run:
    """The messages so far. All of them are accepted; the end of the run puts them into the queue.

    `destination` separates the identifiers of its messages from those of other queues, and `peer` is the address that
    brings them; `origin` is stored of it with every message. `line` is the sequence of its messages, if they are
    transactional. `room` is the number of bytes that certainly fit into the queue; for more, the queue has to be
    asked.
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


class Runs:
    """Begins runs, lets messages join them, and ends them. `refusal` gives the reason of a queue that refuses one."""

    __slots__ = ("_admission", "_known", "_local", "_manager", "_order_acking", "_refusal", "_refusals")

    def __init__(
        self,
        manager: QueueManager,
        known: KnownMessages,
        refusal: Callable[[Queue, UserMessage, bytes], MessageClass | None],
        *,
        admission: Admission,
        order_acking: OrderAcking,
        refusals: Refusals,
    ) -> None:
        self._manager: Final = manager
        self._known: Final = known
        self._refusal: Final = refusal
        self._admission: Final = admission
        self._order_acking: Final = order_acking
        self._refusals: Final = refusals
        self._local: Final = (manager.identity.identifier, NULL_GUID)

    def begin(self, key: Key, session: Session, packet: UserMessage, data: bytes, now: Now) -> Run | None:
        """Start a run with a message that its queue accepts, and which is the next one. None: it goes alone."""
        user = packet.user
        if user.queue_manager_address not in self._local or user.source_queue_manager == self._local[0]:
            return None
        assert isinstance(user.destination_queue, DirectQueueFormatName)
        name = user.destination_queue.direct_format_name
        queue = self._manager.collection.find_named(name)
        if queue is None or self._refusal(queue, packet, data) is not None:
            return None
        if packet.transaction is None and not self._known.has_place_for(session, now):
            return None
        run = Run(
            key,
            queue,
            digest(name),
            origin_of(session.remote_qm_guid, session.remote_qm_address),
            peer=peer_of(session.remote_qm_address),
            is_recoverable=user.flags & user_header.DM == _RECOVERABLE,
        )
        run.room = self._manager.writing.sure_room(queue)
        if packet.transaction is None:
            has_begun = self.join(run, packet, data, now)
        else:
            has_begun = self._begin_transactional(run, session, packet, data, now=now)
        return run if has_begun else None

    def _begin_transactional(self, run: Run, session: Session, packet: UserMessage, data: bytes, *, now: Now) -> bool:
        """Start a run with a message of a known sequence."""
        assert packet.transaction is not None
        key = packet.user.source_queue_manager + run.destination, run.queue.number
        if len(data) > run.room and not self._has_room(run, len(data)):
            return False
        if self._admission.judge(key, session, packet.transaction, now) is not Verdict.NEXT:
            return False
        run.line = self._admission.take(key, session, packet.transaction, now)
        self._order_acking.received(key, session, packet, now)
        run.packets.append(data)
        run.size = len(data)
        return True

    def join(self, run: Run, packet: UserMessage, data: bytes, now: Now) -> bool:
        """Add a message to a run if it fits. False if it does not join: then nothing has changed."""
        size = run.size + len(data)
        if size > run.room and not self._has_room(run, size):
            return False
        header = packet.transaction
        if header is None:
            known_by = identifier(data, run.destination)
            if not self._known.add_new(known_by, run.peer, now.monotonic, recoverable=run.is_recoverable):
                return False
        else:
            line = run.line
            # The next sequence of the line, or another line, begins another run.
            if line is None or header.tx_sequence_id != line.sequence_id or not line.is_next(header):
                return False
            line.advance(header, now.wall)
        run.packets.append(data)
        run.size = size
        return True

    def _has_room(self, run: Run, size: int) -> bool:
        manager = self._manager
        return manager.writing.has_room(size) and manager.positions.fits(run.queue, size)

    def end(self, run: Run, now: Now) -> None:
        """Put the messages of a run into their queue, which has room: each was checked when it joined."""
        origin = run.origin
        messages = [quiet_message(data, origin) for data in run.packets]
        protected = run.key[-1]
        if protected is not None:
            level = protected[3]
            for message in messages:
                message.authentication_level = level
        self._manager.writing.put_messages(run.queue, messages, messages[0], now, size=run.size)
        if self._refusals.records:
            self._refusals.taken(run.packets)
