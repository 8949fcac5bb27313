"""The packets that open a session, as a queue manager writes and reads them: MS-MQQB 2.2.1 and 2.2.3."""

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.guid import NULL_GUID
from waypost.node.effects import Write
from waypost.routing.routes import Route
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet, decode_packet

Q = r"DIRECT=OS:b\private$\q"

INTERNAL = (EstablishConnection, ConnectionParameters, SessionAck)
RESERVED = slice(16, 18)


def two_hosts(net: Net) -> tuple[Host, Host]:
    a, b = net.add("a"), net.add("b")
    b.create("q")
    return a, b


def requests(net: Net, source: str) -> list[EstablishConnection]:
    return [packet for sender, _, packet in net.wire if sender == source and isinstance(packet, EstablishConnection)]


@pytest.mark.spec("MQQB-2.2.3.1-03")
def test_server_guid_is_zero_for_a_direct_name() -> None:
    net = Net()
    a, b = two_hosts(net)
    a.send(Q, "by its address")
    (request,) = requests(net, "a")
    assert (request.client_guid, request.server_guid) == (a.guid, NULL_GUID)
    assert b.bodies("q") == ["by its address"]


@pytest.mark.spec("MQQB-2.2.3.1-03")
def test_server_guid_is_that_of_the_acceptor_for_another_name() -> None:
    net = Net()
    a, b = two_hosts(net)
    a.restart(routes=(Route(b.guid, host="b"),))
    a.send(b.name_of("q"), "by its GUID")
    (request,) = requests(net, "a")
    assert (request.client_guid, request.server_guid) == (a.guid, b.guid)
    assert b.bodies("q") == ["by its GUID"]


@pytest.mark.spec("MQQB-2.2.1-02")
def test_reserved_is_written_as_zero_in_every_packet_of_a_session() -> None:
    net = Net()
    a, _ = two_hosts(net)
    a.send(Q, "one")
    net.advance(2)
    written = [packet.encode() for _, _, packet in net.wire if isinstance(packet, INTERNAL)]
    kinds = {type(decode_packet(data)) for data in written}
    assert kinds == set(INTERNAL)
    assert {data[RESERVED] for data in written} == {bytes(2)}


@pytest.mark.spec("MQQB-2.2.1-02")
def test_reserved_is_overlooked_in_every_packet_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    a, b = two_hosts(net)
    carry = net.carry
    spoilt: set[type[Packet]] = set()

    def spoil(sender: Host | Peer, effect: object) -> None:
        """Each internal packet comes with Reserved set; those of a handshake are written one by one."""
        if isinstance(effect, Write):
            packet = decode_packet(effect.data[: int.from_bytes(effect.data[8:12], "little")])
            if isinstance(packet, EstablishConnection | ConnectionParameters):
                spoilt.add(type(packet))
                effect = Write(effect.connection, effect.data[:16] + b"\xff\xff" + effect.data[18:])
        carry(sender, effect)

    monkeypatch.setattr(net, "carry", spoil)
    a.send(Q, "one")
    assert spoilt == {EstablishConnection, ConnectionParameters}
    assert b.bodies("q") == ["one"]
