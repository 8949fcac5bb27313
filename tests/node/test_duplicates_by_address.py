"""Identifiers of received messages are forgotten by the address that brought them: MS-MQQB 3.1.5.8.1, 3.1.5.8.2."""

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.core.message_values import DeliveryGuarantee
from waypost.routing.routes import Relays
from waypost.transfer import duplicates
from waypost.transfer.duplicates import RELAY_SHARES
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import SessionAck
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:a\private$\q"
FLOOD = r"DIRECT=OS:a\private$\flood"
NOWHERE = r"DIRECT=OS:a\private$\nowhere"
SIZE = 5


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return add(net)


def add(net: Net, **settings: object) -> Host:
    host = net.add("a", TransferSettings(duplicate_history_size=SIZE), **settings)
    host.create("q")
    host.create("flood")
    return host


def connected(net: Net, host: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(host)
    return peer


def flood(peer: Peer, count: int) -> list[UserMessage]:
    messages = [peer.message(FLOOD, str(number)) for number in range(count)]
    peer.send(*messages)
    return messages


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_a_flood_from_another_address_makes_no_message_come_twice(
    net: Net, a: Host, guarantee: DeliveryGuarantee
) -> None:
    honest, stranger = connected(net, a), connected(net, a)
    messages = [honest.message(Q, str(number), delivery_guarantee=guarantee) for number in range(SIZE)]
    honest.send(*messages)
    flood(stranger, 10 * SIZE)
    honest.send(*messages)
    assert a.bodies("q") == ["0", "1", "2", "3", "4"]
    assert len(a.bodies("flood")) == 10 * SIZE


def test_a_flood_from_another_address_makes_no_message_come_twice_after_a_crash(net: Net, a: Host) -> None:
    honest, stranger = connected(net, a), connected(net, a)
    message = honest.message(Q, "once")
    honest.send(message)
    for _ in range(10):
        flood(stranger, SIZE)
    a.crash_and_start()
    flood(connected(net, a), 10 * SIZE)
    again = connected(net, a)
    again.send(message)
    assert a.bodies("q") == ["once"]


def test_messages_that_are_refused_take_no_place(net: Net, a: Host) -> None:
    peer = connected(net, a)
    message = peer.message(Q, "once")
    peer.send(message)
    peer.send(*(peer.message(NOWHERE, "refused") for _ in range(10 * SIZE)))
    peer.send(message)
    assert a.bodies("q") == ["once"]


def test_an_address_without_a_place_is_refused_in_words_and_comes_again(
    net: Net, a: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "MAX_REMEMBERED_PEERS", 2)
    one, two = connected(net, a), connected(net, a)
    one.send(one.message(Q, "1"))
    two.send(two.message(Q, "2"))
    three = connected(net, a)
    message = three.message(Q, "3")
    three.send(message)
    assert a.bodies("q") == ["1", "2"]
    assert three.of(SessionAck) == []
    assert a.notices[-1].facts["reason"] == (
        "the limit of known addresses is reached, and this address is new"
    )  # fmt: skip
    one.send(one.message(Q, "4"))
    assert a.bodies("q") == ["1", "2", "4"], "the others go on"
    net.advance(2 * 1800 + 1)
    three.connect(a)
    three.send(message, message)
    assert a.bodies("q") == ["1", "2", "4", "3"]


def test_a_message_that_is_refused_gives_its_address_no_place(
    net: Net, a: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "MAX_REMEMBERED_PEERS", 1)
    stranger = connected(net, a)
    stranger.send(stranger.message(NOWHERE, "refused"))
    honest = connected(net, a)
    honest.send(honest.message(Q, "1"))
    assert a.bodies("q") == ["1"]


@pytest.mark.parametrize("by", ["address", "guid"])
def test_a_relay_has_a_larger_share(net: Net, by: str) -> None:
    relay = net.add_peer()
    relays = Relays(addresses=frozenset({relay.address})) if by == "address" else Relays(frozenset({relay.guid}))
    a = add(net, relays=relays)
    relay.connect(a)
    messages = flood(relay, SIZE * RELAY_SHARES)
    relay.send(messages[0])
    assert len(a.bodies("flood")) == SIZE * RELAY_SHARES
    stranger = connected(net, a)
    messages = flood(stranger, SIZE * RELAY_SHARES)
    stranger.send(messages[0])
    assert len(a.bodies("flood")) == 2 * SIZE * RELAY_SHARES + 1
