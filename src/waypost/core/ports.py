"""What the core needs of those around it, and what it tells them."""

from dataclasses import dataclass
from typing import Protocol

from waypost.core.message import Message
from waypost.core.queues import Queue
from waypost.hresult import HResult
from waypost.wire.message_class import MessageClass


class MessageTable(Protocol):
    """Where messages are kept, by the number of their queue and their LookupIdentifier.

    A recoverable message that was put is part of the batch that is being made; `get` gives it from that moment on. What
    `get` gives belongs to the caller: a change counts only when it is put again.
    """

    def put(self, queue: int, message: Message) -> None: ...

    def get(self, queue: int, lookup_id: int) -> Message: ...

    def delete(self, queue: int, lookup_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """A wait is over. With MQ_OK, `message` is what it brought."""

    wait_id: int
    status: HResult
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class MessagePositionDeleted:
    """MS-MQDMPR 3.1.7.2.1, for those who acknowledge and journal: why the message left its queue."""

    queue: Queue
    message: Message
    reason: MessageClass


@dataclass(frozen=True, slots=True)
class MessagePositionAvailable:
    """MS-MQDMPR 3.1.7.2.2, for those who transfer."""

    queue: Queue
    lookup_id: int


Event = ReadEnded | MessagePositionDeleted | MessagePositionAvailable
