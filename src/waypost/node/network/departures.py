"""Outgoing messages: MS-MQQB 3.1.5.5, 3.1.5.6, 3.1.5.7, 3.1.6.5, 3.1.7.1, 3.1.7.12 to 3.1.7.14 and 3.1.7.16.

A message is sent when it is durable, its queue has a session, and the window of the session has room. It leaves its
queue when it is acknowledged: an express or recoverable one by the session, one of our own transactions by an OrderAck
as well. Then it may have to wait for its FinalAck elsewhere.
"""

from collections.abc import Iterable
from dataclasses import replace
from struct import Struct
from typing import Final, Protocol

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import END, PositionState
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import sequence_of, with_previous
from waypost.limits import MAX_WRITTEN_AT_ONCE
from waypost.node.destinations import Destinations
from waypost.node.kernel import Kernel
from waypost.node.network.admin_acks import AdminAcks
from waypost.node.network.connection_history import record_failure
from waypost.node.network.handed_over import Handed, Way
from waypost.node.network.outgoing_links import OutgoingLinks, is_sent_here
from waypost.node.network.sealing import Sealing, Wait
from waypost.node.network.sessions import Sessions
from waypost.node.network.tracing import Tracing
from waypost.node.network.transfer_info import tell
from waypost.node.protection import Protection
from waypost.node.sequences import Sequences
from waypost.transfer.links import Link, ReadyLinks
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.transfer.session import Sent, Session
from waypost.wire import base_header, security_header, user_header
from waypost.wire.base_header import has_expired
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.management import ConnectionStatus
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

# BaseHeader.Flags and TimeToReachQueue; of the UserHeader SourceQueueManager, SentTime and Flags.
_HEADERS: Final = Struct("<2xH8xI16s20xI4xI")
_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT
_JOURNALED: Final = user_header.JN | user_header.JP
_AVAILABLE: Final = PositionState.AVAILABLE
# A link sends a part of the window before another one has its turn.
_TURNS: Final = 4


class Routes(Protocol):
    """Finds sessions for links, and learns which hosts are at their other ends."""

    def want(self, link: Link, now: Now) -> None:
        """Find a session for a link that has something to send."""

    def sent(self, link: Link, session: Session, now: Now) -> None:
        """Note that messages of transactions were written to this session."""


class Departures:
    """Sends the messages of the links of all outgoing queues."""

    __slots__ = (
        "_admin_acks",
        "_destinations",
        "_handed",
        "_kernel",
        "_links",
        "_manager",
        "_more",
        "_own_guid",
        "_ready",
        "_routes",
        "_sealing",
        "_sequences",
        "_sessions",
        "_timers",
        "_tracing",
        "wanted",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sessions: Sessions,
        links: OutgoingLinks,
        *,
        routes: Routes,
        sequences: Sequences,
        destinations: Destinations,
        admin_acks: AdminAcks,
        tracing: Tracing,
        handed: Handed,
        protection: Protection,
    ) -> None:
        self._sealing: Final = Sealing(kernel, protection, self._want_link)
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sessions: Final = sessions
        self._links: Final = links
        self._routes: Final = routes
        self._sequences: Final = sequences
        self._destinations: Final = destinations
        self._admin_acks: Final = admin_acks
        self._tracing: Final = tracing
        self._handed: Final = handed
        self._own_guid: Final = manager.identity.identifier
        self._timers: Final = kernel.timers
        # Links that have something to send when all changes so far are durable.
        self.wanted: dict[Link, None] = {}
        # Links of each session that have more to send than fits.
        self._ready: dict[Session, ReadyLinks] = {}
        # The sessions that continue when the transport has taken their writes so far.
        self._more: dict[Session, None] = {}

    def available(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """MS-MQQB 3.1.7.12."""
        link = queue.link
        if link is None:
            if not is_sent_here(queue):
                return
            link = self._links.link_of(queue)
        if queue.opened_for:
            self._admin_acks.sent(queue, lookup_id)
        link.outbox.became_available(lookup_id)
        self.wanted[link] = None

    def want(self, queue: OutgoingQueue) -> None:
        """Note that the queue has messages from before."""
        if is_sent_here(queue):
            self.wanted[self._links.link_of(queue)] = None

    def removed(self, queue: OutgoingQueue, message: Message) -> None:
        """Note that a message has left its queue, for any reason."""
        link: Link | None = queue.link
        if link is None:
            return
        link.outbox.removed(message.lookup_identifier)
        # It may have been sent on a closed session: no later message must name it as its predecessor.
        if len(link.sequence) and self._is_ours(message.packet):
            link.sequence.removed(sequence_of(message.packet)[1])
            self._mind(link)

    def set_aside(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """Note that a damaged message, with an unknown number, has left its queue."""
        link: Link | None = queue.link
        if link is None:
            return
        link.outbox.removed(lookup_id)
        number = link.sequence.number_of(lookup_id)
        if number is not None:
            link.sequence.removed(number)
            self._mind(link)

    def attached(self, link: Link) -> None:
        """Note that the link has a session, which is to carry all of its messages (readings MQQB 3.9)."""
        self._timers.stop((Departures, link))
        self.wanted[link] = None

    def detached(self, link: Link, session: Session, now: Now) -> None:
        """Handle the end of a session. Remove messages that the destination, but not the session, has acknowledged."""
        self._timers.stop((Departures, link))
        self.wanted.pop(link, None)
        self._unready(link, session)
        self._leave(link, [entry.lookup_id for entry in link.sequence.reset(now)], now)

    def session_closed(self, session: Session) -> None:
        self._ready.pop(session, None)
        self._more.pop(session, None)

    def begun_again(self, queue: OutgoingQueue) -> None:
        """Note that the messages of the queue have new numbers, and none of these was sent."""
        link: Link | None = queue.link
        if link is None:
            return
        link.sequence = TxOutgoingSequence(
            self._sequences.outgoing_of(queue).sequence_id, link.sequence.resend_timer_table
        )
        link.outbox.start_again()
        self._mind(link)
        self.wanted[link] = None

    def forget(self, link: Link) -> None:
        """Forget the link of a deleted queue."""
        self._timers.stop((Departures, link))
        self.wanted.pop(link, None)
        if link.session is not None:
            self._unready(link, link.session)

    def settle(self) -> None:
        """Send all durable messages that can go; others follow when they are durable."""
        wanted, self.wanted = self.wanted, {}
        self._kernel.when_durable(lambda now: self._go_on(wanted, now))

    def _go_on(self, links: Iterable[Link], now: Now) -> None:
        sessions: dict[Session, None] = {}
        for link in links:
            if link.is_open and link.session is not None:
                self._ready.setdefault(link.session, ReadyLinks()).add(link)
                sessions[link.session] = None
            elif not link.queue.is_deleted:
                self._routes.want(link, now)
        for session in sessions:
            self.pump(session, now)

    def _unready(self, link: Link, session: Session) -> None:
        ready = self._ready.get(session)
        if ready is not None:
            ready.remove(link)

    def pump(self, session: Session, now: Now) -> None:
        """Send when the session may have room in its window: MS-MQQB 3.1.7.16. Its links take turns.

        An express message goes at once, a recoverable one when it is durable.
        """
        if session.wants_recycling and not session.in_flight():
            # The other side would send again what it has sent last.
            session.acknowledge()
            self._sessions.write(session)
            self._sessions.close(session, "the session has used up its sequence numbers", now)
            return
        ready = self._ready.get(session)
        if ready is None:
            return
        room = MAX_WRITTEN_AT_ONCE
        turn = max(session.window_size // _TURNS, 1)
        while session.can_send and (link := ready.first()) is not None:
            if room <= 0:
                self._more[session] = None
                self._timers.start(Departures, now.monotonic, self._pump_more)
                break
            ready.remove(link)
            size, has_more = self._pump_link(link, session, turn, now)
            room -= size
            if has_more and link.is_open:
                ready.add(link)
        self._sessions.touched[session] = None

    def _pump_link(self, link: Link, session: Session, turn: int, now: Now) -> tuple[int, bool]:
        """Send at most `turn` messages. Returns their bytes, and whether there may be more to send."""
        queue: OutgoingQueue = link.queue
        if not queue.may_send:
            return 0, False
        outbox, is_pending = link.outbox, self._kernel.messages.is_pending
        written = 0
        has_more = True
        for _ in range(turn):
            if not session.can_send:
                break
            lookup_id = outbox.next()
            size = None
            if lookup_id != END and not is_pending(queue.number, lookup_id):
                size = self._send(link, session, lookup_id, now)
            if size is None:
                has_more = False
                break
            written += size
        if len(link.sequence):
            self._routes.sent(link, session, now)
        self._mind(link)
        return written, has_more

    def _send(self, link: Link, session: Session, lookup_id: int, now: Now) -> int | None:
        """MS-MQQB 3.1.7.1. The bytes that were sent, or None if the message has to wait for others."""
        queue = link.queue
        message = self._manager.positions.find(queue, lookup_id)
        if message is None:
            # Before the next one names its predecessor.
            self.set_aside(queue, lookup_id)
            return 0
        packet = message.packet
        base_flags, time_to_reach_queue, source, sent_time, flags = _HEADERS.unpack_from(packet)
        if has_expired(sent_time, time_to_reach_queue, int(now.wall)):
            # MS-MQQB 3.1.7.1.2
            reason = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT
            self._manager.positions.deleted(queue, lookup_id, reason, message)
            return 0
        if flags & user_header.SH and source == self._own_guid:
            sealed = self._sealing.seal(link, packet, now)
            if isinstance(sealed, Wait):
                return None
            if isinstance(sealed, str):
                self._not_encrypted(link, lookup_id, message, sealed, now)
                return 0
            packet = sealed
        is_transactional = bool(flags & user_header.TH) and source == self._own_guid
        if is_transactional:
            sequence_id, number, previous = sequence_of(packet)
            if sequence_id != link.sequence.sequence_id:
                # MS-MQQB 3.1.1.5: the numbers of the one before ran out, and its messages come first.
                if len(link.sequence):
                    return None
                link.sequence.begin(sequence_id)
            if link.sequence.is_acknowledged(number):
                self._leave(link, (lookup_id,), now)
                return 0
            bridged = link.sequence.previous_of(number)
            link.sequence.sent(number, lookup_id, now)
            if bridged != previous:
                packet = with_previous(packet, bridged)
        sent = Sent(link, lookup_id, message, is_transactional)
        link.outbox.went(sent)
        session.send(
            packet,
            sent,
            now,
            is_recoverable=bool(flags & _RECOVERABLE),
            may_piggyback=not link.is_for_acks,
        )
        if base_flags & base_header.TR:
            self._tracing.sent(message, session.remote_qm_address, now)
        return len(packet)

    def _want_link(self, link: Link) -> None:
        if not link.queue.is_deleted:
            self.wanted[link] = None

    def _not_encrypted(self, link: Link, lookup_id: int, message: Message, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.7.1.5.1."""
        record_failure(link, ConnectionStatus.SERVER_CERTIFICATE_FAILURE, now)
        self._kernel.notice(
            "message not encrypted", queue=str(link.queue), message_id=str(message.identifier), reason=reason
        )
        link.last_error = reason
        self._sessions.statistics.messages_not_encrypted += 1
        refusal = MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION
        self._manager.positions.deleted(link.queue, lookup_id, refusal, _unsent(message))

    def acknowledged(self, entries: list[Sent], now: Now) -> None:
        """MS-MQQB 3.1.5.5.2 to 3.1.5.5.4."""
        delivered: dict[Link, list[Message]] = {}
        for sent in entries:
            link: Link = sent.owner
            if sent.is_transactional:
                sequence_id, number, _ = sequence_of(sent.message.packet)
                if link.sequence.session_acknowledged(sequence_id, number) is not None:
                    self._leave(link, (sent.lookup_id,), now)
            elif link.outbox.sent.get(sent.lookup_id) is sent:
                link.outbox.removed(sent.lookup_id)
                delivered.setdefault(link, []).append(sent.message)
        for link, messages in delivered.items():
            self._manager.positions.delivered_all(link.queue, messages)
            self._handed.add(_way(link, is_transactional=False), messages, now)

    def order_ack(self, sequence_id: TxSequenceId, number: int, now: Now) -> None:
        """MS-MQQB 3.1.5.6, for an OrderAck that is believed.

        It may name a message that a process before this one has sent: of those before it, it acknowledges the sent.
        """
        queue = self._sequences.queue_of(sequence_id.value)
        link: Link | None = None if queue is None else queue.link
        if link is None:
            return
        number = min(number, link.sequence.highest_number)
        left = link.sequence.order_acknowledged(sequence_id.value, number, now)
        # Before the sequence may end.
        self._mind(link)
        self._leave(link, [entry.lookup_id for entry in left], now)
        self._mind(link)

    def final_ack(self, found: tuple[Queue, Message] | None, message_class: int, now: Now) -> None:
        """MS-MQQB 3.1.5.7, for a FinalAck that is believed, of this message that waited for it in this queue."""
        if found is not None:
            self._manager.final_acks.end(*found, message_class, now)

    def end(self, identifier: MessageIdentifier, sequence_id: TxSequenceId, number: int, now: Now) -> None:
        """End a message with this place, in any state."""
        queue = self._sequences.queue_of(sequence_id.value)
        link: Link | None = None if queue is None else queue.link
        if queue is None or link is None:
            return
        lookup_id = link.sequence.lookup_id_of(number) if link.sequence.sequence_id == sequence_id else None
        if lookup_id is not None:
            if queue.positions.state(lookup_id) is _AVAILABLE:
                # It was rejected, and its sender asked for no report.
                message = self._manager.positions.find(queue, lookup_id)
                if message is None or message.identifier != identifier:
                    return
                self._manager.positions.delivered_all(queue, (message,))
                self._handed.add(_way(link, is_transactional=True), (message,), now)
            link.sequence.removed(number)
            link.outbox.removed(lookup_id)
            self._sequences.mind_end(queue, link.sequence)
        # One fewer may wait for its FinalAck.
        self._mind(link)

    def _pump_more(self, now: Now) -> None:
        """Send messages that did not fit into one write."""
        more, self._more = self._more, {}
        for session in more:
            self.pump(session, now)

    def _ack_wait_expired(self, link: Link) -> None:
        """MS-MQQB 3.1.6.5."""
        again = link.sequence.timed_out()
        self._sessions.statistics.messages_resent += len(again)
        link.outbox.send_again(entry.lookup_id for entry in again)
        self.wanted[link] = None

    def _leave(self, link: Link, lookup_ids: Iterable[int], now: Now) -> None:
        """Remove acknowledged messages of our transactions from the queue: MS-MQQB 3.1.5.6."""
        queue: OutgoingQueue = link.queue
        delivered = []
        for lookup_id in lookup_ids:
            link.outbox.removed(lookup_id)
            if queue.positions.state(lookup_id) is not _AVAILABLE:
                continue
            message = self._manager.positions.find(queue, lookup_id)
            if message is None:
                self.set_aside(queue, lookup_id)
                continue
            if _HEADERS.unpack_from(message.packet)[4] & _JOURNALED:
                self._manager.final_acks.await_final_ack(queue, lookup_id)
            else:
                delivered.append(message)
        if delivered:
            self._manager.positions.delivered_all(queue, delivered)
            self._handed.add(_way(link, is_transactional=True), delivered, now)
        self._sequences.mind_end(queue, link.sequence)

    def _is_ours(self, packet: bytes) -> bool:
        """Whether it is a message of one of our transactions."""
        _, _, source, _, flags = _HEADERS.unpack_from(packet)
        return bool(flags & user_header.TH) and source == self._own_guid

    def _mind(self, link: Link) -> None:
        """Handle a change of messages of transactions: MS-MQQB 3.1.2.6 and 3.1.5.6."""
        sequences = self._sequences
        unread = self._manager.final_acks.count(link.queue)
        tell(link.queue, sequences.outgoing_of(link.queue), link.sequence, unread)
        deadline = link.sequence.deadline
        if deadline is None:
            self._timers.stop((Departures, link))
        elif self._timers.deadline((Departures, link)) != deadline:
            # The Transactional Ack Wait Timer.
            self._timers.start((Departures, link), deadline, lambda _: self._ack_wait_expired(link))


def _way(link: Link, *, is_transactional: bool) -> Way:
    """The destination of the messages of a link."""
    return Way(str(link.queue), link.last_host[0] if link.last_host else "", is_transactional)


def _unsent(message: Message) -> Message:
    """A message that was not sent, with a mark: its destination did not fail to decrypt it."""
    packet = UserMessage.decode(message.packet)
    assert packet.security is not None, "only a message with a SecurityHeader is encrypted"
    packet.security.flags |= security_header.UNSENT
    return replace(message, packet=packet.encode())
