"""Judge OrderAcks and FinalAcks on their way from a session to Departures (ADR 22).

waypost.transfer.believing decides, on facts: the messages written, the knowledge of the destination in
waypost.node.network.known_hosts, and the admissions of an operator. Acknowledgments that may be genuine are kept, and
judged again when one of these facts changes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.guid import guid_text
from waypost.limits import MAX_JUDGED_AT_ONCE, MAX_REFUSED_ADDRESSES
from waypost.node.destinations import Destinations, SequencePlace
from waypost.node.kept_acks import Acknowledgment, KeptAcks
from waypost.node.kernel import Kernel
from waypost.node.network.departures import Departures
from waypost.node.network.dials import Dials
from waypost.node.network.handed_over import Handed, Outcome
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.sequences import Sequences
from waypost.transfer.believing import APPLY, Bringer, Decision, Verdict, Written, judge
from waypost.transfer.links import Link
from waypost.transfer.session import Role, Session
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.ip_addresses import plain_address
from waypost.wire.message_class import is_arrival_nack
from waypost.wire.transactional_acks import FinalAck, OrderAck

# Shortest time between two searches for kept acknowledgments of messages that are gone, in seconds.
_SWEEP: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Subject:
    """Subject of an acknowledgment: the destination of the messages, and whether they were sent."""

    name: FormatName
    written: Written
    # The message that waits for a FinalAck, and its queue.
    found: tuple[Queue, Message] | None = None

    @property
    def is_in_table(self) -> bool:
        """MS-MQQB 3.1.5.6: in the AwaitingFinalACKTable."""
        return self.found is not None and not isinstance(self.found[0], OutgoingQueue)


@dataclass(slots=True)
class _Believed:
    """Names of destinations, with SourceQueueManager, for which the other end of a session was found to speak."""

    bringer: Bringer
    matters: set[tuple[FormatName, bytes, bool]] = field(default_factory=set)


class AckJudging:
    """Decides which acknowledgments one queue manager believes."""

    __slots__ = (
        "_believed",
        "_departures",
        "_destinations",
        "_dials",
        "_due",
        "_handed",
        "_hosts",
        "_kept",
        "_kernel",
        "_manager",
        "_next_sweep",
        "_sequences",
        "_statistics",
        "_unsent",
        "turned_away",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        hosts: KnownHosts,
        departures: Departures,
        *,
        dials: Dials,
        handed: Handed,
        sequences: Sequences,
        destinations: Destinations,
        kept_acks: KeptAcks,
        statistics: Statistics,
    ) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._hosts: Final = hosts
        self._departures: Final = departures
        self._dials: Final = dials
        self._handed: Final = handed
        self._sequences: Final = sequences
        self._destinations: Final = destinations
        self._kept: Final = kept_acks
        self._statistics: Final = statistics
        # The TimeStamps of sequences with acknowledgments that wait for a message to be sent again.
        self._unsent: set[int] = set()
        self._believed: dict[Session, _Believed] = {}
        self._next_sweep = 0.0
        # Kept acknowledgments to judge again.
        self._due: dict[Acknowledgment, None] = {}
        # Number of FinalAcks without room, by those who brought them; the last ones at the end.
        self.turned_away: Final[dict[Bringer, int]] = {}

    # Calls of others.

    def start(self, now: Now) -> None:
        """Judge the kept ones again: settings may have changed, and acknowledged messages may be gone."""
        for name in self._destinations:
            self._forget_unused(name)
        self.judge_again(now)

    def take(self, session: Session, packet: OrderAck | FinalAck, now: Now) -> bool:
        """MS-MQQB 3.1.5.6 and 3.1.5.7. False if it ends the session: then it had no effect."""
        statistics = self._statistics
        if isinstance(packet, OrderAck):
            statistics.order_acks_received += 1
        else:
            statistics.final_acks_received += 1
        ack = Acknowledgment.of(packet, self._spoken_for(session).bringer, int(now.wall))
        subject = self._subject(ack) if self._is_of_us(packet) else None
        if subject is None:
            # It is late, repeated or forged: it can change nothing.
            statistics.transactional_acks_unmatched += 1
            if not ack.is_order_ack and self._is_of_us(packet):
                self._note_outcome(ack)
            return True
        verdict = self._verdict(ack, subject, now, session)
        if verdict.decision is not Decision.KEEP:
            if self.turned_away and verdict is APPLY:
                self.turned_away.pop(ack.bringer, None)
            self._end(ack, verdict, subject, now)
            return True
        return self._keep(session, ack, verdict, subject.name, now)

    def opened(self, session: Session, now: Now) -> None:
        """Note an open session. One that was opened here shows which queue manager is at its address."""
        if session.role is not Role.INITIATOR:
            return
        guid = session.remote_qm_guid
        if self._hosts.answered(session):
            self.judge_again(now, lambda ack: ack.source == guid)

    def closed(self, session: Session) -> None:
        self._believed.pop(session, None)

    def sent(self, link: Link, session: Session, now: Now) -> None:
        """Note that messages of transactions were written to this session."""
        destinations, sequence = self._destinations, link.sequence
        if link.met is not session:
            link.met = session
            link.known = destinations.of(link.queue.destination_format_name)
            address = plain_address(session.remote_qm_address)
            # Others can have a session opened to any address, where anybody answers with any GUID.
            if self._dials.leads_to(link, session) and destinations.note_met(
                link.known, session.remote_qm_guid, address
            ):
                self.judge_again(now)
        destinations.note_written(link.known, (sequence.sequence_id, sequence.highest_number))
        time_stamp = sequence.sequence_id.time_stamp
        if time_stamp in self._unsent:
            self._unsent.discard(time_stamp)
            self.judge_again(now, lambda ack: ack.sequence_id.time_stamp == time_stamp)

    def found(self, host: str, addresses: Iterable[str], now: Now) -> None:
        """Note the current addresses of a host name."""
        found, is_new = self._hosts.found(host, addresses, now)
        self.judge_again(now, lambda ack: is_new or ack.bringer.address in found)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> bool:
        """Whether this answers a question that was asked to judge something."""
        host = self._hosts.take_request(request)
        if host is not None:
            self.found(host, addresses, now)
        return host is not None

    def admitted(self, guid: bytes, address: str, now: Now) -> int:
        """Note that an operator has admitted an address. Returns the number of acknowledgments now believed."""
        bringer = Bringer(guid, address)
        self.turned_away.pop(bringer, None)
        return self._judge([ack for ack in self._kept if ack.bringer == bringer], now)

    def revoked(self, guid: bytes, address: str) -> None:
        """Note that an operator has revoked an admission: judge sessions from there again."""
        for believed in self._believed.values():
            if believed.bringer == Bringer(guid, address):
                believed.matters.clear()

    def judge_again(self, now: Now, concerns: Callable[[Acknowledgment], bool] = lambda _: True) -> None:
        """Judge kept acknowledgments again after a new fact: they may be believed, refused or useless now.

        Strangers can have thousands kept, so the rest of many waits for the next ticks.
        """
        self._due.update(dict.fromkeys(ack for ack in self._kept if concerns(ack)))
        self._judge_some(now)

    def _judge_some(self, now: Now) -> None:
        """Judge some of those that are due."""
        part = list(islice(self._due, MAX_JUDGED_AT_ONCE))
        for ack in part:
            del self._due[ack]
        if part:
            self._judge(part, now)
        if self._due:
            self._kernel.timers.start(AckJudging, now.monotonic, self._judge_some)

    def _judge(self, acks: Iterable[Acknowledgment], now: Now) -> int:
        """Returns the number of those that were believed."""
        kept = self._kept
        believed = 0
        names: dict[FormatName, None] = {}
        for ack in acks:
            if ack not in kept:
                continue
            subject = self._subject(ack)
            if subject is None:
                kept.drop(ack)
                continue
            verdict = self._verdict(ack, subject, now)
            believed += verdict is APPLY
            if verdict.decision is Decision.KEEP:
                names[subject.name] = None
            else:
                self._end(ack, verdict, subject, now)
        for name in names:
            self._hosts.inquire(name, now)
        return believed

    def verdict(self, ack: Acknowledgment, now: Now) -> Verdict | None:
        """The reason why an acknowledgment is kept; None if nothing waits for it."""
        subject = self._subject(ack)
        return None if subject is None else self._verdict(ack, subject, now)

    # Judging.

    def _keep(self, session: Session, ack: Acknowledgment, verdict: Verdict, name: FormatName, now: Now) -> bool:
        kept = self._kept
        refusal = kept.keep(ack, is_likely=verdict.is_likely)
        if refusal is not None and now.monotonic >= self._next_sweep:
            self._next_sweep = now.monotonic + _SWEEP
            self.judge_again(now)
            refusal = kept.keep(ack, is_likely=verdict.is_likely)
        facts = {"peer": ack.bringer.address, "guid": guid_text(ack.bringer.guid), "queue": str(name)}
        if refusal is None:
            if verdict.is_by_address:
                facts["hint"] = f"waypost sequence admit {facts['guid']} {facts['peer']}"
            self._kernel.notice("acknowledgment kept", **facts, reason=f"it {verdict.reason}")
            self._hosts.inquire(name, now)
            self.turned_away.pop(ack.bringer, None)
            return True
        self._statistics.transactional_acks_refused += 1
        self._kernel.notice("acknowledgment refused", **facts, reason=f"it {verdict.reason}, and {refusal}")
        if ack.is_order_ack:
            return True
        self._turn_away(ack.bringer)
        session.close(
            "the other side sent an acknowledgment that is not trusted: "
            f"the acknowledgment {verdict.reason}, and {refusal}"
        )
        return False

    def _turn_away(self, bringer: Bringer) -> None:
        """Count a refused FinalAck. Its bringer keeps it and brings it again; its other messages wait behind it."""
        self.turned_away[bringer] = self.turned_away.pop(bringer, 0) + 1
        if len(self.turned_away) > MAX_REFUSED_ADDRESSES:
            del self.turned_away[next(iter(self.turned_away))]

    def _end(self, ack: Acknowledgment, verdict: Verdict, subject: _Subject, now: Now) -> None:
        """Apply a believed acknowledgment, or report a refused one."""
        self._kept.drop(ack)
        if verdict is not APPLY:
            self._statistics.transactional_acks_refused += 1
            facts = {"peer": ack.bringer.address, "guid": guid_text(ack.bringer.guid), "queue": str(subject.name)}
            self._kernel.notice("acknowledgment refused", **facts, reason=f"it {verdict.reason}")
            return
        self._kept.settle(ack)
        place = ack.sequence_id, ack.tx_sequence_number
        if ack.is_order_ack:
            self._departures.order_ack(*place, now)
            return
        self._note_outcome(ack)
        departures = self._departures
        departures.final_ack(subject.found, ack.message_class, now)
        departures.end(self._identifier(ack), *place, now)
        for order_ack in self._kept.order_acks_of(ack.tx_sequence_id):
            if self._subject(order_ack) is None:
                # No message of the sequence is left.
                self._kept.drop(order_ack)
        if subject.is_in_table:
            self._forget_unused(subject.name)

    def _note_outcome(self, ack: Acknowledgment) -> None:
        """Note the outcome that a FinalAck reports, for `explain`: also for a message that has left already."""
        outcome = Outcome(ack.bringer.address, ack.message_class, ack.time, is_final_ack=True)
        self._handed.note(self._identifier(ack), outcome)

    def _forget_unused(self, name: FormatName) -> None:
        """Forget a destination for which no message waits."""
        manager = self._manager
        if not manager.final_acks.waiting_for(name) and name not in manager.collection.outgoing:
            self._destinations.forget(name)

    def _is_of_us(self, packet: OrderAck | FinalAck) -> bool:
        """Whether it names a message of this queue manager."""
        return isinstance(packet, OrderAck) or packet.body.source_guid == self._manager.identity.identifier

    def _identifier(self, ack: Acknowledgment) -> MessageIdentifier:
        return MessageIdentifier(self._manager.identity.identifier, ack.message_id)

    def _subject(self, ack: Acknowledgment) -> _Subject | None:
        """The subject of the acknowledgment; None if nothing waits for it."""
        place = ack.sequence_id, ack.tx_sequence_number
        queue = self._sequences.queue_of(ack.tx_sequence_id)
        link: Link | None = None if queue is None else queue.link
        is_current = link is not None and link.sequence.sequence_id == place[0]
        if not ack.is_order_ack:
            found = self._manager.final_acks.find(self._identifier(ack), place)
            if found is not None:
                return self._expected(*found, place)
            # A message that wants no FinalAck gets one if it is refused.
            is_current = is_current and self._was_sent(ack, queue, link)
        if queue is None or not is_current:
            return None
        written = self._written(queue, place)
        if ack.is_order_ack and written is Written.PERHAPS and self._last_written(queue)[0] == place[0]:
            # It acknowledges all messages before it, too. The one that it names may never be sent again: it may be
            # damaged, or have expired.
            written = Written.YES
        return _Subject(queue.destination_format_name, written)

    def _expected(self, queue: Queue, message: Message, place: SequencePlace) -> _Subject | None:
        found = queue, message
        if isinstance(queue, OutgoingQueue):
            return _Subject(queue.destination_format_name, self._written(queue, place), found)
        # MS-MQQB 3.1.5.6: it came into the table when its OrderAck was believed.
        name = message.destination_queue_format_name
        return None if name is None else _Subject(name, Written.YES, found)

    def _was_sent(self, ack: Acknowledgment, queue: OutgoingQueue | None, link: Link | None) -> bool:
        """Whether the message with this number, sent since the start, is the one that is meant."""
        if queue is None or link is None:
            return False
        lookup_id = link.sequence.lookup_id_of(ack.tx_sequence_number)
        if lookup_id is None or lookup_id not in queue.positions:
            return False
        message = self._manager.positions.find(queue, lookup_id)
        return message is not None and message.identifier == self._identifier(ack)

    def _written(self, queue: OutgoingQueue, place: SequencePlace) -> Written:
        """Whether a message was written: those of a queue are sent in order, so all before a sent one were sent too."""
        if place <= self._last_written(queue):
            return Written.YES
        return Written.PERHAPS if place <= self._sequences.last_before_start(queue) else Written.NO

    def _last_written(self, queue: OutgoingQueue) -> SequencePlace:
        """The place of the last message of this queue that is known to be written."""
        link: Link | None = queue.link
        sent = self._destinations.written(queue.destination_format_name)
        if link is not None and link.sequence.highest_number:
            sent = max(sent, (link.sequence.sequence_id, link.sequence.highest_number))
        return sent

    def _verdict(self, ack: Acknowledgment, subject: _Subject, now: Now, session: Session | None = None) -> Verdict:
        is_refusal = not ack.is_order_ack and is_arrival_nack(ack.message_class)
        matter = subject.name, ack.source, is_refusal
        believed = set() if session is None else self._spoken_for(session).matters
        if subject.written is Written.YES and matter in believed:
            return APPLY
        verdict = judge(
            subject.written,
            self._hosts.way(subject.name, now),
            ack.source,
            ack.bringer,
            may_be_of_any_hop=is_refusal,
            is_admitted=self._hosts.is_admitted(ack.bringer),
        )
        if verdict is APPLY:
            believed.add(matter)
        if subject.written is Written.PERHAPS and verdict.decision is Decision.KEEP:
            self._unsent.add(ack.sequence_id.time_stamp)
        return verdict

    def _spoken_for(self, session: Session) -> _Believed:
        found = self._believed.get(session)
        if found is None:
            bringer = Bringer(session.remote_qm_guid, plain_address(session.remote_qm_address))
            found = self._believed[session] = _Believed(bringer)
        return found
