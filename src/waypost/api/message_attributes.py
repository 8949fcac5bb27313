"""Properties of a message to send, checked, and as a message of the core.

waypost.api.properties is the list. An invalid value raises InvalidParameter before anything is sent.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from msgspec.structs import astuple

from waypost.api.bodies import VT_BSTR
from waypost.api.excerpt import excerpt
from waypost.api.names import Name, Names, format_names, path_name
from waypost.api.properties import ACKNOWLEDGE, MESSAGE_ROWS, SINGLE_ACKNOWLEDGE, MessageProperties
from waypost.api.rows import Kind, PropertyRow
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import parse_guid
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import CUSTOM_CLASS_MASK, is_valid_custom_class

_DEFAULTS: Final = tuple(row.default for row in MESSAGE_ROWS)
# A text body and no other properties, which is as common as a body of bytes alone.
_TEXT_ALONE: Final = tuple(VT_BSTR if row.name == "body_type" else row.default for row in MESSAGE_ROWS)


def message_like(properties: MessageProperties, *, computer: str) -> Message:
    """A message of the core with these properties and no body. Names are relative to `computer`."""
    # A record may have more properties behind these: those of the body.
    values = astuple(properties)[: len(_DEFAULTS)]
    if values == _DEFAULTS:
        return Message(delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
    if values == _TEXT_ALONE:
        return Message(delivery_guarantee=DeliveryGuarantee.RECOVERABLE, body_type=VT_BSTR)
    attributes: dict[str, Any] = {"delivery_guarantee": DeliveryGuarantee.RECOVERABLE}
    is_protected = False
    for row, value, default in zip(MESSAGE_ROWS, values, _DEFAULTS, strict=True):
        if value is not default and value != default:
            if row.kind is Kind.PROTECTION:
                is_protected = True
            elif row.kind in _READ:
                attributes[row.attribute] = _READ[row.kind](row, value)
            else:
                attributes.update(_READ_NAMES[row.kind](row, value, computer))
    if is_protected and not (properties.sign or properties.encrypt):
        raise InvalidParameter(
            "`certificate`, `signature` and `hash` require `sign`, and `algorithm` requires `encrypt`"
        )
    _check_acknowledge(attributes)
    if "tracing_queue_identifier" in attributes:
        attributes["tracing_requested"] = True
    return Message(**attributes)


def varied_attributes(varied: Mapping[str, Sequence[str | int | None]], count: int) -> dict[str, list[object]]:
    """Attributes of messages of the core, for properties that are different in each of so many messages."""
    found: dict[str, list[object]] = {}
    for name, values in varied.items():
        row = VARIED_ROWS.get(name)
        if row is None:
            raise InvalidParameter(
                f"{excerpt(name)} is not one of the properties that can be different for each body: "
                f"{', '.join(VARIED_ROWS)}"
            )
        if len(values) != count:
            raise InvalidParameter(
                f"`{name}` has {len(values)} values for {count} bodies; pass one value for each body"
            )
        read, default = _READ[row.kind], getattr(_PLAIN, row.attribute)
        found[row.attribute] = [default if value is None else read(row, value) for value in values]
    return found


def names_text(names: Names | None) -> str | list[str] | None:
    """Names of queues, given as text or queue objects, in the form of the record."""
    if names is None or isinstance(names, str):
        return names
    if isinstance(names, Sequence):
        return [_name_text(name) for name in names]
    return _name_text(names)


def dead_letter_text(value: bool | Name) -> bool | str:  # noqa: FBT001, it is a property
    return value if isinstance(value, bool) else _name_text(value)


def identifier_text(value: str | bytes | None) -> str | None:
    """The id of a message, given as text or 20 bytes, in the form of the record."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidParameter(f"`correlation_id` must be {_IDENTIFIER}, not {excerpt(value)}")
    return bytes(value).hex()


def acknowledge_text(bits: int) -> str:
    """The word for a set of bits, or single words joined with commas."""
    for word, value in ACKNOWLEDGE.items():
        if value == bits:
            return word
    return ",".join(word for word in SINGLE_ACKNOWLEDGE if bits & ACKNOWLEDGE[word])


def is_encodable(text: str) -> bool:
    """Whether UTF-16 can encode a text: it has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _check_acknowledge(attributes: Mapping[str, object]) -> None:
    """A packet has an administration queue if and only if it asks for acknowledgments (MS-MQMQ 2.2.19.2)."""
    asks = bool(attributes.get("acknowledgements_requested"))
    if asks and "administration_queue_format_name" not in attributes:
        raise InvalidParameter("`acknowledge` requires an `admin_queue` for the acknowledgments")
    if "administration_queue_format_name" in attributes and not asks:
        raise InvalidParameter("`admin_queue` requires `acknowledge`, which specifies the acknowledgments to send")


def _name_text(name: Name) -> str:
    text = name if isinstance(name, str) else getattr(name, "format_name", None)
    if not isinstance(text, str):
        raise InvalidParameter(f"a queue name must be text or a queue object, not {type(name).__name__}")
    return text


def _named(row: PropertyRow) -> str:
    """The property in a sentence: a priority, `app_tag`."""
    return f"`{row.name}`" if "_" in row.name else f"a {row.name}"


def _text(row: PropertyRow, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParameter(f"{_named(row)} must be text, not {type(value).__name__}")
    if not is_encodable(value):
        raise InvalidParameter(f"the {row.name} is not valid text: it contains a lone surrogate")
    return value


def number(row: PropertyRow, value: object) -> int:
    low, high = row.constraints["minimum"], row.constraints["maximum"]
    if not isinstance(value, int) or not low <= value <= high:
        raise InvalidParameter(f"{_named(row)} must be a number from {low} to {high}, not {excerpt(value)}")
    return int(value)


def flag(_: PropertyRow, value: object) -> bool:
    return bool(value)


def _seconds(row: PropertyRow, value: object) -> int:
    """Whole seconds, because a message carries no fractions."""
    high = row.constraints["maximum"]
    if not isinstance(value, int | float) or not 0 <= value <= high:
        raise InvalidParameter(
            f"`{row.name}` must be a number of seconds from 0 to {high}, or None for no limit, not {excerpt(value)}"
        )
    return ceil(value)


def _delivery(_: PropertyRow, value: object) -> DeliveryGuarantee:
    return DeliveryGuarantee.RECOVERABLE if value else DeliveryGuarantee.EXPRESS


def _acknowledgments(row: PropertyRow, value: object) -> int:
    bits = 0
    for word in map(str.strip, str(value).split(",")):
        if word not in ACKNOWLEDGE:
            raise InvalidParameter(f"`{row.name}` must be one of {', '.join(ACKNOWLEDGE)}, not {excerpt(word)}")
        bits |= ACKNOWLEDGE[word]
    return bits


_IDENTIFIER: Final = "the id of a message, 40 hexadecimal digits or 20 bytes"


def _identifier(row: PropertyRow, value: object) -> MessageIdentifier:
    """The identifier from the text of `Message.id`, or from hexadecimal digits."""
    data = b""
    try:
        if isinstance(value, str) and "\\" in value:
            return MessageIdentifier.parse(value)
        data = bytes.fromhex(value) if isinstance(value, str) else b""
    except (DecodeError, ValueError):
        pass
    if len(data) != 20:
        raise InvalidParameter(f"`{row.name}` must be {_IDENTIFIER}, not {excerpt(value)}")
    return MessageIdentifier.decode(data, 0)[0]


def _bytes(row: PropertyRow, value: object) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidParameter(f"`{row.name}` must be bytes, not {type(value).__name__}")
    return bytes(value)


def _class(row: PropertyRow, value: object) -> int:
    if not isinstance(value, int) or not is_valid_custom_class(value):
        raise InvalidParameter(
            f"`{row.name}` must be within the bit mask {CUSTOM_CLASS_MASK:#06x}, not {excerpt(value)}"
        )
    return int(value)


def guid(row: PropertyRow, value: object) -> bytes:
    try:
        return parse_guid(_plain_text(row, value))
    except DecodeError:
        raise InvalidParameter(f"`{row.name}` must be a GUID of 8-4-4-4-12 hex digits, not {excerpt(value)}") from None


def _public_queue(row: PropertyRow, value: object) -> bytes:
    found = FormatName.parse(_plain_text(row, value))
    if not isinstance(found, PublicFormatName):
        raise InvalidParameter(f"`{row.name}` must be a public queue in the form PUBLIC=guid, not {excerpt(value)}")
    return found.guid


def _plain_text(row: PropertyRow, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParameter(f"`{row.name}` must be text, not {type(value).__name__}")
    return value


def _queues(row: PropertyRow, value: Names, computer: str) -> dict[str, object]:
    """MS-MQMQ 2.2.20.1: the MultiQueueFormatHeader contains all queues, and the UserHeader only the first."""
    names = format_names(value, computer)
    if len(names) == 1:
        return {row.attribute: names[0]}
    return {row.attribute: names[0], row.attribute.replace("_queue_", "_multi_queue_"): names}


def _dead_letter(row: PropertyRow, value: object, computer: str) -> dict[str, object]:
    if isinstance(value, bool):
        return {row.attribute: value}
    path = path_name(value, computer)  # type: ignore[arg-type]  # which it checks
    return {row.attribute: True, "application_deadletter_queue": str(path)}


# Readers of values for the core.
_READ: Final[dict[Kind, Callable[[PropertyRow, Any], Any]]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: number,
    Kind.FLAG: flag,
    Kind.SECONDS: _seconds,
    Kind.DELIVERY: _delivery,
    Kind.ACKNOWLEDGMENTS: _acknowledgments,
    Kind.IDENTIFIER: _identifier,
    Kind.BYTES: _bytes,
    Kind.PUBLIC_QUEUE: _public_queue,
    Kind.MESSAGE_CLASS: _class,
    Kind.GUID: guid,
}
_PLAIN: Final = Message()
# Properties that may be different for each of the messages that are staged together. The type belongs to all bodies.
VARIED_ROWS: Final = {
    row.name: row
    for row in MESSAGE_ROWS
    if row.kind in (Kind.TEXT, Kind.NUMBER, Kind.IDENTIFIER) and row.name != "body_type"
}
# Readers of queue names: several names become two attributes, and so does a name in place of a flag.
_READ_NAMES: Final[dict[Kind, Callable[[PropertyRow, Any, str], dict[str, Any]]]] = {
    Kind.QUEUES: _queues,
    Kind.DEAD_LETTER: _dead_letter,
}
