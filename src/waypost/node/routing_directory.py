"""The directory of a node as its routing sees it: a RoutingDirectory, read as in MS-MQBR 3.1.5.9.

SiteGateCollection of a Site is not published. The gates of a site are therefore those that a routing link of the site
lists, that belong to it as MS-MQBR 1.5 requires of a gate, and that are routing servers (3.1.5.8).
"""

from typing import Final, TypeVar

from waypost.directory import objects, topology
from waypost.directory.core_directory import CoreDirectory
from waypost.directory.objects import DirectoryObject
from waypost.directory.queries import Query, by_identifier
from waypost.directory.results import DirectoryOperationResult
from waypost.routing.topology import Machine, RoutingLink, Site
from waypost.wire.format_names import Destination

T = TypeVar("T", bound=DirectoryObject)


class NodeRoutingDirectory:
    """This queue manager itself is a routing server if the directory says so, or `is_routing_server`."""

    __slots__ = ("_directory", "_events", "_is_routing_server")

    def __init__(self, directory: CoreDirectory, *, is_routing_server: bool) -> None:
        self._directory: Final = directory
        self._events: Final = directory.events
        self._is_routing_server: Final = is_routing_server

    def queue_manager(self, identifier: bytes) -> Machine | None:
        query = Query(objects.QueueManager, by_identifier(identifier))
        read = self._events.read_directory(query, self._directory.now()).value
        return None if read is None else self._machine(read)

    def queue_managers(self) -> list[Machine]:
        return [self._machine(each) for each in self._all(objects.QueueManager)]

    def sites(self) -> list[Site]:
        links = self._all(topology.RoutingLink)
        return [Site(each.identifier, self._gates(each.identifier, links)) for each in self._all(topology.Site)]

    def routing_links(self) -> list[RoutingLink]:
        links = self._all(topology.RoutingLink)
        return [RoutingLink(each.site1_identifier, each.site2_identifier, each.actual_cost) for each in links]

    def destination_of_queue(self, identifier: bytes) -> Destination | None:
        queue = self._directory.find_queue(identifier)
        machine = None if queue is None else self.queue_manager(queue.queue_manager_identifier)
        return None if machine is None else Destination(machine.qualified_computer_name, machine.identifier)

    def _gates(self, site: bytes, links: list[topology.RoutingLink]) -> tuple[bytes, ...]:
        own = [link for link in links if site in (link.site1_identifier, link.site2_identifier)]
        listed = dict.fromkeys(gate for link in own for gate in link.site_gate_identifier_list)
        machines = filter(None, map(self.queue_manager, listed))
        return tuple(each.identifier for each in machines if each.routing_server and site in each.site_identifier_list)

    def _all(self, object_type: type[T]) -> list[T]:
        """GetDirectoryData without a filter: empty on any failure."""
        handle = self._events.read_directory_begin(Query(object_type), self._directory.now()).value
        if handle is None:
            return []
        items: list[T] = []
        read = self._events.read_directory_next(handle)
        while isinstance(read.value, object_type):
            items.append(read.value)
            read = self._events.read_directory_next(handle)
        self._events.read_directory_end(handle)
        return items if read.status is DirectoryOperationResult.END_OF_DATA else []

    def _machine(self, read: objects.QueueManager) -> Machine:
        is_own = read.identifier == self._events.local.identifier
        return Machine(
            read.identifier,
            read.qualified_computer_name or read.computer_name,
            read.site_identifier_list,
            read.routing_server or (is_own and self._is_routing_server),
            read.out_routing_server_identifier_list,
            read.in_routing_server_identifier_list,
        )
