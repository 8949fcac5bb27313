"""MS-MQMP 3.1.4.2, 3.1.4.3, 3.1.4.4 and 3.1.4.24, as far as readers of qm2qm need them."""

from dataclasses import replace

import pytest

from tests.remote.harness import ALICE
from tests.remote.qm2qm_reader import (
    CLIENT_ID,
    DENIED,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    NULL,
    OK,
    ORDERS,
    PEEK,
    PEEK_ACCESS,
    RECEIVE_ACCESS,
    Reader,
    ReadHost,
    label,
)
from waypost.core.queues import AccessType, RemoteReadState, ShareMode
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces import qmcomm
from waypost.rpc.authentication import Caller
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.wire.format_names import FormatName
from waypost.wire.queue_format import QueueFormat


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


def close(reader: Reader, reply: qmcomm.OpenRemoteQueueReply) -> None:
    answer = reader.qmcomm.ask(3, qmcomm.CloseRemoteQueueContextRequest(reply.context))
    assert answer.context == NULL


def test_a_queue_is_opened_under_one_number(host: ReadHost, reader: Reader) -> None:
    reply = reader.open_remote(PEEK_ACCESS, 1)
    assert not reply.context.is_null
    (descriptor,) = host.orders.descriptors.values()
    assert reply.dw_context == reply.dwp_queue == reply.queue != descriptor.handle
    assert (descriptor.access_type, descriptor.share_mode) == (AccessType.PEEK, ShareMode.DENY_RECEIVE)
    assert descriptor.remote_read_state is RemoteReadState.OPENED
    assert host.asked == [(ALICE, host.orders, AccessType.PEEK)]


@pytest.mark.parametrize("access", [0, 2, 3, 0x21, 0xA0])
def test_a_queue_is_opened_for_receiving_or_for_peeking(host: ReadHost, reader: Reader, access: int) -> None:
    assert reader.open_remote(access).hresult == INVALID_PARAMETER
    assert not host.orders.descriptors


def test_there_are_two_share_modes(reader: Reader) -> None:
    assert reader.open_remote(share=2).hresult == INVALID_PARAMETER
    assert reader.open_remote(share=1).hresult == OK
    assert reader.open_remote(share=0).hresult == HResult.MQ_ERROR_SHARING_VIOLATION


@pytest.mark.parametrize(
    "name",
    [
        "DIRECT=HTTP://host/msmq/private$/orders",
        "MULTICAST=234.1.1.1:8001",
        "DL=12345678-1234-1234-1234-123456789abc",
    ],
)
def test_a_name_that_can_only_be_sent_to_is_refused(reader: Reader, name: str) -> None:
    assert reader.open_remote(name=name).hresult == INVALID_PARAMETER


def test_a_name_is_needed(reader: Reader) -> None:
    reply = reader.qmcomm.ask(2, qmcomm.OpenRemoteQueueRequest(None, 0, RECEIVE_ACCESS, 0, CLIENT_ID, 0))
    assert reply == qmcomm.OpenRemoteQueueReply(hresult=INVALID_PARAMETER)


def test_a_queue_that_is_not_here_is_not_found(reader: Reader) -> None:
    for name in ("host\\private$\\none", "host\\private$\\none;sub", "other\\private$\\orders"):
        assert reader.open_remote(name=f"DIRECT=OS:{name}").hresult == HResult.MQ_ERROR_QUEUE_NOT_FOUND


@pytest.mark.spec("MQQP-2.1-05", "MQQP-5-04")
def test_the_caller_needs_the_right_to_the_queue(host: ReadHost, reader: Reader) -> None:
    host.denied.add((ALICE.name, host.orders, AccessType.RECEIVE))
    for name in (ORDERS, ORDERS + ";sub"):
        assert reader.open_remote(name=name).hresult == DENIED
    assert not host.orders.descriptors
    assert not host.orders.subqueues
    assert reader.open_remote(PEEK_ACCESS).hresult == OK
    assert Reader(host, replace(ALICE, name="CORP\\bob")).open_remote().hresult == OK


def test_a_subqueue_is_made_when_it_is_opened(host: ReadHost, reader: Reader) -> None:
    assert reader.open_remote(name=ORDERS + ";sub").hresult == OK
    assert list(host.orders.subqueues) == ["sub"]
    assert host.asked[-1][1] is host.orders


def test_callers_who_do_not_show_enough_are_refused(host: ReadHost) -> None:
    stranger = Reader(host, Caller.anonymous("10.0.0.9"))
    assert stranger.open_remote().hresult == DENIED
    assert stranger.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(1)).hresult == DENIED
    assert stranger.qmcomm.ask(31, qmcomm.GetServerPortRequest(0)).port == 2103


def test_a_queue_closes_with_its_context_unless_it_is_read(host: ReadHost, reader: Reader) -> None:
    unread, read = reader.open_remote(), reader.open_remote()
    reader.enter(read.queue)
    close(reader, unread)
    close(reader, read)
    assert len(host.orders.descriptors) == 1
    assert reader.enter(unread.queue).hresult == INVALID_PARAMETER
    host.put("a")
    assert label(reader.read(read.queue, PEEK)) == "a"
    with pytest.raises(RpcFault) as raised:
        close(reader, read)
    assert raised.value.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_the_null_context_closes_nothing(reader: Reader) -> None:
    assert reader.qmcomm.ask(3, qmcomm.CloseRemoteQueueContextRequest(NULL)).context == NULL


def test_a_lost_application_leaves_open_what_its_server_reads(host: ReadHost, reader: Reader) -> None:
    """MS-MQMP 3.1.7.2."""
    reader.open_remote()
    handle = reader.open()
    reader.qmcomm.vanish()
    assert len(host.orders.descriptors) == 1
    assert reader.close(handle).hresult == OK
    assert not host.orders.descriptors


def test_a_context_that_outlives_its_queue_closes_nothing(host: ReadHost, reader: Reader) -> None:
    opened = reader.open_remote()
    reader.sessions[opened.queue] = reader.enter(opened.queue).context
    reader.close(opened.queue)
    close(reader, opened)
    assert not host.orders.descriptors


def test_a_cursor_is_made_for_a_handle_of_the_caller(host: ReadHost, reader: Reader) -> None:
    handle = reader.open_remote().queue
    cursor = reader.cursor(handle)
    (descriptor,) = host.orders.descriptors.values()
    assert list(descriptor.cursors) == [cursor]
    unknown = reader.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(0x7777))
    assert unknown == qmcomm.CreateRemoteCursorReply(0, INVALID_HANDLE)
    thief = Reader(host, replace(ALICE, name="CORP\\mallory"))
    assert thief.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(handle)).hresult == INVALID_HANDLE
    host.manager.delete_queue(host.orders)
    host.pump()
    gone = reader.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(handle))
    assert gone.hresult == HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


def test_a_handle_has_a_bounded_number_of_cursors(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.remote.cursors.MAX_REMOTE_CURSORS", 3)
    handle = reader.open()
    cursors = [reader.cursor(handle) for _ in range(3)]
    request = qmcomm.CreateRemoteCursorRequest(handle)
    assert reader.qmcomm.ask(4, request).hresult == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert reader.close_cursor(handle, cursors[0]) == OK
    assert reader.qmcomm.ask(4, request).hresult == OK


def test_cursors_are_bounded_over_all_handles_of_an_address(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.remote.cursors.MAX_REMOTE_CURSORS_OF_PEER", 3)
    handles = [reader.open() for _ in range(3)]
    for handle in handles:
        assert reader.cursor(handle)
    request = qmcomm.CreateRemoteCursorRequest(handles[0])
    assert reader.qmcomm.ask(4, request).hresult == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


def test_too_many_contexts_leave_no_queue_open(
    host: ReadHost, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.rpc.context_handles.MAX_RPC_HANDLES", 0)
    with pytest.raises(RpcFault):
        reader.open_remote()
    assert not host.orders.descriptors


def test_cursors_that_fit_no_dword_are_not_given_out(
    host: ReadHost, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    handle = reader.open_remote().queue
    monkeypatch.setattr("waypost.remote.cursors.MAX_HANDLE", 0)
    cursor = reader.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(handle))
    assert cursor.hresult == HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert [descriptor.cursors for descriptor in host.orders.descriptors.values()] == [{}]


@pytest.mark.parametrize(("kind", "port"), [(0, 2103), (1, 2105), (2, 0), (3, 0), (4, 0), (0xFFFF_FFFF, 0)])
def test_the_ports_are_for_everybody(kind: int, port: int) -> None:
    stranger = Reader(ReadHost(RemoteSettings()), Caller.anonymous("10.0.0.9"))
    assert stranger.qmcomm.ask(31, qmcomm.GetServerPortRequest(kind)).port == port


def test_a_queue_manager_that_is_not_ready_opens_nothing(host: ReadHost, reader: Reader) -> None:
    host.manager.queue_manager_stopped()
    queue_format = QueueFormat.from_format_name(FormatName.parse(ORDERS))
    request = qmcomm.OpenRemoteQueueRequest(queue_format, 0, RECEIVE_ACCESS, 0, CLIENT_ID, 0)
    assert reader.qmcomm.start(2, request).raised == HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    assert reader.qmcomm.ask(31, qmcomm.GetServerPortRequest(0)).port == 0
