"""The enterprise as routing knows it: the data elements of MS-MQBR 3.1.1.1 that it needs, and their reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from waypost.wire.format_names import Destination


@dataclass(frozen=True, slots=True)
class Machine:
    """A queue manager. The lists hold identifiers: of its sites, and of those that stand between it and others."""

    identifier: bytes
    qualified_computer_name: str
    site_identifier_list: tuple[bytes, ...] = ()
    routing_server: bool = False
    out_routing_server_identifier_list: tuple[bytes, ...] = ()
    in_routing_server_identifier_list: tuple[bytes, ...] = ()

    def shares_a_site_with(self, other: "Machine") -> bool:
        """Where nobody has made sites, the enterprise is one site."""
        if not self.site_identifier_list and not other.site_identifier_list:
            return True
        return any(site in other.site_identifier_list for site in self.site_identifier_list)


@dataclass(frozen=True, slots=True)
class Site:
    """A site and the queue managers of it that reach other sites."""

    identifier: bytes
    site_gate_identifiers: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class RoutingLink:
    """Messages go between these two sites, in both directions, at this cost."""

    site1_identifier: bytes
    site2_identifier: bytes
    actual_cost: int


class RoutingDirectory(Protocol):
    """The reads of MS-MQBR 3.1.5.9 and MS-MQQB 3.1.7.4. Unreadable objects are missing; the order never changes."""

    def queue_manager(self, identifier: bytes, /) -> Machine | None: ...

    def queue_managers(self) -> Sequence[Machine]: ...

    def sites(self) -> Sequence[Site]: ...

    def routing_links(self) -> Sequence[RoutingLink]: ...

    def destination_of_queue(self, identifier: bytes, /) -> Destination | None:
        """The queue manager that has a public queue."""
