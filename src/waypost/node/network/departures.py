"""What leaves outgoing queues: MS-MQQB 3.1.5.5, 3.1.5.6, 3.1.5.7, 3.1.6.5, 3.1.7.1, 3.1.7.12 to 3.1.7.14 and 3.1.7.16.

A message is sent when it is durable, its queue has a session, and the window of the session has room. It leaves its
queue when it is acknowledged: an express or recoverable one by the session, one of our own transactions by an OrderAck
as well. Then it may have to wait for its FinalAck in another place.
"""

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.outgoing import is_http
from waypost.core.positions import END, START, PositionState
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import sequence_of, with_previous
from waypost.limits import MAX_WRITTEN_AT_ONCE
from waypost.node.network.tracing import report_sent
from waypost.node.network.transfer_info import tell
from waypost.node.transactional_acks import peer_of
from waypost.transfer.links import Link, ReadyLinks
from waypost.transfer.outbox import Outbox
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.transfer.session import Sent, Session
from waypost.transfer.timers import Timers
from waypost.wire import base_header, user_header
from waypost.wire.expiry import has_expired
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass

if TYPE_CHECKING:
    from waypost.node.network.network import Network
    from waypost.node.node import Node

# BaseHeader.Flags and TimeToReachQueue; of the UserHeader SourceQueueManager, SentTime and Flags.
_HEADERS: Final = Struct("<2xH8xI16s20xI4xI")
_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT
_JOURNALED: Final = user_header.JN | user_header.JP
_AVAILABLE: Final = PositionState.AVAILABLE
# A link sends a part of the window before another one has its turn.
_TURNS: Final = 4


class Departures:
    """The links of all outgoing queues. `queue.link` is that of a queue, once it has something to send."""

    __slots__ = ("_more", "_network", "_node", "_own_guid", "_ready", "_timers", "_wanted")

    def __init__(self, node: "Node", network: "Network") -> None:
        self._node: Final = node
        self._network: Final = network
        self._own_guid: Final = node.manager.identity.identifier
        # The Transactional Ack Wait Timers.
        self._timers: Final[Timers[Link]] = Timers()
        # Links that have something to send when what was done so far is durable.
        self._wanted: dict[Link, None] = {}
        # Those of each session that have more to send than there was room for.
        self._ready: dict[Session, ReadyLinks] = {}
        # The sessions that go on when what they wrote so far is with the transport.
        self._more: dict[Session, None] = {}

    def available(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """MS-MQQB 3.1.7.12."""
        link = queue.link
        if link is None:
            if not _is_sent_here(queue):
                return
            link = self._new_link(queue)
        if queue.opened_for:
            self._network.admin_acks.sent(queue, lookup_id)
        link.outbox.became_available(lookup_id)
        self._wanted[link] = None

    def want(self, queue: OutgoingQueue) -> None:
        """The queue has messages from before."""
        if _is_sent_here(queue):
            self._wanted[self.link_of(queue)] = None

    def link_of(self, queue: OutgoingQueue) -> Link:
        """The link of a queue whose messages are sent here, which may be new."""
        return queue.link or self._new_link(queue)

    def removed(self, queue: OutgoingQueue, message: Message) -> None:
        """A message has left its queue, for whatever reason."""
        link: Link | None = queue.link
        if link is None:
            return
        link.outbox.removed(message.lookup_identifier)
        # It may have been sent on a session that is closed: no later message must name it as the one before.
        if len(link.sequence) and self._is_ours(message.packet):
            link.sequence.removed(sequence_of(message.packet)[1])
            self._mind(link)

    def set_aside(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """The same of a message that is damaged and cannot say which number it had."""
        link: Link | None = queue.link
        if link is None:
            return
        link.outbox.removed(lookup_id)
        number = link.sequence.number_of(lookup_id)
        if number is not None:
            link.sequence.removed(number)
            self._mind(link)

    def attached(self, link: Link) -> None:
        """The link has a session, over which all of its messages are to be sent (readings MQQB 3.9)."""
        self._timers.stop(link)
        self._wanted[link] = None

    def detached(self, link: Link, session: Session, now: Now) -> None:
        """The session is over. What the destination has acknowledged, and only the session has not, is gone."""
        self._timers.stop(link)
        self._wanted.pop(link, None)
        self._unready(link, session)
        self._leave(link, [entry.lookup_id for entry in link.sequence.reset(now)])

    def session_closed(self, session: Session) -> None:
        self._ready.pop(session, None)
        self._more.pop(session, None)

    def paused(self, queue: OutgoingQueue, now: Now) -> None:
        """MS-MQQB 3.1.7.13."""
        if queue.link is not None:
            self._network.connecting.pause(queue.link, now)

    def resumed(self, queue: OutgoingQueue, now: Now) -> None:
        """MS-MQQB 3.1.7.14."""
        if not _is_sent_here(queue):
            return
        link = self.link_of(queue)
        self._network.connecting.resume(link, now)
        self._wanted[link] = None

    def begun_again(self, queue: OutgoingQueue) -> None:
        """The messages of the queue have new numbers, and nothing was sent under them."""
        link: Link | None = queue.link
        if link is None:
            return
        link.sequence = TxOutgoingSequence(
            self._node.sequences.outgoing_of(queue).sequence_id, link.sequence.resend_timer_table
        )
        link.outbox.start_again()
        self._mind(link)
        self._wanted[link] = None

    def deleted(self, queue: OutgoingQueue) -> None:
        if not self._node.manager.final_acks.count(queue):
            self._node.destinations.forget(queue.destination_format_name)
        link = queue.link
        if link is not None:
            self._timers.stop(link)
            self._wanted.pop(link, None)
            if link.session is not None:
                self._unready(link, link.session)
            self._network.connecting.forget(link)
            if link.is_for_acks:
                self._network.acks.remove(link)
            queue.link = None

    def settle(self) -> bool:
        """Send what can be sent. What is not durable yet comes when it is."""
        if not self._wanted:
            return False
        wanted, self._wanted = self._wanted, {}
        self._node.when_durable(lambda now: self._go_on(wanted, now))
        return True

    def _go_on(self, links: Iterable[Link], now: Now) -> None:
        sessions: dict[Session, None] = {}
        for link in links:
            if link.is_open and link.session is not None:
                self._ready.setdefault(link.session, ReadyLinks()).add(link)
                sessions[link.session] = None
            elif not link.queue.is_deleted:
                self._network.connecting.want(link, now)
        for session in sessions:
            self.pump(session, now)

    def _unready(self, link: Link, session: Session) -> None:
        ready = self._ready.get(session)
        if ready is not None:
            ready.remove(link)

    def pump(self, session: Session, now: Now) -> None:
        """The session may have room in its window: MS-MQQB 3.1.7.16. Its links take turns.

        An express message goes at once, a recoverable one when it is durable.
        """
        if session.wants_recycling and not session.in_flight():
            self._network.close(session, "the numbers of the session are used up", now)
            return
        ready = self._ready.get(session)
        if ready is None:
            return
        room = MAX_WRITTEN_AT_ONCE
        turn = max(session.window_size // _TURNS, 1)
        while session.can_send and (link := ready.first()) is not None:
            if room <= 0:
                self._more[session] = None
                break
            ready.remove(link)
            size, has_more = self._pump_link(link, session, turn, now)
            room -= size
            if has_more and link.is_open:
                ready.add(link)
        self._network.touch(session)

    def _pump_link(self, link: Link, session: Session, turn: int, now: Now) -> tuple[int, bool]:
        """Send up to so many messages. How many bytes they are, and whether there may be more to send."""
        queue: OutgoingQueue = link.queue
        if not queue.may_send:
            return 0, False
        outbox, is_pending = link.outbox, self._node.messages.is_pending
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
            self._network.judging.sent(link, session, now)
        self._mind(link)
        return written, has_more

    def _send(self, link: Link, session: Session, lookup_id: int, now: Now) -> int | None:
        """MS-MQQB 3.1.7.1. The bytes that went out, or None if the message has to wait for others."""
        queue = link.queue
        message = self._node.manager.positions.find(queue, lookup_id)
        if message is None:
            # Before the next one says which is the one before it.
            self.set_aside(queue, lookup_id)
            return 0
        packet = message.packet
        base_flags, time_to_reach_queue, source, sent_time, flags = _HEADERS.unpack_from(packet)
        if has_expired(sent_time, time_to_reach_queue, int(now.wall)):
            # MS-MQQB 3.1.7.1.2
            reason = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT
            self._node.manager.positions.deleted(queue, lookup_id, reason, message)
            return 0
        is_transactional = bool(flags & user_header.TH) and source == self._own_guid
        if is_transactional:
            sequence_id, number, previous = sequence_of(packet)
            if sequence_id != link.sequence.sequence_id:
                # MS-MQQB 3.1.1.5: the numbers of the one before ran out, and its messages come first.
                if len(link.sequence):
                    return None
                link.sequence.begin(sequence_id)
            if link.sequence.is_acknowledged(number):
                self._leave(link, (lookup_id,))
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
            report_sent(self._node, message, session.remote_qm_address, now)
        return len(packet)

    def acknowledged(self, entries: list[Sent]) -> None:
        """MS-MQQB 3.1.5.5.2 to 3.1.5.5.4."""
        delivered: dict[Link, list[Message]] = {}
        for sent in entries:
            link: Link = sent.owner
            if sent.is_transactional:
                number = sequence_of(sent.message.packet)[1]
                if link.sequence.session_acknowledged(number) is not None:
                    self._leave(link, (sent.lookup_id,))
            elif link.outbox.sent.get(sent.lookup_id) is sent:
                link.outbox.removed(sent.lookup_id)
                delivered.setdefault(link, []).append(sent.message)
        for link, messages in delivered.items():
            self._node.manager.positions.delivered_all(link.queue, messages)

    def order_ack(self, sequence_id: TxSequenceId, number: int, now: Now) -> None:
        """MS-MQQB 3.1.5.6, for an OrderAck that is believed."""
        queue = self._node.sequences.queue_of(sequence_id.value)
        link: Link | None = None if queue is None else queue.link
        if link is None:
            return
        left = link.sequence.order_acknowledged(sequence_id.value, number, now)
        # Before the sequence may end.
        self._mind(link)
        self._leave(link, [entry.lookup_id for entry in left])
        self._mind(link)

    def final_ack(self, found: tuple[Queue, Message] | None, message_class: int, now: Now) -> None:
        """MS-MQQB 3.1.5.7, for a FinalAck that is believed, of this message that waited for it in this queue."""
        if found is not None:
            self._node.manager.final_acks.end(*found, message_class, now)

    def end(self, identifier: MessageIdentifier, sequence_id: TxSequenceId, number: int) -> None:
        """A message that had this place has come to its end, in whatever state it was."""
        queue = self._node.sequences.queue_of(sequence_id.value)
        link: Link | None = None if queue is None else queue.link
        if queue is None or link is None:
            return
        lookup_id = link.sequence.lookup_id_of(number) if link.sequence.sequence_id == sequence_id else None
        if lookup_id is not None:
            if queue.positions.state(lookup_id) is _AVAILABLE:
                # It was rejected, and nobody wanted to hear of that.
                message = self._node.manager.positions.find(queue, lookup_id)
                if message is None or message.identifier != identifier:
                    return
                self._node.manager.positions.delivered_all(queue, (message,))
            link.sequence.removed(number)
            link.outbox.removed(lookup_id)
            self._node.sequences.mind_end(queue, link.sequence)
        # One fewer may wait for its FinalAck.
        self._mind(link)

    def tick(self, now: Now) -> None:
        """MS-MQQB 3.1.6.5, and what there was no room for in one write."""
        more, self._more = self._more, {}
        for session in more:
            self.pump(session, now)
        for link in self._timers.expired(now.monotonic):
            again = link.sequence.timed_out()
            self._network.statistics.messages_resent += len(again)
            link.outbox.send_again(entry.lookup_id for entry in again)
            self._wanted[link] = None

    def next_deadline(self) -> float | None:
        return 0.0 if self._more else self._timers.next_deadline()

    def _leave(self, link: Link, lookup_ids: Iterable[int]) -> None:
        """Messages of our transactions that are acknowledged leave the queue: MS-MQQB 3.1.5.6."""
        queue: OutgoingQueue = link.queue
        delivered = []
        for lookup_id in lookup_ids:
            link.outbox.removed(lookup_id)
            if queue.positions.state(lookup_id) is not _AVAILABLE:
                continue
            message = self._node.manager.positions.find(queue, lookup_id)
            if message is None:
                self.set_aside(queue, lookup_id)
                continue
            if _HEADERS.unpack_from(message.packet)[4] & _JOURNALED:
                self._node.manager.final_acks.await_final_ack(queue, lookup_id)
            else:
                delivered.append(message)
        if delivered:
            self._node.manager.positions.delivered_all(queue, delivered)
        self._node.sequences.mind_end(queue, link.sequence)

    def _is_ours(self, packet: bytes) -> bool:
        """Whether it is a message of one of our transactions."""
        _, _, source, _, flags = _HEADERS.unpack_from(packet)
        return bool(flags & user_header.TH) and source == self._own_guid

    def _mind(self, link: Link) -> None:
        """Something has changed with the messages of transactions: MS-MQQB 3.1.2.6 and 3.1.5.6."""
        sequences = self._node.sequences
        unread = self._node.manager.final_acks.count(link.queue)
        tell(link.queue, sequences.outgoing_of(link.queue), link.sequence, unread)
        deadline = link.sequence.deadline
        if deadline is None:
            self._timers.stop(link)
        elif self._timers.deadline(link) != deadline:
            self._timers.start(link, deadline)

    def _new_link(self, queue: OutgoingQueue) -> Link:
        positions = queue.positions
        outbox = Outbox(
            positions.next_available,
            lambda lookup_id: positions.state(lookup_id) is _AVAILABLE,
            start=START,
            end=END,
        )
        table = self._network.settings.resend_timeouts.resend_timer_table
        written = self._node.destinations.written(queue.destination_format_name)
        sequence = TxOutgoingSequence.of(self._node.sequences.outgoing_of(queue), table, written)
        link = queue.link = Link(queue, outbox, sequence, peer=peer_of(queue.destination_format_name))
        if link.is_for_acks:
            self._network.acks.add(link)
        return link


def _is_sent_here(queue: OutgoingQueue) -> bool:
    """MS-MQQB 3.1.7.12: multicast and HTTP are for others."""
    return not queue.multicast and not is_http(queue.destination_format_name)
