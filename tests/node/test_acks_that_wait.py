"""OrderAcks and FinalAcks for unreachable queue managers: they go where the message came from, or wait."""

from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, letter
from waypost.api.operations import AdmitAddress
from waypost.core.message_values import Acknowledgements
from waypost.core.stored_message import sequence_of
from waypost.guid import guid_text
from waypost.node.effects import Connect, DialReason, Write
from waypost.routing.routes import Route
from waypost.routing.routing import Hop
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.packets import decode_packet
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

JP: dict[str, Any] = {"positive_journaling_requested": True}
DAY = 86_400
FOREVER = 0xFFFF_FFFF


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def b(net: Net) -> Host:
    """The destination. It knows no way to anybody."""
    host = net.add("b", TRANSFER, (), long_live_time=FOREVER)
    host.create("t", transactional=True)
    return host


@pytest.fixture
def peer(net: Net, b: Host) -> Peer:
    assert b.is_up
    return net.add_peer()


def sender(net: Net, b: Host) -> Host:
    """It knows the way to b by its GUID."""
    return net.add("a", TRANSFER, [Route(b.guid, "b")])


def order_queue(peer: Host | Peer) -> str:
    """The outgoing queue of acknowledgments for what a queue manager has sent by itself."""
    return rf"DIRECT=TCP:{peer.address}\PRIVATE$\order_queue$back;{peer.guid.hex()}"


def send(peer: Peer, b: Host, *numbers: int, name: str = "") -> None:
    """Messages of one sequence whose end is wanted to be known."""
    name = name or b.name_of("t")
    peer.send(*(peer.message(name, str(number), tx=(7, number, number - 1), **JP) for number in numbers))


def receive(b: Host, count: int) -> None:
    for _ in range(count):
        b.receive("t")


def acked(peer: Peer) -> list[int]:
    """The numbers that FinalAcks have told of."""
    return [ack.body.tx_sequence_number for ack in peer.of(FinalAck)]


def waiting(b: Host, peer: Host | Peer) -> int:
    queue = b.node.manager.collection.outgoing.get(FormatName.parse(order_queue(peer)))
    return 0 if queue is None else len(queue.positions)


def dials(net: Net, host: Host) -> int:
    return len(net.packets(EstablishConnection, host.name))


# Where they go.


def test_a_final_ack_without_a_route_goes_to_the_address_that_the_message_came_from(net: Net, b: Host) -> None:
    a = sender(net, b)
    a.send_all(b.name_of("t"), letter("m", **JP))
    net.advance(2000)
    assert (a.network.sessions, b.network.sessions) == ([], [])
    b.receive("t")
    net.settle()
    assert a.bodies(";journal") == ["m"]


def test_a_final_ack_waits_for_its_host_and_survives_a_crash(net: Net, b: Host) -> None:
    a = sender(net, b)
    a.send_all(b.name_of("t"), letter("m", **JP))
    net.advance(2)
    a.crash()
    b.receive("t")
    b.crash_and_start()
    net.advance(100)
    assert waiting(b, a) == 1
    a.start()
    net.advance(100)
    assert a.bodies(";journal") == ["m"]


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_host_that_has_moved_gets_its_acks_with_its_next_session(
    net: Net, b: Host, peer: Peer, *, is_direct: bool
) -> None:
    """It is known at both addresses, which an operator has admitted here."""
    b.handlers.start(b._call(), AdmitAddress(guid=guid_text(peer.guid), address=peer.address))
    peer.connect(b)
    send(peer, b, 1, name=r"DIRECT=OS:b\private$\t" if is_direct else "")
    net.part(b, peer)
    b.receive("t")
    moved = net.add_peer("moved")
    moved.guid = peer.guid
    moved.connect(b)
    net.advance(200)
    assert acked(moved) == []
    # They are tried at once, at the old address first.
    b.handlers.start(b._call(), AdmitAddress(guid=guid_text(moved.guid), address=moved.address))
    net.advance(20)
    assert acked(moved) == [1]
    moved.acknowledge()
    net.advance(200)
    assert acked(moved) == [1]


@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("listens", [False, True])
def test_a_host_is_not_told_that_what_others_sent_in_its_name_has_arrived(
    net: Net, b: Host, monkeypatch: pytest.MonkeyPatch, *, is_direct: bool, listens: bool
) -> None:
    """The real source would believe it: it comes from the destination, and names a sequence of that source."""
    a = sender(net, b)
    b.restart(routes=(Route(a.guid, "a"),))
    b.create("other", transactional=True)
    carry = net.carry

    def lose(host: Host | Peer, effect: object) -> None:
        """Nothing that a writes arrives, but for the handshake."""
        if host is a and isinstance(effect, Write) and isinstance(decode_packet(effect.data), UserMessage):
            return
        carry(host, effect)

    monkeypatch.setattr(net, "carry", lose)
    a.send_all(b.name_of("t"), letter("m", **JP))
    (sent,) = a.messages(b.name_of("t"))
    sequence, number = sequence_of(sent.packet)[:2]
    stranger = net.add_peer("stranger")
    stranger.guid = a.guid
    stranger.connect(b)
    name = r"DIRECT=OS:b\private$\other" if is_direct else b.name_of("other")
    forged = stranger.message(name, "forged", tx=(sequence.ordinal, number, 0), identifier=sent.identifier, **JP)
    assert forged.transaction is not None
    forged.transaction.tx_sequence_id = sequence.value
    stranger.send(forged)
    if not listens:
        net.part(b, stranger)
    assert b.bodies("other") == ["forged"]
    b.receive("other")
    net.advance(600)
    assert (a.bodies(b.name_of("t")), a.bodies("awaiting_final_ack$"), a.bodies(";journal")) == (["m"], [], [])


def test_an_address_that_answers_with_the_guid_of_another_does_not_speak_for_it(net: Net, b: Host) -> None:
    """A program of b has sent there; and an address that is admitted for one queue manager is not one of all."""
    a = sender(net, b)
    stranger = net.add_peer("stranger")
    stranger.guid = a.guid
    b.send_all(rf"DIRECT=TCP:{stranger.address}\private$\q", "m")
    assert stranger.bodies == ["m"]
    other = net.add_peer("other")
    b.handlers.start(b._call(), AdmitAddress(guid=guid_text(other.guid), address=other.address))
    vouches = b.network.known_hosts.vouches
    assert not vouches(a.guid, Hop(a.guid, stranger.address), net.now)
    assert not vouches(a.guid, Hop(other.guid, other.address), net.now)
    assert vouches(other.guid, Hop(other.guid, other.address), net.now)


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_stranger_with_the_guid_of_the_source_does_not_get_its_acks(
    net: Net, b: Host, peer: Peer, *, is_direct: bool
) -> None:
    """Neither those that wait for the source when it comes, nor those that follow, nor while the source starts."""
    peer.connect(b)
    send(peer, b, 1, 2, 3, name=r"DIRECT=OS:b\private$\t" if is_direct else "")
    peer.acknowledge()
    net.advance(5)
    net.part(b, peer)
    b.receive("t")
    thief = net.add_peer("thief")
    thief.guid = peer.guid
    for _ in range(50):
        thief.connect(b)
        net.advance(2)
    b.receive("t")
    net.join()
    net.advance(60)
    b.receive("t")
    net.advance(60)
    assert (acked(thief), thief.of(OrderAck)) == ([], [])
    assert set(acked(peer)) == {1, 2, 3}


def test_a_stranger_that_sends_in_the_name_of_a_source_gets_only_acks_of_that(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1)
    peer.hang_up()
    thief = net.add_peer("thief")
    thief.guid = peer.guid
    thief.connect(b)
    thief.send(thief.message(b.name_of("t"), "forged", tx=(8, 1, 0), **JP))
    net.advance(5)
    assert b.bodies("t") == ["1", "forged"]
    receive(b, 2)
    net.advance(5)
    assert {ack.body.tx_sequence_id for ack in peer.of(FinalAck)} == {7}
    assert {ack.body.tx_sequence_id for ack in thief.of(FinalAck)} == {8}


def test_a_final_ack_goes_back_by_way_of_the_queue_manager_that_brought_the_message(net: Net, b: Host) -> None:
    """The relay knows the source. The destination knows nobody, also after a restart."""
    r = net.add("r", TRANSFER, [Route(b.guid, "b")])
    a = net.add("a", TRANSFER, [Route(r.guid, "r"), Route(b.guid, via=r.guid)])
    r.restart(routes=(Route(b.guid, "b"), Route(a.guid, "a")))
    a.send_all(b.name_of("t"), letter("m", **JP))
    net.advance(2000)
    assert b.network.sessions == []
    b.crash_and_start()
    b.receive("t")
    net.advance(2)
    assert len(net.packets(FinalAck, "b", "r")) == 1
    assert a.bodies(";journal") == ["m"]


def test_another_queue_manager_at_the_address_does_not_get_the_ack(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1)
    peer.hang_up()
    real, peer.guid = peer.guid, b"\x66" * 16
    b.receive("t")
    net.advance(30)
    assert acked(peer) == []
    peer.guid = real
    peer.connect(b)
    assert acked(peer) == [1]


@pytest.mark.parametrize(
    ("before", "after"),
    [("2001:db8::1", "2001:db8::2"), ("::ffff:192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "::ffff:192.0.2.7")],
)
def test_a_host_that_has_another_address_of_its_network_gets_its_acks_at_once(
    net: Net, b: Host, before: str, after: str
) -> None:
    peer = Peer(net, "before", "192.0.2.1")
    peer.address = before
    net.hosts[before] = peer
    peer.connect(b)
    send(peer, b, 1)
    net.part(b, peer)
    b.receive("t")
    net.join()
    guid = peer.guid
    del net.hosts[before]
    peer = Peer(net, "after", "192.0.2.1")
    peer.guid, peer.address = guid, after
    net.hosts[after] = peer
    peer.connect(b)
    assert acked(peer) == [1]


def test_a_connection_says_what_it_is_for(net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[DialReason] = []
    carry = net.carry

    def note(host: Host | Peer, effect: object) -> None:
        if isinstance(effect, Connect) and host is b:
            reasons.append(effect.reason)
        carry(host, effect)

    monkeypatch.setattr(net, "carry", note)
    b.create("q")
    peer.connect(b)
    admin = FormatName.parse("DIRECT=TCP:9.9.9.9\\x")
    wanted: dict[str, Any] = {
        "acknowledgements_requested": Acknowledgements.ACK_POS_ARRIVAL,
        "administration_queue_format_name": admin,
    }
    peer.send(peer.message(b.name_of("q"), "m", **wanted))
    assert reasons == [DialReason.NAMED]
    send(peer, b, 1)
    peer.hang_up()
    b.receive("t")
    assert reasons == [DialReason.NAMED, DialReason.OWED]
    b.send("DIRECT=TCP:9.9.9.8\\x", "m")
    assert reasons == [DialReason.NAMED, DialReason.OWED, DialReason.OWN]


# Owed acknowledgments are kept.


def test_any_number_of_final_acks_waits_for_one_host(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    peer.connect(b)
    send(peer, b, *range(1, 21))
    net.part(b, peer)
    monkeypatch.setattr("waypost.node.network.ack_queues.MAX_WAITING_ACKS", 5)
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 0)
    receive(b, 20)
    b.crash_and_start()
    assert waiting(b, peer) == 20
    net.join()
    peer.connect(b)
    assert acked(peer) == list(range(1, 21))


def test_a_full_quota_neither_keeps_messages_from_being_received_nor_their_acks(
    net: Net, b: Host, peer: Peer
) -> None:  # fmt: skip
    peer.connect(b)
    send(peer, b, *range(1, 11))
    net.part(b, peer)
    with b.node.kernel.operation(net.now):
        b.node.manager.set_quota(1)
    receive(b, 10)
    assert waiting(b, peer) == 10
    assert b.node.manager.total_bytes > 1024
    net.join()
    peer.connect(b)
    assert acked(peer) == list(range(1, 11))


def test_a_message_that_its_queue_has_no_room_for_is_told_of_whatever_the_limits_say(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its place in the sequence, so that its source does not send it again."""
    b.create("small", transactional=True, quota=0)
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 0)
    peer.connect(b)
    send(peer, b, 1, name=b.name_of("small"))
    net.advance(2)
    assert [ack.message_class for ack in peer.of(FinalAck)] == [0x8003]


def test_no_message_is_taken_from_a_source_whose_acks_have_piled_up_until_it_takes_them(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.ack_queues.MAX_WAITING_ACKS", 5)
    peer.connect(b)
    send(peer, b, *range(1, 11))
    net.advance(2)
    peer.acknowledge()
    net.part(b, peer)
    receive(b, 10)
    # Another one at the address brings a message of the same source, so that its acknowledgments stay here.
    source, peer.guid = peer.guid, b"\x66" * 16
    order_acks = len(peer.of(OrderAck))
    net.join()
    peer.connect(b)
    packet = peer.message(b.name_of("t"), "11", tx=(7, 11, 10), **JP)
    packet.user.source_queue_manager = source
    peer.send(packet)
    net.advance(2)
    assert (b.bodies("t"), len(peer.of(OrderAck))) == ([], order_acks)
    assert peer.of(SessionAck)[-1].session.ack_sequence_number == 1
    assert b.network.statistics.messages_refused_for_acks == 1
    (notice,) = [notice for notice in b.notices if notice.event == "message not taken"]
    assert notice.facts["reason"] == "10 acknowledgments already wait for the queue manager of the sender"
    # A source that does not want to know the end of its messages is not concerned.
    peer.send(peer.message(b.name_of("t"), "other", tx=(7, 1, 0)))
    assert b.bodies("t") == ["other"]
    b.receive("t")
    peer.hang_up()
    peer.guid = source
    peer.connect(b)
    assert len(acked(peer)) == 10
    peer.acknowledge()
    peer.send(packet)
    assert b.bodies("t") == ["11"]


def test_one_address_is_owed_acks_for_so_many_queue_managers_and_others_do_not_suffer(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.ack_queues.MAX_ACK_QUEUES_AT_ADDRESS", 5)
    monkeypatch.setattr("waypost.node.network.outgoing_links.MAX_ACK_QUEUES_AT_ADDRESS", 5)
    for number in range(1, 9):
        peer.guid = number.to_bytes(16, "little")
        peer.connect(b)
        send(peer, b, 1)
        net.part(b, peer)
        receive(b, len(b.bodies("t")))
        net.join()
    assert len(b.node.manager.collection.outgoing) == 5
    assert b.network.statistics.messages_refused_for_acks == 3
    other = net.add_peer("other")
    other.connect(b)
    send(other, b, 1)
    b.receive("t")
    assert acked(other) == [1]


# OrderAcks.


def test_an_order_ack_that_waits_is_replaced_by_the_next_of_its_sequence(net: Net, b: Host, peer: Peer) -> None:
    source = peer.guid
    for number in range(1, 6):
        # Relays that come and go behind one address.
        peer.guid = bytes([number + 0x60]) * 16
        peer.connect(b)
        packet = peer.message(b.name_of("t"), str(number), tx=(7, number, number - 1))
        packet.user.source_queue_manager = source
        peer.send(packet)
        net.part(b, peer)
        net.advance(2)
        peer.guid = source
        assert waiting(b, peer) == 1
        net.join()
    peer.connect(b)
    assert [ack.body.tx_sequence_number for ack in peer.of(OrderAck)] == [5]


# Duration of the attempts.


def test_a_host_that_is_gone_is_tried_less_and_less_and_then_not_at_all(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1)
    net.advance(2)
    peer.acknowledge()
    net.part(b, peer)
    b.receive("t")
    counts = []
    for seconds in (3600, DAY, 6 * DAY, 7 * DAY):
        before = b.network.statistics.connections_failed
        net.advance(seconds)
        counts.append(b.network.statistics.connections_failed - before)
    hour, day, week, afterwards = counts
    assert 50 < hour < 100
    assert 20 < day < 40
    assert week < 200
    assert afterwards <= 1
    assert b.next_deadline() is None
    assert b.network.statistics.dials_for_strangers == b.network.statistics.connections_failed
    assert waiting(b, peer) == 1
    net.join()
    peer.connect(b)
    assert acked(peer) == [1]


def test_acks_without_any_way_dial_nobody(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1)
    net.part(b, peer)
    b.receive("t")
    net.advance(5)
    # As in a folder that knows no addresses of them.
    queue = b.outgoing(order_queue(peer))
    queue.link.origins.clear()
    queue.link.next_hops.clear()
    failed = b.network.statistics.connections_failed
    net.advance(30 * DAY)
    assert b.network.statistics.connections_failed == failed
    assert b.next_deadline() is None
    net.join()
    peer.connect(b)
    assert acked(peer) == [1]


# The view and the means of the operator.


def test_acks_that_wait_for_seven_days_are_overdue(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1, 2)
    net.part(b, peer)
    receive(b, 2)
    net.advance(7 * DAY - 60)
    assert list(b.network.ack_queues.overdue(net.now.wall, b.node.manager.collection.outgoing.values())) == []
    b.crash_and_start()
    net.advance(120)
    (overdue,) = b.network.ack_queues.overdue(net.now.wall, b.node.manager.collection.outgoing.values())
    assert (str(overdue.queue), overdue.count) == (str(FormatName.parse(order_queue(peer))), 2)
    assert overdue.seconds // DAY == 7


def test_a_purge_of_their_queue_ends_acks_that_wait(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    send(peer, b, 1, 2)
    net.part(b, peer)
    receive(b, 2)
    b.purge(order_queue(peer))
    assert waiting(b, peer) == 0
    net.join()
    peer.connect(b)
    assert acked(peer) == []
    # The queue goes, and the next message is acknowledged again.
    send(peer, b, 3)
    b.receive("t")
    assert acked(peer) == [3]
