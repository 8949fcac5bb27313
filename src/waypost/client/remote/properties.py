"""A message to send to the daemon, and the words of the schema for places in a queue."""

from typing import Any, Final

from waypost.api.properties import MessageProperties
from waypost.client.calls import Seek
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.reading import MessageSeekAction
from waypost.wire.format_names import FormatName

SEEK_WORDS: Final[dict[MessageSeekAction, Seek]] = {
    MessageSeekAction.SEEK_FIRST: "first",
    MessageSeekAction.SEEK_PREVIOUS: "previous",
    MessageSeekAction.SEEK_CURRENT: "current",
    MessageSeekAction.SEEK_NEXT: "next",
    MessageSeekAction.SEEK_LAST: "last",
}


class Outgoing:
    """A message to send: what travels, and the attributes of the message that its sender gets back."""

    __slots__ = ("_attributes", "body", "body_type", "properties")

    def __init__(self, properties: MessageProperties, attributes: dict[str, Any]) -> None:
        self.properties: Final = properties
        self._attributes: Final = attributes
        self.body = b""
        self.body_type = 0

    def message(self, destination: FormatName, transaction: bytes | None) -> Message:
        """As the queue manager takes it; MS-MQMQ 2.2.19.2: what is sent in a transaction is recoverable."""
        message = Message(**self._attributes)
        message.body_type = self.body_type
        message.destination_queue_format_name = destination
        if transaction is not None:
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            # Which number it has is the daemon's to know.
            message.transaction_identifier = 1
        return message
