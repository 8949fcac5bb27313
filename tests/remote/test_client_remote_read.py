"""MS-MQRR 3.2.4.1 to 3.2.4.4: how a reader opens a queue over RemoteRead, peeks and receives."""

import pytest

from tests.remote.conversing import (
    ARRIVED,
    FOREVER,
    HANDLE,
    LOOKUP_ID,
    ME,
    ORDERS,
    SHELF,
    Talk,
    damaged_reply,
    new_guids,
    receive_reply,
    user_message,
)
from tests.remote.remote_reading import (
    EMPTY_LIMITS,
    FAILED,
    OK,
    PEEK,
    PEEKS,
    RECEIVE,
    RECEIVES,
    TRANSACTION,
    enlisted,
    new_client,
    opened,
)
from tests.remote.test_client_qm2qm import carried
from tests.rpc.serving import NOW
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import DecodeError, UnsupportedAccessMode
from waypost.hresult import HResult
from waypost.remote.client.conversations import CALL_TIMEOUT_S, MAPPED, Binding, CallFailed
from waypost.remote.client.reads import ClientIdentity, Opening, ReadRequest
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CreateCursorReply,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    GetServerPortReply,
    OpenQueueReply,
    ReceiveAction,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.rpc.calls import Fault, FaultStatus
from waypost.rpc.client_errors import ConnectionFailed
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, encode_reply
from waypost.rpc.pdu import fragment_of
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import BodyLimits, ReceiveReply

# --- Opening


@pytest.mark.spec("MQRR-3.2.4.1-01", "MQRR-3.2.1-01")
def test_a_queue_is_opened_by_name_access_and_share_and_its_handle_is_kept() -> None:
    client = new_client()
    talk = Talk(client.open(Opening(ORDERS, AccessType.PEEK, ShareMode.DENY_RECEIVE)))
    assert talk.ask.interface is REMOTE_READ
    assert talk.ask.opnum == 2
    assert talk.request.queue_format == QueueFormat.from_format_name(ORDERS)
    assert (talk.request.access, talk.request.share_mode) == (0x20, 1)
    queue = talk.answer(OpenQueueReply(HANDLE)).result
    assert client.queues == {queue}
    assert queue.context == HANDLE
    assert Talk(queue.purge()).request.context == HANDLE
    assert Talk(queue.create_cursor()).request.context == HANDLE
    assert Talk(queue.read(ReadRequest(PEEK))).request.context == HANDLE
    assert Talk(client.open(Opening(ORDERS))).request.access == 1
    cursor = Talk(queue.create_cursor()).answer(CreateCursorReply(77)).result
    assert queue.cursors == {cursor}


@pytest.mark.spec("MQRR-3.2.4.1-02")
def test_a_client_may_ask_for_the_port_first_and_go_there() -> None:
    client = new_client()
    talk = Talk(client.find_port())
    assert (talk.ask.opnum, talk.ask.port, talk.request) == (0, MAPPED, Empty())
    assert talk.answer(GetServerPortReply(2114)).is_over
    opening = Talk(client.open(Opening(ORDERS)))
    assert opening.ask.port == 2114
    queue = opening.answer(OpenQueueReply(HANDLE)).result
    assert Talk(queue.purge()).ask.port == 2114
    assert client.bindings() == {Binding(REMOTE_READ.uuid, 2114)}
    assert Talk(new_client().open(Opening(ORDERS))).ask.port == MAPPED


@pytest.mark.parametrize("port", [0, 0x10000])
def test_what_is_no_port_is_a_failure_and_changes_nothing(port: int) -> None:
    client = new_client()
    talk = Talk(client.find_port()).answer(GetServerPortReply(port))
    assert isinstance(talk.error, CallFailed)
    assert client.port == MAPPED


@pytest.mark.spec("MQRR-3.2.3-01")
def test_only_the_time_outs_of_the_rpc_layer_are_asked_for() -> None:
    client = new_client()
    queue = opened(client)
    for limited in (
        Talk(client.open(Opening(ORDERS))),
        Talk(client.open_for_move(SHELF)),
        Talk(client.enlist(TRANSACTION, ORDERS)),
    ):
        assert limited.ask.timeout_s == CALL_TIMEOUT_S == 300.0
        assert limited.ask.binding == Binding(REMOTE_READ.uuid, MAPPED)
    request = ReadRequest(timeout_ms=FOREVER)
    for unlimited in (
        Talk(queue.read(request)),
        Talk(queue.purge()),
        Talk(queue.create_cursor()),
        Talk(queue.cancel(request.request_id)),
        Talk(client.find_port()),
    ):
        assert unlimited.ask.timeout_s is None
        assert unlimited.ask.binding == Binding(REMOTE_READ.uuid, MAPPED)


@pytest.mark.spec("MQRR-3.1.4.2-14")
def test_a_client_says_whether_it_is_in_a_domain() -> None:
    for is_member, workgroup in ((False, 1), (True, 0)):
        client = RemoteReadClient(ClientIdentity(ME, is_domain_member=is_member), new_guids())
        assert Talk(client.open(Opening(ORDERS))).request.workgroup == workgroup
        assert Talk(client.open_for_move(SHELF)).request.workgroup == workgroup


def test_a_client_says_who_it_is() -> None:
    for is_routing_server, non_routing_server in ((False, 1), (True, 0)):
        client = RemoteReadClient(
            ClientIdentity(ME, is_routing_server=is_routing_server, version=(6, 2, 9200)), new_guids()
        )
        request = Talk(client.open(Opening(ORDERS))).request
        assert request.client_id == ME
        assert request.non_routing_server == non_routing_server
        assert (request.major, request.minor, request.build_number) == (6, 2, 9200)


@pytest.mark.spec("MQRR-3.1.4.2-17")
@pytest.mark.parametrize(
    "status",
    [
        HResult.MQ_ERROR_QUEUE_NOT_FOUND,
        HResult.MQ_ERROR_SHARING_VIOLATION,
        HResult.MQ_ERROR_ACCESS_DENIED,
        HResult.STATUS_INVALID_PARAMETER,
        0xC00E7777,
        0xE00E0001,
    ],
)
def test_a_raised_failure_leaves_nothing_open(status: int) -> None:
    """Whichever it is, and if a handle comes with it. That the server raises all is in test_remote_read_opening."""
    client = new_client()
    talk = Talk(client.open(Opening(ORDERS)))
    wire = carried(talk.ask, NOW)
    request = wire.sent[-1]
    stub = encode_reply(REMOTE_READ.methods[2], OpenQueueReply(HANDLE), NdrSyntax.NDR20)
    wire.connection.feed(fragment_of(Fault(status, rest=bytes(4) + stub), request.header.call_id).encode())
    ((_, error),) = wire.connection.take_results()
    assert isinstance(error, RpcFault)
    talk.fail(error)
    assert (talk.status, type(talk.error)) == (status, CallFailed)
    assert "R_OpenQueue" in str(talk.error)
    assert client.queues == set()
    assert client.bindings() == frozenset()


def test_a_fault_of_the_rpc_layer_stays_one() -> None:
    talk = Talk(new_client().open(Opening(ORDERS))).fail(RpcFault(FaultStatus.ACCESS_DENIED))
    assert isinstance(talk.error, RpcFault)


def test_a_null_handle_is_no_open_queue() -> None:
    client = new_client()
    talk = Talk(client.open(Opening(ORDERS))).answer(OpenQueueReply(ContextHandle()))
    assert isinstance(talk.error, DecodeError)
    assert client.queues == set()


def test_a_queue_is_not_opened_for_sending() -> None:
    assert isinstance(Talk(new_client().open(Opening(ORDERS, AccessType.SEND))).error, UnsupportedAccessMode)


# --- Peeks


@pytest.mark.spec("MQRR-3.2.4.3-01")
@pytest.mark.parametrize("action", PEEKS)
def test_a_peek_is_one_call_with_what_the_application_gave(action: ReceiveAction) -> None:
    client = new_client()
    queue = opened(client)
    lookup_id = LOOKUP_ID if action.is_lookup else 0
    request = ReadRequest(action, 1500, lookup_id=lookup_id, limits=BodyLimits(5, 600))
    talk = Talk(queue.read(request))
    other = Talk(queue.read(ReadRequest(PEEK)))
    assert talk.ask.opnum == 7
    assert talk.request == StartReceiveRequest(HANDLE, lookup_id, 0, action, 1500, request.request_id, 5, 600)
    assert other.request.request_id != request.request_id
    received = talk.answer(receive_reply(BodyLimits(5, 600))).result
    assert received.message.properties.message_body == b"twelv" + bytes(7)
    assert (received.left_out, received.arrive_time, received.sequence_id) == (7, ARRIVED, 0x11223344556677)


def test_a_failure_of_a_read_is_its_result_and_no_end_follows() -> None:
    reply = receive_reply()
    for hresult in (HResult.MQ_ERROR_IO_TIMEOUT, HResult.MQ_INFORMATION_OPERATION_PENDING, 0xC00E7777):
        for action in (PEEK, RECEIVE):
            reply.hresult = hresult
            talk = Talk(opened().read(ReadRequest(action))).answer(reply)
            assert isinstance(talk.error, CallFailed)
            assert talk.status == hresult


def test_a_rebuilt_message_is_what_was_sent() -> None:
    received = Talk(opened().read(ReadRequest(PEEK))).answer(receive_reply()).result
    sent = user_message()
    assert received.message.base.time_to_reach_queue == sent.base.time_to_reach_queue == 100
    assert received.message.properties == sent.properties
    assert received.packet.extension is not None
    assert received.left_out == 0
    assert received.lookup_id == LOOKUP_ID


def test_the_lookup_identifier_of_a_transactional_message_has_priority_0() -> None:
    received = Talk(opened().read(ReadRequest(PEEK))).answer(receive_reply(is_transactional=True)).result
    assert received.lookup_id == 0x07_11223344556677


def test_an_infinite_time_to_reach_the_queue_stays_infinite() -> None:
    reply = receive_reply()
    (section,) = reply.sections
    section.data = section.data[:12] + b"\xff" * 4 + section.data[16:]
    received = Talk(opened().read(ReadRequest(PEEK))).answer(reply).result
    assert received.message.base.time_to_reach_queue == 0xFFFFFFFF


def test_a_compound_message_is_never_cut_so_short_that_nothing_can_be_read() -> None:
    request = Talk(opened().read(ReadRequest(PEEK, limits=EMPTY_LIMITS))).request
    assert (request.max_body_size, request.max_compound_message_size) == (0, 16)


# --- Receives


@pytest.mark.spec("MQRR-3.2.4.4-01", "MQRR-3.2.4.4.1-01")
@pytest.mark.parametrize("action", RECEIVES)
def test_a_receive_without_a_transaction_is_started_and_ended(action: ReceiveAction) -> None:
    queue = opened()
    lookup_id = LOOKUP_ID if action.is_lookup else 0
    request = ReadRequest(action, 700, lookup_id=lookup_id)
    talk = Talk(queue.read(request))
    assert talk.ask.opnum == 7
    start = talk.request
    assert (start.context, start.lookup_id, start.cursor) == (HANDLE, lookup_id, 0)
    assert (start.action, start.timeout) == (action, 700)
    talk.answer(receive_reply())
    assert talk.ask.opnum == 9
    assert talk.request == EndReceiveRequest(HANDLE, 2, start.request_id)
    received = talk.answer(OK).result
    assert received.message.properties.message_body == b"twelve bytes"
    assert received.is_ended


@pytest.mark.spec("MQRR-3.2.4.4-01", "MQRR-3.2.4.4.2-01", "MQRR-3.2.4.4.2-02")
def test_a_receive_in_a_transaction_enlists_starts_and_ends() -> None:
    client = new_client()
    queue = opened(client)
    request = ReadRequest(RECEIVE, 700, transaction=TRANSACTION)
    talk = Talk(queue.read(request))
    assert talk.ask.opnum == 12
    talk.answer(OK)
    assert talk.ask.opnum == 13
    start = talk.request
    assert isinstance(start, StartTransactionalReceiveRequest)
    assert (start.context, start.cursor, start.lookup_id) == (HANDLE, 0, 0)
    assert (start.action, start.timeout, start.transaction_id) == (RECEIVE, 700, TRANSACTION.identifier)
    talk.answer(receive_reply())
    assert talk.ask.opnum == 15
    assert talk.request == EndTransactionalReceiveRequest(HANDLE, 2, start.request_id)
    assert talk.answer(OK).result.transaction == TRANSACTION
    again = Talk(queue.read(ReadRequest(RECEIVE, transaction=TRANSACTION)))
    assert again.ask.opnum == 13
    again.answer(damaged_reply())
    assert again.request == EndTransactionalReceiveRequest(HANDLE, 1, again.request.request_id)
    assert again.ask.opnum == 15
    assert isinstance(again.answer(OK).error, DecodeError)


@pytest.mark.spec("MQRR-3.2.4.4.1-02")
def test_a_message_that_cannot_be_rebuilt_is_given_back() -> None:
    queue = opened()
    request = ReadRequest(RECEIVE)
    for outcome in (OK, FAILED):
        talk = Talk(queue.read(request)).answer(damaged_reply())
        assert talk.ask.opnum == 9
        assert talk.request == EndReceiveRequest(HANDLE, 1, request.request_id)
        assert isinstance(talk.answer(outcome).error, DecodeError)
    # The same if the connection cannot make a reply of the answer.
    talk = Talk(queue.read(request)).fail(DecodeError("MS-MQRR 2.2.6", "ppPacketSections", 0, "it is NULL"))
    assert talk.request == EndReceiveRequest(HANDLE, 1, request.request_id)
    # And a message without sections is none.
    talk = Talk(queue.read(request)).answer(ReceiveReply())
    assert talk.request.ack == 1


def test_a_peek_that_cannot_be_rebuilt_gives_nothing_back() -> None:
    assert isinstance(Talk(opened().read(ReadRequest(PEEK))).answer(damaged_reply()).error, DecodeError)


@pytest.mark.spec("MQRR-3.2.4.4.1-03")
def test_a_message_whose_end_fails_is_still_returned() -> None:
    for error in (None, RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH), ConnectionFailed("it was closed")):
        talk = Talk(opened().read(ReadRequest(RECEIVE))).answer(receive_reply())
        received = (talk.answer(FAILED) if error is None else talk.fail(error)).result
        assert received.message.properties.message_body == b"twelve bytes"
        assert not received.is_ended


@pytest.mark.spec("MQRR-3.2.4.4.2-03")
def test_in_a_transaction_a_failed_end_is_the_result() -> None:
    talk = enlisted(Talk(opened().read(ReadRequest(RECEIVE, transaction=TRANSACTION)))).answer(receive_reply())
    talk.answer(FAILED)
    assert talk.status == FAILED.hresult
    talk = enlisted(Talk(opened().read(ReadRequest(RECEIVE, transaction=TRANSACTION)))).answer(receive_reply())
    assert isinstance(talk.fail(ConnectionFailed("it was closed")).error, ConnectionFailed)
