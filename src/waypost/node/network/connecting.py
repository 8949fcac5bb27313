"""How every outgoing queue comes to a session and loses it: MS-MQQB 3.1.5.2, 3.1.5.4.2, 3.1.5.9 and 3.1.6.1.

What is told to an operator on the way, the State and the ConnectionHistory of the queue, is written here.
"""

from collections.abc import Container, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.outgoing import Transport
from waypost.guid import NULL_GUID
from waypost.node.effects import Connect, Resolve, SendDatagram
from waypost.node.network.connection_history import hop_text, record, record_failure
from waypost.node.transactional_acks import ack_queue
from waypost.routing.routing import Hop, Routing
from waypost.transfer.links import Link, LinkEvent, LinkState, NextHop
from waypost.transfer.session import Role, Session
from waypost.transfer.timers import Timers
from waypost.wire.format_names import Destination, DirectFormatName, FormatName
from waypost.wire.management import ConnectionStatus

if TYPE_CHECKING:
    from waypost.core.queues import OutgoingQueue
    from waypost.node.network.network import Network
    from waypost.node.node import Node

_Status = ConnectionStatus


class Connecting:
    """The links of one queue manager on their way to sessions."""

    __slots__ = (
        "_established",
        "_last_request",
        "_links",
        "_network",
        "_node",
        "_opening",
        "_requests",
        "_timers",
        "routing",
    )

    def __init__(self, node: "Node", network: "Network", routing: Routing) -> None:
        self._node: Final = node
        self._network: Final = network
        self.routing: Final = routing
        self._timers: Final[Timers[Link]] = Timers()
        # The link for which a session is being opened, and that for which an address is asked.
        self._opening: dict[Session, Link] = {}
        # Of those, the sessions whose connection is there.
        self._established: set[Session] = set()
        # The links whose messages each session carries.
        self._links: dict[Session, dict[Link, None]] = {}
        self._requests: dict[int, Link] = {}
        self._last_request = 0

    def tick(self, now: Now) -> None:
        """MS-MQQB 3.1.6.1."""
        for link in self._timers.expired(now.monotonic):
            self._retry(link, now)

    def next_deadline(self) -> float | None:
        return self._timers.next_deadline()

    def links_of(self, session: Session) -> Iterable[Link]:
        return self._links.get(session, ())

    def leads_to(self, name: FormatName) -> bool:
        """Whether there is a way to a queue of another computer, as far as the directory tells."""
        destination = self.routing.destination(name)
        return destination is not None and any(hop.host_name for hop in self.routing.next_hops(destination))

    def is_connected_with(self, guid: bytes) -> bool:
        return self._session_with(guid, _EITHER) is not None

    def want(self, link: Link, now: Now) -> None:
        """There is something to send, and no session for it (MS-MQQB 3.1.7.12, readings MQQB 3.9)."""
        if link.state is LinkState.IDLE and len(link.queue.positions) and self._may_connect(link):
            link.is_retrying = False
            self._establish(link, now)

    def resume(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.7.14: the queue goes on."""
        if link.session is not None and link.is_open:
            link.session.resume(now)
            self._node.manager.outgoing.connected(link.queue, hop_text(link.session.remote_qm_address))
            self._network.touch(link.session)
        elif link.state is not LinkState.IDLE:
            self._node.manager.outgoing.connection_attempt_begun(link.queue)
        else:
            self.want(link, now)

    def pause(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.7.13."""
        self._timers.stop(link)
        link.next_retry = None
        if link.session is not None and link.is_open:
            link.session.pause(now)
            self._network.touch(link.session)
        elif link.state is LinkState.WAITING_RECONNECT:
            link.go(LinkEvent.GIVEN_UP)

    def forget(self, link: Link) -> None:
        """The queue is deleted."""
        self._timers.stop(link)
        link.go(LinkEvent.GIVEN_UP)
        if link.session is not None:
            self._links.get(link.session, {}).pop(link, None)
            self._opening.pop(link.session, None)

    def ask(self, host: str) -> int:
        """Have the name of a host resolved for somebody else, who hears of it under this number."""
        self._last_request += 1
        self._node.do(Resolve(self._last_request, host))
        return self._last_request

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None:
        link = self._requests.pop(request, None)
        if link is None or link.state is not LinkState.RESOLVING:
            return
        hop = link.unresolved.pop(0)
        link.next_hops += hop.at(addresses)
        self._network.judging.found(hop.host_name, addresses, now)
        self._resolve(link, now)

    def pinged(self, link: Link, now: Now, *, answered: bool) -> None:
        """MS-MQQB 3.1.5.2.2."""
        if link.state is not LinkState.PINGING:
            return
        if answered:
            link.go(LinkEvent.HOPS_FOUND)
            self._connect(link, now, was_pinged=True)
        else:
            self._fail(link, _Status.PING_FAILURE, "the host does not answer a ping, or would refuse a session", now)

    def establishing(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.2.3: the EstablishConnection Packet is sent."""
        link = self._opening.get(session)
        if link is not None:
            self._established.add(session)
            record(link, _Status.IN_PROGRESS, now)

    def granted(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.3.2: the other side has answered to the EstablishConnection Packet."""
        link = self._opening.get(session)
        if link is not None:
            record(link, _Status.ESTABLISH_PACKET_RECEIVED, now)

    def opened(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.4.2."""
        link = self._opening.pop(session, None)
        self._established.discard(session)
        if link is not None:
            self._attach(link, session, now)
        elif session.role is Role.INITIATOR:
            self._network.close(session, "nothing is to be sent on it", now)
            return
        self._attach_acks(session, now)

    def _attach_acks(self, session: Session, now: Now) -> None:
        """Acknowledgments that wait for this queue manager need no session of their own (MS-MQQB 1.3.5.1).

        Those for its address leave a session with another address: anybody can say that it has this GUID.
        """
        for address in ("", session.remote_qm_address):
            name = ack_queue(session.remote_qm_guid, address)
            queue = self._node.manager.collection.outgoing.get(name)
            link: Link | None = None if queue is None else queue.link
            if link is None or not self._may_connect(link):
                continue
            if link.is_open and link.session is not None:
                if not address or link.session.remote_qm_address == address:
                    continue
                self._leave(link, link.session, now)
            pending, link.session = link.session, None
            if pending is not None:
                self._opening.pop(pending, None)
                self._network.close(pending, "another session has opened", now)
            self._attach(link, session, now)

    def closing(self, session: Session) -> None:
        """MS-MQQB 3.1.5.9: the connection is about to be closed."""
        for link in self._links.get(session, ()):
            self._node.manager.outgoing.disconnecting(link.queue)

    def closed(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.9: the session is over, and nobody has asked it to write any more."""
        link = self._opening.pop(session, None)
        if link is not None and link.session is session:
            status = self._status_of(session)
            self._fail(link, status, session.error or "the connection is closed", now)
        self._established.discard(session)
        for link in self._links.pop(session, ()):
            self._detach(link, session, now)
        self._network.departures.session_closed(session)

    def _may_connect(self, link: Link) -> bool:
        manager = self._node.manager
        return link.queue.may_send and manager.connection_active and manager.accepts_transfer(Transport.BINARY)

    def _establish(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.5.2.1."""
        link.go(LinkEvent.WANTED)
        link.next_hops = []
        link.next_hop_indexer = 0
        queue = link.queue
        self._node.manager.outgoing.connection_attempt_begun(queue)
        destination = self.routing.destination(queue.destination_format_name)
        if destination is not None:
            # A queue manager that has come here may get its acknowledgments; what is for others goes where it belongs.
            guid, roles = (destination.queue_manager, _OPENED_HERE) if link.peer is None else (link.peer, _EITHER)
            session = self._session_with(guid, roles, destination.host)
            if session is not None:
                self._attach(link, session, now)
                return
        link.unresolved = [] if destination is None else self._hops(link, destination)
        if not link.unresolved:
            # MS-MQQB 3.1.5.2.1: the directory does not tell where the queue is.
            self._node.manager.outgoing.address_not_resolved(queue)
            self._fail(link, _Status.NO_ROUTING_DATA, "the directory does not tell a way to the queue", now)
            return
        self._resolve(link, now)

    def _hops(self, link: Link, destination: Destination) -> list[Hop]:
        """MS-MQQB 3.1.5.2.1. Whoever answers at the address of an acknowledgment has to be the one it is for."""
        if link.peer is not None and destination.queue_manager == NULL_GUID:
            return [Hop(link.peer, destination.host)]
        return [hop for hop in self.routing.next_hops(destination) if hop.host_name]

    def _resolve(self, link: Link, now: Now) -> None:
        """One host after the other; readings MQQB 3.11: that of the hop."""
        while link.unresolved:
            hop: Hop = link.unresolved[0]
            if not is_address(hop.host_name):
                self._requests[self.ask(hop.host_name)] = link
                return
            link.next_hops += hop.at((hop.host_name,))
            link.unresolved.pop(0)
        if not link.next_hops:
            self._node.manager.outgoing.address_not_resolved(link.queue)
            self._fail(link, _Status.DNS_FAILURE, "no address is known for the name of the host", now)
            return
        hops = tuple(dict.fromkeys(hop_text(hop.address) for hop in link.next_hops))
        self._node.manager.outgoing.address_resolved(link.queue, hops)
        link.go(LinkEvent.HOPS_FOUND)
        self._reach(link, now, may_ping=self._network.settings.ping and not link.is_retrying)

    def _reach(self, link: Link, now: Now, *, may_ping: bool) -> None:
        """Go to the host of the next hop: on a session that is there, or on a new one."""
        hop = link.next_hop
        assert hop is not None
        session = self._session_with(hop.qm_guid, _OPENED_HERE) or self._session_to(hop)
        if session is not None:
            self._attach(link, session, now)
        elif may_ping:
            link.go(LinkEvent.PING_SENT)
            data = self._network.pings.request(link, now)
            self._node.do(SendDatagram(data, hop.address, self._network.settings.ping_port, is_request=True))
        else:
            self._connect(link, now, was_pinged=False)

    def _connect(self, link: Link, now: Now, *, was_pinged: bool) -> None:
        hop = link.next_hop
        assert hop is not None
        session = self._network.connect(hop.address, hop.qm_guid, now, was_pinged=was_pinged)
        session.is_direct = isinstance(link.queue.destination_format_name, DirectFormatName)
        link.session = session
        self._opening[session] = link
        self._network.dials.begun(link, session)
        self._node.manager.outgoing.connection_attempt_begun(link.queue)
        self._node.do(Connect(session.connection, hop.address, self._network.settings.port))

    def _attach(self, link: Link, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.4.2, 1.3.5.1: from now on the session carries the messages of the queue."""
        self._timers.stop(link)
        link.next_retry = None
        link.last_error = ""
        link.session = session
        link.outbox.start_again()
        link.failures = 0
        link.go(LinkEvent.ATTACHED)
        self._links.setdefault(session, {})[link] = None
        record(link, _Status.READY, now)
        self._node.manager.outgoing.connected(link.queue, hop_text(session.remote_qm_address))
        self._network.departures.attached(link)

    def _detach(self, link: Link, session: Session, now: Now) -> None:
        if link.session is not session:
            return
        self._node.manager.outgoing.disconnected(link.queue)
        link.leave_session()
        self._network.departures.detached(link, session, now)
        link.last_error = session.error or ""
        if session.role is Role.ACCEPTOR:
            # It has no address of its own to try next.
            link.next_hops = []
        if session.wants_recycling:
            # readings MQQB 3.27: the next session follows at once.
            link.go(LinkEvent.GIVEN_UP)
            self._network.departures.want(link.queue)
            return
        self._wait(link, now)

    def _leave(self, link: Link, session: Session, now: Now) -> None:
        """The messages of the link go over another session from now on."""
        self._links.get(session, {}).pop(link, None)
        link.leave_session()
        self._network.departures.detached(link, session, now)

    def _fail(self, link: Link, status: ConnectionStatus, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.5.2."""
        link.session = None
        link.last_error = reason
        record_failure(link, status, now)
        address = link.next_hop.address if link.next_hop else ""
        self._network.notice("connection failed", queue=str(link.queue), address=address, reason=reason)
        if link.state is not LinkState.RESOLVING:
            self._node.manager.outgoing.disconnected(link.queue)
        self._wait(link, now)

    def _wait(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.5.9: who has messages left tries again."""
        if not len(link.queue.positions) or not link.queue.may_send:
            self._rest(link)
            return
        settings = self._network.settings
        link.go(LinkEvent.FAILED)
        delay = settings.retry_connect_s + settings.round_trip_delay_ms / 1000
        if link.is_for_acks:
            # Others can make us want to connect to them, so that becomes rarer (MS-MQQB 3.1.2.3 allows it).
            delay *= min(1 << link.failures, _MAX_PATIENCE)
            link.failures = min(link.failures + 1, _MAX_PATIENCE)
        link.next_retry = now.monotonic + delay
        self._timers.start(link, link.next_retry)

    def _rest(self, link: Link) -> None:
        """There is nothing to send, or it may not be sent. A queue that nobody uses any more goes."""
        link.go(LinkEvent.GIVEN_UP)
        queue: OutgoingQueue = link.queue
        if not len(queue.positions) and not queue.descriptors and queue.may_send and not queue.is_deleted:
            self._node.manager.collection.remove(queue)

    def _retry(self, link: Link, now: Now) -> None:
        link.next_retry = None
        if link.state is not LinkState.WAITING_RECONNECT:
            return
        if not len(link.queue.positions) or not self._may_connect(link):
            self._rest(link)
            return
        link.is_retrying = True
        link.next_hop_indexer += 1
        if link.next_hop is None:
            self._establish(link, now)
            return
        link.go(LinkEvent.NEXT_HOP)
        self._reach(link, now, may_ping=False)

    def _status_of(self, session: Session) -> ConnectionStatus:
        """How far a session came that never opened."""
        if session.was_refused:
            return _Status.CONNECTION_REFUSED
        is_connected = session in self._established
        return _Status.NOT_READY_FAILURE if is_connected else _Status.CONNECT_SOCKET_FAILURE

    def _session_with(self, guid: bytes, roles: Container[Role], address: str = "") -> Session | None:
        """MS-MQQB 1.3.5.1: a session that is open with this queue manager, if possible at this address."""
        if guid == NULL_GUID:
            return None
        sessions = [each for each in self._network.open_sessions if each.remote_qm_guid == guid and each.role in roles]
        if roles is _OPENED_HERE:
            sessions = [each for each in sessions if self._network.dials.is_own(each)]
        return _first(each for each in sessions if each.remote_qm_address == address) or _first(sessions)

    def _session_to(self, hop: NextHop) -> Session | None:
        """A session that was opened to this address: it is the host that a direct name means."""
        if hop.qm_guid != NULL_GUID:
            return None
        return _first(
            session
            for session in self._network.open_sessions
            if session.role is Role.INITIATOR and session.remote_qm_address == hop.address
        )


_EITHER: Final = (Role.INITIATOR, Role.ACCEPTOR)
_OPENED_HERE: Final = (Role.INITIATOR,)
# How many times as long as usual a link for acknowledgments waits at most.
_MAX_PATIENCE: Final = 12


def _first(sessions: Iterable[Session]) -> Session | None:
    return next((session for session in sessions if not session.wants_recycling), None)


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
