"""Queues, the handles that are open on them, and the reads that wait: MS-MQDMPR 3.1.1.2, 3.1.1.10 and 3.1.1.16.

These are the records that the events of 3.1.7 work on; what may be changed together is decided there.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from waypost.core.cursors import Cursor
from waypost.core.positions import PositionList
from waypost.guid import NULL_GUID
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import QueuePrivacy, Scope

UNLIMITED: Final = 0xFFFF_FFFF


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


class ShareMode(Enum):
    """QueueShareMode: what a handle leaves to others."""

    DENY_NONE = auto()
    DENY_RECEIVE = auto()


class RemoteReadState(Enum):
    """How far a handle for remote reading has come."""

    NONE = auto()
    OPENED = auto()
    READY_FOR_READ = auto()


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


@dataclass(slots=True, eq=False)
class Queue:
    """MS-MQDMPR 3.1.1.2. `number` is how the store knows the queue; `private_queue_number` how format names do.

    `parent` is the queue that a subqueue or a journal belongs to. `descriptors` are by handle; those of them that have
    waiting reads are in `waiting` too, in the order in which they began to wait.
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
    descriptors: dict[int, OpenQueueDescriptor] = field(default_factory=dict)
    waiting: OrderedDict[int, OpenQueueDescriptor] = field(default_factory=OrderedDict)
    positions: PositionList = field(default_factory=PositionList)
    total_bytes: int = 0

    @property
    def pathname(self) -> PathName:
        return self.attributes.pathname

    @property
    def queue_type(self) -> QueueKind:
        """QueueType follows from the path."""
        return self.attributes.pathname.kind

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
        return self.attributes.pathname.kind is not QueueKind.SYSTEM and not self.is_journal
