"""The records of queues and of the queue manager itself; see waypost.store.records."""

from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from struct import Struct
from typing import Final

from waypost.guid import NULL_GUID
from waypost.store.records import VERSION, damaged, decode_text, encode_text, join, split, unpack
from waypost.wire.property_values import DEFAULT_QUOTA, INITIALIZATION_RETRY_SECONDS, UNLIMITED


class QueueKind(IntEnum):
    """Kind of queue: a QueueType of MS-MQDMPR 3.1.1.2, or a companion of another queue."""

    PRIVATE = 0
    PUBLIC = 1
    SYSTEM = 2
    CONNECTOR = 3
    OUTGOING = 4
    SUBQUEUE = 5
    JOURNAL = 6


# QueueRecord.flags: the attribute of each bit.
FLAGS: Final = {"journaling": 0x01, "authentication": 0x02, "transactional": 0x04}

_QUEUE: Final = Struct("<BBBBBhIIIIIQ16s16s")
# The fields behind it: texts, and the security descriptor.
_QUEUE_PARTS: Final = 8
_MAX_PRIVACY_LEVEL: Final = 2
_MAX_SCOPE: Final = 1


@dataclass(slots=True)
class QueueRecord:
    """The persistent attributes of a queue (MS-MQDMPR 3.1.1.2) and of an outgoing queue (3.1.1.3).

    `privacy_level` has the numbers of MS-MQMQ 2.3.1.12; `scope` is 0 for the site, 1 for the enterprise. Times are
    seconds since 1970. `parent` is the queue id of the queue that a subqueue or a journal belongs to, else 0.
    """

    kind: QueueKind
    privacy_level: int = 1
    scope: int = 1
    flags: int = 0
    base_priority: int = 0
    private_queue_number: int = 0
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    create_time: int = 0
    modify_time: int = 0
    parent: int = 0
    identifier: bytes = NULL_GUID
    type_guid: bytes = NULL_GUID
    pathname: str = ""
    qualified_pathname: str = ""
    label: str = ""
    multicast_address: str = ""
    full_path: str = ""
    directory_path: str = ""
    destination_format_name: str = ""
    security: bytes = b""

    @classmethod
    def decode(cls, value: bytes) -> "QueueRecord":
        kind, privacy_level, scope, *rest = unpack(_QUEUE, value, "queue")
        parts = split(value, _QUEUE.size, "queue")
        if (
            kind >= len(QueueKind)
            or privacy_level > _MAX_PRIVACY_LEVEL
            or scope > _MAX_SCOPE
            or len(parts) != _QUEUE_PARTS
        ):
            raise damaged("queue")
        rest += [*(decode_text(part, "queue") for part in parts[:-1]), parts[-1]]
        return cls(QueueKind(kind), privacy_level, scope, *rest)

    def encode(self) -> bytes:
        *values, security = _queue_values(self)
        texts = values[1 - _QUEUE_PARTS :]
        return _QUEUE.pack(VERSION, *values[: -len(texts)]) + join([*map(encode_text, texts), security])


_queue_values: Final = attrgetter(*(each.name for each in fields(QueueRecord)))

# QueueManagerRecord.flags.
DIRECTORY_INTEGRATED: Final = 0x01
SRMP_HTTP_SUPPORT: Final = 0x02
SRMP_PGM_SUPPORT: Final = 0x04
HARDENED_SECURITY: Final = 0x08

_QUEUE_MANAGER: Final = Struct("<BBIIIII16s16s")


@dataclass(slots=True)
class QueueManagerRecord:
    """Whose store it is: what of the queue manager (MS-MQDMPR 3.1.1.1) has to survive and is not a counter.

    Times are seconds since 1970, quotas kilobytes (readings MQDMPR 3.F). `last_domain` is NULL_GUID outside a domain.
    """

    flags: int = 0
    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota: int = DEFAULT_QUOTA
    journal_quota: int = UNLIMITED
    initialization_retry_timer_duration: int = INITIALIZATION_RETRY_SECONDS
    identifier: bytes = NULL_GUID
    last_domain: bytes = NULL_GUID
    computer_name: str = ""
    security: bytes = b""
    directory_server_list: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "QueueManagerRecord":
        fields = unpack(_QUEUE_MANAGER, value, "queue manager")
        parts = split(value, _QUEUE_MANAGER.size, "queue manager")
        if len(parts) < 2:
            raise damaged("queue manager")
        name, security, *servers = parts
        fields += [
            decode_text(name, "queue manager"),
            security,
            [decode_text(each, "queue manager") for each in servers],
        ]
        return cls(*fields)

    def encode(self) -> bytes:
        head = _QUEUE_MANAGER.pack(
            VERSION,
            self.flags,
            self.create_time,
            self.modify_time,
            self.queue_manager_quota,
            self.journal_quota,
            self.initialization_retry_timer_duration,
            self.identifier,
            self.last_domain,
        )
        return head + join(
            [encode_text(self.computer_name), self.security, *map(encode_text, self.directory_server_list)]
        )
