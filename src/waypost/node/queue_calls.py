"""The operations on whole queues: create, change, show, list, delete, pause and resume."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

from msgspec.structs import replace

from waypost.api.excerpt import excerpt
from waypost.api.names import format_name, path_name, short_name
from waypost.api.operations import CreateQueue, DeleteQueue, ListQueues, PauseQueue, ResumeQueue, SetQueue, ShowQueue
from waypost.api.properties import QueueInfo, QueueList, QueueProperties
from waypost.api.queue_attributes import ignored, queue_attributes, with_attributes
from waypost.api.queues import Kind
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes
from waypost.errors import InvalidParameter, QueueNotFound
from waypost.node.deleting import delete_queue
from waypost.node.following import oldest_arrival
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.queue_info import queue_info, queue_named
from waypost.wire.access_masks import QueueAccess
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol
from waypost.wire.path_names import PathName, QueueKind

_SYSTEM: Final = ("deadletter", "deadxact", "journal")
_KINDS: Final[tuple[Kind, ...]] = ("", "local", "outgoing", "system", "all")


def _unheard(_call: Call, _queue: Queue) -> None:
    """Ignore the deletion."""


class QueueCalls:
    """Queue operations on one node. The answers may show attributes that are not durable yet."""

    __slots__ = ("_access", "_computer", "_deleted", "_manager", "_node")

    def __init__(self, node: Node, deleted: Callable[[Call, Queue], None] = _unheard) -> None:
        """`deleted` is called for a queue that is being deleted."""
        self._deleted: Final = deleted
        self._node: Final = node
        self._access: Final = node.access
        self._manager: Final = node.manager
        self._computer: Final = node.manager.identity.computer_name

    def show(self, call: Call, operation: ShowQueue) -> None:
        name = self._name(operation.name)
        with self._node.kernel.operation(call.now):
            queue = queue_named(self._manager, name)
            self._access.check(call.caller, queue, QueueAccess.MQSEC_GET_QUEUE_PROPERTIES)
            self._node.kernel.reply(call.request, self._info(name))

    def list_queues(self, call: Call, operation: ListQueues) -> None:
        names = self.names(operation.kind)
        with self._node.kernel.operation(call.now):
            self._node.kernel.reply(call.request, QueueList(tuple(self.infos(operation.pattern, names))))

    def delete(self, call: Call, operation: DeleteQueue) -> None:
        queue = self._queue(operation.name)
        self._access.check(call.caller, queue, QueueAccess.MQSEC_DELETE_QUEUE)
        delete_queue(self._node, queue, call.request, call.now)
        self._deleted(call, queue)

    def create(self, call: Call, operation: CreateQueue) -> None:
        path = path_name(operation.name, self._computer)
        given, notes = _without_ignored(self._name(operation.name), operation)
        attributes = with_attributes(QueueAttributes(path, transactional=operation.transactional), given)
        self._check_create(call, path)
        self._node.kernel.check_room()
        with self._node.kernel.operation(call.now):
            self._manager.create_queue(attributes, call.now)
            info = self._info(DirectFormatName(Protocol.OS, self._computer, path.kind, path.queue))
            self._node.kernel.reply(call.request, replace(info, notes=notes))

    def set(self, call: Call, operation: SetQueue) -> None:
        name = self._name(operation.name)
        given, notes = _without_ignored(name, operation)
        queue = queue_named(self._manager, name)
        self._access.check(call.caller, queue, QueueAccess.MQSEC_SET_QUEUE_PROPERTIES)
        self._node.kernel.check_store()
        with self._node.kernel.operation(call.now):
            self._manager.modify_queue(queue, with_attributes(queue.attributes, given), call.now)
            self._node.kernel.reply(call.request, replace(self._info(name), notes=notes))

    def pause(self, call: Call, operation: PauseQueue) -> None:
        queue = self._outgoing(operation.name)
        with self._node.kernel.operation(call.now):
            self._manager.outgoing.pause_queue(queue)
            self._node.kernel.reply(call.request)

    def resume(self, call: Call, operation: ResumeQueue) -> None:
        queue = self._outgoing(operation.name)
        with self._node.kernel.operation(call.now):
            self._manager.outgoing.resume_queue(queue)
            self._node.kernel.reply(call.request)

    def names(self, kind: Kind) -> list[FormatName]:
        """The queues of a kind, in the order of their paths. Raises InvalidParameter."""
        if kind not in _KINDS:
            raise InvalidParameter(f"`kind` must be one of {', '.join(filter(None, _KINDS))}, not {excerpt(kind)}")
        names: list[FormatName] = []
        if kind in ("", "local", "all"):
            names += self._created()
        if kind in ("system", "all"):
            names += [self._name(f"system$;{name}") for name in _SYSTEM]
        if kind in ("outgoing", "all"):
            names += sorted(self._manager.collection.outgoing, key=str)
        return names

    def infos(self, pattern: str, names: Sequence[FormatName]) -> Iterator[QueueInfo]:
        """The queues with short names that match the pattern, if any, without those that were deleted meanwhile."""
        pattern = pattern.lower()
        for name in names:
            if not pattern or fnmatchcase(short_name(name, self._computer).lower(), pattern):
                with suppress(QueueNotFound):
                    yield self._info(name)

    def _created(self) -> list[FormatName]:
        found = [queue for queue in self._manager.queues.values() if queue.queue_type is not QueueKind.SYSTEM]
        found.sort(key=lambda queue: str(queue).lower())
        return [
            DirectFormatName(Protocol.OS, self._computer, queue.pathname.kind, queue.pathname.queue) for queue in found
        ]

    def _info(self, name: FormatName) -> QueueInfo:
        queue = queue_named(self._manager, name)
        damaged = self._node.damaged.count_of(queue)
        arrival = oldest_arrival(self._node, queue)
        identifier = self._manager.identity.identifier
        owner = self._access.owner_name(queue)
        return queue_info(queue, name, identifier, damaged_count=damaged, oldest_arrival=arrival, owner=owner)

    def _check_create(self, call: Call, path: PathName) -> None:
        """A subqueue is a part of its queue, and the others are parts of this computer."""
        parent = self._manager.queues.get(dataclasses.replace(path, subqueue="")) if path.subqueue else None
        if parent is None:
            self._access.check_create(call.caller, path)
        else:
            self._access.check(call.caller, parent, QueueAccess.MQSEC_SET_QUEUE_PROPERTIES)

    def _outgoing(self, text: str) -> OutgoingQueue:
        queue = self._queue(text)
        if not isinstance(queue, OutgoingQueue):
            name = self._name(text)
            raise InvalidParameter(f"{name} is a queue of this computer; you can pause or resume only outgoing queues")
        return queue

    def _queue(self, text: str) -> Queue:
        return queue_named(self._manager, self._name(text))

    def _name(self, text: str) -> FormatName:
        return format_name(text, self._computer)


def _without_ignored(name: FormatName, properties: QueueProperties) -> tuple[dict[str, object], tuple[str, ...]]:
    """The given attributes, without those that have no effect, and a sentence about these."""
    attributes = queue_attributes(properties)
    sentence = ignored(name, properties)
    if not sentence:
        return attributes, ()
    del attributes["base_priority"]
    return attributes, (sentence,)
