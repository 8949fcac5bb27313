"""MS-MQRR 3.2.4.2, 3.2.4.5 to 3.2.4.13: transactions, moves, cursors, cancels and ends of a reader over RemoteRead."""

import pytest

from tests.remote.conversing import (
    FOREVER,
    HANDLE,
    LOOKUP_ID,
    ME,
    ORDERS,
    OTHER_HANDLE,
    SHELF,
    Talk,
    receive_reply,
)
from tests.remote.remote_reading import (
    FAILED,
    OK,
    PEEK,
    PEEK_NEXT,
    RECEIVE,
    TRANSACTION,
    enlisted,
    new_client,
    opened,
    with_cursor,
)
from waypost.errors import InvalidHandle, InvalidParameter, TransactionUsage
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.client.conversations import CallFailed
from waypost.remote.client.reads import ReadRequest, Transaction
from waypost.remote.client.remote_read import MoveTarget, RemoteReadClient
from waypost.remote.interfaces.remote_read import (
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueReply,
    CloseQueueRequest,
    CreateCursorReply,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    MoveMessageRequest,
    OpenQueueForMoveReply,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    ReceiveAction,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
)
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import ResultReply
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import BodyLimits, ReceiveReply

# --- Transactions


@pytest.mark.spec("MQRR-3.2.4.2-01", "MQRR-3.1.4.12-08")
def test_a_transaction_is_enlisted_once_before_its_first_receive_or_move() -> None:
    client = new_client()
    queue = opened(client)
    talk = Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION)))
    assert talk.ask.opnum == 12
    assert talk.request == QMEnlistRemoteTransactionRequest(
        TRANSACTION.identifier, b"the token", QueueFormat.from_format_name(ORDERS)
    )
    talk.answer(OK)
    assert talk.request.transaction_id == TRANSACTION.identifier
    moved = Talk(queue.move(LOOKUP_ID, target_of(client), TRANSACTION))
    assert (moved.ask.opnum, moved.request.transaction_id) == (10, TRANSACTION.identifier)
    other = Transaction(b"u" * 16, b"another")
    first_move = Talk(queue.move(LOOKUP_ID, target_of(client), other))
    assert (first_move.ask.opnum, first_move.request.transaction_id) == (12, other.identifier)
    first_move.answer(OK)
    assert (first_move.ask.opnum, first_move.request.transaction_id) == (10, other.identifier)
    client.transaction_ended(TRANSACTION)
    assert Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION))).ask.opnum == 12


def test_a_failed_enlistment_is_the_result_and_nothing_is_read() -> None:
    client = new_client()
    queue = opened(client)
    talk = Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION)))
    talk.answer(ResultReply(HResult.MQ_ERROR_TRANSACTION_ENLIST))
    assert talk.status == HResult.MQ_ERROR_TRANSACTION_ENLIST
    assert Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION))).ask.opnum == 12


@pytest.mark.spec("MQRR-2.2.8-01")
def test_an_internal_transaction_has_an_identifier_of_its_own_and_an_external_one_that_of_its_coordinator() -> None:
    client = new_client()
    queue = opened(client)
    identifiers = set()
    for _ in range(3):
        talk = Talk(queue.read(ReadRequest(RECEIVE, transaction=client.internal_transaction())))
        assert talk.ask.opnum == 13
        identifiers.add(talk.request.transaction_id)
    assert len(identifiers) == 3
    assert all(len(identifier) == 16 for identifier in identifiers)
    talk = enlisted(Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION))))
    assert talk.request.transaction_id == TRANSACTION.identifier


def test_a_peek_has_no_transaction() -> None:
    talk = Talk(opened().read(ReadRequest(PEEK, transaction=TRANSACTION)))
    assert isinstance(talk.error, InvalidParameter)


@pytest.mark.spec("MQRR-3.2.4.5-01", "MQRR-3.1.4.14-02")
def test_a_message_of_a_transaction_is_rejected_by_its_lookup_identifier() -> None:
    client = new_client()
    queue = opened(client)
    talk = enlisted(Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION))))
    received = talk.answer(receive_reply()).answer(OK).result
    rejected = Talk(queue.reject(received))
    assert rejected.ask.opnum == 14
    assert rejected.request == SetUserAcknowledgementClassRequest(HANDLE, LOOKUP_ID, 0xC004)
    assert rejected.answer(OK).error is None
    client.transaction_ended(TRANSACTION)
    assert isinstance(Talk(queue.reject(received)).error, TransactionUsage)
    plain = Talk(queue.read(ReadRequest(RECEIVE))).answer(receive_reply()).answer(OK).result
    assert isinstance(Talk(queue.reject(plain)).error, TransactionUsage)


# --- Moves


def target_of(client: RemoteReadClient, move_context: int = 0xABCDEF0123456789) -> MoveTarget:
    talk = Talk(client.open_for_move(SHELF))
    assert talk.ask.opnum == 11
    return talk.answer(OpenQueueForMoveReply(move_context, OTHER_HANDLE)).result


def test_the_target_of_moves_is_opened_for_them() -> None:
    request = Talk(new_client().open_for_move(SHELF)).request
    assert request.queue_format == QueueFormat.from_format_name(SHELF)
    assert (request.access, request.share_mode, request.client_id) == (4, 0, ME)


@pytest.mark.spec("MQRR-3.2.4.6-01")
def test_a_message_is_moved_with_the_transaction_if_there_is_one_and_zeros_if_not() -> None:
    client = new_client()
    queue = opened(client)
    target = target_of(client)
    talk = Talk(queue.move(LOOKUP_ID, target))
    assert talk.ask.opnum == 10
    assert talk.request == MoveMessageRequest(HANDLE, 0xABCDEF0123456789, LOOKUP_ID, NULL_GUID)
    assert talk.answer(OK).error is None
    talk = Talk(queue.move(LOOKUP_ID, target, TRANSACTION)).answer(OK)
    assert talk.request == MoveMessageRequest(HANDLE, 0xABCDEF0123456789, LOOKUP_ID, TRANSACTION.identifier)
    talk.answer(FAILED)
    assert talk.status == FAILED.hresult


def test_nothing_is_moved_to_a_queue_that_was_closed() -> None:
    client = new_client()
    queue, target = opened(client), target_of(client)
    Talk(target.queue.close()).answer(CloseQueueReply())
    assert isinstance(Talk(queue.move(LOOKUP_ID, target)).error, InvalidHandle)


# --- Purge and cursors


@pytest.mark.spec("MQRR-3.2.4.7-01")
def test_a_purge_names_the_handle() -> None:
    talk = Talk(opened().purge())
    assert (talk.ask.opnum, talk.request) == (6, PurgeQueueRequest(HANDLE))
    assert talk.answer(OK).error is None


@pytest.mark.spec("MQRR-3.2.4.8-01")
def test_a_cursor_is_kept_under_its_queue_and_handed_out() -> None:
    queue = opened()
    talk = Talk(queue.create_cursor())
    assert (talk.ask.opnum, talk.request) == (4, CreateCursorRequest(HANDLE))
    assert talk.answer(CreateCursorReply(9)).result == 9
    assert queue.cursors == {9}
    talk = Talk(queue.create_cursor()).answer(CreateCursorReply(10, HResult.MQ_ERROR_INVALID_HANDLE))
    assert isinstance(talk.error, CallFailed)
    assert queue.cursors == {9}


@pytest.mark.spec("MQRR-3.2.4.9-01")
@pytest.mark.parametrize("action", [PEEK, PEEK_NEXT])
def test_a_peek_by_cursor_has_the_cursor_and_no_lookup_identifier(action: ReceiveAction) -> None:
    queue = with_cursor()
    request, other = (ReadRequest(action, 10, cursor=9, limits=BodyLimits(5, 600)) for _ in range(2))
    talk, _ = Talk(queue.read(request)), Talk(queue.read(other))
    assert talk.ask.opnum == 7
    assert talk.request == StartReceiveRequest(HANDLE, 0, 9, action, 10, request.request_id, 5, 600)
    assert request.request_id != other.request_id
    assert talk.answer(receive_reply()).result.message.properties.message_body == b"twelve bytes"


@pytest.mark.spec("MQRR-3.2.4.10-01", "MQRR-3.2.4.10.1-01")
def test_a_receive_by_cursor_is_started_and_ended() -> None:
    queue = with_cursor()
    talk = Talk(queue.read(ReadRequest(RECEIVE, 10, cursor=9)))
    start = talk.request
    assert talk.ask.opnum == 7
    assert (start.context, start.lookup_id, start.cursor, start.action, start.timeout) == (HANDLE, 0, 9, RECEIVE, 10)
    talk.answer(receive_reply())
    assert (talk.ask.opnum, talk.request) == (9, EndReceiveRequest(HANDLE, 2, start.request_id))
    received = talk.answer(OK).result
    assert received.is_ended
    assert received.message.properties.message_body == b"twelve bytes"


@pytest.mark.spec("MQRR-3.2.4.10.1-02")
def test_a_receive_by_cursor_whose_end_fails_still_returns_its_message() -> None:
    talk = Talk(with_cursor().read(ReadRequest(RECEIVE, cursor=9))).answer(receive_reply())
    received = talk.answer(FAILED).result
    assert received.message.properties.message_body == b"twelve bytes"
    assert not received.is_ended


@pytest.mark.spec("MQRR-3.2.4.10-01", "MQRR-3.2.4.10.2-01")
def test_a_receive_by_cursor_in_a_transaction_takes_the_path_of_transactions() -> None:
    for outcome in (OK, FAILED):
        queue = with_cursor()
        talk = enlisted(Talk(queue.read(ReadRequest(RECEIVE, 10, cursor=9, transaction=TRANSACTION))))
        start = talk.request
        assert talk.ask.opnum == 13
        assert (start.context, start.lookup_id, start.cursor) == (HANDLE, 0, 9)
        assert start.transaction_id == TRANSACTION.identifier
        talk.answer(receive_reply())
        assert talk.ask.opnum == 15
        assert talk.request == EndTransactionalReceiveRequest(HANDLE, 2, start.request_id)
        talk.answer(outcome)
        if outcome is OK:
            assert talk.result.message.properties.message_body == b"twelve bytes"
        else:
            assert talk.status == FAILED.hresult


def test_a_read_goes_by_a_cursor_of_its_queue_or_by_a_lookup_identifier() -> None:
    queue = with_cursor()
    assert isinstance(Talk(queue.read(ReadRequest(PEEK, cursor=8))).error, InvalidHandle)
    both = ReadRequest(ReceiveAction.MQ_LOOKUP_PEEK_CURRENT, cursor=9, lookup_id=1)
    assert isinstance(Talk(queue.read(both)).error, InvalidParameter)


# --- Numbers, cancels, ends


@pytest.mark.spec("MQRR-3.1.4.7-21")
def test_the_number_of_a_read_is_not_used_again_before_its_end() -> None:
    client = new_client()
    queue = opened(client)
    first = ReadRequest(RECEIVE)
    talk = Talk(queue.read(first)).answer(receive_reply())
    assert talk.ask.opnum == 9
    # The numbers have gone round.
    client.pending._numbers = iter(range(first.request_id, 1 << 40))  # type: ignore[misc, assignment]
    second = ReadRequest(RECEIVE)
    Talk(queue.read(second))
    assert second.request_id not in (0, first.request_id)
    talk.answer(OK)
    client.pending._numbers = iter(range(first.request_id, 1 << 40))  # type: ignore[misc, assignment]
    third = ReadRequest(RECEIVE)
    Talk(queue.read(third))
    assert third.request_id == first.request_id


def test_the_numbers_of_reads_fit_into_32_bits_and_are_never_0() -> None:
    client = new_client()
    queue = opened(client)
    client.pending._numbers = iter(range(0xFFFFFFFF, 1 << 40))  # type: ignore[misc, assignment]
    requests = [ReadRequest(PEEK) for _ in range(2)]
    for request in requests:
        Talk(queue.read(request))
    assert [request.request_id for request in requests] == [0xFFFFFFFF, 1]


@pytest.mark.spec("MQRR-3.2.4.11-01")
@pytest.mark.parametrize("action", [PEEK, RECEIVE])
def test_a_read_that_waits_is_cancelled_by_its_number(action: ReceiveAction) -> None:
    queue = opened()
    request = ReadRequest(action, FOREVER)
    waiting = Talk(queue.read(request))
    cancel = Talk(queue.cancel(request.request_id))
    assert (cancel.ask.opnum, cancel.request) == (8, CancelReceiveRequest(HANDLE, request.request_id))
    assert cancel.answer(OK).error is None
    waiting.answer(ReceiveReply(hresult=HResult.MQ_ERROR_OPERATION_CANCELLED))
    assert waiting.status == HResult.MQ_ERROR_OPERATION_CANCELLED
    assert isinstance(Talk(queue.cancel(request.request_id)).error, InvalidHandle)


def test_a_read_of_another_queue_is_not_cancelled() -> None:
    client = new_client()
    request = ReadRequest(PEEK, FOREVER)
    Talk(opened(client).read(request))
    assert isinstance(Talk(opened(client).cancel(request.request_id)).error, InvalidHandle)


@pytest.mark.spec("MQRR-3.2.4.12-01", "MQRR-3.2.4.12-02")
def test_a_cursor_is_closed_after_its_reads_were_cancelled() -> None:
    queue = with_cursor()
    by_cursor, without = ReadRequest(PEEK, FOREVER, cursor=9), ReadRequest(PEEK, FOREVER)
    waiting = [Talk(queue.read(request)) for request in (by_cursor, without)]
    talk = Talk(queue.close_cursor(9))
    assert (talk.ask.opnum, talk.request) == (8, CancelReceiveRequest(HANDLE, by_cursor.request_id))
    talk.answer(FAILED)
    assert (talk.ask.opnum, talk.request) == (5, CloseCursorRequest(HANDLE, 9))
    assert talk.answer(OK).error is None
    assert queue.cursors == set()
    assert not any(read.is_over for read in waiting)
    assert isinstance(Talk(queue.close_cursor(9)).error, InvalidHandle)
    assert isinstance(Talk(queue.close_cursor(0)).error, InvalidHandle)


@pytest.mark.spec("MQRR-3.2.4.13-01", "MQRR-3.2.4.13-02")
@pytest.mark.parametrize("outcome", [CloseQueueReply(), RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)])
def test_a_queue_is_closed_after_its_reads_and_cursors(outcome: CloseQueueReply | RpcFault) -> None:
    client = new_client()
    queue = opened(client)
    Talk(queue.create_cursor()).answer(CreateCursorReply(9))
    request = ReadRequest(PEEK, FOREVER, cursor=9)
    waiting = Talk(queue.read(request))
    talk = Talk(queue.close())
    assert isinstance(Talk(queue.purge()).error, InvalidHandle)
    assert (talk.ask.opnum, talk.request) == (8, CancelReceiveRequest(HANDLE, request.request_id))
    talk.answer(OK)
    assert (talk.ask.opnum, talk.request) == (5, CloseCursorRequest(HANDLE, 9))
    talk.answer(FAILED)
    assert (talk.ask.opnum, talk.request) == (3, CloseQueueRequest(HANDLE))
    assert client.bindings()
    if isinstance(outcome, RpcFault):
        assert isinstance(talk.fail(outcome).error, RpcFault)
    else:
        assert talk.answer(outcome).error is None
    assert not waiting.is_over
    assert client.queues == set()
    assert client.bindings() == frozenset()
    for conversation in (queue.read(ReadRequest(PEEK)), queue.create_cursor(), queue.cancel(1), queue.close()):
        assert isinstance(Talk(conversation).error, InvalidHandle)
