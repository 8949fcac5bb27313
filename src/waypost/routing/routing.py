"""The routing of one queue manager: MS-MQQB 3.1.7.4, 3.1.7.5, and the part of 3.1.5.2.1 that asks no name server."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from waypost.errors import UnsupportedFormatName
from waypost.guid import NULL_GUID
from waypost.routing.next_hops import get_next_hops
from waypost.routing.routes import Route
from waypost.routing.topology import RoutingDirectory
from waypost.wire.direct_names import DEFAULT_PORTS
from waypost.wire.format_names import ConnectorFormatName, Destination, DirectFormatName, FormatName, PublicFormatName


@dataclass(frozen=True, slots=True)
class NextHop:
    """MS-MQQB 3.1.1.3.1.3: one address of a queue manager that a session can be opened with."""

    qm_guid: bytes
    host_name: str
    address: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A queue manager to send to, before its host is resolved.

    NULL_GUID is whoever answers at that host. Without a host name, only a session that is there already leads to it.
    """

    queue_manager_guid: bytes
    host_name: str

    def at(self, addresses: Iterable[str]) -> tuple[NextHop, ...]:
        """One for each address that the host name was resolved to, in that order."""
        return tuple(NextHop(self.queue_manager_guid, self.host_name, address) for address in addresses)


class Routing:
    """`identifier` is this queue manager's own. Workgroup mode has no `directory`, but it may have `routes`."""

    __slots__ = ("_directory", "_identifier", "_routes")

    def __init__(self, directory: RoutingDirectory | None, identifier: bytes, routes: Iterable[Route] = ()) -> None:
        self._directory: Final = directory
        self._identifier: Final = identifier
        self._routes: Final = {route.queue_manager: route for route in routes}

    def destination(self, name: FormatName) -> Destination | None:
        """MS-MQQB 3.1.7.4. None if the directory does not know the queue, or no session leads there.

        The text takes host and GUID from the Queue object that the directory has of a public queue, where neither is:
        they are those of its queue manager. No session leads to the host in the name of an HTTP queue or of a group.
        """
        match name:
            case PublicFormatName(guid) | ConnectorFormatName(guid):
                return None if self._directory is None else self._directory.destination_of_queue(guid)
            case DirectFormatName(protocol) if protocol in DEFAULT_PORTS:
                return None
        try:
            return name.destination()
        except UnsupportedFormatName:
            return None

    def next_hops(self, destination: Destination) -> list[Hop]:
        """The hops to try, in this order; none without a route.

        readings MQQB 3.11: the host in a direct name is the one hop to it. Without a directory nobody knows
        routing servers, and a queue manager without a route is one hop away.
        """
        route = self._routes.get(destination.queue_manager)
        if route is not None:
            return self._along(route)
        if destination.queue_manager == NULL_GUID or self._directory is None:
            return [Hop(destination.queue_manager, destination.host)]
        return self._get_next_hops(destination.queue_manager, self._directory)

    def knows_host(self, host: str) -> bool:
        """Whether a route or the directory names this host, with or without its domain."""
        machines = () if self._directory is None else self._directory.queue_managers()
        names = [route.host for route in self._routes.values()]
        names += [machine.qualified_computer_name for machine in machines]
        wanted = host.casefold()
        return bool(wanted) and any(wanted in (name.casefold(), _short(name)) for name in names if name)

    def host_of(self, queue_manager: bytes) -> str:
        """The name of its host, as a route or the directory gives it; "" if neither does."""
        route = self._routes.get(queue_manager)
        if route is not None and route.host:
            return route.host
        machine = None if self._directory is None else self._directory.queue_manager(queue_manager)
        return "" if machine is None else machine.qualified_computer_name

    def queue_managers_at(self, host: str) -> list[bytes]:
        """Those whose routes name this host."""
        return [each.queue_manager for each in self._routes.values() if each.host and each.host.lower() == host.lower()]

    def _along(self, route: Route) -> list[Hop]:
        """Only the next queue manager matters: it knows the rest of the way."""
        if route.via != NULL_GUID:
            route = self._routes.get(route.via, Route(route.via))
        return [Hop(route.queue_manager, route.host)]

    def _get_next_hops(self, queue_manager: bytes, directory: RoutingDirectory) -> list[Hop]:
        """MS-MQQB 3.1.7.5: those that the directory does not know are left out."""
        hops = []
        for identifier in get_next_hops(self._identifier, queue_manager, directory):
            machine = directory.queue_manager(identifier)
            if machine is not None:
                hops.append(Hop(identifier, machine.qualified_computer_name))
        return hops


def _short(name: str) -> str:
    """The name of a host without its domain. An IP address has none."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.partition(".")[0].casefold()
