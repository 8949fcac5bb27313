"""Properties of a queue, checked, and as attributes of the core."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from msgspec import UNSET

from waypost.api.excerpt import excerpt
from waypost.api.message_attributes import flag, guid, is_encodable, number
from waypost.api.properties import QUEUE_ROWS, QueueProperties
from waypost.api.rows import Kind, PropertyRow
from waypost.core.queues import QueueAttributes
from waypost.errors import InvalidParameter, UnsupportedFormatName
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.path_names import QueueKind
from waypost.wire.property_checks import utf16_units
from waypost.wire.property_values import UNLIMITED, QueuePrivacy

_PRIVACY: Final = {
    "none": QueuePrivacy.MQ_PRIV_LEVEL_NONE,
    "optional": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL,
    "body": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
}


def queue_attributes(properties: QueueProperties) -> dict[str, object]:
    """The attributes of the core for the given properties. Raises InvalidParameter for an invalid value."""
    found: dict[str, object] = {}
    for row in QUEUE_ROWS:
        value = getattr(properties, row.name)
        if value is not UNSET:
            found[row.attribute] = _READ[row.kind](row, value)
    return found


def with_attributes(attributes: QueueAttributes, given: Mapping[str, object]) -> QueueAttributes:
    """The attributes with changes from `queue_attributes`."""
    changes: dict[str, Any] = dict(given)
    return replace(attributes, **changes)


def shown(attributes: QueueAttributes) -> dict[str, object]:
    """The properties of a queue in the form of QueueInfo: the reverse of `queue_attributes`."""
    found = dict(zip(_NAMES, _attributes(attributes), strict=True))
    for name, show in _SHOWN:
        found[name] = show(found[name])
    return found


def ignored(name: FormatName, properties: QueueProperties) -> str:
    """A sentence that names the given properties without effect; "" if all properties have an effect."""
    is_public = isinstance(name, PublicFormatName) or getattr(name, "kind", None) is QueueKind.PUBLIC
    if is_public or properties.base_priority in (UNSET, 0):
        return ""
    return "`base_priority` has no effect, because it is always 0 for a private queue (MS-MQMQ 2.3.1.6)"


def _text(row: PropertyRow, value: object) -> str:
    high = row.constraints["max_length"]
    if not isinstance(value, str) or not is_encodable(value) or utf16_units(value) > high:
        raise InvalidParameter(f"the {row.name} of a queue must be a string of at most {high} characters")
    return value


def _quota(row: PropertyRow, value: object) -> int:
    if value is None:
        return UNLIMITED
    if not isinstance(value, int) or not 0 <= value < UNLIMITED:
        raise InvalidParameter(
            f"`{row.name}` must be a number of kilobytes, or None for no limit, not {excerpt(value)}"
        )
    return value


def _privacy(row: PropertyRow, value: object) -> QueuePrivacy:
    if not isinstance(value, str) or value not in _PRIVACY:
        raise InvalidParameter(f"`{row.name}` must be none, optional or body, not {excerpt(value)}")
    return _PRIVACY[value]


def _guid(row: PropertyRow, value: object) -> bytes:
    return guid(row, value) if value else NULL_GUID


def _multicast(_: PropertyRow, value: object) -> str:
    """Only "" is supported: no multicast address."""
    if value:
        raise UnsupportedFormatName(f"cannot listen on {excerpt(value)}: multicast is not supported yet")
    return ""


# Readers of values for the core.
_READ: Final[dict[Kind, Callable[[PropertyRow, Any], Any]]] = {
    Kind.TEXT: _text,
    Kind.FLAG: flag,
    Kind.KILOBYTES: _quota,
    Kind.WORD: _privacy,
    Kind.NUMBER: number,
    Kind.GUID: _guid,
    Kind.MULTICAST: _multicast,
}

_NAMES: Final = tuple(row.name for row in QUEUE_ROWS)
_attributes: Final = attrgetter(*(row.attribute for row in QUEUE_ROWS))
# Kinds that QueueInfo shows in another form than the core.
_SHOW: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.KILOBYTES: lambda quota: None if quota == UNLIMITED else quota,
    Kind.WORD: {level: word for word, level in _PRIVACY.items()}.__getitem__,
    Kind.GUID: guid_text,
}
_SHOWN: Final = tuple((row.name, _SHOW[row.kind]) for row in QUEUE_ROWS if row.kind in _SHOW)
