"""A session whose numbers are used up (readings MQQB 3.27) makes room for another, also when nobody sends any more."""

import pytest

from tests.node.hosts import Net, letter
from waypost.core.message_values import DeliveryGuarantee
from waypost.transfer import session


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
