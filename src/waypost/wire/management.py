"""MS-MQMQ 2.3.11 and 2.3.12: the facts that a queue manager gives an administrator about itself and its queues.

A snapshot is filled by the engine and turned into properties here; which value belongs to which property follows
MS-MQMR 3.1.4.1. A value that does not apply to the object, such as the next hops of a local queue, is VT_NULL.
A count or time that its variant type cannot hold is reported as the largest one that it can.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias

from waypost.errors import EncodeError
from waypost.guid import guid_text
from waypost.wire.identifiers import SequenceInfo
from waypost.wire.propid import ManagementMachineProperty, ManagementQueueProperty, Property
from waypost.wire.propvariant import PropVariant, Value
from waypost.wire.variant_types import VT_VECTOR, VarType

LARGEST: Final = {
    VarType.VT_UI4: 0xFFFF_FFFF,
    VarType.VT_I4: 0x7FFF_FFFF,
    VarType.VT_I8: 0x7FFF_FFFF_FFFF_FFFF,
}

# The GUID, 16 bytes, is that of a connected network.
NextHop: TypeAlias = IPv4Address | IPv6Address | bytes


class ConnectionState(StrEnum):
    """MS-MQMQ 2.3.11.4."""

    MSMQ_CONNECTED = "CONNECTED"
    MSMQ_DISCONNECTED = "DISCONNECTED"


class QueueType(StrEnum):
    """MS-MQMQ 2.3.12.3. MACHINE is a system queue."""

    MGMT_QUEUE_TYPE_PUBLIC = "PUBLIC"
    MGMT_QUEUE_TYPE_PRIVATE = "PRIVATE"
    MGMT_QUEUE_TYPE_MACHINE = "MACHINE"
    MGMT_QUEUE_TYPE_CONNECTOR = "CONNECTOR"
    MGMT_QUEUE_TYPE_MULTICAST = "MULTICAST"


class QueueLocation(StrEnum):
    """MS-MQMQ 2.3.12.4. An outgoing queue is REMOTE."""

    MGMT_QUEUE_LOCAL_LOCATION = "LOCAL"
    MGMT_QUEUE_REMOTE_LOCATION = "REMOTE"


class Answer(StrEnum):
    """MS-MQMQ 2.3.12.5 and 2.3.12.6: whether a queue is transactional, or foreign."""

    UNKNOWN = "UNKNOWN"
    YES = "YES"
    NO = "NO"


class QueueState(StrEnum):
    """MS-MQMQ 2.3.12.11: the connection of an outgoing queue. Any other queue is MGMT_QUEUE_STATE_LOCAL."""

    MGMT_QUEUE_STATE_LOCAL = "LOCAL CONNECTION"
    MGMT_QUEUE_STATE_NONACTIVE = "INACTIVE"
    MGMT_QUEUE_STATE_WAITING = "WAITING"
    MGMT_QUEUE_STATE_NEED_VALIDATE = "NEED VALIDATION"
    MGMT_QUEUE_STATE_ONHOLD = "ONHOLD"
    MGMT_QUEUE_STATE_CONNECTED = "CONNECTED"
    MGMT_QUEUE_STATE_DISCONNECTING = "DISCONNECTING"
    MGMT_QUEUE_STATE_DISCONNECTED = "DISCONNECTED"


class ConnectionStatus(IntEnum):
    """MS-MQMQ 2.3.12.25: how far a connection came, or why it failed."""

    IN_PROGRESS = 0
    ESTABLISH_PACKET_RECEIVED = 1
    READY = 2
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILURE = 0x80000001
    CREATE_SOCKET_FAILURE = 0x80000002
    BIND_SOCKET_FAILURE = 0x80000003
    CONNECT_SOCKET_FAILURE = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SEND_FAILURE = 0x80000006
    NOT_READY_FAILURE = 0x80000007
    DNS_FAILURE = 0x80000008
    SERVER_CERTIFICATE_FAILURE = 0x80000009
    CONNECTION_LIMIT_REACHED = 0x8000000A
    CONNECTION_REFUSED = 0x8000000B
    NO_ROUTING_DATA = 0x8000000C
    LOW_MEMORY = 0x8000000D


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """MS-MQMQ 2.3.12.24: an incoming transactional sequence."""

    format_name: str
    sender_id: bytes
    sequence_id: int
    sequence_number: int
    last_access_time: int
    message_reject_count: int


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """MS-MQMQ 2.3.12.25: something that happened to the connection of an outgoing queue. Error 0 is none."""

    status: ConnectionStatus
    time: int
    error: int
    addresses: tuple[str, ...]


@dataclass(slots=True)
class EodState:
    """MS-MQMQ 2.3.12.13 to 2.3.12.23: exactly-once delivery from an outgoing queue, as the sender knows it.

    Times are Unix seconds; a message that does not exist is None.
    """

    last_ack: SequenceInfo | None = None
    last_ack_time: int = 0
    last_ack_count: int = 0
    first_non_ack: SequenceInfo | None = None
    last_non_ack: SequenceInfo | None = None
    next_seq: SequenceInfo | None = None
    no_read_count: int = 0
    no_ack_count: int = 0
    resend_time: int = 0
    resend_interval: int = 0
    resend_count: int = 0


@dataclass(slots=True)
class QueueManagement:
    """MS-MQMQ 2.3.12: a queue at one moment. `possible_hops` are the candidates without a connection."""

    pathname: str
    format_name: str
    type: QueueType
    location: QueueLocation
    xact: Answer = Answer.UNKNOWN
    foreign: Answer = Answer.UNKNOWN
    message_count: int = 0
    bytes_in_queue: int = 0
    journal_message_count: int = 0
    bytes_in_journal: int = 0
    state: QueueState = QueueState.MGMT_QUEUE_STATE_LOCAL
    connected_hop: NextHop | None = None
    possible_hops: list[NextHop] = field(default_factory=list)
    eod: EodState | None = None
    source_info: list[SourceInfo] = field(default_factory=list)
    connection_history: list[ConnectionEvent] = field(default_factory=list)
    subqueue_names: list[str] = field(default_factory=list)
    open_handles: int = 0

    @property
    def is_active(self) -> bool:
        """MS-MQMQ 2.3.11.1: it holds messages or somebody has it open."""
        return self.message_count > 0 or self.open_handles > 0

    @property
    def is_private(self) -> bool:
        return self.type is QueueType.MGMT_QUEUE_TYPE_PRIVATE

    @property
    def is_outgoing(self) -> bool:
        return self.location is QueueLocation.MGMT_QUEUE_REMOTE_LOCATION

    @property
    def next_hops(self) -> list[NextHop]:
        """The hop in use, or all that may come to be."""
        return self.possible_hops if self.connected_hop is None else [self.connected_hop]


@dataclass(slots=True)
class MachineManagement:
    """MS-MQMQ 2.3.11: the queue manager at one moment. `ds_server` is None without a directory."""

    active_queues: list[str]
    private_queues: list[str]
    ds_server: str | None
    connected: ConnectionState
    type: str
    bytes_in_all_queues: int

    @classmethod
    def of(
        cls, queues: Iterable[QueueManagement], ds_server: str | None, connected: ConnectionState, type_text: str = ""
    ) -> "MachineManagement":
        """Reads from the snapshots of all queues what the machine has to tell. A journal is a queue, too."""
        queues = list(queues)
        return cls(
            [queue.format_name for queue in queues if queue.is_active],
            [queue.pathname for queue in queues if queue.is_private and not queue.is_outgoing],
            ds_server,
            connected,
            type_text,
            sum(queue.bytes_in_queue + queue.bytes_in_journal for queue in queues),
        )


def next_hop_text(hop: NextHop) -> str:
    """MS-MQMQ 2.3.12.12. RFC 3986 has no zone in an IPv6 address."""
    match hop:
        case IPv4Address():
            return f"IP={hop}"
        case IPv6Address():
            return f"IPv6={str(hop).partition('%')[0]}"
        case guid:
            return f"FOREIGN={guid_text(guid)}"


def ds_server_text(name: str) -> str:
    """MS-MQMQ 2.3.11.3: the name behind two backslashes."""
    if not name or "," in name or "\0" in name:
        reason = "the name is empty, or contains a comma or a null character"
        raise EncodeError("MS-MQMQ 2.3.11.3", "PROPID_MGMT_MSMQ_DSSERVER", reason)
    return f"\\\\{name}"


def machine_properties(machine: MachineManagement) -> list[tuple[Property, PropVariant]]:
    p = ManagementMachineProperty
    ds_server = None if machine.ds_server is None else ds_server_text(machine.ds_server)
    return [
        _property(p.PROPID_MGMT_MSMQ_ACTIVEQUEUES, machine.active_queues),
        _property(p.PROPID_MGMT_MSMQ_PRIVATEQ, machine.private_queues),
        _property(p.PROPID_MGMT_MSMQ_DSSERVER, ds_server),
        _property(p.PROPID_MGMT_MSMQ_CONNECTED, machine.connected.value),
        _property(p.PROPID_MGMT_MSMQ_TYPE, machine.type),
        _property(p.PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES, machine.bytes_in_all_queues),
    ]


def queue_properties(queue: QueueManagement) -> list[tuple[Property, PropVariant]]:
    p = ManagementQueueProperty
    state, next_hops, eod, history = QueueState.MGMT_QUEUE_STATE_LOCAL, None, None, None
    if queue.is_outgoing:
        state, eod = queue.state, queue.eod
        next_hops = [next_hop_text(hop) for hop in queue.next_hops]
        history = _connection_history(queue.connection_history)
    return [
        _property(p.PROPID_MGMT_QUEUE_PATHNAME, queue.pathname),
        _property(p.PROPID_MGMT_QUEUE_FORMATNAME, queue.format_name),
        _property(p.PROPID_MGMT_QUEUE_TYPE, queue.type.value),
        _property(p.PROPID_MGMT_QUEUE_LOCATION, queue.location.value),
        _property(p.PROPID_MGMT_QUEUE_XACT, queue.xact.value),
        _property(p.PROPID_MGMT_QUEUE_FOREIGN, queue.foreign.value),
        _property(p.PROPID_MGMT_QUEUE_MESSAGE_COUNT, queue.message_count),
        _property(p.PROPID_MGMT_QUEUE_BYTES_IN_QUEUE, queue.bytes_in_queue),
        _property(p.PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT, queue.journal_message_count),
        _property(p.PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL, queue.bytes_in_journal),
        _property(p.PROPID_MGMT_QUEUE_STATE, state.value),
        _property(p.PROPID_MGMT_QUEUE_NEXTHOPS, next_hops),
        *_eod_properties(eod),
        _property(p.PROPID_MGMT_QUEUE_EOD_SOURCE_INFO, _source_info(queue.source_info)),
        _property(p.PROPID_MGMT_QUEUE_CONNECTION_HISTORY, history),
        _property(p.PROPID_MGMT_QUEUE_SUBQUEUE_COUNT, len(queue.subqueue_names)),
        _property(p.PROPID_MGMT_QUEUE_SUBQUEUE_NAMES, queue.subqueue_names),
    ]


def _eod_properties(eod: EodState | None) -> list[tuple[Property, PropVariant]]:
    p = ManagementQueueProperty
    if eod is None:
        first, last = p.PROPID_MGMT_QUEUE_EOD_LAST_ACK, p.PROPID_MGMT_QUEUE_EOD_RESEND_COUNT
        return [_property(prop, None) for prop in p if first <= prop <= last]
    return [
        _property(p.PROPID_MGMT_QUEUE_EOD_LAST_ACK, _sequence_info(eod.last_ack)),
        _property(p.PROPID_MGMT_QUEUE_EOD_LAST_ACK_TIME, eod.last_ack_time),
        _property(p.PROPID_MGMT_QUEUE_EOD_LAST_ACK_COUNT, eod.last_ack_count),
        _property(p.PROPID_MGMT_QUEUE_EOD_FIRST_NON_ACK, _sequence_info(eod.first_non_ack)),
        _property(p.PROPID_MGMT_QUEUE_EOD_LAST_NON_ACK, _sequence_info(eod.last_non_ack)),
        _property(p.PROPID_MGMT_QUEUE_EOD_NEXT_SEQ, _sequence_info(eod.next_seq)),
        _property(p.PROPID_MGMT_QUEUE_EOD_NO_READ_COUNT, eod.no_read_count),
        _property(p.PROPID_MGMT_QUEUE_EOD_NO_ACK_COUNT, eod.no_ack_count),
        _property(p.PROPID_MGMT_QUEUE_EOD_RESEND_TIME, eod.resend_time),
        _property(p.PROPID_MGMT_QUEUE_EOD_RESEND_INTERVAL, eod.resend_interval),
        _property(p.PROPID_MGMT_QUEUE_EOD_RESEND_COUNT, eod.resend_count),
    ]


def _sequence_info(info: SequenceInfo | None) -> bytes | None:
    return None if info is None else info.encode()


def _source_info(sources: list[SourceInfo]) -> list[PropVariant]:
    return [
        _vector(VarType.VT_LPWSTR, [source.format_name for source in sources]),
        _vector(VarType.VT_CLSID, [source.sender_id for source in sources]),
        _vector(VarType.VT_UI8, [source.sequence_id for source in sources]),
        _numbers(VarType.VT_UI4, [source.sequence_number for source in sources]),
        _numbers(VarType.VT_I4, [source.last_access_time for source in sources]),
        _numbers(VarType.VT_UI4, [source.message_reject_count for source in sources]),
    ]


def _connection_history(events: list[ConnectionEvent]) -> list[PropVariant]:
    """The addresses are a vector of vectors (readings MQMQ 3.28)."""
    return [
        _vector(VarType.VT_UI4, [event.status.value for event in events]),
        _numbers(VarType.VT_I4, [event.time for event in events]),
        _vector(VarType.VT_I4, [event.error for event in events]),
        _vector(VarType.VT_VARIANT, [_vector(VarType.VT_LPWSTR, list(event.addresses)) for event in events]),
    ]


def _vector(vt: VarType, elements: Value) -> PropVariant:
    return PropVariant(vt | VT_VECTOR, elements)


def _numbers(vt: VarType, numbers: list[int]) -> PropVariant:
    return _vector(vt, [_fit(vt, number) for number in numbers])


def _fit(vt: int, number: int) -> int:
    return min(number, LARGEST[VarType(vt)])


def _property(prop: Property, value: Value) -> tuple[Property, PropVariant]:
    match value:
        case None:
            return prop, PropVariant(VarType.VT_NULL)
        case int():
            return prop, PropVariant(prop.vt, _fit(prop.vt, value))
        case _:
            return prop, PropVariant(prop.vt, value)
