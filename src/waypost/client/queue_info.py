"""QueueInfo: what there is to know of a queue; and the properties of one, checked and as the core has them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET, to_builtins

from waypost.api.properties import QUEUE_ROWS, ConnectionObject, QueueObject, QueueProperties
from waypost.api.rows import Kind, Row
from waypost.client.excerpt import excerpt
from waypost.client.message import iso_8601
from waypost.client.sending import is_encodable
from waypost.core.queues import UNLIMITED, NoPath, OutgoingQueue, Queue
from waypost.errors import DecodeError, InvalidParameter, UnsupportedFormatName
from waypost.guid import NULL_GUID, guid_text, parse_guid
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
# Notes belong to an answer, and not to the queue.
_KEYS: Final = tuple(name for name in QueueObject.__struct_fields__ if name != "notes")


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

    def to_object(self) -> QueueObject:
        """The queue object of HTTP."""
        values = {name: _form(getattr(self, name)) for name in _KEYS}
        if self.state is None:
            values.update(dict.fromkeys(_OUTGOING, UNSET))
        return QueueObject(**values)

    def to_dict(self) -> dict[str, object]:
        """Ready for json. Only an outgoing queue has a state and what follows it."""
        found: dict[str, object] = to_builtins(self.to_object())
        return found


def _form(value: Any) -> Any:
    """A value as the queue object has it."""
    if isinstance(value, datetime):
        return iso_8601(value)
    if isinstance(value, tuple):
        return [_form(each) for each in value]
    if isinstance(value, ConnectionInfo):
        addresses = list(value.addresses)
        return ConnectionObject(status=value.status, time=iso_8601(value.time), error=value.error, addresses=addresses)
    return value


def queue_info(queue: Queue, name: FormatName, queue_manager: bytes, *, damaged_count: int = 0) -> QueueInfo:
    attributes, journal = queue.attributes, queue.journal
    number = queue.private_queue_number
    return QueueInfo(
        path=f"{queue.pathname};journal" if queue.is_journal else str(queue.pathname),
        format_name=str(name),
        private_format_name=str(PrivateFormatName(queue_manager, number)) if number else None,
        kind=kind_of(queue),
        transactional=attributes.transactional,
        message_count=len(queue.positions),
        bytes=queue.total_bytes,
        journal_count=0 if journal is None else len(journal.positions),
        journal_bytes=0 if journal is None else journal.total_bytes,
        **{row.name: _SHOW.get(row.kind, _same)(getattr(attributes, row.attribute)) for row in QUEUE_ROWS},
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


def queue_attributes(properties: QueueProperties) -> dict[str, Any]:
    """The attributes of the core's queue that were given. InvalidParameter for a value that cannot be."""
    found = {}
    for row in QUEUE_ROWS:
        value = getattr(properties, row.name)
        if value is not UNSET:
            found[row.attribute] = _READ[row.kind](row, value)
    return found


def ignored(name: FormatName, properties: QueueProperties) -> str:
    """What is given for a queue and changes nothing, as a sentence, or ""."""
    is_public = isinstance(name, PublicFormatName) or getattr(name, "kind", None) is QueueKind.PUBLIC
    if is_public or properties.base_priority in (UNSET, 0):
        return ""
    return "base_priority changes nothing: it is always 0 for a private queue (MS-MQMQ 2.3.1.6)"


def warn_of_ignored(name: FormatName, properties: QueueProperties) -> None:
    """Say it to the program that called the method which called the method that calls this."""
    sentence = ignored(name, properties)
    if sentence:
        warnings.warn(sentence, stacklevel=4)


def _label(row: Row, value: object) -> str:
    if not isinstance(value, str) or not is_encodable(value) or not is_queue_label(value):
        high = row.constraints["max_length"]
        raise InvalidParameter(f"the label of a queue is text of at most {high} characters")
    return value


def _flag(_: Row, value: object) -> bool:
    return bool(value)


def _quota(row: Row, value: object) -> int:
    if value is None:
        return UNLIMITED
    if not isinstance(value, int) or not 0 <= value < UNLIMITED:
        raise InvalidParameter(f"{row.name} is a number of kilobytes, or None without a limit, not {excerpt(value)}")
    return value


def _privacy(row: Row, value: object) -> QueuePrivacy:
    if not isinstance(value, str) or value not in _PRIVACY:
        raise InvalidParameter(f"{row.name} is none, optional or body, not {excerpt(value)}")
    return _PRIVACY[value]


def _number(row: Row, value: object) -> int:
    low, high = row.constraints["minimum"], row.constraints["maximum"]
    if not isinstance(value, int) or not low <= value <= high:
        raise InvalidParameter(f"{row.name} is a number from {low} to {high}, not {excerpt(value)}")
    return value


def _guid(row: Row, value: object) -> bytes:
    try:
        return parse_guid(value) if isinstance(value, str) and value else NULL_GUID
    except DecodeError:
        raise InvalidParameter(f"{row.name} is a GUID of 8-4-4-4-12 hexadecimal digits, not {excerpt(value)}") from None


def _multicast(_: Row, value: object) -> str:
    """ "" for none, which is all that there is."""
    if value:
        raise UnsupportedFormatName(f"no queue takes messages from {excerpt(value)}: multicast is not offered yet")
    return ""


def _kilobytes(quota: int) -> int | None:
    return None if quota == UNLIMITED else quota


def _same(value: Any) -> Any:
    return value


# A value as the core has it, and back.
_READ: Final[dict[Kind, Callable[[Row, Any], Any]]] = {
    Kind.TEXT: _label,
    Kind.FLAG: _flag,
    Kind.KILOBYTES: _quota,
    Kind.WORD: _privacy,
    Kind.NUMBER: _number,
    Kind.GUID: _guid,
    Kind.MULTICAST: _multicast,
}
_SHOW: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.KILOBYTES: _kilobytes,
    Kind.WORD: _PRIVACY_WORDS.__getitem__,
    Kind.GUID: guid_text,
}


def kind_of(queue: Queue) -> str:
    """The `kind` of a QueueInfo."""
    if isinstance(queue, OutgoingQueue):
        return "outgoing"
    if queue.parent is not None:
        return "journal" if queue.is_journal else "subqueue"
    kind = queue.queue_type
    return "private" if isinstance(kind, NoPath) else QueueKind(kind).value
