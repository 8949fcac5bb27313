"""Queues, the handles on them, and the reads that wait: MS-MQDMPR 3.1.1.2 to 3.1.1.5, 3.1.1.10 and 3.1.1.16.

These are the records that the events of 3.1.7 work on; what may be changed together is decided there.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from waypost.core.cursors import Cursor
from waypost.core.positions import END, START, PositionList
from waypost.guid import NULL_GUID
from waypost.limits import MAX_CONNECTION_HISTORY
from waypost.wire.format_names import ConnectorFormatName, FormatName, MulticastFormatName
from waypost.wire.management import ConnectionEvent, EodState
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import UNLIMITED, QueuePrivacy, Scope

# MS-MQDMPR 3.1.3: private queues by their path and System by their QueueType, because no application may use them.
ORDER_QUEUE: Final = "order_queue$"
NOTIFICATION_QUEUE: Final = "notify_queue$"
# MS-MQQB 3.1.1.3.1 AwaitingFinalACKTable: what was delivered, and whose fate its source still wants to know.
AWAITING_FINAL_ACK: Final = "awaiting_final_ack$"
_INTERNAL: Final = frozenset({ORDER_QUEUE, NOTIFICATION_QUEUE, AWAITING_FINAL_ACK})


class NoPath(Enum):
    """What a queue without a path name can be: CONNECTOR, whose messages are for another messaging system."""

    CONNECTOR = auto()


QueueType: TypeAlias = QueueKind | NoPath


class AccessType(Enum):
    """QueueAccessType: what a handle may do."""

    SEND = auto()
    RECEIVE = auto()
    PEEK = auto()
    PEEK_ADMIN = auto()
    RECEIVE_ADMIN = auto()
    MOVE = auto()

    @property
    def can_receive(self) -> bool:
        return self in (AccessType.RECEIVE, AccessType.RECEIVE_ADMIN)

    @property
    def can_peek(self) -> bool:
        return self.can_receive or self in (AccessType.PEEK, AccessType.PEEK_ADMIN)

    @property
    def is_for_outgoing(self) -> bool:
        """Whether it opens outgoing queues: to fill them, or for an administrator."""
        return self in (AccessType.SEND, AccessType.PEEK_ADMIN, AccessType.RECEIVE_ADMIN)


class ShareMode(Enum):
    """QueueShareMode: what a handle leaves to others."""

    DENY_NONE = auto()
    DENY_RECEIVE = auto()


class RemoteReadState(Enum):
    """How far a handle for remote reading has come: its reader knows it, then the server knows it too."""

    NONE = auto()
    OPENED = auto()
    READY_FOR_READ = auto()


def base_priority(path: PathName, given: int) -> int:
    """MS-MQMQ 2.3.1.6: that of a public queue. A private queue has 0, and to set another changes nothing."""
    return given if path.kind is QueueKind.PUBLIC else 0


@dataclass(slots=True)
class QueueAttributes:
    """What a caller gives to Create Queue, with the defaults of MS-MQDMPR 3.1.7.1.33. Quotas are in kilobytes."""

    pathname: PathName
    label: str = ""
    type_guid: bytes = NULL_GUID
    journaling: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    authentication: bool = False
    privacy_level: QueuePrivacy = QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL
    transactional: bool = False
    multicast_address: str = ""
    security: bytes = b""
    base_priority: int = 0


@dataclass(slots=True, eq=False)
class WaitingMessageReadOperation:
    """MS-MQDMPR 3.1.1.10, with what has to be done when a message comes. The request has its Tag and its cursor."""

    wait_id: int
    descriptor: "OpenQueueDescriptor"
    destructive_read: bool
    request: "ReadRequest"


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The parameters that the events of reading share. `timeout_ms` is None to wait for ever (readings MQDMPR 3.J)."""

    timeout_ms: int | None = None
    cursor: Cursor | None = None
    tag: int | None = None
    transaction: bytes | None = None
    two_phase_read: bool = False


@dataclass(slots=True, eq=False)
class OpenQueueDescriptor:
    """MS-MQDMPR 3.1.1.16. `queue` is None once the queue was deleted, and for a handle on several queues.

    The waits are in the order in which they began, by their number. `two_phase_reads` are the messages that were read
    with Dequeue Message Begin outside a transaction and wait for their Dequeue Message End.
    """

    handle: int
    context_value: int
    queue: "Queue | None"
    access_type: AccessType
    share_mode: ShareMode
    format_name: FormatName
    remote_read_state: RemoteReadState = RemoteReadState.NONE
    multiple: "tuple[OpenQueueDescriptor, ...]" = ()
    cursors: dict[int, Cursor] = field(default_factory=dict)
    waiting: OrderedDict[int, WaitingMessageReadOperation] = field(default_factory=OrderedDict)
    two_phase_reads: set[int] = field(default_factory=set)

    def advance_remote_read(self) -> None:
        """One step further: from None to Opened, from Opened to ReadyForRead."""
        self.remote_read_state = _NEXT_REMOTE_READ_STATE[self.remote_read_state]


_NEXT_REMOTE_READ_STATE: Final = {
    RemoteReadState.NONE: RemoteReadState.OPENED,
    RemoteReadState.OPENED: RemoteReadState.READY_FOR_READ,
}


@dataclass(slots=True, eq=False)
class Queue:
    """MS-MQDMPR 3.1.1.2. `number` is how the store knows the queue; `private_queue_number` how format names do.

    `parent` is the queue that a subqueue or a journal belongs to. `descriptors` are by handle; those of them that have
    waiting reads are in `waiting` too, in the order in which they began to wait. What comes in transactions is noted
    for each queue manager that sends it, by its identifier (readings MQQB 3.18).
    """

    number: int
    identifier: bytes
    attributes: QueueAttributes
    qualified_pathname: PathName
    private_queue_number: int = 0
    create_time: int = 0
    modify_time: int = 0
    scope: Scope = Scope.MQDS_ENTERPRISESCOPE
    full_path: str = ""
    directory_path: str = ""
    journal: "Queue | None" = None
    parent: "Queue | None" = None
    is_deleted: bool = False
    subqueues: "dict[str, Queue]" = field(default_factory=dict)
    # A subqueue that somebody looks into, and that nothing was ever put into: it is kept nowhere, and has no number.
    is_provisional: bool = False
    descriptors: dict[int, OpenQueueDescriptor] = field(default_factory=dict)
    waiting: OrderedDict[int, OpenQueueDescriptor] = field(default_factory=OrderedDict)
    positions: PositionList = field(default_factory=PositionList)
    total_bytes: int = 0
    # How many handles have DENY_RECEIVE.
    deniers: int = 0
    # Whether the queue manager keeps it from applications: its path, which never changes, says so.
    is_internal: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        path = self.attributes.pathname
        self.is_internal = path.kind is QueueKind.PRIVATE and path.queue.lower() in _INTERNAL

    def __str__(self) -> str:
        return str(self.attributes.pathname)

    @property
    def pathname(self) -> PathName:
        return self.attributes.pathname

    @property
    def queue_type(self) -> QueueType:
        """QueueType follows from the path."""
        return QueueKind.SYSTEM if self.is_internal else self.attributes.pathname.kind

    @property
    def is_active(self) -> bool:
        """Active, for a queue that is not outgoing: some handle is open on it."""
        return bool(self.descriptors)

    @property
    def is_journal(self) -> bool:
        """Whether it is the journal of `parent`; a subqueue has a parent too."""
        return self.parent is not None and not self.attributes.pathname.subqueue

    @property
    def lets_messages_expire(self) -> bool:
        """MS-MQDMPR 3.1.2.4: public and private queues do; readings MQDMPR 3.Y: their journals do not."""
        return self.queue_type is not QueueKind.SYSTEM and not self.is_journal


class OutgoingQueueState(Enum):
    """MS-MQDMPR 3.1.1.3 State."""

    CONNECTED = auto()
    DISCONNECTED = auto()
    DISCONNECTING = auto()
    INACTIVE = auto()
    LOCKED = auto()
    NEED_VALIDATION = auto()
    WAITING = auto()
    ON_HOLD = auto()


def _connection_history() -> deque[ConnectionEvent]:
    return deque(maxlen=MAX_CONNECTION_HISTORY)


@dataclass(slots=True, eq=False)
class OutgoingQueue(Queue):
    """MS-MQDMPR 3.1.1.3: messages for a queue elsewhere. Whoever transfers them fills the fields behind the name.

    Its path is that of the destination, as far as the format name tells it. No next hops stand for NULL. `link` is what
    those who transfer keep of the queue, and volatile.
    """

    destination_format_name: FormatName = field(kw_only=True)
    next_hops: tuple[str, ...] = ()
    outgoing_transfer_info: EodState = field(default_factory=EodState)
    state: OutgoingQueueState = OutgoingQueueState.INACTIVE
    connection_history: deque[ConnectionEvent] = field(default_factory=_connection_history)
    link: Any = None
    # The greatest LookupIdentifier of what transactions have sent here: what commits later stands behind it.
    last_committed: int = 0
    # Its messages get new numbers, and none leaves before all have theirs.
    awaits_numbers: bool = False
    # The peer whose messages made this queue necessary, for acknowledgments that they asked for; "" if a program here
    # has sent to it. Volatile: it is found again in the acknowledgments.
    opened_for: str = ""

    def __post_init__(self) -> None:
        # The order queue of another computer is like any other destination.
        self.is_internal = False

    def __str__(self) -> str:
        return str(self.destination_format_name)

    @property
    def queue_type(self) -> QueueType:
        if isinstance(self.destination_format_name, ConnectorFormatName):
            return NoPath.CONNECTOR
        return self.attributes.pathname.kind

    @property
    def lets_messages_expire(self) -> bool:
        """MS-MQQB 3.1.7.1.2: also what is on its way to a system queue."""
        return True

    @property
    def multicast(self) -> bool:
        return isinstance(self.destination_format_name, MulticastFormatName)

    @property
    def is_active(self) -> bool:
        """Some handle is open on it, or a message waits to be transferred."""
        return bool(self.descriptors) or self.positions.next_available(START) != END

    @property
    def may_send(self) -> bool:
        """MS-MQDMPR 3.1.1.3: nothing leaves a queue that is Locked or OnHold."""
        return not self.awaits_numbers and self.state not in (OutgoingQueueState.LOCKED, OutgoingQueueState.ON_HOLD)
