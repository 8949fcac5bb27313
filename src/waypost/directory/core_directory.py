"""The directory as the core knows it: waypost.core.ports.Directory on top of the directory events."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

from waypost.clock import Now
from waypost.core import queues
from waypost.core.ports import PublicQueue
from waypost.directory.attributes import codecs_of
from waypost.directory.events import DirectoryEvents
from waypost.directory.names import expand_format_name
from waypost.directory.objects import ASSIGNED, Queue, QueueManager
from waypost.directory.queries import AttributeFilter, Operator, Query, by_identifier
from waypost.directory.results import DirectoryOperationResult, directory_error
from waypost.guid import NULL_GUID
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.security_descriptor import SecurityDescriptor

# Attributes that a queue has itself.
_GIVEN: Final = tuple(name for name in codecs_of(Queue) if name not in ASSIGNED)
# The properties of a queue that the directory has in the same form.
_SHARED: Final = tuple(
    each.name
    for each in fields(queues.QueueAttributes)
    if each.name in _GIVEN and each.name not in ("pathname", "security")
)


def queue_object(queue: queues.Queue) -> Queue:
    """A queue of the core as a directory object. Raises DecodeError and IllegalSecurityDescriptor."""
    attributes = queue.attributes
    return Queue(
        identifier=queue.identifier,
        create_time=queue.create_time,
        modify_time=queue.modify_time,
        pathname=str(queue.pathname),
        qualified_pathname=str(queue.qualified_pathname),
        private_queue_number=queue.private_queue_number,
        security=SecurityDescriptor.decode(attributes.security) if attributes.security else None,
        full_path=queue.full_path,
        directory_path=queue.directory_path,
        queue_type=queue.queue_type,
        **{name: getattr(attributes, name) for name in _SHARED},
    )


def queue_attributes(item: Queue, known: queues.QueueAttributes) -> queues.QueueAttributes:
    """Take over a directory object into a queue of this computer; fixed and other attributes stay as they are."""
    return replace(
        known,
        security=b"" if item.security is None else item.security.encode(),
        **{name: getattr(item, name) for name in _SHARED if name != "transactional"},
    )


class CoreDirectory:
    """`now` gives the time of the event that the core is at."""

    __slots__ = ("events", "now")

    def __init__(self, events: DirectoryEvents, now: Callable[[], Now]) -> None:
        self.events: Final = events
        self.now: Final = now

    def create_queue(self, queue: queues.Queue) -> bytes:
        result = self.events.create_directory_object(queue_object(queue), self.now())
        if result.value is None:
            raise directory_error(result.status, f"create {queue.pathname}")
        return result.value

    def delete_queue(self, queue: queues.Queue) -> None:
        status = self.events.delete_directory_object(queue_object(queue), self.now())
        if status is not DirectoryOperationResult.SUCCESS:
            raise directory_error(status, f"delete {queue.pathname}")

    def write_queue(self, queue: queues.Queue) -> None:
        """Publish what has changed of a queue. One that was made without the directory stays unpublished."""
        item = queue_object(queue)
        read = self.events.read_directory(Query(Queue, by_identifier(queue.identifier)), self.now()).value
        changed = tuple(name for name in _GIVEN if read is not None and getattr(read, name) != getattr(item, name))
        if not changed:
            return
        status = self.events.write_directory(item, self.now(), attribute_list=changed)
        if status is not DirectoryOperationResult.SUCCESS:
            raise directory_error(status, f"update {queue.pathname}")

    def paths_of(self, queue: queues.Queue) -> tuple[str, str] | None:
        attributes = ("full_path", "directory_path")
        query = Query(Queue, by_identifier(queue.identifier), attributes)
        read = self.events.read_directory(query, self.now()).value
        return None if read is None else (read.full_path, read.directory_path)

    def find_queue(self, identifier: bytes) -> PublicQueue | None:
        """A queue manager that the directory does not know has NULL_GUID as its identifier."""
        queue = self.events.read_directory(Query(Queue, by_identifier(identifier)), self.now()).value
        if queue is None:
            return None
        filters = (AttributeFilter("computer_name", Operator.EQUALS, queue.computer_name),)
        manager = self.events.read_directory(Query(QueueManager, filters, ("computer_name",)), self.now()).value
        return PublicQueue(
            queue.pathname,
            NULL_GUID if manager is None else manager.identifier,
            queue.computer_name,
            queue.base_priority,
        )

    def computer_name(self, queue_manager: bytes) -> str | None:
        query = Query(QueueManager, by_identifier(queue_manager), ("computer_name",))
        read = self.events.read_directory(query, self.now()).value
        return None if read is None else read.computer_name

    def expand_format_name(self, name: FormatName) -> FormatName:
        """MS-MQDMPR 3.1.7.3.8. Raises UnsupportedFormatName."""
        return expand_format_name(name, self.members)

    def members(self, name: DistributionListFormatName) -> tuple[FormatName, ...] | None:
        return self.events.resolve_distribution_list(name, self.now()).value
