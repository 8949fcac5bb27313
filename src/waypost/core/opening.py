"""Handles on queues and cursors on handles: MS-MQDMPR 3.1.7.1.1, 3.1.7.1.2, 3.1.7.1.5 and 3.1.7.1.6.

To send to a queue of another computer, an outgoing queue is opened: one for each format name, without regard to case,
created when it is first needed and kept like every other queue (readings MQDMPR 3.N). Only sending and the accesses for
administrators see it; every other access means the queue on the other computer, which is read remotely.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.creating import Creating
from waypost.core.cursors import Cursor
from waypost.core.outgoing import OutgoingQueues, is_http
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, ShareMode
from waypost.core.reading import Reading
from waypost.errors import (
    AccessDenied,
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
    MulticastFormatName,
    MultipleElementFormatName,
    Suffix,
)

# MS-MQDMPR 3.1.7.3.8: every distribution list in a name is replaced by its members.
Expand = Callable[[FormatName], FormatName]


class Opening:
    """The handles of one queue manager."""

    __slots__ = ("_creating", "_expand", "_last_handle", "_outgoing", "_queues", "_reading")

    def __init__(
        self,
        queues: QueueCollection,
        creating: Creating,
        outgoing: OutgoingQueues,
        reading: Reading,
        *,
        expand: Expand,
    ) -> None:
        self._queues: Final = queues
        self._creating: Final = creating
        self._outgoing: Final = outgoing
        self._reading: Final = reading
        self._expand: Final = expand
        self._last_handle = 0

    def open_queue(self, name: FormatName, access: AccessType, share: ShareMode, now: Now) -> OpenQueueDescriptor:
        """MS-MQDMPR 3.1.7.1.5.

        Raises UnsupportedFormatName, UnsupportedAccessMode, QueueNotFound, SharingViolation, AccessDenied for a queue
        that is not for applications, LimitReached for one queue too many, and the errors of the expansion of the name.
        Nothing stays open then.
        """
        expanded = self._expand(name)
        if isinstance(expanded, MultipleElementFormatName):
            return self._open_multiple(expanded, access, share, now)
        return self._open_single(expanded, access, share, now)

    def close_queue(self, descriptor: OpenQueueDescriptor) -> None:
        """MS-MQDMPR 3.1.7.1.6. readings MQDMPR 3.D, MQDMPR 3.K: several queues first, and every wait ends."""
        for child in descriptor.multiple:
            self.close_queue(child)
        queue = descriptor.queue
        if queue is None:
            return
        self._reading.end_waits(descriptor.waiting.values(), HResult.MQ_ERROR_OPERATION_CANCELLED)
        self._reading.end_two_phase_reads(descriptor)
        descriptor.cursors.clear()
        del queue.descriptors[descriptor.handle]
        if descriptor.share_mode is ShareMode.DENY_RECEIVE:
            queue.deniers -= 1
        descriptor.queue = None
        if queue.is_provisional and not queue.descriptors:
            self._queues.remove(queue)

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
        self._reading.end_waits(waits, HResult.MQ_ERROR_OPERATION_CANCELLED)
        descriptor.cursors.pop(cursor.handle, None)

    def _handle(self) -> int:
        self._last_handle += 1
        return self._last_handle

    def _open_multiple(
        self, name: MultipleElementFormatName, access: AccessType, share: ShareMode, now: Now
    ) -> OpenQueueDescriptor:
        if access is not AccessType.SEND:
            raise UnsupportedFormatName(f"{name} supports only sending")
        if share is not ShareMode.DENY_NONE:
            raise UnsupportedAccessMode("a format name of several queues does not support exclusive access")
        children: list[OpenQueueDescriptor] = []
        try:
            for element in name.elements:
                children.append(self._open_single(element, access, share, now))  # noqa: PERF401, a failure needs what was opened
        except Exception:
            for child in children:
                self.close_queue(child)
            raise
        return OpenQueueDescriptor(
            self._handle(), self._handle(), None, access, share, name, multiple=tuple(children)
        )  # fmt: skip

    def _open_single(self, name: FormatName, access: AccessType, share: ShareMode, now: Now) -> OpenQueueDescriptor:
        if isinstance(name, DirectFormatName) and name.protocol is Protocol.IPX:
            raise UnsupportedFormatName(f"cannot open {name}: IPX is not supported")
        if access is not AccessType.SEND and _is_only_for_sending(name):
            raise UnsupportedFormatName(f"{name} supports only sending")
        if access is AccessType.SEND and name.is_read_only:
            raise UnsupportedFormatName(f"{name} supports only reading")
        queue = self._find(name, access, now)
        if queue.is_internal:
            raise AccessDenied(f"{queue} is reserved for the queue manager")
        _check_sharing(queue, access, share)
        descriptor = OpenQueueDescriptor(self._handle(), self._handle(), queue, access, share, name)
        queue.descriptors[descriptor.handle] = descriptor
        if share is ShareMode.DENY_RECEIVE:
            queue.deniers += 1
        return descriptor

    def _find(self, name: FormatName, access: AccessType, now: Now) -> Queue:
        queue = self._queues.find(name)
        if queue is None and access.is_for_outgoing:
            queue = self._queues.outgoing.get(name)
        if queue is not None:
            if queue.is_provisional and access is not AccessType.PEEK:
                self._queues.changed(queue)
            return queue
        if access is AccessType.SEND:
            return self._outgoing.create(name, now)
        queue = self._subqueue_on_demand(name, access, now)
        if queue is None:
            raise QueueNotFound(f"{name} is not a queue of this computer")
        return queue

    def _subqueue_on_demand(self, name: FormatName, access: AccessType, now: Now) -> Queue | None:
        """readings MQDMPR 3.AA, MQRR 3.29: a subqueue exists when a client wants to look into it, to read from it or to
        move messages to it. One that is only looked into is deleted with its last handle.
        """
        match name:
            case DirectFormatName(subqueue=subqueue, suffix=Suffix.SUBQUEUE):
                path = self._queues.local_path(name)
                if self._queues.identity.is_local(name.host) and path in self._queues.by_path:
                    path = replace(path, subqueue=subqueue)
                    return self._creating.create_subqueue(path, now, is_provisional=access is AccessType.PEEK)
        return None


def _is_only_for_sending(name: FormatName) -> bool:
    return is_http(name) or isinstance(name, MulticastFormatName)


def _check_sharing(queue: Queue, access: AccessType, share: ShareMode) -> None:
    """MS-MQDMPR 3.1.7.1.5, readings MQDMPR 3.M."""
    if share is ShareMode.DENY_NONE and not queue.deniers:
        return
    for other in queue.descriptors.values():
        denies = other.share_mode is ShareMode.DENY_RECEIVE
        if other.access_type.can_receive:
            refused = share is ShareMode.DENY_RECEIVE or (denies and access.can_receive)
        else:
            refused = other.access_type.can_peek and denies and access.can_receive
        if refused:
            raise SharingViolation(f"{queue} is already open for exclusive access through another handle")
