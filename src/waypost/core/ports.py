"""Ports of the core to the code around it, and its events."""

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
    """Storage of messages, by the number of their queue and their LookupIdentifier.

    The result of `get` is shared: code that changes it makes a copy, and puts that.
    """

    def put(self, queue: int, message: Message) -> None:
        """Store a new message. A recoverable one is part of the current batch."""

    def put_all(self, queue: int, messages: Sequence[Message]) -> None:
        """Store messages that differ only in identifiers and bodies."""

    def put_packets(self, queue: int, lookup_ids: range, head: bytes, packets: Sequence[bytes]) -> None:
        """Store recoverable messages that do not expire, by their packets. Their records share the head."""

    def hold(self, queue: int, message: Message) -> None:
        """Keep a message of a transaction that may still be aborted: nothing about it is written."""

    def hold_all(self, queue: int, messages: Sequence[Message]) -> None:
        """Keep messages of a transaction that differ only in identifiers and bodies."""

    def publish(self, queue: int, lookup_id: int) -> Message:
        """Store a held message as `put` does. It is recoverable."""

    def publish_all(self, queue: int, lookup_ids: Sequence[int]) -> None:
        """Store several held messages."""

    def update(self, queue: int, message: Message) -> None:
        """Store a new state of a message. Its packet has the same size."""

    def get(self, queue: int, lookup_id: int) -> Message:
        """Raises RecordDamaged. PositionEvents.find is for callers that can go on without the message."""

    def get_all(self, queue: int, lookup_ids: Sequence[int]) -> list[Message]: ...

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> int:
        """Remove an unreadable message from its queue, and keep its remains. Returns its size."""

    def delete(self, queue: int, message: Message) -> None: ...

    def delete_all(self, queue: int, messages: Sequence[Message]) -> int:
        """Delete several messages. Returns their total size."""

    @property
    def in_memory(self) -> int:
        """Number of messages that are in memory only."""


@dataclass(frozen=True, slots=True)
class PublicQueue:
    """The knowledge of the directory about a public queue that opening it needs."""

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
        """FullPath and DirectoryPath, or None if they are unreadable."""

    def find_queue(self, identifier: bytes) -> PublicQueue | None: ...

    def computer_name(self, queue_manager: bytes) -> str | None:
        """The ComputerName of a queue manager."""

    def members(self, name: DistributionListFormatName) -> tuple[FormatName, ...] | None:
        """The elements of a distribution list, or None if it does not resolve."""


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """A wait has ended. With MQ_OK, `message` is its result."""

    wait_id: int
    status: HResult
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message is in its destination queue for the first time, at once or with the commit of its transaction.

    Only for messages that ask for attention, not for the copies in journals and dead-letter queues.
    """

    queue: Queue
    message: Message


class MessagePositionDeleted(NamedTuple):
    """MS-MQDMPR 3.1.7.2.1, for acknowledgments and journals: the reason why the message left its queue."""

    queue: Queue
    message: Message
    reason: MessageClass


@dataclass(frozen=True, slots=True)
class MessageSetAside:
    """The record of a message is damaged: the message left its queue, and nothing more is known about it."""

    queue: Queue
    lookup_id: int


class MessagePositionAvailable(NamedTuple):
    """MS-MQDMPR 3.1.7.2.2, for transfer. A tuple, because each message has one."""

    queue: Queue
    lookup_id: int


@dataclass(frozen=True, slots=True)
class PurgePendingChanged:
    """A locked message was purged, and is removed with its lock, also after a restart; or it stays after all."""

    queue: Queue
    lookup_id: int


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """A queue was created, or its persistent attributes have changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueDeleted:
    """The queue and its messages are gone. Each message had its own event before."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueManagerChanged:
    """The persistent attributes of the queue manager have changed."""


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
    """MS-MQDMPR 3.1.7.2.3, for transfer."""

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
