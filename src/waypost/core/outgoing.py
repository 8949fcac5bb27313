"""Outgoing queues: how they come to be, and the states that are not the transfer protocol's own.

MS-MQDMPR 3.1.7.1.5 makes them, 3.1.3 locks and unlocks them at a start, 3.1.4.14 and 3.1.4.15 (3.1.7.2.3 and 3.1.7.2.4)
pause and resume them. With HardenedSecurity only HTTP leaves this computer, so every other outgoing queue is Locked.
"""

from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.core.dispatch import Dispatch
from waypost.core.ports import Directory, PublicQueue, QueuePaused, QueueResumed
from waypost.core.position_events import PositionEvents
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import OutgoingQueue, OutgoingQueueState, QueueAttributes
from waypost.errors import QueueNotFound, UnsupportedFormatName
from waypost.guid import guid_text
from waypost.wire.direct_names import DEFAULT_PORTS
from waypost.wire.format_names import (
    ConnectorFormatName,
    DirectFormatName,
    FormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
)
from waypost.wire.path_names import PathName, QueueKind


def is_http(name: FormatName) -> bool:
    return isinstance(name, DirectFormatName) and name.protocol in DEFAULT_PORTS


def destination_path(name: FormatName) -> PathName:
    """A path for a queue elsewhere. Only a direct name tells the real one; another name is written as a path."""
    match name:
        case DirectFormatName():
            return PathName(name.host, name.kind, name.queue, name.subqueue)
        case PrivateFormatName():
            return PathName(guid_text(name.computer_guid), QueueKind.PRIVATE, f"{name.number:08x}")
    keyword, _, value = str(name).partition("=")
    return PathName(keyword, QueueKind.PUBLIC, value)


class OutgoingQueues:
    """`hardened_security` tells whether the queue manager has it now. `directory` is None in workgroup mode."""

    __slots__ = ("_directory", "_dispatch", "_hardened_security", "_positions", "_queues")

    def __init__(
        self,
        queues: QueueCollection,
        positions: PositionEvents,
        dispatch: Dispatch,
        *,
        directory: Directory | None,
        hardened_security: Callable[[], bool],
    ) -> None:
        self._queues: Final = queues
        self._positions: Final = positions
        self._dispatch: Final = dispatch
        self._directory: Final = directory
        self._hardened_security: Final = hardened_security

    def create(self, name: FormatName, now: Now) -> OutgoingQueue:
        """The end of MS-MQDMPR 3.1.7.1.5: the queue for a name that no queue has yet.

        Raises QueueNotFound if the name is of this computer, UnsupportedFormatName if nothing can be sent to it.
        """
        base_priority = self._base_priority(name)
        attributes = QueueAttributes(destination_path(name), label=str(name), base_priority=base_priority)
        queue = self._queues.new_outgoing_queue(name, attributes, now)
        queue.state = self._idle_state(queue)
        self._queues.add(queue)
        return queue

    def pause_queue(self, queue: OutgoingQueue) -> None:
        """MS-MQDMPR 3.1.7.2.3. What waited to be sent is told again when the queue goes on (MS-MQQB 3.1.7.14)."""
        queue.state = OutgoingQueueState.ON_HOLD
        self._dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
        self._positions.events.append(QueuePaused(queue))

    def resume_queue(self, queue: OutgoingQueue) -> None:
        """MS-MQDMPR 3.1.7.2.4."""
        queue.state = self._idle_state(queue)
        self._positions.events.append(QueueResumed(queue))

    def initialize(self) -> None:
        """MS-MQDMPR 3.1.3: HardenedSecurity may be another than at the last start."""
        for queue in self._queues.outgoing.values():
            if self._is_locked(queue):
                queue.state = OutgoingQueueState.LOCKED
            elif queue.state is OutgoingQueueState.LOCKED:
                queue.state = OutgoingQueueState.WAITING

    def _is_locked(self, queue: OutgoingQueue) -> bool:
        return self._hardened_security() and not is_http(queue.destination_format_name)

    def _idle_state(self, queue: OutgoingQueue) -> OutgoingQueueState:
        return OutgoingQueueState.LOCKED if self._is_locked(queue) else OutgoingQueueState.INACTIVE

    def _base_priority(self, name: FormatName) -> int:
        """The BasePriority of a destination, which the directory knows of public queues."""
        identity = self._queues.identity
        match name:
            case PublicFormatName(guid):
                return self._base_priority_of_public(guid)
            case DirectFormatName():
                is_here = identity.is_local(name.host)
            case PrivateFormatName(computer_guid):
                is_here = computer_guid == identity.identifier
            case ConnectorFormatName() | MulticastFormatName():
                is_here = False
            case _:
                raise UnsupportedFormatName(f"{name} cannot be sent to")
        if is_here:
            raise QueueNotFound(f"{name} is no queue of this computer")
        return 0

    def _base_priority_of_public(self, guid: bytes) -> int:
        """readings MQDMPR 3.X: no directory is like one that does not know the queue."""
        known = self._read(guid)
        if known is None:
            raise UnsupportedFormatName(f"the directory has no public queue {guid_text(guid)}")
        if self._queues.identity.is_local(known.computer_name):
            raise QueueNotFound(f"{known.pathname} is in the directory, but there is no such queue on this computer")
        # The text reads twice, and tells apart a queue that was never there and one that goes in between.
        known = self._read(guid)
        if known is None:
            raise QueueNotFound(f"the public queue {guid_text(guid)} was deleted just now")
        return known.base_priority

    def _read(self, guid: bytes) -> PublicQueue | None:
        return None if self._directory is None else self._directory.find_queue(guid)
