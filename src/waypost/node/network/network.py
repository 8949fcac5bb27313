"""A queue manager on the network: connections and what they carry, MS-MQQB 3.1.4, 3.1.5.9, 3.1.5.10, 3.1.6 and 3.1.7.3.

The shell tells facts, each of which is one operation of the node; sessions turn bytes into packets, Arrivals puts what
they bring into queues, Connecting finds a session for every outgoing queue and Departures sends what is in it. What a
session has to write is taken at the end of the operation. An acknowledgment is only made when what it acknowledges is
durable, because sessions hear of that in `Node.when_durable`.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.outgoing import Transport
from waypost.core.positions import START
from waypost.core.queues import OutgoingQueue, Queue
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_IDENTIFIER_CONFLICTS, MAX_UNFINISHED_BYTES
from waypost.node.effects import Close, HoldReading, Notice, SendDatagram, Write
from waypost.node.network.ack_hosts import AckHosts
from waypost.node.network.acks import Acks
from waypost.node.network.admin_acks import AdminAcks
from waypost.node.network.arrivals import Arrivals
from waypost.node.network.connecting import Connecting
from waypost.node.network.departures import Departures
from waypost.node.network.dials import Dials
from waypost.node.network.hops import Hops, is_address
from waypost.node.network.judging import Judging
from waypost.node.network.loops import Loops
from waypost.node.network.refused_sources import RefusedSources
from waypost.node.routing_directory import NodeRoutingDirectory
from waypost.node.turns import Work
from waypost.peers import peer_of
from waypost.routing.routing import Routing
from waypost.store.port import Reader
from waypost.transfer.handshake import Initiator, PingUse
from waypost.transfer.inlet import ALL
from waypost.transfer.pings import Pings
from waypost.transfer.session import Received, Role, Session, SessionState, SessionTimer
from waypost.transfer.statistics import Statistics
from waypost.transfer.timers import Timers
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.property_values import OperatingSystem

if TYPE_CHECKING:
    from waypost.node.node import Node
    from waypost.node.recovery import Settings
    from waypost.transfer.links import Link


class Network:
    """See the module. Nothing that a remote host sends raises anything here."""

    __slots__ = (
        "_held",
        "_last_connection",
        "_node",
        "_open",
        "_sessions",
        "_timers",
        "_touched",
        "_unfinished",
        "acks",
        "admin_acks",
        "arrivals",
        "connecting",
        "delivers_unverified",
        "departures",
        "dials",
        "hops",
        "initiator",
        "judging",
        "loops",
        "pings",
        "refused_sources",
        "settings",
        "statistics",
        "twins",
    )

    def __init__(self, node: "Node", settings: "Settings", reader: Reader) -> None:
        assert settings.transfer is not None
        self._node: Final = node
        self.settings: Final = settings.transfer.for_its_role()
        self.statistics: Final = Statistics()
        self.initiator: Final = Initiator(node.manager.identity.identifier, OperatingSystem.MSMQ_OS_NTS)
        self._timers: Final[Timers[tuple[Session, SessionTimer]]] = Timers()
        self._sessions: dict[int, Session] = {}
        self._open: dict[Session, None] = {}
        self._last_connection = 0
        # The bytes of packets that have come in part, on all sessions.
        self._unfinished = 0
        # The addresses at which a queue manager with our identifier was seen, and when.
        self.twins: dict[str, int] = {}
        self.delivers_unverified: Final = settings.delivers_unverified
        self.refused_sources: Final = RefusedSources()
        # Sessions that may have something to write, in the order in which they were touched.
        self._touched: dict[Session, None] = {}
        # Sessions whose other side has sent more than the window.
        self._held: set[Session] = set()
        self.pings: Final[Pings[Link]] = Pings(self.initiator)
        self.acks: Final = Acks(node, self)
        self.departures: Final = Departures(node, self)
        self.dials: Final = Dials(node, self)
        self.loops: Final = Loops(node, self)
        self.hops: Final = Hops(self, _routing(node, settings))
        self.connecting: Final = Connecting(node, self, self.hops)
        self.judging: Final = Judging(node, self, settings)
        self.arrivals: Final = Arrivals(node, self, settings.relays)
        node.delivery.send_insecure_nacks = self.settings.send_insecure_nacks
        node.transactional_acks.ways = self.acks
        hosts = AckHosts(node, self.hops, self.settings.ack_hosts, reader)
        self.admin_acks: Final = AdminAcks(node, self, hosts)
        node.delivery.gate = self.admin_acks

    # What the shell tells.

    def start(self, now: Now) -> None:
        """MS-MQQB 3.1.4.1: every outgoing queue with messages gets a session. The others are of no use any more."""
        collection = self._node.manager.collection
        with self._node.operation(now):
            for queue in tuple(collection.outgoing.values()):
                first = None
                while first is None and len(queue.positions):
                    first = self._node.manager.positions.find(queue, queue.positions.next_any(START))
                if first is not None:
                    self.admin_acks.restore(queue, first)
                    self.departures.want(queue)
                elif queue.may_send:
                    collection.remove(queue)
            self.judging.start(now)

    def stop(self, now: Now) -> None:
        """MS-MQQB 3.1.4.2."""
        with self._node.operation(now):
            for session in tuple(self._sessions.values()):
                self.close(session, "the queue manager stops", now)
            self._node.destinations.write()

    def accept(self, address: str, now: Now) -> int | None:
        """MS-MQQB 3.1.5.10: somebody has connected. None if the connection is to be closed at once.

        Who cannot have a session is told so when it asks for one (MS-MQQB 2.2.1).
        """
        if self._node.failure is not None or not is_address(address):
            self.statistics.connections_refused += 1
            return None
        self.statistics.connections_accepted += 1
        self._heard(address, now)
        return self._session(Role.ACCEPTOR, address, now).connection

    def _heard(self, address: str, now: Now) -> None:
        if self.connecting.awaits(address):
            with self._node.operation(now):
                self.connecting.heard(address, now)

    def connected(self, connection: int, now: Now) -> None:
        """A Connect came to its end."""
        session = self._sessions.get(connection)
        if session is None:
            return
        with self._node.operation(now):
            session.connected(now)
            self.connecting.establishing(session, now)
            self.touch(session)

    def connect_failed(self, connection: int, reason: str, now: Now) -> None:
        session = self._sessions.get(connection)
        if session is None:
            return
        with self._node.operation(now):
            self.statistics.connections_failed += 1
            session.close(reason)
            self._forget(session, now)

    def data_received(self, connection: int, data: bytes, now: Now, most: int = ALL) -> Work:
        """Bytes have come. At most so many packets are looked at; those that are left wait for a call without data."""
        session = self._sessions.get(connection)
        if session is None:
            return Work(0, 0)
        with self._node.operation(now):
            self._unfinished -= session.inlet.unfinished_bytes
            received = session.data_received(data, now, most)
            self._unfinished += session.inlet.unfinished_bytes
            if self._unfinished > MAX_UNFINISHED_BYTES:
                self._make_room(session, now)
            self._take(session, received, now)
        return Work(received.packets, len(session.inlet))

    def _make_room(self, receiving: Session, now: Now) -> None:
        """Close the session with the most unfinished bytes, of the address with the most: it has used up the room."""
        held: Counter[str] = Counter()
        for session in self._sessions.values():
            held[peer_of(session.remote_qm_address)] += session.inlet.unfinished_bytes
        most = max(held, key=lambda peer: held[peer])
        largest = max(
            (session for session in self._sessions.values() if peer_of(session.remote_qm_address) == most),
            key=lambda session: session.inlet.unfinished_bytes,
        )
        reason = "there are too many unfinished packets, and most of them are of this address"
        if largest is receiving:
            # What has come on it is looked at before it goes.
            largest.close(reason)
        else:
            self.close(largest, reason, now)

    def connection_lost(self, connection: int, now: Now) -> None:
        """MS-MQQB 3.1.7.3."""
        session = self._sessions.get(connection)
        if session is None:
            return
        with self._node.operation(now):
            session.close("the connection is lost")
            self._forget(session, now)

    def writing_paused(self, connection: int, _now: Now) -> None:
        """The other side does not read as fast as we write."""
        session = self._sessions.get(connection)
        if session is not None:
            session.transport_paused = True

    def writing_resumed(self, connection: int, now: Now) -> None:
        session = self._sessions.get(connection)
        if session is None:
            return
        with self._node.operation(now):
            session.transport_paused = False
            self.departures.pump(session, now)

    def reading_paused(self, connection: int, now: Now) -> None:
        """The shell reads nothing more from the connection for now."""
        session = self._sessions.get(connection)
        if session is not None:
            session.inlet.set_unread(now, is_unread=True)

    def reading_resumed(self, connection: int, now: Now) -> None:
        session = self._sessions.get(connection)
        if session is not None:
            session.inlet.set_unread(now, is_unread=False)

    def datagram_received(self, data: bytes, address: str, port: int, now: Now) -> None:
        """Something has come to the ping port (MS-MQQB 3.1.7.7). What is no Ping Request is ignored."""
        answer = self.pings.answer(data, would_accept=self._accepts())
        if answer is not None:
            self.statistics.pings_received += 1
            if self._node.failure is None:
                self._heard(address, now)
            self._node.do(SendDatagram(answer, address, port, is_request=False))

    def ping_answered(self, data: bytes, now: Now) -> None:
        """Something has come to the port that a Ping Request was sent from (MS-MQQB 3.1.7.8)."""
        ended = self.pings.response(data)
        if ended is not None:
            with self._node.operation(now):
                link, answered = ended
                self.connecting.pinged(link, now, answered=answered)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None:
        """A Resolve came to its end; without an address the host is unknown."""
        with self._node.operation(now):
            if not self.judging.resolved(request, addresses, now):
                self.connecting.resolved(request, addresses, now)

    def addresses_changed(self, addresses: frozenset[str], now: Now) -> None:
        """The computer has other IP addresses now."""
        with self._node.operation(now):
            self._node.manager.set_addresses(addresses)

    # What the node asks for.

    def tick(self, now: Now) -> None:
        """Part of the node's operation of the same name."""
        for session, timer in self._timers.expired(now.monotonic):
            session.expired(timer, now)
            self.touch(session)
            if session.state is SessionState.CLOSED:
                self._forget(session, now)
        for link in self.pings.expired(now):
            self.connecting.pinged(link, now, answered=False)
        self.connecting.tick(now)
        self.departures.tick(now)
        self.arrivals.tick(now)

    def next_deadline(self) -> float | None:
        deadlines = (
            self._timers.next_deadline(),
            self.pings.next_deadline(),
            self.connecting.next_deadline(),
            self.departures.next_deadline(),
            self.arrivals.next_deadline(),
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def settle(self, now: Now) -> bool:
        """The end of an operation: send what has become ready, and write. Whether anything came of it."""
        if self.departures.settle():
            return True
        if self._touched:
            self._flush(now)
        return bool(self._touched)

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
        if isinstance(queue, OutgoingQueue):
            self.departures.deleted(queue)
            self.admin_acks.forget(queue)
        else:
            self.arrivals.forget(queue)

    # What the parts ask for.

    def connect(self, address: str, expected_guid: bytes, now: Now, *, was_pinged: bool) -> Session:
        """A session that is being opened, whose connection the caller asks for."""
        ping = PingUse.SENT if was_pinged else PingUse.NOT_SENT
        return self._session(Role.INITIATOR, address, now, expected_guid, ping)

    def touch(self, session: Session) -> None:
        self._touched[session] = None

    def close(self, session: Session, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.5.9."""
        session.close(reason)
        self._forget(session, now)

    @property
    def open_sessions(self) -> list[Session]:
        return list(self._open)

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    def notice(self, event: str, **facts: object) -> None:
        self._node.do(Notice(event, facts))

    def _session(
        self,
        role: Role,
        address: str,
        now: Now,
        expected_guid: bytes = NULL_GUID,
        ping: PingUse = PingUse.NOT_SENT,
    ) -> Session:
        self._last_connection += 1
        session = Session(
            role,
            self._last_connection,
            address,
            identity=self.initiator,
            settings=self.settings,
            timers=self._timers,
            statistics=self.statistics,
            now=now,
            expected_guid=expected_guid,
            ping=ping,
            accept_policy=self._refusal,
        )
        self._sessions[session.connection] = session
        return session

    def _take(self, session: Session, received: Received, now: Now) -> None:
        if session.just_granted:
            session.just_granted = False
            self.connecting.granted(session, now)
        if session.just_opened:
            session.just_opened = False
            self._open[session] = None
            self.notice("session opened", peer=session.remote_qm_address, guid=guid_text(session.remote_qm_guid))
            self.judging.opened(session, now)
            self.connecting.opened(session, now)
        if received.acknowledged:
            self.departures.acknowledged(received.acknowledged)
        if received.messages:
            self.arrivals.take(session, received.messages, now)
        self.touch(session)
        if session.state is SessionState.CLOSED:
            self._forget(session, now)
            return
        if session.inlet.is_held and session not in self._held:
            self._held.add(session)
            self._node.do(HoldReading(session.connection, is_held=True))
        self.departures.pump(session, now)

    def _forget(self, session: Session, now: Now) -> None:
        """A session is closed: its connection goes, and its links look for another."""
        if self._sessions.pop(session.connection, None) is None:
            return
        self._unfinished -= session.inlet.unfinished_bytes
        self._write(session)
        self._touched.pop(session, None)
        self.judging.closed(session)
        self._held.discard(session)
        self.dials.ended(session)
        self.connecting.closing(session)
        self._node.do(Close(session.connection))
        event = "session closed" if session in self._open else "session failed"
        self._open.pop(session, None)
        self.notice(event, peer=session.remote_qm_address, reason=session.error)
        if session.remote_qm_guid == self.initiator.identifier:
            hint = "another computer has the identifier of this queue manager"
            self.notice("identifier conflict", peer=session.remote_qm_address, hint=hint)
            self.twins[session.remote_qm_address] = int(now.wall)
            if len(self.twins) > MAX_IDENTIFIER_CONFLICTS:
                del self.twins[next(iter(self.twins))]
        self.connecting.closed(session, now)

    def _flush(self, now: Now) -> None:
        touched, self._touched = self._touched, {}
        for session in touched:
            self._write(session)
            if session in self._held and session.go_on(now):
                # The acknowledgment is with the transport before anything more is read, or sent from here.
                self._held.discard(session)
                self._node.do(HoldReading(session.connection, is_held=False))
                self.departures.pump(session, now)

    def _write(self, session: Session) -> None:
        data = session.take_output()
        if data:
            self._node.do(Write(session.connection, data))

    def _accepts(self) -> bool:
        return self._node.manager.accepts_transfer(Transport.BINARY)

    def _refusal(self, _request: EstablishConnection) -> str | None:
        """Why a session is not granted, or None (MS-MQQB 2.2.1, 3.1.5.3.1)."""
        if len(self._sessions) > self.settings.max_sessions and self._inbound() >= self.settings.max_sessions:
            return "there are as many sessions as there may be"
        return None if self._accepts() else "no messages are accepted now"

    def _inbound(self) -> int:
        """How many sessions others were granted."""
        return sum(
            session.role is Role.ACCEPTOR and session.state is not SessionState.WAITING_EC_MSG
            for session in self._sessions.values()
        )


def _routing(node: "Node", settings: "Settings") -> Routing:
    assert settings.transfer is not None
    directory = None
    if node.directory.is_integrated:
        is_routing_server = settings.transfer.is_routing_server
        directory = NodeRoutingDirectory(node.directory.core, is_routing_server=is_routing_server)
    return Routing(directory, node.manager.identity.identifier, settings.routes)
