"""What the core needs of those around it, and what it tells them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from waypost.core.message import Message
from waypost.core.queues import Queue
from waypost.core.transaction_records import Transaction
from waypost.errors import RecordDamaged
from waypost.hresult import HResult
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.message_class import MessageClass


class MessageTable(Protocol):
    """Where messages are kept, by the number of their queue and their LookupIdentifier.

    What `get` gives is shared: who changes it makes a copy, and puts that.
    """

    def put(self, queue: int, message: Message) -> None:
        """Keep a new message. A recoverable one is part of the batch that is being made."""

    def put_all(self, queue: int, messages: Sequence[Message]) -> None:
        """The same for messages that differ in identifiers and bodies alone."""

    def hold(self, queue: int, message: Message) -> None:
        """Keep a message that a transaction has sent and may take back: nothing is written of it."""

    def hold_all(self, queue: int, messages: Sequence[Message]) -> None:
        """The same for messages that differ in identifiers and bodies alone."""

    def publish(self, queue: int, lookup_id: int) -> Message:
        """A message that was held is there for good: it is kept as by `put`. It is recoverable."""

    def publish_all(self, queue: int, lookup_ids: Sequence[int]) -> None:
        """The same for several messages."""

    def update(self, queue: int, message: Message) -> None:
        """Another state of a message that was put. Its packet has the same size."""

    def get(self, queue: int, lookup_id: int) -> Message:
        """Raises RecordDamaged. PositionEvents.find is for those who can go on without the message."""

    def get_all(self, queue: int, lookup_ids: Sequence[int]) -> list[Message]: ...

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> int:
        """A message cannot be read: it is in its queue no more, and what is left of it is kept. Returns its size."""

    def delete(self, queue: int, message: Message) -> None: ...

    def delete_all(self, queue: int, messages: Sequence[Message]) -> int:
        """The same for several messages. Returns the size of all together."""

    @property
    def in_memory(self) -> int:
        """How many messages are in memory only."""


@dataclass(frozen=True, slots=True)
class PublicQueue:
    """What the directory knows of a public queue, as far as opening it goes."""

    pathname: str
    queue_manager_identifier: bytes
    computer_name: str
    base_priority: int


class Directory(Protocol):
    """The directory events of MS-MQDMPR 3.1.7.1.18 to 3.1.7.1.24 that work on queues cause.

    All but the reads raise DirectoryError with the status of the directory.
    """

    def create_queue(self, queue: Queue) -> bytes:
        """Publish a public queue. Returns the Identifier that the directory gave it."""

    def delete_queue(self, queue: Queue) -> None: ...

    def paths_of(self, queue: Queue) -> tuple[str, str] | None:
        """FullPath and DirectoryPath, or None if they cannot be read."""

    def find_queue(self, identifier: bytes) -> PublicQueue | None: ...

    def computer_name(self, queue_manager: bytes) -> str | None:
        """The ComputerName of a queue manager."""

    def members(self, name: DistributionListFormatName) -> tuple[FormatName, ...] | None:
        """The elements of a distribution list, or None if it cannot be resolved."""


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """A wait is over. With MQ_OK, `message` is what it brought."""

    wait_id: int
    status: HResult
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message is in its destination queue for the first time, at once or with the commit of its transaction.

    It is told of messages that ask for attention, not of the copies in journals and dead-letter queues.
    """

    queue: Queue
    message: Message


class MessagePositionDeleted(NamedTuple):
    """MS-MQDMPR 3.1.7.2.1, for those who acknowledge and journal: why the message left its queue."""

    queue: Queue
    message: Message
    reason: MessageClass


@dataclass(frozen=True, slots=True)
class MessageSetAside:
    """The record of a message is damaged: the message left its queue, and nobody can say more about it."""

    queue: Queue
    lookup_id: int


class MessagePositionAvailable(NamedTuple):
    """MS-MQDMPR 3.1.7.2.2, for those who transfer. A tuple, because there is one for each message."""

    queue: Queue
    lookup_id: int


@dataclass(frozen=True, slots=True)
class PurgePendingChanged:
    """A locked message was purged, and goes when its lock does, also after a restart; or it stays after all."""

    queue: Queue
    lookup_id: int


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """A queue was created, or its persistent attributes are others now."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """The queue and its messages are gone. Each message had its own event before."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueManagerChanged:
    """The persistent attributes of the queue manager are others now."""


@dataclass(frozen=True, slots=True)
class TransactionPrepared:
    """An external transaction is prepared: it has to survive until its outcome is known."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A transaction that was prepared has its outcome."""

    identifier: bytes


@dataclass(frozen=True, slots=True)
class QueuePaused:
    """MS-MQDMPR 3.1.7.2.3, for those who transfer."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueResumed:
    """MS-MQDMPR 3.1.7.2.4."""

    queue: Queue


Event = (
    ReadEnded
    | MessageArrived
    | MessagePositionDeleted
    | MessageSetAside
    | MessagePositionAvailable
    | PurgePendingChanged
    | QueueChanged
    | QueueDeleted
    | QueueManagerChanged
    | TransactionPrepared
    | TransactionEnded
    | QueuePaused
    | QueueResumed
)
