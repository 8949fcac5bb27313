"""Outgoing queues: their creation and their states.

MS-MQDMPR 3.1.7.1.5 makes them, 3.1.3 locks and unlocks them at a start, 3.1.4.14 and 3.1.4.15 (3.1.7.2.3 and 3.1.7.2.4)
pause and resume them; transfer reports the rest (MS-MQQB 3.1.5). With HardenedSecurity only HTTP leaves this computer,
so every other outgoing queue is Locked. No event of a connection ends Locked or OnHold.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final

from waypost.clock import Now
from waypost.core.dispatch import Dispatch
from waypost.core.ports import Directory, PublicQueue, QueuePaused, QueueResumed
from waypost.core.position_events import PositionEvents
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import AccessType, OutgoingQueue, OutgoingQueueState, Queue, QueueAttributes
from waypost.errors import LimitReached, QueueNotFound, UnsupportedFormatName
from waypost.guid import guid_text
from waypost.limits import MAX_OUTGOING_QUEUES
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

State = OutgoingQueueState


class Happening(Enum):
    """Event that changes the State of an outgoing queue."""

    ADDRESS_UNKNOWN = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    DISCONNECTING = auto()
    DISCONNECTED = auto()
    PAUSED = auto()
    RESUMED = auto()
    LOCKED = auto()
    UNLOCKED = auto()


# MS-MQQB 3.1.5: a connection sets the state of its queue, from any state but the two below.
_OF_A_CONNECTION: Final = {
    Happening.ADDRESS_UNKNOWN: State.NEED_VALIDATION,
    Happening.CONNECTING: State.WAITING,
    Happening.CONNECTED: State.CONNECTED,
    Happening.DISCONNECTING: State.DISCONNECTING,
    Happening.DISCONNECTED: State.DISCONNECTED,
}
_HELD_BACK: Final = (State.LOCKED, State.ON_HOLD)

# MS-MQDMPR 3.1.1.3 State. A missing pair changes nothing.
STATES: Final[dict[tuple[State, Happening], State]] = {
    **{
        (state, happening): following
        for state in State
        if state not in _HELD_BACK
        for happening, following in _OF_A_CONNECTION.items()
    },
    **{(state, Happening.PAUSED): State.ON_HOLD for state in State},
    **{(state, Happening.RESUMED): State.INACTIVE for state in State},
    **{(state, Happening.LOCKED): State.LOCKED for state in State},
    (State.LOCKED, Happening.UNLOCKED): State.WAITING,
}


class Transport(Enum):
    """Transport between queue managers: the binary protocol of MS-MQQB, or SRMP over HTTP(S) or over PGM."""

    BINARY = auto()
    HTTP = auto()
    PGM = auto()


def is_http(name: FormatName) -> bool:
    return isinstance(name, DirectFormatName) and name.protocol in DEFAULT_PORTS


def needs_directory(name: FormatName) -> bool:
    """MS-MQQB 3.1.7.4 and 3.1.7.5: whether only the directory knows the address of the computer that it names."""
    return isinstance(name, PublicFormatName | PrivateFormatName | ConnectorFormatName)


def destination_path(name: FormatName) -> PathName:
    """A path for a queue elsewhere. Only a direct name has the real one; another name is written as a path."""
    match name:
        case DirectFormatName():
            return PathName(name.host, name.kind, name.queue, name.subqueue)
        case PrivateFormatName():
            return PathName(guid_text(name.computer_guid), QueueKind.PRIVATE, f"{name.number:08x}")
    keyword, _, value = str(name).partition("=")
    return PathName(keyword, QueueKind.PUBLIC, value)


class OutgoingQueues:
    """`hardened_security` returns whether the queue manager has it now. `directory` is None in workgroup mode."""

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
        """The end of MS-MQDMPR 3.1.7.1.5: create the queue for a name that no queue has yet.

        Raises QueueNotFound for a name of this computer, UnsupportedFormatName if nothing can be sent to it,
        LimitReached for one too many.
        """
        if len(self._queues.outgoing) >= MAX_OUTGOING_QUEUES:
            self._close_idle()
        if len(self._queues.outgoing) >= MAX_OUTGOING_QUEUES:
            raise LimitReached(f"the limit of {MAX_OUTGOING_QUEUES} outgoing queues is reached")
        return self.create_owed(name, now)

    def create_owed(self, name: FormatName, now: Now) -> OutgoingQueue:
        """Create a queue for messages that are already promised, beyond the limit of queues."""
        base_priority = self._base_priority(name)
        attributes = QueueAttributes(destination_path(name), label=str(name), base_priority=base_priority)
        queue = self._queues.new_outgoing_queue(name, attributes, now)
        self._lock_if_hardened(queue)
        self._queues.add(queue)
        return queue

    def is_idle(self, queue: OutgoingQueue) -> bool:
        """Whether the queue is unused: it is empty, not open, and not on hold."""
        return not queue.descriptors and _is_empty(queue)

    def close_unused(self, queues: Iterable[Queue | None]) -> None:
        """Remove the queues among these that never carried a message, though they are open for sending."""
        for queue in queues:
            if isinstance(queue, OutgoingQueue) and queue.link is None:
                self._close(queue)

    def _close_idle(self) -> None:
        """Remove idle queues. A program that has one of them open for sending opens it again when it sends."""
        for queue in tuple(self._queues.outgoing.values()):
            self._close(queue)

    def _close(self, queue: OutgoingQueue) -> None:
        handles = queue.descriptors.values()
        if _is_empty(queue) and all(handle.access_type is AccessType.SEND for handle in handles):
            for handle in handles:
                handle.queue = None
            queue.descriptors.clear()
            self._queues.remove(queue)

    def connection_attempt_begun(self, queue: OutgoingQueue) -> None:
        """MS-MQQB 3.1.5.2. An address that only the directory knows has to be found first."""
        is_unknown = needs_directory(queue.destination_format_name) and not queue.next_hops
        _go(queue, Happening.ADDRESS_UNKNOWN if is_unknown else Happening.CONNECTING)

    def address_resolved(self, queue: OutgoingQueue, next_hops: tuple[str, ...]) -> None:
        """MS-MQQB 3.1.5.2.1: the computers to connect to, as MS-MQMQ 2.3.12.12 writes them."""
        queue.next_hops = next_hops
        _go(queue, Happening.CONNECTING)

    def address_not_resolved(self, queue: OutgoingQueue) -> None:
        """MS-MQQB 3.1.5.2.1: drop the addresses known before."""
        queue.next_hops = ()
        _go(queue, Happening.ADDRESS_UNKNOWN)

    def connected(self, queue: OutgoingQueue, next_hop: str) -> None:
        """MS-MQQB 3.1.5.4: the one of the next hops that answered."""
        queue.next_hops = (next_hop,)
        _go(queue, Happening.CONNECTED)

    def disconnecting(self, queue: OutgoingQueue) -> None:
        """MS-MQQB 3.1.5.9, before the connection is closed."""
        _go(queue, Happening.DISCONNECTING)

    def disconnected(self, queue: OutgoingQueue) -> None:
        """MS-MQQB 3.1.5.9, when it is closed."""
        _go(queue, Happening.DISCONNECTED)

    def pause_queue(self, queue: OutgoingQueue) -> None:
        """MS-MQDMPR 3.1.7.2.3. Waiting messages are reported again when the queue resumes (MS-MQQB 3.1.7.14)."""
        _go(queue, Happening.PAUSED)
        self._dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
        self._positions.events.append(QueuePaused(queue))

    def resume_queue(self, queue: OutgoingQueue) -> None:
        """MS-MQDMPR 3.1.7.2.4."""
        _go(queue, Happening.RESUMED)
        self._lock_if_hardened(queue)
        self._positions.events.append(QueueResumed(queue))

    def initialize(self) -> None:
        """MS-MQDMPR 3.1.3: HardenedSecurity may have changed since the last start."""
        for queue in self._queues.outgoing.values():
            if not self._lock_if_hardened(queue):
                _go(queue, Happening.UNLOCKED)

    def _lock_if_hardened(self, queue: OutgoingQueue) -> bool:
        is_locked = self._hardened_security() and not is_http(queue.destination_format_name)
        if is_locked:
            _go(queue, Happening.LOCKED)
        return is_locked

    def _base_priority(self, name: FormatName) -> int:
        """The BasePriority of a destination, which the directory has for public queues."""
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
                raise UnsupportedFormatName(f"cannot send to {name}")
        if is_here:
            raise QueueNotFound(f"{name} is not a queue of this computer")
        return 0

    def _base_priority_of_public(self, guid: bytes) -> int:
        """readings MQDMPR 3.X: no directory is like one that does not know the queue."""
        known = self._read(guid)
        if known is None:
            raise UnsupportedFormatName(f"the directory has no public queue {guid_text(guid)}")
        if self._queues.identity.is_local(known.computer_name):
            raise QueueNotFound(f"{known.pathname} is in the directory, but not on this computer")
        # The specification reads twice, and separates a queue that never existed from one that is deleted in between.
        known = self._read(guid)
        if known is None:
            raise QueueNotFound(f"the public queue {guid_text(guid)} was deleted")
        return known.base_priority

    def _read(self, guid: bytes) -> PublicQueue | None:
        return None if self._directory is None else self._directory.find_queue(guid)


def _is_empty(queue: OutgoingQueue) -> bool:
    return not len(queue.positions) and queue.may_send and not queue.is_deleted


def _go(queue: OutgoingQueue, happening: Happening) -> None:
    queue.state = STATES.get((queue.state, happening), queue.state)
