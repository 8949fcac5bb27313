"""QueueCollection of MS-MQDMPR 3.1.1.1: every queue of one queue manager, by each of the names it has.

A queue gets its permanent number here, and is entered and removed only here; an event reports each change to storage.
`restore` enters a stored queue without an event.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.ports import QueueChanged, QueueDeleted
from waypost.core.position_events import PositionEvents
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes
from waypost.core.system import SYSTEM_QUEUES, Identity
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    MachineFormatName,
    PrivateFormatName,
    PublicFormatName,
    Suffix,
)
from waypost.wire.packet_names import direct_format_name
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.transactional_acks import ORDER_QUEUE_NUMBER

_MAX_NAMES: Final = 1024
_SUFFIXES: Final = {name: suffix for suffix, name in SYSTEM_QUEUES.items()}


class QueueCollection:
    """`by_number` has every queue, journals and subqueues too; `by_path` those of this computer that have a path."""

    __slots__ = (
        "_by_text",
        "_identity",
        "_new_guid",
        "_own",
        "_positions",
        "_private",
        "_public",
        "by_number",
        "by_path",
        "last_number",
        "last_private_number",
        "outgoing",
        "system",
    )

    def __init__(self, identity: Identity, positions: PositionEvents, new_guid: Callable[[], bytes]) -> None:
        self._identity = identity
        # The queues that packets have named recently, by the text of the name.
        self._by_text: dict[str, Queue] = {}
        self._positions: Final = positions
        self._new_guid: Final = new_guid
        self.by_number: dict[int, Queue] = {}
        self.by_path: dict[PathName, Queue] = {}
        self.system: dict[Suffix, Queue] = {}
        self.outgoing: dict[FormatName, OutgoingQueue] = {}
        self._private: dict[int, Queue] = {}
        self._public: dict[bytes, Queue] = {}
        # Number of internal queues in `by_path`.
        self._own = 0
        self.last_number = 0
        # MS-MQQB 2.2.4: the order queue of every queue manager has this one; applications get those behind it.
        self.last_private_number = ORDER_QUEUE_NUMBER

    @property
    def identity(self) -> Identity:
        return self._identity

    @identity.setter
    def identity(self, identity: Identity) -> None:
        self._identity = identity
        self._by_text.clear()

    @property
    def count(self) -> int:
        """Number of queues that applications have created on this computer, without journals and subqueues."""
        return len(self.by_path) - self._own

    def new_queue(self, attributes: QueueAttributes, now: Now) -> Queue:
        """A queue with a number, which is not yet among the others."""
        qualified = replace(attributes.pathname, computer=self._identity.qualified_computer_name)
        queue = Queue(self._new_number(), self._new_guid(), attributes, qualified)
        queue.create_time = queue.modify_time = int(now.wall)
        return queue

    def new_outgoing_queue(self, name: FormatName, attributes: QueueAttributes, now: Now) -> OutgoingQueue:
        """A queue with a number for a queue of another computer."""
        queue = OutgoingQueue(
            self._new_number(), self._new_guid(), attributes, attributes.pathname, destination_format_name=name
        )
        queue.create_time = queue.modify_time = int(now.wall)
        return queue

    def add(self, queue: Queue) -> None:
        if queue.queue_type is QueueKind.PRIVATE and queue.parent is None and not isinstance(queue, OutgoingQueue):
            self.last_private_number += 1
            queue.private_queue_number = self.last_private_number
        self._enter(queue)
        self.changed(queue)

    def add_provisional(self, attributes: QueueAttributes, parent: Queue, now: Now) -> Queue:
        """Add a subqueue for clients that look into it, until `changed` keeps it or `remove` removes it."""
        qualified = replace(attributes.pathname, computer=self._identity.qualified_computer_name)
        queue = Queue(0, self._new_guid(), attributes, qualified, parent=parent, is_provisional=True)
        queue.create_time = queue.modify_time = int(now.wall)
        parent.subqueues[attributes.pathname.subqueue.casefold()] = queue
        return queue

    def changed(self, queue: Queue) -> None:
        """Note that persistent attributes of the queue have changed."""
        if queue.is_provisional:
            queue.is_provisional = False
            queue.number = self._new_number()
            self._enter(queue)
        self._positions.events.append(QueueChanged(queue))

    def restore(self, queue: Queue) -> None:
        """Enter a stored queue; its parent is there already. Its numbers are never used again."""
        self._enter(queue)
        self.last_number = max(self.last_number, queue.number)
        self.last_private_number = max(self.last_private_number, queue.private_queue_number)

    def remove(self, queue: Queue) -> None:
        """Remove a queue without messages."""
        self._by_text.clear()
        if queue.is_provisional:
            assert queue.parent is not None
            del queue.parent.subqueues[queue.pathname.subqueue.casefold()]
            queue.is_deleted = True
            return
        del self.by_number[queue.number]
        if isinstance(queue, OutgoingQueue):
            del self.outgoing[queue.destination_format_name]
        elif queue.parent is None:
            del self.by_path[queue.pathname]
            self._own -= queue.queue_type is QueueKind.SYSTEM
            self._private.pop(queue.private_queue_number, None)
            self._public.pop(queue.identifier, None)
        elif not queue.is_journal:
            del queue.parent.subqueues[queue.pathname.subqueue.casefold()]
        queue.is_deleted = True
        self._positions.events.append(QueueDeleted(queue))

    def find(self, name: FormatName) -> Queue | None:
        """The queue of this computer that a format name means."""
        match name:
            case PrivateFormatName(self._identity.identifier, number, suffix):
                return _part(self._private.get(number), suffix)
            case PublicFormatName(guid, suffix):
                return _part(self._public.get(guid), suffix)
            case MachineFormatName(self._identity.identifier, suffix):
                return self.system.get(suffix)
            case DirectFormatName() if self._identity.is_local(name.host):
                return self._find_direct(name)
        return None

    def find_named(self, text: str) -> Queue | None:
        """The queue of this computer that the direct name of a packet means. Most packets name few queues."""
        queue = self._by_text.get(text)
        if queue is None:
            queue = self.find(direct_format_name(text))
            if queue is not None:
                if len(self._by_text) >= _MAX_NAMES:
                    self._by_text.clear()
                self._by_text[text] = queue
        return queue

    def local_path(self, name: DirectFormatName) -> PathName:
        """The path of the queue, without its subqueue, that a direct name on this computer means."""
        return PathName(self._identity.computer_name, name.kind, name.queue)

    def _new_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _enter(self, queue: Queue) -> None:
        self._by_text.clear()
        self.by_number[queue.number] = queue
        path = queue.pathname
        if isinstance(queue, OutgoingQueue):
            self.outgoing[queue.destination_format_name] = queue
        elif queue.is_journal:
            assert queue.parent is not None
            queue.parent.journal = queue
        elif queue.parent is not None:
            queue.parent.subqueues[path.subqueue.casefold()] = queue
        else:
            self._own += path not in self.by_path and queue.queue_type is QueueKind.SYSTEM
            self.by_path[path] = queue
            if queue.private_queue_number:
                self._private[queue.private_queue_number] = queue
            elif path.kind is QueueKind.PUBLIC:
                self._public[queue.identifier] = queue
            elif path.kind is QueueKind.SYSTEM and path.queue in _SUFFIXES:
                self.system[_SUFFIXES[path.queue]] = queue

    def _find_direct(self, name: DirectFormatName) -> Queue | None:
        if name.kind is QueueKind.SYSTEM:
            return self.system.get(name.suffix)
        queue = self.by_path.get(self.local_path(name))
        if queue is not None and name.subqueue:
            queue = queue.subqueues.get(name.subqueue.casefold())
        return _part(queue, name.suffix)


def _part(queue: Queue | None, suffix: Suffix) -> Queue | None:
    return queue.journal if queue is not None and suffix is Suffix.JOURNAL else queue
