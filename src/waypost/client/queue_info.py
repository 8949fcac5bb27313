"""QueueInfo: what is told of a queue; QueueProperties: what can be said of one."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypedDict

from waypost.api.excerpt import excerpt
from waypost.api.times import iso_8601
from waypost.client.sending import is_encodable, refuse_unknown
from waypost.core.queues import UNLIMITED, NoPath, OutgoingQueue, Queue
from waypost.errors import DecodeError, InvalidParameter, UnsupportedFormatName
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.limits import MAX_QUEUE_LABEL
from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.management import ConnectionEvent
from waypost.wire.path_names import QueueKind
from waypost.wire.property_checks import is_queue_label
from waypost.wire.property_values import QueuePrivacy

_PRIVACY: Final = {
    "none": QueuePrivacy.MQ_PRIV_LEVEL_NONE,
    "optional": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL,
    "body": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
}
# What only an outgoing queue has.
_OUTGOING: Final = ("state", "next_hops", "unacknowledged", "unread", "last_error", "connections")
_PRIVACY_WORDS: Final = {level: word for word, level in _PRIVACY.items()}


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


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """Something that happened to the connection of an outgoing queue: MS-MQMQ 2.3.12.25.

    `status` is such as ready or connect_socket_failure. `error` is an HRESULT as 0x and eight digits, zero for none.
    """

    status: str
    time: datetime
    error: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue at one moment. `to_dict` gives the queue object of the command line and HTTP.

    `kind` is private, public, system, journal, subqueue or outgoing. Quotas are in kilobytes, None without one.

    What follows `modified` is None but for an outgoing queue: its `state`, such as inactive or connected; `next_hops`,
    the addresses it is sent to; how many transactional messages were sent and are `unacknowledged`, and how many
    arrived and are `unread`; why the last attempt to connect failed, "" if it did not, as `last_error`; and the last
    `connections`, the youngest at the end. `damaged_count` is how many messages were damaged on disk and set aside.
    """

    path: str
    format_name: str
    private_format_name: str | None
    kind: str
    label: str
    transactional: bool
    message_count: int
    bytes: int
    journal: bool
    journal_count: int
    journal_bytes: int
    quota_kb: int | None
    journal_quota_kb: int | None
    authenticate: bool
    privacy: str
    base_priority: int
    type_id: str
    multicast: str
    subqueues: tuple[str, ...]
    created: datetime
    modified: datetime
    state: str | None = None
    next_hops: tuple[str, ...] | None = None
    unacknowledged: int | None = None
    unread: int | None = None
    last_error: str | None = None
    connections: tuple[ConnectionInfo, ...] | None = None
    damaged_count: int = 0

    def to_dict(self) -> dict[str, object]:
        """Ready for json. Only an outgoing queue has a state and what follows it."""
        values = asdict(self) | {"created": iso_8601(self.created), "modified": iso_8601(self.modified)}
        values["subqueues"] = list(self.subqueues)
        if self.next_hops is None or self.connections is None:
            for name in _OUTGOING:
                del values[name]
        else:
            values["next_hops"] = list(self.next_hops)
            values["connections"] = [
                asdict(each) | {"time": iso_8601(each.time), "addresses": list(each.addresses)}
                for each in self.connections
            ]
        return values


def queue_info(queue: Queue, name: FormatName, queue_manager: bytes, *, damaged_count: int = 0) -> QueueInfo:
    attributes, journal = queue.attributes, queue.journal
    number = queue.private_queue_number
    return QueueInfo(
        path=f"{queue.pathname};journal" if queue.is_journal else str(queue.pathname),
        format_name=str(name),
        private_format_name=str(PrivateFormatName(queue_manager, number)) if number else None,
        kind=kind_of(queue),
        label=attributes.label,
        transactional=attributes.transactional,
        message_count=len(queue.positions),
        bytes=queue.total_bytes,
        journal=attributes.journaling,
        journal_count=0 if journal is None else len(journal.positions),
        journal_bytes=0 if journal is None else journal.total_bytes,
        quota_kb=_kilobytes(attributes.quota),
        journal_quota_kb=_kilobytes(attributes.journal_quota),
        authenticate=attributes.authentication,
        privacy=_PRIVACY_WORDS[attributes.privacy_level],
        base_priority=attributes.base_priority,
        type_id=guid_text(attributes.type_guid),
        multicast=attributes.multicast_address,
        subqueues=tuple(sorted(each.pathname.subqueue for each in queue.subqueues.values() if not each.is_provisional)),
        created=datetime.fromtimestamp(queue.create_time, UTC),
        modified=datetime.fromtimestamp(queue.modify_time, UTC),
        **(_outgoing(queue) if isinstance(queue, OutgoingQueue) else {}),
        damaged_count=damaged_count,
    )


def _outgoing(queue: OutgoingQueue) -> dict[str, Any]:
    return {
        "state": queue.state.name.lower(),
        "next_hops": queue.next_hops,
        "unacknowledged": queue.outgoing_transfer_info.no_ack_count,
        "unread": queue.outgoing_transfer_info.no_read_count,
        # A queue manager inside a program transfers nothing and has no links.
        "last_error": "" if queue.link is None else queue.link.last_error,
        "connections": tuple(map(_connection, queue.connection_history)),
    }


def _connection(event: ConnectionEvent) -> ConnectionInfo:
    return ConnectionInfo(
        status=event.status.name.lower(),
        time=datetime.fromtimestamp(event.time, UTC),
        error=f"{event.error & 0xFFFF_FFFF:#010x}",
        addresses=event.addresses,
    )


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
            if not isinstance(value, str) or value not in _PRIVACY:
                raise InvalidParameter(f"privacy is none, optional or body, not {excerpt(value)}")
            return "privacy_level", _PRIVACY[value]
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


def _kilobytes(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota


def kind_of(queue: Queue) -> str:
    """The `kind` of a QueueInfo."""
    if isinstance(queue, OutgoingQueue):
        return "outgoing"
    if queue.parent is not None:
        return "journal" if queue.is_journal else "subqueue"
    kind = queue.queue_type
    return "private" if isinstance(kind, NoPath) else QueueKind(kind).value
