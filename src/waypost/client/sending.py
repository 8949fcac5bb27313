"""What can be said of a message when it is sent, checked and as the attributes of the core's message.

A value that cannot be is an InvalidParameter, and a name that no property has a TypeError, before anything is sent.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import ceil
from typing import Any, Final, TypedDict

from waypost.api.excerpt import excerpt
from waypost.api.names import Name, Names, format_names, path_name
from waypost.core.message_values import DeliveryGuarantee
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import parse_guid
from waypost.wire.base_header import DEFAULT_PRIORITY
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import CUSTOM_CLASS_MASK, is_valid_custom_class

__all__ = ["DEFAULT_PRIORITY", "SendProperties", "acknowledge_text", "message_attributes"]


class SendProperties(TypedDict, total=False):
    """The properties of a message that are seldom given; `Queue.send` says what each of them means."""

    body_type: int
    time_to_reach_queue: float | None
    time_to_be_received: float | None
    acknowledge: str
    admin_queue: Names
    response_queue: Names | None
    journal: bool
    dead_letter: bool | Name
    correlation_id: str | bytes | None
    app_tag: int
    extension: bytes | None
    trace: str
    message_class: int
    connector_type: str


# The words of the command line; several single ones can be joined with commas.
_ACKNOWLEDGE: Final = {
    "none": 0,
    "pos-arrival": 1,
    "pos-receive": 2,
    "neg-arrival": 4,
    "neg-receive": 8,
    "full-reach-queue": 5,
    "nack-receive": 12,
    "full-receive": 14,
    "nack-reach-queue": 4,
}
# What a message that is passed on may not have had.
_NONE_IS_NOT_GIVEN: Final = frozenset({"correlation_id", "response_queue", "extension"})
_SINGLE: Final = ("pos-arrival", "pos-receive", "neg-arrival", "neg-receive")

_RECOVERABLE: Final = DeliveryGuarantee.RECOVERABLE
_EXPRESS: Final = DeliveryGuarantee.EXPRESS


def message_attributes(
    label: str, priority: int, recoverable: object, properties: Mapping[str, Any], *, computer: str
) -> dict[str, Any]:
    """The attributes of the core's message, but for its body. `computer` is what names are relative to."""
    if not isinstance(label, str):
        raise InvalidParameter(f"a label is text, not {type(label).__name__}")
    if not is_encodable(label):
        raise InvalidParameter("the label is no text that can be encoded: it has one half of a surrogate pair")
    if not isinstance(priority, int) or not 0 <= priority <= 7:
        raise InvalidParameter(f"a priority is a number from 0 to 7, not {excerpt(priority)}")
    attributes: dict[str, Any] = {
        "label": label,
        "priority": priority,
        "delivery_guarantee": _RECOVERABLE if recoverable else _EXPRESS,
    }
    if properties:
        refuse_unknown(properties, SendProperties.__annotations__)
        for name, value in properties.items():
            if value is None and name in _NONE_IS_NOT_GIVEN:
                continue
            if name in _QUEUES:
                attributes.update(_queues(name, value, computer))
            elif name == "dead_letter":
                attributes.update(_dead_letter(value, computer))
            else:
                attribute, convert = _CONVERSIONS[name]
                attributes[attribute] = convert(name, value)
        _check_acknowledge(attributes)
        if "tracing_queue_identifier" in attributes:
            attributes["tracing_requested"] = True
    return attributes


def acknowledge_text(bits: int) -> str:
    """The word for a union of bits that has one, or its single words."""
    for word, value in _ACKNOWLEDGE.items():
        if value == bits:
            return word
    return ",".join(word for word in _SINGLE if bits & _ACKNOWLEDGE[word])


def is_encodable(text: str) -> bool:
    """Whether UTF-16 can say it: there is no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def refuse_unknown(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """TypeError for a keyword that nothing has, with the nearest that there is."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, list(known), 1)
            raise TypeError(f"there is no property {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _check_acknowledge(attributes: Mapping[str, Any]) -> None:
    """A packet names an administration queue exactly if it asks for something (MS-MQMQ 2.2.19.2)."""
    asks = bool(attributes.get("acknowledgements_requested"))
    if asks and "administration_queue_format_name" not in attributes:
        raise InvalidParameter("acknowledge needs an admin_queue, the queue that gets the acknowledgments")
    if "administration_queue_format_name" in attributes and not asks:
        raise InvalidParameter("an admin_queue needs acknowledge, to say which acknowledgments it shall get")


def _queues(name: str, value: Names, computer: str) -> dict[str, Any]:
    """MS-MQMQ 2.2.20.1: the MultiQueueFormatHeader has all of several queues, and the UserHeader the first of them."""
    one, several = _QUEUES[name]
    names = format_names(value, computer)
    return {one: names[0]} if len(names) == 1 else {one: names[0], several: names}


def _acknowledgements(_: str, value: object) -> int:
    bits = 0
    for word in map(str.strip, str(value).split(",")):
        if word not in _ACKNOWLEDGE:
            raise InvalidParameter(f"acknowledge is one of {', '.join(_ACKNOWLEDGE)}, not {excerpt(word)}")
        bits |= _ACKNOWLEDGE[word]
    return bits


def _dead_letter(value: object, computer: str) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"negative_journaling_requested": value}
    path = path_name(value, computer)  # type: ignore[arg-type]  # which it checks
    return {"negative_journaling_requested": True, "application_deadletter_queue": str(path)}


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= 0xFFFF_FFFF:
        raise InvalidParameter(f"{name} is a number from 0 to 4294967295, not {excerpt(value)}")
    return int(value)


def _seconds(name: str, value: object) -> int:
    """Whole seconds, because a message carries no parts of them."""
    if value is None:
        return INFINITE
    if not isinstance(value, int | float) or not 0 <= value <= INFINITE - 1:
        raise InvalidParameter(
            f"{name} is a number of seconds from 0 to 4294967294, or None for ever, not {excerpt(value)}"
        )
    return ceil(value)


def _flag(_: str, value: object) -> bool:
    return bool(value)


def _bytes(name: str, value: object) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidParameter(f"{name} is bytes, not {type(value).__name__}")
    return bytes(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} is text, not {type(value).__name__}")
    return value


def _identifier(name: str, value: object) -> MessageIdentifier:
    """Of 20 bytes, their hexadecimal digits, or the text that `Message.id` is."""
    try:
        if isinstance(value, str) and "\\" in value:
            return MessageIdentifier.parse(value)
        data = bytes.fromhex(value) if isinstance(value, str) else _bytes(name, value)
    except (DecodeError, ValueError):
        data = b""
    if len(data) != 20:
        raise InvalidParameter(
            f"{name} is the id of a message, 40 hexadecimal digits or 20 bytes, not {excerpt(value)}"
        )
    return MessageIdentifier.decode(data, 0)[0]


def _class(name: str, value: object) -> int:
    if not isinstance(value, int) or not (value == 0 or is_valid_custom_class(value)):
        raise InvalidParameter(f"{name} has no bits outside {CUSTOM_CLASS_MASK:#06x}, so it is not {excerpt(value)}")
    return int(value)


def _guid(name: str, value: object) -> bytes:
    try:
        return parse_guid(_text(name, value))
    except DecodeError:
        raise InvalidParameter(f"{name} is a GUID of 8-4-4-4-12 hexadecimal digits, not {excerpt(value)}") from None


def _public_queue(name: str, value: object) -> bytes:
    found = FormatName.parse(_text(name, value))
    if not isinstance(found, PublicFormatName):
        raise InvalidParameter(f"{name} is the public queue for reports, PUBLIC=guid, not {excerpt(value)}")
    return found.guid


_QUEUES: Final = {
    "admin_queue": ("administration_queue_format_name", "administration_multi_queue_format_name"),
    "response_queue": ("response_queue_format_name", "response_multi_queue_format_name"),
}
_CONVERSIONS: Final[dict[str, tuple[str, Callable[[str, object], Any]]]] = {
    "body_type": ("body_type", _number),
    "time_to_reach_queue": ("time_to_reach_queue", _seconds),
    "time_to_be_received": ("time_to_be_received", _seconds),
    "acknowledge": ("acknowledgements_requested", _acknowledgements),
    "journal": ("positive_journaling_requested", _flag),
    "correlation_id": ("correlation_identifier", _identifier),
    "app_tag": ("application_tag", _number),
    "extension": ("extension", _bytes),
    "trace": ("tracing_queue_identifier", _public_queue),
    "message_class": ("message_class", _class),
    "connector_type": ("connector_type_identifier", _guid),
}
