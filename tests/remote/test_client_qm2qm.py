"""MS-MQQP 3.2: what a reader asks for over qm2qm and qmcomm."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.remote.conversing import (
    ARRIVED,
    FOREVER,
    HANDLE,
    IDENTITY,
    LOOKUP_ID,
    ME,
    ORDERS,
    OTHER_HANDLE,
    Talk,
    user_message,
)
from tests.rpc.calling import Wire
from tests.rpc.serving import NOW, Guids, toy_acceptors
from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import DecodeError, InvalidHandle, TransactionUsage
from waypost.hresult import HResult
from waypost.remote.client.conversations import MAPPED, Ask, Binding, CallFailed
from waypost.remote.client.qm2qm import Qm2QmClient, Qm2QmQueue
from waypost.remote.client.reads import ClientIdentity, Opening, ReadRequest, Transaction
from waypost.remote.interfaces.qm2qm import (
    QM2QM,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueReply,
    CloseQueueRequest,
    EndReceiveReply,
    EndReceiveRequest,
    GetServerPortReply,
    GetServerPortRequest,
    GetVersionReply,
    OpenQueueReply,
    OpenQueueRequest,
    PurgeQueueRequest,
    RemoteReadDesc,
    RemoteReadDesc2,
    StartReceive2Reply,
    StartReceive2Request,
    StartReceiveByLookupIdRequest,
    StartReceiveReply,
    StartReceiveRequest,
)
from waypost.remote.interfaces.qmcomm import (
    QMCOMM,
    CloseRemoteQueueContextReply,
    CloseRemoteQueueContextRequest,
    CreateRemoteCursorReply,
    CreateRemoteCursorRequest,
    OpenRemoteQueueReply,
)
from waypost.remote.interfaces.qmcomm import GetServerPortReply as RtPortReply
from waypost.remote.interfaces.qmcomm import GetServerPortRequest as RtPortRequest
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_errors import CallTimedOut, ConnectionFailed
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, ResultReply, decode_reply, encode_request
from waypost.rpc.pdu import PacketType
from waypost.rpc.server import Call, RpcServer, Service
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat

RECEIVE = ReceiveAction.MQ_ACTION_RECEIVE
PEEK = ReceiveAction.MQ_ACTION_PEEK_CURRENT
PEEK_NEXT = ReceiveAction.MQ_ACTION_PEEK_NEXT

OK = ResultReply()
FAILED = ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
NULL = ContextHandle()
READ_HANDLE = ContextHandle(0, b"r" * 16)
QUEUE, DESCRIPTOR, CONTEXT, CURSOR = 11, 22, 33, 44
OLD, NEW = GetVersionReply(5, 0, 2195), GetVersionReply(6, 1, 7600)


def at_open_queue(client: Qm2QmClient, opening: Opening) -> Talk[Qm2QmQueue]:
    """The conversation of an open up to RemoteQMOpenQueue."""
    talk = Talk(client.open(opening)).answer(RtPortReply(2103))
    talk.answer(OpenRemoteQueueReply(OTHER_HANDLE, CONTEXT, DESCRIPTOR, QUEUE))
    return talk.answer(GetServerPortReply(2105))


def opened(client: Qm2QmClient | None = None) -> Qm2QmQueue:
    talk = at_open_queue(client or Qm2QmClient(IDENTITY), Opening(ORDERS))
    return talk.answer(OpenQueueReply(HANDLE)).answer(CloseRemoteQueueContextReply()).result


def versioned(version: GetVersionReply = NEW) -> Qm2QmQueue:
    """A queue whose reads know already how to begin."""
    queue = opened()
    Talk(queue.create_cursor()).answer(CreateRemoteCursorReply(CURSOR))
    talk = Talk(queue.read(ReadRequest(PEEK))).answer(version)
    assert talk.ask.opnum in (0, 9)
    return queue


def packet_desc(packet: bytes | None = None) -> RemoteReadDesc:
    buffer = user_message().encode() if packet is None else packet
    return RemoteReadDesc(QUEUE, 0, 0, 0, DESCRIPTOR, 1, 1, ARRIVED, 0, buffer)


def start_reply(context: ContextHandle = NULL, packet: bytes | None = None) -> StartReceive2Reply:
    return StartReceive2Reply(context, RemoteReadDesc2(packet_desc(packet), 0x11223344556677))


# --- Opening


@pytest.mark.spec("MQQP-3.2.4.1-01")
def test_the_first_binding_names_the_port_and_the_second_is_used_until_the_queue_is_closed() -> None:
    client = Qm2QmClient(IDENTITY)
    talk = Talk(client.open(Opening(ORDERS))).answer(RtPortReply(2103))
    talk.answer(OpenRemoteQueueReply(OTHER_HANDLE, CONTEXT, DESCRIPTOR, QUEUE))
    assert (talk.ask.interface, talk.ask.opnum, talk.ask.port) == (QM2QM, 7, MAPPED)
    assert talk.request == GetServerPortRequest(1)
    talk.answer(GetServerPortReply(2116))
    assert (talk.ask.interface, talk.ask.opnum, talk.ask.port) == (QM2QM, 2, 2116)
    queue = talk.answer(OpenQueueReply(HANDLE)).answer(CloseRemoteQueueContextReply()).result
    assert client.bindings() == {Binding(QM2QM.uuid, 2116)}
    for conversation in (queue.purge(), queue.read(ReadRequest(PEEK)), queue.close()):
        assert Talk(conversation).ask.binding == Binding(QM2QM.uuid, 2116)


@pytest.mark.spec("MQQP-3.2.4.1-02")
def test_remote_qm_open_queue_has_the_numbers_of_the_open_by_name() -> None:
    talk = at_open_queue(Qm2QmClient(IDENTITY), Opening(ORDERS))
    assert talk.request == OpenQueueRequest(ME, 0, QUEUE, DESCRIPTOR, CONTEXT)


def test_the_queue_is_opened_by_name_over_qmcomm_and_its_handle_is_closed_when_it_is_not_needed_any_more() -> None:
    client = Qm2QmClient(IDENTITY)
    talk = Talk(client.open(Opening(ORDERS, AccessType.PEEK, ShareMode.DENY_RECEIVE)))
    assert (talk.ask.interface, talk.ask.opnum, talk.ask.port) == (QMCOMM, 31, MAPPED)
    assert talk.request == RtPortRequest(0)
    talk.answer(RtPortReply(2103))
    assert (talk.ask.interface, talk.ask.opnum, talk.ask.port) == (QMCOMM, 2, 2103)
    request = talk.request
    assert request.queue_format == QueueFormat.from_format_name(ORDERS)
    assert (request.desired_access, request.share_mode, request.lic_guid) == (0x20, 1, ME)
    talk.answer(OpenRemoteQueueReply(OTHER_HANDLE, CONTEXT, DESCRIPTOR, QUEUE))
    assert client.bindings() == {Binding(QMCOMM.uuid, 2103)}
    talk.answer(GetServerPortReply(2105)).answer(OpenQueueReply(HANDLE))
    assert (talk.ask.interface, talk.ask.opnum, talk.ask.port) == (QMCOMM, 3, 2103)
    assert talk.request == CloseRemoteQueueContextRequest(OTHER_HANDLE)
    assert client.bindings() == {Binding(QMCOMM.uuid, 2103), Binding(QM2QM.uuid, 2105)}
    assert talk.fail(ConnectionFailed("it was closed")).result in client.queues
    assert client.bindings() == {Binding(QM2QM.uuid, 2105)}


@pytest.mark.spec("MQQP-3.2.4.1-03")
@pytest.mark.parametrize(
    ("is_routing_server", "is_directory_server", "mqs"),
    [(False, False, 0), (True, False, 1), (False, True, 1), (True, True, 1)],
)
def test_a_routing_or_directory_server_says_so(is_routing_server: bool, is_directory_server: bool, mqs: int) -> None:  # noqa: FBT001
    identity = ClientIdentity(ME, is_routing_server=is_routing_server, is_directory_server=is_directory_server)
    assert at_open_queue(Qm2QmClient(identity), Opening(ORDERS)).request.mqs == mqs


@dataclass
class Silent:
    """A handler that answers nothing."""

    calls: list[Call] = field(default_factory=list)

    def call(self, call: Call, request: Any, now: Now) -> None:
        self.calls.append(call)

    def cancelled(self, call: Call, now: Now) -> None:
        """Nor then."""


def carried(ask: Ask, now: Now) -> Wire:
    """The call on its way to a server that does not answer, as a shell begins it."""
    service = Service(ask.interface, Silent())
    server = RpcServer({"2105": [service]}, toy_acceptors, Guids(), RpcSettings(AuthLevel.NONE))
    wire = Wire(ClientConnection([ask.interface]), server, listener="2105")
    assert ask.timeout_s is not None
    wire.connection.call(ask.interface, ask.opnum, ask.request, now.monotonic + ask.timeout_s)
    wire.run()
    return wire


@pytest.mark.spec("MQQP-3.2.4.1-04")
def test_an_open_that_is_not_answered_for_five_minutes_is_cancelled_at_once() -> None:
    talk = at_open_queue(Qm2QmClient(IDENTITY), Opening(ORDERS))
    wire = carried(talk.ask, NOW)
    wire.connection.expire(replace(NOW, monotonic=NOW.monotonic + 299.9))
    assert wire.connection.take_results() == []
    wire.connection.expire(replace(NOW, monotonic=NOW.monotonic + 300.0))
    ((call_id, error),) = wire.connection.take_results()
    wire.run()
    assert [(fragment.header.ptype, fragment.header.call_id) for fragment in wire.sent[-2:]] == [
        (PacketType.CO_CANCEL, call_id),
        (PacketType.ORPHANED, call_id),
    ]
    assert isinstance(error, CallTimedOut)
    # The handle of qmcomm, which would keep the queue open, is closed.
    talk.fail(error)
    assert talk.request == CloseRemoteQueueContextRequest(OTHER_HANDLE)
    assert talk.answer(CloseRemoteQueueContextReply()).error is error


@pytest.mark.spec("MQQP-3.2.4.1-05", "MQQP-3.2.1.4-01")
def test_each_open_queue_is_kept_with_its_two_handles() -> None:
    client = Qm2QmClient(IDENTITY)
    first = opened(client)
    talk = Talk(client.open(Opening(ORDERS))).answer(RtPortReply(2103))
    talk.answer(OpenRemoteQueueReply(OTHER_HANDLE, 7, 7, 7)).answer(GetServerPortReply(2105))
    second = talk.answer(OpenQueueReply(OTHER_HANDLE)).answer(CloseRemoteQueueContextReply()).result
    assert client.queues == {first, second}
    entries = [queue.entry for queue in (first, second)]
    assert [(entry.handle.queue, entry.rr_session_handle) for entry in entries] == [
        (QUEUE, HANDLE),
        (7, OTHER_HANDLE),
    ]


@pytest.mark.parametrize("reply", [OpenQueueReply(NULL, HResult.MQ_ERROR_INVALID_PARAMETER), OpenQueueReply(NULL)])
def test_an_open_that_fails_leaves_nothing_behind(reply: OpenQueueReply) -> None:
    client = Qm2QmClient(IDENTITY)
    talk = at_open_queue(client, Opening(ORDERS)).answer(reply)
    assert (talk.ask.opnum, talk.request) == (3, CloseRemoteQueueContextRequest(OTHER_HANDLE))
    assert isinstance(talk.answer(CloseRemoteQueueContextReply()).error, (CallFailed, DecodeError))
    assert client.queues == set()
    assert client.bindings() == frozenset()


def test_a_server_without_a_port_is_not_available() -> None:
    talk = Talk(Qm2QmClient(IDENTITY).open(Opening(ORDERS))).answer(RtPortReply(0))
    assert talk.status == HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE


# --- Reading


@pytest.mark.spec("MQQP-3.2.4.2-01", "MQQP-3.2.1.2-01", "MQQP-2.2.2.1-07")
def test_each_read_has_an_entry_with_a_number_of_its_own_while_it_lasts() -> None:
    client = Qm2QmClient(IDENTITY)
    queues = [opened(client), opened(client)]
    requests = [ReadRequest(PEEK, FOREVER) for _ in range(4)]
    talks = [Talk(queues[number % 2].read(request)) for number, request in enumerate(requests)]
    assert len({request.request_id for request in requests}) == 4
    for number, request in enumerate(requests):
        entry = client.pending.find(queues[number % 2], request.request_id)
        assert (entry.queue, entry.request, entry.remote_read_handle) == (queues[number % 2], request, NULL)
    for talk, request in zip(talks, requests, strict=True):
        assert talk.answer(NEW).request.remote_read_desc2.remote_read_desc.request_id == request.request_id
    talks[0].answer(start_reply())
    talks[1].answer(StartReceive2Reply(NULL, RemoteReadDesc2(RemoteReadDesc()), HResult.MQ_ERROR_IO_TIMEOUT))
    talks[2].fail(ConnectionFailed("it was closed"))
    assert [client.pending.of(queue) for queue in queues] == [[], [requests[3].request_id]]


@pytest.mark.spec("MQQP-2.2.2.1-08")
def test_a_number_is_not_used_again_before_its_receive_was_ended() -> None:
    client = Qm2QmClient(IDENTITY)
    queue = opened(client)
    request = ReadRequest(RECEIVE)
    talk = Talk(queue.read(request)).answer(NEW).answer(start_reply(READ_HANDLE))
    assert talk.ask.opnum == 1
    entry = client.pending.find(queue, request.request_id)
    assert entry.remote_read_handle == READ_HANDLE
    client.pending._numbers = iter(range(request.request_id, 1 << 40))  # type: ignore[misc, assignment]
    other = ReadRequest(RECEIVE)
    Talk(queue.read(other))
    assert other.request_id != request.request_id
    talk.answer(EndReceiveReply())
    assert client.pending.of(queue) == []


@pytest.mark.spec("MQQP-3.2.4.2-02", "MQQP-3.2.4.2-03")
@pytest.mark.parametrize(
    ("version", "opnum"),
    [
        ((4, 9, 9999), 0),
        ((5, 0, 2195), 0),
        ((5, 1, 950), 0),
        ((5, 1, 951), 9),
        ((5, 2, 0), 9),
        ((6, 0, 0), 9),
        ((6, 1, 7600), 9),
    ],
)
@pytest.mark.parametrize("action", [PEEK, RECEIVE])
def test_the_version_of_the_server_chooses_the_method(
    version: tuple[int, int, int], opnum: int, action: ReceiveAction
) -> None:
    queue = opened()
    talk = Talk(queue.read(ReadRequest(action)))
    assert (talk.ask.opnum, talk.request) == (8, Empty())
    assert talk.answer(GetVersionReply(*version)).ask.opnum == opnum
    assert Talk(queue.read(ReadRequest(action))).ask.opnum == opnum


def test_a_server_that_does_not_know_versions_is_an_old_one() -> None:
    talk = Talk(opened().read(ReadRequest(PEEK))).fail(RpcFault(FaultStatus.NCA_OP_RNG_ERROR))
    assert talk.ask.opnum == 0
    other = Talk(opened().read(ReadRequest(PEEK))).fail(RpcFault(FaultStatus.ACCESS_DENIED))
    assert other.status == FaultStatus.ACCESS_DENIED


def started(queue: Qm2QmQueue, request: ReadRequest, version: GetVersionReply) -> tuple[Talk[Any], RemoteReadDesc]:
    """A read and the descriptor that its first call has; SequentialId is 0 where there is one."""
    talk = Talk(queue.read(request))
    start = talk.request
    if version is OLD:
        assert talk.ask.opnum == 0
        assert isinstance(start, StartReceiveRequest)
        return talk, start.remote_read_desc
    assert talk.ask.opnum == 9
    assert isinstance(start, StartReceive2Request)
    assert start.remote_read_desc2.sequential_id == 0
    assert start.remote_read_desc2.remote_read_desc is not None
    return talk, start.remote_read_desc2.remote_read_desc


def reply_of(version: GetVersionReply, context: ContextHandle = NULL) -> StartReceiveReply | StartReceive2Reply:
    return StartReceiveReply(context, packet_desc()) if version is OLD else start_reply(context)


@pytest.mark.spec("MQQP-3.2.4.2-04", "MQQP-3.2.4.2-05", "MQQP-2.2.2.1-02")
@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("action", [PEEK, PEEK_NEXT])
def test_a_peek_has_its_descriptor_and_rebuilds_the_message(version: GetVersionReply, action: ReceiveAction) -> None:
    request = ReadRequest(action, 1500)
    talk, desc = started(versioned(version), request, version)
    assert desc == RemoteReadDesc(QUEUE, 0, action, 1500, DESCRIPTOR, request.request_id)
    assert (desc.buffer, desc.reserved) == (None, 0)
    received = talk.answer(reply_of(version)).result
    assert received.message == user_message_as_read()
    assert received.message.properties.message_body == b"twelve bytes"
    assert received.arrive_time == ARRIVED


def user_message_as_read() -> Any:
    return type(user_message()).decode(user_message().encode())


@pytest.mark.spec("MQQP-3.2.4.3-01", "MQQP-3.2.4.3-02", "MQQP-3.1.4.2-02", "MQQP-3.1.4.1-03")
@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_receive_is_ended_with_the_handle_it_got(version: GetVersionReply) -> None:
    queue = versioned(version)
    request, other = ReadRequest(RECEIVE, 1500), ReadRequest(RECEIVE)
    talk, desc = started(queue, request, version)
    Talk(queue.read(other))
    assert request.request_id != other.request_id
    assert desc == RemoteReadDesc(QUEUE, 0, RECEIVE, 1500, DESCRIPTOR, request.request_id)
    talk.answer(reply_of(version, READ_HANDLE))
    assert (talk.ask.opnum, talk.request) == (1, EndReceiveRequest(READ_HANDLE, 2))
    assert queue._client.pending.of(queue) == [request.request_id]
    received = talk.answer(EndReceiveReply()).result
    assert received.is_ended
    assert received.message.properties.message_body == b"twelve bytes"
    assert queue._client.pending.of(queue) == []


def test_a_message_that_cannot_be_rebuilt_is_given_back() -> None:
    talk = Talk(versioned().read(ReadRequest(RECEIVE))).answer(start_reply(READ_HANDLE, b"\xff" * 60))
    assert (talk.ask.opnum, talk.request) == (1, EndReceiveRequest(READ_HANDLE, 1))
    assert isinstance(talk.answer(EndReceiveReply()).error, DecodeError)
    talk = Talk(versioned().read(ReadRequest(RECEIVE))).answer(StartReceive2Reply(READ_HANDLE, RemoteReadDesc2()))
    assert talk.request == EndReceiveRequest(READ_HANDLE, 1)


def test_a_message_whose_end_fails_is_still_returned() -> None:
    talk = Talk(versioned().read(ReadRequest(RECEIVE))).answer(start_reply(READ_HANDLE))
    received = talk.answer(EndReceiveReply(NULL, HResult.MQ_ERROR_INVALID_HANDLE)).result
    assert received.message.properties.message_body == b"twelve bytes"
    assert not received.is_ended
    # Without a handle there is nothing to end.
    assert not Talk(versioned().read(ReadRequest(RECEIVE))).answer(start_reply(NULL)).result.is_ended


@pytest.mark.spec("MQQP-2.2-03")
@pytest.mark.parametrize(
    "hresult",
    [HResult.MQ_ERROR_IO_TIMEOUT, HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT, 0xC000000D, 0xC00E7777],
)
def test_every_failure_is_the_same_to_the_client(hresult: int) -> None:
    failed = ResultReply(hresult)
    read = Talk(versioned().read(ReadRequest(RECEIVE)))
    read.answer(StartReceive2Reply(READ_HANDLE, RemoteReadDesc2(packet_desc()), hresult))
    assert (read.status, type(read.error)) == (hresult, CallFailed)
    for conversation in (versioned().purge(), versioned().close_cursor(CURSOR)):
        talk = Talk(conversation).answer(failed)
        assert (talk.status, type(talk.error)) == (hresult, CallFailed)


@pytest.mark.spec("MQQP-3.1.4.2-02")
@pytest.mark.parametrize("action", [action for action in ReceiveAction if action.is_lookup])
def test_a_read_by_lookup_identifier_has_its_own_method(action: ReceiveAction) -> None:
    request = ReadRequest(action, lookup_id=LOOKUP_ID)
    talk = Talk(opened().read(request))
    assert talk.ask.opnum == 10
    desc = RemoteReadDesc(QUEUE, 0, action, 0, DESCRIPTOR, request.request_id)
    assert talk.request == StartReceiveByLookupIdRequest(LOOKUP_ID, RemoteReadDesc2(desc))
    talk.answer(start_reply(NULL if action.is_peek else READ_HANDLE))
    if not action.is_peek:
        assert talk.request == EndReceiveRequest(READ_HANDLE, 2)
        talk.answer(EndReceiveReply())
    assert talk.result.lookup_id == LOOKUP_ID


def test_qm2qm_knows_no_transactions() -> None:
    talk = Talk(opened().read(ReadRequest(RECEIVE, transaction=Transaction(b"t" * 16))))
    assert isinstance(talk.error, TransactionUsage)


# --- Purge, cursors, cancels, ends


@pytest.mark.spec("MQQP-3.2.4.4-01")
def test_a_purge_names_the_queue() -> None:
    talk = Talk(opened().purge())
    assert (talk.ask.opnum, talk.request) == (6, PurgeQueueRequest(QUEUE))
    assert talk.answer(OK).error is None


@pytest.mark.spec("MQQP-3.1.4.7-05")
def test_a_failure_of_a_purge_is_the_same_returned_and_raised() -> None:
    status = HResult.MQ_ERROR_ACCESS_DENIED
    returned = Talk(opened().purge()).answer(ResultReply(status))
    raised = Talk(opened().purge()).fail(RpcFault(status))
    assert isinstance(returned.error, CallFailed)
    assert isinstance(raised.error, CallFailed)
    assert str(returned.error) == str(raised.error)
    assert returned.status == raised.status == status


def test_a_cursor_is_made_over_qmcomm() -> None:
    talk = Talk(opened().create_cursor())
    assert talk.ask.binding == Binding(QMCOMM.uuid, 2103)
    assert (talk.ask.opnum, talk.request) == (4, CreateRemoteCursorRequest(QUEUE))
    assert talk.answer(CreateRemoteCursorReply(CURSOR)).result == CURSOR


@pytest.mark.spec("MQQP-3.2.4.5-01")
@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("action", [PEEK, PEEK_NEXT])
def test_a_peek_by_cursor_has_the_cursor_and_no_end(version: GetVersionReply, action: ReceiveAction) -> None:
    request = ReadRequest(action, 10, cursor=CURSOR)
    talk, desc = started(versioned(version), request, version)
    assert desc == RemoteReadDesc(QUEUE, CURSOR, action, 10, DESCRIPTOR, request.request_id)
    assert talk.answer(reply_of(version)).result.message.properties.message_body == b"twelve bytes"


@pytest.mark.spec("MQQP-3.2.4.6-01")
@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_receive_by_cursor_has_the_cursor_and_is_ended(version: GetVersionReply) -> None:
    request = ReadRequest(RECEIVE, 10, cursor=CURSOR)
    talk, desc = started(versioned(version), request, version)
    assert desc == RemoteReadDesc(QUEUE, CURSOR, RECEIVE, 10, DESCRIPTOR, request.request_id)
    talk.answer(reply_of(version, READ_HANDLE))
    assert talk.request == EndReceiveRequest(READ_HANDLE, 2)
    assert talk.answer(EndReceiveReply()).result.is_ended


@pytest.mark.spec("MQQP-3.2.4.7-01", "MQQP-3.1.4.1-03")
@pytest.mark.parametrize("action", [PEEK, RECEIVE])
@pytest.mark.parametrize("outcome", [OK, FAILED])
def test_a_cancel_names_the_entry_and_removes_it(action: ReceiveAction, outcome: ResultReply) -> None:
    queue = versioned()
    request = ReadRequest(action, FOREVER)
    waiting = Talk(queue.read(request))
    talk = Talk(queue.cancel(request.request_id))
    assert talk.ask.opnum == 5
    assert talk.request == CancelReceiveRequest(QUEUE, DESCRIPTOR, request.request_id)
    talk.answer(outcome)
    assert queue._client.pending.of(queue) == []
    assert isinstance(Talk(queue.cancel(request.request_id)).error, InvalidHandle)
    status = HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT
    waiting.answer(StartReceive2Reply(NULL, RemoteReadDesc2(RemoteReadDesc()), status))
    assert waiting.status == status


def test_a_message_that_comes_in_spite_of_a_cancel_is_received() -> None:
    queue = versioned()
    request = ReadRequest(RECEIVE, FOREVER)
    waiting = Talk(queue.read(request))
    Talk(queue.cancel(request.request_id)).answer(FAILED)
    waiting.answer(start_reply(READ_HANDLE))
    assert waiting.request == EndReceiveRequest(READ_HANDLE, 2)
    assert waiting.answer(EndReceiveReply()).result.is_ended


@pytest.mark.spec("MQQP-3.2.4.8-01")
def test_a_cursor_is_closed_by_its_queue_and_its_number() -> None:
    queue = versioned()
    talk = Talk(queue.close_cursor(CURSOR))
    assert (talk.ask.opnum, talk.request) == (4, CloseCursorRequest(QUEUE, CURSOR))
    assert talk.answer(OK).error is None
    assert isinstance(Talk(queue.close_cursor(CURSOR)).error, InvalidHandle)
    assert isinstance(Talk(queue.read(ReadRequest(PEEK, cursor=CURSOR))).error, InvalidHandle)


@pytest.mark.spec("MQQP-3.2.4.9-01", "MQQP-3.2.4.9-02")
@pytest.mark.parametrize("outcome", [CloseQueueReply(), CloseQueueReply(HANDLE, HResult.MQ_ERROR)])
def test_a_queue_is_closed_after_its_reads_were_cancelled(outcome: CloseQueueReply) -> None:
    client = Qm2QmClient(IDENTITY)
    queue, other = opened(client), opened(client)
    requests = [ReadRequest(PEEK, FOREVER) for _ in range(2)]
    waiting = [Talk(queue.read(request)) for request in requests]
    foreign = Talk(other.read(ReadRequest(PEEK, FOREVER)))
    talk = Talk(queue.close())
    for request, answer in zip(requests, (OK, FAILED), strict=True):
        assert talk.request == CancelReceiveRequest(QUEUE, DESCRIPTOR, request.request_id)
        talk.answer(answer)
    assert (talk.ask.opnum, talk.request) == (3, CloseQueueRequest(HANDLE))
    talk.answer(outcome)
    assert client.queues == {other}
    assert client.bindings() == {Binding(QM2QM.uuid, 2105)}
    assert not foreign.is_over
    assert not any(read.is_over for read in waiting)
    for conversation in (queue.read(ReadRequest(PEEK)), queue.purge(), queue.create_cursor(), queue.close()):
        assert isinstance(Talk(conversation).error, InvalidHandle)
    Talk(other.close()).answer(OK).answer(CloseQueueReply())
    assert client.bindings() == frozenset()


@pytest.mark.spec("MQQP-3.1.4.4-01")
def test_remote_qm_close_queue_is_called_once_for_each_open_that_succeeded() -> None:
    client = Qm2QmClient(IDENTITY)
    failed = at_open_queue(client, Opening(ORDERS)).answer(OpenQueueReply(NULL, HResult.MQ_ERROR_INVALID_PARAMETER))
    assert failed.ask.interface is QMCOMM, "only what qmcomm has opened is closed"
    assert failed.answer(CloseRemoteQueueContextReply()).is_over
    handles = [ContextHandle(0, bytes([number]) * 16) for number in range(1, 4)]
    queues = [
        at_open_queue(client, Opening(ORDERS)).answer(OpenQueueReply(handle)).answer(CloseRemoteQueueContextReply())
        for handle in handles
    ]
    close_queue = QM2QM.methods[3]
    for talk, handle, status in zip(queues, handles, (HResult.MQ_OK, HResult.MQ_ERROR, None), strict=True):
        queue = talk.result
        closing = Talk(queue.close())
        assert (closing.ask.interface, closing.ask.opnum) == (QM2QM, 3)
        assert encode_request(close_queue, closing.ask.request, NdrSyntax.NDR20) == bytes(4) + handle.uuid
        if status is None:
            closing.fail(ConnectionFailed("it was closed"))
        else:
            stub = bytes(20) + status.to_bytes(4, "little")
            closing.answer(decode_reply(close_queue, stub, NdrSyntax.NDR20))
        assert closing.is_over
        again = Talk(queue.close())
        assert again.is_over
        assert isinstance(again.error, InvalidHandle)
