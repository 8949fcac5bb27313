"""MS-MQDMPR 3.1.7.1.10 to 3.1.7.1.15: reading now."""

import pytest

from tests.core.engine import OK, TX, Outcome, Rig
from waypost.core.cursors import CursorState
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType, OpenQueueDescriptor, ReadRequest
from waypost.core.reading import MessageSeekAction
from waypost.core.transaction_records import OperationType
from waypost.hresult import HResult
from waypost.wire.message_class import MessageClass

RECEIVED = MessageClass.MQMSG_CLASS_ACK_RECEIVE
FIRST, LAST = MessageSeekAction.SEEK_FIRST, MessageSeekAction.SEEK_LAST
CURRENT, NEXT, PREVIOUS = MessageSeekAction.SEEK_CURRENT, MessageSeekAction.SEEK_NEXT, MessageSeekAction.SEEK_PREVIOUS
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
ALREADY_RECEIVED = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
ILLEGAL = HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION
TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT
NOT_AVAILABLE = HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
SEQUENCE = HResult.MQ_ERROR_TRANSACTION_SEQUENCE


def with_cursor(rig: Rig, handle: OpenQueueDescriptor, timeout_ms: int | None = 0) -> ReadRequest:
    return ReadRequest(timeout_ms, rig.manager.open_cursor(handle))


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.spec(
    "MQDMPR-3.1.7.1.10-01",
    "MQDMPR-3.1.7.1.11-01",
    "MQDMPR-3.1.7.1.12-01",
    "MQDMPR-3.1.7.1.13-01",
    "MQDMPR-3.1.7.1.14-01",
    "MQDMPR-3.1.7.1.15-01",
    "MQDMPR-3.1.7.1.4-02",
    "MQDMPR-3.1.7.3.1-01",
)
def test_nothing_can_be_read_through_the_handle_of_a_deleted_queue(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    request = with_cursor(rig, handle, None)
    rig.manager.delete_queue(rig.orders)
    assert handle.queue is None
    assert rig.receive(handle) == NOT_AVAILABLE
    assert rig.begin(handle, ReadRequest()) == NOT_AVAILABLE
    assert rig.end(handle, lookup_id, delete=True) == NOT_AVAILABLE
    assert rig.seek(handle, FIRST, 0) == NOT_AVAILABLE
    assert rig.peek_next(handle, request) == NOT_AVAILABLE
    assert rig.peek(handle, ReadRequest()) == NOT_AVAILABLE
    assert not handle.waiting


@pytest.mark.spec("MQDMPR-3.1.7.1.10-08", "MQDMPR-3.1.7.3.2-02")
def test_a_receive_takes_the_first_available_message_and_passes_over_the_others(rig: Rig) -> None:
    handle = rig.open()
    for label in ("purge pending", "locked", "later", "last"):
        rig.send(label)
    assert rig.begin(handle) == "purge pending"
    rig.orders.positions.set_state(next(iter(rig.orders.positions)), PositionState.PURGE_PENDING)
    assert rig.begin(handle) == "locked"
    first = rig.send("first", priority=7)
    assert rig.receive(handle) == "first"
    assert rig.state(first) is PositionState.DELETED
    assert rig.receive(handle) == "later"
    assert rig.labels() == ["purge pending", "locked", "last"]


@pytest.mark.spec("MQDMPR-3.1.7.1.10-13", "MQDMPR-3.1.7.2.1-01")
def test_a_plain_receive_deletes_the_message_and_says_that_it_was_received(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    rig.manager.take_events()
    assert rig.receive(handle) == "a"
    assert rig.deleted() == [("a", RECEIVED)]
    assert lookup_id not in rig.orders.positions
    assert rig.messages.held == {}


@pytest.mark.spec("MQDMPR-3.1.7.1.10-11")
def test_a_receive_in_a_transaction_only_locks(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    rig.manager.take_events()
    assert rig.receive(handle, ReadRequest(0, transaction=rig.start())) == "a"
    assert rig.state(lookup_id) is PositionState.LOCKED
    assert rig.labels() == ["a"]
    (operation,) = rig.manager.transactions.collection[TX].operations.values()
    assert (operation.operation_type, operation.queue, operation.lookup_id, operation.dequeue_reason) == (
        OperationType.DEQUEUE,
        rig.orders,
        lookup_id,
        RECEIVED,
    )
    assert rig.deleted() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.10-12", "MQDMPR-3.1.7.1.11-01")
def test_a_two_phase_read_only_locks_and_belongs_to_no_transaction(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    assert not ReadRequest().two_phase_read
    assert rig.receive(handle, ReadRequest(0, two_phase_read=True)) == "a"
    assert rig.state(lookup_id) is PositionState.LOCKED
    assert rig.labels() == ["a"]


@pytest.mark.spec("MQDMPR-3.1.7.1.11-01")
def test_begin_passes_timeout_cursor_tag_and_transaction_on(rig: Rig) -> None:
    handle = rig.open()
    request = ReadRequest(500, rig.manager.open_cursor(handle), 7, rig.start())
    wait_id = rig.begin(handle, request)
    (wait,) = handle.waiting.values()
    assert wait.wait_id == wait_id
    assert (wait.request.cursor, wait.request.tag, wait.request.transaction) == (request.cursor, 7, TX)
    assert rig.next_deadline() == rig.now.monotonic + 0.5
    lookup_id = rig.send("a")
    assert rig.ended() == [(wait_id, "a")]
    assert request.cursor is not None
    assert request.cursor.position == lookup_id
    assert [op.lookup_id for op in rig.manager.transactions.collection[TX].operations.values()] == [lookup_id]


@pytest.mark.spec("MQDMPR-3.1.7.1.12-02")
def test_a_message_that_nobody_began_to_read_cannot_be_ended(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    assert rig.end(handle, lookup_id, delete=True) == SEQUENCE
    assert rig.end(handle, lookup_id, delete=True, tx=rig.start()) == SEQUENCE
    assert rig.state(lookup_id) is PositionState.AVAILABLE


def test_the_end_of_a_read_reaches_only_what_the_same_handle_began_to_read(rig: Rig) -> None:
    handle, other = rig.open(), rig.open()
    tx = rig.start()
    unsent = rig.send("unsent", tx=tx)
    received, read = rig.send("received"), rig.send("read")
    rig.receive(handle, ReadRequest(0, transaction=tx))
    assert rig.begin(handle) == "read"
    for lookup_id in (unsent, received):
        assert rig.end(handle, lookup_id, delete=False) == SEQUENCE
    assert rig.end(other, read, delete=True) == SEQUENCE
    assert rig.end(handle, read, delete=True, tx=tx) == SEQUENCE
    assert rig.end(handle, unsent, delete=False, tx=tx) == SEQUENCE
    assert [rig.state(lookup_id) for lookup_id in (unsent, received, read)] == [PositionState.LOCKED] * 3


@pytest.mark.spec("MQDMPR-3.1.7.1.12-03")
def test_the_outcome_of_the_transaction_decides_over_what_was_delivered(rig: Rig) -> None:
    """readings MQDMPR 3.R: but what was not delivered is taken out of it, and free at once."""
    handle, tx = rig.open(), rig.start()
    first, second = rig.send("first"), rig.send("second")
    request = ReadRequest(0, transaction=tx)
    assert (rig.begin(handle, request), rig.begin(handle, request)) == ("first", "second")
    assert rig.end(handle, first, delete=True, tx=tx) == OK
    assert rig.state(first) is PositionState.LOCKED
    assert rig.end(handle, second, delete=False, tx=tx) == OK
    assert rig.state(second) is PositionState.AVAILABLE
    rig.commit()
    assert rig.labels() == ["second"]


def test_what_is_prepared_is_not_taken_back(rig: Rig) -> None:
    handle, tx = rig.open(), rig.start()
    lookup_id = rig.send("a")
    rig.begin(handle, ReadRequest(0, transaction=tx))
    rig.manager.transactions.transaction_prepare(tx)
    assert rig.end(handle, lookup_id, delete=False, tx=tx) == SEQUENCE
    assert rig.state(lookup_id) is PositionState.LOCKED
    rig.commit()
    assert rig.labels() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.12-04")
def test_the_end_of_a_read_that_arrived_deletes(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    rig.begin(handle)
    assert rig.end(handle, lookup_id, delete=True) == OK
    assert rig.deleted() == [("a", RECEIVED)]
    assert rig.labels() == []
    assert rig.end(handle, lookup_id, delete=True) == SEQUENCE


@pytest.mark.spec("MQDMPR-3.1.7.1.12-05")
@pytest.mark.parametrize("delete", [True, False])
def test_the_end_of_a_read_deletes_what_was_purged_meanwhile(rig: Rig, *, delete: bool) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    rig.begin(handle)
    rig.manager.writing.purge_queue(rig.orders)
    assert rig.end(handle, lookup_id, delete=delete) == OK
    assert rig.deleted() == [("a", MessageClass.MQMSG_CLASS_NACK_Q_PURGED)]


@pytest.mark.spec("MQDMPR-3.1.7.1.12-06")
def test_the_end_of_a_read_that_failed_gives_the_message_to_others(rig: Rig) -> None:
    handle, other = rig.open(), rig.open()
    lookup_id = rig.send("a")
    rig.begin(handle)
    wait_id = rig.receive(other, ReadRequest())
    assert rig.end(handle, lookup_id, delete=False) == OK
    assert rig.ended() == [(wait_id, "a")]


def test_closing_a_handle_gives_back_what_it_began_to_read(rig: Rig) -> None:
    handle, other = rig.open(), rig.open()
    rig.send("a")
    rig.begin(handle)
    rig.manager.close_queue(handle)
    assert rig.receive(other) == "a"


@pytest.mark.spec("MQDMPR-3.1.7.1.10-03", "MQDMPR-3.1.7.1.10-05")
def test_a_cursor_may_wait_exactly_if_there_is_time(rig: Rig) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle, 0)
    assert request.cursor is not None
    assert rig.receive(handle, request) == NOT_FOUND
    assert not request.cursor.is_waiting
    wait_id = rig.receive(handle, ReadRequest(1, request.cursor))
    assert list(handle.waiting) == [wait_id]
    assert request.cursor.is_waiting


@pytest.mark.spec("MQDMPR-3.1.7.1.10-04", "MQDMPR-3.1.7.1.15-03")
def test_a_cursor_tells_that_its_message_was_received_by_another(rig: Rig) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle)
    rig.send("a")
    assert rig.peek(handle, request) == "a"
    assert rig.receive(handle) == "a"
    assert rig.peek(handle, request) == ALREADY_RECEIVED
    assert rig.receive(handle, request) == ALREADY_RECEIVED


@pytest.mark.spec("MQDMPR-3.1.7.1.15-02", "MQDMPR-3.1.7.1.14-02")
def test_a_cursor_shows_its_message_again_and_then_the_next(rig: Rig) -> None:
    handle = rig.open(AccessType.PEEK)
    request = with_cursor(rig, handle)
    rig.send("a")
    rig.send("b")
    assert [rig.peek(handle, request) for _ in range(3)] == ["a"] * 3
    assert rig.peek_next(handle, request) == "b"
    assert rig.labels() == ["a", "b"]


@pytest.mark.spec("MQDMPR-3.1.7.1.14-03")
def test_peek_next_needs_a_message_that_was_peeked(rig: Rig) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle)
    rig.send("a")
    rig.send("b")
    assert rig.peek_next(handle, request) == ILLEGAL
    assert rig.receive(handle, request) == "a"
    assert rig.peek_next(handle, request) == ILLEGAL


@pytest.mark.parametrize("first", ["peek", "receive"])
def test_a_cursor_that_waits_is_asked_in_vain_and_stays_as_it_is(rig: Rig, first: str) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle, None)
    wait_id = rig.peek(handle, request) if first == "peek" else rig.receive(handle, request)
    assert rig.peek(handle, request) == ILLEGAL
    assert rig.peek_next(handle, request) == ILLEGAL
    assert rig.receive(handle, request) == ILLEGAL
    rig.send("a")
    assert rig.ended() == [(wait_id, "a")]


def test_a_read_in_an_unknown_or_prepared_transaction_disturbs_nothing(rig: Rig) -> None:
    handle = rig.open()
    cursor = rig.manager.open_cursor(handle)
    assert cursor is not None
    lookup_id = rig.send("a")
    request = ReadRequest(None, cursor, transaction=TX)
    for is_known in (False, True):
        if is_known:
            rig.manager.transactions.transaction_prepare(rig.start())
        assert rig.receive(handle, request) == SEQUENCE
        assert rig.seek(handle, CURRENT, lookup_id, request) == SEQUENCE
    assert (cursor.position, cursor.state) == (-1, CursorState.UNREAD)
    assert rig.state(lookup_id) is PositionState.AVAILABLE
    assert not handle.waiting


@pytest.mark.spec("MQDMPR-3.1.7.1.15-06", "MQDMPR-3.1.7.3.2-03")
def test_a_peek_also_shows_locked_messages_that_allow_it(rig: Rig) -> None:
    handle = rig.open()
    hidden, shown = rig.message("hidden"), rig.message("shown")
    shown.allow_peek_when_locked = True
    for message in (hidden, shown, rig.message("free")):
        rig.enqueue(message)
    assert rig.peek(handle) == "hidden"
    assert (rig.begin(handle), rig.begin(handle)) == ("hidden", "shown")
    request = with_cursor(rig, handle)
    assert rig.peek(handle) == "shown"
    assert rig.peek(handle, request) == "shown"
    assert rig.peek_next(handle, request) == "free"
    assert rig.seek(handle, FIRST, 0) == "shown"
    assert rig.seek(handle, NEXT, hidden.lookup_identifier) == "shown"
    assert rig.seek(handle, PREVIOUS, request.cursor.position if request.cursor else 0) == "shown"
    assert rig.state(shown.lookup_identifier) is PositionState.LOCKED
    assert rig.seek(handle, FIRST, 0, ReadRequest(two_phase_read=True)) == "free"
    assert rig.seek(handle, LAST, 0) == "shown"
    rig.end(handle, shown.lookup_identifier, delete=True)
    assert rig.peek(handle) == TIMEOUT


def test_a_send_that_is_not_committed_is_shown_to_nobody(rig: Rig) -> None:
    handle, tx = rig.open(), rig.start()
    message = rig.message("a")
    message.allow_peek_when_locked = True
    rig.enqueue(message, tx=tx)
    assert rig.peek(handle) == TIMEOUT
    assert rig.seek(handle, CURRENT, message.lookup_identifier) == HResult.MQ_ERROR_TRANSACTION_USAGE


@pytest.mark.spec("MQDMPR-3.1.7.1.13-02", "MQDMPR-3.1.7.3.3-01")
@pytest.mark.parametrize("action", [CURRENT, NEXT, PREVIOUS])
def test_a_seek_needs_a_message_to_start_from(rig: Rig, action: MessageSeekAction) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    assert rig.seek(handle, action, lookup_id + 1) == NOT_FOUND
    assert rig.seek(handle, action, (1 << 64) - 1, ReadRequest()) == NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.1.17-02", "MQDMPR-3.1.7.3.2-01", "MQDMPR-3.1.7.3.3-02", "MQDMPR-3.1.7.3.3-03")
def test_every_seek_goes_where_it_says(rig: Rig) -> None:
    handle = rig.open()
    ids = [rig.send(label) for label in "abcde"]
    for index in (1, 3):
        rig.seek(handle, CURRENT, ids[index], ReadRequest(two_phase_read=True))
    assert {action.name for action in MessageSeekAction} == {
        f"SEEK_{word}" for word in ("FIRST", "PREVIOUS", "CURRENT", "NEXT", "LAST")
    }
    for request in (None, ReadRequest(two_phase_read=True)):

        def look(action: MessageSeekAction, lookup_id: int, request: ReadRequest | None = request) -> Outcome:
            found = rig.seek(handle, action, lookup_id, request)
            for held in tuple(handle.two_phase_reads - {ids[1], ids[3]}):
                rig.end(handle, held, delete=False)
            return found

        assert look(FIRST, 0) == "a"
        assert look(LAST, 0xFFFF_FFFF_FFFF_FFFF) == "e"
        assert look(CURRENT, ids[2]) == "c"
        assert look(NEXT, ids[0]) == look(NEXT, ids[1]) == "c"
        assert look(PREVIOUS, ids[4]) == look(PREVIOUS, ids[3]) == "c"


@pytest.mark.spec("MQDMPR-3.1.7.3.3-04", "MQDMPR-3.1.7.3.2-04")
def test_a_seek_that_reaches_an_end_finds_nothing(rig: Rig) -> None:
    handle = rig.open()
    assert rig.seek(handle, FIRST, 0) == rig.seek(handle, LAST, 0) == NOT_FOUND
    lookup_id = rig.send("a")
    for request in (None, ReadRequest()):
        assert rig.seek(handle, NEXT, lookup_id, request) == NOT_FOUND
        assert rig.seek(handle, PREVIOUS, lookup_id, request) == NOT_FOUND
    assert rig.peek(handle) == "a"


@pytest.mark.spec("MQDMPR-3.1.7.1.13-03", "MQDMPR-3.1.7.3.3-05")
def test_a_peek_by_identifier_leaves_the_message_as_it_was(rig: Rig) -> None:
    """It takes no request, so nobody can supply a transaction with it."""
    handle = rig.open(AccessType.PEEK)
    lookup_id = rig.send("a")
    assert rig.seek(handle, CURRENT, lookup_id) == "a"
    assert rig.state(lookup_id) is PositionState.AVAILABLE


@pytest.mark.spec("MQDMPR-3.1.7.1.13-04")
def test_a_receive_by_identifier_in_a_transaction_only_locks(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    assert rig.seek(handle, CURRENT, lookup_id, ReadRequest(transaction=rig.start())) == "a"
    assert rig.state(lookup_id) is PositionState.LOCKED
    (operation,) = rig.manager.transactions.collection[TX].operations.values()
    assert operation.operation_type is OperationType.DEQUEUE
    assert operation.lookup_id == lookup_id
    assert operation.dequeue_reason is RECEIVED


@pytest.mark.spec("MQDMPR-3.1.7.1.13-05")
def test_a_two_phase_read_by_identifier_only_locks(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    assert rig.seek(handle, CURRENT, lookup_id, ReadRequest(two_phase_read=True)) == "a"
    assert rig.state(lookup_id) is PositionState.LOCKED
    assert rig.end(handle, lookup_id, delete=False) == OK
    assert rig.state(lookup_id) is PositionState.AVAILABLE


@pytest.mark.spec("MQDMPR-3.1.7.1.13-06")
def test_a_plain_receive_by_identifier_deletes(rig: Rig) -> None:
    handle = rig.open()
    rig.send("a")
    second = rig.send("b")
    assert rig.seek(handle, CURRENT, second, ReadRequest()) == "b"
    assert rig.deleted() == [("b", RECEIVED)]
    assert rig.labels() == ["a"]


@pytest.mark.spec("MQDMPR-3.1.7.3.3-06")
def test_a_locked_message_is_peeked_by_identifier_only_if_it_allows_it(rig: Rig) -> None:
    handle = rig.open()
    shown, hidden = rig.message("shown"), rig.message("hidden")
    shown.allow_peek_when_locked = True
    for message in (shown, hidden):
        rig.enqueue(message)
        rig.begin(handle)
    assert rig.seek(handle, CURRENT, shown.lookup_identifier) == "shown"
    assert rig.seek(handle, CURRENT, hidden.lookup_identifier) == HResult.MQ_ERROR_TRANSACTION_USAGE


@pytest.mark.spec("MQDMPR-3.1.7.3.3-07", "MQDMPR-3.1.1.11-04")
def test_a_removed_position_is_known_while_a_cursor_stands_on_it(rig: Rig) -> None:
    handle = rig.open()
    request = with_cursor(rig, handle)
    lookup_id = rig.send("a")
    rig.send("b")
    rig.peek(handle, request)
    rig.receive(handle)
    assert rig.seek(handle, CURRENT, lookup_id) == ALREADY_RECEIVED
    assert rig.seek(handle, CURRENT, lookup_id, ReadRequest()) == ALREADY_RECEIVED
    assert rig.peek_next(handle, request) == "b"
    assert rig.seek(handle, CURRENT, lookup_id) == NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.7.3.3-08")
def test_a_locked_or_purged_message_is_not_received_by_identifier(rig: Rig) -> None:
    handle = rig.open()
    lookup_id = rig.send("a")
    rig.begin(handle)
    assert rig.seek(handle, CURRENT, lookup_id, ReadRequest()) == NOT_FOUND
    rig.manager.writing.purge_queue(rig.orders)
    assert rig.seek(handle, CURRENT, lookup_id, ReadRequest()) == NOT_FOUND
    assert rig.seek(handle, CURRENT, lookup_id) == NOT_FOUND


@pytest.mark.parametrize(
    ("access", "may_peek", "may_receive"),
    [
        (AccessType.RECEIVE, True, True),
        (AccessType.RECEIVE_ADMIN, True, True),
        (AccessType.PEEK, True, False),
        (AccessType.PEEK_ADMIN, True, False),
        (AccessType.SEND, False, False),
        (AccessType.MOVE, False, False),
    ],
)
def test_a_handle_reads_only_what_it_was_opened_for(
    rig: Rig, access: AccessType, *, may_peek: bool, may_receive: bool
) -> None:
    handle = rig.open(access)
    request = with_cursor(rig, handle)
    denied = HResult.MQ_ERROR_ACCESS_DENIED
    for label in "ab":
        rig.send(label)
    assert rig.peek(handle) == ("a" if may_peek else denied)
    assert rig.seek(handle, FIRST, 0) == ("a" if may_peek else denied)
    assert rig.peek_next(handle, request) == (ILLEGAL if may_peek else denied)
    assert rig.receive(handle) == ("a" if may_receive else denied)
    assert rig.seek(handle, FIRST, 0, ReadRequest()) == ("b" if may_receive else denied)
