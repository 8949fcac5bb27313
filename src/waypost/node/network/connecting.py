"""Connect every outgoing queue to a session, and handle its end: MS-MQQB 3.1.5.2, 3.1.5.4.2, 3.1.5.9 and 3.1.6.1.

The State and the ConnectionHistory of the queue, which an operator sees, are written here.
"""

from collections.abc import Iterable
from typing import Final

from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.node.effects import Connect, DialReason, NoteAnswer, SendDatagram
from waypost.node.kernel import Kernel
from waypost.node.network.ack_hosts import AckHosts
from waypost.node.network.ack_judging import AckJudging
from waypost.node.network.connection_history import hop_text, record, record_failure
from waypost.node.network.departures import Departures
from waypost.node.network.dials import Dials
from waypost.node.network.hop_finder import HopFinder
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.network.outgoing_links import OutgoingLinks, queue_of
from waypost.node.network.patience import OFTEN, delay_after_failure, is_for_strangers
from waypost.node.network.sessions import Sessions
from waypost.node.network.waiting_links import WaitingLinks
from waypost.node.protection import Protection
from waypost.transfer.links import Link, LinkEvent, LinkState
from waypost.transfer.pings import Pings
from waypost.transfer.session import Role, Session
from waypost.wire.format_names import DirectFormatName
from waypost.wire.ip_addresses import is_address
from waypost.wire.management import ConnectionStatus

_Status = ConnectionStatus


class Connecting:
    """Finds sessions for the links of one queue manager."""

    __slots__ = (
        "_ack_hosts",
        "_ack_judging",
        "_carried",
        "_departures",
        "_dials",
        "_established",
        "_finder",
        "_hosts",
        "_kernel",
        "_links",
        "_manager",
        "_opening",
        "_pings",
        "_protection",
        "_requests",
        "_sessions",
        "_settings",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sessions: Sessions,
        finder: HopFinder,
        *,
        links: OutgoingLinks,
        departures: Departures,
        dials: Dials,
        ack_judging: AckJudging,
        hosts: KnownHosts,
        ack_hosts: AckHosts,
        pings: Pings[Link],
        protection: Protection,
    ) -> None:
        self._protection: Final = protection
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sessions: Final = sessions
        self._settings: Final = sessions.settings
        self._finder: Final = finder
        self._links: Final = links
        self._departures: Final = departures
        self._dials: Final = dials
        self._ack_judging: Final = ack_judging
        self._hosts: Final = hosts
        self._ack_hosts: Final = ack_hosts
        self._pings: Final = pings
        self._timers: Final = kernel.timers
        # The link for which a session is being opened, and the one for which an address is resolved.
        self._opening: dict[Session, Link] = {}
        # The sessions among these that are connected.
        self._established: set[Session] = set()
        # The links with messages that each session carries.
        self._carried: dict[Session, dict[Link, None]] = {}
        self._requests: dict[int, Link] = {}
        # The links without a session that want one, by the hosts of their last attempt.
        self._waiting: Final = WaitingLinks()

    def links_of(self, session: Session) -> Iterable[Link]:
        return self._carried.get(session, ())

    def awaits(self, address: str) -> bool:
        """Whether a link waits for the host at this address."""
        return bool(self._waiting.at(address))

    def heard(self, host: str | bytes, now: Now, *, is_proven: bool = True) -> None:
        """Handle a sign of life from an address or a queue manager: links that wait for it try again at once.

        Acknowledgments do so when a session is open, which may carry them. `is_proven`: the host is reachable, and a
        long attempt to connect begins again. A GUID and the sender of a datagram may be forged.
        """
        for link in self._waiting.at(host):
            if link.is_for_acks and isinstance(host, str):
                continue
            if now.monotonic - max(link.heard, link.dialed) >= _PROBE_SECONDS:
                link.heard = now.monotonic
                self._probe(link, now, is_there=is_proven and isinstance(host, str))

    def pointed_to(self, guid: bytes, now: Now) -> None:
        """Handle an operator's hint where a queue manager may be: links that wait for it try again at once."""
        for link in self._waiting.at(guid):
            self._probe(link, now, is_there=False)

    def _probe(self, link: Link, now: Now, *, is_there: bool) -> None:
        """`is_there`: the address itself was heard, which ends an attempt that is under way."""
        if not len(link.queue.positions) or not self._may_connect(link):
            return
        pending = link.session
        is_pending = link.state is LinkState.CONNECTING and pending is not None and pending not in self._established
        if is_there and is_pending and pending is not None:
            # A connection attempt that began while the host was away may take long.
            link.session = None
            self._opening.pop(pending, None)
            self._sessions.close(pending, "the host answered again", now)
            link.go(LinkEvent.FAILED)
        elif link.state is not LinkState.WAITING_RECONNECT:
            return
        self._timers.stop((Connecting, link))
        link.next_retry = None
        link.failures = 0
        link.is_retrying = True
        self._establish(link, now)

    def want(self, link: Link, now: Now) -> None:
        """Find a session for a link that has something to send (MS-MQQB 3.1.7.12, readings MQQB 3.9)."""
        if link.state is LinkState.IDLE and len(link.queue.positions) and self._may_connect(link):
            link.is_retrying = False
            self._establish(link, now)
        elif link.state is LinkState.WAITING_RECONNECT and link.next_retry is None and not is_for_strangers(link):
            # A program here has sent to a queue that was given up when only others had wanted it.
            self._probe(link, now, is_there=False)

    def resume(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.7.14: the queue resumes."""
        if link.session is not None and link.is_open:
            link.session.resume(now)
            self._manager.outgoing.connected(link.queue, hop_text(link.session.remote_qm_address))
            self._sessions.touched[link.session] = None
        elif link.state is not LinkState.IDLE:
            self._manager.outgoing.connection_attempt_begun(link.queue)
        else:
            self.want(link, now)

    def pause(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.7.13."""
        self._timers.stop((Connecting, link))
        link.next_retry = None
        if link.session is not None and link.is_open:
            link.session.pause(now)
            self._sessions.touched[link.session] = None
        elif link.state is LinkState.WAITING_RECONNECT:
            link.go(LinkEvent.GIVEN_UP)

    def forget(self, link: Link) -> None:
        """Forget the link of a deleted queue."""
        self._timers.stop((Connecting, link))
        self._waiting.remove(link)
        link.go(LinkEvent.GIVEN_UP)
        if link.session is not None:
            self._carried.get(link.session, {}).pop(link, None)
            self._opening.pop(link.session, None)

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None:
        link = self._requests.pop(request, None)
        if link is None or link.state is not LinkState.RESOLVING:
            return
        hop = link.unresolved.pop(0)
        link.next_hops += hop.at(addresses)
        self._ack_judging.found(hop.host_name, addresses, now)
        self._resolve(link, now)

    def pinged(self, link: Link, now: Now, *, answered: bool) -> None:
        """MS-MQQB 3.1.5.2.2."""
        if link.state is not LinkState.PINGING:
            return
        if answered:
            link.go(LinkEvent.HOPS_FOUND)
            self._connect(link, now, was_pinged=True)
        else:
            self._fail(link, _Status.PING_FAILURE, "the host does not answer the ping, or refuses sessions", now)

    def establishing(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.2.3: the EstablishConnection Packet is sent."""
        link = self._opening.get(session)
        if link is not None:
            self._established.add(session)
            record(link, _Status.IN_PROGRESS, now)

    def granted(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.3.2: the other side has answered the EstablishConnection Packet."""
        link = self._opening.get(session)
        if link is not None:
            record(link, _Status.ESTABLISH_PACKET_RECEIVED, now)

    def opened(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.4.2."""
        link = self._opening.pop(session, None)
        self._established.discard(session)
        if link is not None:
            if link.next_hop is not None and not is_for_strangers(link):
                self._ack_hosts.met(link.next_hop.host_name, link.next_hop.address, now)
            self._attach(link, session, now)
        elif session.role is Role.INITIATOR:
            self._sessions.close(session, "no messages are left to send", now)
            return
        self._attach_acks(session, now)
        for silent in self._finder.superseded_by(session, now):
            self._sessions.close(silent, "the host answered on another session", now)
        for host in (session.remote_qm_guid, session.remote_qm_address):
            self.heard(host, now)

    def _attach_acks(self, session: Session, now: Now) -> None:
        """Give a session the acknowledgments that wait for its queue manager (MS-MQQB 1.3.5.1).

        It also gets those that can only go back to the queue manager that brought the messages. Anybody can claim this
        GUID: a session with another address gets them when no host answers at the right one (`_fail`), and they
        leave it when a session with the right one opens.
        """
        for link in self._links.for_acks_of(session.remote_qm_guid):
            if not self._may_connect(link):
                continue
            if link.peer != session.remote_qm_guid and not self._finder.goes_back(link, now):
                continue
            if link.is_open and link.session is not None:
                if not self._finder.is_near(link, session) or self._finder.is_near(link, link.session):
                    continue
                self._leave(link, link.session, now)
            elif not self._finder.is_near(link, session) and self._finder.has_hops(link, now):
                continue
            pending, link.session = link.session, None
            if pending is not None:
                self._opening.pop(pending, None)
                self._sessions.close(pending, "another session has opened", now)
            self._attach(link, session, now)

    def closing(self, session: Session) -> None:
        """MS-MQQB 3.1.5.9: the connection is about to be closed."""
        for link in self._carried.get(session, ()):
            self._manager.outgoing.disconnecting(link.queue)

    def closed(self, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.9: the session has ended and writes nothing more."""
        link = self._opening.pop(session, None)
        if link is not None and link.session is session:
            status = self._status_of(session)
            self._fail(link, status, session.error or "the connection is closed", now)
        self._established.discard(session)
        for link in self._carried.pop(session, ()):
            self._detach(link, session, now)
        self._departures.session_closed(session)

    def _may_connect(self, link: Link) -> bool:
        return link.queue.may_send and self._manager.connection_active and self._sessions.accepts

    def _establish(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.5.2.1."""
        link.go(LinkEvent.WANTED)
        link.next_hops = []
        link.next_hop_indexer = 0
        queue = link.queue
        self._manager.outgoing.connection_attempt_begun(queue)
        destination = self._finder.routing.destination(queue.destination_format_name)
        session = None if destination is None else self._finder.session_for(link, destination, now)
        if session is not None:
            self._attach(link, session, now)
            return
        link.unresolved = [] if destination is None else self._finder.hops(link, destination, now)
        if not link.unresolved:
            # MS-MQQB 3.1.5.2.1: the directory does not know where the queue is.
            link.failures = max(link.failures, OFTEN)
            self._manager.outgoing.address_not_resolved(queue)
            self._fail(link, _Status.NO_ROUTING_DATA, "the directory has no route to the queue", now)
            return
        self._resolve(link, now)

    def _resolve(self, link: Link, now: Now) -> None:
        """Resolve one host after the other; readings MQQB 3.11: that of the hop."""
        while link.unresolved:
            hop = link.unresolved[0]
            if not is_address(hop.host_name):
                self._requests[self._hosts.ask(hop.host_name)] = link
                return
            link.next_hops += hop.at((hop.host_name,))
            link.unresolved.pop(0)
        if not link.next_hops:
            self._manager.outgoing.address_not_resolved(link.queue)
            self._fail(link, _Status.DNS_FAILURE, "the host name does not resolve to an address", now)
            return
        hops = tuple(dict.fromkeys(hop_text(hop.address) for hop in link.next_hops))
        self._manager.outgoing.address_resolved(link.queue, hops)
        link.go(LinkEvent.HOPS_FOUND)
        self._reach(link, now, may_ping=self._settings.ping and not link.is_retrying)

    def _reach(self, link: Link, now: Now, *, may_ping: bool) -> None:
        """Go to the host of the next hop: on an open session, or on a new one."""
        hop = link.next_hop
        assert hop is not None
        session = self._finder.session_of(link, hop)
        if session is not None:
            self._attach(link, session, now)
        elif may_ping:
            link.go(LinkEvent.PING_SENT)
            data = self._pings.request(link, now)
            self._kernel.emit(SendDatagram(data, hop.address, self._settings.ping_port, is_request=True))
        else:
            self._connect(link, now, was_pinged=False)

    def _connect(self, link: Link, now: Now, *, was_pinged: bool) -> None:
        hop = link.next_hop
        assert hop is not None
        session = self._sessions.connect(hop.address, hop.qm_guid, now, was_pinged=was_pinged)
        session.is_direct = isinstance(link.queue.destination_format_name, DirectFormatName)
        link.session = session
        link.dialed = now.monotonic
        self._opening[session] = link
        self._dials.begun(link, session)
        self._waiting.add(link)
        reason = DialReason.OWN
        if is_for_strangers(link):
            reason = DialReason.OWED if link.is_for_acks else DialReason.NAMED
            self._sessions.statistics.dials_for_strangers += 1
        else:
            self._finder.dialled(hop)
        self._manager.outgoing.connection_attempt_begun(link.queue)
        self._kernel.emit(Connect(session.connection, hop.address, self._settings.port, reason))

    def _attach(self, link: Link, session: Session, now: Now) -> None:
        """MS-MQQB 3.1.5.4.2, 1.3.5.1: from now on the session carries the messages of the queue."""
        self._timers.stop((Connecting, link))
        self._waiting.remove(link)
        link.next_retry = None
        if link.last_error:
            self._kernel.notice("connection works", queue=str(link.queue), address=session.remote_qm_address)
        link.last_error = ""
        link.session = session
        link.last_host = session.remote_qm_address, session.remote_qm_guid
        link.outbox.start_again()
        link.failures = 0
        if session.role is Role.INITIATOR or (link.is_for_acks and self._finder.is_near(link, session)):
            link.unreached = None
        link.go(LinkEvent.ATTACHED)
        self._carried.setdefault(session, {})[link] = None
        record(link, _Status.READY, now)
        self._note_answer(link, session)
        self._manager.outgoing.connected(link.queue, hop_text(session.remote_qm_address))
        self._departures.attached(link)

    def _note_answer(self, link: Link, session: Session) -> None:
        """Note which queue manager answers at the host of a direct name, for pinned keys."""
        name, hop = link.queue.destination_format_name, link.next_hop
        if (
            session.role is not Role.INITIATOR
            or hop is None
            or not isinstance(name, DirectFormatName)
            or hop.host_name.lower() != name.address.lower()
        ):
            return
        if self._protection.answered(name, session.remote_qm_guid):
            note = NoteAnswer(name.address.lower(), session.remote_qm_guid)
            self._kernel.ask_keys(note, lambda _result, _now: None)

    def _detach(self, link: Link, session: Session, now: Now) -> None:
        if link.session is not session:
            return
        self._manager.outgoing.disconnected(link.queue)
        link.leave_session()
        self._departures.detached(link, session, now)
        link.last_error = session.error or ""
        if session.role is Role.ACCEPTOR:
            # It has no further address to try.
            link.next_hops = []
        if session.wants_recycling:
            # readings MQQB 3.27: the next session follows at once.
            link.go(LinkEvent.GIVEN_UP)
            self._departures.want(link.queue)
            return
        self._wait(link, now)

    def _leave(self, link: Link, session: Session, now: Now) -> None:
        """Let another session carry the messages of the link from now on."""
        self._carried.get(session, {}).pop(link, None)
        link.leave_session()
        self._departures.detached(link, session, now)

    def _fail(self, link: Link, status: ConnectionStatus, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.5.2."""
        link.session = None
        link.last_error = reason
        link.waits_from = link.dialed if status is _Status.CONNECT_SOCKET_FAILURE else None
        record_failure(link, status, now)
        address = link.next_hop.address if link.next_hop else ""
        self._kernel.notice("connection failed", queue=str(link.queue), address=address, reason=reason)
        if link.state is not LinkState.RESOLVING:
            self._manager.outgoing.disconnected(link.queue)
        if link.unreached is None:
            link.unreached = now.monotonic
        session = None
        if link.is_for_acks and self._may_connect(link):
            session = self._finder.session_elsewhere(link, now)
        if session is None:
            self._wait(link, now)
        else:
            self._attach(link, session, now)

    def _wait(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.5.9: try again later if messages are left."""
        if not len(link.queue.positions) or not link.queue.may_send:
            self._rest(link)
            return
        # A slow failed attempt was a part of the time between two.
        began, link.waits_from = now.monotonic if link.waits_from is None else link.waits_from, None
        link.go(LinkEvent.FAILED)
        self._waiting.add(link)
        delay = delay_after_failure(link, self._settings)
        if delay is None:
            self._timers.stop((Connecting, link))
            return
        link.next_retry = max(began + delay, now.monotonic)
        self._timers.start((Connecting, link), link.next_retry, lambda now: self._retry(link, now))

    def _rest(self, link: Link) -> None:
        """Rest without anything to send, or while paused. An unused queue is deleted."""
        link.go(LinkEvent.GIVEN_UP)
        self._waiting.remove(link)
        queue = queue_of(link)
        if self._manager.outgoing.is_idle(queue):
            self._manager.collection.remove(queue)

    def _retry(self, link: Link, now: Now) -> None:
        """MS-MQQB 3.1.6.1."""
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
        """The progress of a session that never opened."""
        if session.was_refused:
            return _Status.CONNECTION_REFUSED
        is_connected = session in self._established
        return _Status.NOT_READY_FAILURE if is_connected else _Status.CONNECT_SOCKET_FAILURE


# A host that is heard often is tried once in this time.
_PROBE_SECONDS: Final = 1.0
