"""MS-MQRR 3.1.2.2, 3.1.4.3, 3.1.5 and 3.1.6: what was given out to a client that goes or keeps silent."""

import pytest

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
    DENY_SHARE,
    INFINITE,
    NO_UOW,
    UOW,
    Reader,
    label,
    packet_of,
    serve,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.remote_read.coordinator import local_token
from waypost.remote.remote_read.server import RemoteReadServer
from waypost.rpc.calls import FaultStatus
from waypost.wire.ndr import ContextHandle

OK = HResult.MQ_OK
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def server(host: Host) -> RemoteReadServer:
    return serve(host)


@pytest.fixture
def reader(host: Host, server: RemoteReadServer) -> Reader:
    return Reader(server, host)


@pytest.fixture
def other(host: Host, server: RemoteReadServer) -> Reader:
    return Reader(server, host)


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    return reader.open()


@pytest.mark.spec("MQRR-3.1.4.3-05")
def test_closing_a_queue_releases_what_was_not_acknowledged(host: Host, reader: Reader) -> None:
    """readings MQRR 3.5."""
    reader.enlist(local_token(UOW))
    handle = reader.open("ledger")
    for name in "abcd":
        host.put(name, host.ledger)
    reader.read(handle, request_id=1)
    reader.read(handle, request_id=2, tx=UOW)
    reader.read(handle, request_id=3, tx=b"\x66" * 16)
    reader.read(handle, request_id=4, tx=UOW)
    reader.end_tx(handle, ACK, 4)
    reader.close(handle)
    for request_id in (1, 2, 3):
        assert reader.end(handle, ACK, request_id) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert reader.end(reader.open("ledger"), ACK, 1) == INVALID_HANDLE
    assert host.contents(host.ledger) == [("a", AVAILABLE), ("b", AVAILABLE), ("c", AVAILABLE), ("d", LOCKED)]
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == [("a", AVAILABLE), ("b", AVAILABLE), ("c", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.1.2-01")
def test_a_pending_request_is_what_is_known_of_it(host: Host, reader: Reader, handle: ContextHandle) -> None:
    answer = reader.read(handle, timeout=INFINITE, request_id=12)
    queue = reader.find(handle)
    entry = queue.pending[12]
    came = int(host.now.monotonic * 1000) & 0xFFFF_FFFF
    assert (entry.request_id, entry.lookup_identifier, entry.queue_context_handle) == (12, 0, queue)
    host.tick(60)
    lookup_id = host.put("a")
    assert answer.is_there
    assert (entry.lookup_identifier, entry.time_stamp) == (lookup_id, came)


@pytest.mark.spec("MQRR-3.1.2.2-01", "MQRR-3.1.5.1-01", "MQRR-3.1.5.1-02", "MQRR-3.1.4.15-06")
@pytest.mark.parametrize("tx", [None, NO_UOW, UOW, b"\x66" * 16])
def test_a_message_that_nobody_acknowledges_in_time_is_for_others_again(tx: bytes | None) -> None:
    """readings MQRR 3.17: a commit does not delete it either."""
    host = Host(RemoteSettings(transaction_timeout_s=1000))
    server = serve(host)
    reader, other = Reader(server, host), Reader(server, host)
    reader.enlist(local_token(UOW))
    handle = reader.open("ledger")
    end = reader.end if tx in (None, NO_UOW) else reader.end_tx
    host.put("a", host.ledger)
    host.put("b", host.ledger)
    for action in (0, 0x4000_0020):
        started = reader.read(handle, action, host.ledger.positions.next_available(-1) if action else 0, tx=tx)
        assert label(started) == ("b" if action else "a")
    assert end(handle, ACK) == OK
    assert host.deadline_of_requests() == host.now.monotonic + 300
    host.tick(299.9)
    assert host.contents(host.ledger)[0] == ("a", LOCKED)
    waiting = other.read(other.open("ledger"), timeout=INFINITE)
    host.tick(0.1)
    assert label(waiting) == "a", "at its place, and whoever waits is woken"
    assert end(handle, ACK, 1) == INVALID_HANDLE
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == [("a", LOCKED)]


@pytest.mark.spec("MQRR-3.1.2.2-01")
def test_the_time_to_acknowledge_is_a_setting() -> None:
    host = Host(RemoteSettings(pending_request_timeout_s=60))
    server = serve(host)
    reader = Reader(server, host)
    handle = reader.open()
    host.put("a")
    assert host.deadline_of_requests() is None
    reader.read(handle)
    assert host.deadline_of_requests() == host.now.monotonic + 60
    host.tick(60)
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert host.deadline_of_requests() is None


@pytest.mark.spec("MQRR-3.1.6.1-01", "MQRR-3.1.6.2-01", "MQRR-3.1.6.2-02", "MQRR-2.2.5.3-04")
def test_when_a_client_vanishes_all_that_it_has_open_is_closed(host: Host, reader: Reader, other: Reader) -> None:
    handle = reader.open("ledger", share=DENY_SHARE)
    reader.enlist(local_token(UOW))
    cursor = reader.create_cursor(handle)
    for name in "abcd":
        host.put(name, host.ledger)
    reader.read(handle, request_id=1, cursor=cursor)
    reader.read(handle, request_id=2, tx=UOW)
    reader.read(handle, request_id=3, tx=UOW)
    reader.end_tx(handle, ACK, 3)
    empty = reader.open()
    waiting = reader.read(empty, timeout=INFINITE)
    moving = reader.open_for_move("ledger;late")
    assert other.try_open("ledger").raised == HResult.MQ_ERROR_SHARING_VIOLATION
    reader.vanish()
    assert not waiting.is_there
    assert host.contents(host.ledger) == [("a", AVAILABLE), ("b", AVAILABLE), ("c", LOCKED), ("d", AVAILABLE)]
    assert not any(queue.descriptors or queue.waiting for queue in (host.orders, host.ledger))
    mine = other.open("ledger", share=DENY_SHARE)
    counts = [packet_of(other.read(mine)).subqueue for _ in range(3)]
    assert [header and header.abort_counter for header in counts] == [1, 1, 0]
    assert other.move(mine, moving.move_context, 1) == INVALID_HANDLE
    host.put("e")
    assert host.contents(host.orders) == [("e", AVAILABLE)], "a wait of the lost client takes nothing"
    host.decide_commit(UOW)
    assert [name for name, _ in host.contents(host.ledger)] == ["a", "b", "d"]


@pytest.mark.spec("MQRR-3.1.6.2-01")
def test_the_rundown_of_a_handle_whose_queue_is_gone_does_nothing(host: Host, reader: Reader) -> None:
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle)
    host.manager.delete_queue(host.ledger)
    host.pump()
    reader.vanish()
    assert host.reasons[-1][0] == "a"


@pytest.mark.parametrize("tx", [None, UOW])
def test_a_message_released_by_one_lost_handle_does_not_stay_with_another(
    host: Host, reader: Reader, other: Reader, tx: bytes | None
) -> None:
    """The rundown of the first hands the message to a wait of the second, whose rundown comes next."""
    reader.enlist(local_token(UOW))
    first, second = reader.open("ledger"), reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(first)
    waiting = reader.read(second, timeout=INFINITE, tx=tx)
    reader.lose_connection_before_calls_end()
    assert not waiting.is_there
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert label(other.read(other.open("ledger"))) == "a"


def test_what_is_prepared_stays_when_its_reader_is_lost(host: Host, reader: Reader) -> None:
    reader.enlist(local_token(UOW))
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle, tx=UOW)
    host.external.dtc_transaction_prepare(UOW, 0, host.now.wall)
    reader.vanish()
    assert host.contents(host.ledger) == [("a", LOCKED)]
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == []


def test_a_lost_reader_does_not_count_for_a_message_that_another_one_has_by_now(
    host: Host, reader: Reader, other: Reader
) -> None:
    reader.enlist(local_token(UOW))
    handle, elsewhere = reader.open("ledger"), other.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle, request_id=1, tx=UOW)
    host.decide_abort(UOW)
    assert label(other.read(elsewhere, request_id=1)) == "a"
    aborted = host.messages.get(host.ledger.number, next(iter(host.ledger.positions))).abort_count
    reader.vanish()
    assert host.messages.get(host.ledger.number, next(iter(host.ledger.positions))).abort_count == aborted
    assert host.contents(host.ledger) == [("a", LOCKED)]
