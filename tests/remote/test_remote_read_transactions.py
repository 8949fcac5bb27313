"""MS-MQRR 3.1.4.12 to 3.1.4.15 and 1.3.5: receives in transactions."""

from gc import collect, get_objects

import pytest

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
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
from waypost.core.transaction_records import OperationType, Transaction
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.remote_read.coordinator import NoCoordinator, local_token
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import ContextHandle

OK = HResult.MQ_OK
USAGE = HResult.MQ_ERROR_TRANSACTION_USAGE
SEQUENCE = HResult.MQ_ERROR_TRANSACTION_SEQUENCE
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
IMPORT = HResult.MQ_ERROR_TRANSACTION_IMPORT
ENLIST = HResult.MQ_ERROR_TRANSACTION_ENLIST
DTC_CONNECT = HResult.MQ_ERROR_DTC_CONNECT
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
OTHER_UOW = b"\x66" * 16
RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
REJECTED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED
LOOKUP_TAKES = [action for action in ReceiveAction if action.is_lookup and not action.is_peek]


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    """Of the transactional queue; the server is enlisted in UOW."""
    assert reader.enlist(local_token(UOW)) == OK
    return reader.open("ledger")


def under_way(host: Host) -> set[bytes]:
    return set(host.manager.transactions.collection)


@pytest.mark.spec("MQRR-3.1.4.12-03", "MQRR-3.1.4.12-04", "MQRR-3.1.4.12-07")
def test_the_server_takes_part_in_what_the_token_stands_for(host: Host, reader: Reader) -> None:
    assert reader.enlist(local_token(UOW), UOW, name="DIRECT=OS:far\\private$\\nowhere") == OK
    assert host.external.take_messages()[-1].transaction == UOW  # type: ignore[union-attr]
    assert reader.enlist(local_token(OTHER_UOW), OTHER_UOW, name="orders") == OK
    assert under_way(host) == {UOW, OTHER_UOW}
    handle = reader.open("ledger")
    received = host.put("a", host.ledger)
    assert label(reader.read(handle, tx=UOW)) == "a"
    moved = host.put("b", host.ledger)
    assert reader.move(handle, reader.open_for_move("ledger;late").move_context, moved, UOW) == OK
    operations = host.manager.transactions.collection[UOW].operations.values()
    assert [(operation.operation_type, operation.lookup_id) for operation in operations] == [
        (OperationType.DEQUEUE, received),
        (OperationType.MOVE, moved),
    ]
    assert not host.manager.transactions.collection[OTHER_UOW].operations


@pytest.mark.spec("MQRR-3.1.4.12-05")
@pytest.mark.parametrize(
    "token", [b"", b"\0" * 96, local_token(OTHER_UOW), local_token(UOW)[:-1], local_token(UOW) + b"\0"]
)
def test_a_token_of_somebody_else_leaves_nothing_behind(host: Host, reader: Reader, token: bytes) -> None:
    assert reader.enlist(token) == IMPORT
    assert under_way(host) == set()


@pytest.mark.spec("MQRR-3.1.4.12-05")
def test_what_cannot_be_taken_part_in(host: Host, reader: Reader) -> None:
    assert reader.enlist(local_token(NO_UOW), NO_UOW) == INVALID_PARAMETER
    reader.enlist(local_token(UOW))
    host.external.dtc_transaction_prepare(UOW, 0, host.now.wall)
    assert reader.enlist(local_token(UOW)) == ENLIST
    host.external.initialize(host.manager.identity.identifier)
    assert reader.enlist(local_token(OTHER_UOW), OTHER_UOW) == ENLIST, "a transaction in doubt comes first"
    assert under_way(host) == {UOW}


def test_a_transaction_that_is_under_way_needs_no_token(host: Host, reader: Reader) -> None:
    assert reader.enlist(local_token(UOW)) == OK
    assert reader.enlist(b"") == OK
    own = host.start()
    assert reader.enlist(b"", own) == OK
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle, tx=own)
    assert reader.end_tx(handle) == OK
    assert host.commit(own) == OK
    assert host.contents(host.ledger) == []


def test_there_are_not_more_transactions_than_can_be_kept(
    host: Host, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.remote.remote_read.coordinator.MAX_ENLISTED_TRANSACTIONS", 2)
    numbers = [bytes([number]) * 16 for number in range(1, 5)]
    assert [reader.enlist(local_token(tx), tx) for tx in numbers] == [OK, OK, ENLIST, ENLIST]
    host.decide_abort(numbers[0])
    assert reader.enlist(local_token(numbers[3]), numbers[3]) == OK


def test_no_message_is_kept_for_a_transaction_that_has_ended(host: Host, reader: Reader, handle: ContextHandle) -> None:
    for end in (host.decide_commit, host.decide_abort):
        reader.enlist(local_token(UOW))
        host.put("a", host.ledger)
        reader.read(handle, tx=UOW)
        reader.end_tx(handle)
        end(UOW)
    collect()
    assert not [each for each in get_objects() if isinstance(each, Transaction) and each.identifier == UOW]


def test_the_time_of_a_transaction_is_not_that_of_a_former_one(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    """Both have the same identifier."""
    host.tick(200)
    host.decide_commit(UOW)
    assert reader.enlist(local_token(UOW)) == OK
    host.tick(299)
    assert under_way(host) == {UOW}
    host.tick(1)
    assert under_way(host) == set()


def test_a_transaction_whose_client_is_gone_is_aborted(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a", host.ledger)
    reader.read(handle, tx=UOW)
    reader.end_tx(handle)
    reader.vanish()
    assert host.deadline_of_transactions() == host.now.monotonic + 300
    host.tick(300)
    assert under_way(host) == set()
    assert host.contents(host.ledger) == [("a", AVAILABLE)]


def test_a_transaction_that_is_prepared_waits_for_its_coordinator() -> None:
    host = Host(RemoteSettings(transaction_timeout_s=10))
    reader = Reader(serve(host), host)
    reader.enlist(local_token(UOW))
    host.external.dtc_transaction_prepare(UOW, 0, host.now.wall)
    host.tick(1000)
    assert under_way(host) == {UOW}
    host.decide_commit(UOW)
    assert reader.enlist(local_token(UOW)) == OK
    host.tick(9)
    assert under_way(host) == {UOW}, "the timer of the first transaction with this identifier is not its own"


@pytest.mark.spec(
    "MQRR-1.3.5-01",
    "MQRR-3.1.4.13-09",
    "MQRR-3.1.4.13-10",
    "MQRR-3.1.4.15-02",
    "MQRR-4.3-01",
)
@pytest.mark.parametrize("is_commit", [True, False])
def test_the_outcome_decides_over_what_was_received(
    host: Host, reader: Reader, handle: ContextHandle, *, is_commit: bool
) -> None:
    lookup_id = host.put("a", host.ledger)
    assert label(reader.read(handle, tx=UOW)) == "a"
    (operation,) = host.manager.transactions.collection[UOW].operations.values()
    assert (operation.operation_type, operation.lookup_id) == (OperationType.DEQUEUE, lookup_id)
    assert operation.dequeue_reason is RECEIVED
    assert reader.end_tx(handle, ACK) == OK
    assert host.contents(host.ledger) == [("a", LOCKED)]
    assert reader.read(handle, PEEK_CURRENT).status == HResult.MQ_ERROR_IO_TIMEOUT
    if is_commit:
        host.decide_commit(UOW)
        assert host.contents(host.ledger) == []
        assert host.reasons == [("a", RECEIVED)]
    else:
        host.decide_abort(UOW)
        assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert host.external.take_messages()[-1].transaction == UOW  # type: ignore[union-attr]


@pytest.mark.spec("MQRR-3.1.4.12-06")
@pytest.mark.parametrize("is_commit", [True, False])
def test_all_of_a_transaction_takes_effect_or_nothing(
    host: Host, reader: Reader, handle: ContextHandle, *, is_commit: bool
) -> None:
    for name in "abc":
        host.put(name, host.ledger)
    moved = list(host.ledger.positions)[2]
    other = Reader(reader.service.handler, host)  # type: ignore[arg-type]
    elsewhere = other.open("ledger")
    reader.read(handle, tx=UOW)
    reader.end_tx(handle)
    assert other.enlist(b"") == OK
    other.read(elsewhere, tx=UOW)
    other.end_tx(elsewhere)
    assert reader.move(handle, reader.open_for_move("ledger;late").move_context, moved, UOW) == OK
    late = host.ledger.subqueues["late"]
    (host.decide_commit if is_commit else host.decide_abort)(UOW)
    kept = [("a", AVAILABLE), ("b", AVAILABLE), ("c", AVAILABLE)]
    assert host.contents(host.ledger) == ([] if is_commit else kept)
    assert host.contents(late) == ([("c", AVAILABLE)] if is_commit else [])


@pytest.mark.spec("MQRR-1.3.5-02")
def test_a_transactional_queue_is_also_read_without_a_transaction(host: Host, reader: Reader) -> None:
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    assert label(reader.read(handle)) == "a"
    assert reader.end(handle) == OK
    assert host.contents(host.ledger) == []


@pytest.mark.spec("MQRR-3.1.4.13-03")
@pytest.mark.parametrize("name", ["orders", "ledger"])
def test_without_a_transaction_it_is_r_start_receive(host: Host, reader: Reader, name: str) -> None:
    queue = host.ledger if name == "ledger" else host.orders
    handle = reader.open(name)
    cursor = reader.create_cursor(handle)
    lookup_id = host.put("a", queue)
    for action in ReceiveAction:
        for at in (0, cursor):
            given = lookup_id if action.is_lookup else 0
            plain = reader.read(handle, action, given, at)
            reader.end(handle, NACK)
            host.forget_aborts(queue)
            same = reader.read(handle, action, given, at, tx=NO_UOW)
            ended = reader.end_tx(handle, NACK)
            host.forget_aborts(queue)
            if at == 0 or action is PEEK_CURRENT:
                assert plain.record == same.record
                assert ended == (OK if not action.is_peek and plain.status == OK else INVALID_HANDLE)


@pytest.mark.spec("MQRR-3.1.4.13-03", "MQRR-3.1.4.9-10")
def test_a_receive_is_ended_by_the_method_that_goes_with_its_start(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    for name in "abcd":
        host.put(name, host.ledger)
    reader.read(handle, request_id=1, tx=UOW)
    reader.read(handle, request_id=2)
    reader.read(handle, request_id=3, tx=NO_UOW)
    reader.read(handle, request_id=4, tx=NO_UOW)
    assert reader.end(handle, ACK, 1) == INVALID_PARAMETER
    assert reader.end_tx(handle, ACK, 2) == INVALID_PARAMETER
    assert host.contents(host.ledger) == [("a", LOCKED), ("b", LOCKED), ("c", LOCKED), ("d", LOCKED)]
    assert [reader.end_tx(handle, ACK, 1), reader.end(handle, ACK, 2)] == [OK, OK]
    assert [reader.end_tx(handle, ACK, 3), reader.end(handle, ACK, 4)] == [OK, OK]
    assert host.contents(host.ledger) == [("a", LOCKED)]


@pytest.mark.spec("MQRR-3.1.4.13-04", "MQRR-3.1.4.13-05")
def test_a_handle_for_peeking_and_an_unknown_cursor(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a", host.ledger)
    peeking = reader.open("ledger", access=0x20)
    assert reader.read(peeking, tx=UOW).status == HResult.STATUS_ACCESS_DENIED
    cursor = reader.create_cursor(handle)
    reader.close_cursor(handle, cursor)
    for unknown in (cursor, 4711):
        assert reader.read(handle, cursor=unknown, tx=UOW).status == HResult.STATUS_INVALID_HANDLE
    host.manager.delete_queue(host.ledger)
    assert reader.read(handle, tx=UOW).status == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.13-06")
@pytest.mark.parametrize("action", [TAKE, *LOOKUP_TAKES])
def test_a_queue_that_is_not_transactional(host: Host, reader: Reader, action: int) -> None:
    handle = reader.open()
    lookup_id = host.put("a")
    reader.enlist(local_token(UOW))
    for tx in (UOW, OTHER_UOW):
        assert reader.read(handle, action, lookup_id if action else 0, tx=tx).status == USAGE
    assert host.contents(host.orders) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.13-07")
@pytest.mark.parametrize("action", [action for action in ReceiveAction if action.is_peek])
def test_no_peek_is_part_of_a_transaction(
    host: Host, reader: Reader, handle: ContextHandle, action: ReceiveAction
) -> None:
    lookup_id = host.put("a", host.ledger) if action.is_lookup else 0
    cursor = reader.create_cursor(handle) if action is PEEK_NEXT else 0
    for tx in (UOW, OTHER_UOW):
        assert reader.read(handle, action, lookup_id, cursor, tx=tx).status == USAGE


@pytest.mark.spec("MQRR-3.1.4.13-08")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_a_transaction_that_nobody_knows_is_one_for_this_message_alone(
    host: Host, reader: Reader, handle: ContextHandle, ack: int
) -> None:
    """readings MQRR 3.15: its end is the outcome, and nothing is left of it."""
    host.put("a", host.ledger)
    assert label(reader.read(handle, tx=OTHER_UOW)) == "a"
    assert under_way(host) == {UOW}
    assert reader.end(handle, ack) == INVALID_PARAMETER
    assert reader.end_tx(handle, ack) == OK
    assert host.contents(host.ledger) == ([] if ack == ACK else [("a", AVAILABLE)])


def test_nothing_is_received_in_a_transaction_that_is_prepared(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    lookup_id = host.put("a", host.ledger)
    host.external.dtc_transaction_prepare(UOW, 0, host.now.wall)
    assert reader.read(handle, tx=UOW).status == SEQUENCE
    assert reader.read(handle, LOOKUP_TAKES[0], lookup_id, tx=UOW).status == SEQUENCE
    assert reader.end_tx(handle) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.13-11")
def test_the_lookup_actions_take_part_in_the_transaction(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:  # fmt: skip
    ids = [host.put(name, host.ledger) for name in "abc"]
    for action, found in zip((LOOKUP_TAKES[1], LOOKUP_TAKES[2], LOOKUP_TAKES[0]), "cab", strict=True):
        assert label(reader.read(handle, action, ids[1], tx=UOW)) == found
        assert reader.end_tx(handle, ACK) == OK
    assert reader.read(handle, LOOKUP_TAKES[0], ids[0], tx=UOW).status == NOT_FOUND
    assert host.contents(host.ledger) == [("a", LOCKED), ("b", LOCKED), ("c", LOCKED)]
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == []


@pytest.mark.spec("MQRR-3.1.4.13-12")
def test_what_is_not_there_cannot_be_received_in_a_transaction(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    assert reader.read(handle, tx=UOW).status == HResult.MQ_ERROR_IO_TIMEOUT
    for action in LOOKUP_TAKES:
        assert reader.read(handle, action, 4711, tx=UOW).status == NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.15-03", "MQRR-3.1.4.15-06")
def test_what_did_not_arrive_is_taken_out_of_the_transaction(host: Host, reader: Reader, handle: ContextHandle) -> None:
    """readings MQRR 3.16."""
    host.put("a", host.ledger)
    host.put("b", host.ledger)
    reader.read(handle, request_id=1, tx=UOW)
    reader.read(handle, request_id=2, tx=UOW)
    assert reader.end_tx(handle, ACK, 2) == OK
    assert reader.end_tx(handle, NACK, 1) == OK
    assert host.contents(host.ledger) == [("a", AVAILABLE), ("b", LOCKED)]
    host.decide_commit(UOW)
    assert host.contents(host.ledger) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.15-06")
def test_the_timer_does_not_release_what_has_arrived(
    host: Host, reader: Reader
) -> None:  # fmt: skip
    own = host.start()
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle, tx=own)
    assert reader.end_tx(handle) == OK
    host.tick(100_000)
    assert host.contents(host.ledger) == [("a", LOCKED)]


@pytest.mark.spec("MQRR-3.1.4.15-04", "MQRR-3.1.4.15-05")
def test_a_request_in_a_transaction_is_ended_once(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a", host.ledger)
    assert reader.end_tx(handle, ACK, 1) == INVALID_HANDLE
    reader.read(handle, request_id=1, tx=UOW)
    assert reader.end_tx(handle, ACK, 2) == INVALID_PARAMETER
    assert reader.end_tx(handle, ACK, 1) == OK
    assert reader.end_tx(handle, ACK, 1) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.14-03", "MQRR-3.1.4.14-04")
@pytest.mark.parametrize(("user_class", "reason"), [(0, RECEIVED), (0xC004, REJECTED)])
def test_a_message_can_be_rejected_before_the_outcome(
    host: Host, reader: Reader, handle: ContextHandle, user_class: int, reason: MessageClass
) -> None:
    lookup_id = host.put("a", host.ledger)
    reader.read(handle, tx=UOW)
    reader.end_tx(handle)
    assert reader.set_class(handle, lookup_id, user_class) == OK
    host.decide_commit(UOW)
    assert host.reasons == [("a", reason)]
    assert reader.set_class(handle, lookup_id, user_class) == NOT_FOUND, "it is too late"


@pytest.mark.spec("MQRR-3.1.4.14-06", "MQRR-3.1.4.14-07")
def test_only_what_a_transaction_has_received_can_be_rejected(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    free, read = host.put("a", host.ledger), host.put("b", host.ledger)
    moved, unsent = host.put("c", host.ledger), host.put("d", host.ledger, host.start(OTHER_UOW))
    assert reader.set_class(handle, 4711, 0xC004) == NOT_FOUND
    reader.read(handle, LOOKUP_TAKES[0], read)
    reader.move(handle, reader.open_for_move("ledger;late").move_context, moved, UOW)
    for lookup_id in (free, read, moved, unsent):
        for user_class in (0, 0xC004):
            assert reader.set_class(handle, lookup_id, user_class) == USAGE
    assert reader.end(handle) == OK
    assert host.reasons == [("b", RECEIVED)]


def test_a_handle_for_peeking_rejects_nothing(host: Host, reader: Reader, handle: ContextHandle) -> None:
    lookup_id = host.put("a", host.ledger)
    reader.read(handle, tx=UOW)
    reader.end_tx(handle)
    peeking = reader.open("ledger", access=0x20)
    assert reader.set_class(peeking, lookup_id, 0xC004) == HResult.STATUS_ACCESS_DENIED
    host.external.dtc_transaction_prepare(UOW, 0, host.now.wall)
    assert reader.set_class(handle, lookup_id, 0xC004) == USAGE, "a prepared message stays as it is"
    host.decide_commit(UOW)
    assert host.reasons == [("a", RECEIVED)]


def test_nothing_more_is_received_in_a_transaction_that_was_given_up() -> None:
    """Its reader may not know yet: what it took would be gone, and its transaction would not be committed."""
    host = Host(RemoteSettings(transaction_timeout_s=10))
    reader = Reader(serve(host), host)
    reader.enlist(local_token(UOW))
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    host.tick(10)
    assert under_way(host) == set()
    assert reader.read(handle, tx=UOW).record.hresult == SEQUENCE
    assert reader.enlist(local_token(UOW)) == ENLIST
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert label(reader.read(handle, tx=OTHER_UOW)) == "a", "one that nobody ever knew is for this message alone"


@pytest.mark.parametrize("ack", [ACK, NACK])
def test_without_a_coordinator_nothing_is_received_in_a_transaction(host: Host, ack: int) -> None:
    """Nobody could tell how it ends: its message would be away until its time is over, or gone though it is aborted."""
    host.coordinator = NoCoordinator()  # type: ignore[assignment]
    reader = Reader(serve(host), host)
    handle = reader.open("ledger")
    lookup_id = host.put("a", host.ledger)
    for token in (local_token(UOW), b"", b"\0" * 96):
        assert reader.enlist(token) == DTC_CONNECT
    assert under_way(host) == set()
    own = host.start(OTHER_UOW)
    for tx in (UOW, own):
        assert reader.read(handle, tx=tx).status == SEQUENCE
        for action in LOOKUP_TAKES:
            assert reader.read(handle, action, lookup_id, tx=tx).status == SEQUENCE
        assert reader.end_tx(handle, ack) == INVALID_HANDLE
        assert reader.move(handle, reader.open_for_move("ledger;late").move_context, lookup_id, tx) == SEQUENCE
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert label(reader.read(handle)) == "a", "outside a transaction it is read"
    assert host.deadline_of_transactions() is None
