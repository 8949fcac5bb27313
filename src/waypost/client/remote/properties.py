"""What a caller says of a message or a queue, once it is checked, in the words of the schema."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from waypost.api.properties import MessageProperties
from waypost.api.queues import PRIVACY_WORDS
from waypost.client.calls import Seek
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import UNLIMITED
from waypost.core.reading import MessageSeekAction
from waypost.guid import guid_text
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


def queue_change(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `queue_attributes`."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        word, convert = _WORDS[name]
        found[word] = convert(value)
    return found


def _quota(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota


def _same(value: Any) -> Any:
    return value


_WORDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "label": ("label", _same),
    "journaling": ("journal", _same),
    "quota": ("quota_kb", _quota),
    "journal_quota": ("journal_quota_kb", _quota),
    "authentication": ("authenticate", _same),
    "privacy_level": ("privacy", PRIVACY_WORDS.__getitem__),
    "base_priority": ("base_priority", _same),
    "type_guid": ("type_id", guid_text),
    "multicast_address": ("multicast", _same),
}
