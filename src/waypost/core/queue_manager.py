"""The queues of one queue manager and the handles on them: MS-MQDMPR 3.1.7.1.1 to 3.1.7.1.6, and its clock.

Everything that reads and writes messages is in Reading, Writing and Transactions; this object owns them, and makes and
finds queues. Whoever raised an event takes what it led to with `take_events`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from waypost.clock import Now
from waypost.core.cursors import Cursor
from waypost.core.ports import Event, MessageTable
from waypost.core.position_events import PositionEvents
from waypost.core.queues import (
    UNLIMITED,
    AccessType,
    OpenQueueDescriptor,
    Queue,
    QueueAttributes,
    ShareMode,
)
from waypost.core.reading import Reading
from waypost.core.transactions import Transactions
from waypost.core.writing import Writing
from waypost.errors import (
    InvalidParameter,
    PropertyNotAllowed,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatName,
)
from waypost.hresult import HResult
from waypost.wire.direct_names import Protocol
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    MultipleElementFormatName,
    PrivateFormatName,
    PublicFormatName,
    Suffix,
)
from waypost.wire.path_names import PathName, QueueKind

# MS-MQDMPR 3.1.3: the system queues that applications can open, by the suffix that names them.
SYSTEM_QUEUES: Final = {
    Suffix.JOURNAL: "journal",
    Suffix.DEADLETTER: "deadletter",
    Suffix.DEADXACT: "deadxact",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """QueueManager.Identifier, ComputerName and QualifiedComputerName, and the other names that mean this computer."""

    identifier: bytes
    computer_name: str
    qualified_computer_name: str
    addresses: frozenset[str] = field(default_factory=frozenset)

    def is_local(self, host: str) -> bool:
        names = {self.computer_name.casefold(), self.qualified_computer_name.casefold(), "."}
        return host.casefold() in names or host in self.addresses


class QueueManager:
    """MS-MQDMPR 3.1.1.1, as far as queues go."""

    __slots__ = (
        "_last_handle",
        "_last_number",
        "_last_private_number",
        "_new_guid",
        "_positions",
        "_private_queues",
        "_public_queues",
        "identity",
        "queues",
        "reading",
        "system_queues",
        "transactions",
        "writing",
    )

    def __init__(self, identity: Identity, messages: MessageTable, new_guid: Callable[[], bytes]) -> None:
        self.identity: Final = identity
        self._new_guid: Final = new_guid
        self._positions: Final = PositionEvents(messages)
        self.transactions: Final = Transactions(self._positions)
        self.reading: Final = Reading(self._positions, self.transactions)
        self.writing: Final = Writing(self._positions, self.transactions)
        self.queues: dict[PathName, Queue] = {}
        self._private_queues: dict[int, Queue] = {}
        self._public_queues: dict[bytes, Queue] = {}
        self._last_handle = 0
        self._last_number = 0
        # MS-MQQB 2.2.4: 4 is the order queue of every queue manager; applications get the numbers behind it.
        self._last_private_number = 4
        self.system_queues: Final = {
            suffix: self._queue(QueueAttributes(PathName(identity.computer_name, QueueKind.SYSTEM, name)), 0)
            for suffix, name in SYSTEM_QUEUES.items()
        }

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self._positions.events = self._positions.events, []
        return events

    def tick(self, now: Now) -> None:
        """Fire every timer that is due."""
        self._positions.expire(now.wall)
        self.reading.expire(now.monotonic)

    def next_deadline(self, now: Now) -> float | None:
        """The monotonic time at which `tick` has something to do, as the clocks stand now."""
        expiry = self._positions.next_expiry
        deadlines = [self.reading.next_deadline, None if expiry is None else now.monotonic + expiry - now.wall]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def set_quota(self, kilobytes: int) -> None:
        """QueueManagerQuota (readings MQDMPR 3.F)."""
        self._positions.quota = kilobytes

    @property
    def total_bytes(self) -> int:
        return self._positions.total_bytes

    def create_queue(self, attributes: QueueAttributes, now: Now) -> Queue:
        """MS-MQDMPR 3.1.7.1.3 without its directory.

        Raises IllegalPathName, InvalidParameter if the path is on another computer, QueueExists if it is taken
        (readings MQDMPR 3.AA), and QueueNotFound for a subqueue of nothing.
        """
        path = PathName.parse(str(attributes.pathname))
        if not self.identity.is_local(path.computer):
            raise InvalidParameter(f"{path} is on another computer")
        path = replace(path, computer=self.identity.computer_name)
        if path.subqueue:
            return self._create_subqueue(path, now)
        if path in self.queues:
            raise QueueExists(f"there is already a queue {path}")
        queue = self._queue(replace(attributes, pathname=path), now.wall)
        queue.journal = self._queue(QueueAttributes(path, quota=attributes.journal_quota), now.wall)
        queue.journal.parent = queue
        self.queues[path] = queue
        if queue.queue_type is QueueKind.PRIVATE:
            self._last_private_number += 1
            queue.private_queue_number = self._last_private_number
            self._private_queues[queue.private_queue_number] = queue
        elif queue.queue_type is QueueKind.PUBLIC:
            self._public_queues[queue.identifier] = queue
        return queue

    def modify_queue(self, queue: Queue, attributes: QueueAttributes, now: Now) -> None:
        """Give a queue other attributes. Raises PropertyNotAllowed for those that it has for life."""
        if (attributes.pathname, attributes.transactional) != (queue.pathname, queue.attributes.transactional):
            raise PropertyNotAllowed("the path of a queue, and whether it is transactional, are for life")
        queue.attributes = replace(attributes)
        queue.modify_time = int(now.wall)
        if queue.journal is not None:
            queue.journal.attributes.quota = attributes.journal_quota

    def delete_queue(self, queue: Queue) -> None:
        """MS-MQDMPR 3.1.7.1.4. Its subqueues and its journal go with it (readings MQDMPR 3.AA).

        Raises InvalidParameter for a journal or a queue of the queue manager itself.
        """
        if queue.is_journal or queue in self.system_queues.values():
            raise InvalidParameter(f"{queue.pathname} is not deleted alone")
        for subqueue in tuple(queue.subqueues.values()):
            self.delete_queue(subqueue)
        if queue.journal is not None:
            self._clear_away(queue.journal)
        self._clear_away(queue)
        if queue.parent is not None:
            del queue.parent.subqueues[queue.pathname.subqueue.casefold()]
            return
        del self.queues[queue.pathname]
        self._private_queues.pop(queue.private_queue_number, None)
        self._public_queues.pop(queue.identifier, None)

    def find_queue(self, name: FormatName) -> Queue | None:
        """The queue of this computer that a format name means."""
        match name:
            case PrivateFormatName(self.identity.identifier, number, suffix):
                return _part(self._private_queues.get(number), suffix)
            case PublicFormatName(guid, suffix):
                return _part(self._public_queues.get(guid), suffix)
            case MachineFormatName(self.identity.identifier, suffix):
                return self.system_queues.get(suffix)
            case DirectFormatName() if self.identity.is_local(name.host):
                return self._find_direct(name)
        return None

    def open_queue(self, name: FormatName, access: AccessType, share: ShareMode, now: Now) -> OpenQueueDescriptor:
        """MS-MQDMPR 3.1.7.1.5 for the queues of this computer.

        Raises UnsupportedFormatName, UnsupportedAccessMode, QueueNotFound and SharingViolation.
        """
        if isinstance(name, MultipleElementFormatName):
            return self._open_multiple(name, access, share, now)
        if access is not AccessType.SEND and _is_only_for_sending(name):
            raise UnsupportedFormatName(f"{name} can only be sent to")
        if access is AccessType.SEND and name.is_read_only:
            raise UnsupportedFormatName(f"{name} cannot be sent to")
        queue = self.find_queue(name)
        if queue is None and access is not AccessType.SEND:
            queue = self._subqueue_on_demand(name, now)
        if queue is None:
            raise QueueNotFound(f"{name} is no queue of this computer")
        _check_sharing(queue, access, share)
        descriptor = OpenQueueDescriptor(self._handle(), self._handle(), queue, access, share, name)
        queue.descriptors[descriptor.handle] = descriptor
        return descriptor

    def close_queue(self, descriptor: OpenQueueDescriptor) -> None:
        """MS-MQDMPR 3.1.7.1.6. readings MQDMPR 3.D, MQDMPR 3.K: several queues first, and every wait ends."""
        for child in descriptor.multiple:
            self.close_queue(child)
        queue = descriptor.queue
        if queue is None:
            return
        self.reading.end_waits(descriptor.waiting.values(), HResult.MQ_ERROR_OPERATION_CANCELLED)
        self.reading.end_two_phase_reads(descriptor)
        descriptor.cursors.clear()
        del queue.descriptors[descriptor.handle]
        descriptor.queue = None

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor | None:
        """MS-MQDMPR 3.1.7.1.1."""
        if descriptor.queue is None:
            return None
        cursor = Cursor(self._handle(), descriptor.queue.positions)
        descriptor.cursors[cursor.handle] = cursor
        return cursor

    def close_cursor(self, descriptor: OpenQueueDescriptor, cursor: Cursor) -> None:
        """MS-MQDMPR 3.1.7.1.2."""
        waits = [wait for wait in descriptor.waiting.values() if wait.request.cursor is cursor]
        self.reading.end_waits(waits, HResult.MQ_ERROR_OPERATION_CANCELLED)
        descriptor.cursors.pop(cursor.handle, None)

    def _handle(self) -> int:
        self._last_handle += 1
        return self._last_handle

    def _queue(self, attributes: QueueAttributes, time: float) -> Queue:
        self._last_number += 1
        qualified = replace(attributes.pathname, computer=self.identity.qualified_computer_name)
        queue = Queue(self._last_number, self._new_guid(), attributes, qualified)
        queue.create_time = queue.modify_time = int(time)
        return queue

    def _create_subqueue(self, path: PathName, now: Now) -> Queue:
        parent = self.queues.get(replace(path, subqueue=""))
        if parent is None:
            raise QueueNotFound(f"there is no queue for the subqueue {path}")
        if path.subqueue.casefold() in parent.subqueues:
            raise QueueExists(f"there is already a subqueue {path}")
        attributes = replace(parent.attributes, pathname=path, journaling=False, quota=UNLIMITED)
        queue = self._queue(attributes, now.wall)
        queue.parent = parent
        parent.subqueues[path.subqueue.casefold()] = queue
        return queue

    def _clear_away(self, queue: Queue) -> None:
        """readings MQDMPR 3.K: whoever waits is told."""
        self.writing.delete_messages(queue)
        for descriptor in queue.descriptors.values():
            self.reading.end_waits(descriptor.waiting.values(), HResult.MQ_ERROR_QUEUE_DELETED)
            descriptor.two_phase_reads.clear()
            descriptor.queue = None
        queue.descriptors.clear()
        queue.is_deleted = True

    def _find_direct(self, name: DirectFormatName) -> Queue | None:
        if name.kind is QueueKind.SYSTEM:
            return self.system_queues.get(name.suffix)
        queue = self.queues.get(PathName(self.identity.computer_name, name.kind, name.queue))
        if queue is not None and name.subqueue:
            queue = queue.subqueues.get(name.subqueue.casefold())
        return _part(queue, name.suffix)

    def _subqueue_on_demand(self, name: FormatName, now: Now) -> Queue | None:
        """readings MQDMPR 3.AA: a subqueue is there when somebody wants to read from it or move messages to it."""
        match name:
            case DirectFormatName(kind=kind, queue=queue, subqueue=subqueue, suffix=Suffix.SUBQUEUE):
                path = PathName(self.identity.computer_name, kind, queue)
                if self.identity.is_local(name.host) and path in self.queues:
                    return self._create_subqueue(replace(path, subqueue=subqueue), now)
        return None

    def _open_multiple(
        self, name: MultipleElementFormatName, access: AccessType, share: ShareMode, now: Now
    ) -> OpenQueueDescriptor:
        if access is not AccessType.SEND:
            raise UnsupportedFormatName(f"{name} can only be sent to")
        if share is not ShareMode.DENY_NONE:
            raise UnsupportedAccessMode("several queues cannot be denied to others")
        children: list[OpenQueueDescriptor] = []
        try:
            for element in name.elements:
                children.append(self.open_queue(element, access, share, now))  # noqa: PERF401, a failure needs what was opened
        except Exception:
            for child in children:
                self.close_queue(child)
            raise
        return OpenQueueDescriptor(
            self._handle(), self._handle(), None, access, share, name, multiple=tuple(children)
        )  # fmt: skip


def _part(queue: Queue | None, suffix: Suffix) -> Queue | None:
    return queue.journal if queue is not None and suffix is Suffix.JOURNAL else queue


def _is_only_for_sending(name: FormatName) -> bool:
    is_http = isinstance(name, DirectFormatName) and name.protocol in (Protocol.HTTP, Protocol.HTTPS)
    return is_http or isinstance(name, MulticastFormatName)


def _check_sharing(queue: Queue, access: AccessType, share: ShareMode) -> None:
    """MS-MQDMPR 3.1.7.1.5, readings MQDMPR 3.M."""
    for other in queue.descriptors.values():
        denies = other.share_mode is ShareMode.DENY_RECEIVE
        if other.access_type.can_receive:
            refused = share is ShareMode.DENY_RECEIVE or (denies and access.can_receive)
        else:
            refused = other.access_type.can_peek and denies and access.can_receive
        if refused:
            raise SharingViolation(f"another handle on {queue.pathname} excludes this one")
