"""MS-MQBR 3.1.5: the queue managers that can be the next hop on the way to another one, best first.

Where the algorithm takes one of several routing servers or site gates, all of them are given: the first is the one to
take, and the others are for when it is unreachable. No host is a next hop of itself.
"""

from collections.abc import Iterator, Sequence

from waypost.routing.routing_table import routing_table
from waypost.routing.topology import Machine, RoutingDirectory


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
