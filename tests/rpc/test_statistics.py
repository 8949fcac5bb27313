"""Counts of an RPC server: connections, calls, faults, authentications that failed, and handles that ran down."""

import pytest

from tests.rpc.serving import (
    ECHO,
    FAIL,
    OPEN,
    TOY,
    WAIT,
    Number,
    Octets,
    Peer,
    ToyHandler,
    offer,
    toy_server,
    trailer,
)
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import Auth3, Bind
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty, ResultReply
from waypost.rpc.pdu import PacketType, fragment_of
from waypost.rpc.statistics import CallResult, RpcStatistics


@pytest.fixture
def peer() -> Peer:
    peer = Peer(toy_server(ToyHandler()))
    peer.bind()
    return peer


def counted(peer: Peer) -> RpcStatistics:
    return peer.server.statistics


def calls(peer: Peer) -> dict[tuple[str, CallResult], int]:
    """The number of calls of each method by outcome."""
    return {(method, result): count for (_, method, result), count in counted(peer).calls.items()}


def test_connections_are_counted_until_they_go(peer: Peer) -> None:
    other = Peer(peer.server, 2)
    assert (counted(peer).connections, counted(peer).connections_accepted) == (2, 2)
    other.close()
    peer.send(b"this is no PDU, but it is long enough to be one")
    assert peer.is_closed
    peer.close()
    assert (counted(peer).connections, counted(peer).connections_accepted) == (0, 2)


def test_a_call_is_open_until_it_is_answered_and_counts_with_its_result(peer: Peer) -> None:
    peer.ask(ECHO, Octets(b"hello"), 2)
    peer.ask(ECHO, Octets(b"again"), 3)
    peer.ask(FAIL, Number(0xC00E0003), 4)
    peer.start(WAIT, Number(1), 5)
    assert counted(peer).open_calls == 1
    peer.close()
    assert counted(peer).open_calls == 0
    assert calls(peer) == {
        ("toy_0", CallResult.OK): 2,
        ("toy_6", CallResult.FAULT): 1,
        ("toy_5", CallResult.ABANDONED): 1,
    }
    assert {interface for interface, _, _ in counted(peer).calls} == {TOY.name}


def test_a_call_that_its_client_forgets_is_abandoned(peer: Peer) -> None:
    peer.start(WAIT, Number(1), 2)
    peer.tell(PacketType.ORPHANED, 2)
    assert counted(peer).open_calls == 0
    assert calls(peer) == {("toy_5", CallResult.ABANDONED): 1}


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (ResultReply(0), CallResult.OK),
        (Empty(), CallResult.OK),
        (ResultReply(0xC00E001B), CallResult.ERROR),
        # A read that was cancelled has the severity of a success, and is none.
        (ResultReply(0x400E03E9), CallResult.ERROR),
    ],
)
def test_only_mq_ok_is_a_success(reply: object, result: CallResult) -> None:
    assert CallResult.of(reply) is result


def test_faults_are_counted_by_status_whether_or_not_the_method_was_reached(peer: Peer) -> None:
    peer.ask(FAIL, Number(0xC00E0003), 2)
    stub = peer.requests(ECHO, b"", 3)[0]
    peer.send(stub)
    peer.send(peer.requests(99, b"", 4)[0])
    assert counted(peer).faults == {
        0xC00E0003: 1,
        FaultStatus.BAD_STUB_DATA: 1,
        FaultStatus.NCA_OP_RNG_ERROR: 1,
    }
    assert calls(peer) == {("toy_6", CallResult.FAULT): 1}


def test_a_bind_that_is_refused_counts(peer: Peer) -> None:
    stranger = Peer(peer.server, 2)
    stranger.send_pdu(Bind(5840, 5840, 0x1234, [offer(0)]))
    assert counted(peer).binds_refused == 1


def test_every_way_to_fail_an_authentication_counts_once(peer: Peer) -> None:
    level = AuthLevel.PRIVACY
    bind = fragment_of(Bind(5840, 5840, 0, [offer(0)]), 1)
    at_once = Peer(peer.server, 2)
    at_once.send(bind.authenticate(trailer(level), b"nonsense").encode())
    assert counted(peer).authentication_failures == 1
    in_the_end = Peer(peer.server, 3)
    in_the_end.send(bind.authenticate(trailer(level), b"hello CORP\\alice").encode())
    in_the_end.send(fragment_of(Auth3(), 1).authenticate(trailer(level), b"nonsense").encode())
    assert counted(peer).authentication_failures == 2
    tampered = Peer(peer.server, 4)
    tampered.log_in()
    request = bytearray(tampered.requests(ECHO, bytes(8), 2)[0])
    request[-1] ^= 1
    tampered.send(bytes(request))
    assert counted(peer).authentication_failures == 3
    assert counted(peer).faults == {FaultStatus.ACCESS_DENIED: 1}


def test_handles_that_are_open_when_the_client_goes_are_rundowns(peer: Peer) -> None:
    for call_id in (2, 3):
        peer.ask(OPEN, Empty(), call_id)
    assert counted(peer).rundowns == 0
    peer.close()
    assert counted(peer).rundowns == 2
