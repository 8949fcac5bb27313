"""MS-MQMQ 2.3.11 and 2.3.12 over live queues, and MS-MQDMPR 3.1.1.3."""

from dataclasses import replace

import pytest

from tests.core.engine import START, TX, Rig
from waypost.core.management import (
    DirectoryState,
    machine_snapshot,
    queue_snapshot,
    record_connection,
)
from waypost.core.queues import AccessType, OutgoingQueue, OutgoingQueueState, Queue
from waypost.hresult import HResult
from waypost.wire.format_names import FormatName
from waypost.wire.management import (
    Answer,
    ConnectionStatus,
    EodState,
    QueueLocation,
    QueueManagement,
    QueueState,
    QueueType,
    machine_properties,
    queue_properties,
)
from waypost.wire.propid import ManagementMachineProperty as M
from waypost.wire.propid import ManagementQueueProperty as Q
from waypost.wire.propvariant import PropVariant
from waypost.wire.variant_types import VT_VECTOR, VarType

SENDER = b"\x22" * 16
WALL = START.wall
TEXTS = VarType.VT_LPWSTR | VT_VECTOR
PLACE = "DIRECT=OS:host.example.org\\PRIVATE$\\orders"
FAR = "DIRECT=OS:far\\PRIVATE$\\orders"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def told(queue: Queue) -> QueueManagement:
    return queue_snapshot(queue, DirectoryState())


def machine_property(rig: Rig, prop: M) -> PropVariant:
    return dict(machine_properties(machine_snapshot(rig.manager)))[prop]


def queue_property(queue: Queue, prop: Q) -> PropVariant:
    return dict(queue_properties(told(queue)))[prop]


def outgoing(rig: Rig, name: str = FAR) -> OutgoingQueue:
    queue = rig.open(AccessType.SEND, name=name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


def test_a_local_queue_tells_its_names_and_kind(rig: Rig) -> None:
    snapshot = told(rig.orders)
    assert snapshot.pathname == "host\\private$\\orders"
    assert snapshot.format_name == PLACE
    assert (snapshot.location, snapshot.state) == (
        QueueLocation.MGMT_QUEUE_LOCAL_LOCATION,
        QueueState.MGMT_QUEUE_STATE_LOCAL,
    )
    assert snapshot.type is QueueType.MGMT_QUEUE_TYPE_PRIVATE
    assert told(rig.create("ads", "")).type is QueueType.MGMT_QUEUE_TYPE_PUBLIC
    for queue in rig.manager.system_queues.values():
        assert told(queue).type is QueueType.MGMT_QUEUE_TYPE_MACHINE


def test_the_format_name_of_every_local_queue_leads_to_it(rig: Rig) -> None:
    rig.create("ads", "")
    rig.open(name="DIRECT=OS:host\\private$\\orders;poison")
    queues = rig.manager.collection.by_number.values()
    assert {queue.is_journal for queue in queues} == {False, True}
    for queue in queues:
        assert rig.manager.find_queue(FormatName.parse(told(queue).format_name)) is queue


def test_whether_a_queue_is_transactional_is_known_only_here(rig: Rig) -> None:
    assert told(rig.orders).xact is Answer.NO
    rig.orders.attributes.transactional = True
    assert told(rig.orders).xact is Answer.YES
    assert told(outgoing(rig)).xact is Answer.UNKNOWN


def test_whether_a_queue_is_foreign_is_for_the_directory_to_say(rig: Rig) -> None:
    public = rig.create("ads", "")
    offline = DirectoryState(directory_offline=True)
    assert queue_snapshot(rig.orders, DirectoryState()).foreign is Answer.NO
    assert queue_snapshot(rig.orders, DirectoryState(foreign_system=True)).foreign is Answer.YES
    assert queue_snapshot(rig.orders, offline).foreign is Answer.NO
    assert queue_snapshot(public, offline).foreign is Answer.UNKNOWN


@pytest.mark.spec("MQMQ-2.3.12.7-01")
def test_messages_and_bytes_are_those_of_the_queue_and_of_its_journal(rig: Rig) -> None:
    rig.orders.attributes.journaling = True
    handle = rig.open()
    for label in ("a", "bb", "ccc"):
        rig.send(label)
    size = rig.orders.total_bytes
    rig.receive(handle)
    snapshot = told(rig.orders)
    assert rig.orders.journal is not None
    assert (snapshot.message_count, snapshot.journal_message_count) == (2, 1)
    assert snapshot.bytes_in_queue + snapshot.bytes_in_journal == size
    assert snapshot.bytes_in_journal == rig.orders.journal.total_bytes > 0
    for prop, value in (
        (Q.PROPID_MGMT_QUEUE_MESSAGE_COUNT, 2),
        (Q.PROPID_MGMT_QUEUE_BYTES_IN_QUEUE, rig.orders.total_bytes),
        (Q.PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT, 1),
        (Q.PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL, rig.orders.journal.total_bytes),
    ):
        assert queue_property(rig.orders, prop) == PropVariant(VarType.VT_UI4, value)
    # Nothing more goes into the journal, and what is there is still there.
    rig.orders.attributes.journaling = False
    assert told(rig.orders).bytes_in_journal == snapshot.bytes_in_journal


def test_a_message_that_a_transaction_holds_counts(rig: Rig) -> None:
    rig.start()
    rig.send("a", tx=TX)
    assert told(rig.orders).message_count == 1


@pytest.mark.spec("MQMQ-2.3.12.26-01")
def test_subqueues_are_counted_and_named_as_they_come(rig: Rig) -> None:
    for name in ("Poison", "later"):
        rig.open(name=f"DIRECT=OS:host\\private$\\orders;{name}")
    assert queue_property(rig.orders, Q.PROPID_MGMT_QUEUE_SUBQUEUE_COUNT) == PropVariant(VarType.VT_UI4, 2)
    assert queue_property(rig.orders, Q.PROPID_MGMT_QUEUE_SUBQUEUE_NAMES) == PropVariant(TEXTS, ["Poison", "later"])


def test_a_snapshot_stays_as_it_was(rig: Rig) -> None:
    queue = outgoing(rig)
    before = told(queue)
    queue.outgoing_transfer_info.no_ack_count = 1
    record_connection(queue, ConnectionStatus.READY, HResult.MQ_OK, (), WALL)
    assert before.eod == EodState()
    assert before.connection_history == []


@pytest.mark.spec("MQMQ-2.3.11.1-01")
def test_active_queues_hold_messages_or_are_open_and_private_queues_are_those_of_the_computer(rig: Rig) -> None:
    assert machine_snapshot(rig.manager).active_queues == []
    rig.create("idle")
    rig.create("ads", "")
    rig.send("a")
    rig.open(name="DIRECT=OS:host\\ads")
    rig.open(name="DIRECT=OS:host\\private$\\orders;poison")
    outgoing(rig)
    snapshot = machine_snapshot(rig.manager)
    assert set(snapshot.active_queues) == {
        PLACE,
        f"{PLACE};poison",
        "DIRECT=OS:host.example.org\\ads",
        FAR,
    }
    assert snapshot.private_queues == ["host\\private$\\orders", "host\\private$\\idle"]


def test_the_bytes_of_all_queues_and_journals_are_told(rig: Rig) -> None:
    rig.orders.attributes.journaling = True
    handle = rig.open()
    rig.send("a")
    rig.send("bb")
    rig.receive(handle)
    rig.enqueue(rig.message("c"), rig.create("other"))
    queues = rig.manager.collection.by_number.values()
    assert machine_snapshot(rig.manager).bytes_in_all_queues == sum(queue.total_bytes for queue in queues) > 0


@pytest.mark.spec("MQMQ-2.3.11.4-01")
def test_the_machine_is_connected_until_it_is_taken_offline(rig: Rig) -> None:
    connected = M.PROPID_MGMT_MSMQ_CONNECTED
    assert machine_property(rig, connected) == PropVariant(VarType.VT_LPWSTR, "CONNECTED")
    rig.manager.take_offline()
    assert machine_property(rig, connected) == PropVariant(VarType.VT_LPWSTR, "DISCONNECTED")
    rig.manager.bring_online()
    assert machine_property(rig, connected) == PropVariant(VarType.VT_LPWSTR, "CONNECTED")


def test_the_first_directory_server_is_told_where_there_is_a_directory(rig: Rig) -> None:
    rig.manager.attributes = replace(rig.manager.attributes, directory_server_list=("DC1", "DC2"))
    assert machine_snapshot(rig.manager).ds_server is None
    rig.manager.attributes = replace(rig.manager.attributes, directory_integrated=True)
    assert machine_snapshot(rig.manager).ds_server == "DC1"


def test_an_outgoing_queue_tells_its_destination(rig: Rig) -> None:
    snapshot = told(outgoing(rig))
    assert (snapshot.format_name, snapshot.pathname) == (FAR, "far\\private$\\orders")
    assert snapshot.location is QueueLocation.MGMT_QUEUE_REMOTE_LOCATION
    assert snapshot.type is QueueType.MGMT_QUEUE_TYPE_PRIVATE
    multicast = told(outgoing(rig, "MULTICAST=234.1.1.1:8001"))
    assert (multicast.type, multicast.pathname) == (QueueType.MGMT_QUEUE_TYPE_MULTICAST, "")


@pytest.mark.spec("MQMQ-2.3.12.11-01")
def test_every_state_of_an_outgoing_queue_has_a_word(rig: Rig) -> None:
    queue = outgoing(rig)
    words = {}
    for state in OutgoingQueueState:
        queue.state = state
        words[state.name] = told(queue).state.value
    assert words == {
        "CONNECTED": "CONNECTED",
        "DISCONNECTED": "DISCONNECTED",
        "DISCONNECTING": "DISCONNECTING",
        "INACTIVE": "INACTIVE",
        "LOCKED": "INACTIVE",
        "NEED_VALIDATION": "NEED VALIDATION",
        "WAITING": "WAITING",
        "ON_HOLD": "ONHOLD",
    }


@pytest.mark.spec("MQMQ-2.3.12.12-01")
def test_next_hops_are_told_of_a_queue_that_is_or_will_be_connected(rig: Rig) -> None:
    queue = outgoing(rig)
    network = "00112233-4455-6677-8899-aabbccddeeff"
    queue.next_hops = ("10.0.0.9", "fe80::1", network, "far.example.org")
    candidates = ["IP=10.0.0.9", "IPv6=fe80::1", f"FOREIGN={network}"]
    for state in OutgoingQueueState:
        queue.state = state
        expected = candidates if state in (OutgoingQueueState.WAITING, OutgoingQueueState.CONNECTED) else []
        assert queue_property(queue, Q.PROPID_MGMT_QUEUE_NEXTHOPS) == PropVariant(TEXTS, expected)


def test_the_connection_history_knows_seventeen_states(rig: Rig) -> None:
    queue = outgoing(rig)
    # InProcess to LowResource, in the order of the text.
    assert [int(status) for status in ConnectionStatus] == [0, 1, 2, *range(0x8000_0000, 0x8000_000E)]
    for status in ConnectionStatus:
        record_connection(queue, status, HResult.MQ_OK, (), WALL)
        assert told(queue).connection_history[-1].status is status


def test_the_connection_history_tells_when_why_and_what_was_tried(rig: Rig) -> None:
    queue = outgoing(rig)
    tried = ("10.0.0.8", "10.0.0.9")
    record_connection(
        queue, ConnectionStatus.CONNECTION_REFUSED, HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE, tried, WALL + 0.5
    )
    record_connection(queue, ConnectionStatus.READY, HResult.MQ_OK, tried[1:], WALL + 7)
    refused, ready = told(queue).connection_history
    assert (refused.time, refused.error & 0xFFFF_FFFF, refused.addresses) == (1_000_000, 0xC00E0069, tried)
    assert (ready.time, ready.error, ready.addresses) == (1_000_007, 0, ("10.0.0.9",))
    for _, value in queue_properties(told(queue)):
        assert PropVariant.decode(value.encode()) == value
