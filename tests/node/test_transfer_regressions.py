"""What once went wrong between whole queue managers, and what a stranger could do to one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, express, letter
from waypost.core.message_values import Acknowledgements
from waypost.node.network.runs import run_key
from waypost.node.transactional_acks import ack_queue, peer_of
from waypost.routing.routes import Route
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.transactional_acks import FinalAck, OrderAck, OrderAckBody, local_order_queue, order_ack
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:b\private$\q"
T = r"DIRECT=OS:b\private$\t"
P = r"DIRECT=OS:peer\private$\q"
NOWHERE = r"DIRECT=OS:b\private$\nowhere"
ELSEWHERE = b"\x09" * 16


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net) -> Host:
    return with_queues(net.add("b", TRANSFER, [Route(ELSEWHERE, "nowhere")]))


@pytest.fixture
def peer(net: Net) -> Peer:
    return net.add_peer()


def with_queues(host: Host) -> Host:
    host.create("q")
    host.create("t", transactional=True)
    return host


def made_up(peer: Peer, count: int) -> Iterator[bytes]:
    """The peer takes one GUID after the other."""
    for number in range(1, count + 1):
        peer.guid = number.to_bytes(16, "little")
        yield peer.guid


def told(peer: Peer) -> list[int]:
    """What its OrderAcks say."""
    return [ack.body.tx_sequence_number for ack in peer.of(OrderAck)]


# Runs, and what stands between them.


def ack_for_elsewhere(net: Net, peer: Peer) -> OrderAck:
    """It is for another queue manager, so it is forwarded like any message."""
    user = UserHeader(
        source_queue_manager=peer.guid,
        queue_manager_address=ELSEWHERE,
        message_id=77,
        sent_time=int(net.now.wall),
    )
    return order_ack(user, local_order_queue(), OrderAckBody(5, 1, 0))


def test_an_acknowledgment_between_two_runs_neither_loses_nor_stops_anything(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    messages = [peer.message(T, str(number), tx=(1, number, number - 1)) for number in (1, 2, 3, 4)]
    peer.send(*messages[:2], ack_for_elsewhere(net, peer), *messages[2:])
    net.advance(1)
    assert b.bodies("t") == ["1", "2", "3", "4"]
    assert told(peer) == [4]


def test_an_acknowledgment_with_a_name_that_is_not_understood_neither_loses_nor_stops_anything(
    net: Net, b: Host, peer: Peer
) -> None:
    messages = [peer.message(T, str(number), tx=(1, number, number - 1)) for number in (1, 2, 3)]
    odd = ack_for_elsewhere(net, peer)
    odd.message.user.response_queue = DirectQueueFormatName("bogus")
    peer.connect(b)
    peer.send(*messages[:2], odd, messages[2])
    net.advance(1)
    assert (b.bodies("t"), told(peer)[-1]) == (["1", "2", "3"], 3)


@pytest.mark.parametrize("free", [-1, 0])
def test_what_came_before_an_acknowledgment_without_room_is_kept(net: Net, peer: Peer, free: int) -> None:
    """The run has taken its place in the sequence already."""
    b = with_queues(net.add("b", TRANSFER, [Route(ELSEWHERE, "nowhere")], quota=20))
    ack = ack_for_elsewhere(net, peer)
    empty = len(peer.message(T, "1", tx=(1, 1, 0), body=b"").encode())
    left = (len(ack.encode()) + free) // 4 * 4
    message = peer.message(T, "1", tx=(1, 1, 0), body=bytes(20 * 1024 - empty - left))
    peer.connect(b)
    peer.send(message, ack)
    assert b.bodies("t") == ["1"]
    assert len(b.network.sessions) == (1 if free == 0 else 0)
    peer.connect(b)
    peer.send(message)
    assert b.bodies("t") == ["1"]


# Acknowledgments.


def test_an_order_ack_tells_nothing_that_is_not_durable_although_more_came_meanwhile(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    a.send_all(T, "1")
    net.advance(2)
    b.hold_disk()
    a.send_all(T, "2")
    net.advance(0.6)
    a.send_all(T, "3")
    assert b.memory.pending == 2
    for token in b.engine.finish(1):
        b.node.persisted(token, net.now)
    net.settle()
    for connection in b.connections:
        b.network.writing_resumed(connection, net.now)
    net.settle()
    assert max(ack.body.tx_sequence_number for ack in net.packets(OrderAck)) < 3
    b.crash()
    net.advance(1)
    b.start()
    net.advance(100)
    assert (b.bodies("t"), a.bodies(T)) == (["1", "2", "3"], [])


def test_messages_that_the_destination_has_are_gone_when_the_session_breaks(net: Net, a: Host, peer: Peer) -> None:
    for body in ("1", "2"):
        a.send_all(P, letter(body, time_to_reach_queue=60, negative_journaling_requested=body == "1"))
    peer.order_ack(2)
    assert a.bodies(P) == ["1", "2"]
    net.part(a, peer)
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == ([], ["1"])
    net.advance(200)
    assert (a.bodies(";deadxact"), peer.bodies) == ([], ["1", "2"])


def test_an_accepted_message_that_comes_again_is_not_refused(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("m", negative_journaling_requested=True))
    # It is there, and its OrderAck is not.
    net.part(a, b)
    b.crash_and_start()
    assert (b.bodies("t"), a.bodies(T)) == (["m"], ["m"])
    b.queue("t").attributes.authentication = True
    net.join()
    net.advance(60)
    assert net.packets(FinalAck) == []
    assert (b.bodies("t"), a.bodies(T), a.bodies("awaiting_final_ack$"), a.bodies(";deadxact")) == (
        ["m"],
        [],
        ["m"],
        [],
    )


def test_two_queue_managers_behind_one_address_get_their_own_order_acks(net: Net, b: Host, peer: Peer) -> None:
    other = net.add_peer("other")
    other.address = peer.address
    for each in (peer, other):
        each.connect(b)
    peer.send(peer.message(T, "p1", tx=(1, 1, 0)))
    net.advance(1)
    for number in (1, 2):
        other.send(other.message(T, f"o{number}", tx=(1, number, number - 1)))
        net.advance(1)
    assert (told(peer), told(other)) == ([1], [1, 2])


def failures(host: Host, queue: str) -> int:
    return sum(notice.event == "connection failed" and notice.facts["queue"] == queue for notice in host.notices)


def test_acknowledgments_try_to_connect_ever_less_often_and_other_messages_do_not(
    net: Net, b: Host, peer: Peer
) -> None:  # fmt: skip
    peer.connect(b)
    peer.send(peer.message(T, "m", tx=(1, 1, 0)))
    net.part(b, peer)
    net.advance(1)
    (acks,) = b.node.manager.collection.outgoing.values()
    b.send(P, "m")
    times = []
    for second in range(400):
        before = failures(b, str(acks))
        net.advance(1)
        times += [second] * (failures(b, str(acks)) - before)
    assert [later - earlier for earlier, later in pairwise(times)] == [10, 20, 40, 60, 60, 60, 60, 60]
    assert failures(b, str(b.outgoing(P))) >= 400 / 5
    # Who comes gets them at once.
    net.join()
    peer.connect(b)
    assert told(peer) == [1]


# What others keep waiting.


def test_copies_of_one_message_to_two_queues_of_one_host_both_arrive(net: Net, a: Host, b: Host) -> None:
    b.create("other")
    for make in (express, letter):
        a.send(Q + r",DIRECT=OS:b\private$\other", make("m"))
    net.advance(3)
    assert b.bodies("q") == b.bodies("other") == ["m", "m"]
    assert b.network.statistics.duplicates_discarded == 0


def test_a_backlog_that_is_larger_than_the_numbers_of_a_session_goes_through_without_a_pause(
    net: Net, a: Host, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.transfer.session.LAST_NUMBER", 64)
    b.crash()
    for number in range(200):
        a.send(Q, str(number))
    b.start()
    net.advance(5)
    # Every session waits for its last acknowledgment, and none for another attempt to connect.
    net.advance(4)
    assert b.bodies("q") == [str(number) for number in range(200)]
    assert a.bodies(Q) == []
    assert len(net.packets(EstablishConnection, "a", "b")) == 4


def test_the_queues_that_share_a_session_take_turns(net: Net, a: Host, b: Host) -> None:
    b.create("other")
    other = r"DIRECT=OS:b\private$\other"
    for name in (Q, other):
        a.send(name, "first")
    b.hold_disk()
    for number in range(300):
        a.send(Q, str(number))
    a.send(other, "urgent")
    b.release_disk()
    sent = [packet.properties.label for packet in net.packets(UserMessage, "a", "b")]
    assert len(sent) == 303
    assert sent.index("urgent") < 100


def test_acknowledgments_go_before_what_waits_for_the_same_session(net: Net, b: Host, peer: Peer) -> None:
    for number in range(200):
        b.send(P, express(str(number)))
    assert len(peer.got) == peer.window
    peer.send(peer.message(T, "m", tx=(1, 1, 0)))
    net.advance(1)
    assert len(peer.got) == peer.window
    peer.acknowledge()
    assert isinstance(peer.got[peer.window], OrderAck)


# What strangers leave behind.


def test_a_stranger_with_the_guid_of_another_does_not_get_its_messages(net: Net) -> None:
    c = net.add("c")
    c.create("q")
    b = with_queues(net.add("b", TRANSFER, [Route(c.guid, "c")]))
    evil = net.add_peer("evil")
    evil.guid = c.guid
    evil.connect(b)
    b.send(c.name_of("q"), "secret")
    admin = FormatName.parse(c.name_of("q"))
    evil.send(
        evil.message(
            Q,
            "bait",
            administration_queue_format_name=admin,
            acknowledgements_requested=Acknowledgements.ACK_POS_ARRIVAL,
        )
    )
    net.advance(10)
    assert evil.bodies == []
    assert c.classes("q") == [0x0000, 0x0002]


def test_made_up_guids_leave_nothing_behind_if_nothing_of_them_was_accepted(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    for _ in made_up(peer, 20):
        peer.send(peer.message(T, "m", tx=(1, 5, 4)))
    peer.hang_up()
    assert b.next_deadline() is None
    assert (b.sources, b.node.sequences.incoming.in_memory, b.source_info("t")) == ([], 0, [])
    assert (len(b.network.arrivals._order_acking), b.node.manager.collection.outgoing) == (0, {})


def test_of_many_made_up_guids_all_sequences_are_kept_and_few_are_in_memory(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.incoming_store.MAX_CACHED_SEQUENCES", 10)
    b.crash_and_start()
    peer.connect(b)
    packets = []
    for _ in made_up(peer, 30):
        packets.append(peer.message(T, "m", tx=(1, 1, 0)))
        peer.send(packets[-1])
        net.advance(1)
    assert len(b.source_info("t")) == 30
    assert b.node.sequences.incoming.in_memory == 10
    b.crash_and_start()
    assert b.node.sequences.incoming.in_memory == 0
    peer.connect(b)
    # None of them is taken a second time, and each goes on.
    peer.send(*packets)
    assert len(b.bodies("t")) == 30
    for _ in made_up(peer, 30):
        peer.send(peer.message(T, "n", tx=(1, 2, 1)))
    assert len(b.bodies("t")) == 60


def test_names_that_nobody_has_make_few_outgoing_queues(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 5)
    peer.connect(b)
    for number in range(10):
        # Nobody is served as a relay, and nobody's acknowledgments take more than there may be.
        relayed = peer.message(rf"DIRECT=OS:nobody{number}\private$\q", "m")
        relayed.user.queue_manager_address = b"\x55" * 16
        peer.send(relayed)
    assert b.node.manager.collection.outgoing == {}
    for number in range(10):
        admin = FormatName.parse(rf"DIRECT=OS:nobody{number}\private$\q")
        asks = Acknowledgements.ACK_POS_ARRIVAL
        peer.send(peer.message(Q, "m", administration_queue_format_name=admin, acknowledgements_requested=asks))
    assert len(b.node.manager.collection.outgoing) == 5
    assert len(b.bodies("q")) == 10


def test_only_so_many_acknowledgments_of_refused_messages_wait_for_one_queue_manager(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.network.ack_queues.MAX_WAITING_ACKS", 5)
    peer.window = 1
    peer.connect(b)
    peer.send(*(peer.message(NOWHERE, "m", tx=(1, number, 0)) for number in range(1, 21)))
    net.part(b, peer)
    net.advance(1)
    (acks,) = b.node.manager.collection.outgoing.values()
    assert len(acks.positions) == 5
    assert b.network.statistics.final_acks_sent == 5
    # They do not stand in the way of others.
    other = net.add_peer("other")
    other.connect(b)
    other.send(other.message(NOWHERE, "m", tx=(1, 1, 0)))
    assert len(other.of(FinalAck)) == 1


def test_the_unfinished_packets_of_all_sessions_are_bounded(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.network.network.MAX_UNFINISHED_BYTES", 2500)
    peers = [peer, net.add_peer("second"), net.add_peer("third")]
    for each in peers:
        each.connect(b)
    packet = peer.message(Q, "m", body=bytes(4000)).encode()

    def feed(each: Peer, data: bytes) -> None:
        for _, connection in list(each.connections.values()):
            b.network.data_received(connection, data, net.now)
        net.settle()

    feed(peers[0], packet[:1000])
    feed(peers[1], packet[:1000])
    assert len(b.network.sessions) == 3
    feed(peers[1], packet[1000:1400])
    feed(peers[2], packet[:1000])
    assert [len(each.connections) for each in peers] == [1, 0, 1]
    peers[2].hang_up()
    # One address has the most in several smaller parts.
    for _ in range(3):
        peers[1].connect(b)
    feed(peers[1], packet[:600])
    assert [len(each.connections) for each in peers] == [1, 2, 0]
    # What is finished, and who has gone, makes room.
    feed(peers[0], packet[1000:])
    peers[1].hang_up()
    assert b.bodies("q") == ["m"]
    peers[2].connect(b)
    feed(peers[2], packet[:2400])
    assert len(b.network.sessions) == 2


# Queues without a session.


def test_a_paused_http_queue_that_is_resumed_opens_no_session(net: Net, a: Host) -> None:
    name = "DIRECT=HTTP://b/msmq/private$/q"
    net.add("b")
    a.send(name, "m")
    a.pause(name)
    a.resume(name)
    net.advance(60)
    assert (a.outgoing(name).link, a.network.sessions, a.notices) == (None, [], [])


def test_an_outgoing_queue_that_is_empty_goes_at_a_start(net: Net, a: Host, b: Host, peer: Peer) -> None:
    a.send_all(T, "m")
    net.part(a, peer)
    a.send(P, "waits")
    net.advance(3)
    assert len(a.node.manager.collection.outgoing) == 2
    assert len(b.node.manager.collection.outgoing) == 1
    for host in (a, b):
        host.crash()
    for host in (a, b):
        host.start()
    assert set(a.node.manager.collection.outgoing) == {FormatName.parse(P)}
    assert b.node.manager.collection.outgoing == {}


@pytest.mark.parametrize("address", ["", "nonsense", "b.example.org", "1.2.3.4.5"])
def test_a_connection_from_what_is_no_ip_address_is_refused(net: Net, b: Host, address: str) -> None:
    assert b.network.accept(address, net.now) is None
    assert (b.network.statistics.connections_refused, b.network.sessions) == (1, [])


@pytest.mark.parametrize("subqueue", ["", ";zz", ";00ff", f";{'0' * 31}"])
def test_a_name_that_only_looks_like_that_of_an_acknowledgment_queue_is_like_any_other(subqueue: str) -> None:
    assert peer_of(FormatName.parse(f"DIRECT=TCP:127.0.0.9\\PRIVATE$\\order_queue${subqueue}")) is None


@pytest.mark.parametrize("address", ["", "127.0.0.9", "fe80::1"])
@pytest.mark.parametrize("is_direct", [False, True])
def test_the_name_of_an_acknowledgment_queue_tells_the_queue_manager(a: Host, address: str, *, is_direct: bool) -> None:
    guid = bytes(range(16))
    name = ack_queue(guid, a.node.manager, address or "127.0.0.8", is_direct=is_direct and bool(address))
    assert peer_of(name) == peer_of(FormatName.parse(str(name))) == guid


def test_messages_for_another_queue_manager_are_not_of_one_run_with_those_for_this_one() -> None:
    ours = UserMessage(user=UserHeader(destination_queue=DirectQueueFormatName("OS:b\\private$\\q")))
    theirs = UserMessage(user=replace(ours.user, queue_manager_address=b"\x09" * 16))
    key = run_key(ours, 0.0)
    assert key is not None
    assert run_key(replace(ours), 0.0) == key != run_key(theirs, 0.0)
