"""MS-MQBR 3.1.5: the queue managers that can be the next hop on the way to another one, best first.

Where the algorithm takes one of several routing servers or site gates, all of them are given: the first is the one to
take, and the others are for when it is unreachable. No host is a next hop of itself.

The RoutingTable (3.1.1.2, 3.1.3.1) says over which neighbour the least-cost path to another site leads. It is made from
the directory when it is asked for, so it is never older than that and needs no timer. Of paths with the same cost, the
one whose first site has the lowest identifier is taken, everywhere and always.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from waypost.routing.topology import Machine, RoutingDirectory, RoutingLink, Site


def get_next_hops(source_id: bytes, destination_id: bytes, directory: RoutingDirectory) -> list[bytes]:
    """MS-MQBR 3.1.5.1. The identifiers of the next hops; none if the routing attempt fails."""
    source = directory.queue_manager(source_id)
    destination = directory.queue_manager(destination_id)
    if source is None or destination is None:
        return []
    hops = _next_hops(source, destination, directory)
    return [hop for hop in dict.fromkeys(hops) if hop != source_id]


def _next_hops(source: Machine, destination: Machine, directory: RoutingDirectory) -> Sequence[bytes]:
    if source.routing_server:
        return _next_hops_for_router(source, destination, directory)
    if source.out_routing_server_identifier_list:
        return source.out_routing_server_identifier_list
    if source.shares_a_site_with(destination):
        return destination.in_routing_server_identifier_list or (destination.identifier,)
    return list(_routing_servers(source, directory))


def _next_hops_for_router(source: Machine, destination: Machine, directory: RoutingDirectory) -> Sequence[bytes]:
    """MS-MQBR 3.1.5.2 and 3.1.5.3, which differ in the last step."""
    if source.identifier in destination.in_routing_server_identifier_list:
        return (destination.identifier,)
    if source.shares_a_site_with(destination):
        return destination.in_routing_server_identifier_list or (destination.identifier,)
    gates = list(_site_gates(source.site_identifier_list, directory))
    if source.identifier not in gates:
        return gates
    return list(_gates_towards(destination, source, directory))


def _gates_towards(destination: Machine, source: Machine, directory: RoutingDirectory) -> Iterator[bytes]:
    """MS-MQBR 3.1.5.3: the gates of the next site. A destination in several sites is where it costs least to get to."""
    table = routing_table(source.site_identifier_list, directory.sites(), directory.routing_links())
    rows = [table[site] for site in destination.site_identifier_list if site in table]
    if not rows:
        return iter(())
    best = min(rows, key=lambda row: (row.cost, row.next_hop_site_id))
    return _site_gates((best.next_hop_site_id,), directory)


def _routing_servers(source: Machine, directory: RoutingDirectory) -> Iterator[bytes]:
    """MS-MQBR 3.1.5.5."""
    for machine in directory.queue_managers():
        if machine.routing_server and machine.shares_a_site_with(source):
            yield machine.identifier


def _site_gates(sites: tuple[bytes, ...], directory: RoutingDirectory) -> Iterator[bytes]:
    """MS-MQBR 3.1.5.6 to 3.1.5.8: the gates of these sites."""
    for site in directory.sites():
        if site.identifier in sites:
            yield from site.site_gate_identifiers


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the RoutingTable, with the cost that it was chosen for."""

    cost: int
    next_hop_site_id: bytes


def routing_table(own_sites: Iterable[bytes], sites: Iterable[Site], links: Iterable[RoutingLink]) -> dict[bytes, Row]:
    """The rows by DestinationSiteID, without one's own sites and those that no path leads to."""
    known = {site.identifier for site in sites}
    neighbours: dict[bytes, list[tuple[bytes, int]]] = {site: [] for site in known}
    for link in links:
        ends = link.site1_identifier, link.site2_identifier
        if known.issuperset(ends):
            neighbours[ends[0]].append((ends[1], link.actual_cost))
            neighbours[ends[1]].append((ends[0], link.actual_cost))
    roots = known.intersection(own_sites)
    table: dict[bytes, Row] = {}
    # Dijkstra's algorithm: cost, the first site of the path, its last one.
    paths = [(cost, site, site) for root in roots for site, cost in neighbours[root]]
    paths.sort()
    while paths:
        cost, first, last = heappop(paths)
        if last in table or last in roots:
            continue
        table[last] = Row(cost, first)
        for site, more in neighbours[last]:
            heappush(paths, (cost + more, first, site))
    return table
