"""A queue manager on the network: connections and their data, MS-MQQB 3.1.4, 3.1.5.9, 3.1.5.10, 3.1.6 and 3.1.7.3.

The shell reports facts, each as one operation of the node; sessions turn bytes into packets, Arrivals puts messages
into queues, Connecting finds a session for every outgoing queue and Departures sends its messages. The output of a
session is taken at the end of the operation. An acknowledgment is only made when the acknowledged message is durable,
because sessions learn that in `Kernel.when_durable`.
"""

from typing import Final

from waypost.clock import Now
from waypost.core.delivery import Delivery
from waypost.core.positions import START
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.guid import guid_text
from waypost.limits import MAX_UNFINISHED_BYTES
from waypost.node.access import Access
from waypost.node.destinations import Destinations
from waypost.node.directory import NodeDirectory
from waypost.node.effects import HoldReading, SendDatagram
from waypost.node.kept_acks import KeptAcks
from waypost.node.kernel import Kernel
from waypost.node.network.ack_hosts import AckHosts
from waypost.node.network.ack_judging import AckJudging
from waypost.node.network.ack_queues import OutgoingAckQueues
from waypost.node.network.admin_acks import AdminAcks
from waypost.node.network.admission import Admission
from waypost.node.network.arrivals import Arrivals
from waypost.node.network.checking import ArrivalRules
from waypost.node.network.connecting import Connecting
from waypost.node.network.departures import Departures
from waypost.node.network.dials import Dials
from waypost.node.network.forwarding import Forwarding
from waypost.node.network.handed_over import Handed
from waypost.node.network.hop_finder import HopFinder
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.network.order_acking import OrderAcking
from waypost.node.network.outgoing_links import OutgoingLinks, is_sent_here
from waypost.node.network.refusals import Refusals
from waypost.node.network.refused_sources import RefusedSources
from waypost.node.network.routing_loops import Loops
from waypost.node.network.sessions import Sessions
from waypost.node.network.tracing import Tracing
from waypost.node.protection import Protection
from waypost.node.recovery import Settings
from waypost.node.routing_directory import NodeRoutingDirectory
from waypost.node.sequences import Sequences
from waypost.node.transactional_acks import TransactionalAcks
from waypost.node.turns import Work
from waypost.peers import peer_of
from waypost.routing.routing import Routing
from waypost.store.port import Reader
from waypost.transfer.duplicates import KnownMessages
from waypost.transfer.links import Link
from waypost.transfer.pings import Pings
from waypost.transfer.session import ALL, Received, Session, SessionState
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire.ip_addresses import is_address


class Network:
    """The network side of one queue manager. No input from a remote host raises an error here.

    It is SessionEnds of its sessions and Routes of its departures.
    """

    __slots__ = (
        "_destinations",
        "_held",
        "_kernel",
        "_links",
        "_manager",
        "_order_acking",
        "_sessions",
        "ack_judging",
        "ack_queues",
        "admin_acks",
        "arrivals",
        "connecting",
        "delivery",
        "departures",
        "dials",
        "handed",
        "hop_finder",
        "known_hosts",
        "loops",
        "pings",
        "refusals",
        "refused_sources",
        "transactional_acks",
    )

    # A message counts even if the connection that brought it has broken.
    needs_answers: Final = False
    packet_cost: Final = 1

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        settings: Settings,
        reader: Reader,
        *,
        access: Access,
        directory: NodeDirectory,
        sequences: Sequences,
        destinations: Destinations,
        kept_acks: KeptAcks,
        protection: Protection,
        longest_time_to_reach_queue: int,
    ) -> None:
        assert settings.transfer is not None
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._destinations: Final = destinations
        transfer = settings.transfer.for_its_role()
        sessions = Sessions(kernel, manager, transfer, self)
        self._sessions: Final = sessions
        self.refused_sources: Final = RefusedSources()
        # Records of single messages, for `explain`: refused ones, and those that others have accepted.
        self.refusals: Final = Refusals(kernel.notice)
        self.handed: Final = Handed(kernel.now)
        # Sessions with more data from the other side than the window allows.
        self._held: set[Session] = set()
        self.pings: Final[Pings[Link]] = Pings(sessions.initiator, kernel.timers, self._unanswered)
        # Addresses and routes.
        routing = _routing(directory, manager, settings)
        self.dials: Final = Dials(kernel, manager, sessions)
        self.known_hosts: Final = KnownHosts(
            kernel, self.dials, routing, destinations, relays=settings.relays, configured=transfer.ack_addresses
        )
        self.hop_finder: Final = HopFinder(sessions, self.dials, self.known_hosts, routing)
        # Acknowledgments.
        statistics = sessions.statistics
        hosts = AckHosts(kernel, self.hop_finder, transfer.ack_hosts, reader)
        self.admin_acks: Final = AdminAcks(kernel, manager, hosts, statistics)
        self.delivery: Final = Delivery(manager, self.admin_acks, send_insecure_nacks=transfer.send_insecure_nacks)
        self._links: Final = OutgoingLinks(manager, sequences, destinations, transfer)
        self.ack_queues: Final = OutgoingAckQueues(manager, self._links, self.hop_finder, statistics)
        self.transactional_acks: Final = TransactionalAcks(manager, self.ack_queues)
        # Outgoing messages.
        tracing = Tracing(manager, longest_time_to_reach_queue)
        self.departures: Final = Departures(
            kernel,
            manager,
            sessions,
            self._links,
            routes=self,
            sequences=sequences,
            destinations=destinations,
            admin_acks=self.admin_acks,
            tracing=tracing,
            handed=self.handed,
            protection=protection,
        )
        self.ack_judging: Final = AckJudging(
            kernel,
            manager,
            self.known_hosts,
            self.departures,
            dials=self.dials,
            handed=self.handed,
            sequences=sequences,
            destinations=destinations,
            kept_acks=kept_acks,
            statistics=statistics,
        )
        self.connecting: Final = Connecting(
            kernel,
            manager,
            sessions,
            self.hop_finder,
            links=self._links,
            departures=self.departures,
            dials=self.dials,
            ack_judging=self.ack_judging,
            hosts=self.known_hosts,
            ack_hosts=hosts,
            pings=self.pings,
            protection=protection,
        )
        # Incoming messages.
        self.loops: Final = Loops(
            kernel, manager, self.hop_finder, self.delivery, sequences=sequences, statistics=statistics
        )
        self._order_acking: Final = OrderAcking(
            kernel, sequences.incoming, self.transactional_acks, transfer, statistics
        )
        relays = settings.relays
        history = sequences.history(
            transfer.duplicate_history_size, transfer.duplicate_history_s, map(peer_of, relays.addresses)
        )
        self.arrivals: Final = Arrivals(
            kernel,
            manager,
            sessions,
            self.delivery,
            access=access,
            directory=directory,
            incoming=sequences.incoming,
            known=KnownMessages(history, relays.guids),
            admission=Admission(kernel, manager, sequences, self.known_hosts, settings=transfer, statistics=statistics),
            order_acking=self._order_acking,
            forwarding=Forwarding(manager, self.hop_finder, statistics, is_routing_server=transfer.is_routing_server),
            loops=self.loops,
            ack_judging=self.ack_judging,
            ack_queues=self.ack_queues,
            transactional_acks=self.transactional_acks,
            tracing=tracing,
            handed=self.handed,
            refusals=self.refusals,
            refused_sources=self.refused_sources,
            protection=protection,
            rules=ArrivalRules(settings.min_signature, settings.hashes, settings.rejects_short_rc2),
        )

    # Calls of the shell.

    def start(self, now: Now) -> None:
        """MS-MQQB 3.1.4.1: every outgoing queue with messages gets a session. The others are of no use any more."""
        collection = self._manager.collection
        with self._kernel.operation(now):
            for queue in tuple(collection.outgoing.values()):
                first = None
                while first is None and len(queue.positions):
                    first = self._manager.positions.find(queue, queue.positions.next_any(START))
                if first is not None:
                    self.admin_acks.restore(queue, first)
                    self.departures.want(queue)
                elif queue.may_send:
                    collection.remove(queue)
            self.ack_judging.start(now)

    def stop(self, now: Now) -> None:
        """MS-MQQB 3.1.4.2."""
        with self._kernel.operation(now):
            for session in self._sessions.all:
                self.close(session, "the queue manager is stopping", now)
            self._destinations.write()

    def accept(self, address: str, now: Now) -> int | None:
        """MS-MQQB 3.1.5.10: accept a connection. None if the shell has to close it at once.

        A host that may not have a session gets that answer when it asks for one (MS-MQQB 2.2.1).
        """
        if self._kernel.failure is not None or not is_address(address):
            self.statistics.connections_refused += 1
            return None
        self.statistics.connections_accepted += 1
        self._heard(address, now, is_proven=True)
        return self._sessions.accept(address, now).connection

    def _heard(self, address: str, now: Now, *, is_proven: bool) -> None:
        if self.connecting.awaits(address):
            with self._kernel.operation(now):
                self.connecting.heard(address, now, is_proven=is_proven)

    def connected(self, connection: int, now: Now) -> None:
        """Note that a Connect succeeded."""
        session = self._sessions.by_connection.get(connection)
        if session is None:
            return
        with self._kernel.operation(now):
            session.connected(now)
            self.connecting.establishing(session, now)
            self._sessions.touched[session] = None

    def connect_failed(self, connection: int, reason: str, now: Now) -> None:
        session = self._sessions.by_connection.get(connection)
        if session is None:
            return
        with self._kernel.operation(now):
            self.statistics.connections_failed += 1
            session.close(reason)
            self._sessions.forget(session, now)

    def data_received(self, connection: int, data: bytes, now: Now, most: int = ALL) -> Work:
        """Process received bytes: at most `most` packets; the others wait for a call without data."""
        session = self._sessions.by_connection.get(connection)
        if session is None:
            return Work(0, 0)
        with self._kernel.operation(now):
            self._sessions.kept_bytes -= session.inlet.kept_bytes
            received = session.data_received(data, now, most)
            self._sessions.kept_bytes += session.inlet.kept_bytes
            self._take(session, received, now)
            self._make_room(now)
        return Work(received.packets, len(session.inlet.packets))

    def _make_room(self, now: Now) -> None:
        """Close the session with the most kept bytes, of the address with the most, if the room is used up."""
        while self._sessions.kept_bytes > MAX_UNFINISHED_BYTES:
            reason = "the limit of unfinished bytes is reached, and this address has the most of them"
            self.close(self._sessions.largest(), reason, now)

    def connection_lost(self, connection: int, now: Now) -> None:
        """MS-MQQB 3.1.7.3."""
        session = self._sessions.by_connection.get(connection)
        if session is None:
            return
        with self._kernel.operation(now):
            session.close("the connection is lost")
            self._sessions.forget(session, now)

    def writing_paused(self, connection: int, _now: Now) -> None:
        """Note that the other side reads slower than we write."""
        session = self._sessions.by_connection.get(connection)
        if session is not None:
            session.transport_paused = True

    def writing_resumed(self, connection: int, now: Now) -> None:
        session = self._sessions.by_connection.get(connection)
        if session is None:
            return
        with self._kernel.operation(now):
            session.transport_paused = False
            self.departures.pump(session, now)

    def reading_paused(self, connection: int, now: Now) -> None:
        """Note that the shell reads nothing more from the connection for now."""
        session = self._sessions.by_connection.get(connection)
        if session is not None:
            session.inlet.set_unread(now, is_unread=True)

    def reading_resumed(self, connection: int, now: Now) -> None:
        session = self._sessions.by_connection.get(connection)
        if session is not None:
            session.inlet.set_unread(now, is_unread=False)

    def datagram_received(self, data: bytes, address: str, port: int, now: Now) -> None:
        """Process a datagram to the ping port (MS-MQQB 3.1.7.7). Anything but a Ping Request is ignored."""
        answer = self.pings.answer(data, would_accept=self._sessions.grants)
        if answer is not None:
            self.statistics.pings_received += 1
            if self._kernel.failure is None:
                self._heard(address, now, is_proven=False)
            self._kernel.emit(SendDatagram(answer, address, port, is_request=False))

    def ping_answered(self, data: bytes, now: Now) -> None:
        """Process a datagram to the port that a Ping Request was sent from (MS-MQQB 3.1.7.8)."""
        ended = self.pings.response(data)
        if ended is not None:
            with self._kernel.operation(now):
                link, answered = ended
                self.connecting.pinged(link, now, answered=answered)

    def _unanswered(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.6.8."""
        self.connecting.pinged(link, now, answered=False)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None:
        """Note the result of a Resolve; without an address the host is unknown."""
        with self._kernel.operation(now):
            if not self.ack_judging.resolved(request, addresses, now):
                self.connecting.resolved(request, addresses, now)

    def addresses_changed(self, addresses: frozenset[str], now: Now) -> None:
        """Note the new IP addresses of the computer."""
        with self._kernel.operation(now):
            self._manager.set_addresses(addresses)

    # Calls of the node.

    def settle(self, now: Now) -> bool:
        """End an operation: send messages that are ready, and write. True if anything was done."""
        if self._order_acking.due:
            self._order_acking.settle()
            return True
        if self.departures.wanted:
            self.departures.settle()
            return True
        if self._sessions.touched:
            self._flush(now)
        return bool(self._sessions.touched)

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
        if not isinstance(queue, OutgoingQueue):
            self.arrivals.forget(queue)
            return
        if not self._manager.final_acks.count(queue):
            self._destinations.forget(queue.destination_format_name)
        link: Link | None = queue.link
        if link is not None:
            self.departures.forget(link)
            self.connecting.forget(link)
            self._links.forget(link)
        self.admin_acks.forget(queue)

    def paused(self, queue: OutgoingQueue, now: Now) -> None:
        """MS-MQQB 3.1.7.13."""
        if queue.link is not None:
            self.connecting.pause(queue.link, now)

    def resumed(self, queue: OutgoingQueue, now: Now) -> None:
        """MS-MQQB 3.1.7.14."""
        if is_sent_here(queue):
            self.connecting.resume(self._links.link_of(queue), now)
            self.departures.want(queue)

    def admitted(self, guid: bytes, address: str, now: Now) -> int:
        """Note that an operator has admitted an address. Returns the number of acknowledgments now believed.

        Links that wait for the queue manager try again at once: it may be there.
        """
        believed = self.ack_judging.admitted(guid, address, now)
        self.connecting.pointed_to(guid, now)
        return believed

    def close(self, session: Session, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.5.9."""
        self._sessions.close(session, reason, now)

    # State.

    @property
    def settings(self) -> TransferSettings:
        return self._sessions.settings

    @property
    def statistics(self) -> Statistics:
        return self._sessions.statistics

    @property
    def open_sessions(self) -> list[Session]:
        return self._sessions.open

    @property
    def sessions(self) -> list[Session]:
        return self._sessions.all

    @property
    def twins(self) -> dict[str, int]:
        """The addresses at which a queue manager with our identifier was seen, with the times."""
        return self._sessions.twins

    # SessionEnds.

    def closing(self, session: Session) -> None:
        self.ack_judging.closed(session)
        self._held.discard(session)
        self.arrivals.forget_session(session)
        self.dials.ended(session)
        self.connecting.closing(session)

    def closed(self, session: Session, now: Now) -> None:
        self.connecting.closed(session, now)

    # Routes.

    def want(self, link: Link, now: Now) -> None:
        self.connecting.want(link, now)

    def sent(self, link: Link, session: Session, now: Now) -> None:
        self.ack_judging.sent(link, session, now)

    # Internals.

    def _take(self, session: Session, received: Received, now: Now) -> None:
        if session.just_granted:
            session.just_granted = False
            self.connecting.granted(session, now)
        if session.just_opened:
            session.just_opened = False
            self._sessions.opened(session)
            guid = guid_text(session.remote_qm_guid)
            self._kernel.notice("session opened", peer=session.remote_qm_address, guid=guid)
            self.ack_judging.opened(session, now)
            self.connecting.opened(session, now)
        if received.acknowledged:
            self.departures.acknowledged(received.acknowledged, now)
        if received.messages:
            self.arrivals.take(session, received.messages, now)
        self._sessions.touched[session] = None
        if session.state is SessionState.CLOSED:
            self._sessions.forget(session, now)
            return
        if session.inlet.is_held and session not in self._held:
            self._held.add(session)
            self._kernel.emit(HoldReading(session.connection, is_held=True))
        if received.has_header:
            self.departures.pump(session, now)

    def _flush(self, now: Now) -> None:
        touched, self._sessions.touched = self._sessions.touched, {}
        for session in touched:
            if session.output:
                self._sessions.write(session)
            if session in self._held and not self.arrivals.is_checking(session) and session.go_on(now):
                # The transport gets the acknowledgment before anything more is read, or sent from here.
                self._held.discard(session)
                self._kernel.emit(HoldReading(session.connection, is_held=False))
                self.departures.pump(session, now)


def _routing(directory: NodeDirectory, manager: QueueManager, settings: Settings) -> Routing:
    assert settings.transfer is not None
    known = None
    if directory.is_integrated:
        known = NodeRoutingDirectory(directory.core, is_routing_server=settings.transfer.is_routing_server)
    return Routing(known, manager.identity.identifier, settings.routes)
