"""MS-MQQP 3.1.4.3 to 3.1.4.5, 3.1.4.7 to 3.1.4.9, 5: opening and closing, cursors, purging, ports, version, callers."""

from dataclasses import replace

import pytest

from tests.remote.harness import ALICE
from tests.remote.qm2qm_reader import (
    ACK,
    CLIENT_ID,
    DENIED,
    FOREVER,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    NACK,
    NULL,
    OK,
    PEEK,
    RECEIVE,
    STATUS_INVALID_PARAMETER,
    Reader,
    ReadHost,
    has_failed,
    label,
)
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType, RemoteReadState
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces import qm2qm
from waypost.remote.interfaces.qm2qm import RemoteReadDesc2
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty
from waypost.wire.message_class import MessageClass

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
ANYBODY = Caller.anonymous("10.0.0.9")
OPEN_TO_ALL = RemoteSettings(allows_nonauthenticated_rpc=True)
UNKNOWN = 0x7777


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


def open_queue(reader: Reader, client_id: bytes, mqs: int, queue: int, *handles: int) -> int:
    """RemoteQMOpenQueue with pQueue and dwpContext in `handles`; its status."""
    reply = reader.qm2qm.ask(2, qm2qm.OpenQueueRequest(client_id, mqs, queue, *handles))
    assert reply.context.is_null == (reply.hresult != OK)
    status: int = reply.hresult
    return status


@pytest.mark.spec("MQQP-3.1.4.3-03", "MQQP-3.1.4.3-04", "MQQP-3.1.4.3-05", "MQQP-3.1.4.3-06")
def test_open_queue_wants_a_client_and_one_handle_twice(reader: Reader) -> None:
    """readings MQQP 3.17: 16 zeros are the NULL of pLicGuid."""
    handle, other = reader.open_remote().queue, reader.open_remote().queue
    assert open_queue(reader, bytes(16), 0, handle, handle, handle) == INVALID_PARAMETER
    for handles in ((0, 0), (0, handle), (handle, 0), (handle, other)):
        assert open_queue(reader, CLIENT_ID, 0, handle, *handles) == INVALID_PARAMETER
    assert has_failed(reader.read(handle), INVALID_PARAMETER)
    assert open_queue(reader, CLIENT_ID, 0, handle, handle, handle) == OK


@pytest.mark.spec("MQQP-3.1.4.3-07", "MQQP-3.1.4.3-08")
@pytest.mark.parametrize("mqs", [0, 1, 16])
@pytest.mark.parametrize("queue", [0, UNKNOWN, 0xFFFF_FFFF])
def test_open_queue_looks_neither_at_h_queue_nor_at_dw_mqs(reader: Reader, mqs: int, queue: int) -> None:
    handle = reader.open_remote().queue
    for _ in range(3):
        assert open_queue(reader, CLIENT_ID, mqs, queue, handle, handle) == OK


@pytest.mark.spec("MQQP-3.1.4.3-02")
def test_open_queue_comes_after_r_qm_open_remote_queue_and_before_all_else(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 3.19: a handle that names nothing is refused at once."""
    assert open_queue(reader, CLIENT_ID, 0, UNKNOWN, UNKNOWN, UNKNOWN) == INVALID_PARAMETER
    host.put("a")
    handle = reader.open_remote().queue
    assert has_failed(reader.read(handle), INVALID_PARAMETER)
    assert has_failed(reader.read(handle, opnum=9), INVALID_PARAMETER)
    assert has_failed(reader.look_up(handle, 0x4000_0011, 0), INVALID_PARAMETER)
    assert reader.cancel(handle, 1) == INVALID_HANDLE
    assert reader.purge(handle) == INVALID_HANDLE
    assert reader.qm2qm.ask(3, qm2qm.CloseQueueRequest(NULL)).hresult == INVALID_HANDLE
    assert reader.qm2qm.ask(1, qm2qm.EndReceiveRequest(NULL, ACK)).hresult == INVALID_HANDLE
    assert reader.enter(handle).hresult == OK
    assert label(reader.read(handle)) == "a"


@pytest.mark.spec("MQQP-3.1.4.3-09", "MQQP-3.1.4.3-10", "MQQP-3.1.1.4-01")
def test_each_open_queue_makes_an_entry_of_its_own(host: ReadHost, reader: Reader) -> None:
    handle = reader.open_remote().queue
    clients = [b"\x01" * 16, b"\x02" * 16]
    replies = [reader.enter(handle, client) for client in clients]
    assert [reply.hresult for reply in replies] == [OK, OK]
    assert replies[0].context != replies[1].context
    handles = reader.qm2qm.association.handles(qm2qm.QM2QM.uuid, ALICE.name)
    entries = [entry for reply in replies for _, entry in [handles._open[reply.context]]]
    assert [entry.client_id for entry in entries] == clients
    assert [entry.remote.number for entry in entries] == [handle, handle]
    assert entries[0].remote.entries == set(entries)
    assert next(iter(host.orders.descriptors.values())).remote_read_state is RemoteReadState.READY_FOR_READ


@pytest.mark.spec("MQQP-3.1.4.4-02")
def test_the_null_handle_of_a_queue_is_invalid(reader: Reader) -> None:
    assert reader.qm2qm.ask(3, qm2qm.CloseQueueRequest(NULL)) == qm2qm.CloseQueueReply(NULL, INVALID_HANDLE)


@pytest.mark.spec("MQQP-3.1.4.4-04", "MQQP-3.1.4.4-06", "MQQP-3.1.4.4-07", "MQQP-2.2.1.1-01")
def test_close_queue_leaves_nothing_open(host: ReadHost, reader: Reader) -> None:
    handle = reader.open(share=1)
    cursor, session = reader.cursor(handle), reader.sessions[handle]
    assert reader.open_remote().hresult == HResult.MQ_ERROR_SHARING_VIOLATION
    assert reader.close(handle) == qm2qm.CloseQueueReply(NULL, OK)
    assert not host.orders.descriptors
    for opnum in (0, 9):
        assert has_failed(reader.read(handle, opnum=opnum), INVALID_PARAMETER)
    assert has_failed(reader.look_up(handle, 0x4000_0011, 0), INVALID_PARAMETER)
    assert reader.purge(handle) == INVALID_HANDLE
    assert reader.close_cursor(handle, cursor) == INVALID_HANDLE
    assert reader.enter(handle).hresult == INVALID_PARAMETER
    again = reader.qm2qm.start(3, qm2qm.CloseQueueRequest(session))
    assert again.raised == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert reader.open_remote(share=1).hresult == OK


@pytest.mark.spec("MQQP-2.2.1.1-01")
def test_only_close_queue_ends_a_session(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    session = reader.sessions[handle]
    host.put("a")
    read = reader.read(handle)
    mismatch = FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert reader.qm2qm.start(1, qm2qm.EndReceiveRequest(session, ACK)).raised == mismatch
    assert reader.qm2qm.start(3, qm2qm.CloseQueueRequest(read.record.context)).raised == mismatch
    assert Reader(host).qm2qm.start(3, qm2qm.CloseQueueRequest(session)).raised == mismatch
    assert reader.end(read, NACK).hresult == OK
    assert label(reader.read(handle, PEEK)) == "a"
    assert reader.close(handle).hresult == OK


@pytest.mark.spec("MQQP-3.1.4.4-03", "MQQP-3.1.1.5-01")
def test_of_two_entries_for_a_handle_the_first_that_closes_closes_the_queue(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 3.23. The second is closed without a search for its handle, as later Windows versions do."""
    handle = reader.open_remote().queue
    one, two = reader.enter(handle).context, reader.enter(handle).context
    waiting = reader.read(handle, RECEIVE, FOREVER)
    assert reader.qm2qm.ask(3, qm2qm.CloseQueueRequest(one)).hresult == OK
    assert waiting.status == HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT
    assert not host.orders.descriptors
    assert has_failed(reader.read(handle), INVALID_PARAMETER)
    assert reader.purge(handle) == INVALID_HANDLE
    assert reader.qm2qm.ask(3, qm2qm.CloseQueueRequest(two)) == qm2qm.CloseQueueReply(NULL, OK)


@pytest.mark.spec("MQQP-3.1.4.5-01", "MQQP-3.1.4.5-02", "MQQP-3.1.4.5-03", "MQQP-3.1.4.5-04")
def test_a_cursor_is_closed_by_its_handle_and_that_of_its_queue(host: ReadHost, reader: Reader) -> None:
    handle, other = reader.open(), reader.open()
    cursor, sibling, foreign = reader.cursor(handle), reader.cursor(handle), reader.cursor(other)
    host.put("a")
    assert reader.close_cursor(UNKNOWN, cursor) == INVALID_HANDLE
    assert reader.close_cursor(handle, UNKNOWN) == INVALID_HANDLE
    assert reader.close_cursor(handle, foreign) == INVALID_HANDLE
    assert reader.close_cursor(handle, cursor) == OK
    assert reader.close_cursor(handle, cursor) == INVALID_HANDLE
    assert has_failed(reader.read(handle, PEEK, cursor=cursor), STATUS_INVALID_PARAMETER)
    assert label(reader.read(handle, PEEK, cursor=sibling)) == "a"
    assert label(reader.read(other, PEEK, cursor=foreign)) == "a"


@pytest.mark.spec("MQQP-4.2-01", "MQQP-3.1.4.7-01", "MQQP-3.1.4.7-03")
def test_a_purge_removes_all_messages(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    for name in ("a", "b"):
        host.put(name)
    reply = reader.qm2qm.ask(6, qm2qm.PurgeQueueRequest(handle))
    assert reply.hresult == 0x0000_0000
    assert host.contents(host.orders) == []
    assert host.reasons == [(name, MessageClass.MQMSG_CLASS_NACK_Q_PURGED) for name in ("a", "b")]


@pytest.mark.spec("MQQP-3.1.4.7-02", "MQQP-3.1.4.7-05")
def test_a_purge_that_fails_is_a_fault_with_the_hresult(host: ReadHost, reader: Reader) -> None:
    host.put("a")
    handle = reader.open_remote().queue
    answer = reader.qm2qm.start(6, qm2qm.PurgeQueueRequest(handle))
    assert answer.record is None
    assert answer.raised == INVALID_HANDLE
    assert reader.qm2qm.start(6, qm2qm.PurgeQueueRequest(UNKNOWN)).raised == INVALID_HANDLE
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    reader.enter(handle)
    host.manager.delete_queue(host.orders)
    host.pump()
    answer = reader.qm2qm.start(6, qm2qm.PurgeQueueRequest(handle))
    assert answer.raised == HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


@pytest.mark.spec("MQQP-3.1.4.7-04")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_a_locked_message_outlives_a_purge_until_its_end(host: ReadHost, reader: Reader, ack: int) -> None:
    handle = reader.open()
    host.put("locked")
    host.put("free")
    read = reader.read(handle)
    assert reader.purge(handle) == OK
    assert host.contents(host.orders) == [("locked", PositionState.PURGE_PENDING)]
    assert reader.end(read, ack).hresult == OK
    assert host.contents(host.orders) == []
    assert host.reasons[-1] == ("locked", MessageClass.MQMSG_CLASS_NACK_Q_PURGED)


@pytest.mark.spec("MQQP-3.1.4.8-01", "MQQP-3.1.4.8-02", "MQQP-3.1.4.8-03", "MQQP-3.1.4.8-04", "MQQP-3.1.4.8-05")
def test_the_ports_are_those_that_the_host_listens_on(host: ReadHost, reader: Reader) -> None:
    def ports() -> list[int]:
        return [reader.qm2qm.ask(7, qm2qm.GetServerPortRequest(kind)).port for kind in range(4)]

    assert ports() == [2103, 2105, 0, 0]
    host.remote_read_port, host.qm2qm_port = 2114, 2116
    assert ports() == ports() == [2114, 2116, 0, 0]
    host.qm2qm_port = 0
    assert ports() == [2114, 0, 0, 0]
    # readings MQQP 3.16: outside the range of the IDL, the stub is refused.
    assert reader.qm2qm.start_stub(7, b"\x04\0\0\0").raised == FaultStatus.BAD_STUB_DATA
    host.manager.queue_manager_stopped()
    assert ports() == [0, 0, 0, 0]


@pytest.mark.spec("MQQP-3.1.4.9-01", "MQQP-3.1.4.9-02", "MQQP-3.1.4.9-03")
def test_the_version_needs_no_queue(reader: Reader) -> None:
    assert reader.qm2qm.ask(8, Empty()) == qm2qm.GetVersionReply(6, 1, 6531)
    reader.open()
    assert reader.qm2qm.ask(8, Empty()) == qm2qm.GetVersionReply(6, 1, 6531)


def test_a_queue_manager_that_is_not_ready_serves_nobody(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    host.manager.queue_manager_stopped()
    assert reader.qm2qm.start(0, qm2qm.StartReceiveRequest(reader.desc(handle))).raised == (
        HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    )


@pytest.mark.spec("MQQP-5-02", "MQQP-5-03")
@pytest.mark.parametrize(
    "caller", [ANYBODY, replace(ALICE, level=AuthLevel.CONNECT)], ids=["unauthenticated", "not protected"]
)
def test_callers_who_do_not_show_enough_are_refused(host: ReadHost, caller: Caller) -> None:
    """A handle in the request stays open. RemoteQMPurgeQueue faults, and RemoteQmGetVersion can return no HRESULT."""
    stranger = Reader(host, caller)
    assert stranger.open_remote().hresult == DENIED
    desc = stranger.desc(1)
    client = stranger.qm2qm
    some = replace(NULL, uuid=b"h" * 16)
    assert has_failed(client.start(0, qm2qm.StartReceiveRequest(desc)), DENIED)
    assert has_failed(client.start(9, qm2qm.StartReceive2Request(RemoteReadDesc2(desc))), DENIED)
    assert has_failed(client.start(10, qm2qm.StartReceiveByLookupIdRequest(1, RemoteReadDesc2(desc))), DENIED)
    assert client.ask(1, qm2qm.EndReceiveRequest(some, ACK)) == qm2qm.EndReceiveReply(some, DENIED)
    assert client.ask(2, qm2qm.OpenQueueRequest(CLIENT_ID, 0, 1, 1, 1)) == qm2qm.OpenQueueReply(NULL, DENIED)
    assert client.ask(3, qm2qm.CloseQueueRequest(some)) == qm2qm.CloseQueueReply(some, DENIED)
    assert client.ask(4, qm2qm.CloseCursorRequest(1, 1)).hresult == DENIED
    assert client.ask(5, qm2qm.CancelReceiveRequest(1, 1, 1)).hresult == DENIED
    assert client.start(6, qm2qm.PurgeQueueRequest(1)).raised == DENIED
    assert client.start(8, Empty()).raised == DENIED
    assert client.ask(7, qm2qm.GetServerPortRequest(1)).port == 2105


@pytest.mark.spec("MQQP-5-01", "MQQP-5-03", "MQQP-2.1-05")
def test_a_host_can_let_everybody_in() -> None:
    """Then the queue decides, with the identity of the caller, when it is opened and never after."""
    host = ReadHost(OPEN_TO_ALL)
    stranger = Reader(host, ANYBODY)
    host.denied = {(None, host.orders, AccessType.RECEIVE)}
    assert stranger.open_remote().hresult == DENIED
    host.denied.clear()
    host.asked.clear()
    handle = stranger.open()
    assert [(caller, queue) for caller, queue, _ in host.asked] == [(ANYBODY, host.orders)]
    host.put("a")
    read = stranger.read(handle)
    assert label(read) == "a"
    assert stranger.end(read).hresult == OK
    assert stranger.purge(handle) == OK
    assert stranger.qm2qm.ask(7, qm2qm.GetServerPortRequest(1)).port == 2105
    assert stranger.close(handle).hresult == OK
    assert len(host.asked) == 1


MALLORY = replace(ALICE, name="CORP\\mallory")


@pytest.mark.parametrize("other", [MALLORY, Caller.anonymous(ALICE.address)])
def test_a_number_is_good_only_for_its_caller_and_for_those_with_a_session(other: Caller) -> None:
    host = ReadHost(OPEN_TO_ALL)
    reader, thief = Reader(host), Reader(host, other)
    handle = reader.open()
    cursor = reader.cursor(handle)
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    assert thief.enter(handle ^ 1).hresult == INVALID_PARAMETER
    assert has_failed(thief.read(handle, PEEK), INVALID_PARAMETER)
    assert has_failed(thief.look_up(handle, 0x4000_0011, 0), INVALID_PARAMETER)
    assert thief.cancel(handle, 7) == INVALID_HANDLE
    assert thief.purge(handle) == INVALID_HANDLE
    assert thief.close_cursor(handle, cursor) == INVALID_HANDLE
    assert not waiting.is_there
    assert Reader(host, replace(ALICE, address="10.0.0.10")).enter(handle).hresult == OK


def test_a_number_is_random_and_an_address_that_guesses_has_to_wait() -> None:
    host = ReadHost(OPEN_TO_ALL)
    handle = Reader(host).open()
    assert handle > 0xFFFF
    other = Reader(host, MALLORY)
    for guess in range(1, 11):
        assert other.enter(guess).hresult == INVALID_PARAMETER
    assert other.enter(handle).hresult == INVALID_PARAMETER
    assert Reader(host).enter(handle).hresult == OK
    assert Reader(host, replace(MALLORY, address="10.0.0.77")).enter(handle).hresult == OK
    host.advance(60)
    assert other.enter(handle).hresult == OK


def test_a_caller_without_a_name_is_known_by_its_address() -> None:
    host = ReadHost(OPEN_TO_ALL)
    handle = Reader(host, ANYBODY).open()
    assert Reader(host, ANYBODY).enter(handle).hresult == OK
    assert Reader(host, Caller.anonymous("10.0.0.10")).enter(handle).hresult == INVALID_PARAMETER
    assert Reader(host).enter(handle).hresult == INVALID_PARAMETER
