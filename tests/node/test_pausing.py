"""An operator pauses an outgoing queue and lets it go on: MS-MQQB 3.1.7.13 and 3.1.7.14."""

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.core.queues import OutgoingQueueState as State
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.ping import Ping

P = r"DIRECT=OS:peer\private$\q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


@pytest.mark.spec("MQQB-3.1.7.13-02")
def test_nothing_leaves_a_queue_on_hold_and_messages_still_go_into_it(net: Net, a: Host, peer: Peer) -> None:
    peer.window = 2
    for label in "123":
        a.send(P, label)
    a.pause(P)
    assert a.outgoing(P).state is State.ON_HOLD
    peer.acknowledge()
    a.send(P, "4")
    a.send_all(P, "5")
    net.advance(120)
    assert (peer.bodies, a.bodies(P)) == (["1", "2"], ["3", "4", "5"])
    assert a.outgoing(P).state is State.ON_HOLD


@pytest.mark.spec("MQQB-3.1.7.13-02")
def test_a_pause_tells_the_other_side_to_slow_down(a: Host, peer: Peer) -> None:
    a.send(P, "1")
    a.pause(P)
    (ack,) = peer.of(SessionAck)
    assert ack.session.window_size == 1
    (session,) = a.network.sessions
    assert not session.session_active
    a.resume(P)
    assert session.session_active


@pytest.mark.spec("MQQB-3.1.7.14-01")
def test_a_queue_that_goes_on_sends_all_that_waits_in_order(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "1")
    peer.acknowledge()
    a.pause(P)
    for label in "234":
        a.send(P, label)
    a.resume(P)
    assert peer.bodies == ["1", "2", "3", "4"]
    assert (a.outgoing(P).state, len(peer.of(EstablishConnection))) == (State.CONNECTED, 1)
    # Without a session, one is opened: for what was sent before and is not acknowledged, too.
    a.pause(P)
    peer.hang_up()
    a.send(P, "5")
    net.advance(60)
    assert len(peer.of(EstablishConnection)) == 1
    a.resume(P)
    assert peer.bodies[4:] == ["2", "3", "4", "5"]
    (session,) = a.network.sessions
    assert session.session_active


@pytest.mark.spec("MQQB-3.1.7.14-01")
def test_an_empty_queue_that_goes_on_opens_no_session(net: Net, a: Host, peer: Peer) -> None:
    a.hold(P)
    a.pause(P)
    a.resume(P)
    net.advance(60)
    assert peer.received == []
    assert a.outgoing(P).state is State.INACTIVE


def test_a_pause_ends_the_attempts_and_going_on_begins_them_at_once(net: Net, a: Host, peer: Peer) -> None:
    net.part(a, peer)
    a.send(P, "1")
    assert a.outgoing(P).link.next_retry is not None
    a.pause(P)
    assert a.outgoing(P).link.next_retry is None
    net.join()
    net.advance(60)
    assert peer.received == []
    a.resume(P)
    assert peer.bodies == ["1"]


def test_a_pause_while_a_session_is_opened_leads_to_one_session(net: Net, peer: Peer) -> None:
    """The answer to the ping comes after the queue was told to go on."""
    host = net.add("pinging", TransferSettings(ping=True))
    asked: list[bytes] = []
    peer.datagram_received = lambda data, *_: asked.append(data)  # type: ignore[method-assign]
    host.send(P, "1")
    host.pause(P)
    host.resume(P)
    assert (host.outgoing(P).state, len(asked)) == (State.WAITING, 1)
    host.network.ping_answered(Ping.decode(asked[0]).accepted(peer.guid).encode(), net.now)
    net.settle()
    assert (peer.bodies, len(peer.of(EstablishConnection))) == (["1"], 1)


def test_a_pause_while_a_session_is_opened_holds_the_messages(net: Net, peer: Peer) -> None:
    host = net.add("pinging", TransferSettings(ping=True))
    asked: list[bytes] = []
    peer.datagram_received = lambda data, *_: asked.append(data)  # type: ignore[method-assign]
    host.send(P, "1")
    host.pause(P)
    host.network.ping_answered(Ping.decode(asked[0]).accepted(peer.guid).encode(), net.now)
    net.advance(30)
    assert (host.outgoing(P).state, peer.bodies) == (State.ON_HOLD, [])
    host.resume(P)
    assert (host.outgoing(P).state, peer.bodies) == (State.CONNECTED, ["1"])
