"""Operations through a handle besides reading: MS-MQDMPR 3.1.7.1.27, purging and moving, as 3.1.1.17 allows.

Every path that moves a message comes through here, so that the rules of MS-MQRR 3.1.4.10 hold for all of them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue
from waypost.core.serialization import packet_of, size_in_bytes
from waypost.core.transaction_records import OperationType
from waypost.core.transactions import Transactions
from waypost.core.writing import EnqueueStatus, MovedPart, Writing
from waypost.errors import AccessDenied, QueueNotAvailable
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.wire.format_names import MultipleElementFormatName, PublicFormatName


class Handles:
    """Operations through handles. Each raises QueueNotAvailable for a deleted queue, AccessDenied without access."""

    __slots__ = ("_host_of", "_transactions", "_writing")

    def __init__(
        self, writing: Writing, transactions: Transactions, host_of: Callable[[OpenQueueDescriptor], bytes]
    ) -> None:
        """`host_of` gives the queue manager that has a public queue, NULL_GUID if unknown."""
        self._writing: Final = writing
        self._transactions: Final = transactions
        self._host_of: Final = host_of

    def enqueue_message_to_open_queue(
        self, descriptor: OpenQueueDescriptor, message: Message, transaction: bytes | None, now: Now
    ) -> EnqueueStatus:
        """MS-MQDMPR 3.1.7.1.27, readings MQDMPR 3.CC.

        Of several queues each gets a copy, up to the first that refuses; a transaction takes back those before it.
        """
        _check(descriptor, allowed=descriptor.access_type is AccessType.SEND)
        name = descriptor.format_name
        if isinstance(name, MultipleElementFormatName):
            return self.enqueue_copies(descriptor, self.copies(descriptor, message), transaction, now)
        if type(name) is PublicFormatName and message.destination_queue_manager_identifier == NULL_GUID:
            message.destination_queue_manager_identifier = self._host_of(descriptor)
        return self._writing.enqueue_message(_queue(descriptor), message, transaction, now)

    def copies(self, descriptor: OpenQueueDescriptor, message: Message) -> tuple[Message, ...]:
        """The copy for each of several queues, in their order. Raises EncodeError for an impossible packet."""
        name = descriptor.format_name
        assert isinstance(name, MultipleElementFormatName)
        copies = tuple(
            replace(
                message,
                destination_queue_format_name=child.format_name,
                destination_multi_queue_format_name=name.elements,
                destination_queue_manager_identifier=self._host_of(child),
                packet=b"",
            )
            for child in descriptor.multiple
        )
        for copy in copies:
            packet_of(copy)
        return copies

    def enqueue_copies(
        self, descriptor: OpenQueueDescriptor, copies: Sequence[Message], transaction: bytes | None, now: Now
    ) -> EnqueueStatus:
        """Put the result of `copies` into the queues, up to the first that refuses."""
        for child, copy in zip(descriptor.multiple, copies, strict=True):
            status = self._writing.enqueue_message(_queue(child), copy, transaction, now)
            if status is not EnqueueStatus.ACCEPTED:
                return status
        return EnqueueStatus.ACCEPTED

    def refusing(
        self, descriptor: OpenQueueDescriptor, copies: Sequence[Message], transaction: bytes | None, now: Now
    ) -> tuple[OpenQueueDescriptor, EnqueueStatus] | None:
        """The first of several queues that does not accept its copy, if all must, and the reason."""
        sizes: Counter[Queue] = Counter()
        for child, copy in zip(descriptor.multiple, copies, strict=True):
            sizes[_queue(child)] += size_in_bytes(copy)
        total = sizes.total()
        for child, copy in zip(descriptor.multiple, copies, strict=True):
            queue = _queue(child)
            status = self._writing.check(queue, copy, sizes[queue], transaction, now)
            if status is EnqueueStatus.ACCEPTED and not self._writing.has_room(total):
                status = EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED
            if status is not EnqueueStatus.ACCEPTED:
                return child, status
        return None

    def purge_open_queue(self, descriptor: OpenQueueDescriptor) -> None:
        """MS-MQDMPR 3.1.7.1.7."""
        _check(descriptor, allowed=descriptor.access_type.can_receive)
        self._writing.purge_queue(_queue(descriptor))

    def move_to_open_queue(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: bytes | None,
        *,
        now: Now,
    ) -> HResult:
        """MS-MQRR 3.1.4.10 and MS-MQDMPR 3.1.7.1.16."""
        status = self.check_move(source, lookup_id, target, transaction)
        if status is not HResult.MQ_OK:
            return status
        return self._writing.move_message(_queue(source), lookup_id, _queue(target), transaction, now)

    def move_some_to_open_queue(
        self, source: OpenQueueDescriptor, target: OpenQueueDescriptor, part: MovedPart, count: int, *, now: Now
    ) -> MovedPart | None:
        """MS-MQRR 3.1.4.10 for the next `count` messages. None if moves from one queue to the other are not allowed."""
        _check(source, allowed=source.access_type.can_receive)
        _check(target, allowed=target.access_type is AccessType.MOVE)
        if not _are_related(_queue(source), _queue(target)):
            return None
        return self._writing.move_some(_queue(source), _queue(target), part, count, now)

    def check_move(
        self, source: OpenQueueDescriptor, lookup_id: int, target: OpenQueueDescriptor, transaction: bytes | None
    ) -> HResult:
        """Whether a message may be moved like this, by MS-MQRR 3.1.4.10, with its order of checks."""
        _check(source, allowed=source.access_type.can_receive)
        _check(target, allowed=target.access_type is AccessType.MOVE)
        origin, destination = _queue(source), _queue(target)
        if not _are_related(origin, destination):
            return HResult.STATUS_INVALID_PARAMETER
        if transaction is not None and not destination.attributes.transactional:
            return HResult.MQ_ERROR_TRANSACTION_USAGE
        if lookup_id not in origin.positions:
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        if self._is_in_transaction(origin, lookup_id):
            return HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
        return HResult.MQ_OK

    def _is_in_transaction(self, queue: Queue, lookup_id: int) -> bool:
        """Whether a transaction holds the message. One that is being sent is not there yet, and does not count."""
        if not queue.positions.is_held(lookup_id):
            return False
        found = self._transactions.operation_on(queue, lookup_id)
        return found is not None and found[1].operation_type is not OperationType.ENQUEUE


def _check(descriptor: OpenQueueDescriptor, *, allowed: bool) -> None:
    if not allowed:
        raise AccessDenied(f"{descriptor.format_name} was not opened for this operation")


def _are_related(source: Queue, target: Queue) -> bool:
    """Whether both belong to one queue: the queue and its subqueue, or two of its subqueues."""
    if source is target or source.is_journal or target.is_journal:
        return False
    return (source.parent or source) is (target.parent or target)


def _queue(descriptor: OpenQueueDescriptor) -> Queue:
    if descriptor.queue is None:
        raise QueueNotAvailable(f"{descriptor.format_name} was deleted, or its handle is closed")
    return descriptor.queue
