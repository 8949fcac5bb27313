"""A session whose numbers are used up (readings MQQB 3.27) makes room for another, also when nobody sends any more."""

import pytest

from tests.node.hosts import Net, letter
from waypost.core.message_values import DeliveryGuarantee
from waypost.transfer import session
from waypost.wire.internal_packets import SessionAck


def test_what_waits_when_the_numbers_of_a_session_are_used_up_goes_on_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "LAST_NUMBER", 96)
    net = Net()
    a, b = net.add("a"), net.add("b")
    b.create("q")
    net.part(a, b)
    bodies = [f"order {number}" for number in range(300)]
    for body in bodies:
        a.send(rf"DIRECT=TCP:{b.address}\private$\q", body)
    net.join()
    net.advance(30)
    assert b.bodies("q") == bodies


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_the_last_messages_of_a_session_are_acknowledged_at_once(
    guarantee: DeliveryGuarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a window of them would wait for a timer, and what is behind them with it."""
    monkeypatch.setattr(session, "LAST_NUMBER", 100)
    net = Net()
    a, b = net.add("a"), net.add("b")
    b.create("q")
    bodies = [f"order {number}" for number in range(250)]
    for body in bodies:
        a.send(rf"DIRECT=TCP:{b.address}\private$\q", letter(body, delivery_guarantee=guarantee))
    net.settle()
    assert b.bodies("q") == bodies


def test_what_came_last_on_a_session_is_acknowledged_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would come again on the next session, and on each that is used up before an acknowledgment is due."""
    monkeypatch.setattr(session, "LAST_NUMBER", 3)
    net = Net()
    a, peer = net.add("a"), net.add_peer()
    a.create("q")
    for body in "123":
        a.send(r"DIRECT=OS:peer\private$\q", body)
    assert peer.bodies == ["1", "2", "3"]
    peer.send(peer.message(r"DIRECT=OS:a\private$\q", "x"))
    peer.acknowledge()
    assert a.bodies("q") == ["x"]
    assert [packet.session.ack_sequence_number for packet in peer.of(SessionAck)] == [1]
    assert a.network.open_sessions == []
