"""MS-MQRR 3.1.4.7 and 3.1.4.9 when nobody has to wait: what is read, and what its end does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
    NACK,
    PEEK_CURRENT,
    PEEK_NEXT,
    TAKE,
    UOW,
    Reader,
    label,
    packet_of,
    serve,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult, is_vendor_defined
from waypost.remote.interfaces.remote_read import ReceiveAction, StartReceiveRequest
from waypost.wire.ndr import ContextHandle, NdrSyntax

OK = HResult.MQ_OK
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
LOOKUP_PEEKS = [action for action in ReceiveAction if action.is_lookup and action.is_peek]
LOOKUP_TAKES = [action for action in ReceiveAction if action.is_lookup and not action.is_peek]
LOOKUPS = [*LOOKUP_PEEKS, *LOOKUP_TAKES]
ACTIONS = [action for action in ReceiveAction if not action.is_lookup]
LAST = 0xFFFF_FFFF_FFFF_FFFF


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.fixture
def other(host: Host, reader: Reader) -> Reader:
    return Reader(reader.service.handler, host)  # type: ignore[arg-type]


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    return reader.open()


@pytest.mark.spec("MQRR-1.3.1-01", "MQRR-3.1.4.7-25")
def test_a_message_is_told_from_its_twin_by_its_lookup_identifier(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    twins = [host.put("twin"), host.put("twin")]
    answers = [reader.read(handle, ReceiveAction.MQ_LOOKUP_PEEK_CURRENT, lookup_id) for lookup_id in twins]
    assert packet_of(answers[0]).encode() == packet_of(answers[1]).encode()
    assert twins[0] >> 56, "its top byte shows the priority"
    assert [answer.record.sequence_id for answer in answers] == [each & 0xFF_FFFF_FFFF_FFFF for each in twins]
    assert len({answer.record.sequence_id for answer in answers}) == 2


@pytest.mark.spec("MQRR-1.3.3-01", "MQRR-3.1.4.7-02", "MQRR-3.1.4.7-09", "MQRR-3.1.4.7-36", "MQRR-4.2-01")
def test_a_receive_locks_the_message_until_its_end(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    host.put("a")
    host.put("b")
    assert label(reader.read(handle, request_id=7)) == "a"
    assert host.contents(host.orders) == [("a", LOCKED), ("b", AVAILABLE)]
    elsewhere = other.open()
    assert label(other.read(elsewhere, PEEK_CURRENT)) == "b"
    assert label(other.read(elsewhere)) == "b"
    assert other.read(elsewhere).status == TIMEOUT
    assert reader.end(handle, ACK, 7) == OK
    assert host.contents(host.orders) == [("b", LOCKED)]


@pytest.mark.spec("MQRR-3.1.4.7-02", "MQRR-3.1.4.7-11")
def test_a_peek_is_over_when_it_returns(host: Host, reader: Reader, other: Reader, handle: ContextHandle) -> None:
    host.put("a")
    host.put("b")
    for _ in range(2):
        assert label(reader.read(handle, PEEK_CURRENT)) == "a"
    assert reader.end(handle) == INVALID_HANDLE
    assert host.contents(host.orders) == [("a", AVAILABLE), ("b", AVAILABLE)]
    assert label(other.read(other.open())) == "a"
    assert label(reader.read(handle, PEEK_CURRENT)) == "b", "a locked message is passed over"


@pytest.mark.spec("MQRR-3.1.4.7-10")
def test_a_receive_with_a_cursor_takes_what_is_there_and_goes_on(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    for name in "abc":
        host.put(name)
    cursor = reader.create_cursor(handle)
    reader.read(handle, PEEK_CURRENT, cursor=cursor)
    assert label(reader.read(handle, PEEK_NEXT, cursor=cursor)) == "b"
    assert label(reader.read(handle, cursor=cursor)) == "b"
    assert reader.end(handle) == OK
    assert label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) == "c"


@pytest.mark.spec("MQRR-3.1.4.7-12", "MQRR-3.1.4.7-37")
def test_peek_next_moves_the_cursor_to_the_next_message_that_is_free(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    for name in "abcd":
        host.put(name)
    cursor = reader.create_cursor(handle)
    illegal = reader.read(handle, PEEK_NEXT, cursor=cursor)
    assert illegal.status == HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION
    assert label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) == "a"
    taken = other.open()
    marker = other.create_cursor(taken)
    other.read(taken, PEEK_CURRENT, cursor=marker)
    other.read(taken, PEEK_NEXT, cursor=marker)
    assert label(other.read(taken, cursor=marker)) == "b"
    assert label(reader.read(handle, PEEK_NEXT, cursor=cursor)) == "c"
    assert label(reader.read(handle, PEEK_CURRENT, cursor=cursor)) == "c"
    assert len(host.orders.positions) == 4


@pytest.mark.spec("MQRR-3.1.4.7-41")
def test_a_cursor_stands_where_somebody_else_took_the_message(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    host.put("a")
    cursor = reader.create_cursor(handle)
    reader.read(handle, PEEK_CURRENT, cursor=cursor)
    elsewhere = other.open()
    other.read(elsewhere)
    other.end(elsewhere)
    for action in (PEEK_CURRENT, TAKE):
        assert reader.read(handle, action, cursor=cursor).status == HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


@pytest.mark.spec(
    "MQRR-3.1.4.7-13",
    "MQRR-3.1.4.7-14",
    "MQRR-3.1.4.7-15",
    "MQRR-3.1.4.7-16",
    "MQRR-3.1.4.7-17",
    "MQRR-3.1.4.7-18",
    "MQRR-3.1.4.7-38",
)
def test_a_message_is_found_by_its_lookup_identifier_or_that_of_a_neighbour(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    ids = [host.put(name) for name in "abcde"]
    elsewhere = other.open()
    for lookup_id in (ids[1], ids[3]):
        assert other.read(elsewhere, ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT, lookup_id).status == OK
    for action, found in zip(LOOKUP_PEEKS, "cea", strict=True):
        assert label(reader.read(handle, action, ids[2])) == found
    assert [state for _, state in host.contents(host.orders)] == [AVAILABLE, LOCKED, AVAILABLE, LOCKED, AVAILABLE]
    for action, found in zip(LOOKUP_TAKES[1:], "ea", strict=True):
        assert label(reader.read(handle, action, ids[2])) == found
        assert reader.end(handle) == OK
    assert label(reader.read(handle, LOOKUP_TAKES[0], ids[2])) == "c"
    assert reader.end(handle, NACK) == OK
    assert host.contents(host.orders) == [("b", LOCKED), ("c", AVAILABLE), ("d", LOCKED)]
    assert reader.read(handle, LOOKUP_TAKES[0], ids[1]).status == NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.7-40")
def test_what_is_not_there_is_not_found(host: Host, reader: Reader, handle: ContextHandle) -> None:
    only = host.put("only")
    for action in LOOKUPS:
        assert reader.read(handle, action, only + 1).status == NOT_FOUND
    for action in (LOOKUP_PEEKS[1], LOOKUP_PEEKS[2], LOOKUP_TAKES[1], LOOKUP_TAKES[2]):
        assert reader.read(handle, action, only).status == NOT_FOUND
    assert host.contents(host.orders) == [("only", AVAILABLE)]
    assert reader.end(handle) == INVALID_HANDLE, "a start call that failed leaves no request"


def test_the_message_before_the_greatest_identifier_is_the_last(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    """readings MQRR 3.8."""
    host.put("a")
    host.put("b")
    assert label(reader.read(handle, ReceiveAction.MQ_LOOKUP_PEEK_PREV, LAST)) == "b"
    assert label(reader.read(handle, ReceiveAction.MQ_LOOKUP_RECEIVE_PREV, LAST)) == "b"
    assert label(reader.read(handle, ReceiveAction.MQ_LOOKUP_RECEIVE_PREV, LAST)) == "a"
    for action in (ReceiveAction.MQ_LOOKUP_PEEK_CURRENT, ReceiveAction.MQ_LOOKUP_PEEK_NEXT):
        assert reader.read(handle, action, LAST).status == NOT_FOUND


# LookupId, hCursor, ulAction and ulTimeout that do not go together. There is a cursor 1 in the tests.
WRONG = [
    *((9, 0, action, 0) for action in ACTIONS),
    *((9, 1, action, 0) for action in LOOKUPS),
    *((9, 0, action, 1) for action in LOOKUPS),
    *((0, 0, action, 0) for action in LOOKUPS),
    *((0, 1, action, 0) for action in LOOKUPS),
    *((0, 0, action, 5) for action in LOOKUPS),
    *((9, 1, action, 0) for action in ACTIONS),
    (0, 0, PEEK_NEXT, 0),
    *((lookup_id, 0, action, 0) for action in (1, 0x8000_0002, 0x4000_0013, 0xFFFF_FFFF) for lookup_id in (0, 9)),
]


@pytest.mark.spec(
    "MQRR-3.1.4.7-05",
    "MQRR-3.1.4.7-06",
    "MQRR-3.1.4.7-07",
    "MQRR-3.1.4.7-08",
    "MQRR-3.1.4.7-19",
    "MQRR-3.1.4.7-20",
    "MQRR-3.1.4.7-32",
    "MQRR-3.1.4.13-02",
)
@pytest.mark.parametrize("tx", [None, UOW])
@pytest.mark.parametrize("values", WRONG, ids=str)
def test_parameters_that_do_not_go_together_come_first(
    host: Host, reader: Reader, tx: bytes | None, values: tuple[int, int, int, int]
) -> None:
    """The handle is of a queue that is gone, and the call would wait: but nothing is looked at."""
    handle = reader.open("ledger")
    lookup_id, has_cursor, action, timeout = values
    cursor = reader.create_cursor(handle) if has_cursor else 0
    answer = reader.read(handle, action, lookup_id, cursor, timeout=timeout, tx=tx)
    assert answer.status == INVALID_PARAMETER
    assert not next(iter(host.ledger.descriptors.values())).waiting
    assert reader.end(handle) == INVALID_HANDLE
    host.manager.delete_queue(host.ledger)
    assert reader.read(handle, action, lookup_id, cursor, timeout=timeout, tx=tx).status == INVALID_PARAMETER


@pytest.mark.spec("MQRR-3.1.4.7-39")
def test_nothing_at_once_is_a_timeout(reader: Reader, handle: ContextHandle) -> None:
    for action in (TAKE, PEEK_CURRENT):
        assert reader.read(handle, action).status == TIMEOUT


def test_nothing_at_once_for_a_cursor(reader: Reader, handle: ContextHandle) -> None:
    """readings MQRR 3.12."""
    cursor = reader.create_cursor(handle)
    assert reader.read(handle, cursor=cursor).status == NOT_FOUND
    assert reader.read(handle, PEEK_CURRENT, cursor=cursor).status == TIMEOUT


@pytest.mark.spec("MQRR-3.1.4.7-31")
def test_a_start_call_that_fails_has_no_results(reader: Reader, handle: ContextHandle) -> None:
    answer = reader.read(handle)
    assert answer.raised is None
    reply = answer.record
    assert (reply.arrive_time, reply.sequence_id, reply.sections, reply.hresult) == (0, 0, [], TIMEOUT)


@pytest.mark.spec("MQRR-3.1.4.7-24")
def test_the_time_of_arrival_is_told_to_readers_of_every_kind(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    """readings MQRR 3.22."""
    host.put("a")
    host.tick(100)
    assert reader.read(handle, PEEK_CURRENT).record.arrive_time == int(host.now.wall) - 100
    assert reader.read(handle).record.arrive_time == int(host.now.wall) - 100


def test_a_request_id_that_is_in_use_is_refused(host: Host, reader: Reader, handle: ContextHandle) -> None:
    """readings MQRR 3.33."""
    host.put("a")
    host.put("b")
    assert label(reader.read(handle, request_id=5)) == "a"
    assert reader.read(handle, request_id=5).status == INVALID_PARAMETER
    assert reader.read(handle, PEEK_CURRENT, request_id=5).status == INVALID_PARAMETER
    assert reader.end(handle, ACK, 5) == OK
    assert label(reader.read(handle, request_id=5)) == "b"


@pytest.mark.spec("MQRR-3.1.1.1-01")
def test_what_a_remote_reader_does_is_seen_by_local_ones_at_once(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    host.put("a")
    local = host.open()
    assert host.peek(local) == "a"
    reader.read(handle)
    assert host.peek(local) == TIMEOUT
    reader.end(handle, NACK)
    assert host.receive(local) == "a"
    assert reader.read(handle).status == TIMEOUT


@pytest.mark.spec("MQRR-1.8-01")
@given(
    lookup_id=st.integers(0, 3) | st.just(LAST),
    cursor=st.integers(0, 2),
    action=st.sampled_from(ReceiveAction) | st.integers(0, 0xFFFF_FFFF),
    tx=st.sampled_from([None, UOW, bytes(16)]),
    count=st.integers(0, 2),
)
@settings(max_examples=150, deadline=None)
def test_every_result_is_a_code_that_is_known(
    lookup_id: int, cursor: int, action: int, tx: bytes | None, count: int
) -> None:
    host = Host()
    reader = Reader(serve(host), host)
    for name in ("orders", "ledger"):
        handle = reader.open(name)
        ids = [host.put("a", host.ledger if name == "ledger" else None) for _ in range(count)]
        cursors = [0, reader.create_cursor(handle), 99_999]
        wanted = ids[lookup_id - 1] if 0 < lookup_id <= count else lookup_id
        status = HResult(reader.read(handle, action, wanted, cursors[cursor], tx=tx).status)
        assert not is_vendor_defined(status)
        assert not is_vendor_defined(HResult(reader.end(handle)))


@pytest.mark.spec("MQRR-3.1.4.7-01", "MQRR-3.1.4.13-01")
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_the_stub_of_a_start_call(syntax: NdrSyntax) -> None:
    """readings MQRR 5."""
    host = Host()
    reader = Reader(serve(host), host, syntax=syntax)
    handle = reader.open("ledger")
    lookup_id = host.put("a", host.ledger)
    tail = b"".join(value.to_bytes(4, "little") for value in (0, 0x4000_0010, 0, 9, 100, 100))
    stub = bytes(4) + handle.uuid + bytes(4) + lookup_id.to_bytes(8, "little") + tail
    assert len(stub) == 56
    answer = reader.start_stub(7, stub)
    assert label(answer) == "a"
    again = StartReceiveRequest(handle, lookup_id, 0, ReceiveAction.MQ_LOOKUP_PEEK_CURRENT, 0, 9, 100, 100)
    assert reader.start(7, again).record == answer.record
    assert reader.start_stub(13, stub + bytes(16)).record == answer.record
    assert reader.start_stub(13, stub + UOW).status == HResult.MQ_ERROR_TRANSACTION_USAGE
