"""Clients that do not show who they are."""

from tests.rpc.serving import Peer, ToyHandler, offer, toy_server, trailer
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import AlterContext, Auth3, Bind
from waypost.rpc.calls import Fault, FaultStatus
from waypost.rpc.pdu import PacketType, fragment_of

PRIVACY = AuthLevel.PRIVACY


def test_after_a_wrong_proof_there_is_no_second_try_on_the_connection() -> None:
    client = Peer(toy_server(ToyHandler(), PRIVACY))
    bind = fragment_of(Bind(5840, 5840, 0, [offer(0)]), 1)
    (answer,) = client.send(bind.authenticate(trailer(PRIVACY), b"hello mallory").encode())
    assert answer.header.ptype == PacketType.BIND_ACK
    auth3 = fragment_of(Auth3(), 1).authenticate(trailer(PRIVACY), b"proof mallory")
    assert client.send(auth3.encode()) == []
    again = fragment_of(AlterContext(5840, 5840, 0, [offer(1)]), 2)
    (answer,) = client.send(again.authenticate(trailer(PRIVACY, context_id=7), b"hello CORP\\alice").encode())
    assert answer.header.ptype == PacketType.FAULT
    assert Fault.decode(answer).status == FaultStatus.ACCESS_DENIED
    assert client.is_closed


def test_a_client_is_known_when_it_has_shown_who_it_is() -> None:
    server = toy_server(ToyHandler(), PRIVACY)
    anonymous, alice = Peer(server, 1), Peer(server, 2)
    assert not server.is_known(1)
    anonymous.bind()
    alice.log_in()
    assert not server.is_known(1)
    assert server.is_known(2)


def test_where_nobody_is_asked_a_bind_is_enough() -> None:
    server = toy_server(ToyHandler())
    client = Peer(server, 1)
    assert not server.is_known(1)
    client.bind()
    assert server.is_known(1)
    assert not server.is_known(99)
