"""Messages in the answers of operations."""

from dataclasses import dataclass, field

from waypost.core.message import Message
from waypost.wire.format_names import FormatName


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of a message that was sent to several queues at once. All have the same identifier."""

    name: FormatName
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Sent:
    """The messages of one send, in order."""

    messages: list[Message] | list[Message | Copies]


@dataclass(slots=True)
class Received:
    """Messages that were received or peeked at.

    `next` is the `after` for the next page of a browse, or "" on the last page. `receipt` acknowledges the lease.
    `refused` lists receipts of the request whose leases had expired.
    """

    messages: list[Message]
    next: str = ""
    receipt: str = ""
    refused: list[str] = field(default_factory=list)
