"""LocalQueueManager (MS-MQDMPR 3.1.1.1) as far as the directory goes: its own object, and what it knows of others.

A collection that goes with a list of identifiers holds only objects of that list. DirectoryOffline is False without a
directory.
"""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from waypost.directory.internal_certificates import InternalCertificate
from waypost.directory.objects import DirectoryObject, QueueManager
from waypost.directory.topology import ConnectedNetwork, Enterprise, Site, check_listed
from waypost.guid import NULL_GUID
from waypost.wire.sid import Sid

T = TypeVar("T", bound=DirectoryObject)


@dataclass(frozen=True, slots=True)
class HostNames:
    """MS-MQDMPR 3.1.3: the name of the local account domain, and the name and GUID of the domain, "" outside one."""

    computer_name: str
    dns_domain_name: str = ""
    domain_guid: bytes = NULL_GUID

    @property
    def qualified_computer_name(self) -> str:
        return f"{self.computer_name}.{self.dns_domain_name}" if self.dns_domain_name else self.computer_name


@dataclass(slots=True, eq=False)
class LocalQueueManager:
    """The state that the directory events share. Without `directory_integrated` it is in workgroup mode."""

    queue_manager: QueueManager
    directory_integrated: bool = False
    machine_domain_id: bytes = NULL_GUID
    directory_server_list: tuple[str, ...] = ()
    initialization_retry_timer_duration: int = 0
    enterprise_reference: Enterprise | None = None
    site_collection: dict[bytes, Site] = field(default_factory=dict)
    connected_network_collection: dict[bytes, ConnectedNetwork] = field(default_factory=dict)
    out_routing_server_collection: dict[bytes, QueueManager] = field(default_factory=dict)
    in_routing_server_collection: dict[bytes, QueueManager] = field(default_factory=dict)
    internal_certificate_collection: dict[Sid, InternalCertificate] = field(default_factory=dict)
    _is_offline: bool = False

    @property
    def identifier(self) -> bytes:
        return self.queue_manager.identifier

    @property
    def directory_offline(self) -> bool:
        return self.directory_integrated and self._is_offline

    @property
    def notifies_of_changes(self) -> bool:
        enterprise = self.enterprise_reference
        return enterprise is not None and enterprise.non_ldap_capable_queue_manager_notification

    def go_offline(self) -> None:
        self._is_offline = True

    def go_online(self) -> None:
        self._is_offline = False

    def security_context(self, caller: Sid | None) -> Sid | None:
        """Whose credentials reach the directory (3.1.1.6): the caller's, or with WeakenedSecurity our own, None."""
        enterprise = self.enterprise_reference
        return None if enterprise is not None and enterprise.weakened_security else caller

    def take_names(self, names: HostNames) -> None:
        """MS-MQDMPR 3.1.3: what the host calls itself, at every start."""
        self.machine_domain_id = names.domain_guid
        self.queue_manager = replace(
            self.queue_manager,
            computer_name=names.computer_name,
            qualified_computer_name=names.qualified_computer_name,
        )

    def refresh(self, read: QueueManager) -> None:
        """Take over the directory attributes. An object that no longer fits a list leaves its collection."""
        networks = tuple(
            each for each in read.connected_network_identifier_list if each in self.connected_network_collection
        )
        self.queue_manager = replace(read, identifier=self.identifier, connected_network_identifier_list=networks)
        _keep_listed(self.connected_network_collection, networks)
        _keep_listed(self.site_collection, read.site_identifier_list)
        _keep_listed(self.out_routing_server_collection, read.out_routing_server_identifier_list)
        _keep_listed(self.in_routing_server_collection, read.in_routing_server_identifier_list)

    def add_site(self, site: Site) -> None:
        _add(site, self.site_collection, self.queue_manager.site_identifier_list)

    def add_out_routing_server(self, server: QueueManager) -> None:
        _add(server, self.out_routing_server_collection, self.queue_manager.out_routing_server_identifier_list)

    def add_in_routing_server(self, server: QueueManager) -> None:
        _add(server, self.in_routing_server_collection, self.queue_manager.in_routing_server_identifier_list)

    def connect(self, network: ConnectedNetwork) -> None:
        """Belong to a network: the one collection that every identifier of its list is in."""
        self.connected_network_collection[network.identifier] = network
        identifiers = self.queue_manager.connected_network_identifier_list
        if network.identifier not in identifiers:
            self.queue_manager = replace(
                self.queue_manager, connected_network_identifier_list=(*identifiers, network.identifier)
            )

    def keep_certificate(self, certificate: InternalCertificate) -> None:
        """A user has one internal certificate: another takes its place."""
        self.internal_certificate_collection[certificate.security_identifier] = certificate


def _add(item: T, collection: dict[bytes, T], identifiers: tuple[bytes, ...]) -> None:
    check_listed(item, identifiers)
    collection[item.identifier] = item


def _keep_listed(collection: dict[bytes, T], identifiers: tuple[bytes, ...]) -> None:
    for identifier in collection.keys() - set(identifiers):
        del collection[identifier]
