"""Find the sessions and hops that lead to the destination of a link: MS-MQQB 1.3.5.1 and 3.1.5.2.1."""

from collections.abc import Iterable
from typing import Final

from waypost.clock import Now
from waypost.guid import NULL_GUID
from waypost.limits import MAX_DIALLED
from waypost.node.network.dials import Dials
from waypost.node.network.known_hosts import KnownHosts
from waypost.node.network.sessions import Sessions
from waypost.node.transactional_acks import may_relay
from waypost.peers import peer_of
from waypost.routing.routing import Hop, Routing
from waypost.transfer.links import Link, NextHop
from waypost.transfer.session import Role, Session
from waypost.wire.format_names import Destination, DirectFormatName, FormatName

# The other side acknowledges after half of AckWaitTimeout at the latest: after this part of it without a sign of life
# the host may be gone.
_SILENT_PART: Final = 0.75

# Seconds without an answer at the address of acknowledgments after which its queue manager counts as moved: if it was
# known to be there, a session with it at another known address takes them then.
MOVED_SECONDS: Final = 120.0


class HopFinder:
    """Finds sessions and hops for the links of one queue manager."""

    __slots__ = ("_dialled", "_dials", "_hosts", "_sessions", "routing")

    def __init__(self, sessions: Sessions, dials: Dials, hosts: KnownHosts, routing: Routing) -> None:
        self._sessions: Final = sessions
        self._dials: Final = dials
        self._hosts: Final = hosts
        self.routing: Final = routing
        # The last addresses at which each next hop was dialled.
        self._dialled: dict[bytes, list[str]] = {}

    def dialled(self, hop: NextHop) -> None:
        """Note a connection attempt to a next hop of our own routes."""
        if hop.qm_guid != NULL_GUID:
            addresses = self._dialled.setdefault(hop.qm_guid, [])
            if hop.address not in addresses:
                addresses.append(hop.address)
                del addresses[:-MAX_DIALLED]

    def is_next_hop(self, guid: bytes, address: str) -> bool:
        """Whether our own routes lead to this queue manager, and it was dialled at this address."""
        return address in self._dialled.get(guid, ())

    def leads_to(self, name: FormatName) -> bool:
        """Whether a queue of another computer has a route, as far as the directory knows."""
        destination = self.routing.destination(name)
        return destination is not None and any(hop.host_name for hop in self.routing.next_hops(destination))

    def is_routed(self, guid: bytes) -> bool:
        """Whether routes or the directory lead to another queue manager."""
        return bool(self._routed(guid))

    def _routed(self, guid: bytes) -> list[Hop]:
        return [hop for hop in self.routing.next_hops(Destination("", guid)) if hop.host_name]

    def is_connected_with(self, guid: bytes) -> bool:
        return any(session.remote_qm_guid == guid for session in self._sessions.open)

    def goes_back(self, link: Link, now: Now) -> bool:
        """Whether acknowledgments can only go back the way on which the messages came."""
        assert link.peer is not None
        if not may_relay(link.queue.destination_format_name):
            return False
        return not self.is_routed(link.peer) or not self._is_vouched_for(link, now)

    def _is_vouched_for(self, link: Link, now: Now) -> bool:
        """Whether the hosts that brought the messages are known to speak for the queue manager that they name.

        Anybody can send in the name of another. If the acknowledgments of that went to the real one, it would
        believe that they are for messages that it sent: they come from the right host (ADR 24). Forwarded messages
        have no origin here.
        """
        assert link.peer is not None
        return all(self._hosts.vouches(link.peer, origin, now) for origin in link.origins)

    def session_for(self, link: Link, destination: Destination, now: Now) -> Session | None:
        """A session for the link. One with a queue manager that connected here may carry only its acknowledgments."""
        if link.peer is None:
            return self._own_session(destination.queue_manager, "")
        sessions = self._takers(link, now)
        if self.hops(link, destination, now):
            sessions = [session for session in sessions if self.is_near(link, session)]
        return _first(sessions)

    def has_hops(self, link: Link, now: Now) -> bool:
        """Whether there is an address to dial."""
        destination = self.routing.destination(link.queue.destination_format_name)
        return destination is not None and bool(self.hops(link, destination, now))

    def session_elsewhere(self, link: Link, now: Now) -> Session | None:
        """A session with the queue manager of a link for acknowledgments at another address than theirs.

        It must be known to have been at the one, and to be at the other.
        """
        assert link.peer is not None
        if not self.has_moved(link, now):
            return None
        vouches, peer = self._hosts.vouches, link.peer
        return _first(
            session
            for session in self._takers(link, now)
            if vouches(peer, Hop(session.remote_qm_guid, session.remote_qm_address), now)
        )

    def _takers(self, link: Link, now: Now) -> list[Session]:
        guids = {link.peer}
        if self.goes_back(link, now):
            guids.update(hop.queue_manager_guid for hop in link.origins)
        return [session for session in self._sessions.open if session.remote_qm_guid in guids]

    def is_near(self, link: Link, session: Session) -> bool:
        """Whether a session is with the address of the acknowledgments of a link, or its /64 network.

        Anybody can claim the GUID of another.
        """
        name = link.queue.destination_format_name
        hosts = [name.host] if isinstance(name, DirectFormatName) else [hop.host_name for hop in link.origins]
        return peer_of(session.remote_qm_address) in map(peer_of, hosts)

    def session_of(self, link: Link, hop: NextHop) -> Session | None:
        """A session that was opened to the queue manager or the host of a hop. Acknowledgments need its address."""
        if link.peer is None:
            return self._own_session(hop.qm_guid, hop.address) or self._session_to(hop)
        return _first(
            session
            for session in self._sessions.open
            if (session.remote_qm_guid, session.remote_qm_address) == (hop.qm_guid, hop.address)
        )

    def superseded_by(self, session: Session, now: Now) -> list[Session]:
        """The sessions opened here, silent since, to a host that has opened a session now."""
        if session.role is Role.INITIATOR:
            return []
        host = session.remote_qm_guid, session.remote_qm_address
        opened_here = [other for other in self._sessions.open if other.role is Role.INITIATOR]
        return [
            other
            for other in opened_here
            if (other.remote_qm_guid, other.remote_qm_address) == host and _is_silent(other, now)
        ]

    def hops(self, link: Link, destination: Destination, now: Now) -> list[Hop]:
        """MS-MQQB 3.1.5.2.1. The host that answers at the address of an acknowledgment must be its receiver.

        Without a route to it, and if the bringers of the messages are not vouched for, it goes back to them.
        """
        if link.peer is None:
            return [hop for hop in self.routing.next_hops(destination) if hop.host_name]
        if not may_relay(link.queue.destination_format_name):
            return [Hop(link.peer, destination.host), *self._elsewhere(link, now)]
        if self.goes_back(link, now):
            return [*link.origins, *self._elsewhere(link, now)]
        return self._routed(link.peer)

    def has_moved(self, link: Link, now: Now) -> bool:
        """Whether an address where the queue manager was known to be has not answered for long."""
        if link.unreached is None or now.monotonic - link.unreached < MOVED_SECONDS:
            return False
        return self._is_vouched_for(link, now)

    def _elsewhere(self, link: Link, now: Now) -> list[Hop]:
        """Possible addresses of a queue manager that has moved: those that an operator has admitted for it."""
        assert link.peer is not None
        if not self.has_moved(link, now):
            return []
        return [Hop(link.peer, address) for address in self._hosts.admitted_addresses(link.peer)]

    def _own_session(self, guid: bytes, address: str) -> Session | None:
        """MS-MQQB 1.3.5.1: a session that was opened to this queue manager.

        If routes or the directory lead to it, it must be one that was opened along them, or one with this address: at
        any other address that a program here sends to, anybody can answer with its GUID.
        """
        if guid == NULL_GUID:
            return None
        is_routed = self.is_routed(guid)
        return _first(
            session
            for session in self._sessions.open
            if session.role is Role.INITIATOR
            and session.remote_qm_guid == guid
            and self._dials.is_own(session)
            and (not is_routed or self._dials.is_routed(session) or session.remote_qm_address == address)
        )

    def _session_to(self, hop: NextHop) -> Session | None:
        """A session that was opened to this address: it is the host that a direct name means."""
        if hop.qm_guid != NULL_GUID:
            return None
        return _first(
            session
            for session in self._sessions.open
            if session.role is Role.INITIATOR and session.remote_qm_address == hop.address
        )


def _is_silent(session: Session, now: Now) -> bool:
    """Whether nothing came for longer than an acknowledgment may take (MS-MQQB 3.1.2.5)."""
    silence_ms = 1000 * (now.monotonic - session.last_received)
    return silence_ms >= _SILENT_PART * session.ack_wait_timeout_ms and bool(session.in_flight())


def _first(sessions: Iterable[Session]) -> Session | None:
    return next((session for session in sessions if not session.wants_recycling), None)
