"""The part of the initialization of a queue manager that asks the directory: MS-MQDMPR 3.1.3."""

from dataclasses import dataclass, replace

from waypost.clock import Now
from waypost.directory.events import DirectoryEvents
from waypost.directory.local import HostNames
from waypost.directory.objects import NO_KEYS, QueueManager
from waypost.directory.queries import Query, by_identifier
from waypost.directory.results import DirectoryOperationResult, directory_error
from waypost.directory.timers import Timer
from waypost.directory.topology import Enterprise, Site
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.property_values import INITIALIZATION_RETRY_SECONDS


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Inputs to set up a queue manager: its site, the servers that the DNS knows, and its new keys."""

    site_identifier: bytes | None = None
    directory_servers: tuple[str, ...] = ()
    public_encryption_key_list: MqDsPublicKeys = NO_KEYS
    public_signing_key_list: MqDsPublicKeys = NO_KEYS


def initialize(events: DirectoryEvents, names: HostNames, provisioning: Provisioning | None, now: Now) -> None:
    """Know one's own names and, with a directory, oneself as the directory does. Raises DirectoryError.

    `provisioning` is None when the queue manager was set up before.
    """
    local = events.local
    local.take_names(names)
    if not local.directory_integrated:
        return
    if provisioning is not None:
        _provision(events, provisioning, now)
    own = events.read_directory(Query(QueueManager, by_identifier(local.identifier)), now)
    if own.value is not None:
        events.refresh_local_queue_manager(own.value, now)
        _read_sites(events, now)
    elif provisioning is None or own.status is not DirectoryOperationResult.OBJECT_NOT_FOUND:
        raise directory_error(own.status, "return the object of this queue manager")
    local.enterprise_reference = _read_enterprise(events, now)
    events.timers.start(Timer.DIRECTORY_SITES_UPDATE, now)
    events.timers.start(Timer.DIRECTORY_SITE_GATES_UPDATE, now)


def _provision(events: DirectoryEvents, provisioning: Provisioning, now: Now) -> None:
    local = events.local
    local.initialization_retry_timer_duration = INITIALIZATION_RETRY_SECONDS
    local.directory_server_list = provisioning.directory_servers
    sites = local.queue_manager.site_identifier_list
    if provisioning.site_identifier is not None and provisioning.site_identifier not in sites:
        sites += (provisioning.site_identifier,)
    local.queue_manager = replace(
        local.queue_manager,
        site_identifier_list=sites,
        public_encryption_key_list=provisioning.public_encryption_key_list,
        public_signing_key_list=provisioning.public_signing_key_list,
    )
    events.timers.start(Timer.DIRECTORY_SERVER_LIST_UPDATE, now)


def _read_sites(events: DirectoryEvents, now: Now) -> None:
    for identifier in events.local.queue_manager.site_identifier_list:
        site = events.read_directory(Query(Site, by_identifier(identifier)), now).value
        if site is not None:
            events.local.add_site(site)


def _read_enterprise(events: DirectoryEvents, now: Now) -> Enterprise:
    attributes = ("non_ldap_capable_queue_manager_notification",)
    read = events.read_directory(Query(Enterprise, attribute_list=attributes), now)
    if read.value is not None:
        enterprise = read.value
    elif read.status is DirectoryOperationResult.ATTRIBUTE_NOT_FOUND:
        enterprise = Enterprise(non_ldap_capable_queue_manager_notification=True)
    else:
        raise directory_error(read.status, "return the enterprise object")
    # 3.1.1.6 needs the first for every access to the directory and 3.1.1.12 the second for every message, though 3.1.3
    # does not ask for them. One that is not set has its default.
    for name in ("weakened_security", "default_time_to_live"):
        known = events.read_directory(Query(Enterprise, attribute_list=(name,)), now).value
        if known is not None:
            enterprise = replace(enterprise, **{name: getattr(known, name)})
    return enterprise
