"""MS-MQRR 3.1.4.1 to 3.1.4.5, 3.1.4.11, 2.1 and 2.2.4: the port, the handles and the cursors."""

from collections.abc import Callable
from dataclasses import replace
from gc import collect, get_objects
from unittest.mock import Mock

import pytest

from tests.remote.harness import ALICE, Host
from tests.remote.reader import (
    ACK,
    DENY_NONE,
    DENY_SHARE,
    MOVE,
    NO_HANDLE,
    PEEK,
    PEEK_CURRENT,
    PEEK_NEXT,
    RECEIVE,
    UOW,
    Reader,
    label,
    queue_format,
    serve,
)
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import EncodeError, InsufficientResources, MessageError, StoreFull
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.limits import MAX_REMOTE_CURSORS
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CloseQueueRequest,
    CreateCursorRequest,
    OpenQueueForMoveRequest,
    OpenQueueRequest,
)
from waypost.remote.remote_read.pending import RemoteQueue
from waypost.rpc.calls import FaultStatus
from waypost.wire.format_names import PrivateFormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat, QueueFormatType

MISMATCH = FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
NOT_FOUND = HResult.MQ_ERROR_QUEUE_NOT_FOUND
REQUESTS = {2: OpenQueueRequest, 11: OpenQueueForMoveRequest}


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


# Every method that takes a handle of a queue, called with one.
WITH_HANDLE: dict[str, Callable[[Reader, ContextHandle], int]] = {
    "R_CloseQueue": lambda reader, handle: reader.close(handle).status,
    "R_CreateCursor": lambda reader, handle: reader.start(4, CreateCursorRequest(handle)).status,
    "R_CloseCursor": lambda reader, handle: reader.close_cursor(handle, 1),
    "R_PurgeQueue": Reader.purge,
    "R_StartReceive": lambda reader, handle: reader.read(handle).status,
    "R_CancelReceive": lambda reader, handle: reader.cancel(handle, 1),
    "R_EndReceive": lambda reader, handle: reader.end(handle, ACK, 1),
    "R_MoveMessage": lambda reader, handle: reader.move(handle, 1, 1),
    "R_StartTransactionalReceive": lambda reader, handle: reader.read(handle, tx=UOW).status,
    "R_SetUserAcknowledgementClass": lambda reader, handle: reader.set_class(handle, 1, 0),
    "R_EndTransactionalReceive": lambda reader, handle: reader.end_tx(handle, ACK, 1),
}


@pytest.mark.spec("MQRR-3.1.4.1-01", "MQRR-3.1.4.1-02", "MQRR-6-03")
def test_the_port_is_the_one_that_was_fixed_at_the_start(host: Host, reader: Reader) -> None:
    assert reader.port() == 2103
    host.remote_read_port = 2114
    assert reader.port() == 2114


@pytest.mark.spec("MQRR-3.1.4.1-04")
def test_no_port_stands_for_an_error(host: Host, reader: Reader) -> None:
    host.manager.queue_manager_stopped()
    assert reader.port() == 0


@pytest.mark.spec("MQRR-1.7-01")
def test_every_method_but_opnum_1_is_there(host: Host, reader: Reader) -> None:
    assert sorted(REMOTE_READ.methods) == [0, *range(2, 16)]
    assert set(WITH_HANDLE) | {
        "R_GetServerPort",
        "R_OpenQueue",
        "R_OpenQueueForMove",
        "R_QMEnlistRemoteTransaction",
    } == {method.name for method in REMOTE_READ.methods.values()}
    for call in WITH_HANDLE.values():
        call(reader, reader.open("ledger"))
    assert reader.enlist(b"") == HResult.MQ_ERROR_TRANSACTION_IMPORT
    assert reader.open_for_move("orders").move_context != 0


@pytest.mark.spec("MQRR-2.2.4-01", "MQRR-3.1.4.2-01", "MQRR-3.1.4.3-03")
@pytest.mark.parametrize("method", WITH_HANDLE)
def test_only_a_handle_that_was_opened_and_not_closed_is_one(host: Host, reader: Reader, method: str) -> None:
    host.put("a")
    for handle in (reader.open(), reader.open_for_move("orders").context):
        assert WITH_HANDLE[method](reader, handle) != MISMATCH
    closed = reader.open()
    reader.close(closed)
    for handle in (closed, NO_HANDLE, ContextHandle(0, b"\x77" * 16)):
        assert WITH_HANDLE[method](reader, handle) == MISMATCH


@pytest.mark.spec(
    "MQRR-3.1.4.4-02",
    "MQRR-3.1.4.5-02",
    "MQRR-3.1.4.6-03",
    "MQRR-3.1.4.7-33",
    "MQRR-3.1.4.8-03",
    "MQRR-3.1.4.10-05",
    "MQRR-3.1.4.14-05",
)
@pytest.mark.parametrize("method", sorted(set(WITH_HANDLE) - {"R_CloseQueue"}))
def test_a_handle_whose_queue_was_deleted_is_invalid(host: Host, reader: Reader, method: str) -> None:
    handle, other = reader.open("ledger"), reader.open()
    host.put("kept")
    host.manager.delete_queue(host.ledger)
    host.pump()
    assert WITH_HANDLE[method](reader, handle) == INVALID_HANDLE
    assert label(reader.read(other)) == "kept"
    assert reader.close(handle).status == HResult.MQ_OK


@pytest.mark.spec("MQRR-2.2.4.1-02")
def test_a_handle_for_moving_is_of_the_same_type_as_one_for_reading(reader: Reader) -> None:
    handle = reader.open_for_move("orders").context
    assert reader.create_cursor(handle)
    assert reader.purge(handle) == HResult.STATUS_ACCESS_DENIED
    assert reader.close(handle).record.hresult == HResult.MQ_OK


@pytest.mark.spec("MQRR-3.1.4.2-17")
def test_every_failure_is_raised_and_brings_no_handle(host: Host, reader: Reader) -> None:
    """The reaction of the client is in test_client_remote_read."""
    reader.open("ledger", share=DENY_SHARE)
    host.denied = {(ALICE.name, host.orders, AccessType.RECEIVE)}
    failures = [
        (reader.try_open(access=MOVE), INVALID_PARAMETER),
        (reader.try_open(share=2), INVALID_PARAMETER),
        (reader.try_open("nowhere"), NOT_FOUND),
        (reader.try_open("ledger"), HResult.MQ_ERROR_SHARING_VIOLATION),
        (reader.try_open(), HResult.MQ_ERROR_ACCESS_DENIED),
    ]
    # Any other error on the way.
    for error in (InsufficientResources("full"), StoreFull("full"), MessageError("odd"), EncodeError("MS-X", "y", "z")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host.manager, "open_queue", Mock(side_effect=error))
            failures.append((reader.try_open(access=PEEK), error.hresult))
    host.manager.queue_manager_stopped()
    failures.append((reader.try_open(access=PEEK), HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE))
    for answer, status in failures:
        assert (answer.raised, answer.record) == (status, None)
    assert not host.orders.descriptors
    assert len(host.ledger.descriptors) == 1


@pytest.mark.spec("MQRR-3.1.4.2-06", "MQRR-3.1.4.2-07", "MQRR-3.1.4.2-20")
def test_an_exclusive_handle_excludes_other_receivers(reader: Reader) -> None:
    first, second = reader.open(), reader.open()
    assert first != second
    answer = reader.try_open(share=DENY_SHARE)
    assert (answer.raised, answer.record) == (HResult.MQ_ERROR_SHARING_VIOLATION, None)
    reader.close(first)
    reader.close(second)
    exclusive = reader.open(share=DENY_SHARE)
    for share in (DENY_NONE, DENY_SHARE):
        assert reader.try_open(share=share).raised == HResult.MQ_ERROR_SHARING_VIOLATION
    reader.open(access=PEEK)
    reader.close(exclusive)
    assert reader.open(share=DENY_SHARE)


@pytest.mark.spec("MQRR-3.1.4.2-20")
@pytest.mark.parametrize(
    ("access", "share", "opened"),
    [
        (RECEIVE, DENY_NONE, (AccessType.RECEIVE, ShareMode.DENY_NONE)),
        (RECEIVE, DENY_SHARE, (AccessType.RECEIVE, ShareMode.DENY_RECEIVE)),
        (PEEK, DENY_NONE, (AccessType.PEEK, ShareMode.DENY_NONE)),
        (PEEK, DENY_SHARE, (AccessType.PEEK, ShareMode.DENY_RECEIVE)),
    ],
)
def test_access_and_share_mode_are_those_of_the_descriptor(
    host: Host, reader: Reader, access: int, share: int, opened: tuple[AccessType, ShareMode]
) -> None:
    reader.open(access=access, share=share)
    (descriptor,) = host.orders.descriptors.values()
    assert (descriptor.access_type, descriptor.share_mode) == opened


@pytest.mark.spec("MQRR-3.1.4.2-03", "MQRR-3.1.4.2-18")
@pytest.mark.parametrize(
    "request_",
    [
        OpenQueueRequest(QueueFormat(), RECEIVE, DENY_NONE),
        OpenQueueRequest(QueueFormat(QueueFormatType.CONNECTOR, arm=b"\1" * 16), RECEIVE, DENY_NONE),
        OpenQueueRequest(queue_format("MULTICAST=234.1.1.1:8001"), RECEIVE, DENY_NONE),
        OpenQueueRequest(queue_format("DIRECT=HTTP://host/msmq/private$/orders"), RECEIVE, DENY_NONE),
        OpenQueueRequest(QueueFormat(QueueFormatType.DIRECT), RECEIVE, DENY_NONE),
        OpenQueueRequest(queue_format("nowhere"), MOVE, DENY_NONE),
        OpenQueueRequest(queue_format("nowhere"), 0, DENY_NONE),
        OpenQueueRequest(queue_format("nowhere"), RECEIVE, 2),
    ],
    ids=str,
)
def test_invalid_values_are_found_before_the_queue_is_looked_for(reader: Reader, request_: OpenQueueRequest) -> None:
    """readings MQRR 3.14."""
    assert reader.start(2, request_).raised == INVALID_PARAMETER


@pytest.mark.spec("MQRR-3.1.4.2-03")
def test_every_kind_of_name_opens_its_queue(host: Host, reader: Reader) -> None:
    me = host.manager.identity.identifier
    public = host.create("offers", "")
    assert reader.open(f"PUBLIC={_guid(public.identifier)}")
    assert reader.open(str(PrivateFormatName(me, host.orders.private_queue_number)))
    assert reader.open("DIRECT=TCP:10.0.0.1\\private$\\orders")
    assert reader.open(f"MACHINE={_guid(me)};DEADLETTER")
    assert reader.open("DIRECT=OS:host\\private$\\orders;late")
    assert reader.open("DIRECT=OS:host\\private$\\orders;JOURNAL")
    assert len(host.orders.descriptors) == 2


@pytest.mark.spec("MQRR-3.1.4.2-19", "MQRR-3.1.4.11-04")
def test_only_queues_of_this_computer_can_be_opened(reader: Reader) -> None:
    for name in ("nowhere", "nowhere;late", "DIRECT=OS:far\\private$\\orders", "PUBLIC=" + _guid(b"\x99" * 16)):
        assert reader.try_open(name).raised == NOT_FOUND
        assert reader.try_open_for_move(name).raised == NOT_FOUND


def test_a_subqueue_is_made_when_it_is_opened(host: Host, reader: Reader) -> None:
    """readings MQRR 3.29."""
    reader.open("orders;late")
    reader.open("orders;seen", PEEK)
    reader.open_for_move("orders;early")
    assert sorted(host.orders.subqueues) == ["early", "late", "seen"]


def test_who_may_look_into_a_queue_does_not_make_any_number_of_subqueues(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.core.creating.MAX_SUBQUEUES", 2)
    reader.close(reader.open("orders;gone", PEEK))
    for name in ("orders;a", "orders;b"):
        reader.open(name, PEEK)
    for answer in (reader.try_open("orders;c", PEEK), reader.try_open_for_move("orders;c")):
        assert answer.raised == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert list(host.orders.subqueues) == ["a", "b"]
    assert reader.open("orders;A", PEEK), "an existing one opens"
    assert reader.open("ledger;c", PEEK), "others have theirs"


@pytest.mark.spec("MQRR-3.1.4.2-09", "MQRR-3.1.4.2-12", "MQRR-3.1.4.11-08")
@pytest.mark.parametrize("opnum", [2, 11])
def test_the_client_may_call_itself_what_it_likes(host: Host, reader: Reader, opnum: int) -> None:
    handles = set()
    for client_id in (bytes(16), b"\1" * 16, b"\1" * 16, b"\2" * 16):
        for version in ((0, 0, 0), (6, 1, 7601), (255, 255, 65535)):
            for non_routing_server in (0, 1):
                request = REQUESTS[opnum](queue_format("orders"), RECEIVE, 0, client_id, non_routing_server, *version)
                handles.add(reader.ask(opnum, request).context)
    assert len(handles) == len(host.orders.descriptors) == 24


@pytest.mark.spec("MQRR-3.1.4.2-21", "MQRR-3.1.4.11-05")
def test_every_open_has_a_handle_of_its_own(host: Host, reader: Reader) -> None:
    handles = [reader.open(), reader.open(), reader.open_for_move("orders").context]
    assert len(set(handles)) == 3
    assert not any(handle.is_null for handle in handles)
    for handle in handles:
        assert reader.close(handle).status == HResult.MQ_OK
    assert not host.orders.descriptors


def test_a_queue_is_not_left_open_when_there_is_no_room_for_its_handle(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.open()
    monkeypatch.setattr("waypost.rpc.context_handles.MAX_RPC_HANDLES", 1)
    assert reader.try_open().raised == FaultStatus.NCA_SERVER_TOO_BUSY
    assert reader.try_open_for_move("orders").raised == FaultStatus.NCA_SERVER_TOO_BUSY
    assert len(host.orders.descriptors) == 1


def test_nothing_is_kept_of_a_handle_that_was_closed(host: Host, reader: Reader) -> None:
    host.put("a")
    handle = reader.open()
    reader.read(handle)
    waiting = reader.read(handle, timeout=1000)
    for closed in (handle, reader.open_for_move("orders").context):
        reader.close(closed)
    assert waiting.is_there
    collect()
    assert [each for each in get_objects() if isinstance(each, RemoteQueue) and each.queue is host.orders] == []


@pytest.mark.spec("MQRR-3.1.4.3-01", "MQRR-3.1.4.3-02")
def test_closing_gives_back_a_null_handle(reader: Reader) -> None:
    for handle in (reader.open(), reader.open_for_move("orders").context):
        stub = reader.start(3, CloseQueueRequest(handle)).record
        assert (stub.context, stub.hresult) == (NO_HANDLE, HResult.MQ_OK)
        assert reader.close(handle).raised == MISMATCH


@pytest.mark.spec("MQRR-3.1.4.4-01", "MQRR-1.3.4-01")
def test_there_is_no_limit_on_cursors_and_each_has_its_own_place(host: Host, reader: Reader) -> None:
    for name in "abc":
        host.put(name)
    handle = reader.open()
    cursors = [reader.create_cursor(handle) for _ in range(3000)]
    assert len(set(cursors)) == 3000
    assert all(cursors)
    for cursor in cursors[:3]:
        assert label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) == "a", "it stands before the first message"
    assert label(reader.read(handle, PEEK_NEXT, cursor=cursors[1])) == "b"
    assert label(reader.read(handle, PEEK_NEXT, cursor=cursors[2])) == "b"
    assert label(reader.read(handle, PEEK_NEXT, cursor=cursors[2])) == "c"
    assert [label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) for cursor in cursors[:4]] == ["a", "b", "c", "a"]
    assert label(reader.read(reader.open(), PEEK_CURRENT, tx=bytes(16))) == "a"
    taking = reader.create_cursor(handle)
    assert label(reader.read(handle, cursor=taking, tx=bytes(16))) == "a"


@pytest.mark.spec("MQRR-3.1.4.5-01", "MQRR-3.1.4.5-03", "MQRR-3.1.4.7-34")
def test_a_cursor_is_known_on_its_handle_until_it_is_closed(host: Host, reader: Reader) -> None:
    """readings MQRR 3.32."""
    host.put("a")
    handle, other = reader.open(), reader.open()
    cursor = reader.create_cursor(handle)
    assert reader.close_cursor(other, cursor) == HResult.STATUS_INVALID_HANDLE
    assert reader.read(other, PEEK_CURRENT, cursor=cursor).status == HResult.STATUS_INVALID_HANDLE
    assert label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) == "a"
    assert reader.close_cursor(handle, cursor) == HResult.MQ_OK
    for action in (0, PEEK_CURRENT, PEEK_NEXT):
        assert reader.read(handle, action, cursor=cursor).status == HResult.STATUS_INVALID_HANDLE
    assert reader.close_cursor(handle, cursor) == HResult.STATUS_INVALID_HANDLE
    assert reader.close_cursor(handle, 12345) == HResult.STATUS_INVALID_HANDLE


def test_a_cursor_beyond_32_bits_is_refused(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(host.manager._opening, "_last_handle", 0xFFFF_FFFD)
    handle = reader.open()
    answer = reader.start(4, CreateCursorRequest(handle))
    assert answer.status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert not reader.find(handle).descriptor.cursors


def test_cursors_without_end_are_refused_when_they_would_fill_the_memory(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_REMOTE_CURSORS == 100_000
    monkeypatch.setattr("waypost.remote.cursors.MAX_REMOTE_CURSORS", 3)
    handle, other = reader.open(), reader.open()
    cursors = [reader.create_cursor(handle) for _ in range(3)]
    assert reader.start(4, CreateCursorRequest(handle)).status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert list(reader.find(handle).descriptor.cursors) == cursors
    assert reader.create_cursor(other), "the limit is of one handle"
    assert reader.close_cursor(handle, cursors[0]) == HResult.MQ_OK
    assert reader.create_cursor(handle)


def test_the_cursors_of_an_address_are_bounded_over_all_its_handles(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.remote.cursors.MAX_REMOTE_CURSORS_OF_PEER", 4)
    handles = [reader.open() for _ in range(3)]
    for handle in (*handles, handles[0]):
        assert reader.create_cursor(handle)
    neighbour = Reader(serve(host), host, replace(reader.caller, name="CORP\\bob"))
    for full, handle in ((reader, handles[2]), (neighbour, neighbour.open())):
        answer = full.start(4, CreateCursorRequest(handle))
        assert answer.status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    elsewhere = Reader(serve(host), host, replace(reader.caller, address="10.9.8.7"))
    assert elsewhere.create_cursor(elsewhere.open()), "another address has its own"
    # A handle that is closed takes its cursors along.
    reader.close(handles[0])
    assert reader.create_cursor(handles[1])
    assert reader.create_cursor(handles[1])
    assert reader.start(4, CreateCursorRequest(handles[1])).status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


def test_the_cursors_of_all_are_bounded_and_who_has_few_gets_one_more(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.remote.cursors.MAX_REMOTE_CURSORS_OF_ALL", 4)
    monkeypatch.setattr("waypost.remote.cursors.FEW_REMOTE_CURSORS", 2)
    other = Reader(serve(host), host, replace(reader.caller, address="10.9.8.7"))
    greedy, modest = reader.open(), other.open()
    cursors = [reader.create_cursor(greedy) for _ in range(4)]
    assert reader.start(4, CreateCursorRequest(greedy)).status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert [other.create_cursor(modest) for _ in range(2)]
    assert other.start(4, CreateCursorRequest(modest)).status == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    for cursor in cursors[:3]:
        assert reader.close_cursor(greedy, cursor) == HResult.MQ_OK
    assert other.create_cursor(modest)


def test_handles_and_addresses_without_cursors_are_not_remembered(host: Host, reader: Reader) -> None:
    for number in range(300):
        each = Reader(serve(host), host, replace(reader.caller, address=f"10.0.{number // 250}.{number % 250}"))
        handle = each.open()
        each.create_cursor(handle)
        each.close(handle)
        own = reader.open()
        reader.create_cursor(own)
        reader.close(own)
    assert len(host.cursors._by_peer) < 150
    assert all(len(held.handles) < 150 for held in host.cursors._by_peer.values())


@pytest.mark.parametrize("halves", [(bytes(8), b"\x07" + bytes(7)), (b"\x07" + bytes(7), bytes(8)), (bytes(8),) * 2])
def test_a_move_context_is_made_of_any_random_bytes(
    host: Host, reader: Reader, halves: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """readings MQRR 3.1: it is not 0."""
    monkeypatch.setattr(host, "new_guid", lambda: b"".join(halves))
    assert 0 < reader.open_for_move("orders").move_context < 1 << 64


def test_two_move_contexts_are_never_the_same(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    first = reader.open_for_move("orders")
    again = iter([host.new_guid(), *[b"\x01" * 16] * 3, b"\x02" * 16])
    monkeypatch.setattr(host, "new_guid", lambda: next(again))
    contexts = {first.move_context, *(reader.open_for_move("orders").move_context for _ in range(3))}
    assert len(contexts) == 4


@pytest.mark.spec("MQRR-3.1.4.11-03", "MQRR-3.1.4.11-05")
def test_a_queue_is_opened_for_moving(host: Host, reader: Reader) -> None:
    assert reader.open_for_move("orders") != reader.open_for_move("orders")
    for descriptor in host.orders.descriptors.values():
        assert (descriptor.access_type, descriptor.share_mode) == (AccessType.MOVE, ShareMode.DENY_NONE)
    for share in (1, 2, 0xFFFF_FFFF):
        reply = reader.open_for_move("ledger", share)
        (descriptor,) = host.ledger.descriptors.values()
        assert (descriptor.access_type, descriptor.share_mode) == (AccessType.MOVE, ShareMode.DENY_RECEIVE)
        assert reader.close(reply.context).status == HResult.MQ_OK


def _guid(identifier: bytes) -> str:
    return guid_text(identifier).strip("{}")
