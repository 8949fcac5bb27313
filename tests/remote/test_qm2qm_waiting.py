"""MS-MQQP 3.1.2, 3.1.4.6, 3.1.6: reads that wait, how they end, and what becomes of them when their reader goes."""

import tracemalloc
from dataclasses import replace

import pytest

from tests.remote.qm2qm_reader import (
    ACK,
    CANCELED,
    FOREVER,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    NACK,
    OK,
    PEEK,
    PEEK_NEXT,
    RECEIVE,
    TIMEOUT,
    Reader,
    ReadHost,
    StartReceive,
    StartReceive2,
    has_failed,
    label,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm
from waypost.remote.qm2qm.server import Qm2qmServer
from waypost.rpc.faults import RpcFault

BOTH = pytest.mark.parametrize("opnum", [StartReceive, StartReceive2])
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
MQ_ERROR = HResult.MQ_ERROR


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


@pytest.mark.spec("MQQP-3.1.4.1-04")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK])
def test_without_time_a_read_of_an_empty_queue_fails_at_once(reader: Reader, opnum: int, action: int) -> None:
    assert has_failed(reader.read(reader.open(), action, 0, opnum=opnum), TIMEOUT)


@pytest.mark.spec("MQQP-3.1.4.1-05", "MQQP-3.1.4.10-13")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK])
def test_a_read_waits_for_a_message(host: ReadHost, reader: Reader, opnum: int, action: int) -> None:
    handle = reader.open()
    read = reader.read(handle, action, 5000, opnum=opnum)
    assert not read.is_there
    host.tick(4.999)
    assert not read.is_there
    host.put("a")
    assert label(read) == "a"
    assert read.record.context.is_null == (action == PEEK)
    assert host.contents(host.orders) == [("a", LOCKED if action == RECEIVE else AVAILABLE)]


@pytest.mark.spec("MQQP-3.1.4.1-06", "MQQP-2.2.2.1-05", "MQQP-3.1.4.10-13")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK])
def test_a_read_ends_after_its_milliseconds(host: ReadHost, reader: Reader, opnum: int, action: int) -> None:
    handle = reader.open()
    read = reader.read(handle, action, 1500, opnum=opnum)
    host.tick(1.499)
    assert not read.is_there
    host.tick(0.002)
    assert has_failed(read, TIMEOUT)
    host.put("late")
    assert host.contents(host.orders) == [("late", AVAILABLE)]


@pytest.mark.spec("MQQP-2.2.2.1-05")
def test_a_read_can_wait_without_limit(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    forever = reader.read(handle, RECEIVE, 0xFFFF_FFFF)
    nearly = reader.read(handle, RECEIVE, 0xFFFF_FFFE)
    host.tick(4_294_968.0)
    assert has_failed(nearly, TIMEOUT)
    host.tick(100_000_000.0)
    assert not forever.is_there
    host.put("a")
    assert label(forever) == "a"


@pytest.mark.spec("MQQP-3.1.2-01")
def test_each_read_has_a_timer_of_its_own(host: ReadHost, reader: Reader) -> None:
    handle, other = reader.open(), reader.open()
    long, short = reader.read(handle, RECEIVE, 3000), reader.read(handle, RECEIVE, 1000, opnum=StartReceive2)
    elsewhere = reader.read(other, PEEK, 2000)
    for seconds, ended in ((1.001, [short]), (1.0, [short, elsewhere]), (1.0, [short, elsewhere, long])):
        host.tick(seconds)
        assert [read.is_there for read in (short, elsewhere, long)] == [
            read in ended for read in (short, elsewhere, long)
        ]
        assert all(has_failed(read, TIMEOUT) for read in ended)


@pytest.mark.spec("MQQP-3.1.4.6-02")
def test_the_two_handles_of_a_cancel_are_one_and_not_zero(reader: Reader) -> None:
    handle, other = reader.open(), reader.open()
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    for queue, p_queue in ((handle, 0), (0, 0), (handle, other), (0, handle)):
        answer = reader.qm2qm.start(5, qm2qm.CancelReceiveRequest(queue, p_queue, 7))
        assert answer.status == INVALID_PARAMETER
    assert not waiting.is_there


@pytest.mark.spec("MQQP-3.1.4.6-03", "MQQP-3.1.4.6-04")
def test_a_cancel_finds_the_handle_first_and_then_the_number(reader: Reader) -> None:
    handle, other = reader.open(), reader.open()
    assert reader.cancel(handle, 7) == INVALID_HANDLE
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    assert reader.cancel(other, 7) == INVALID_HANDLE
    assert reader.cancel(handle, 8) == MQ_ERROR
    assert not waiting.is_there
    assert reader.cancel(handle, 7) == OK
    assert reader.cancel(handle, 7) == INVALID_HANDLE


@pytest.mark.spec(
    "MQQP-3.1.4.6-01", "MQQP-3.1.4.6-05", "MQQP-3.1.4.6-06", "MQQP-3.1.4.1-17", "MQQP-3.1.4.1-26", "MQQP-3.1.4.10-13"
)
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK, PEEK_NEXT])
def test_a_read_that_waits_can_be_cancelled(host: ReadHost, reader: Reader, opnum: int, action: int) -> None:
    """readings MQQP 3.8: a peek too."""
    handle = reader.open()
    cursor = 0
    if action == PEEK_NEXT:
        cursor = reader.cursor(handle)
        host.put("only")
        reader.read(handle, PEEK, cursor=cursor)
    waiting = reader.start(reader.desc(handle, action, FOREVER, cursor=cursor, request_id=7), opnum)
    assert not waiting.is_there
    assert reader.cancel(handle, 7) == OK
    assert has_failed(waiting, 0x400E_03E9)
    host.put("late")
    assert host.contents(host.orders)[-1] == ("late", AVAILABLE)


@pytest.mark.spec("MQQP-3.1.4.6-06")
def test_a_cancel_that_comes_after_the_message_finds_nothing(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 4: the read has one outcome, which is the message."""
    handle = reader.open()
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    with host.operation():
        host.put("a")
        assert reader.cancel(handle, 7) == HResult.STATUS_NOT_FOUND
    assert label(waiting) == "a"
    assert reader.end(waiting).hresult == OK


@pytest.mark.spec("MQQP-3.1.4.6-07")
def test_a_cancel_ends_one_read_alone(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 3.9: also where another handle or reader uses the same number."""
    other = Reader(host)
    handle, mine, theirs = reader.open(), reader.open(), other.open()
    first, second = (reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=number)) for number in (7, 8))
    same = [
        reader.start(reader.desc(mine, RECEIVE, FOREVER, request_id=7)),
        other.start(other.desc(theirs, RECEIVE, FOREVER, request_id=7)),
    ]
    assert reader.cancel(handle, 7) == OK
    assert first.status == CANCELED
    assert not any(read.is_there for read in (second, *same))
    host.put("a")
    assert label(second) == "a"
    host.put("b")
    host.put("c")
    assert [label(read) for read in same] == ["b", "c"]


@pytest.mark.spec("MQQP-3.1.4.1-24", "MQQP-3.1.4.10-12")
@BOTH
def test_a_request_id_is_free_again_when_its_read_has_ended(host: ReadHost, reader: Reader, opnum: int) -> None:
    """readings MQQP 3.10: a message that waits for its EndReceive does not count."""
    handle = reader.open()

    def start() -> object:
        return reader.start(reader.desc(handle, RECEIVE, 1000, request_id=7), opnum)

    start()
    host.tick(1.5)
    assert reader.cancel(handle, 7) == INVALID_HANDLE
    start()
    assert reader.cancel(handle, 7) == OK
    start()
    host.put("a")
    assert reader.cancel(handle, 7) == INVALID_HANDLE
    waiting = reader.start(reader.desc(handle, RECEIVE, 1000, request_id=7), opnum)
    host.put("b")
    assert label(waiting) == "b"


def test_a_number_can_be_used_again_before_the_answer_of_its_first_read_is_out(host: ReadHost, reader: Reader) -> None:
    """The end of the first read leaves the second alone."""
    handle = reader.open()
    first = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    with host.operation():
        assert reader.cancel(handle, 7) == OK
        second = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
        reader.qm2qm.give_up(first)
    assert first.status == CANCELED
    assert not second.is_there
    assert reader.cancel(handle, 7) == OK


@pytest.mark.spec("MQQP-3.1.4.4-05", "MQQP-3.1.1.3-01")
def test_close_queue_cancels_every_read_of_its_handle_and_no_other(host: ReadHost, reader: Reader) -> None:
    handle, other = reader.open(), reader.open()
    reads = [reader.read(handle, action, FOREVER) for action in (RECEIVE, PEEK, RECEIVE)]
    elsewhere = reader.read(other, RECEIVE, FOREVER)
    assert reader.close(handle).hresult == OK
    assert all(has_failed(read, CANCELED) for read in reads)
    assert not elsewhere.is_there
    host.put("a")
    assert label(elsewhere) == "a"


@pytest.mark.spec("MQQP-3.1.6.1-01", "MQQP-3.1.1.5-01", "MQQP-2.2.1.1-01")
def test_a_lost_reader_leaves_neither_waits_nor_a_share_lock(host: ReadHost) -> None:
    lost, other = Reader(host), Reader(host)
    exclusive = lost.open(share=1)
    assert other.open_remote().hresult == HResult.MQ_ERROR_SHARING_VIOLATION
    waiting = lost.read(exclusive, RECEIVE, FOREVER)
    second = lost.open(name="DIRECT=OS:host\\private$\\ledger")
    lost.read(second, PEEK, FOREVER)
    lost.qm2qm.vanish()
    assert not waiting.is_there
    assert not host.orders.descriptors
    assert not host.ledger.descriptors
    host.put("a")
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    handle = other.open(share=1)
    assert label(other.read(handle)) == "a"


@pytest.mark.spec("MQQP-3.1.6.2-01")
def test_what_a_lost_reader_has_not_acknowledged_is_available_again(host: ReadHost) -> None:
    """readings MQQP 3.25: the reads first, then the queue."""
    server = host.qm2qm.handler
    assert isinstance(server, Qm2qmServer)
    assert server._reads.kind.order < server._session.order
    lost, other = Reader(host), Reader(host)
    handle, theirs = lost.open(), other.open()
    ids = [host.put(name) for name in ("a", "b", "c")]
    for _ in range(2):
        lost.read(handle)
    lost.look_up(handle, 0x4000_0020, ids[2])
    assert [state for _, state in host.contents(host.orders)] == [LOCKED] * 3
    waiting = other.read(theirs, RECEIVE, FOREVER)
    lost.qm2qm.vanish()
    # The waiting reader gets the first that is free.
    assert label(waiting) == "a"
    assert host.contents(host.orders) == [("a", LOCKED), ("b", AVAILABLE), ("c", AVAILABLE)]
    assert other.end(waiting, NACK).hresult == OK
    assert list(host.orders.positions) == ids


def test_a_message_for_a_call_that_has_gone_is_free_at_once(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 4: it was locked, and nobody can send its answer."""
    handle = reader.open()
    waiting = reader.read(handle, RECEIVE, FOREVER)
    # The association lives on with another connection.
    client = reader.qm2qm
    assert host.associations.join(client.association.group_id, 999, "test", client.caller.address)
    with host.operation():
        host.put("a")
        assert host.contents(host.orders) == [("a", LOCKED)]
        client.vanish()
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert not waiting.is_there
    assert label(reader.read(handle)) == "a"


def test_a_call_that_is_given_up_ends_like_one_that_is_cancelled(host: ReadHost, reader: Reader) -> None:
    """C706 co_cancel: the answer comes, and a message that comes later is for others."""
    handle = reader.open()
    waiting = reader.read(handle, RECEIVE, FOREVER)
    reader.qm2qm.give_up(waiting)
    assert has_failed(waiting, CANCELED)
    reader.qm2qm.give_up(waiting)
    host.put("a")
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_a_read_that_a_nack_of_the_same_reader_woke_ends_with_the_close_of_the_queue(
    host: ReadHost, reader: Reader
) -> None:  # fmt: skip
    """The queue closes between the end of the wait and the news of it: the message stays."""
    handle = reader.open()
    host.put("a")
    locked = reader.read(handle)
    waiting = reader.read(handle, RECEIVE, FOREVER)
    with host.operation():
        assert reader.end(locked, NACK).hresult == OK
        assert reader.close(handle).hresult == OK
    assert has_failed(waiting, CANCELED)
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_nothing_is_kept_of_a_call_that_has_ended(host: ReadHost) -> None:
    server = host.qm2qm.handler
    assert isinstance(server, Qm2qmServer)
    reader, lost = Reader(host), Reader(host)
    handle, theirs = reader.open(), lost.open()
    reads = [reader.start(reader.desc(handle, RECEIVE, 1000, request_id=number)) for number in range(4)]
    lost.read(theirs, PEEK, FOREVER)
    assert len(server._reads._pending) == 5
    host.put("a")
    reader.cancel(handle, 1)
    reader.qm2qm.give_up(reads[2])
    lost.qm2qm.vanish()
    host.tick(1.5)
    assert all(read.is_there for read in reads)
    assert not server._reads._pending


def test_two_receives_and_one_message_have_one_winner(host: ReadHost) -> None:
    one, two = Reader(host), Reader(host)
    reads = [reader.read(reader.open(), RECEIVE, FOREVER) for reader in (one, two)]
    host.put("a")
    assert [read.is_there for read in reads] == [True, False]
    assert one.end(reads[0], NACK).hresult == OK
    assert label(reads[1]) == "a"


def test_a_reader_with_too_many_handles_gets_no_message(
    host: ReadHost, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    handle = reader.open()
    monkeypatch.setattr("waypost.rpc.context_handles.MAX_RPC_HANDLES", 1)
    host.put("a")
    assert reader.read(handle).raised is not None
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    with pytest.raises(RpcFault):
        reader.enter(handle)
    assert len(host.orders.descriptors) == 1
    reader.close(handle)
    assert not host.orders.descriptors


def test_a_locked_message_is_free_when_its_queue_is_closed(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 4: nobody can end the read any more."""
    handle = reader.open()
    host.put("a")
    read = reader.read(handle)
    reader.close(handle)
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert reader.end(read, ACK).hresult == HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_a_read_that_waits_does_not_keep_what_its_client_sent(reader: Reader) -> None:
    handle = reader.open()
    tracemalloc.start()
    try:
        waiting = [
            reader.start(replace(reader.desc(handle, RECEIVE, FOREVER), buffer=bytes(0x10_0000)), opnum)
            for opnum in (StartReceive, StartReceive2) * 4
        ]
        assert not any(read.is_there for read in waiting)
        assert tracemalloc.get_traced_memory()[0] < 0x10_0000
    finally:
        tracemalloc.stop()
