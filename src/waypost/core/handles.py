"""What is done through a handle besides reading: MS-MQDMPR 3.1.7.1.27, purging and moving, as 3.1.1.17 allows it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue
from waypost.core.writing import EnqueueStatus, Writing
from waypost.errors import AccessDenied, QueueNotAvailable
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.wire.format_names import MultipleElementFormatName, PublicFormatName


class Handles:
    """Each raises QueueNotAvailable if the queue of a handle is gone, AccessDenied if it was not opened for this."""

    __slots__ = ("_host_of", "_writing")

    def __init__(self, writing: Writing, host_of: Callable[[OpenQueueDescriptor], bytes]) -> None:
        """`host_of` tells the queue manager that a public queue belongs to, NULL_GUID if nobody knows."""
        self._writing: Final = writing
        self._host_of: Final = host_of

    def enqueue_message_to_open_queue(
        self, descriptor: OpenQueueDescriptor, message: Message, transaction: bytes | None, now: Now
    ) -> EnqueueStatus:
        """MS-MQDMPR 3.1.7.1.27, readings MQDMPR 3.CC.

        Of several queues each gets a copy, up to the first that refuses; a transaction takes back those before it.
        """
        _check(descriptor, allowed=descriptor.access_type is AccessType.SEND)
        name = descriptor.format_name
        if not isinstance(name, MultipleElementFormatName):
            if type(name) is PublicFormatName and message.destination_queue_manager_identifier == NULL_GUID:
                message.destination_queue_manager_identifier = self._host_of(descriptor)
            return self._writing.enqueue_message(_queue(descriptor), message, transaction, now)
        for child in descriptor.multiple:
            copy = replace(
                message,
                destination_queue_format_name=child.format_name,
                destination_multi_queue_format_name=name.elements,
                destination_queue_manager_identifier=self._host_of(child),
                packet=b"",
            )
            status = self._writing.enqueue_message(_queue(child), copy, transaction, now)
            if status is not EnqueueStatus.ACCEPTED:
                return status
        return EnqueueStatus.ACCEPTED

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
        """MS-MQDMPR 3.1.7.1.16."""
        _check(source, allowed=source.access_type.can_receive)
        _check(target, allowed=target.access_type is AccessType.MOVE)
        return self._writing.move_message(_queue(source), lookup_id, _queue(target), transaction, now)


def _check(descriptor: OpenQueueDescriptor, *, allowed: bool) -> None:
    if not allowed:
        raise AccessDenied(f"{descriptor.format_name} was not opened for this")


def _queue(descriptor: OpenQueueDescriptor) -> Queue:
    if descriptor.queue is None:
        raise QueueNotAvailable(f"{descriptor.format_name} was deleted, or its handle is closed")
    return descriptor.queue
