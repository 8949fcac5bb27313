"""QueueProperties: what can be said of a queue."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from waypost.api.excerpt import excerpt
from waypost.api.queues import PRIVACY
from waypost.client.sending import is_encodable, refuse_unknown
from waypost.core.queues import UNLIMITED
from waypost.errors import DecodeError, InvalidParameter, UnsupportedFormatName
from waypost.guid import NULL_GUID, parse_guid
from waypost.limits import MAX_QUEUE_LABEL
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.path_names import QueueKind
from waypost.wire.property_checks import is_queue_label


class QueueProperties(TypedDict, total=False):
    """What a queue is created with and can be changed; `Manager.create_queue` says what each of them means."""

    label: str
    journal: bool
    quota_kb: int | None
    journal_quota_kb: int | None
    authenticate: bool
    privacy: Literal["none", "optional", "body"]
    base_priority: int
    type_id: str
    multicast: str


def queue_attributes(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the core's queue that were given. InvalidParameter for a value that cannot be."""
    refuse_unknown(properties, QueueProperties.__annotations__)
    return dict(_attribute(name, value) for name, value in properties.items())


def ignored(name: FormatName, properties: Mapping[str, Any]) -> str:
    """What is given for a queue and changes nothing, as a sentence, or ""."""
    is_public = isinstance(name, PublicFormatName) or getattr(name, "kind", None) is QueueKind.PUBLIC
    if is_public or not properties.get("base_priority"):
        return ""
    return "base_priority changes nothing: it is always 0 for a private queue (MS-MQMQ 2.3.1.6)"


def warn_of_ignored(name: FormatName, properties: Mapping[str, Any]) -> None:
    """Tell the program that called the API."""
    sentence = ignored(name, properties)
    if sentence:
        warnings.warn(sentence, stacklevel=3)


def _attribute(name: str, value: Any) -> tuple[str, Any]:
    match name:
        case "label":
            if not isinstance(value, str) or not is_encodable(value) or not is_queue_label(value):
                raise InvalidParameter(f"the label of a queue is text of at most {MAX_QUEUE_LABEL} characters")
            return "label", value
        case "journal":
            return "journaling", bool(value)
        case "quota_kb":
            return "quota", _quota(name, value)
        case "journal_quota_kb":
            return "journal_quota", _quota(name, value)
        case "authenticate":
            return "authentication", bool(value)
        case "privacy":
            if not isinstance(value, str) or value not in PRIVACY:
                raise InvalidParameter(f"privacy is none, optional or body, not {excerpt(value)}")
            return "privacy_level", PRIVACY[value]
        case "base_priority":
            if not isinstance(value, int) or not -0x8000 <= value <= 0x7FFF:
                raise InvalidParameter(f"base_priority is a number from -32768 to 32767, not {excerpt(value)}")
            return "base_priority", value
        case "type_id":
            return "type_guid", _type_guid(value)
        case _:
            return "multicast_address", _multicast(value)


def _quota(name: str, value: object) -> int:
    if value is None:
        return UNLIMITED
    if not isinstance(value, int) or not 0 <= value < UNLIMITED:
        raise InvalidParameter(f"{name} is a number of kilobytes, or None without a limit, not {excerpt(value)}")
    return value


def _type_guid(value: object) -> bytes:
    try:
        return parse_guid(value) if isinstance(value, str) and value else NULL_GUID
    except DecodeError:
        raise InvalidParameter(f"type_id is a GUID of 8-4-4-4-12 hexadecimal digits, not {excerpt(value)}") from None


def _multicast(value: object) -> str:
    """ "" for none, which is all that there is."""
    if value:
        raise UnsupportedFormatName(f"no queue takes messages from {excerpt(value)}: multicast is not offered yet")
    return ""
