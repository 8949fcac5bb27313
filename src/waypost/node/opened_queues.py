"""Queues that are open for applications, by name and access, so that none is opened twice.

An operation names its queue. The first one opens the queue, which stays open until a client asks to close it; a refused
send leaves nothing open. A few thousand queues stay open for sending; long lists of queues do not. The handles of a
deleted queue are closed when another queue is opened or deleted. An exclusive open or a cursor, which belongs to one
client, has an id.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.names import check_can_be_sent_to, format_name, short_name
from waypost.core.cursors import Cursor
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, ShareMode
from waypost.errors import InvalidHandle, InvalidParameter, QueueNotAvailable, QueueNotFound, WaypostError
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.limits import MAX_OPENED_NAME, MAX_OPENED_NAMES
from waypost.node.access import QUEUE_RIGHTS, owns
from waypost.node.failures import failure
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.security.callers import Caller
from waypost.wire.access_masks import QueueAccess
from waypost.wire.format_names import FormatName
from waypost.wire.sid import Sid

P = ParamSpec("P")

# The accesses of a cursor that can receive and of one that cannot, in a queue and in an outgoing queue.
_CURSOR_ACCESSES: Final = (
    (AccessType.RECEIVE, AccessType.PEEK),
    (AccessType.RECEIVE_ADMIN, AccessType.PEEK_ADMIN),
)
_ADMIN: Final = frozenset({AccessType.RECEIVE_ADMIN, AccessType.PEEK_ADMIN})


@dataclass(frozen=True, slots=True)
class OpenedCursor:
    """A cursor, its handle, and the SID of the caller that has opened it."""

    handle: OpenQueueDescriptor
    cursor: Cursor
    owner: Sid


@dataclass(frozen=True, slots=True)
class OpenedExclusively:
    """A queue that one caller has for itself, and the SID of this caller."""

    name: FormatName
    handle: OpenQueueDescriptor
    owner: Sid


class OpenedQueue:
    """A queue by name, with its shared handles. One that is not `is_kept` is opened for each send.

    `passed` has the caller of each handle that was checked last, and the descriptor that let it pass.
    """

    __slots__ = ("handles", "is_kept", "name", "passed")

    def __init__(self, name: FormatName, *, is_kept: bool) -> None:
        self.name: Final = name
        self.is_kept: Final = is_kept
        self.handles: Final[dict[AccessType, OpenQueueDescriptor]] = {}
        self.passed: Final[dict[OpenQueueDescriptor, tuple[Caller, bytes]]] = {}


class OpenedQueues:
    """The open queues of one node."""

    __slots__ = (
        "_access",
        "_cursors",
        "_deleted",
        "_exclusive",
        "_kernel",
        "_manager",
        "_named",
        "_new_guid",
        "_queues",
        "_sending",
    )

    def __init__(self, node: Node) -> None:
        self._access: Final = node.access
        self._kernel: Final = node.kernel
        self._manager: Final = node.manager
        self._new_guid: Final = node.new_guid
        # By names as given: to parse one takes as long as to read a message.
        self._named: Final[dict[str, OpenedQueue]] = {}
        self._queues: Final[dict[FormatName, OpenedQueue]] = {}
        # The queues that are open for sending, the oldest first.
        self._sending: Final[dict[OpenedQueue, None]] = {}
        self._exclusive: Final[dict[str, OpenedExclusively]] = {}
        self._cursors: Final[dict[str, OpenedCursor]] = {}
        # Queues that are being deleted; their handles are closed when they are gone.
        self._deleted: Final[set[Queue]] = set()

    def queue(self, text: str) -> OpenedQueue:
        """The queue of this name, if it exists. Raises as waypost.api.names does."""
        found = self._named.get(text)
        if found is None:
            name = format_name(text, self._manager.identity.computer_name)
            if len(text) > MAX_OPENED_NAME:
                return self._queues.get(name) or OpenedQueue(name, is_kept=False)
            if len(self._named) >= MAX_OPENED_NAMES:
                self._named.clear()
                for each in [each.name for each in self._queues.values() if not each.handles]:
                    del self._queues[each]
            found = self._named[text] = self._queues.setdefault(name, OpenedQueue(name, is_kept=True))
        return found

    def name(self, text: str) -> FormatName:
        return self.queue(text).name

    def use(
        self,
        call: Call,
        queue: OpenedQueue,
        access: AccessType,
        work: Callable[Concatenate[Call, OpenQueueDescriptor, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Do something with a queue through its shared handle."""
        handle = queue.handles.get(access)
        if handle is not None:
            # The handle is for all callers, so each operation is checked. Most have the caller of the one before.
            last = queue.passed.get(handle)
            if (
                last is None
                or last[0] is not call.caller
                or handle.queue is None
                or handle.queue.attributes.security is not last[1]
            ):
                self._check(call.caller, queue, handle)
            try:
                work(call, handle, *args, **kwargs)
            except QueueNotAvailable:
                # The queue was deleted; another one may have the name now.
                self.close(call, queue)
            else:
                return
        handle = self._open(call, queue, access)
        try:
            work(call, handle, *args, **kwargs)
        except WaypostError:
            # A refused send leaves nothing open. A read may only have found nothing yet.
            if access is AccessType.SEND:
                self._close_shared(call, queue, access)
            raise
        if access is AccessType.SEND:
            self._opened_to_send(call, queue)

    def _check(self, caller: Caller, queue: OpenedQueue, handle: OpenQueueDescriptor) -> None:
        """Check an operation, and remember it while only the descriptor of the queue decides."""
        self._access.check_opened(caller, handle)
        if self._access.is_decided_by_queue(handle):
            assert handle.queue is not None
            queue.passed[handle] = caller, handle.queue.attributes.security

    def exclusive(self, caller: Caller, identifier: str, text: str) -> OpenQueueDescriptor:
        """The handle of an exclusive open of the caller; it must belong to the queue with this name."""
        found = self._opened_exclusively(caller, identifier)
        if found.name != self.name(text):
            own = short_name(found.name, self._manager.identity.computer_name)
            raise InvalidParameter(f"the handle is for the queue {own}, but the request is for {excerpt(text)}")
        self._access.check_opened(caller, found.handle)
        return found.handle

    def open_exclusive(self, call: Call, text: str) -> str:
        """Keep others from receiving. Returns the id for closing."""
        name = self.name(text)
        self._access.check_open(call.caller, name, AccessType.RECEIVE)
        with self._kernel.operation(call.now):
            handle = self._manager.open_queue(name, AccessType.RECEIVE, ShareMode.DENY_RECEIVE, call.now)
        identifier = guid_text(self._new_guid())
        self._exclusive[identifier] = OpenedExclusively(name, handle, call.caller.sid)
        return identifier

    def close_exclusive(self, call: Call, identifier: str) -> None:
        found = self._opened_exclusively(call.caller, identifier)
        del self._exclusive[identifier]
        self._close(call, found.handle)

    def _opened_exclusively(self, caller: Caller, identifier: str) -> OpenedExclusively:
        found = self._exclusive.get(identifier)
        if found is None or not owns(caller, found.owner):
            raise InvalidHandle("the handle is not open")
        return found

    def open_cursor(self, call: Call, text: str, *, outgoing: bool, handle: str | UnsetType) -> str:
        """Open a cursor in the queue: for receiving too, if the caller may receive. Returns its id."""
        identifier = guid_text(self._new_guid())

        def place(call: Call, handle: OpenQueueDescriptor) -> None:
            with self._kernel.operation(call.now):
                cursor = self._manager.open_cursor(handle)
                if cursor is None:
                    raise failure(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
                self._cursors[identifier] = OpenedCursor(handle, cursor, call.caller.sid)

        if handle is UNSET:
            queue = self.queue(text)
            receive, peek = _CURSOR_ACCESSES[outgoing]
            guard = self._access.guard(queue.name)
            may_receive = guard is None or self._access.may(call.caller, guard, QUEUE_RIGHTS[receive])
            self.use(call, queue, receive if may_receive else peek, place)
        else:
            place(call, self.exclusive(call.caller, handle, text))
        return identifier

    def cursor(self, caller: Caller, identifier: str, right: QueueAccess) -> OpenedCursor:
        """A cursor of the caller, which still has this right on its queue."""
        place = self._own_cursor(caller, identifier)
        if place.handle.queue is not None:
            self._access.check(caller, place.handle.queue, right)
        return place

    def close_cursor(self, call: Call, identifier: str) -> None:
        place = self._own_cursor(call.caller, identifier)
        del self._cursors[identifier]
        with self._kernel.operation(call.now):
            self._manager.close_cursor(place.handle, place.cursor)
            self._kernel.reply(call.request)

    def _own_cursor(self, caller: Caller, identifier: str) -> OpenedCursor:
        place = self._cursors.get(identifier)
        if place is None or not owns(caller, place.owner):
            raise InvalidHandle("the cursor is not open")
        return place

    def close(self, call: Call, queue: OpenedQueue, *, keeps_sending: bool = False) -> None:
        """Close the shared handles of a queue. Waiting reads end."""
        for access in tuple(queue.handles):
            if not (keeps_sending and access is AccessType.SEND):
                self._close_shared(call, queue, access)

    def deleted(self, call: Call, queue: Queue) -> None:
        """Note a queue that is being deleted, which may take a while."""
        self._close_deleted(call)
        self._deleted.add(queue)

    def _open(self, call: Call, queue: OpenedQueue, access: AccessType) -> OpenQueueDescriptor:
        self._access.check_open(call.caller, queue.name, access)
        self._close_deleted(call)
        name = queue.name
        if access is AccessType.SEND:
            check_can_be_sent_to(name)
        elif access in _ADMIN and name not in self._manager.collection.outgoing:
            raise QueueNotFound(f"{name} is not an outgoing queue of this computer")
        with self._kernel.operation(call.now):
            handle = self._manager.open_queue(name, access, ShareMode.DENY_NONE, call.now)
        queue.handles[access] = handle
        if queue.is_kept or access is not AccessType.SEND:
            # It may have been forgotten, because many others were named since.
            self._queues.setdefault(name, queue)
        return handle

    def _opened_to_send(self, call: Call, queue: OpenedQueue) -> None:
        if not queue.is_kept:
            self._close_shared(call, queue, AccessType.SEND)
            return
        self._sending[queue] = None
        if len(self._sending) > MAX_OPENED_NAMES:
            self._close_shared(call, next(iter(self._sending)), AccessType.SEND)

    def _close_shared(self, call: Call, queue: OpenedQueue, access: AccessType) -> None:
        if access is AccessType.SEND:
            self._sending.pop(queue, None)
        handle = queue.handles.pop(access, None)
        if handle is not None:
            queue.passed.pop(handle, None)
            self._close(call, handle)

    def _close_deleted(self, call: Call) -> None:
        """Close the handles of deleted queues, their subqueues and journals, under every name that opened them."""
        gone = [queue for queue in self._deleted if queue.is_deleted]
        if not gone:
            return
        self._deleted.difference_update(gone)
        for opened in tuple(self._queues.values()):
            for access, handle in tuple(opened.handles.items()):
                if handle.queue is None and not handle.multiple:
                    self._close_shared(call, opened, access)

    def _close(self, call: Call, handle: OpenQueueDescriptor) -> None:
        for identifier in [key for key, place in self._cursors.items() if place.handle is handle]:
            del self._cursors[identifier]
        # The queue manager may be closing it itself, or have failed.
        with suppress(WaypostError), self._kernel.operation(call.now):
            self._manager.close_queue(handle)
