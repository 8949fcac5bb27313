"""What the arguments of the API mean to the queue manager, and the operations that it does not have as such.

Everything here is done while nobody else uses the engine, and nothing here waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from waypost.api.excerpt import excerpt
from waypost.api.names import Name, format_name, path_name
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.client.queue_info import queue_attributes
from waypost.client.sending import message_attributes
from waypost.core.message import Message
from waypost.core.queues import QueueAttributes
from waypost.core.reading import MessageSeekAction
from waypost.core.writing import MovedPart
from waypost.errors import InvalidParameter
from waypost.guid import guid_text
from waypost.node.application import Call
from waypost.node.queue_info import queue_named
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.drive.driver import Driver

Seek: TypeAlias = Literal["first", "previous", "current", "next", "last"]

_SEEK: Final = {
    "first": MessageSeekAction.SEEK_FIRST,
    "previous": MessageSeekAction.SEEK_PREVIOUS,
    "current": MessageSeekAction.SEEK_CURRENT,
    "next": MessageSeekAction.SEEK_NEXT,
    "last": MessageSeekAction.SEEK_LAST,
}

# Seconds that nobody lives to see the end of, and clocks can still count.
_FOR_EVER: Final = 1 << 32


class Calls:
    """The operations on one driver."""

    __slots__ = ("_driver", "_manager", "application", "computer", "guid", "used")

    def __init__(self, driver: "Driver") -> None:
        self._driver: Final = driver
        self._manager: Final = driver.node.manager
        self.application: Final = driver.application
        self.computer: Final = self._manager.identity.computer_name
        # The queue objects that were given out and not found missing.
        self.used: Final[dict[FormatName, Any]] = {}
        self.guid: Final = guid_text(self._manager.identity.identifier)

    def name(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    def message(self, properties: MessageProperties) -> Message:
        """A message to send, without its body. Raises InvalidParameter before anything is sent."""
        return Message(**message_attributes(properties, computer=self.computer))

    def send_many(
        self, call: Call, handle: int, like: Message, bodies: Sequence[bytes], transaction: bytes | None
    ) -> None:  # fmt: skip
        self.application.send_many(call, handle, like, bodies, transaction=transaction)

    def move(self, call: Call, handle: int, lookup_id: int, target: int, transaction: bytes | None) -> None:
        self.application.move(call, handle, lookup_id, target, transaction=transaction)

    def move_some(self, call: Call, handle: int, target: int, part: MovedPart) -> None:
        self.application.move_some(call, handle, target, part)

    def attributes(self, name: Name, transactional: object, properties: QueueProperties) -> QueueAttributes:
        """Of a new queue. Raises InvalidParameter before anything is created."""
        path = path_name(name, self.computer)
        return QueueAttributes(path, transactional=bool(transactional), **queue_attributes(properties))

    def change(self, properties: QueueProperties) -> Mapping[str, Any]:
        """Of a queue. Raises InvalidParameter before anything is changed."""
        return queue_attributes(properties)

    def set_queue(self, call: Call, name: FormatName, attributes: Mapping[str, Any]) -> None:
        queue = queue_named(self._manager, name)
        self.application.modify_queue(call, queue, replace(queue.attributes, **attributes))

    def begin(self, call: Call, identifier: bytes) -> None:
        self.application.begin_transaction(call, identifier)
        self._driver.transactions.add(identifier)

    def commit(self, call: Call, identifier: bytes) -> None:
        self.application.commit(call, identifier)
        self._driver.transactions.discard(identifier)

    def abort(self, call: Call, identifier: bytes) -> None:
        self._driver.transactions.discard(identifier)
        self.application.abort(call, identifier)

    def deleted(self, name: FormatName) -> None:
        """A queue was deleted: nothing has to be done for those that read from it."""


def milliseconds(timeout: float | None) -> int | None:
    """A time to wait, as the queue manager counts it; None is for ever."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidParameter(f"timeout is a number of seconds, or None to wait for ever, not {excerpt(timeout)}")
    return ceil(timeout * 1000) if timeout < _FOR_EVER else None


def sought(lookup_id: int | None, seek: Seek | None) -> tuple[int, MessageSeekAction] | None:
    """What is looked up, or None for the first message that there is or will be."""
    if lookup_id is None and seek is None:
        return None
    action = _SEEK.get(seek or "current") if seek is None or isinstance(seek, str) else None
    if action is None:
        raise InvalidParameter(f"seek is one of {', '.join(_SEEK)}, not {excerpt(seek)}")
    if lookup_id is None and seek not in ("first", "last"):
        raise InvalidParameter(f"seek={seek!r} needs the lookup_id of the message to start from")
    if lookup_id is not None and not isinstance(lookup_id, int):
        raise InvalidParameter(f"a lookup_id is a number, not {excerpt(lookup_id)}")
    return lookup_id or 0, action
