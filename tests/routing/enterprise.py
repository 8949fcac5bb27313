"""An enterprise in memory: a RoutingDirectory. Queue managers, sites and queues go by letters."""

from collections.abc import Iterable

from waypost.routing.topology import Machine, RoutingLink, Site
from waypost.wire.format_names import Destination


def guid(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def guids(names: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(map(guid, names))


class Enterprise:
    """`read` is what was asked for by its identifier."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self._machines: dict[bytes, Machine] = {}
        self._sites: dict[bytes, Site] = {}
        self._links: list[RoutingLink] = []
        self._queues: dict[bytes, Destination] = {}

    def machine(self, name: str, sites: str = "", *, out: str = "", into: str = "", routes: bool = False) -> None:
        self._machines[guid(name)] = Machine(
            guid(name), f"{name}.example.org", guids(sites), routes, guids(out), guids(into)
        )

    def router(self, name: str, sites: str = "", *, out: str = "", into: str = "") -> None:
        self.machine(name, sites, out=out, into=into, routes=True)

    def site(self, name: str, gates: str = "") -> None:
        self._sites[guid(name)] = Site(guid(name), guids(gates))

    def link(self, site1: str, site2: str, cost: int = 1) -> None:
        self._links.append(RoutingLink(guid(site1), guid(site2), cost))

    def queue(self, name: str, machine: str) -> None:
        self._queues[guid(name)] = Destination(f"{machine}.example.org", guid(machine))

    def forget(self, name: str) -> None:
        del self._machines[guid(name)]

    def queue_manager(self, identifier: bytes) -> Machine | None:
        self.read.append(identifier)
        return self._machines.get(identifier)

    def queue_managers(self) -> list[Machine]:
        return [self._machines[key] for key in sorted(self._machines)]

    def sites(self) -> list[Site]:
        return [self._sites[key] for key in sorted(self._sites)]

    def routing_links(self) -> list[RoutingLink]:
        return self._links

    def destination_of_queue(self, identifier: bytes) -> Destination | None:
        self.read.append(identifier)
        return self._queues.get(identifier)
