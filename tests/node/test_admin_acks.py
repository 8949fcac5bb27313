"""Administration acknowledgments that messages of others ask for: how many queues they open, and to whom."""

from dataclasses import replace
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, letter
from waypost.core.message_values import Acknowledgements
from waypost.guid import guid_text
from waypost.limits import MAX_ANSWER_QUEUES
from waypost.routing.routes import Route
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.transactional_acks import FinalAck, OrderAck

Q = r"DIRECT=OS:b\private$\q"
ARRIVAL = Acknowledgements.ACK_POS_ARRIVAL


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def b(net: Net) -> Host:
    return destination(net)


@pytest.fixture
def peer(net: Net, b: Host) -> Peer:
    assert b.is_up
    return net.add_peer()


def destination(net: Net, *ack_hosts: str, routes: tuple[Route, ...] = ()) -> Host:
    transfer = replace(TRANSFER, ack_hosts=ack_hosts) if ack_hosts else TRANSFER
    host = net.add("b", transfer, routes)
    host.create("q")
    host.create("t", transactional=True)
    return host


def asking(admin: str, wanted: Acknowledgements = ARRIVAL) -> dict[str, Any]:
    name = FormatName.parse(admin if "=" in admin else rf"DIRECT=OS:{admin}\private$\admin")
    return {"administration_queue_format_name": name, "acknowledgements_requested": wanted}


def ask(peer: Peer, *admins: str) -> None:
    """Send messages whose arrival these queues want to know."""
    for admin in admins:
        peer.send(peer.message(Q, "m", **asking(admin)))


def open_for(b: Host) -> list[str]:
    """The hosts of outgoing queues, of which something waits in each."""
    outgoing = b.node.manager.collection.outgoing.values()
    assert all(len(queue.positions) for queue in outgoing)
    return sorted(queue.pathname.computer for queue in outgoing)


# Numbers.


def test_whoever_names_a_thousand_administration_queues_does_not_silence_others(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    ask(peer, *(f"nobody{number}" for number in range(1000)))
    honest = net.add("a")
    honest.create("admin")
    honest.send(Q, letter("m", **asking("a")))
    net.advance(2)
    assert honest.classes("admin") == [0x0002]


def test_what_a_peer_may_have_waiting_is_bounded_counted_and_told(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.admin_acks.MAX_QUEUES_FOR_ACKS_OF_PEER", 2)
    peer.connect(b)
    ask(peer, "one", "two", "three", "one")
    assert open_for(b) == ["one", "two"]
    assert b.network.statistics.acks_refused == 1
    (notice,) = [notice for notice in b.notices if notice.event == "acknowledgment refused"]
    assert notice.facts["peer"] == peer.address
    assert notice.facts["reason"] == "acknowledgments for this peer already wait in 2 queues"
    # Another GUID is the same peer, and another address is another one.
    peer.guid = b"\x44" * 16
    ask(peer, "four")
    assert open_for(b) == ["one", "two"]
    other = net.add_peer("other")
    other.connect(b)
    ask(other, "five")
    assert open_for(b) == ["five", "one", "two"]


def test_queues_that_one_message_names_beyond_the_bound_are_counted_and_told(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    names = tuple(FormatName.parse(rf"DIRECT=OS:h{number}\private$\admin") for number in range(MAX_ANSWER_QUEUES + 5))
    peer.send(peer.message(Q, "m", **asking("h0"), administration_multi_queue_format_name=names))
    assert len(open_for(b)) == MAX_ANSWER_QUEUES
    assert b.network.statistics.acks_refused == 5
    (notice,) = [notice for notice in b.notices if notice.event == "acknowledgment refused"]
    assert notice.facts["peer"] == peer.address
    assert notice.facts["queue"] == str(names[MAX_ANSWER_QUEUES])
    assert notice.facts["reason"] == f"a message may have at most {MAX_ANSWER_QUEUES} administration queues"


def test_only_queues_in_which_something_waits_count(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.network.admin_acks.MAX_QUEUES_FOR_ACKS_OF_PEER", 2)
    hosts = [net.add(f"h{number}") for number in range(5)]
    for host in hosts:
        host.create("admin")
    peer.connect(b)
    for number in range(5):
        ask(peer, f"h{number}")
        net.advance(2)
    assert [host.classes("admin") for host in hosts] == [[0x0002]] * 5


def test_a_peer_with_few_queues_gets_its_own_though_others_have_many(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.admin_acks.MAX_QUEUES_FOR_ACKS", 4)
    monkeypatch.setattr("waypost.node.network.admin_acks.FEW_QUEUES_FOR_ACKS", 1)
    peer.connect(b)
    ask(peer, *(f"nobody{number}" for number in range(6)))
    assert len(open_for(b)) == 4
    other = net.add_peer("other")
    other.connect(b)
    ask(other, "mine", "another")
    assert len(open_for(b)) == 5
    assert "mine" in open_for(b)


def test_after_a_start_the_queues_of_a_peer_still_count(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.network.admin_acks.MAX_QUEUES_FOR_ACKS_OF_PEER", 2)
    peer.connect(b)
    ask(peer, "one", "two")
    b.crash_and_start()
    peer.connect(b)
    ask(peer, "three")
    assert open_for(b) == ["one", "two"]
    assert b.network.statistics.acks_refused == 1


def test_an_acknowledgment_of_receipt_counts_for_the_peer_that_brought_the_message(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.admin_acks.MAX_QUEUES_FOR_ACKS_OF_PEER", 1)
    peer.connect(b)
    wanted = Acknowledgements.ACK_POS_RECEIVE
    for admin in ("one", "two"):
        peer.send(peer.message(Q, "m", **asking(admin, wanted)))
    peer.hang_up()
    b.crash_and_start()
    b.receive("q")
    b.receive("q")
    assert open_for(b) == ["one"]
    assert b.network.statistics.acks_refused == 1


def test_one_for_which_there_is_no_room_is_told(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    peer.send(peer.message(Q, "m", **asking("far", Acknowledgements.ACK_POS_RECEIVE)))
    with b.node.kernel.operation(net.now):
        b.node.manager.set_quota(0)
    b.receive("q")
    assert b.network.statistics.acks_refused == 1
    (notice,) = [notice for notice in b.notices if notice.event == "acknowledgment refused"]
    assert notice.facts["reason"] == "the queue does not accept the acknowledgment (queue_manager_quota_exceeded)"


# Attempts.


def test_a_host_that_only_others_named_is_tried_less_and_less(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    ask(peer, r"DIRECT=TCP:127.0.0.99\private$\admin")
    net.advance(14 * 86_400)
    dials = b.network.statistics.dials_for_strangers
    assert 200 < dials < 300
    net.advance(86_400)
    assert b.network.statistics.dials_for_strangers == dials
    # When a program here sends there, it is tried at once, and as often as ever.
    failed = b.network.statistics.connections_failed
    b.send(r"DIRECT=TCP:127.0.0.99\private$\admin", "m")
    assert b.network.statistics.connections_failed == failed + 1
    net.advance(3600)
    assert b.network.statistics.connections_failed > failed + 700
    assert b.network.statistics.dials_for_strangers == dials


# To whom.


@pytest.mark.parametrize(
    ("ack_hosts", "expected"),
    [
        (("any",), ["by.name", "by address", "by route"]),
        (("known",), ["by route"]),
        (("C",), ["by.name"]),
        (("127.0.0.4",), ["by address"]),
        (("known", "127.0.0.4"), ["by address", "by route"]),
        (("elsewhere",), []),
    ],
)
def test_the_setting_says_to_whom_acknowledgments_may_go(
    net: Net, ack_hosts: tuple[str, ...], expected: list[str]
) -> None:
    b = destination(net, *ack_hosts)
    peer, c, d = net.add_peer(), net.add("c"), net.add("d")
    assert c.address == "127.0.0.4"
    b.restart(routes=(Route(d.guid, "d"),))
    for host in (c, d):
        host.create("admin")
    names = {
        "by.name": r"DIRECT=OS:c\private$\admin",
        "by address": rf"DIRECT=TCP:{c.address}\private$\admin",
        "by route": d.name_of("admin"),
    }
    peer.connect(b)
    ask(peer, *names.values())
    net.advance(2)
    went = [
        *(("by.name",) if b.node.manager.collection.outgoing.get(FormatName.parse(names["by.name"])) else ()),
        *(("by address",) if b.node.manager.collection.outgoing.get(FormatName.parse(names["by address"])) else ()),
        *(("by route",) if d.classes("admin") else ()),
    ]
    assert went == expected
    assert len(c.classes("admin")) == len(set(expected) - {"by route"})
    assert b.network.statistics.acks_refused == 3 - len(expected)


def test_a_listed_guid_allows_the_private_names_of_its_queue_manager(net: Net) -> None:
    c = net.add("c")
    c.create("admin")
    b = destination(net, guid_text(c.guid), routes=(Route(c.guid, "c"),))
    peer = net.add_peer()
    peer.connect(b)
    ask(peer, c.name_of("admin"), r"DIRECT=OS:c\private$\admin")
    net.advance(2)
    assert c.classes("admin") == [0x0002]


def test_the_host_of_a_route_is_known_by_its_name(net: Net) -> None:
    c = net.add("c")
    c.create("admin")
    b = destination(net, "known", routes=(Route(c.guid, "c.example.org"),))
    peer = net.add_peer()
    peer.connect(b)
    ask(peer, r"DIRECT=OS:C\private$\admin", r"DIRECT=OS:c.example.org\private$\admin", "d")
    net.advance(2)
    assert c.classes("admin") == [0x0002, 0x0002]
    assert b.network.statistics.acks_refused == 1


def test_a_host_that_was_dialled_from_here_is_known_also_after_a_crash(net: Net) -> None:
    b = destination(net, "known")
    c, peer = net.add("c"), net.add_peer()
    c.create("admin")
    c.create("q")
    peer.connect(b)
    ask(peer, "c")
    net.advance(2)
    assert c.classes("admin") == []
    b.send(r"DIRECT=OS:c\private$\q", "m")
    b.crash_and_start()
    peer.connect(b)
    ask(peer, "c", rf"DIRECT=TCP:{c.address}\private$\admin")
    net.advance(2)
    assert c.classes("admin") == [0x0002, 0x0002]


def test_only_so_many_hosts_are_known_by_dialling(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.network.ack_hosts.MAX_MET_HOSTS", 4)
    b = destination(net, "known")
    for name in ("c", "d", "e"):
        net.add(name).create("q")
        b.send(rf"DIRECT=OS:{name}\private$\q", "m")
        net.advance(1)
    for _ in range(2):
        hosts = b.network.admin_acks.hosts
        allowed = [name for name in "cde" if hosts.allow(FormatName.parse(rf"DIRECT=OS:{name}\private$\admin"))]
        assert allowed == ["d", "e"]
        b.crash_and_start()


def test_a_dial_for_an_acknowledgment_makes_nobody_known(net: Net) -> None:
    b = destination(net, "known")
    peer = net.add_peer()
    peer.connect(b)
    peer.send(peer.message(r"DIRECT=OS:b\private$\t", "m", tx=(5, 1, 0), positive_journaling_requested=True))
    net.advance(2)
    peer.hang_up()
    b.receive("t")
    net.advance(20)
    # OrderAck and FinalAck go where the message came from.
    assert len(peer.of(FinalAck)) == 1
    assert len(peer.of(OrderAck)) >= 1
    assert len(net.packets(EstablishConnection, "b", "peer")) >= 1
    peer.connect(b)
    ask(peer, rf"DIRECT=TCP:{peer.address}\private$\admin")
    net.advance(2)
    assert b.network.statistics.acks_refused == 1


def test_what_a_program_here_asks_for_is_no_concern_of_the_setting(net: Net) -> None:
    b = destination(net, "nobody")
    c = net.add("c")
    c.create("admin")
    b.send(Q, letter("m", **asking("c")))
    net.advance(2)
    assert c.classes("admin") == [0x0002]
    assert b.network.statistics.dials_for_strangers == 0


def test_an_administration_queue_over_http_gets_nothing_and_leaves_no_queue(net: Net, b: Host, peer: Peer) -> None:
    peer.connect(b)
    ask(peer, "DIRECT=HTTP://192.0.2.7/msmq/private$/x")
    assert (b.bodies("q"), list(b.node.manager.collection.outgoing)) == (["m"], [])
    assert b.network.statistics.acks_refused == 1
    assert "acknowledgments over HTTP are not supported" in b.network.admin_acks.last_refusal


def test_administration_acks_take_no_places_of_what_is_owed_to_another(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.node.network.ack_queues.MAX_WAITING_ACKS", 5)
    honest = net.add_peer("honest")
    honest.connect(b)
    wanted: dict[str, Any] = {"positive_journaling_requested": True}
    honest.send(honest.message(b.name_of("t"), "1", tx=(7, 1, 0), **wanted))
    net.advance(2)
    honest.acknowledge()
    net.part(b, honest)
    b.receive("t")
    (owed,) = b.node.manager.collection.outgoing
    peer.connect(b)
    for name in (str(owed), rf"PRIVATE={guid_text(honest.guid)}\00000004"):
        ask(peer, *[name] * 5)
    assert len(b.outgoing(str(owed)).positions) == 1
    assert list(b.node.manager.collection.outgoing) == [owed]
    assert b.network.statistics.acks_refused == 10
