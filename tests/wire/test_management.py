"""MS-MQMQ 2.3.11 and 2.3.12."""

from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address

import pytest

from waypost.errors import EncodeError
from waypost.wire.identifiers import SequenceInfo
from waypost.wire.management import (
    Answer,
    ConnectionEvent,
    ConnectionState,
    ConnectionStatus,
    EodState,
    MachineManagement,
    NextHop,
    QueueLocation,
    QueueManagement,
    QueueState,
    QueueType,
    SourceInfo,
    machine_properties,
    next_hop_text,
    queue_properties,
)
from waypost.wire.propid import ManagementMachineProperty, ManagementQueueProperty
from waypost.wire.propvariant import PropVariant
from waypost.wire.variant_types import VT_VECTOR, VarType

TEXTS = VarType.VT_LPWSTR | VT_VECTOR
GUID = bytes.fromhex("33221100 5544 7766 8899 aabbccddeeff")


def local_queue(name: str = "orders") -> QueueManagement:
    return QueueManagement(
        f"HOST\\private$\\{name}",
        f"DIRECT=OS:HOST\\private$\\{name}",
        QueueType.MGMT_QUEUE_TYPE_PRIVATE,
        QueueLocation.MGMT_QUEUE_LOCAL_LOCATION,
    )


def outgoing_queue() -> QueueManagement:
    return QueueManagement(
        "FAR\\private$\\orders",
        "DIRECT=OS:FAR\\private$\\orders",
        QueueType.MGMT_QUEUE_TYPE_PRIVATE,
        QueueLocation.MGMT_QUEUE_REMOTE_LOCATION,
        state=QueueState.MGMT_QUEUE_STATE_WAITING,
        eod=EodState(),
    )


def told(queue: QueueManagement) -> dict[int, PropVariant]:
    return {int(prop): value for prop, value in queue_properties(queue)}


def machine(
    queues: list[QueueManagement],
    ds_server: str | None = None,
    connected: ConnectionState = ConnectionState.MSMQ_CONNECTED,
) -> dict[int, PropVariant]:
    snapshot = MachineManagement.of(queues, ds_server, connected, "Waypost")
    return {int(prop): value for prop, value in machine_properties(snapshot)}


def values(strings: type[StrEnum]) -> list[str]:
    return [member.value for member in strings]


def test_every_property_is_told_in_order_with_its_type_and_can_be_encoded() -> None:
    for queue in (local_queue(), outgoing_queue()):
        properties = queue_properties(queue)
        assert [prop for prop, _ in properties] == list(ManagementQueueProperty)
        for prop, value in properties:
            assert value.vt in (prop.vt, VarType.VT_NULL)
            assert PropVariant.decode(value.encode()).vt == value.vt
    described = machine_properties(MachineManagement.of([], "DC", ConnectionState.MSMQ_CONNECTED))
    assert [(prop, value.vt) for prop, value in described] == [(prop, prop.vt) for prop in ManagementMachineProperty]


@pytest.mark.spec("MQMQ-2.3.11.1-01")
def test_active_queues_hold_messages_or_are_open_and_private_queues_are_those_of_the_computer() -> None:
    idle, full, opened, public = (local_queue(name) for name in ("idle", "full", "opened", "public"))
    full.message_count = 1
    opened.open_handles = 1
    public.type = QueueType.MGMT_QUEUE_TYPE_PUBLIC
    public.pathname = "HOST\\public"
    outgoing = outgoing_queue()
    outgoing.message_count = 2
    properties = machine([idle, full, opened, public, outgoing])
    active = [queue.format_name for queue in (full, opened, outgoing)]
    assert properties[1] == PropVariant(TEXTS, active)
    assert properties[2] == PropVariant(TEXTS, [f"HOST\\private$\\{name}" for name in ("idle", "full", "opened")])


@pytest.mark.spec("MQMQ-2.3.11.3-01")
def test_the_directory_server_stands_behind_two_backslashes_and_has_no_comma() -> None:
    assert machine([], "DC1.example")[3] == PropVariant(VarType.VT_LPWSTR, "\\\\DC1.example")
    for name in ("a,b", "a\0b", ""):
        with pytest.raises(EncodeError, match="DSSERVER"):
            machine([], name)


def test_without_a_directory_the_server_is_null() -> None:
    assert machine([])[3] == PropVariant(VarType.VT_NULL)


@pytest.mark.spec("MQMQ-2.3.11.4-01")
def test_a_machine_is_connected_or_disconnected() -> None:
    assert values(ConnectionState) == ["CONNECTED", "DISCONNECTED"]
    for state in ConnectionState:
        assert machine([], connected=state)[4] == PropVariant(VarType.VT_LPWSTR, state.value)


def test_the_bytes_of_all_queues_and_journals_are_added() -> None:
    queues = [local_queue("a"), local_queue("b")]
    queues[0].bytes_in_queue = 0xFFFF_FFFF
    queues[1].bytes_in_journal = 2
    assert machine(queues)[6] == PropVariant(VarType.VT_I8, 0x1_0000_0001)
    assert machine(queues)[5] == PropVariant(VarType.VT_LPWSTR, "Waypost")


@pytest.mark.spec("MQMQ-2.3.12.3-01")
def test_type_location_xact_and_foreign_are_words() -> None:
    assert values(QueueType) == ["PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST"]
    assert values(QueueLocation) == ["LOCAL", "REMOTE"]
    assert values(Answer) == ["UNKNOWN", "YES", "NO"]
    queue = local_queue()
    queue.type = QueueType.MGMT_QUEUE_TYPE_MACHINE
    queue.xact, queue.foreign = Answer.YES, Answer.NO
    properties = told(queue)
    assert [properties[number].value for number in (3, 4, 5, 6)] == ["MACHINE", "LOCAL", "YES", "NO"]


@pytest.mark.spec("MQMQ-2.3.12.7-01")
def test_messages_and_bytes_of_queue_and_journal_are_unsigned_32_bit_numbers() -> None:
    queue = local_queue()
    queue.message_count, queue.bytes_in_queue = 3, 300
    queue.journal_message_count, queue.bytes_in_journal = 4, 400
    properties = told(queue)
    assert [properties[number] for number in (7, 8, 9, 10)] == [
        PropVariant(VarType.VT_UI4, number) for number in (3, 300, 4, 400)
    ]


def test_a_number_that_does_not_fit_is_told_as_the_largest_that_does() -> None:
    queue = outgoing_queue()
    queue.bytes_in_queue = 1 << 63
    queue.eod = EodState(resend_time=0x8000_0000)
    queue.source_info = [SourceInfo("DIRECT=OS:HOST\\q", GUID, 1, 1 << 32, 0x8000_0000, 1 << 32)]
    queue.connection_history = [ConnectionEvent(ConnectionStatus.READY, 0x8000_0000, 0, ())]
    properties = told(queue)
    assert properties[8] == PropVariant(VarType.VT_UI4, 0xFFFF_FFFF)
    assert properties[21] == PropVariant(VarType.VT_I4, 0x7FFF_FFFF)
    sources, history = properties[24].value, properties[25].value
    assert isinstance(sources, list)
    assert isinstance(history, list)
    assert sources[3:] == [
        PropVariant(VarType.VT_UI4 | VT_VECTOR, [0xFFFF_FFFF]),
        PropVariant(VarType.VT_I4 | VT_VECTOR, [0x7FFF_FFFF]),
        PropVariant(VarType.VT_UI4 | VT_VECTOR, [0xFFFF_FFFF]),
    ]
    assert history[1] == PropVariant(VarType.VT_I4 | VT_VECTOR, [0x7FFF_FFFF])
    assert machine([queue])[6] == PropVariant(VarType.VT_I8, 0x7FFF_FFFF_FFFF_FFFF)


@pytest.mark.spec("MQMQ-2.3.12.11-01")
def test_the_state_of_an_outgoing_queue_is_one_of_eight_words() -> None:
    assert set(values(QueueState)) == {
        "LOCAL CONNECTION",
        "INACTIVE",
        "WAITING",
        "NEED VALIDATION",
        "ONHOLD",
        "CONNECTED",
        "DISCONNECTING",
        "DISCONNECTED",
    }
    queue = outgoing_queue()
    for state in QueueState:
        queue.state = state
        assert told(queue)[11] == PropVariant(VarType.VT_LPWSTR, state.value)


@pytest.mark.spec("MQMQ-2.3.12.12-01")
def test_next_hops_are_all_candidates_while_connecting_and_then_the_one_in_use() -> None:
    candidates: list[NextHop] = [IPv4Address("10.0.0.1"), IPv6Address("fe80::1"), GUID]
    queue = outgoing_queue()
    queue.possible_hops = candidates
    foreign = "FOREIGN=00112233-4455-6677-8899-aabbccddeeff"
    assert told(queue)[12] == PropVariant(TEXTS, ["IP=10.0.0.1", "IPv6=fe80::1", foreign])
    queue.connected_hop = candidates[0]
    assert told(queue)[12] == PropVariant(TEXTS, ["IP=10.0.0.1"])


def test_a_zone_is_left_out_of_an_ipv6_hop() -> None:
    assert next_hop_text(IPv6Address("fe80::1%eth0")) == "IPv6=fe80::1"


@pytest.mark.spec("MQMQ-2.3.12.13-01")
def test_four_properties_are_sequence_info_blobs_of_16_bytes() -> None:
    infos = [SequenceInfo(seq_id=7, seq_no=number, prev_no=number - 1) for number in (1, 2, 8, 9)]
    queue = outgoing_queue()
    queue.eod = EodState(last_ack=infos[0], first_non_ack=infos[1], last_non_ack=infos[2], next_seq=infos[3])
    properties = told(queue)
    blobs = [properties[number] for number in (13, 16, 17, 18)]
    assert blobs == [PropVariant(VarType.VT_BLOB, info.encode()) for info in infos]
    assert all(len(info.encode()) == 16 for info in infos)


@pytest.mark.spec("MQMQ-2.3.12.15-01")
def test_the_last_order_ack_has_a_time_and_a_count_and_unfinished_messages_are_counted() -> None:
    queue = outgoing_queue()
    queue.eod = EodState(last_ack_time=1_700_000_000, last_ack_count=2, no_ack_count=5, no_read_count=6)
    properties = told(queue)
    assert properties[14] == PropVariant(VarType.VT_I4, 1_700_000_000)
    assert properties[15] == PropVariant(VarType.VT_UI4, 2)
    assert properties[20] == PropVariant(VarType.VT_UI4, 5)
    assert properties[19] == PropVariant(VarType.VT_UI4, 6)


@pytest.mark.spec("MQMQ-2.3.12.21-01")
def test_resending_has_a_time_an_interval_and_a_count() -> None:
    queue = outgoing_queue()
    queue.eod = EodState(resend_time=1_700_000_030, resend_interval=30, resend_count=4)
    properties = told(queue)
    assert properties[21] == PropVariant(VarType.VT_I4, 1_700_000_030)
    assert properties[22] == PropVariant(VarType.VT_UI4, 30)
    assert properties[23] == PropVariant(VarType.VT_UI4, 4)


def test_what_only_an_outgoing_queue_has_is_null_for_another() -> None:
    queue = outgoing_queue()
    queue.possible_hops = [IPv4Address("10.0.0.1")]
    queue.connection_history = [ConnectionEvent(ConnectionStatus.READY, 1, 0, ())]
    assert [number for number in (12, 14, 25) if told(queue)[number].vt == VarType.VT_NULL] == []
    queue.location = QueueLocation.MGMT_QUEUE_LOCAL_LOCATION
    properties = told(queue)
    assert properties[11] == PropVariant(VarType.VT_LPWSTR, "LOCAL CONNECTION")
    nulls = [number for number, value in properties.items() if value == PropVariant(VarType.VT_NULL)]
    assert nulls == [*range(12, 24), 25]


@pytest.mark.spec("MQMQ-2.3.12.24-01")
def test_source_info_is_six_parallel_vectors() -> None:
    queue = local_queue()
    queue.source_info = [
        SourceInfo("DIRECT=OS:HOST\\q", GUID, 2**64 - 1, 5, 1_700_000_000, 1),
        SourceInfo("DIRECT=OS:HOST\\r", bytes(16), 8, 9, 1_700_000_001, 0),
    ]
    source_info = told(queue)[24]
    assert source_info == PropVariant(
        VarType.VT_VARIANT | VT_VECTOR,
        [
            PropVariant(TEXTS, ["DIRECT=OS:HOST\\q", "DIRECT=OS:HOST\\r"]),
            PropVariant(VarType.VT_CLSID | VT_VECTOR, [GUID, bytes(16)]),
            PropVariant(VarType.VT_UI8 | VT_VECTOR, [2**64 - 1, 8]),
            PropVariant(VarType.VT_UI4 | VT_VECTOR, [5, 9]),
            PropVariant(VarType.VT_I4 | VT_VECTOR, [1_700_000_000, 1_700_000_001]),
            PropVariant(VarType.VT_UI4 | VT_VECTOR, [1, 0]),
        ],
    )
    assert PropVariant.decode(source_info.encode()) == source_info


@pytest.mark.spec("MQMQ-2.3.12.25-01")
def test_connection_history_is_four_parallel_vectors() -> None:
    queue = outgoing_queue()
    queue.connection_history = [
        ConnectionEvent(ConnectionStatus.DNS_FAILURE, 1_700_000_000, -5, ("\\\\FAR",)),
        ConnectionEvent(ConnectionStatus.READY, 1_700_000_010, 0, ("10.0.0.1", "10.0.0.2")),
    ]
    history = told(queue)[25]
    assert history == PropVariant(
        VarType.VT_VARIANT | VT_VECTOR,
        [
            PropVariant(VarType.VT_UI4 | VT_VECTOR, [0x80000008, 2]),
            PropVariant(VarType.VT_I4 | VT_VECTOR, [1_700_000_000, 1_700_000_010]),
            PropVariant(VarType.VT_I4 | VT_VECTOR, [-5, 0]),
            PropVariant(
                VarType.VT_VARIANT | VT_VECTOR,
                [PropVariant(TEXTS, ["\\\\FAR"]), PropVariant(TEXTS, ["10.0.0.1", "10.0.0.2"])],
            ),
        ],
    )
    assert PropVariant.decode(history.encode()) == history


@pytest.mark.spec("MQMQ-2.3.12.25-02")
def test_connection_status_has_three_steps_and_fourteen_failures() -> None:
    assert {status.name: status.value for status in ConnectionStatus} == {
        "IN_PROGRESS": 0,
        "ESTABLISH_PACKET_RECEIVED": 1,
        "READY": 2,
        "UNKNOWN_FAILURE": 0x80000000,
        "PING_FAILURE": 0x80000001,
        "CREATE_SOCKET_FAILURE": 0x80000002,
        "BIND_SOCKET_FAILURE": 0x80000003,
        "CONNECT_SOCKET_FAILURE": 0x80000004,
        "TCP_NOT_ENABLED": 0x80000005,
        "SEND_FAILURE": 0x80000006,
        "NOT_READY_FAILURE": 0x80000007,
        "DNS_FAILURE": 0x80000008,
        "SERVER_CERTIFICATE_FAILURE": 0x80000009,
        "CONNECTION_LIMIT_REACHED": 0x8000000A,
        "CONNECTION_REFUSED": 0x8000000B,
        "NO_ROUTING_DATA": 0x8000000C,
        "LOW_MEMORY": 0x8000000D,
    }


@pytest.mark.spec("MQMQ-2.3.12.26-01")
def test_subqueues_are_counted_and_named() -> None:
    queue = local_queue()
    queue.subqueue_names = ["poison", "later"]
    assert told(queue)[26] == PropVariant(VarType.VT_UI4, 2)
    assert told(queue)[27] == PropVariant(TEXTS, ["poison", "later"])
