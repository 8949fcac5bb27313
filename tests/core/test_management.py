"""MS-MQMQ 2.3.11 and 2.3.12 over live queues, and MS-MQDMPR 3.1.1.3 to 3.1.1.5."""

from dataclasses import replace

import pytest

from tests.core.engine import START, TX, Rig
from waypost.core.management import (
    DirectoryState,
    IncomingTransfer,
    OutgoingTransfer,
    machine_snapshot,
    queue_snapshot,
    record_connection,
)
from waypost.core.message import Message
from waypost.core.queues import AccessType, OutgoingQueue, OutgoingQueueState, Queue
from waypost.hresult import HResult
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import SequenceInfo, TxSequenceId
from waypost.wire.management import (
    Answer,
    ConnectionStatus,
    EodState,
    QueueLocation,
    QueueManagement,
    QueueState,
    QueueType,
    SourceInfo,
    machine_properties,
    queue_properties,
)
from waypost.wire.propid import ManagementMachineProperty as M
from waypost.wire.propid import ManagementQueueProperty as Q
from waypost.wire.propvariant import PropVariant
from waypost.wire.variant_types import VT_VECTOR, VarType

SENDER = b"\x22" * 16
SEQUENCE = TxSequenceId(1, 0x6000_0000)
NEXT_SEQUENCE = TxSequenceId(2, 0x6000_0000)
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


def number(count: int, sequence: TxSequenceId = SEQUENCE) -> Message:
    """The message with this number of a sequence."""
    return Message(
        transactional_message_sequence_identifier=sequence,
        transaction_sequence_number=count,
        transaction_previous_sequence_number=count - 1,
        transaction_identifier=1,
        final_ack_required=True,
    )


def info(count: int, sequence: TxSequenceId = SEQUENCE) -> SequenceInfo:
    return SequenceInfo.of(sequence, count, count - 1)


def sent(transfer: OutgoingTransfer, *counts: int) -> None:
    for count in counts:
        transfer.sent(number(count), 30, WALL)


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
    transfer = OutgoingTransfer(queue)
    before = told(queue)
    sent(transfer, 1)
    record_connection(queue, ConnectionStatus.READY, HResult.MQ_OK, (), WALL)
    IncomingTransfer(queue, SourceInfo("", SENDER, 0, 0, 0, 0))
    assert before.eod == EodState()
    assert (before.connection_history, before.source_info) == ([], [])


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


@pytest.mark.spec("MQDMPR-3.1.1.3-06")
def test_the_connection_history_knows_seventeen_states(rig: Rig) -> None:
    queue = outgoing(rig)
    # InProcess to LowResource, in the order of the text.
    assert [int(status) for status in ConnectionStatus] == [0, 1, 2, *range(0x8000_0000, 0x8000_000E)]
    for status in ConnectionStatus:
        record_connection(queue, status, HResult.MQ_OK, (), WALL)
        assert told(queue).connection_history[-1].status is status


@pytest.mark.spec("MQDMPR-3.1.1.3-07")
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


@pytest.mark.spec("MQDMPR-3.1.1.4-01")
def test_the_first_and_last_message_without_an_order_acknowledgment_are_told_and_counted(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    assert told(queue).eod == EodState()
    sent(transfer, 1, 2, 3)
    eod = queue.outgoing_transfer_info
    assert (eod.first_non_ack, eod.last_non_ack, eod.no_ack_count) == (info(1), info(3), 3)
    transfer.order_acknowledged(SEQUENCE, 1, WALL)
    sent(transfer, 4)
    assert (eod.first_non_ack, eod.last_non_ack, eod.no_ack_count) == (info(2), info(4), 3)
    # Sent again, they are the same messages.
    sent(transfer, 2, 3, 4)
    assert (eod.first_non_ack, eod.last_non_ack, eod.no_ack_count) == (info(2), info(4), 3)
    transfer.order_acknowledged(SEQUENCE, 4, WALL)
    assert (eod.first_non_ack, eod.last_non_ack, eod.no_ack_count) == (None, None, 0)
    sent(transfer, 4)
    assert eod.no_ack_count == 0


@pytest.mark.spec("MQDMPR-3.1.1.4-02")
def test_the_last_order_acknowledgment_is_told_with_its_time_and_how_often_it_came(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    eod = queue.outgoing_transfer_info
    sent(transfer, 1, 2, 3)
    transfer.order_acknowledged(SEQUENCE, 2, WALL + 1)
    assert (eod.last_ack, eod.last_ack_time, eod.last_ack_count) == (info(2), 1_000_001, 1)
    transfer.order_acknowledged(SEQUENCE, 2, WALL + 2)
    assert (eod.last_ack, eod.last_ack_time, eod.last_ack_count) == (info(2), 1_000_002, 2)
    transfer.order_acknowledged(SEQUENCE, 1, WALL + 3)
    transfer.order_acknowledged(NEXT_SEQUENCE, 9, WALL + 3)
    assert (eod.last_ack, eod.last_ack_time, eod.last_ack_count) == (info(2), 1_000_002, 2)
    transfer.order_acknowledged(SEQUENCE, 3, WALL + 4)
    assert (eod.last_ack, eod.last_ack_time, eod.last_ack_count) == (info(3), 1_000_004, 1)


def test_an_acknowledgment_of_what_was_never_sent_changes_nothing(rig: Rig) -> None:
    queue = outgoing(rig)
    OutgoingTransfer(queue).order_acknowledged(SEQUENCE, 5, WALL)
    assert queue.outgoing_transfer_info == EodState()


@pytest.mark.spec("MQDMPR-3.1.1.4-03")
def test_the_place_of_the_next_message_is_told(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    eod = queue.outgoing_transfer_info
    transfer.sequence_begun(SEQUENCE)
    for count in (1, 2, 3):
        assert eod.next_seq == info(count)
        sent(transfer, count)
    transfer.order_acknowledged(SEQUENCE, 3, WALL)
    transfer.sequence_begun(NEXT_SEQUENCE)
    assert eod.next_seq == info(1, NEXT_SEQUENCE)
    transfer.sent(number(1, NEXT_SEQUENCE), 30, WALL)
    assert eod.next_seq == info(2, NEXT_SEQUENCE)
    assert eod.first_non_ack == info(1, NEXT_SEQUENCE)


@pytest.mark.spec("MQDMPR-3.1.1.4-03")
def test_messages_that_arrived_and_were_not_received_are_counted(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    eod = queue.outgoing_transfer_info
    sent(transfer, 1, 2, 3)
    assert eod.no_read_count == 0
    transfer.order_acknowledged(SEQUENCE, 2, WALL)
    assert eod.no_read_count == 2
    for left in (1, 0, 0):
        transfer.finally_acknowledged()
        assert eod.no_read_count == left
    # The third was received before its arrival was acknowledged.
    transfer.order_acknowledged(SEQUENCE, 3, WALL)
    assert eod.no_read_count == 0


def test_a_message_without_a_final_acknowledgment_does_not_wait_for_one(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    silent = replace(number(1), final_ack_required=False)
    transfer.sent(silent, 30, WALL)
    transfer.sent(replace(number(2), final_ack_required=False, positive_journaling_requested=True), 30, WALL)
    transfer.sent(replace(number(3), final_ack_required=False, negative_journaling_requested=True), 30, WALL)
    transfer.order_acknowledged(SEQUENCE, 3, WALL)
    assert queue.outgoing_transfer_info.no_read_count == 2


@pytest.mark.spec("MQDMPR-3.1.1.4-04")
def test_resending_is_told_with_its_count_interval_and_time(rig: Rig) -> None:
    queue = outgoing(rig)
    transfer = OutgoingTransfer(queue)
    eod = queue.outgoing_transfer_info
    sent(transfer, 1, 2)
    assert (eod.resend_count, eod.resend_interval, eod.resend_time) == (1, 30, 1_000_030)
    for count in (1, 2):
        transfer.sent(number(count), 60, WALL + 30)
    assert (eod.resend_count, eod.resend_interval, eod.resend_time) == (2, 60, 1_000_090)
    sent(transfer, 3)
    assert eod.resend_count == 1
    transfer.order_acknowledged(SEQUENCE, 3, WALL)
    assert eod.resend_time == 0


@pytest.mark.spec("MQDMPR-3.1.1.5-01", "MQDMPR-3.1.1.5-02")
def test_an_incoming_sequence_is_told_with_its_queue_name_sender_and_last_message(rig: Rig) -> None:
    name = "DIRECT=TCP:10.0.0.1\\private$\\orders"
    other = rig.create("other")
    transfer = IncomingTransfer(rig.orders, SourceInfo(name, SENDER, 0, 0, 0, 0))
    transfer.accepted(SEQUENCE, 7, WALL)
    (source,) = told(rig.orders).source_info
    assert told(other).source_info == []
    assert (source.format_name, source.sender_id) == (name, SENDER)
    assert (source.sequence_id, source.sequence_number) == (SEQUENCE.value, 7)
    transfer.accepted(NEXT_SEQUENCE, 1, WALL)
    IncomingTransfer(rig.orders, SourceInfo(name, b"\x33" * 16, 5, 5, 5, 0))
    source, another = told(rig.orders).source_info
    assert (source.sequence_id, source.sequence_number) == (NEXT_SEQUENCE.value, 1)
    assert another == SourceInfo(name, b"\x33" * 16, 5, 5, 5, 0)


@pytest.mark.spec("MQDMPR-3.1.1.5-03")
def test_an_incoming_sequence_tells_its_last_access_and_how_often_the_last_message_was_refused(rig: Rig) -> None:
    transfer = IncomingTransfer(rig.orders, SourceInfo("DIRECT=OS:host\\q", SENDER, 0, 0, 0, 0))

    def access() -> tuple[int, int]:
        (source,) = told(rig.orders).source_info
        return source.last_access_time, source.message_reject_count

    transfer.accepted(SEQUENCE, 1, WALL + 1)
    assert access() == (1_000_001, 0)
    transfer.rejected(WALL + 2)
    transfer.rejected(WALL + 3)
    assert access() == (1_000_003, 2)
    transfer.accepted(SEQUENCE, 2, WALL + 4)
    assert access() == (1_000_004, 2)
    transfer.accepted(SEQUENCE, 3, WALL + 5)
    assert access() == (1_000_005, 0)
