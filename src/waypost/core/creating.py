"""Create, change and delete queues: MS-MQDMPR 3.1.7.1.3, 3.1.7.1.4 and 3.1.7.1.33.

A public queue is one that the directory knows: it is published before it is created, and withdrawn after it is deleted.
A journal and the subqueues are created and deleted with their queue (readings MQDMPR 3.AA).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.ports import Directory
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes, base_priority
from waypost.core.reading import Reading
from waypost.core.writing import Writing
from waypost.errors import (
    AccessDenied,
    DirectoryNotConnected,
    InvalidParameter,
    LimitReached,
    PropertyNotAllowed,
    QueueExists,
    QueueNotFound,
)
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.limits import MAX_QUEUE_LABEL, MAX_SUBQUEUES
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_checks import utf16_units
from waypost.wire.property_values import UNLIMITED, QueuePrivacy

# The descriptor of a new queue, from the attributes that the caller gave (MS-MQDMPR 3.1.7.1.3.1).
DefaultSecurity = Callable[[QueueAttributes], bytes]


class Creating:
    """The events on the QueueCollection of one queue manager. `directory` is None in workgroup mode."""

    __slots__ = ("_check_ready", "_default_security", "_directory", "_queues", "_reading", "_writing")

    def __init__(
        self,
        queues: QueueCollection,
        reading: Reading,
        writing: Writing,
        *,
        directory: Directory | None,
        default_security: DefaultSecurity,
        check_ready: Callable[[], None],
    ) -> None:
        self._queues: Final = queues
        self._reading: Final = reading
        self._writing: Final = writing
        self._directory: Final = directory
        self._default_security: Final = default_security
        self._check_ready: Final = check_ready

    def create_queue(self, attributes: QueueAttributes, now: Now, *, skip_directory: bool = False) -> Queue:
        """MS-MQDMPR 3.1.7.1.3.

        Raises IllegalPathName, InvalidParameter if the path is on another computer, QueueExists if it is taken
        (readings MQDMPR 3.AA), QueueNotFound for a subqueue of nothing, LimitReached for one too many, and
        DirectoryError if a public queue is not published. Nothing is created then.
        """
        self._check_ready()
        _check_values(attributes)
        path = PathName.parse(str(attributes.pathname))
        identity = self._queues.identity
        if not identity.is_local(path.computer):
            raise InvalidParameter(f"{path} is on another computer")
        path = replace(path, computer=identity.computer_name)
        if path.subqueue:
            return self.create_subqueue(path, now)
        if path in self._queues.by_path:
            raise QueueExists(f"the queue {path} already exists")
        attributes = replace(
            attributes,
            pathname=path,
            security=self._default_security(attributes),
            base_priority=base_priority(path, attributes.base_priority),
        )
        queue = self._queues.new_queue(attributes, now)
        if path.kind is QueueKind.PUBLIC and not skip_directory:
            self._publish(queue)
        self._queues.add(queue)
        journal = self._queues.new_queue(QueueAttributes(path, quota=attributes.journal_quota), now)
        journal.parent = queue
        self._queues.add(journal)
        return queue

    def create_subqueue(self, path: PathName, now: Now, *, is_provisional: bool = False) -> Queue:
        """The subqueue with this path. A provisional one is kept when it is opened for more than a look at it.

        Raises QueueNotFound without its queue, QueueExists, AccessDenied for a queue of the queue manager itself, and
        LimitReached if it has too many.
        """
        parent = self._queues.by_path.get(replace(path, subqueue=""))
        if parent is None:
            raise QueueNotFound(f"the queue of the subqueue {path} does not exist")
        if parent.queue_type is QueueKind.SYSTEM:
            raise AccessDenied(f"{parent} cannot have subqueues")
        if path.subqueue.casefold() in parent.subqueues:
            raise QueueExists(f"the subqueue {path} already exists")
        if len(parent.subqueues) >= MAX_SUBQUEUES:
            raise LimitReached(f"{parent} has reached the limit of {MAX_SUBQUEUES} subqueues")
        attributes = replace(parent.attributes, pathname=path, journaling=False, quota=UNLIMITED)
        if is_provisional:
            return self._queues.add_provisional(attributes, parent, now)
        queue = self._queues.new_queue(attributes, now)
        queue.parent = parent
        self._queues.add(queue)
        return queue

    def modify_queue(self, queue: Queue, attributes: QueueAttributes, now: Now) -> None:
        """Change the attributes of a queue.

        Raises QueueNotFound if it is deleted, and PropertyNotAllowed for attributes that cannot change.
        """
        self._check_ready()
        _check_presence(queue)
        _check_values(attributes)
        if (attributes.pathname, attributes.transactional) != (queue.pathname, queue.attributes.transactional):
            raise PropertyNotAllowed("cannot change the path or the property `transactional` of a queue")
        queue.attributes = replace(
            attributes,
            security=self._default_security(attributes),
            base_priority=base_priority(queue.pathname, attributes.base_priority),
        )
        queue.modify_time = int(now.wall)
        self._queues.changed(queue)
        if queue.journal is not None and queue.journal.attributes.quota != attributes.journal_quota:
            queue.journal.attributes.quota = attributes.journal_quota
            self._queues.changed(queue.journal)

    def delete_queue(self, queue: Queue, *, skip_directory: bool = False) -> None:
        """MS-MQDMPR 3.1.7.1.4. Deletes its subqueues and its journal too (readings MQDMPR 3.AA).

        Raises QueueNotFound if it is deleted already, InvalidParameter for a journal or a queue of the queue manager
        itself, and DirectoryError if a public queue is not withdrawn from the directory: then it is deleted all the
        same.
        """
        self.check_deletable(queue)
        for part in (*queue.subqueues.values(), queue.journal):
            if part is not None:
                self._clear_away(part)
        self._clear_away(queue)
        if self._directory is not None and _is_published(queue) and not skip_directory:
            self._directory.delete_queue(queue)

    def check_deletable(self, queue: Queue) -> None:
        """Raise the errors that delete_queue raises before any change."""
        self._check_ready()
        _check_presence(queue)
        if queue.is_journal or queue.queue_type is QueueKind.SYSTEM:
            raise InvalidParameter(f"{queue} is a journal or a system queue, which applications cannot delete")

    def _publish(self, queue: Queue) -> None:
        if self._directory is None:
            raise DirectoryNotConnected(
                f"{queue} is a public queue and requires a directory, but this queue manager has no directory; create "
                "a private queue"
            )
        queue.identifier = self._directory.create_queue(queue)
        paths = self._directory.paths_of(queue)
        if paths is not None:
            queue.full_path, queue.directory_path = paths

    def _clear_away(self, queue: Queue) -> None:
        """readings MQDMPR 3.K: waiting reads end with an error."""
        self._writing.delete_messages(queue)
        for descriptor in queue.descriptors.values():
            self._reading.end_waits(descriptor.waiting.values(), HResult.MQ_ERROR_QUEUE_DELETED)
            descriptor.two_phase_reads.clear()
            descriptor.queue = None
        queue.descriptors.clear()
        queue.deniers = 0
        self._queues.remove(queue)


def _check_values(attributes: QueueAttributes) -> None:
    """MS-MQMQ 2.3.1: check the properties of a queue."""
    if not (0 <= attributes.quota <= UNLIMITED and 0 <= attributes.journal_quota <= UNLIMITED):
        raise InvalidParameter(f"the quota must be 0 to {UNLIMITED} kilobytes; {UNLIMITED} means no limit")
    if not -0x8000 <= attributes.base_priority <= 0x7FFF:
        raise InvalidParameter(f"the base priority must be -32768 to 32767, not {attributes.base_priority}")
    if len(attributes.type_guid) != len(NULL_GUID):
        raise InvalidParameter(
            f"the type of a queue must be a GUID of {len(NULL_GUID)} bytes, but has {len(attributes.type_guid)} bytes"
        )
    if not isinstance(attributes.privacy_level, QueuePrivacy):
        raise InvalidParameter(f"{attributes.privacy_level} is not a privacy level")
    if utf16_units(attributes.label) > MAX_QUEUE_LABEL:
        raise InvalidParameter(f"the label must have at most {MAX_QUEUE_LABEL} characters")


def _check_presence(queue: Queue) -> None:
    if queue.is_deleted:
        raise QueueNotFound(f"{queue} was deleted")


def _is_published(queue: Queue) -> bool:
    """Whether it has a directory object: subqueues have none, and an outgoing queue belongs to another computer."""
    return queue.queue_type is QueueKind.PUBLIC and queue.parent is None and not isinstance(queue, OutgoingQueue)
