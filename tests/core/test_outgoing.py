"""MS-MQDMPR 3.1.1.3 and the end of 3.1.7.1.5: queues for messages that go to other computers."""

import pytest

from tests.core.directory_twin import DirectoryTwin
from tests.core.engine import ME, Rig
from waypost.core.outgoing import destination_path
from waypost.core.ports import PublicQueue, QueueChanged
from waypost.core.queues import AccessType, NoPath, OutgoingQueue, OutgoingQueueState, QueueAttributes, ShareMode
from waypost.core.system import QueueManagerAttributes
from waypost.core.writing import EnqueueStatus
from waypost.errors import (
    AccessDenied,
    IllegalFormatName,
    InsufficientResources,
    QueueNotAvailable,
    QueueNotFound,
    UnsupportedFormatName,
    WaypostError,
)
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.limits import MAX_CONNECTION_HISTORY
from waypost.wire.format_names import (
    DistributionListFormatName,
    FormatName,
    MultipleElementFormatName,
)
from waypost.wire.management import ConnectionEvent, ConnectionStatus
from waypost.wire.path_names import PathName, QueueKind

SEND = AccessType.SEND
GUID = b"\x77" * 16
FAR = "DIRECT=OS:far\\private$\\q"
HTTP = "DIRECT=HTTP://far/msmq/q"
PUBLIC = f"PUBLIC={guid_text(GUID)}"
ELSEWHERE = [
    FAR,
    HTTP,
    "DIRECT=TCP:10.9.9.9\\q",
    "DIRECT=OS:far\\private$\\order_queue$",
    f"PRIVATE={guid_text(GUID)}\\a",
    "MULTICAST=234.1.1.1:8001",
    f"CONNECTOR={guid_text(GUID)}",
    f"CONNECTOR={guid_text(GUID)};XACTONLY",
]
State = OutgoingQueueState

# The words of MS-MQDMPR 3.1.1.3 and those of MS-MQMQ 2.3.12.25.
STATUSES = {
    "InProcess": ConnectionStatus.IN_PROGRESS,
    "EstablishPacketReceived": ConnectionStatus.ESTABLISH_PACKET_RECEIVED,
    "Established": ConnectionStatus.READY,
    "UnknownFailure": ConnectionStatus.UNKNOWN_FAILURE,
    "PingFailure": ConnectionStatus.PING_FAILURE,
    "SocketCreateFailure": ConnectionStatus.CREATE_SOCKET_FAILURE,
    "SocketBindFailure": ConnectionStatus.BIND_SOCKET_FAILURE,
    "SocketConnectFailure": ConnectionStatus.CONNECT_SOCKET_FAILURE,
    "TcpNotEnabled": ConnectionStatus.TCP_NOT_ENABLED,
    "SocketSendFailure": ConnectionStatus.SEND_FAILURE,
    "ConnectionNotReady": ConnectionStatus.NOT_READY_FAILURE,
    "DnsFailure": ConnectionStatus.DNS_FAILURE,
    "CertificateValidationFailure": ConnectionStatus.SERVER_CERTIFICATE_FAILURE,
    "ConnectionLimitReached": ConnectionStatus.CONNECTION_LIMIT_REACHED,
    "ConnectionRefused": ConnectionStatus.CONNECTION_REFUSED,
    "RoutingDataNotAvailable": ConnectionStatus.NO_ROUTING_DATA,
    "LowResource": ConnectionStatus.LOW_MEMORY,
}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def outgoing(rig: Rig, name: str = FAR) -> OutgoingQueue:
    queue = rig.open(SEND, name=name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


def harden(rig: Rig, *, hardened: bool) -> None:
    rig.manager.modify(QueueManagerAttributes(hardened_security=hardened), rig.now)


def restart(rig: Rig) -> None:
    rig.manager.queue_manager_stopped()
    rig.manager.queue_manager_started(rig.now)


@pytest.mark.spec("MQDMPR-3.1.7.1.5-15", "MQDMPR-3.1.1.3-03")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_to_send_elsewhere_makes_an_outgoing_queue_that_is_kept(rig: Rig, name: str) -> None:
    """readings MQDMPR 3.N."""
    others = set(rig.manager.collection.by_number.values())
    queue = outgoing(rig, name)
    parsed = FormatName.parse(name)
    assert (queue.attributes.label, queue.destination_format_name) == (str(parsed), parsed)
    assert (queue.next_hops, queue.state) == ((), State.INACTIVE)
    assert queue.identifier not in {other.identifier for other in others}
    assert rig.manager.collection.by_number[queue.number] is queue
    assert rig.manager.take_events() == [QueueChanged(queue)]
    assert {state.name for state in State} == {
        *("CONNECTED", "DISCONNECTED", "DISCONNECTING", "INACTIVE", "LOCKED", "NEED_VALIDATION", "WAITING", "ON_HOLD")
    }


@pytest.mark.parametrize("name", [*ELSEWHERE, PUBLIC])
def test_the_path_of_a_destination_can_be_written_and_read(name: str) -> None:
    path = destination_path(FormatName.parse(name))
    assert PathName.parse(str(path)) == path
    assert str(destination_path(FormatName.parse(FAR))) == "far\\private$\\q"


@pytest.mark.spec("MQDMPR-3.1.7.1.5-09")
def test_the_same_name_in_any_case_shares_one_outgoing_queue(rig: Rig) -> None:
    queue = outgoing(rig)
    assert outgoing(rig, FAR.upper()) is outgoing(rig, "direct=os:Far\\PRIVATE$\\Q") is queue
    assert len(queue.descriptors) == 3
    assert outgoing(rig, "DIRECT=TCP:10.9.9.9\\private$\\q") is not queue
    assert len(rig.manager.collection.outgoing) == 2
    assert rig.open(SEND).queue is rig.orders


@pytest.mark.spec("MQDMPR-3.1.7.1.5-18", "MQDMPR-3.1.1.3-02")
def test_only_a_multicast_destination_makes_a_multicast_queue(rig: Rig) -> None:
    for name in ELSEWHERE:
        queue = outgoing(rig, name)
        assert queue.multicast == name.startswith("MULTICAST")
        queue.next_hops = ("TCP:10.1.1.1", "TCP:10.1.1.2")
        kept = OutgoingQueue(
            queue.number,
            queue.identifier,
            queue.attributes,
            queue.qualified_pathname,
            destination_format_name=FormatName.parse(str(queue.destination_format_name)),
        )
        assert (kept.multicast, kept.next_hops) == (queue.multicast, ())
    assert (queue.full_path, queue.directory_path) == ("", "")


@pytest.mark.spec("MQDMPR-3.1.1.2-18")
def test_every_queue_has_one_of_four_types_and_only_public_ones_are_published() -> None:
    directory = DirectoryTwin()
    rig = Rig(directory)
    system = [queue for queue in rig.manager.collection.by_number.values() if queue.queue_type is QueueKind.SYSTEM]
    assert len(system) == 6
    for path in ("host\\a", "host\\private$\\a", "host\\a;subqueue"):
        queue = rig.manager.create_queue(QueueAttributes(PathName.parse(path)), rig.now)
        # Of the type, only the path is kept.
        assert PathName.parse(str(queue.pathname)).kind is queue.queue_type
    connectors = [outgoing(rig, name) for name in ELSEWHERE if name.startswith("CONNECTOR")]
    for name in ELSEWHERE:
        assert (outgoing(rig, name).queue_type is NoPath.CONNECTOR) == (outgoing(rig, name) in connectors)
    types = {queue.queue_type for queue in rig.manager.collection.by_number.values()}
    assert types == {QueueKind.PRIVATE, QueueKind.PUBLIC, QueueKind.SYSTEM, NoPath.CONNECTOR}
    assert directory.log == ["create host\\a"]


@pytest.mark.spec("MQDMPR-3.1.7.1.5-12")
def test_a_public_queue_that_the_directory_does_not_know_cannot_be_sent_to() -> None:
    """readings MQDMPR 3.X: nor can one without a directory."""
    for rig in (Rig(DirectoryTwin()), Rig()):
        with pytest.raises(UnsupportedFormatName):
            rig.open(SEND, name=PUBLIC)
        assert rig.manager.collection.outgoing == {}


@pytest.mark.spec("MQDMPR-3.1.7.1.5-13")
@pytest.mark.parametrize("computer", ["host", "HOST", "host.example.org"])
def test_a_public_queue_that_should_be_here_and_is_not_is_not_found(computer: str) -> None:
    directory = DirectoryTwin()
    directory.queues[GUID] = PublicQueue(f"{computer}\\q", ME, computer, 0)
    with pytest.raises(QueueNotFound):
        Rig(directory).open(SEND, name=PUBLIC)


@pytest.mark.spec("MQDMPR-3.1.7.1.5-16")
def test_the_base_priority_of_a_public_destination_is_that_of_the_directory() -> None:
    directory = DirectoryTwin()
    known = directory.queues[GUID] = PublicQueue("far\\q", bytes(16), "far", -7)
    rig = Rig(directory)
    directory.reads = [known, None]
    with pytest.raises(QueueNotFound):
        rig.open(SEND, name=PUBLIC)
    assert rig.manager.collection.outgoing == {}
    assert outgoing(rig, PUBLIC).attributes.base_priority == -7
    assert outgoing(rig).attributes.base_priority == 0


@pytest.mark.spec("MQDMPR-3.1.7.1.5-17", "MQDMPR-3.1.1.3-05")
def test_in_hardened_security_only_http_is_sent(rig: Rig) -> None:
    harden(rig, hardened=True)
    for name in ELSEWHERE:
        queue = outgoing(rig, name)
        assert queue.state is (State.INACTIVE if name == HTTP else State.LOCKED)
        message = rig.message("")
        rig.enqueue(message, queue)
        for _ in range(2):
            add = rig.manager.dispatch.add_message_to_dispatch_collection
            assert (add(queue, message.lookup_identifier, "data") is not None) == (name == HTTP)
            rig.manager.dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
            rig.manager.pause_queue(queue)
            rig.manager.resume_queue(queue)


@pytest.mark.spec("MQDMPR-3.1.3-15", "MQDMPR-3.1.3-16")
def test_a_start_locks_and_unlocks_outgoing_queues(rig: Rig) -> None:
    far, http = outgoing(rig), outgoing(rig, HTTP)
    seen = []
    for hardened in (True, True, False, False):
        harden(rig, hardened=hardened)
        restart(rig)
        seen.append((far.state, http.state))
    assert seen == [
        (State.LOCKED, State.INACTIVE),
        (State.LOCKED, State.INACTIVE),
        (State.WAITING, State.INACTIVE),
        (State.WAITING, State.INACTIVE),
    ]


@pytest.mark.spec("MQDMPR-3.1.1.2-16")
def test_an_outgoing_queue_is_active_while_something_waits_in_it_or_a_handle_is_open(rig: Rig) -> None:
    handle, local = rig.open(SEND, name=FAR), rig.open(SEND)
    queue = handle.queue
    assert queue is not None
    seen = [(queue.is_active, rig.orders.is_active)]
    for one in (handle, local):
        rig.manager.close_queue(one)
    seen.append((queue.is_active, rig.orders.is_active))
    for each in (queue, rig.orders):
        rig.enqueue(rig.message(""), each)
    seen.append((queue.is_active, rig.orders.is_active))
    for each in (queue, rig.orders):
        rig.manager.writing.purge_queue(each)
    seen.append((queue.is_active, rig.orders.is_active))
    assert rig.enqueue(rig.message(""), queue, rig.start()) is EnqueueStatus.ACCEPTED
    seen.append((queue.is_active, rig.orders.is_active))
    rig.commit()
    seen.append((queue.is_active, rig.orders.is_active))
    assert seen == [(True, True), (False, False), (True, False), (False, False), (False, False), (True, False)]


@pytest.mark.spec("MQDMPR-3.1.1.17-04")
def test_administrators_read_and_purge_outgoing_queues_and_nobody_else_does(rig: Rig) -> None:
    queue = outgoing(rig)
    for access in (AccessType.RECEIVE, AccessType.PEEK, AccessType.MOVE):
        with pytest.raises(QueueNotFound):
            rig.open(access, name=FAR)
    peeker, receiver = rig.open(AccessType.PEEK_ADMIN, name=FAR), rig.open(AccessType.RECEIVE_ADMIN, name=FAR)
    for label in ("a", "b"):
        rig.enqueue(rig.message(label), queue)
    assert (rig.peek(peeker), rig.peek(receiver)) == ("a", "a")
    assert rig.receive(peeker) == HResult.MQ_ERROR_ACCESS_DENIED
    with pytest.raises(AccessDenied):
        rig.manager.purge_open_queue(peeker)
    assert rig.receive(receiver) == "a"
    rig.manager.purge_open_queue(receiver)
    assert len(queue.positions) == 0
    with pytest.raises(QueueNotFound):
        rig.open(AccessType.RECEIVE_ADMIN, name="DIRECT=OS:other\\q")


def test_there_are_only_so_many_outgoing_queues(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 2)
    names = [f"DIRECT=OS:far{number}\\q" for number in range(3)]
    for name in names[:2]:
        rig.enqueue(rig.message("m"), outgoing(rig, name))
    with pytest.raises(InsufficientResources, match="2 outgoing queues"):
        rig.open(AccessType.SEND, name=names[2])
    # Those that are there can be used.
    outgoing(rig, names[0])


def test_outgoing_queues_that_are_empty_make_room_for_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 4)
    names = [f"DIRECT=OS:far{number}\\q" for number in range(5)]
    full, idle, held, watched = (outgoing(rig, name) for name in names[:4])
    rig.enqueue(rig.message("m"), full)
    rig.manager.pause_queue(held)
    rig.open(AccessType.PEEK_ADMIN, name=names[3])
    handle = next(iter(idle.descriptors.values()))
    outgoing(rig, names[4])
    assert idle.is_deleted
    assert handle.queue is None
    kept = set(rig.manager.collection.outgoing.values())
    assert {full, held, watched} < kept
    # A program that had it open for sending opens it again.
    with pytest.raises(QueueNotAvailable):
        rig.manager.enqueue_message_to_open_queue(handle, rig.message("m"), None, rig.now)
    rig.manager.close_queue(handle)


def test_the_last_attempts_to_connect_are_remembered(rig: Rig) -> None:
    queue = outgoing(rig)
    assert list(queue.connection_history) == []
    assert set(STATUSES.values()) == set(ConnectionStatus)
    for number, status in enumerate(ConnectionStatus):
        error = 0 if status <= ConnectionStatus.READY else int(HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE)
        queue.connection_history.append(ConnectionEvent(status, 1_000_000 + number, error, ("10.1.1.1", "10.1.1.2")))
    last = queue.connection_history[-1]
    assert (last.status, last.time) == (ConnectionStatus.LOW_MEMORY, 1_000_016)
    assert (last.error, last.addresses) == (0xC00E0069, ("10.1.1.1", "10.1.1.2"))
    assert len(queue.connection_history) == MAX_CONNECTION_HISTORY


@pytest.mark.spec("MQDMPR-3.1.7.1.5-01")
def test_a_name_is_expanded_before_anything_is_opened() -> None:
    members = DistributionListFormatName(GUID)

    def expand(name: FormatName) -> FormatName:
        if name == members:
            return MultipleElementFormatName(
                (FormatName.parse(FAR), FormatName.parse("DIRECT=OS:host\\private$\\orders"))
            )
        if isinstance(name, DistributionListFormatName):
            raise IllegalFormatName("MS-MQDMPR 3.1.7.3.8", "FormatName", 0, "the list does not resolve")
        return name

    rig = Rig(expand=expand)
    handle = rig.open(SEND, name=str(members))
    assert [str(child.queue) for child in handle.multiple] == ["DIRECT=OS:far\\PRIVATE$\\q", "host\\private$\\orders"]
    assert str(handle.format_name) == "DIRECT=OS:far\\PRIVATE$\\q,DIRECT=OS:host\\PRIVATE$\\orders"
    rig.manager.close_queue(handle)
    before = dict(rig.manager.collection.by_number)
    with pytest.raises(WaypostError, match="does not resolve"):
        rig.open(SEND, name=f"DL={guid_text(ME)}")
    assert rig.manager.collection.by_number == before
    assert not any(queue.descriptors for queue in before.values())
    with pytest.raises(UnsupportedFormatName):
        Rig().open(SEND, name=str(members))


def test_if_one_of_several_destinations_fails_none_is_in_use(rig: Rig) -> None:
    for last in ("DIRECT=OS:host\\private$\\nothing", PUBLIC):
        with pytest.raises(WaypostError):
            rig.open(SEND, ShareMode.DENY_NONE, f"{FAR},{HTTP},{last}")
    assert [queue.is_active for queue in rig.manager.collection.outgoing.values()] == [False, False]


def test_an_outgoing_queue_can_be_deleted_and_its_destination_is_left_alone() -> None:
    directory = DirectoryTwin()
    directory.queues[GUID] = PublicQueue("far\\q", bytes(16), "far", 0)
    rig = Rig(directory)
    for name in (FAR, PUBLIC):
        queue = outgoing(rig, name)
        rig.enqueue(rig.message("a"), queue)
        rig.manager.delete_queue(queue)
        assert outgoing(rig, name) is not queue
    assert (rig.manager.total_bytes, directory.log) == (0, [])
