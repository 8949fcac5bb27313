"""MS-MQBR 3.1.1.2 and 3.1.3.1: over which neighbour the least-cost path to another site leads.

The table is made from the directory when it is asked for, so it is never older than that and needs no timer. Of paths
with the same cost, the one whose first site has the lowest identifier is taken, everywhere and always.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from waypost.routing.topology import RoutingLink, Site


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
