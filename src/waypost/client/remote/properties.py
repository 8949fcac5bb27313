"""What a caller says of a message or a queue, once it is checked, in the words of the schema."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from waypost.api.names import format_name, format_names
from waypost.api.queues import PRIVACY_WORDS
from waypost.client.calls import Seek
from waypost.client.remote.schema import MessageProperties
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


def message_properties(
    label: str, priority: int, recoverable: object, properties: Mapping[str, Any], computer: str
) -> MessageProperties:
    """Of values that `message_attributes` has found good. Queues are named so that it does not matter where."""
    found = MessageProperties(label=label, priority=priority, recoverable=bool(recoverable))
    for name, value in properties.items():
        if value is not None or name.startswith("time_"):
            setattr(found, name, _PLAIN.get(name, _as_it_is)(value, computer))
    return found


def queue_change(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `queue_attributes`."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        word, convert = _WORDS[name]
        found[word] = convert(value)
    return found


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _queue_name(value: Any, computer: str) -> str:
    return str(format_name(value, computer))


def _queue_names(value: Any, computer: str) -> str | list[str]:
    names = [str(name) for name in format_names(value, computer)]
    return names[0] if len(names) == 1 else names


def _dead_letter(value: Any, computer: str) -> bool | str:
    return value if isinstance(value, bool) else _queue_name(value, computer)


def _identifier(value: Any, _: str) -> str:
    return value if isinstance(value, str) else bytes(value).hex()


def _quota(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota


def _same(value: Any) -> Any:
    return value


_PLAIN: Final[dict[str, Callable[[Any, str], Any]]] = {
    "admin_queue": _queue_names,
    "response_queue": _queue_names,
    "dead_letter": _dead_letter,
    "correlation_id": _identifier,
    "extension": lambda value, _: bytes(value),
    "journal": lambda value, _: bool(value),
    "acknowledge": lambda value, _: str(value),
}
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
