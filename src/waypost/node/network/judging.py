"""OrderAcks and FinalAcks on their way from a session to Departures: each is judged first (ADR 22).

Here are the facts that waypost.transfer.believing decides on: what was written, where it went, at which addresses the
queue managers there were met, what their names resolve to now, and what an operator has admitted. What may be true is
kept, and judged again when one of these facts changes.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_MET_QUEUE_MANAGERS, MAX_RESOLVED_HOSTS
from waypost.node.destinations import Place
from waypost.node.kept_acks import Acknowledgment
from waypost.node.network.ways import is_address
from waypost.transfer.believing import APPLY, Bringer, Decision, Verdict, Way, Written, judge
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

# For how many seconds the addresses of a name count as what it resolves to now.
_FRESH: Final = 60.0
# How many seconds pass at least between two searches for kept acknowledgments of messages that are gone.
_SWEEP: Final = 60.0
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an acknowledgment is about: the name that messages went to, and whether they did."""

    name: FormatName
    written: Written
    is_in_table: bool = False


class Judging:
    """Which acknowledgments one queue manager believes."""

    __slots__ = (
        "_believed",
        "_configured",
        "_met",
        "_network",
        "_next_sweep",
        "_node",
        "_relays",
        "_requests",
        "_resolved",
        "_unsent",
    )

    def __init__(self, node: "Node", network: "Network", settings: "Settings") -> None:
        self._node: Final = node
        self._network: Final = network
        self._relays: Final = settings.relays
        self._configured: Final = network.settings.ack_addresses
        # Where queue managers answered since the start, the last ones at the end.
        self._met: dict[bytes, dict[str, None]] = {}
        # What host names resolved to, and the monotonic time of that; the requests that are under way.
        self._resolved: dict[str, tuple[float, frozenset[str]]] = {}
        self._requests: dict[int, str] = {}
        # The TimeStamps of sequences whose acknowledgments wait for a message to be sent again.
        self._unsent: set[int] = set()
        # What each session was found to speak for: the name of a destination, and SourceQueueManager.
        self._believed: dict[Session, set[tuple[FormatName, bytes, bool]]] = {}
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
            if packet.body.source_guid != self._node.manager.identity.identifier:
                return True
        bringer = Bringer(session.remote_qm_guid, plain_address(session.remote_qm_address))
        ack = Acknowledgment.of(packet, bringer, int(now.wall))
        subject = self._subject(ack)
        if subject is None:
            # It is late, has come before, or was made up: there is nothing that it could change.
            return True
        verdict = self._verdict(ack, subject, now, session)
        if verdict.decision is not Decision.KEEP:
            self._end(ack, verdict, subject, now)
            return True
        return self._keep(session, ack, verdict, subject.name, now)

    def opened(self, session: Session, now: Now) -> None:
        """A session is open. One that was opened here has found its queue manager at its address."""
        if session.role is not Role.INITIATOR:
            return
        guid, address = session.remote_qm_guid, plain_address(session.remote_qm_address)
        addresses = self._met.pop(guid, {})
        is_new = address not in addresses
        self._met[guid] = addresses | {address: None}
        if len(self._met) > MAX_MET_QUEUE_MANAGERS:
            del self._met[next(iter(self._met))]
        if is_new:
            self.judge_again(now, lambda ack: guid in (ack.source, ack.bringer.guid))

    def closed(self, session: Session) -> None:
        self._believed.pop(session, None)

    def sent(self, link: Link, session: Session, now: Now) -> None:
        """Messages of transactions were written to this session."""
        destinations, sequence = self._node.destinations, link.sequence
        if link.met is not session:
            link.met = session
            link.known = destinations.of(link.queue.destination_format_name)
            address = plain_address(session.remote_qm_address)
            if destinations.note_met(link.known, session.remote_qm_guid, address):
                self.judge_again(now)
        destinations.note_written(link.known, (sequence.sequence_id, sequence.highest_number))
        time_stamp = sequence.sequence_id.time_stamp
        if time_stamp in self._unsent:
            self._unsent.discard(time_stamp)
            self.judge_again(now, lambda ack: ack.sequence_id.time_stamp == time_stamp)

    def found(self, host: str, addresses: Iterable[str], now: Now) -> None:
        """A host name has these addresses now."""
        self._resolved.pop(host, None)
        self._resolved[host] = now.monotonic, frozenset(map(plain_address, addresses))
        if len(self._resolved) > MAX_RESOLVED_HOSTS:
            del self._resolved[next(iter(self._resolved))]
        self.judge_again(now)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> bool:
        """Whether this is the answer to a request of this class."""
        host = self._requests.pop(request, None)
        if host is None:
            return False
        self.found(host, addresses, now)
        return True

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
            if verdict.decision is not Decision.KEEP:
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
            self._ask(name, now)
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
        self._network.departures.final_ack(self._identifier(ack), ack.message_class, place, now)
        if subject.is_in_table:
            self._forget_unused(subject.name)

    def _forget_unused(self, name: FormatName) -> None:
        """Nothing has to be known of a destination for which no message waits."""
        manager = self._node.manager
        if name not in manager.collection.outgoing and not manager.final_acks.waiting_for(name):
            self._node.destinations.forget(name)

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
        if isinstance(queue, OutgoingQueue):
            return _Subject(queue.destination_format_name, self._written(queue, place))
        # MS-MQQB 3.1.5.6: it came into the table when its OrderAck was believed.
        name = message.destination_queue_format_name
        return None if name is None else _Subject(name, Written.YES, is_in_table=True)

    def _was_sent(self, ack: Acknowledgment, queue: OutgoingQueue | None, link: Link | None) -> bool:
        """Whether the message that has this number, and was sent since the start, is the one that is meant."""
        if queue is None or link is None:
            return False
        lookup_id = link.sequence.lookup_id_of(ack.tx_sequence_number)
        if lookup_id is None or lookup_id not in queue.positions:
            return False
        return self._node.messages.get(queue.number, lookup_id).identifier == self._identifier(ack)

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
        spoken_for = subject.name, ack.source, is_refusal
        believed = None if session is None else self._believed.setdefault(session, set())
        if believed is not None and subject.written is Written.YES and spoken_for in believed:
            return APPLY
        verdict = judge(
            subject.written,
            self._way(subject.name, now),
            ack.source,
            ack.bringer,
            may_be_of_any_hop=is_refusal,
            is_admitted=self._is_admitted(ack.bringer),
        )
        if verdict is APPLY and believed is not None:
            believed.add(spoken_for)
        if subject.written is Written.PERHAPS and verdict.decision is Decision.KEEP:
            self._unsent.add(ack.sequence_id.time_stamp)
        return verdict

    def _is_admitted(self, bringer: Bringer) -> bool:
        pair = bringer.guid, bringer.address
        return (
            pair in self._node.destinations.admitted
            or pair in self._configured
            or (NULL_GUID, bringer.address) in self._configured
        )

    def _way(self, name: FormatName, now: Now) -> Way:
        routing, relays = self._network.ways.routing, self._relays
        met = self._node.destinations.met(name)
        destination = routing.destination(name)
        if destination is None:
            return Way(met)

        def addresses(guid: bytes, host: str) -> AbstractSet[str]:
            return {*met.get(guid, ()), *self._met.get(guid, ()), *self._addresses_of(host, now)}

        guid = destination.queue_manager
        if guid == NULL_GUID:
            # A direct name means whoever answers at the host, and a route may tell who that is.
            guids = {*met, *routing.queue_managers_at(destination.host)}
            return Way({guid: addresses(guid, destination.host) for guid in guids})
        hosts = {guid: addresses(guid, destination.host or routing.host_of(guid))}
        hops = {
            hop.queue_manager_guid: addresses(hop.queue_manager_guid, hop.host_name)
            for hop in routing.next_hops(destination)
            if hop.queue_manager_guid != guid
        }
        if not hops:
            return Way(hosts)
        others = {each: addresses(each, routing.host_of(each)) for each in relays.guids if each not in hops}
        return Way(hosts, {**others, **hops}, relays.addresses)

    def _addresses_of(self, host: str, now: Now) -> frozenset[str]:
        """What the name of a host resolves to now, as far as is known."""
        with suppress(ValueError):
            return frozenset({plain_address(host)})
        time, addresses = self._resolved.get(host, (-inf, _NONE))
        return addresses if now.monotonic - time <= _FRESH else _NONE

    def _ask(self, name: FormatName, now: Now) -> None:
        """Have the hosts resolved that may acknowledge what was sent to this name."""
        connecting = self._network.connecting
        for host in dict.fromkeys(self._hosts_of(name)):
            time, _ = self._resolved.get(host, (-inf, _NONE))
            if host and not is_address(host) and now.monotonic - time > _FRESH and host not in self._requests.values():
                self._requests[connecting.ask(host)] = host

    def _hosts_of(self, name: FormatName) -> Iterator[str]:
        routing = self._network.ways.routing
        destination = routing.destination(name)
        if destination is None:
            return
        yield destination.host
        if destination.queue_manager != NULL_GUID:
            yield routing.host_of(destination.queue_manager)
            yield from (hop.host_name for hop in routing.next_hops(destination))
            yield from map(routing.host_of, self._relays.guids)
