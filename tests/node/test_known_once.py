"""Facts about a message on its arrival are handed on: it is decoded once, and room is asked for once."""

from collections import Counter
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.core.position_events import PositionEvents
from waypost.wire import user_message
from waypost.wire.user_message import UserMessage

Q = "DIRECT=OS:a\\private$\\q"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(user_message, "_decode_user")
    for name in ("fits", "fits_machine", "sure_room"):
        count(PositionEvents, name)
    return calls


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a")
    host.create("q")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(a)
    return peer


def arrive(a: Host, packet: UserMessage, net: Net) -> None:
    (connection,) = a.connections
    a.network.data_received(connection, packet.encode(), net.now)


def test_a_plain_message_is_decoded_once_and_its_room_is_asked_for_once(
    net: Net, a: Host, peer: Peer, counted: Counter[str]
) -> None:
    packet = peer.message(Q, "m")
    counted.clear()
    arrive(a, packet, net)
    assert len(a.queue("q").positions) == 1
    assert counted == {"_decode_user": 1, "sure_room": 1}


def test_a_message_that_goes_alone_is_decoded_once(net: Net, a: Host, peer: Peer, counted: Counter[str]) -> None:
    packet = peer.message(Q, "m")
    packet.user.time_to_be_received = 600
    counted.clear()
    arrive(a, packet, net)
    assert len(a.queue("q").positions) == 1
    assert counted == {"_decode_user": 1, "fits": 1, "fits_machine": 1}
