"""Messages that a wrong route brings back to their source: MS-MQQB 3.1.5.8.2."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, express, letter
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.guid import guid_text
from waypost.node.explain import explain_queue
from waypost.routing.routes import Route
from waypost.wire.format_names import FormatName
from waypost.wire.transactional_acks import OrderAck
from waypost.wire.user_message import UserMessage

C = b"\x0c" * 16
FAR = f"PRIVATE={guid_text(C)}\\00000007"
TOO_MANY_HOPS = 0x8005
JN: dict[str, Any] = {"negative_journaling_requested": True}
NACK: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": Acknowledgements.ACK_NEG_ARRIVAL,
}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def r(net: Net) -> Host:
    """The relay."""
    return net.add("r")


@pytest.fixture
def a(net: Net, r: Host) -> Host:
    """The source, whose way to c leads over r; and the way of r leads back."""
    host = net.add("a", TRANSFER, [Route(r.guid, "r"), Route(C, via=r.guid)])
    host.create("admin")
    r.restart(routes=(Route(host.guid, "a"), Route(C, via=host.guid)))
    return host


@pytest.mark.parametrize("kind", [letter, express])
def test_a_plain_message_that_comes_back_is_a_dead_letter_with_the_reason(
    net: Net, a: Host, kind: Callable[..., Message]
) -> None:
    a.send(FAR, kind("m", **JN, **NACK))
    net.advance(60)
    (dead,) = a.messages(";deadletter")
    assert (dead.label, dead.body, dead.message_class) == ("m", b"m", TOO_MANY_HOPS)
    assert dead.source_machine_identifier == a.guid
    assert a.classes("admin") == [TOO_MANY_HOPS]
    assert a.bodies(FAR) == []
    assert a.network.statistics.messages_returned == 1


def test_one_that_asks_for_nothing_is_counted_and_told(net: Net, a: Host, r: Host) -> None:
    a.send(FAR, "m")
    net.advance(60)
    assert a.bodies(";deadletter") == []
    (notice,) = [notice for notice in a.notices if notice.event == "message came back"]
    assert notice.facts == {"queue": FAR, "peer": r.address}


def test_a_message_that_comes_back_twice_is_one_dead_letter(net: Net, a: Host, r: Host) -> None:
    r.hold_disk()
    a.send(FAR, letter("m", **JN))
    r.release_disk()
    net.advance(2)
    (packet,) = net.packets(UserMessage, "r", "a")
    # The relay does not hear that it was taken, and sends it again, also after crashes of both.
    peer = net.add_peer("again")
    peer.guid, peer.address = r.guid, r.address
    for _ in range(2):
        peer.connect(a)
        peer.send(packet)
        a.crash_and_start()
    assert a.bodies(";deadletter") == ["m"]


def test_one_that_comes_back_before_the_relay_has_acknowledged_it_leaves_its_queue(
    net: Net, r: Host, a: Host
) -> None:  # fmt: skip
    """Else it would expire there, and be a second dead-letter message."""
    r.stop()
    relay = net.add_peer("r")
    relay.guid, relay.address = r.guid, r.address
    net.hosts[r.address] = relay
    a.send(FAR, letter("m", time_to_reach_queue=30, **JN))
    net.advance(10)
    (packet,) = relay.of(UserMessage)
    relay.connect(a)
    relay.send(packet)
    assert (a.bodies(FAR), a.classes(";deadletter")) == ([], [TOO_MANY_HOPS])
    net.advance(100)
    assert a.classes(";deadletter") == [TOO_MANY_HOPS]


def test_one_that_has_expired_here_before_its_copy_comes_back_is_one_dead_letter(net: Net, r: Host, a: Host) -> None:
    r.stop()
    relay = net.add_peer("r")
    relay.guid, relay.address = r.guid, r.address
    net.hosts[r.address] = relay
    a.send(FAR, letter("m", time_to_reach_queue=10, **JN))
    net.advance(30)
    (packet, *_) = relay.of(UserMessage)
    assert a.classes(";deadletter") == [0x8002]
    relay.connect(a)
    relay.send(packet)
    assert a.classes(";deadletter") == [0x8002]
    assert "the message was sent from this computer, and its delivery is complete" in discarded(a)


def test_a_transactional_message_stays_in_its_queue_and_ends_by_its_own_rules(net: Net, a: Host, r: Host) -> None:
    a.send_all(FAR, letter("m", time_to_reach_queue=100, **JN))
    net.advance(60)
    assert (a.bodies(FAR), a.bodies(";deadxact")) == (["m"], [])
    assert a.network.statistics.messages_returned > 0
    assert net.packets(OrderAck) == []
    net.advance(60)
    assert (a.bodies(FAR), a.classes(";deadxact")) == ([], [0x8002])
    net.advance(600)
    assert a.classes(";deadxact") == [0x8002]


def test_the_loop_is_named(net: Net, a: Host, r: Host) -> None:
    a.send_all(FAR, letter("m"))
    net.advance(10)
    explanation = explain_queue(a.node, FormatName.parse(FAR), net.now)
    sentence = f"came back from the queue manager {guid_text(r.guid)} at {r.address}"
    assert [each for each in explanation.sentences if sentence in each]
    assert isinstance(explanation.facts["loop"], dict)
    (loop,) = a.network.loops.since(net.now.wall - 60)
    assert str(loop).startswith(f"{FAR} by {guid_text(r.guid)} at {r.address}, ")
    assert list(a.network.loops.since(net.now.wall + 60)) == []


def test_only_some_loops_are_remembered(net: Net, a: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.network.routing_loops.MAX_LOOPS", 2)
    names = [f"PRIVATE={guid_text(C)}\\0000000{number}" for number in range(5, 9)]
    for name in names:
        a.send(name, "m")
        net.advance(1)
    assert [str(loop.destination) for loop in a.network.loops.since(0)] == names[2:]


# Messages that are not believed.


def discarded(a: Host) -> list[object]:
    return [notice.facts["reason"] for notice in a.notices if notice.event == "message discarded"]


def in_the_name_of(a: Host, peer: Peer, ordinal: int = 1, **changes: Any) -> UserMessage:
    packet = peer.message(FAR, "forged", **JN, **changes)
    packet.user.source_queue_manager = a.guid
    packet.user.message_id = ordinal
    return UserMessage.decode(packet.encode())


def test_a_stranger_cannot_bring_anything_back(net: Net, a: Host, r: Host) -> None:
    """Nor with the GUID of the relay."""
    a.send(FAR, letter("m"))
    net.advance(2)
    before = a.network.statistics.messages_rejected
    stranger = net.add_peer("stranger")
    for guid in (stranger.guid, r.guid):
        stranger.guid = guid
        stranger.connect(a)
        stranger.send(in_the_name_of(a, stranger))
    assert a.bodies(";deadletter") == []
    assert discarded(a) == ["the message claims to be from this computer"] * 2
    assert a.network.statistics.messages_rejected == before + 2


def test_a_number_that_was_never_given_out_is_not_believed(net: Net, a: Host, r: Host) -> None:
    a.send(FAR, letter("m"))
    net.advance(2)
    peer = net.add_peer("peer")
    peer.guid, peer.address = r.guid, r.address
    peer.connect(a)
    for ordinal in (0, a.node.manager.last_ordinal + 1):
        peer.send(in_the_name_of(a, peer, ordinal))
    assert a.bodies(";deadletter") == []
    sentence = "the message claims to be from this computer, but this computer has not sent a message with this number"
    assert discarded(a) == [sentence] * 2


def test_a_transactional_message_that_was_never_sent_is_not_believed(net: Net, a: Host, r: Host) -> None:
    a.send(FAR, letter("m"))
    net.advance(2)
    peer = net.add_peer("peer")
    peer.guid, peer.address = r.guid, r.address
    peer.connect(a)
    peer.send(in_the_name_of(a, peer, tx=(5, 1, 0)))
    assert a.network.statistics.messages_returned == 1
    assert discarded(a) == ["the message was sent from this computer, and its delivery is complete"]
