"""Known GUIDs and addresses of the destinations of messages, and of the queue managers on the way there.

Acknowledgments are judged by them (ADR 22): which queue managers answered where names lead, the current addresses of
host names, and the routes and the directory. Missing facts are looked up.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from typing import Final, TypeVar

from waypost.clock import Now
from waypost.guid import NULL_GUID
from waypost.limits import MAX_ANSWERED_ADDRESSES, MAX_RESOLVED_HOSTS
from waypost.node.destinations import Destinations
from waypost.node.effects import Resolve
from waypost.node.kernel import Kernel
from waypost.node.network.dials import Dials
from waypost.routing.routes import Relays
from waypost.routing.routing import Hop, Routing
from waypost.transfer.believing import Bringer, Way
from waypost.transfer.session import Session
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.ip_addresses import is_address, plain_address
from waypost.wire.transactional_acks import ORDER_QUEUE_NUMBER

V = TypeVar("V")

# Seconds for which the resolved addresses of a name count as current.
_FRESH: Final = 60.0
# Shortest time in seconds before an address is dialled again to learn who answers there.
_SELDOM: Final = 600.0
_NONE: Final[frozenset[str]] = frozenset()


class KnownHosts:
    """The hosts that one queue manager knows."""

    __slots__ = (
        "_answered",
        "_configured",
        "_destinations",
        "_dialled",
        "_dials",
        "_kernel",
        "_last_request",
        "_relays",
        "_requests",
        "_resolved",
        "_routing",
    )

    def __init__(
        self,
        kernel: Kernel,
        dials: Dials,
        routing: Routing,
        destinations: Destinations,
        *,
        relays: Relays,
        configured: AbstractSet[tuple[bytes, str]],
    ) -> None:
        """`configured` are GUIDs and addresses that the settings admit, as operators do at run time."""
        self._kernel: Final = kernel
        self._dials: Final = dials
        self._routing: Final = routing
        self._destinations: Final = destinations
        self._relays: Final = relays
        self._configured: Final = configured
        self._last_request = 0
        # The queue manager that answered at each address dialled since the start, the last ones at the end.
        self._answered: dict[str, bytes] = {}
        # The addresses of host names, with the monotonic time of the answer; the requests that are under way.
        self._resolved: dict[str, tuple[float, frozenset[str]]] = {}
        self._requests: dict[int, str] = {}
        # The time at which an address was dialled only to learn who answers there.
        self._dialled: dict[str, float] = {}

    def answered(self, session: Session) -> bool:
        """Note a session that was opened here. True if its queue manager was not known to be at its address."""
        guid, address = session.remote_qm_guid, plain_address(session.remote_qm_address)
        is_new = self._answered.get(address) != guid
        _note(self._answered, address, guid, MAX_ANSWERED_ADDRESSES)
        return is_new

    def is_relay(self, session: Session, now: Now) -> bool:
        """Whether the other end is a relay: at its address, or with its GUID at an address of that queue manager."""
        guid, address = session.remote_qm_guid, plain_address(session.remote_qm_address)
        if address in self._relays.addresses:
            return True
        if guid not in self._relays.guids:
            return False
        host = self._routing.host_of(guid)
        if address in self._addresses_of(host, now):
            return True
        self._ask_for(host, now)
        return False

    def is_admitted(self, bringer: Bringer) -> bool:
        """Whether an operator has admitted the bringer, at run time or in the settings."""
        pair = bringer.guid, bringer.address
        return (
            pair in self._destinations.admitted
            or pair in self._configured
            or (NULL_GUID, bringer.address) in self._configured
        )

    def admitted_addresses(self, guid: bytes) -> list[str]:
        """The addresses that an operator has admitted for this queue manager."""
        pairs = {*self._destinations.admitted, *self._configured}
        return sorted(address for each, address in pairs if each == guid)

    def vouches(self, guid: bytes, hop: Hop, now: Now) -> bool:
        """Whether a bringer of messages is known to speak for this queue manager.

        Routes lead there to it, or to a host on the way to it, or the bringer is a relay, or an operator has admitted
        it. That a message of ours was answered there with this GUID does not count: others name such places, too.
        """
        bringer = Bringer(hop.queue_manager_guid, plain_address(hop.host_name))
        is_admitted = self.is_admitted(bringer)
        way = self.way(PrivateFormatName(guid, ORDER_QUEUE_NUMBER), now)
        if is_admitted and bringer.guid in {guid, *(way.hops or ()), *self._relays.guids}:
            return True
        known = {
            *way.destination.get(bringer.guid, ()),
            *(way.hops or {}).get(bringer.guid, ()),
            *self._relays.addresses,
        }
        if bringer.guid in self._relays.guids:
            known.update(self._addresses_of(self._routing.host_of(bringer.guid), now))
        if bringer.address in known:
            return True
        self._ask_for(self._routing.host_of(guid), now)
        return False

    def found(self, host: str, addresses: Iterable[str], now: Now) -> tuple[frozenset[str], bool]:
        """Note the current addresses of a host name. Returns them, and whether that is news."""
        known = frozenset(_plain(addresses))
        is_new = known != self._addresses_of(host, now)
        _note(self._resolved, host, (now.monotonic, known), MAX_RESOLVED_HOSTS)
        return known, is_new

    def ask(self, host: str) -> int:
        """Resolve the name of a host. Returns the number of the request."""
        self._last_request += 1
        self._kernel.emit(Resolve(self._last_request, host))
        return self._last_request

    def take_request(self, request: int) -> str | None:
        """The host name of a request with this number, if it was made here."""
        return self._requests.pop(request, None)

    def way(self, name: FormatName, now: Now) -> Way:
        routing, relays = self._routing, self._relays
        met = self._destinations.met(name)
        destination = routing.destination(name)
        if destination is None:
            return Way(met)

        def addresses(guid: bytes, host: str) -> AbstractSet[str]:
            return {*met.get(guid, ()), *self._addresses_of(host, now)}

        guid = destination.queue_manager
        if guid == NULL_GUID:
            # A direct name means any queue manager that answers at the host, and a route may name that.
            places = self._addresses_of(destination.host, now)
            answered = [self._answered.get(each, NULL_GUID) for each in places]
            guids = {*met, *routing.queue_managers_at(destination.host), *answered} - {NULL_GUID}
            return Way({guid: addresses(guid, destination.host) for guid in guids}, places=places)
        hosts = {guid: addresses(guid, destination.host or routing.host_of(guid))}
        hops = {
            hop.queue_manager_guid: addresses(hop.queue_manager_guid, hop.host_name)
            for hop in routing.next_hops(destination)
            if hop.queue_manager_guid != guid
        }
        if not hops and not relays:
            return Way(hosts)
        # Acknowledgments may still come by way of a relay of an earlier route.
        others = {each: addresses(each, routing.host_of(each)) for each in relays.guids - {guid} if each not in hops}
        return Way(hosts, {**others, **hops}, relays.addresses)

    def _addresses_of(self, host: str, now: Now) -> frozenset[str]:
        """The known current addresses of a host name."""
        with suppress(ValueError):
            return frozenset({plain_address(host)})
        time, addresses = self._resolved.get(host, (-inf, _NONE))
        return addresses if now.monotonic - time <= _FRESH else _NONE

    def inquire(self, name: FormatName, now: Now) -> None:
        """Look up missing facts about the hosts that may acknowledge messages to this name."""
        for host in dict.fromkeys(self._hosts_of(name)):
            self._ask_for(host, now)
        destination = self._routing.destination(name)
        if destination is None or self.way(name, now).destination:
            return
        for address in self._addresses_of(destination.host, now):
            if now.monotonic - self._dialled.get(address, -inf) > _SELDOM:
                _note(self._dialled, address, now.monotonic, MAX_RESOLVED_HOSTS)
                self._dials.inquire(address, now)

    def _ask_for(self, host: str, now: Now) -> None:
        time, _ = self._resolved.get(host, (-inf, _NONE))
        if host and not is_address(host) and now.monotonic - time > _FRESH and host not in self._requests.values():
            self._requests[self.ask(host)] = host

    def _hosts_of(self, name: FormatName) -> Iterator[str]:
        routing = self._routing
        destination = routing.destination(name)
        if destination is None:
            return
        yield destination.host
        if destination.queue_manager != NULL_GUID:
            yield routing.host_of(destination.queue_manager)
            yield from (hop.host_name for hop in routing.next_hops(destination))
            yield from map(routing.host_of, self._relays.guids)


def _plain(addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        with suppress(ValueError):
            yield plain_address(address)


def _note(known: dict[str, V], key: str, value: V, limit: int) -> None:
    """Put the value at the end, and forget the oldest beyond the limit."""
    known.pop(key, None)
    known[key] = value
    if len(known) > limit:
        del known[next(iter(known))]
