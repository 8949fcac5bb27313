"""What the arguments of the API mean to the queue manager, and the operations that it does not have as such.

Everything here is done while nobody else uses the engine, and nothing here waits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil, inf, isnan
from typing import Any, Final, Literal, TypeAlias

from waypost.client.bodies import Body, encode_body
from waypost.client.engine import Engine, Partly
from waypost.client.names import Name, format_name, path_name
from waypost.client.queue_info import QueueInfo, queue_attributes, queue_info
from waypost.client.sending import body_type_of, message_attributes
from waypost.core.message import Message
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.reading import MessageSeekAction
from waypost.errors import InvalidParameter, QueueNotFound, Timeout, WaypostError
from waypost.guid import guid_text
from waypost.node.application import Call, ReadOptions
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol
from waypost.wire.path_names import QueueKind

Seek: TypeAlias = Literal["first", "previous", "current", "next", "last"]

_SEEK: Final = {
    "first": MessageSeekAction.SEEK_FIRST,
    "previous": MessageSeekAction.SEEK_PREVIOUS,
    "current": MessageSeekAction.SEEK_CURRENT,
    "next": MessageSeekAction.SEEK_NEXT,
    "last": MessageSeekAction.SEEK_LAST,
}


class Calls:
    """The operations on one engine."""

    __slots__ = ("_engine", "_manager", "application", "computer", "guid")

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._manager: Final = engine.node.manager
        self.application: Final = engine.application
        self.computer: Final = self._manager.identity.computer_name
        self.guid: Final = guid_text(self._manager.identity.identifier)

    def name(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    def messages(
        self,
        bodies: Iterable[Body],
        label: str,
        priority: int,
        recoverable: object,
        properties: Mapping[str, Any],
    ) -> list[Message]:
        """Messages to send that differ in nothing but their bodies. Raises InvalidParameter before anything is sent."""
        attributes = message_attributes(label, priority, recoverable, properties, computer=self.computer)
        body_type = body_type_of(properties) if properties else None
        if isinstance(bodies, str | bytes | bytearray | memoryview):
            raise InvalidParameter("bodies are a list of bodies, not one")
        messages = []
        for body in bodies:
            data, number = encode_body(body, body_type)
            messages.append(Message(body=data, body_type=number, **attributes))
        return messages

    def send_many(self, call: Call, handle: int, messages: list[Message], transaction: bytes | None) -> int | Partly:
        send = self.application.send
        sent = 0
        try:
            for message in messages:
                send(call, handle, message, transaction)
                sent += 1
        except WaypostError as error:
            if sent:
                error.add_note(f"the first {sent} of {len(messages)} messages are sent")
                return Partly(sent, error)
            raise
        return sent

    def receive_many(self, call: Call, handle: int, count: int, options: ReadOptions) -> int:
        """What is there, or the first message that comes."""
        receive = self.application.receive
        at_once = ReadOptions(0, None, options.transaction)
        received = 0
        try:
            while received < count:
                receive(call, handle, at_once)
                received += 1
        except WaypostError as error:
            if received:
                return received
            if options.timeout_ms == 0 or not isinstance(error, Timeout):
                raise
            receive(call, handle, options)
            return 1
        return received

    def move(self, call: Call, handle: int, lookup_id: int, target: int, transaction: bytes | None) -> None:
        self.application.move(call, handle, lookup_id, target, transaction=transaction)

    def create_queue(self, call: Call, name: Name, transactional: object, properties: Mapping[str, Any]) -> None:
        attributes = QueueAttributes(
            path_name(name, self.computer), transactional=bool(transactional), **queue_attributes(properties)
        )
        self.application.create_queue(call, attributes)

    def set_queue(self, call: Call, name: FormatName, changes: Mapping[str, Any]) -> None:
        queue = self._queue(name)
        attributes = queue_attributes(changes)
        self.application.modify_queue(call, queue, replace(queue.attributes, **attributes))

    def delete_queue(self, call: Call, name: FormatName) -> None:
        self.application.delete_queue(call, self._queue(name))

    def begin(self, call: Call, identifier: bytes) -> None:
        self.application.begin_transaction(call, identifier)
        self._engine.transactions.add(identifier)

    def commit(self, call: Call, identifier: bytes) -> None:
        self.application.commit(call, identifier)
        self._engine.transactions.discard(identifier)

    def abort(self, call: Call, identifier: bytes) -> None:
        self._engine.transactions.discard(identifier)
        self.application.abort(call, identifier)

    def info(self, name: FormatName) -> QueueInfo:
        queue = self._queue(name)
        return queue_info(queue, name, self._manager.identity.identifier)

    def queues(self) -> list[FormatName]:
        """Those that applications have created, by their paths."""
        found = [queue for queue in self._manager.queues.values() if queue.queue_type is not QueueKind.SYSTEM]
        found.sort(key=lambda queue: str(queue).lower())
        return [
            DirectFormatName(Protocol.OS, self.computer, queue.pathname.kind, queue.pathname.queue) for queue in found
        ]

    def outgoing_queues(self) -> list[FormatName]:
        return sorted(self._manager.collection.outgoing, key=str)

    def _queue(self, name: FormatName) -> Queue:
        queue = self._manager.find_queue(name) or self._manager.collection.outgoing.get(name)
        if queue is None:
            raise QueueNotFound(f"{name} is no queue of this computer")
        return queue


def milliseconds(timeout: float | None) -> int | None:
    """A time to wait, as the queue manager counts it; None is for ever."""
    if timeout is None or timeout == inf:
        return None
    if not isinstance(timeout, int | float) or isnan(timeout) or timeout < 0:
        raise InvalidParameter(f"timeout is a number of seconds, or None to wait for ever, not {timeout!r}")
    return ceil(timeout * 1000)


def sought(lookup_id: int | None, seek: Seek | None) -> tuple[int, MessageSeekAction] | None:
    """What is looked up, or None for the first message that there is or will be."""
    if lookup_id is None and seek is None:
        return None
    action = _SEEK.get(seek or "current")
    if action is None:
        raise InvalidParameter(f"seek is one of {', '.join(_SEEK)}, not {seek!r}")
    if lookup_id is None and seek not in ("first", "last"):
        raise InvalidParameter(f"seek={seek!r} needs the lookup_id of the message to start from")
    if lookup_id is not None and not isinstance(lookup_id, int):
        raise InvalidParameter(f"a lookup_id is a number, not {lookup_id!r}")
    return lookup_id or 0, action
