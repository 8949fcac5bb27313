"""RemoteRead behind the RPC server: MS-MQRR 1.9, 2.1, 2.2, 2.2.4 and 3.1.4.1 as a client on a connection sees them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.remote.harness import Host
from tests.remote.reader import ACK, DENY_NONE, INFINITE, MOVE, NACK, RECEIVE, UOW, WHOLE, queue_format, serve
from tests.rpc.serving import NOW, Guids, Peer, ToyContext, offer, toy_acceptors, trailer
from waypost.clock import Now
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    MoveMessageRequest,
    OpenQueueForMoveRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    ReceiveAction,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.remote.remote_read.coordinator import local_token
from waypost.remote.remote_read.server import RemoteReadServer
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import NDR20, NDR64, Auth3, Bind, BindResult, RejectionReason, SyntaxId
from waypost.rpc.calls import Assembly, Fault, FaultStatus, Response
from waypost.rpc.interface import Empty, Parameters, decode_reply, encode_request
from waypost.rpc.pdu import PFC_SUPPORT_HEADER_SIGN, Fragment, PacketType, fragment_of
from waypost.rpc.pdu import WHOLE as WHOLE_PDU
from waypost.rpc.protection import Protection
from waypost.rpc.server import RpcServer, Service
from waypost.rpc.server_calls import Call
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections

OPEN_TO_ALL = RemoteSettings(allows_nonauthenticated_rpc=True)
TWIN = replace(REMOTE_READ, uuid=b"\x42" * 16)


class Site:
    """A queue manager with its RPC server; a second interface on 2105 has the same handler."""

    def __init__(self, settings: RemoteSettings = OPEN_TO_ALL) -> None:
        self.host = Host(settings)
        self.host.now = NOW
        served = serve(self.host)
        twin = Service(TWIN, served, served.service.min_level)
        listeners = {"2103": [served.service], "2105": [served.service, twin]}
        self.rpc = RpcServer(listeners, toy_acceptors, Guids(), RpcSettings())
        self.connections = 0

    def connect(self, *syntaxes: SyntaxId, group: int = 0, listener: str = "2103") -> "Line":
        line = self.dial(listener)
        answer = line.bind(offer(0, *syntaxes, abstract=REMOTE_READ.syntax), group=group)
        assert answer.results[0].result == BindResult.ACCEPTANCE
        line.group = answer.assoc_group_id
        line.syntax = NdrSyntax.NDR64 if answer.results[0].transfer == NDR64 else NdrSyntax.NDR20
        return line

    def dial(self, listener: str = "2103") -> "Line":
        self.connections += 1
        line = Line(self.rpc, self.connections, listener)
        line.host = self.host
        return line


class Line(Peer):
    """A connection of a remote reader."""

    host: Host
    group: int
    syntax: NdrSyntax = NdrSyntax.NDR20
    last_call = 1

    def begin(self, opnum: int, request: Parameters, context_id: int = 0) -> list[Fragment]:
        """The bytes that came on this connection until nothing more happens; each call has a separate number."""
        self.last_call += 1
        stub = encode_request(REMOTE_READ.methods[opnum], request, self.syntax)
        came = self.send(b"".join(self.requests(opnum, stub, self.last_call, context_id=context_id)))
        self.host.pump()
        return came + self.take()

    def reply(self, opnum: int, fragments: list[Fragment]) -> Any:
        """The record of the reply, or the status of the fault."""
        if fragments[0].header.ptype == PacketType.FAULT:
            return Fault.decode(fragments[0]).status
        assembly = Assembly(Response, 0x0100_0000)
        for fragment in fragments:
            whole = assembly.add(fragment if self.security is None else self.security.unprotect(fragment))
        assert whole is not None
        return decode_reply(REMOTE_READ.methods[opnum], whole.stub_data, self.syntax)

    def do(self, opnum: int, request: Parameters, context_id: int = 0) -> Any:
        return self.reply(opnum, self.begin(opnum, request, context_id))

    def open(self, name: str = "orders") -> ContextHandle:
        handle = self.do(2, OpenQueueRequest(queue_format(name), RECEIVE, DENY_NONE)).context
        assert isinstance(handle, ContextHandle)
        return handle

    def identify(self, name: str, level: AuthLevel) -> None:
        """A bind in three legs, for a client that says who it is."""
        bind = fragment_of(
            Bind(5840, 5840, 0, [offer(0, abstract=REMOTE_READ.syntax)]), 1, WHOLE_PDU | PFC_SUPPORT_HEADER_SIGN
        )
        self.send(bind.authenticate(trailer(level), b"hello " + name.encode()).encode())
        self.security = Protection(ToyContext(is_client=True), level, 0x51, True)
        self.send(fragment_of(Auth3(), 1).authenticate(trailer(level), b"proof " + name.encode()).encode())


def start(handle: ContextHandle, request_id: int, timeout: int = 0, action: int = 0) -> StartReceiveRequest:
    return StartReceiveRequest(handle, 0, 0, action, timeout, request_id, WHOLE, WHOLE)


def label(reply: Any) -> str:
    assert isinstance(reply, ReceiveReply)
    return RemotePacket.decode(join_sections(reply.sections)).message().properties.label or ""


def everything(site: Site, line: Line, other: Line) -> list[object]:
    """The answers of each method in a life of a reader on two connections, without the handles."""
    host, seen = site.host, []
    ids = [host.put(name, host.ledger) for name in "abcdef"]
    seen.append(line.do(0, Empty()))
    handle = line.open("ledger")
    cursor = other.do(4, CreateCursorRequest(handle))
    seen.append(other.do(5, CloseCursorRequest(handle, cursor.cursor)))
    seen.append(line.do(7, start(handle, 1)))
    seen.append(other.do(9, EndReceiveRequest(handle, ACK, 1)))
    seen.append(line.do(8, CancelReceiveRequest(handle, 1)))
    target = other.do(11, OpenQueueForMoveRequest(queue_format("ledger;late"), MOVE, DENY_NONE))
    seen.append(line.do(10, MoveMessageRequest(handle, target.move_context, ids[1])))
    seen.append(other.do(12, QMEnlistRemoteTransactionRequest(UOW, local_token(UOW), queue_format("ledger"))))
    by_lookup = (handle, ids[2], 0, ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT, 0, 2, 0, 0)
    seen.append(line.do(13, StartTransactionalReceiveRequest(*by_lookup, UOW)))
    seen.append(other.do(15, EndTransactionalReceiveRequest(handle, ACK, 2)))
    seen.append(line.do(14, SetUserAcknowledgementClassRequest(handle, ids[2], 0xC004)))
    host.decide_commit(UOW)
    seen.append(other.do(6, PurgeQueueRequest(handle)))
    seen.append(line.do(3, CloseQueueRequest(handle)))
    seen.append(host.reasons[:])
    return seen


@pytest.mark.spec("MQRR-2.2-01")
def test_every_method_is_the_same_in_both_syntaxes() -> None:
    outcomes = []
    for offered, chosen in (
        ([NDR20], NdrSyntax.NDR20),
        ([NDR64], NdrSyntax.NDR64),
        ([NDR20, NDR64], None),
    ):
        site = Site()
        line = site.connect(*offered)
        assert chosen in (None, line.syntax)
        outcomes.append(everything(site, line, line))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    statuses = [getattr(reply, "hresult", 0) for reply in outcomes[0]]
    assert [status for status in statuses if status] == [HResult.STATUS_NOT_FOUND], "no call is waiting"


@pytest.mark.spec("MQRR-3.1.4.1-05", "MQRR-2.2.4-02")
def test_every_method_works_over_the_first_and_the_second_binding() -> None:
    one = Site()
    line = one.connect()
    alone = everything(one, line, line)
    two = Site()
    first = two.connect()
    port = first.do(0, Empty()).port
    second = two.connect(group=first.group, listener=str(port))
    assert everything(two, first, second) == alone
    third = Site()
    first = third.connect()
    assert everything(third, third.connect(group=first.group), first) == alone


@pytest.mark.spec("MQRR-1.9-01")
def test_the_interface_is_bound_by_its_uuid_and_major_version() -> None:
    site = Site()
    uuid = REMOTE_READ.syntax.uuid
    assert uuid == bytes.fromhex("dd34911a397bba45ad8844d01ca47f28")
    assert REMOTE_READ.syntax.version == 1
    for version, is_accepted in ((1, True), (2, False), (0, False)):
        result = site.dial().bind(offer(0, abstract=SyntaxId(uuid, version))).results[0]
        if is_accepted:
            assert result.result == BindResult.ACCEPTANCE
        else:
            assert result.result == BindResult.PROVIDER_REJECTION
            assert result.reason == RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED


@pytest.mark.spec("MQRR-2.1-04")
def test_anybody_connects_and_the_methods_decide() -> None:
    site = Site(RemoteSettings())
    nobody = site.connect()
    assert nobody.do(0, Empty()).port == 2103
    request = OpenQueueRequest(queue_format("orders"), RECEIVE, DENY_NONE)
    assert nobody.do(2, request) == FaultStatus.ACCESS_DENIED
    for name, level in (("CORP\\alice", AuthLevel.PRIVACY), ("CORP\\bob", AuthLevel.INTEGRITY)):
        line = site.dial()
        line.identify(name, level)
        assert line.do(0, Empty()).port == 2103
        reply = line.do(2, request)
        if level is AuthLevel.PRIVACY:
            assert not reply.context.is_null
            assert site.host.asked[-1][0].name == name
        else:
            assert reply == FaultStatus.ACCESS_DENIED


@pytest.mark.spec("MQRR-2.2.4.1-01", "MQRR-3.1.4.8-01")
@pytest.mark.parametrize("on_the_same", [True, False])
def test_other_calls_go_on_while_some_wait_on_the_same_handle(*, on_the_same: bool) -> None:
    site = Site()
    line = site.connect()
    other = line if on_the_same else site.connect(group=line.group)
    handle = line.open()
    assert line.begin(7, start(handle, 1, INFINITE)) == []
    assert line.begin(7, start(handle, 2, INFINITE)) == []
    cancelled_call = line.last_call - 1
    came = other.begin(8, CancelReceiveRequest(handle, 1))
    came += [] if on_the_same else line.take()
    replies = {fragment.header.call_id: fragment for fragment in came}
    ended = line.reply(7, [replies.pop(cancelled_call)])
    assert ended.hresult == HResult.MQ_ERROR_OPERATION_CANCELLED
    (answer,) = replies.values()
    assert other.reply(8, [answer]).hresult == HResult.MQ_OK
    site.host.put("a")
    assert label(line.reply(7, line.take())) == "a"


@pytest.mark.spec("MQRR-2.2.4.2-01")
def test_a_handle_is_closed_by_one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    first = site.dial("2105")
    group = first.bind(offer(0, abstract=REMOTE_READ.syntax), offer(1, abstract=TWIN.syntax)).assoc_group_id
    second = site.connect(group=group, listener="2105")
    closes: list[Call] = []
    serve_call = RemoteReadServer.call

    def watched(server: RemoteReadServer, call: Call, request: Any, now: Now) -> None:
        if isinstance(request, CloseQueueRequest):
            assert not any(close.is_open for close in closes), "the close before is not over"
            closes.append(call)
        serve_call(server, call, request, now)

    monkeypatch.setattr(RemoteReadServer, "call", watched)
    handle = first.open()
    moving = first.do(11, OpenQueueForMoveRequest(queue_format("orders"), MOVE, DENY_NONE)).context
    # Strict: not on another interface. Of what type the handle is does not matter.
    for each in (handle, moving):
        assert first.do(3, CloseQueueRequest(each), context_id=1) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert first.do(3, CloseQueueRequest(moving)).hresult == HResult.MQ_OK
    # Two at once on one connection, while reads wait that the first has to end, and one more on another connection.
    assert first.begin(7, start(handle, 1, INFINITE)) == []
    waiting = first.last_call
    stub = encode_request(REMOTE_READ.methods[3], CloseQueueRequest(handle), first.syntax)
    came = first.send(b"".join(fragment for number in (50, 51) for fragment in first.requests(3, stub, number)))
    site.host.pump()
    answers = {
        fragment.header.call_id: first.reply(3, [fragment])
        for fragment in came + first.take()
        if fragment.header.call_id != waiting
    }
    assert answers[50].hresult == HResult.MQ_OK
    assert answers[51] == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert second.do(3, CloseQueueRequest(handle)) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert len(closes) == 6
    assert not site.host.orders.descriptors


@pytest.mark.spec("MQRR-2.2.4.1-02")
def test_a_handle_is_of_no_use_on_another_interface() -> None:
    site = Site()
    line = site.dial("2105")
    line.bind(offer(0, abstract=REMOTE_READ.syntax), offer(1, abstract=TWIN.syntax))
    handle = line.open()
    site.host.put("a")
    for opnum, request in ((7, start(handle, 1)), (3, CloseQueueRequest(handle))):
        assert line.do(opnum, request, context_id=1) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    target = line.do(11, OpenQueueForMoveRequest(queue_format("orders"), MOVE, DENY_NONE)).context
    assert line.do(4, CreateCursorRequest(target)).hresult == HResult.MQ_OK, "but any type of handle of this one is"
    assert label(line.do(7, start(handle, 1))) == "a"
    assert line.do(3, CloseQueueRequest(handle)).hresult == HResult.MQ_OK


@pytest.mark.spec("MQRR-3.1.6.1-01")
def test_handles_live_as_long_as_a_connection_of_their_client() -> None:
    site = Site()
    host = site.host
    first = site.connect()
    second = site.connect(group=first.group)
    handle = first.open()
    host.put("a")
    assert label(first.do(7, start(handle, 1))) == "a"
    assert first.begin(7, start(handle, 2, INFINITE)) == []
    first.close()
    host.pump()
    host.put("b")
    assert host.contents(host.orders) == [("a", PositionState.LOCKED), ("b", PositionState.AVAILABLE)]
    assert second.do(9, EndReceiveRequest(handle, NACK, 1)).hresult == HResult.MQ_OK
    assert label(second.do(7, start(handle, 3))) == "a"
    second.close()
    host.pump()
    assert host.contents(host.orders) == [("a", PositionState.AVAILABLE), ("b", PositionState.AVAILABLE)]
    assert not host.orders.descriptors


def test_a_long_message_comes_in_many_fragments() -> None:
    site = Site()
    line = site.connect()
    handle = line.open()
    message = site.host.message("long")
    message.body = bytes(range(256)) * 4096
    site.host.put(message)
    fragments = line.begin(7, start(handle, 1))
    assert len(fragments) > 100
    reply = line.reply(7, fragments)
    assert RemotePacket.decode(join_sections(reply.sections)).message().properties.message_body == message.body


@pytest.mark.spec("MQRR-3.1.4.11-01")
def test_the_stubs_of_r_open_queue_for_move() -> None:
    """readings MQRR 5: the inputs of R_OpenQueue; then 8 bytes of pMoveContext before the handle."""
    site = Site()
    line = site.connect()
    values = (queue_format("orders;late"), MOVE, DENY_NONE, b"\x11" * 16, 1, 6, 1, 7601, 1)
    stub = encode_request(REMOTE_READ.methods[11], OpenQueueForMoveRequest(*values), NdrSyntax.NDR20)
    assert stub == encode_request(REMOTE_READ.methods[2], OpenQueueRequest(*values), NdrSyntax.NDR20)
    (answer,) = line.send(b"".join(line.requests(11, stub, 9)))
    reply = Response.decode(answer).stub_data
    assert len(reply) == 28
    context, handle = int.from_bytes(reply[:8], "little"), ContextHandle(0, reply[12:])
    lookup_id = site.host.put("a")
    source = line.open()
    assert line.do(10, MoveMessageRequest(source, context, lookup_id)).hresult == HResult.MQ_OK
    assert line.do(3, CloseQueueRequest(handle)).hresult == HResult.MQ_OK
