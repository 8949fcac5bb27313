"""MS-MQRR 3.1.4.7, 3.1.4.8, 3.1.2, 3.1.5 and 3.1.6: calls that wait, timers, and clients that go."""

import pytest

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
    DENY_SHARE,
    INFINITE,
    NACK,
    NO_UOW,
    PEEK_CURRENT,
    PEEK_NEXT,
    TAKE,
    UOW,
    Reader,
    label,
    serve,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.remote_read.coordinator import local_token
from waypost.remote.remote_read.server import RemoteReadServer
from waypost.rpc.calls import FaultStatus
from waypost.wire.ndr import ContextHandle

OK = HResult.MQ_OK
CANCELLED = HResult.MQ_ERROR_OPERATION_CANCELLED
TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
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


@pytest.mark.spec("MQRR-3.1.4.7-03")
@pytest.mark.parametrize("timeout", [1, 5000, INFINITE])
def test_a_call_is_held_until_a_message_comes(host: Host, reader: Reader, handle: ContextHandle, timeout: int) -> None:
    receiving, peeking = reader.read(handle, timeout=timeout), reader.read(handle, PEEK_CURRENT, timeout=timeout)
    assert not receiving.is_there
    assert not peeking.is_there
    host.put("a")
    assert label(receiving) == "a"
    assert host.contents(host.orders) == [("a", LOCKED)]
    host.put("b")
    assert label(peeking) == "b"


@pytest.mark.spec("MQRR-3.1.2.1-03", "MQRR-3.1.4.7-39", "MQRR-3.1.4.13-12")
@pytest.mark.parametrize("tx", [None, NO_UOW, UOW])
def test_the_time_of_a_call_is_counted_in_milliseconds(host: Host, reader: Reader, tx: bytes | None) -> None:
    handle = reader.open("ledger")
    early, late = (reader.read(handle, timeout=timeout, tx=tx) for timeout in (1500, 1501))
    host.tick(1.499)
    assert not early.is_there
    host.tick(0.001)
    assert early.status == TIMEOUT
    assert not late.is_there
    host.tick(0.001)
    assert late.status == TIMEOUT
    host.put("a", host.ledger)
    assert host.contents(host.ledger) == [("a", AVAILABLE)], "nobody waits any more"
    assert reader.end(handle) == INVALID_HANDLE


def test_a_call_that_waits_for_ever_does(host: Host, reader: Reader, handle: ContextHandle) -> None:
    """MS-MQQP 2.2.2.1; and readings MQRR 3.4: the cleanup timer does not run yet."""
    answer = reader.read(handle, timeout=INFINITE)
    host.tick(10_000_000)
    assert not answer.is_there
    host.put("a")
    assert label(answer) == "a"


@pytest.mark.spec("MQRR-3.1.4.8-01", "MQRR-3.1.4.8-02", "MQRR-3.1.4.7-42", "MQRR-2.2.4.1-01")
@pytest.mark.parametrize("action", [0, PEEK_CURRENT])
@pytest.mark.parametrize("tx", [None, NO_UOW])
def test_a_call_that_waits_is_cancelled_by_its_number(
    host: Host, reader: Reader, action: int, tx: bytes | None
) -> None:
    """readings MQRR 3.9: a peek too."""
    handle = reader.open("ledger")
    answer = reader.read(handle, action, timeout=INFINITE, request_id=4, tx=tx)
    assert reader.cancel(handle, 4) == OK
    assert answer.status == CANCELLED
    assert reader.end(handle, ACK, 4) == INVALID_HANDLE
    again = reader.read(handle, action, timeout=INFINITE, request_id=4, tx=tx)
    host.put("a", host.ledger)
    assert label(again) == "a"


@pytest.mark.spec("MQRR-3.1.4.8-01", "MQRR-3.1.4.13-12")
def test_a_receive_in_a_transaction_is_cancelled_too(host: Host, reader: Reader) -> None:
    handle = reader.open("ledger")
    reader.enlist(local_token(UOW))
    answer = reader.read(handle, timeout=INFINITE, request_id=4, tx=UOW)
    assert reader.cancel(handle, 4) == OK
    assert answer.status == CANCELLED
    host.put("a", host.ledger)
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.8-04")
def test_only_a_call_that_waits_can_be_cancelled(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a")
    assert reader.cancel(handle, 1) == HResult.STATUS_NOT_FOUND
    reader.read(handle, request_id=1)
    assert reader.cancel(handle, 1) == HResult.STATUS_NOT_FOUND
    assert host.contents(host.orders) == [("a", LOCKED)]
    assert reader.end(handle, ACK, 1) == OK
    assert reader.cancel(handle, 1) == HResult.STATUS_NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.8-05", "MQRR-3.1.1.3-01")
def test_cancelling_one_call_leaves_the_others(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    """readings MQRR 3.10: the numbers of one handle mean nothing on another."""
    elsewhere = other.open()
    first = reader.read(handle, timeout=INFINITE, request_id=1)
    second = reader.read(handle, timeout=INFINITE, request_id=2)
    third = other.read(elsewhere, timeout=INFINITE, request_id=1)
    assert reader.cancel(handle, 1) == OK
    assert (first.status, second.is_there, third.is_there) == (CANCELLED, False, False)
    host.put("a")
    host.put("b")
    assert (label(second), label(third)) == ("a", "b")


def test_a_request_that_waits_has_nothing_to_end(host: Host, reader: Reader, handle: ContextHandle) -> None:
    answer = reader.read(handle, timeout=INFINITE, request_id=1)
    assert reader.end(handle, ACK, 1) == INVALID_PARAMETER
    assert reader.read(handle, timeout=INFINITE, request_id=1).status == INVALID_PARAMETER
    host.put("a")
    assert label(answer) == "a"
    assert reader.end(handle, ACK, 1) == OK


def test_a_client_that_gives_a_call_up_gets_its_answer_at_once(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    answer = reader.read(handle, timeout=INFINITE)
    reader.give_up(answer)
    assert answer.status == CANCELLED
    reader.give_up(answer)
    host.put("a")
    assert host.contents(host.orders) == [("a", AVAILABLE)]


@pytest.mark.parametrize("action", [TAKE, PEEK_CURRENT])
@pytest.mark.parametrize("is_orphaned", [False, True])
def test_the_number_of_a_call_that_was_given_up_is_free_at_once(
    host: Host,
    reader: Reader,
    handle: ContextHandle,
    action: int,
    is_orphaned: bool,  # noqa: FBT001
) -> None:
    """The client asks again under the number in the same operation, before the first call is answered."""
    first = reader.read(handle, action, timeout=INFINITE, request_id=7)
    with host.one_operation():
        if is_orphaned:
            reader.orphan(first)
        else:
            reader.give_up(first)
        second = reader.read(handle, action, timeout=INFINITE, request_id=7)
        reader.give_up(first)
        assert [first.is_there, second.is_there] == [False, False]
    assert first.is_there is not is_orphaned
    assert not second.is_there
    assert reader.read(handle, action, request_id=7).status == INVALID_PARAMETER, "the second call waits"
    host.put("a")
    assert label(second) == "a"
    assert reader.end(handle, ACK, 7) == (OK if action == TAKE else INVALID_HANDLE)
    assert not reader.find(handle).waits


def test_the_number_of_a_call_that_r_cancel_receive_ends_is_free_at_once(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    first = reader.read(handle, timeout=INFINITE, request_id=7)
    with host.one_operation():
        assert reader.cancel(handle, 7) == OK
        second = reader.read(handle, timeout=INFINITE, request_id=7)
        assert reader.end(handle, ACK, 7) == INVALID_PARAMETER
    assert (first.status, second.is_there) == (CANCELLED, False)
    assert reader.cancel(handle, 7) == OK
    assert second.status == CANCELLED


@pytest.mark.parametrize("tx", [None, NO_UOW, UOW])
def test_a_message_that_comes_for_a_call_without_a_client_is_for_others(
    host: Host, reader: Reader, other: Reader, tx: bytes | None
) -> None:
    """It came in the operation in which the client forgot the call, and before that."""
    reader.enlist(local_token(UOW))
    handle = reader.open("ledger")
    waiting = reader.read(handle, timeout=INFINITE, request_id=7, tx=tx)
    with host.one_operation():
        host.put("a", host.ledger)
        reader.orphan(waiting)
    assert not waiting.is_there
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert host.statistics.messages_given_out == 0
    host.decide_commit(UOW)
    assert label(other.read(other.open("ledger"), tx=NO_UOW)) == "a"
    assert reader.read(handle, request_id=7).status == TIMEOUT, "the number is free again"


def test_closing_a_cursor_ends_its_waits(host: Host, reader: Reader, handle: ContextHandle) -> None:
    """Product note 36: clients do not cancel them first."""
    cursor = reader.create_cursor(handle)
    answer = reader.read(handle, cursor=cursor, timeout=INFINITE)
    assert reader.close_cursor(handle, cursor) == OK
    assert answer.status == CANCELLED


def test_deleting_the_queue_ends_waits(host: Host, reader: Reader, handle: ContextHandle) -> None:
    answer = reader.read(handle, timeout=INFINITE)
    host.manager.delete_queue(host.orders)
    host.pump()
    assert answer.status == HResult.MQ_ERROR_QUEUE_DELETED
    assert reader.end(handle) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.3-04", "MQRR-3.1.4.7-42")
def test_closing_a_queue_waits_for_nobody_and_ends_everything(
    host: Host, reader: Reader, other: Reader
) -> None:  # fmt: skip
    """readings MQRR 3.31; product note 37: clients neither cancel nor close cursors first."""
    handle = reader.open(share=DENY_SHARE)
    cursor = reader.create_cursor(handle)
    waits = [
        reader.read(handle, timeout=INFINITE),
        reader.read(handle, PEEK_CURRENT, timeout=INFINITE),
        reader.read(handle, cursor=cursor, timeout=INFINITE),
    ]
    assert other.try_open(share=DENY_SHARE).raised == HResult.MQ_ERROR_SHARING_VIOLATION
    closing = reader.close(handle)
    assert closing.record.hresult == OK
    assert [answer.status for answer in waits] == [CANCELLED] * 3
    assert reader.close(handle).raised == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    exclusive = other.open(share=DENY_SHARE)
    assert other.read(exclusive, PEEK_CURRENT, cursor=cursor).status == HResult.STATUS_INVALID_HANDLE


def test_500_calls_wait_and_each_message_goes_to_one_of_them(host: Host, reader: Reader, other: Reader) -> None:
    handles = [reader.open(), other.open()]
    answers = [
        client.read(handle, timeout=INFINITE)
        for _ in range(250)
        for client, handle in zip((reader, other), handles, strict=True)
    ]
    for number in range(500):
        host.put(str(number))
    assert sorted(int(label(answer)) for answer in answers) == list(range(500))


def test_a_wait_of_a_cursor_brings_the_next_message(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a")
    cursor = reader.create_cursor(handle)
    reader.read(handle, PEEK_CURRENT, cursor=cursor)
    answer = reader.read(handle, PEEK_NEXT, cursor=cursor, timeout=INFINITE)
    assert not answer.is_there
    host.put("b")
    assert label(answer) == "b"
    assert label(reader.read(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, cursor=cursor)) == "b"
    assert reader.end(handle, NACK) == INVALID_HANDLE
