"""What is told of a queue, and the words for its privacy."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from waypost.api.records import Record
from waypost.wire.property_values import QueuePrivacy

# Which queues to list; "" for those that applications have created.
Kind: TypeAlias = Literal["", "local", "outgoing", "system", "all"]

PRIVACY: Final = {
    "none": QueuePrivacy.MQ_PRIV_LEVEL_NONE,
    "optional": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL,
    "body": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
}
PRIVACY_WORDS: Final = {level: word for word, level in PRIVACY.items()}


class ConnectionInfo(Record, frozen=True, kw_only=True):
    """Something that happened to the connection of an outgoing queue: MS-MQMQ 2.3.12.25.

    `status` is such as ready or connect_socket_failure. `error` is an HRESULT as 0x and eight digits, zero for none.
    """

    status: str
    time: datetime
    error: str
    addresses: tuple[str, ...]


class QueueInfo(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A queue at one moment.

    `kind` is private, public, system, journal, subqueue or outgoing. Quotas are in kilobytes, None without one.

    What follows `modified` is None but for an outgoing queue, and not in the JSON of others: its `state`, such as
    inactive or connected; `next_hops`, the addresses it is sent to; how many transactional messages were sent and are
    `unacknowledged`, and how many arrived and are `unread`; why the last attempt to connect failed, "" if it did not,
    as `last_error`; and the last `connections`, the youngest at the end. `damaged_count` is how many messages were
    damaged on disk and set aside. `notes` says what was given and changes nothing, in the answer to a request that
    creates or changes a queue.
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
    damaged_count: int
    notes: tuple[str, ...] = ()


class QueueList(Record, frozen=True):
    """Queues in the order of their names."""

    queues: tuple[QueueInfo, ...]


class MovedObject(Struct):
    """The number of messages that this request moved. `next` is "" when all are moved."""

    moved: int
    next: str
    up_to: str
