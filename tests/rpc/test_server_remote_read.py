"""RemoteRead as a client of the wire sees it: bound, mapped, called in both syntaxes."""

from typing import Any

import pytest

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
    DENY_NONE,
    INFINITE,
    NACK,
    PEEK_CURRENT,
    RECEIVE,
    TAKE,
    UOW,
    WHOLE,
    queue_format,
    serve,
)
from tests.rpc.serving import Guids, Peer, offer, toy_acceptors
from waypost.core.queues import AccessType
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    GetServerPortReply,
    MoveMessageRequest,
    OpenQueueForMoveRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.remote.remote_read.coordinator import local_token
from waypost.rpc.binds import NDR20, NDR64, BindResult, ContextResult, RejectionReason, SyntaxId
from waypost.rpc.calls import FaultStatus
from waypost.rpc.endpoint_mapper import Registration, endpoint_mapper
from waypost.rpc.endpoint_mapper_interface import EPMAPPER, Endpoint, EptMapRequest, Tower
from waypost.rpc.interface import Empty, Parameters
from waypost.rpc.presentation import SYNTAXES
from waypost.rpc.server import RpcServer
from waypost.rpc.settings import RpcSettings

ACCEPTED = BindResult.ACCEPTANCE
OPEN_ORDERS = OpenQueueRequest(queue_format("orders"), RECEIVE, DENY_NONE)


def serving(host: Host) -> RpcServer:
    """RemoteRead on 2103, and a mapper that knows it."""
    mapper = endpoint_mapper([Registration(REMOTE_READ, host.remote_read_port)])
    listeners = {"2103": [serve(host).service], "135": [mapper]}
    return RpcServer(listeners, toy_acceptors, Guids(), RpcSettings())


class Line:
    """A connection that calls one interface in one syntax, by name or by nobody."""

    def __init__(self, peer: Peer, transfer: SyntaxId = NDR20, name: str | None = None) -> None:
        self._peer = peer
        self._syntax = SYNTAXES[transfer]
        self._call_id = 1
        context = offer(0, transfer, abstract=peer.interface.syntax)
        if name is not None:
            peer.log_in(name, context=context)
        else:
            assert peer.bind(context).results == [ContextResult(ACCEPTED, 0, transfer)]

    def ask(self, opnum: int, request: Parameters) -> Any:
        """The record of the reply, or the status of the fault."""
        self._call_id += 1
        return self._peer.ask(opnum, request, self._call_id, 0, self._syntax)


def remote_read(server: RpcServer, number: int, listener: str = "2103") -> Peer:
    return Peer(server, number, listener, interface=REMOTE_READ)


@pytest.mark.spec("MQRR-1.9-01")
def test_the_interface_is_bound_by_its_uuid_in_version_1() -> None:
    server = serving(Host())
    uuid = bytes.fromhex("dd34911a397bba45ad8844d01ca47f28")
    versions = {0x0000_0001: True, 0x0000_0002: False, 0x0000_0000: False, 0x0000_0101: False}
    for number, (version, is_served) in enumerate(versions.items(), 1):
        (result,) = Peer(server, number).bind(offer(0, abstract=SyntaxId(uuid, version))).results
        if is_served:
            assert result == ContextResult(ACCEPTED, 0, NDR20)
        else:
            reason = RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED
            assert result == ContextResult(BindResult.PROVIDER_REJECTION, reason)


@pytest.mark.spec("MQRR-2.1-02", "MQRR-2.1-03")
def test_a_client_learns_the_port_from_the_mapper_or_from_the_server_and_is_served_there() -> None:
    server = serving(Host())
    mapper = Line(Peer(server, 1, "135", interface=EPMAPPER))
    (tower,) = mapper.ask(3, EptMapRequest(None, Tower.of(Endpoint(REMOTE_READ.syntax, NDR20)))).towers
    mapped = Line(remote_read(server, 2, str(tower.endpoint.port)), name="CORP\\alice")
    assert mapped.ask(0, Empty()) == GetServerPortReply(2103)
    static = Line(remote_read(server, 3, str(mapped.ask(0, Empty()).port)), name="CORP\\alice")
    for line in (mapped, static):
        handle = line.ask(2, OPEN_ORDERS).context
        assert line.ask(4, CreateCursorRequest(handle)).hresult == HResult.MQ_OK


@pytest.mark.spec("MQRR-2.1-04")
def test_anybody_may_connect_and_each_method_decides_by_who_it_is() -> None:
    host = Host()
    server = serving(host)
    lines = [
        Line(remote_read(server, n), name=name) for n, name in enumerate((None, "CORP\\alice", "ELSEWHERE\\stranger"))
    ]
    assert [line.ask(0, Empty()) for line in lines] == [GetServerPortReply(2103)] * 3
    host.denied.update(("ELSEWHERE\\stranger", host.orders, access) for access in AccessType)
    anonymous, known, stranger = (line.ask(2, OPEN_ORDERS) for line in lines)
    assert anonymous == FaultStatus.ACCESS_DENIED
    assert not known.context.is_null
    assert stranger == HResult.MQ_ERROR_ACCESS_DENIED
    assert [caller.name for caller, _, _ in host.asked] == ["CORP\\alice", "ELSEWHERE\\stranger"]


def conversation(host: Host, line: Line) -> list[tuple[int, Any]]:
    """Every method once or more, with the answers. On two new hosts everything is drawn from the same numbers."""
    answers: list[tuple[int, Any]] = []

    def ask(opnum: int, request: Parameters) -> Any:
        answer = line.ask(opnum, request)
        answers.append((opnum, answer))
        return answer

    first, _ = host.put("first"), host.put("second")
    ledger_id = host.put("third", host.ledger)
    ask(0, Empty())
    handle = ask(2, OPEN_ORDERS).context
    cursor = ask(4, CreateCursorRequest(handle)).cursor
    ask(7, StartReceiveRequest(handle, 0, cursor, PEEK_CURRENT, 0, 1, WHOLE, WHOLE))
    ask(5, CloseCursorRequest(handle, cursor))
    ask(7, StartReceiveRequest(handle, 0, 0, TAKE, INFINITE, 2, 0, 0))
    ask(9, EndReceiveRequest(handle, NACK, 2))
    ask(8, CancelReceiveRequest(handle, 3))
    move = ask(11, OpenQueueForMoveRequest(queue_format("orders;late"), RECEIVE, DENY_NONE))
    ask(10, MoveMessageRequest(handle, move.move_context, first))
    ask(12, QMEnlistRemoteTransactionRequest(UOW, local_token(UOW), queue_format("ledger")))
    ledger = ask(2, OpenQueueRequest(queue_format("ledger"), RECEIVE, DENY_NONE)).context
    ask(13, StartTransactionalReceiveRequest(ledger, 0, 0, TAKE, 0, 4, WHOLE, WHOLE, UOW))
    ask(15, EndTransactionalReceiveRequest(ledger, ACK, 4))
    ask(14, SetUserAcknowledgementClassRequest(ledger, ledger_id, 0xC004))
    ask(6, PurgeQueueRequest(handle))
    ask(3, CloseQueueRequest(handle))
    return answers


# R_CancelReceive has no read that waits.
NOTHING_TO_CANCEL = [8]


def failures(answers: list[tuple[int, Any]]) -> list[int]:
    return [opnum for opnum, answer in answers if isinstance(answer, int) or getattr(answer, "hresult", 0) != 0]


@pytest.mark.spec("MQRR-2.2-01")
def test_every_method_works_alike_in_ndr_and_in_ndr64() -> None:
    assert NDR20.uuid == bytes.fromhex("045d888aeb1cc9119fe808002b104860")
    assert NDR20.version == 2
    both = Peer(serving(Host())).bind(*(offer(n, t, abstract=REMOTE_READ.syntax) for n, t in enumerate((NDR20, NDR64))))
    assert [result.result for result in both.results].count(ACCEPTED) == 1
    hosts = Host(), Host()
    lines = [
        Line(remote_read(serving(host), 1), transfer, "CORP\\alice")
        for host, transfer in zip(hosts, (NDR20, NDR64), strict=True)
    ]
    plain, wide = (conversation(host, line) for host, line in zip(hosts, lines, strict=True))
    assert plain == wide
    assert {opnum for opnum, _ in plain} == set(REMOTE_READ.methods) == {0, *range(2, 16)}
    assert failures(plain) == NOTHING_TO_CANCEL


@pytest.mark.spec("MQRR-3.1.4.1-05")
def test_every_method_works_on_the_first_binding_and_after_binding_again_to_the_port_that_it_says() -> None:
    first_host, second_host = Host(), Host()
    first = Line(remote_read(serving(first_host), 1), name="CORP\\alice")
    assert failures(conversation(first_host, first)) == NOTHING_TO_CANCEL
    server = serving(second_host)
    port = Line(remote_read(server, 1)).ask(0, Empty()).port
    second = Line(remote_read(server, 2, str(port)), name="CORP\\alice")
    assert failures(conversation(second_host, second)) == NOTHING_TO_CANCEL
