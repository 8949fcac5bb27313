"""MS-MQQB 3.1.3.2: the timers that a new session stops and starts.

Those of a session and of an outgoing queue begin again. readings MQQB 7.5: the Order Ack Send Timer is that of an
incoming sequence and goes on, and the Session Retry Connect Timer starts when there is something to retry.
"""

import pytest

from tests.node.hosts import Host, Net, Peer
from tests.transfer.session_rig import EXPRESS, Rig, Side, open_acceptor
from waypost.transfer.links import LinkState
from waypost.transfer.session import Role, SessionTimer
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.transactional_acks import OrderAck

P = r"DIRECT=OS:peer\private$\q"
SETTINGS = TransferSettings()


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


@pytest.mark.spec("MQQB-3.1.3.2-02")
@pytest.mark.parametrize("role", Role)
def test_a_new_session_waits_for_no_acknowledgment_and_owes_none_and_may_be_idle(role: Role) -> None:
    rig, before = open_acceptor()
    before.send(EXPRESS)
    before.take(EXPRESS)
    assert before.runs(SessionTimer.ACK_WAIT)
    assert before.runs(SessionTimer.ACK_SEND)
    rig.wait(1)
    before.session.close("it has broken")
    new = Side(rig, role)
    for side in (before, new):
        assert not side.runs(SessionTimer.ACK_WAIT)
        assert not side.runs(SessionTimer.ACK_SEND)
    assert not before.runs(SessionTimer.CLEANUP)
    assert new.remaining(SessionTimer.CLEANUP) == SETTINGS.idle_timeout_s


def test_a_session_that_opens_has_started_neither() -> None:
    rig = Rig().open()
    for side in (rig.initiator, rig.acceptor):
        assert not side.runs(SessionTimer.ACK_WAIT)
        assert not side.runs(SessionTimer.ACK_SEND)


@pytest.mark.spec("MQQB-3.1.3.2-02")
def test_a_new_session_stops_the_wait_for_an_order_ack(net: Net, a: Host, peer: Peer) -> None:
    interval = SETTINGS.resend_timeouts.resend_timer_table[0]
    a.send_all(P, "1")
    sequence = a.outgoing(P).link.sequence
    assert sequence.deadline == net.now.monotonic + interval
    net.advance(2)
    peer.hang_up()
    assert sequence.deadline is None
    # It runs again from the moment in which the message was sent again, and that is on the next session.
    net.advance(SETTINGS.retry_connect_s)
    assert peer.bodies == ["1", "1"]
    assert sequence.deadline == net.now.monotonic + interval


@pytest.mark.spec("MQQB-3.1.3.2-02")
def test_a_new_session_leaves_the_order_ack_of_a_sequence_to_its_time(net: Net, a: Host, peer: Peer) -> None:
    """readings MQQB 7.5."""
    a.create("q", transactional=True)
    peer.connect(a)
    peer.send(peer.message(rf"DIRECT=TCP:{a.address}\private$\q", "1", (5, 1, 0)))
    net.advance(0.3)
    peer.hang_up()
    new = peer.connect(a)
    net.advance(SETTINGS.order_ack_timeout_ms / 1000 - 0.3 - 0.01)
    assert peer.of(OrderAck) == []
    net.advance(0.02)
    assert [type(packet) for packet in peer.on(new)][-1] is OrderAck


@pytest.mark.spec("MQQB-3.1.3.2-02")
def test_a_session_is_tried_again_when_it_has_failed_and_messages_are_left(net: Net, a: Host, peer: Peer) -> None:
    """readings MQQB 7.5."""
    peer.data_received = lambda *_: None  # type: ignore[method-assign]
    a.send(P, "1")
    link = a.outgoing(P).link
    assert (link.state, link.next_retry) == (LinkState.CONNECTING, None)
    peer.hang_up()
    assert link.state is LinkState.WAITING_RECONNECT
    assert link.next_retry == net.now.monotonic + SETTINGS.retry_connect_s
    attempts = len(net.packets(EstablishConnection))
    net.advance(SETTINGS.retry_connect_s)
    assert len(net.packets(EstablishConnection)) == attempts + 1


@pytest.mark.spec("MQQB-3.1.3.2-02")
def test_a_session_is_not_tried_again_when_nothing_is_left_to_send(net: Net, a: Host, peer: Peer) -> None:
    queue = a.hold(P)
    a.send(P, "1")
    peer.acknowledge()
    assert not queue.positions
    peer.hang_up()
    assert (queue.link.state, queue.link.next_retry) == (LinkState.IDLE, None)
    attempts = len(net.packets(EstablishConnection))
    net.advance(10 * SETTINGS.retry_connect_s)
    assert len(net.packets(EstablishConnection)) == attempts
