"""MS-MQRR 3.1.4.6 and 3.1.4.10: purging, and moving without a transaction."""

import pytest

from tests.remote.harness import ALICE, Host
from tests.remote.reader import (
    ACK,
    INFINITE,
    NACK,
    PEEK,
    PEEK_CURRENT,
    RECEIVE,
    UOW,
    Reader,
    label,
    serve,
)
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.remote_read.coordinator import local_token
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import ContextHandle

OK = HResult.MQ_OK
DENIED = HResult.STATUS_ACCESS_DENIED
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
UNRELATED = HResult.STATUS_INVALID_PARAMETER
AVAILABLE, LOCKED, PURGED = PositionState.AVAILABLE, PositionState.LOCKED, PositionState.PURGE_PENDING
NACK_PURGED = MessageClass.MQMSG_CLASS_NACK_Q_PURGED


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    return reader.open()


@pytest.mark.spec("MQRR-3.1.4.6-01")
def test_a_purge_takes_all_messages_that_are_free(host: Host, reader: Reader, handle: ContextHandle) -> None:
    for name in "ab":
        host.put(name)
    assert reader.purge(handle) == OK
    assert host.contents(host.orders) == []
    assert host.reasons == [("a", NACK_PURGED), ("b", NACK_PURGED)]


@pytest.mark.spec("MQRR-3.1.4.6-02")
def test_only_a_handle_for_receiving_purges(host: Host, reader: Reader) -> None:
    host.put("a")
    for handle in (reader.open(access=PEEK), reader.open_for_move("orders").context):
        assert reader.purge(handle) == DENIED
    assert host.contents(host.orders) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.6-04")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_a_locked_message_goes_when_its_receive_ends(
    host: Host, reader: Reader, handle: ContextHandle, ack: int
) -> None:
    host.put("a")
    host.put("b")
    reader.read(handle)
    assert reader.purge(handle) == OK
    assert host.contents(host.orders) == [("a", PURGED)]
    assert reader.end(handle, ack) == OK
    assert host.contents(host.orders) == []
    assert host.reasons == [("b", NACK_PURGED), ("a", NACK_PURGED)]


@pytest.mark.spec("MQRR-4.1-01")
def test_purging_as_the_example_does(host: Host, reader: Reader) -> None:
    host.put("a")
    assert reader.port() == 2103
    again = Reader(reader.service.handler, host)  # type: ignore[arg-type]
    handle = again.open(access=1)
    assert again.purge(handle) == OK
    assert again.close(handle).status == OK
    assert host.contents(host.orders) == []


@pytest.mark.spec("MQRR-3.1.4.10-02", "MQRR-3.1.4.10-12", "MQRR-3.1.4.11-06")
def test_a_message_moves_within_one_queue(host: Host, reader: Reader, handle: ContextHandle) -> None:
    lookup_id = host.put("a")
    late, early = reader.open("orders;late"), reader.open("orders;early")
    to_main, to_late, to_early = (reader.open_for_move(name) for name in ("orders", "orders;late", "orders;early"))
    where = {handle: host.orders, late: host.orders.subqueues["late"], early: host.orders.subqueues["early"]}
    for source, target, found in ((handle, to_late, late), (late, to_early, early), (early, to_main, handle)):
        waiting = reader.read(found, PEEK_CURRENT, timeout=INFINITE)
        assert reader.move(source, target.move_context, lookup_id) == OK
        assert host.contents(where[source]) == []
        assert host.contents(where[found]) == [("a", AVAILABLE)]
        assert label(waiting) == "a"
    assert label(reader.read(handle, ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT, lookup_id)) == "a"


@pytest.mark.spec("MQRR-3.1.4.10-03")
def test_only_a_handle_for_receiving_gives_messages_away(host: Host, reader: Reader) -> None:
    lookup_id = host.put("a")
    target = reader.open_for_move("orders;late")
    for handle in (reader.open(access=PEEK), reader.open_for_move("orders").context):
        assert reader.move(handle, target.move_context, lookup_id) == DENIED
    assert host.contents(host.orders) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.10-04", "MQRR-3.1.4.11-06")
def test_only_an_open_move_context_of_the_same_client_is_one(host: Host, reader: Reader, handle: ContextHandle) -> None:
    """readings MQRR 3.1."""
    lookup_id = host.put("a")
    kept, closed = reader.open_for_move("orders;late"), reader.open_for_move("orders;late")
    assert kept.move_context != closed.move_context
    assert 0 not in (kept.move_context, closed.move_context)
    reader.close(closed.context)
    stranger = Reader(reader.service.handler, host, Caller(AuthLevel.PRIVACY, "CORP\\bob", ALICE.address))  # type: ignore[arg-type]
    others = stranger.open_for_move("orders;late")
    for context in (0, closed.move_context, 12345, others.move_context):
        assert reader.move(handle, context, lookup_id) == INVALID_HANDLE
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert reader.move(handle, kept.move_context, lookup_id) == OK


@pytest.mark.spec("MQRR-3.1.4.10-06")
@pytest.mark.parametrize("access", [RECEIVE, PEEK])
def test_a_handle_that_was_not_opened_for_moving_is_no_target(
    host: Host, reader: Reader, handle: ContextHandle, access: int
) -> None:
    """Any number of it may be named: its own, and those in what the client has of it."""
    lookup_id = host.put("a")
    late = reader.open("orders;late", access)
    descriptor = reader.find(late).descriptor
    assert descriptor.access_type is not AccessType.MOVE
    numbers = [int.from_bytes(part, order) for part in (late.uuid[:8], late.uuid[8:]) for order in ("little", "big")]
    for context in (descriptor.handle, *numbers):
        assert reader.move(handle, context, lookup_id) == INVALID_HANDLE
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert reader.move(handle, reader.open_for_move("orders;late").move_context, lookup_id) == OK


def test_the_queue_behind_a_move_context_may_be_gone(host: Host, reader: Reader) -> None:
    target = reader.open_for_move("orders")
    handle = reader.open("ledger")
    lookup_id = host.put("a", host.ledger)
    host.manager.delete_queue(host.orders)
    assert reader.move(handle, target.move_context, lookup_id) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.10-02", "MQRR-3.1.4.10-07")
def test_a_message_does_not_move_to_another_queue(host: Host, reader: Reader) -> None:
    lookup_id = host.put("a", host.ledger)
    late = reader.open("orders;late")
    for source in ("ledger", "ledger;late"):
        for target in ("orders", "orders;late", "orders;journal"):
            context = reader.open_for_move(target).move_context
            assert reader.move(reader.open(source), context, lookup_id, UOW) == UNRELATED
    itself, journal = reader.open_for_move("orders;late"), reader.open_for_move("orders;journal")
    assert reader.move(late, itself.move_context, 1) == UNRELATED
    assert reader.move(late, journal.move_context, 1) == UNRELATED
    assert reader.move(reader.open(), journal.move_context, 1) == UNRELATED
    assert host.contents(host.ledger) == [("a", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.10-09", "MQRR-3.1.4.10-14")
def test_what_is_not_in_the_source_is_not_found(host: Host, reader: Reader, handle: ContextHandle) -> None:
    target = reader.open_for_move("orders;late")
    lookup_id = host.put("a")
    for missing in (0, 1, lookup_id + 1, 0xFFFF_FFFF_FFFF_FFFF):
        assert reader.move(handle, target.move_context, missing) == NOT_FOUND
    reader.read(handle)
    assert reader.move(handle, target.move_context, lookup_id) == NOT_FOUND, "somebody reads it"
    tx = host.start()
    unsent = host.put("b", host.ledger, tx)
    in_ledger, to_ledger = reader.open("ledger"), reader.open_for_move("ledger;late")
    assert reader.move(in_ledger, to_ledger.move_context, unsent) == NOT_FOUND, "it is not there yet"


@pytest.mark.spec("MQRR-3.1.4.10-08", "MQRR-3.1.4.10-11")
def test_a_move_in_a_transaction_needs_a_transactional_queue_and_a_transaction(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:
    target = reader.open_for_move("orders;late")
    assert reader.move(handle, target.move_context, 1, UOW) == HResult.MQ_ERROR_TRANSACTION_USAGE
    in_ledger, to_ledger = reader.open("ledger"), reader.open_for_move("ledger;late")
    assert reader.move(in_ledger, to_ledger.move_context, 1, UOW) == NOT_FOUND
    lookup_id = host.put("a", host.ledger)
    assert reader.move(in_ledger, to_ledger.move_context, lookup_id, UOW) == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
    assert host.contents(host.ledger) == [("a", AVAILABLE)]
    assert reader.move(in_ledger, to_ledger.move_context, lookup_id) == OK


@pytest.mark.spec("MQRR-3.1.4.10-10")
def test_a_message_that_a_transaction_holds_cannot_be_moved(host: Host, reader: Reader) -> None:
    received, moved = host.put("a", host.ledger), host.put("b", host.ledger)
    handle, target = reader.open("ledger"), reader.open_for_move("ledger;late")
    reader.enlist(local_token(UOW))
    reader.read(handle, tx=UOW)
    assert reader.move(handle, target.move_context, moved, UOW) == OK
    for lookup_id in (received, moved):
        for tx in (bytes(16), UOW, b"\x66" * 16):
            status = reader.move(handle, target.move_context, lookup_id, tx)
            assert status == HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION


@pytest.mark.spec("MQRR-3.1.4.10-13", "MQRR-1.3.5-01")
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_move_in_a_transaction_waits_for_its_outcome(host: Host, reader: Reader, *, is_commit: bool) -> None:
    lookup_id = host.put("a", host.ledger)
    handle, target = reader.open("ledger"), reader.open_for_move("ledger;late")
    late = host.ledger.subqueues["late"]
    reader.enlist(local_token(UOW))
    assert reader.move(handle, target.move_context, lookup_id, UOW) == OK
    assert host.contents(host.ledger) == [("a", LOCKED)]
    assert host.contents(late) == []
    if is_commit:
        host.decide_commit(UOW)
        assert (host.contents(host.ledger), host.contents(late)) == ([], [("a", AVAILABLE)])
    else:
        host.decide_abort(UOW)
        assert (host.contents(host.ledger), host.contents(late)) == ([("a", AVAILABLE)], [])
