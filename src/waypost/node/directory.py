"""The directory of a queue manager, on its store: MS-MQDMPR 3.1.3 and 3.1.7.1.18 to 3.1.7.1.25.

The embedded directory is as durable as the queues: its objects change in the batch of the operation that changes them,
and notifications of a change leave when it is durable. Without a directory (workgroup mode) the same events answer
from what this computer knows of itself (readings MQDMPR 3.X), and nothing is stored.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from waypost.core import queue_manager, queues
from waypost.core.message import DEFAULT_TIME_TO_REACH_QUEUE
from waypost.directory.core_directory import CoreDirectory, queue_attributes, queue_object
from waypost.directory.effects import LocalQueueManagerRefreshed, LocalQueueRefreshed
from waypost.directory.embedded import EmbeddedDirectory
from waypost.directory.events import DirectoryEvents
from waypost.directory.initialization import Provisioning, initialize
from waypost.directory.local import HostNames, LocalQueueManager
from waypost.directory.objects import NO_KEYS, DirectoryObject, Queue, QueueManager
from waypost.directory.queries import AttributeFilter, Operator, Query, by_identifier
from waypost.directory.results import DirectoryOperationResult, directory_error
from waypost.directory.topology import Enterprise, User
from waypost.errors import DirectoryObjectNotFound
from waypost.guid import NULL_GUID
from waypost.node import directory_store, manager_store
from waypost.node.kernel import Kernel
from waypost.security.access import sid_of
from waypost.store.port import Batch, Reader
from waypost.wire.format_names import PublicFormatName
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.path_names import QueueKind
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import Sid


class DirectoryMode(Enum):
    """The directory of a queue manager: none, or an embedded one in its store."""

    WORKGROUP = auto()
    EMBEDDED = auto()


class NodeDirectory:
    """The directory of one node. Call `start` first."""

    __slots__ = ("_embedded", "_kernel", "_manager", "core", "events", "is_integrated")

    def __init__(self, kernel: Kernel, reader: Reader, mode: DirectoryMode, new_guid: Callable[[], bytes]) -> None:
        self.is_integrated: Final = mode is DirectoryMode.EMBEDDED
        self._kernel: Final = kernel
        self._embedded: Final = EmbeddedDirectory(new_guid, directory_store.read(reader) if self.is_integrated else ())
        local = LocalQueueManager(QueueManager(), self.is_integrated)
        self.events: Final = DirectoryEvents(local, self._embedded, self._local_queues, kernel.timers)
        self.core: Final = CoreDirectory(self.events, lambda: kernel.now)

    def start(self, manager: queue_manager.QueueManager, quota: int | None) -> None:
        """The directory's part of MS-MQDMPR 3.1.3, after everything stored is restored. Raises DirectoryError.

        The first start with a directory makes the enterprise and the queue manager's own object. Later ones publish the
        names of this computer and the `quota`, if configured; all else stays as the directory has it.
        """
        self._manager = manager
        self.events.local.queue_manager = _object_of(manager)
        domain = manager.identity.qualified_computer_name.partition(".")[2]
        names = HostNames(manager.identity.computer_name, domain)
        own = self._own_object() if self.is_integrated else None
        if own is not None:
            self._update(own, names, own.queue_manager_quota if quota is None else quota)
        elif self.is_integrated:
            self._provision(names)
        initialize(self.events, names, None, self._kernel.now)

    @property
    def default_time_to_reach_queue(self) -> int:
        """Enterprise.DefaultTimeToLive in seconds: PROPID_E_LONG_LIVE of MS-MQMQ 2.3.5.15."""
        enterprise = self.events.local.enterprise_reference
        return DEFAULT_TIME_TO_REACH_QUEUE if enterprise is None else enterprise.default_time_to_live

    def is_domain_user(self, sid: Sid) -> bool:
        """Whether the directory has a user with this SID. In workgroup mode it has none."""
        return self.is_integrated and self._user(sid) is not None

    def queue_manager_of(self, name: PublicFormatName) -> bytes:
        """The owner of the queue: DestinationQueueManagerIdentifier of a message. Raises DirectoryObjectNotFound."""
        if self._manager.find_queue(name) is not None:
            return self._manager.identity.identifier
        known = self.core.find_queue(name.guid) if self.is_integrated else None
        if known is None or known.queue_manager_identifier == NULL_GUID:
            raise DirectoryObjectNotFound(f"the directory does not contain the queue manager of {name}")
        return known.queue_manager_identifier

    def security_of(self, queue: queues.Queue) -> bytes:
        """MS-MQQB 3.1.5.8.3: the security descriptor of a public queue is that of the directory, if it has one."""
        if self.is_integrated and _is_public(queue):
            item = self.events.read_directory(Query(Queue, by_identifier(queue.identifier)), self._kernel.now).value
            if item is not None and item.security is not None:
                return item.security.encode()
        return queue.attributes.security

    def publish(self, queue: queues.Queue) -> None:
        """Publish a changed queue in the directory, if it is a public one."""
        if self.is_integrated and _is_public(queue):
            self.core.write_queue(queue)

    def signing_keys_of(self, queue_manager: bytes) -> MqDsPublicKeys:
        """PublicSigningKeyList of this queue manager, or of another one that the directory knows."""
        found = self._queue_manager(queue_manager)
        return NO_KEYS if found is None else found.public_signing_key_list

    def encryption_keys_of(self, queue_manager: bytes) -> MqDsPublicKeys:
        """PublicEncryptionKeyList of this queue manager, or of another one that the directory knows."""
        found = self._queue_manager(queue_manager)
        return NO_KEYS if found is None else found.public_encryption_key_list

    def certificates_of(self, sid: bytes) -> Iterator[bytes]:
        """MS-MQQB 3.1.5.8.3: the certificates that the directory has for the user with this SID (packet form)."""
        of_whom = sid_of(sid) if self.is_integrated else None
        found = None if of_whom is None else self._user(of_whom)
        return iter(()) if found is None else (each.certificate for each in found.certificates.certificates)

    def has_keys(self, encryption: MqDsPublicKeys, signing: MqDsPublicKeys) -> bool:
        """Whether these are the published keys of this queue manager."""
        own = self.events.local.queue_manager
        return (own.public_encryption_key_list, own.public_signing_key_list) == (encryption, signing)

    def publish_keys(self, encryption: MqDsPublicKeys, signing: MqDsPublicKeys) -> None:
        """Publish the public keys of this queue manager: PublicEncryptionKeyList and PublicSigningKeyList."""

        def with_keys(item: QueueManager) -> QueueManager:
            return replace(item, public_encryption_key_list=encryption, public_signing_key_list=signing)

        local = self.events.local
        local.queue_manager = with_keys(local.queue_manager)
        own = self._own_object() if self.is_integrated else None
        if own is None:
            return
        status = self.events.write_directory(with_keys(own), self._kernel.now)
        if status is not DirectoryOperationResult.SUCCESS:
            self._kernel.notice(
                "keys not published", reason=str(directory_error(status, "accept the keys of this computer"))
            )

    def settle(self) -> bool:
        """Write the changes of the directory, take over its objects of this computer, and notify others.

        True if anything changed: objects that are taken over lead to events of the core.
        """
        batch = self._kernel.messages.batch
        effects, changes = self.events.take_effects(), self._embedded.take_changes()
        for effect in effects:
            match effect:
                case LocalQueueManagerRefreshed(item):
                    self._take_over(item, batch)
                case LocalQueueRefreshed(item):
                    self._take_over_queue(item)
                case _:
                    self._kernel.promise(effect)
        directory_store.write(batch, changes)
        return bool(effects or changes)

    def _local_queues(self) -> Iterator[Queue]:
        return map(queue_object, self._manager.queues.values())

    def _own_object(self) -> QueueManager | None:
        return self._known_queue_manager(self._manager.identity.identifier)

    def _known_queue_manager(self, queue_manager: bytes) -> QueueManager | None:
        return self.events.read_directory(Query(QueueManager, by_identifier(queue_manager)), self._kernel.now).value

    def _queue_manager(self, identifier: bytes) -> QueueManager | None:
        """This queue manager as it knows itself, or another one as the directory knows it."""
        own = self.events.local.queue_manager
        if identifier == own.identifier:
            return own
        return self._known_queue_manager(identifier) if self.is_integrated else None

    def _user(self, sid: Sid) -> User | None:
        filters = (AttributeFilter("security_identifier", Operator.EQUALS, sid),)
        return self.events.read_directory(Query(User, filters), self._kernel.now).value

    def _update(self, own: QueueManager, names: HostNames, quota: int) -> None:
        changed = replace(
            own,
            computer_name=names.computer_name,
            qualified_computer_name=names.qualified_computer_name,
            queue_manager_quota=quota,
        )
        if changed != own:
            status = self.events.write_directory(changed, self._kernel.now)
            if status is not DirectoryOperationResult.SUCCESS:
                raise directory_error(status, "accept the names of this computer")
            for queue in self._manager.queues.values():
                self.publish(queue)

    def _provision(self, names: HostNames) -> None:
        if self.events.read_directory(Query(Enterprise), self._kernel.now).value is None:
            self._create(Enterprise())
        initialize(self.events, names, Provisioning(), self._kernel.now)
        self._create(self.events.local.queue_manager)

    def _create(self, item: DirectoryObject) -> None:
        status = self.events.create_directory_object(item, self._kernel.now).status
        if status is not DirectoryOperationResult.SUCCESS:
            raise directory_error(status, f"accept the {type(item).__name__} of this computer")

    def _take_over(self, item: QueueManager, batch: Batch) -> None:
        manager = self._manager
        attributes = replace(
            manager.attributes,
            queue_manager_quota=item.queue_manager_quota,
            journal_quota=item.journal_quota,
            security=b"" if item.security is None else item.security.encode(),
        )
        if attributes != manager.attributes:
            manager.modify(attributes, self._kernel.now)
            manager_store.write(batch, manager)

    def _take_over_queue(self, item: Queue) -> None:
        """Take over the attributes of a queue that can change."""
        queue = self._manager.find_queue(PublicFormatName(item.identifier))
        if queue is None:
            return
        attributes = queue_attributes(item, queue.attributes)
        if attributes != queue.attributes:
            self._manager.modify_queue(queue, attributes, self._kernel.now)
            queue.modify_time = item.modify_time


def _is_public(queue: queues.Queue) -> bool:
    """Whether the directory can know the queue: outgoing queues, journals and subqueues have no object."""
    is_own = queue.parent is None and not isinstance(queue, queues.OutgoingQueue)
    return is_own and queue.queue_type is QueueKind.PUBLIC


def _object_of(manager: queue_manager.QueueManager) -> QueueManager:
    identity, attributes = manager.identity, manager.attributes
    return QueueManager(
        identifier=identity.identifier,
        computer_name=identity.computer_name,
        qualified_computer_name=identity.qualified_computer_name,
        create_time=attributes.create_time,
        modify_time=attributes.modify_time,
        queue_manager_quota=attributes.queue_manager_quota,
        journal_quota=attributes.journal_quota,
        security=SecurityDescriptor.decode(attributes.security) if attributes.security else None,
    )
