"""After a partition: whoever waits for a host tries again as soon as the host is heard."""

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from waypost.transfer.handshake import Initiator
from waypost.wire.property_values import OperatingSystem
from waypost.wire.transactional_acks import FinalAck

P = r"DIRECT=OS:peer\private$\q"


class Swallowing(Net):
    """A network in which connections to some addresses neither come about nor fail."""

    def __init__(self) -> None:
        super().__init__()
        self.swallowed: set[str] = set()
        self.begun: list[int] = []

    def connect(self, host: Host | Peer, number: int, address: str) -> None:
        if address in self.swallowed:
            self.begun.append(number)
        else:
            super().connect(host, number, address)


@pytest.fixture
def net() -> Swallowing:
    return Swallowing()


@pytest.fixture
def a(net: Swallowing) -> Host:
    host = net.add("a")
    host.create("q")
    host.create("t", transactional=True)
    return host


@pytest.fixture
def peer(net: Swallowing, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def parted(net: Swallowing, a: Host, peer: Peer) -> None:
    """A message waits at `a`, and `a` has just failed to connect; then the network is whole again."""
    a.send(P, "before")
    peer.acknowledge()
    net.part(a, peer)
    a.send(P, "m")
    net.advance(1002)
    net.join()
    assert peer.bodies == ["before"]


def test_a_host_that_connects_gets_its_messages_at_once(net: Swallowing, a: Host, peer: Peer) -> None:
    parted(net, a, peer)
    peer.connect(a)
    assert peer.bodies == ["before", "m"]


def test_a_connection_without_a_session_is_a_sign_of_life(net: Swallowing, a: Host, peer: Peer) -> None:
    parted(net, a, peer)
    peer.dial(a)
    assert peer.bodies == ["before", "m"]


def test_so_is_a_ping(net: Swallowing, a: Host, peer: Peer) -> None:
    parted(net, a, peer)
    ping = Initiator(peer.guid, OperatingSystem.MSMQ_OS_NTS).ping_request(7)
    a.network.datagram_received(ping.encode(), peer.address, 4000, net.now)
    net.settle()
    assert peer.bodies == ["before", "m"]


def test_a_ping_ends_no_connection_that_is_under_way(net: Swallowing, a: Host, peer: Peer) -> None:
    """Its sender may be forged, once a second, to a host that takes longer to answer."""
    net.swallowed.add(peer.address)
    a.send(P, "m")
    ping = Initiator(peer.guid, OperatingSystem.MSMQ_OS_NTS).ping_request(7)
    for _ in range(10):
        net.advance(2)
        a.network.datagram_received(ping.encode(), peer.address, 4000, net.now)
        net.settle()
    assert len(net.begun) == 1


def test_the_host_may_have_another_address_now(net: Swallowing, a: Host, peer: Peer) -> None:
    """It is known by its GUID, and its name leads to the new address."""
    a.hold(P)
    parted(net, a, peer)
    moved = net.add_peer("peer")
    moved.guid = peer.guid
    del net.hosts[peer.address]
    moved.connect(a)
    assert moved.bodies == ["m"]


def test_others_are_no_sign_of_it(net: Swallowing, a: Host, peer: Peer) -> None:
    parted(net, a, peer)
    net.add_peer("other").connect(a)
    assert peer.bodies == ["before"]
    net.advance(6)
    assert peer.bodies == ["before", "m"]


def test_a_connection_that_is_under_way_for_long_is_begun_again(net: Swallowing, a: Host, peer: Peer) -> None:
    """TCP asks less and less often."""
    net.swallowed.add(peer.address)
    a.send(P, "m")
    net.advance(10)
    assert len(net.begun) == 1
    net.swallowed.clear()
    peer.connect(a)
    assert peer.bodies == ["m"]
    assert [session.remote_qm_address for session in a.network.sessions] == [peer.address] * 2


def test_a_host_that_is_heard_often_is_tried_once_a_second(net: Swallowing, a: Host, peer: Peer) -> None:
    parted(net, a, peer)
    net.cut.add(frozenset((a.address, peer.address)))
    failed = a.network.statistics.connections_failed
    for _ in range(10):
        a.network.accept(peer.address, net.now)
        net.settle()
    assert a.network.statistics.connections_failed == failed + 1
    net.advance(1)
    a.network.accept(peer.address, net.now)
    net.settle()
    assert a.network.statistics.connections_failed == failed + 2


def test_a_session_that_has_fallen_silent_gives_way_when_its_host_opens_another(
    net: Swallowing, a: Host, peer: Peer
) -> None:  # fmt: skip
    a.send(P, "before")
    peer.acknowledge()
    (session,) = a.network.open_sessions
    # Data that is written on it gets lost from now on, without a report.
    a.connections.clear()
    net.swallowed.add(peer.address)
    a.send(P, "m")
    net.advance(14)
    peer.connect(a)
    assert session in a.network.open_sessions
    net.advance(2)
    net.swallowed.clear()
    peer.connect(a)
    assert session not in a.network.open_sessions
    assert session.error == "the host answered on another session"
    assert peer.bodies == ["before", "m"]


def test_a_session_without_anything_to_acknowledge_is_not_silent(net: Swallowing, a: Host, peer: Peer) -> None:
    a.send(P, "before")
    peer.acknowledge()
    (session,) = a.network.open_sessions
    net.advance(60)
    peer.connect(a)
    assert session in a.network.open_sessions


def test_acknowledgments_wait_for_the_session_that_a_connection_leads_to(net: Swallowing, a: Host, peer: Peer) -> None:
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\t", "m", tx=(5, 1, 0), positive_journaling_requested=True))
    net.part(a, peer)
    a.receive("t")
    net.advance(100)
    net.join()
    dials = a.network.statistics.dials_for_strangers
    peer.connect(a)
    assert len(peer.of(FinalAck)) == 1
    assert a.network.statistics.dials_for_strangers == dials


@pytest.mark.parametrize(("seconds", "wait"), [(1, 4), (20, 0)])
def test_a_connection_that_fails_slowly_is_a_part_of_the_time_between_two(
    net: Swallowing, a: Host, peer: Peer, seconds: float, wait: float
) -> None:
    net.swallowed.add(peer.address)
    a.send(P, letter("m"))
    net.advance(seconds)
    a.network.connect_failed(net.begun[0], "no answer", net.now)
    deadline = a.next_deadline()
    assert deadline is not None
    assert deadline - net.now.monotonic == wait
