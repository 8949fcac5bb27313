"""OrderAcks and FinalAcks on their way from a session to Departures: each is judged first (ADR 22).

waypost.transfer.believing decides, on facts: what was written, what waypost.node.network.ways knows of the destination,
and what an operator has admitted. What may be true is kept, and judged again when one of these facts changes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.guid import NULL_GUID, guid_text
from waypost.node.destinations import Place
from waypost.node.kept_acks import Acknowledgment
from waypost.node.network.ways import Ways
from waypost.routing.routing import Hop
from waypost.transfer.believing import APPLY, Bringer, Decision, Verdict, Written, judge
from waypost.transfer.links import Link
from waypost.transfer.session import Role, Session
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.ip_addresses import plain_address
from waypost.wire.message_class import is_arrival_nack
from waypost.wire.transactional_acks import FinalAck, OrderAck

if TYPE_CHECKING:
    from waypost.node.network.network import Network
    from waypost.node.node import Node
    from waypost.node.recovery import Settings

# How many seconds pass at least between two searches for kept acknowledgments of messages that are gone.
_SWEEP: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an acknowledgment is about: the name that messages went to, and whether they did."""

    name: FormatName
    written: Written
    # The message that waits for a FinalAck, and the queue that has it.
    found: tuple[Queue, Message] | None = None

    @property
    def is_in_table(self) -> bool:
        """MS-MQQB 3.1.5.6: in the AwaitingFinalACKTable."""
        return self.found is not None and not isinstance(self.found[0], OutgoingQueue)


@dataclass(slots=True)
class _Believed:
    """What the other end of a session was found to speak for: names of destinations, with SourceQueueManager."""

    bringer: Bringer
    matters: set[tuple[FormatName, bytes, bool]] = field(default_factory=set)


class Judging:
    """Which acknowledgments one queue manager believes."""

    __slots__ = (
        "_believed",
        "_configured",
        "_network",
        "_next_sweep",
        "_node",
        "_unsent",
        "_ways",
    )

    def __init__(self, node: "Node", network: "Network", settings: "Settings") -> None:
        self._node: Final = node
        self._network: Final = network
        self._ways: Final = Ways(node, network, settings.relays)
        self._configured: Final = network.settings.ack_addresses
        # The TimeStamps of sequences whose acknowledgments wait for a message to be sent again.
        self._unsent: set[int] = set()
        self._believed: dict[Session, _Believed] = {}
        self._next_sweep = 0.0

    # What others tell.

    def start(self, now: Now) -> None:
        """The settings may be others than they were, and what was acknowledged may be gone."""
        for name in self._node.destinations:
            self._forget_unused(name)
        self.judge_again(now)

    def take(self, session: Session, packet: OrderAck | FinalAck, now: Now) -> bool:
        """MS-MQQB 3.1.5.6 and 3.1.5.7. False if it ends the session: then nothing was done with it."""
        statistics = self._network.statistics
        if isinstance(packet, OrderAck):
            statistics.order_acks_received += 1
        else:
            statistics.final_acks_received += 1
        ack = Acknowledgment.of(packet, self._spoken_for(session).bringer, int(now.wall))
        subject = self._subject(ack) if self._is_of_us(packet) else None
        if subject is None:
            # It is late, has come before, or was made up: there is nothing that it could change.
            statistics.transactional_acks_unmatched += 1
            return True
        verdict = self._verdict(ack, subject, now, session)
        if verdict.decision is not Decision.KEEP:
            self._end(ack, verdict, subject, now)
            return True
        return self._keep(session, ack, verdict, subject.name, now)

    def opened(self, session: Session, now: Now) -> None:
        """A session is open. One that was opened here tells who is at its address."""
        if session.role is not Role.INITIATOR:
            return
        guid = session.remote_qm_guid
        if self._ways.answered(session):
            self.judge_again(now, lambda ack: ack.source == guid)

    def is_relay(self, session: Session, now: Now) -> bool:
        """Whether the other end is one of `routing.relays`: at its address, or with its GUID where that is known."""
        return self._ways.is_relay(session, now)

    def vouches(self, guid: bytes, bringer: Hop, now: Now) -> bool:
        """Whether somebody who brings messages is known to speak for this queue manager.

        It is this one, or one on the way to it, at an address to which a route leads or that an operator has admitted.
        """
        pair = Bringer(bringer.queue_manager_guid, plain_address(bringer.host_name))
        return self._ways.vouches(guid, pair, now, is_admitted=self._is_admitted(pair))

    def admitted_addresses(self, guid: bytes) -> list[str]:
        """Those that an operator has admitted for this queue manager."""
        pairs = {*self._node.destinations.admitted, *self._configured}
        return sorted(address for each, address in pairs if each == guid)

    def closed(self, session: Session) -> None:
        self._believed.pop(session, None)

    def sent(self, link: Link, session: Session, now: Now) -> None:
        """Messages of transactions were written to this session."""
        destinations, sequence = self._node.destinations, link.sequence
        if link.met is not session:
            link.met = session
            link.known = destinations.of(link.queue.destination_format_name)
            address = plain_address(session.remote_qm_address)
            # Others can have a session opened to any address, where anybody answers with any GUID.
            if self._network.dials.leads_to(link, session) and destinations.note_met(
                link.known, session.remote_qm_guid, address
            ):
                self.judge_again(now)
        destinations.note_written(link.known, (sequence.sequence_id, sequence.highest_number))
        time_stamp = sequence.sequence_id.time_stamp
        if time_stamp in self._unsent:
            self._unsent.discard(time_stamp)
            self.judge_again(now, lambda ack: ack.sequence_id.time_stamp == time_stamp)

    def found(self, host: str, addresses: Iterable[str], now: Now) -> None:
        """A host name has these addresses now."""
        found, is_new = self._ways.found(host, addresses, now)
        self.judge_again(now, lambda ack: is_new or ack.bringer.address in found)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> bool:
        """Whether this is the answer to a question that was asked to judge something."""
        host = self._ways.take_request(request)
        if host is not None:
            self.found(host, addresses, now)
        return host is not None

    def admitted(self, guid: bytes, address: str, now: Now) -> int:
        """An operator has admitted an address. How many acknowledgments were believed."""
        return self.judge_again(now, lambda ack: ack.bringer == Bringer(guid, address))

    def judge_again(self, now: Now, concerns: Callable[[Acknowledgment], bool] = lambda _: True) -> int:
        """Something is known that was not: what was kept may be believed, refused or of no use any more.

        How many were believed.
        """
        kept = self._node.kept_acks
        believed = 0
        if not kept:
            return believed
        for ack in kept:
            if not concerns(ack):
                continue
            subject = self._subject(ack)
            if subject is None:
                kept.drop(ack)
                continue
            verdict = self._verdict(ack, subject, now)
            believed += verdict is APPLY
            if verdict.decision is Decision.KEEP:
                self._ways.inquire(subject.name, now)
            else:
                self._end(ack, verdict, subject, now)
        return believed

    def verdict(self, ack: Acknowledgment, now: Now) -> Verdict | None:
        """Why an acknowledgment is kept; None if nothing waits for it."""
        subject = self._subject(ack)
        return None if subject is None else self._verdict(ack, subject, now)

    # How it is judged.

    def _keep(self, session: Session, ack: Acknowledgment, verdict: Verdict, name: FormatName, now: Now) -> bool:
        kept = self._node.kept_acks
        is_kept = kept.keep(ack)
        if not is_kept and now.monotonic >= self._next_sweep:
            self._next_sweep = now.monotonic + _SWEEP
            self.judge_again(now)
            is_kept = kept.keep(ack)
        facts = {"peer": ack.bringer.address, "guid": guid_text(ack.bringer.guid), "queue": str(name)}
        if is_kept:
            if verdict.is_by_address:
                facts["hint"] = f"waypost sequence admit {facts['guid']} {facts['peer']}"
            self._network.notice("acknowledgment kept", **facts, reason=f"it {verdict.reason}")
            self._ways.inquire(name, now)
            return True
        self._network.statistics.transactional_acks_refused += 1
        reason = "there are too many acknowledgments that are not believed"
        self._network.notice("acknowledgment refused", **facts, reason=f"it {verdict.reason}, and {reason}")
        if ack.is_order_ack:
            return True
        session.close(f"it brings an acknowledgment from an address that is not admitted, and {reason}")
        return False

    def _end(self, ack: Acknowledgment, verdict: Verdict, subject: _Subject, now: Now) -> None:
        """It is believed, or it is refused."""
        self._node.kept_acks.drop(ack)
        if verdict is not APPLY:
            self._network.statistics.transactional_acks_refused += 1
            facts = {"peer": ack.bringer.address, "guid": guid_text(ack.bringer.guid), "queue": str(subject.name)}
            self._network.notice("acknowledgment refused", **facts, reason=f"it {verdict.reason}")
            return
        self._node.kept_acks.settle(ack)
        place = ack.sequence_id, ack.tx_sequence_number
        if ack.is_order_ack:
            self._network.departures.order_ack(*place, now)
            return
        departures = self._network.departures
        departures.final_ack(subject.found, ack.message_class, now)
        departures.end(self._identifier(ack), *place)
        for order_ack in self._node.kept_acks.order_acks_of(ack.tx_sequence_id):
            if self._subject(order_ack) is None:
                # No message of the sequence is left.
                self._node.kept_acks.drop(order_ack)
        if subject.is_in_table:
            self._forget_unused(subject.name)

    def _forget_unused(self, name: FormatName) -> None:
        """Nothing has to be known of a destination for which no message waits."""
        manager = self._node.manager
        if not manager.final_acks.waiting_for(name) and name not in manager.collection.outgoing:
            self._node.destinations.forget(name)

    def _is_of_us(self, packet: OrderAck | FinalAck) -> bool:
        """Whether it is about a message of this queue manager, as far as it says."""
        return isinstance(packet, OrderAck) or packet.body.source_guid == self._node.manager.identity.identifier

    def _identifier(self, ack: Acknowledgment) -> MessageIdentifier:
        return MessageIdentifier(self._node.manager.identity.identifier, ack.message_id)

    def _subject(self, ack: Acknowledgment) -> _Subject | None:
        """What the acknowledgment is about; None if nothing waits for it."""
        place = ack.sequence_id, ack.tx_sequence_number
        queue = self._node.sequences.queue_of(ack.tx_sequence_id)
        link: Link | None = None if queue is None else queue.link
        is_current = link is not None and link.sequence.sequence_id == place[0]
        if not ack.is_order_ack:
            found = self._node.manager.final_acks.find(self._identifier(ack), place)
            if found is not None:
                return self._expected(*found, place)
            # A message that wants no FinalAck gets one if it is refused.
            is_current = is_current and self._was_sent(ack, queue, link)
        if queue is None or not is_current:
            return None
        return _Subject(queue.destination_format_name, self._written(queue, place))

    def _expected(self, queue: Queue, message: Message, place: Place) -> _Subject | None:
        found = queue, message
        if isinstance(queue, OutgoingQueue):
            return _Subject(queue.destination_format_name, self._written(queue, place), found)
        # MS-MQQB 3.1.5.6: it came into the table when its OrderAck was believed.
        name = message.destination_queue_format_name
        return None if name is None else _Subject(name, Written.YES, found)

    def _was_sent(self, ack: Acknowledgment, queue: OutgoingQueue | None, link: Link | None) -> bool:
        """Whether the message that has this number, and was sent since the start, is the one that is meant."""
        if queue is None or link is None:
            return False
        lookup_id = link.sequence.lookup_id_of(ack.tx_sequence_number)
        if lookup_id is None or lookup_id not in queue.positions:
            return False
        message = self._node.manager.positions.find(queue, lookup_id)
        return message is not None and message.identifier == self._identifier(ack)

    def _written(self, queue: OutgoingQueue, place: Place) -> Written:
        """Messages of a queue are sent in their order, so whatever is before one that was sent was sent too."""
        link: Link | None = queue.link
        sent = self._node.destinations.written(queue.destination_format_name)
        if link is not None and link.sequence.highest_number:
            sent = max(sent, (link.sequence.sequence_id, link.sequence.highest_number))
        if place <= sent:
            return Written.YES
        return Written.PERHAPS if place <= self._node.sequences.last_before_start(queue) else Written.NO

    def _verdict(self, ack: Acknowledgment, subject: _Subject, now: Now, session: Session | None = None) -> Verdict:
        is_refusal = not ack.is_order_ack and is_arrival_nack(ack.message_class)
        matter = subject.name, ack.source, is_refusal
        believed = set() if session is None else self._spoken_for(session).matters
        if subject.written is Written.YES and matter in believed:
            return APPLY
        verdict = judge(
            subject.written,
            self._ways.way(subject.name, now),
            ack.source,
            ack.bringer,
            may_be_of_any_hop=is_refusal,
            is_admitted=self._is_admitted(ack.bringer),
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

    def _is_admitted(self, bringer: Bringer) -> bool:
        pair = bringer.guid, bringer.address
        return (
            pair in self._node.destinations.admitted
            or pair in self._configured
            or (NULL_GUID, bringer.address) in self._configured
        )
