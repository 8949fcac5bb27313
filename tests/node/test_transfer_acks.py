"""Acknowledgments between whole queue managers: MS-MQQB 1.3.5, 2.2.5, 3.1.5.7, 3.1.5.11, 3.1.7.2 and 3.1.7.17."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_descriptor import Acl, SecurityDescriptor
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:b\private$\q"
T = r"DIRECT=OS:b\private$\t"
P = r"DIRECT=OS:peer\private$\t"
HERE = r"DIRECT=OS:a\private$\t"
ALL = Acknowledgements.ACK_FULL_REACH_QUEUE | Acknowledgements.ACK_FULL_RECEIVE
JP: dict[str, Any] = {"positive_journaling_requested": True}
JN: dict[str, Any] = {"negative_journaling_requested": True}
# A DACL that is empty allows nothing to anybody.
CLOSED = SecurityDescriptor(dacl=Acl()).encode()


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a")
    host.create("t", transactional=True)
    host.create("admin")
    return host


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    assert a.is_up
    host = net.add("b")
    host.create("q")
    host.create("t", transactional=True)
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def asking(host: str = "a", name: str = "OS:{}") -> dict[str, Any]:
    admin = FormatName.parse(f"DIRECT={name.format(host)}\\private$\\admin")
    return {"administration_queue_format_name": admin, "acknowledgements_requested": ALL}


def classes(peer: Peer) -> list[int]:
    return [ack.message_class for ack in peer.of(FinalAck)]


@pytest.mark.spec("MQQB-1.3.5.1-01")
def test_a_session_ack_goes_back_on_the_connection_that_the_messages_came_on(net: Net, a: Host, peer: Peer) -> None:
    a.create("q")
    one, two = peer.connect(a), peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\q", "m"), on=one)
    net.advance(20)
    assert any(isinstance(packet, SessionAck) for packet in peer.on(one))
    assert not any(isinstance(packet, SessionAck) for packet in peer.on(two))


@pytest.mark.spec("MQQB-1.3.5.1-01")
def test_transactional_acks_use_a_session_that_is_open(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("m", **JP))
    net.advance(2)
    b.receive("t")
    assert (len(net.packets(OrderAck, "b", "a")), len(net.packets(FinalAck, "b", "a"))) == (1, 1)
    assert net.packets(EstablishConnection, "b", "a") == net.packets(EstablishConnection)[1:]


@pytest.mark.spec("MQQB-1.3.5.1-01")
def test_transactional_acks_have_a_session_opened_if_there_is_none(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("m", **JP))
    net.part(a, b)
    net.join()
    net.advance(2)
    assert len(net.packets(OrderAck, "b", "a")) == 1
    net.advance(2000)
    assert (a.network.open_sessions, b.network.open_sessions) == ([], [])
    b.receive("t")
    assert len(net.packets(FinalAck, "b", "a")) == 1
    assert a.bodies(";journal") == ["m"]


@pytest.mark.spec("MQQB-1.3.5.2-01")
@pytest.mark.parametrize("name", ["OS:a", "TCP:127.0.0.2"])
def test_an_administration_ack_uses_a_session_that_was_opened_to_the_host(
    net: Net, a: Host, b: Host, name: str
) -> None:
    b.send(r"DIRECT=OS:a\private$\admin", "before")
    a.send(Q, letter("m", **asking(name=name)))
    net.advance(2)
    assert a.classes("admin") == [0x0000, 0x0002]
    assert len(net.packets(EstablishConnection)) == 4


@pytest.mark.spec("MQQB-1.3.5.2-01")
def test_an_administration_ack_uses_a_session_with_the_queue_manager_that_its_name_tells(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    admin = FormatName.parse(a.name_of("admin"))
    b.send(r"DIRECT=OS:a\private$\admin", "before")
    a.send(Q, letter("m", administration_queue_format_name=admin, acknowledgements_requested=ALL))
    net.advance(2)
    assert a.classes("admin") == [0x0000, 0x0002]
    assert len(net.packets(EstablishConnection)) == 4


@pytest.mark.spec("MQQB-1.3.5.2-01")
def test_an_administration_ack_has_a_session_opened_to_another_host(net: Net, a: Host, b: Host) -> None:
    c = net.add("c")
    c.create("admin")
    a.send(Q, letter("by host name", **asking("c")))
    a.send(Q, letter("by address", **asking(name=f"TCP:{c.address}")))
    net.advance(2)
    assert c.classes("admin") == [0x0002, 0x0002]
    assert len(net.packets(EstablishConnection, "b", "c")) == 1


@pytest.mark.spec("MQQB-1.3.5.2-01")
def test_an_administration_ack_to_an_http_name_opens_no_session(net: Net, a: Host, b: Host) -> None:
    c = net.add("c")
    admin = FormatName.parse("DIRECT=HTTP://c/msmq/private$/admin")
    a.send(Q, letter("m", administration_queue_format_name=admin, acknowledgements_requested=ALL))
    net.advance(2)
    assert net.packets(EstablishConnection, "b", "c") == []
    assert c.network.sessions == []
    # It is refused, because nothing would ever take it from an outgoing queue.
    assert (list(b.node.manager.collection.outgoing), b.network.statistics.acks_refused) == ([], 1)


@pytest.mark.spec("MQQB-3.1.1.1.1.4-02")
@pytest.mark.parametrize("make", [express, letter])
def test_what_becomes_of_a_message_in_its_queue_is_told_to_its_administration_queue(
    net: Net, a: Host, b: Host, make: Callable[..., Message]
) -> None:  # fmt: skip
    b.create("gone")
    a.send(Q, make("received", **asking()))
    b.receive("q")
    a.send(Q, make("expires", time_to_be_received=15, **asking()))
    net.advance(17)
    a.send(Q, make("purged", **asking()))
    b.purge("q")
    a.send(r"DIRECT=OS:b\private$\gone", make("deleted", **asking()))
    b.delete("gone")
    net.advance(2)
    told = [each for each in a.classes("admin") if each != 0x0002]
    assert told == [0x4000, 0xC002, 0xC001, 0xC000]
    # A sender that did not ask gets nothing.
    a.send(Q, make("m"))
    b.receive("q")
    net.advance(2)
    assert len(a.bodies("admin")) == 8


@pytest.mark.spec("MQQB-3.1.5.11-01")
def test_an_administration_ack_is_received_like_any_message(net: Net, a: Host, peer: Peer) -> None:
    ack = peer.message(r"DIRECT=OS:a\private$\admin", "", message_class=0x4000)
    peer.connect(a)
    peer.send(ack)
    peer.send(ack)
    peer.send(peer.message(r"DIRECT=OS:a\private$\nowhere", "", message_class=0x4000, **asking("peer")))
    net.advance(15)
    assert a.classes("admin") == [0x4000]
    assert a.network.statistics.duplicates_discarded == 1
    assert max(each.session.ack_sequence_number for each in peer.of(SessionAck)) == 3
    a.create("closed", security=CLOSED)
    peer.send(peer.message(r"DIRECT=OS:a\private$\closed", "", message_class=0x4000))
    assert a.bodies("closed") == []


@pytest.mark.spec("MQQB-6-02")
@pytest.mark.parametrize("queue", ["admin_queue$", "notify_queue$", "order_queue$"])
def test_what_goes_to_a_queue_of_the_system_is_neither_journaled_nor_acknowledged(
    net: Net, a: Host, b: Host, queue: str
) -> None:  # fmt: skip
    name = f"DIRECT=OS:b\\private$\\{queue}"
    a.send(name, letter("delivered", **JP, **JN, **asking()))
    net.advance(2)
    net.part(a, b)
    a.send(name, letter("expires", time_to_reach_queue=1, **JP, **JN, **asking()))
    net.advance(10)
    assert a.bodies("admin") == []
    for suffix in (";journal", ";deadletter"):
        assert a.bodies(suffix) == b.bodies(suffix) == []


@pytest.mark.spec("MQQB-6-02")
def test_an_acknowledgment_is_neither_journaled_nor_acknowledged(net: Net, a: Host, b: Host) -> None:
    b.create("admin")
    for message_class in (0x0002, 0x4000, 0x8000, 0x0001):
        a.send(r"DIRECT=OS:b\private$\q", letter("", message_class=message_class, **JP, **JN, **asking()))
        b.receive("q")
    net.advance(2)
    assert (a.bodies("admin"), a.bodies(";journal")) == ([], [])


@pytest.mark.spec("MQQB-2.2.5-01", "MQQB-2.2.5-06", "MQQB-3.1.7.2.2-01")
def test_a_final_ack_goes_out_for_what_was_refused_and_for_what_was_journaled_and_left(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    a.create("q")
    peer.connect(a)
    peer.send(
        peer.message(HERE, "plain", tx=(5, 1, 0)),
        peer.message(HERE, "jp", tx=(5, 2, 1), **JP),
        peer.message(HERE, "jn", tx=(5, 3, 2), **JN),
        peer.message(r"DIRECT=OS:a\private$\q", "not transactional", **JP, **JN),
    )
    net.advance(2)
    assert classes(peer) == []
    a.receive("q")
    for expected in ([], [0x4000], [0x4000, 0x4000]):
        a.receive("t")
        net.advance(1)
        assert classes(peer) == expected
    assert [ack.body.tx_sequence_number for ack in peer.of(FinalAck)] == [2, 3]
    peer.send(peer.message(r"DIRECT=OS:a\private$\nowhere", "refused", tx=(5, 1, 0)))
    assert classes(peer)[2:] == [0x8000]


@pytest.mark.spec("MQDMPR-3.1.1.12-53", "MQQB-3.1.7.2.2-01")
def test_a_message_that_requires_a_final_ack_gets_one_when_it_is_received(net: Net, a: Host, peer: Peer) -> None:
    peer.connect(a)
    peer.send(
        peer.message(HERE, "no", tx=(5, 1, 0), final_ack_required=False),
        peer.message(HERE, "yes", tx=(5, 2, 1), final_ack_required=True),
    )
    for expected in ([], [2]):
        a.receive("t")
        net.advance(1)
        assert [ack.body.tx_sequence_number for ack in peer.of(FinalAck)] == expected


def test_what_is_purged_from_a_journal_leads_to_no_second_final_ack(net: Net, a: Host, peer: Peer) -> None:
    a.create("j", transactional=True, journaling=True)
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\j", "jp", tx=(6, 1, 0), **JP))
    a.receive("j")
    net.advance(1)
    journal = a.queue("j").journal
    assert journal is not None
    assert len(a.messages(journal)) == 1
    a.purge("j;journal")
    net.advance(1)
    assert (a.messages(journal), classes(peer)) == ([], [0x4000])


@pytest.mark.spec("MQQB-2.2.5-07")
@pytest.mark.parametrize(
    ("attributes", "changes", "message_class"),
    [
        ({"transactional": False}, {}, 0x8009),
        ({"security": CLOSED}, {}, 0x8004),
        ({"privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY}, {}, 0x8007),
        ({"authentication": True}, {}, 0x8006),
        ({"quota": 0}, {}, 0x8003),
        ({}, {"destination_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\nowhere")}, 0x8000),
        # readings MQQB 7.2
        ({}, {"sent_time": 1000, "time_to_reach_queue": 1}, 0x8002),
    ],
)
def test_a_refusal_is_told_by_a_negative_final_ack(
    net: Net, a: Host, peer: Peer, attributes: dict[str, Any], changes: dict[str, Any], message_class: int
) -> None:  # fmt: skip
    """0x800B of MS-MQQB 2.2.5 has no cause here: nothing is decrypted."""
    a.create("picky", **{"transactional": True, **attributes})
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\picky", "m", tx=(5, 1, 0), **changes))
    assert classes(peer) == [message_class]
    assert a.bodies("picky") == []


@pytest.mark.spec("MQQB-2.2.5-07")
def test_a_message_with_too_many_hops_is_told_by_a_negative_final_ack(net: Net, a: Host, peer: Peer) -> None:
    packet = peer.message(HERE, "m", tx=(5, 1, 0))
    packet.user.queue_manager_address = b"\x55" * 16
    packet.user.flags |= 0x1D
    peer.connect(a)
    peer.send(packet)
    assert classes(peer) == [0x8005]


@pytest.mark.spec("MQQB-2.2.5-07", "MQQB-3.1.7.2.2-01")
def test_the_end_of_a_journaled_message_is_told_by_a_negative_final_ack(net: Net, a: Host, peer: Peer) -> None:
    def send(number: int, **changes: Any) -> None:
        peer.send(peer.message(HERE, "m", tx=(5, number, number - 1), **JN, **changes))

    peer.connect(a)
    send(1, time_to_be_received=5)
    net.advance(7)
    send(2)
    a.purge("t")
    send(3)
    a.delete("t")
    assert classes(peer) == [0xC002, 0xC001, 0xC000]


@pytest.mark.spec("MQQB-3.1.5.7-02", "MQQB-3.1.5.7-04")
@pytest.mark.parametrize("is_waiting", [False, True])
@pytest.mark.parametrize(
    ("flags", "message_class", "kept"),
    [
        (JP, 0x4000, ";journal"),
        (JN, 0x4000, None),
        (JN, 0xC001, ";deadxact"),
        (JP, 0xC001, None),
        ({}, 0x8000, None),
    ],
)
def test_a_final_ack_ends_a_message_in_its_queue_and_in_the_table(
    net: Net,
    a: Host,
    peer: Peer,
    flags: dict[str, Any],
    message_class: int,
    kept: str | None,
    *,
    is_waiting: bool,
) -> None:
    a.send_all(P, letter("m", **flags))
    (packet,) = peer.of(UserMessage)
    if is_waiting:
        peer.acknowledge()
        peer.order_ack(1)
    assert a.bodies("awaiting_final_ack$" if is_waiting else P) == (["m"] if flags or not is_waiting else [])
    peer.final_ack(message_class, packet)
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == ([], [])
    for name in (";journal", ";deadletter", ";deadxact"):
        assert a.bodies(name) == (["m"] if name == kept else [])
    peer.acknowledge()
    net.advance(100)
    peer.hang_up()
    net.advance(10)
    assert peer.bodies == ["m"]


@pytest.mark.spec("MQQB-3.1.5.7-03")
@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_rejected_message_goes_to_the_dead_letter_queue_of_its_application(
    net: Net, a: Host, peer: Peer, *, is_waiting: bool
) -> None:  # fmt: skip
    a.create("dead", transactional=True)
    a.send_all(
        P,
        letter("own", application_deadletter_queue=r"a\private$\dead", **JN),
        letter("gone", application_deadletter_queue=r"a\private$\no such queue", **JN),
        letter("system", **JN),
    )
    packets = peer.of(UserMessage)
    if is_waiting:
        peer.acknowledge()
        peer.order_ack(3)
    for packet in packets:
        peer.final_ack(0x8004, packet)
    assert (a.bodies("dead"), a.bodies(";deadxact"), a.bodies(";deadletter")) == (["own"], ["gone", "system"], [])
    assert a.classes("dead") == [0x8004]


@pytest.mark.spec("MQQB-3.1.5.6-01", "MQQB-3.1.5.7-01")
@pytest.mark.parametrize("kind", ["OrderAck", "FinalAck"])
def test_a_transactional_ack_before_the_session_is_open_closes_it(net: Net, a: Host, peer: Peer, kind: str) -> None:
    a.send_all(P, letter("m", **JN))
    (packet,) = peer.of(UserMessage)
    before = len(a.network.sessions)
    peer.dial(a)
    assert len(a.network.sessions) == before + 1
    if kind == "OrderAck":
        peer.order_ack(1)
    else:
        peer.final_ack(0x8000, packet)
    assert len(a.network.sessions) == before
    assert (a.bodies(P), a.bodies(";deadxact")) == (["m"], [])


@pytest.mark.spec("MQQB-3.1.7.17-05")
def test_an_ack_for_which_no_queue_can_be_opened_is_discarded(
    net: Net, a: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes again with its message: an OrderAck, and the FinalAck of a message that was refused."""
    monkeypatch.setattr("waypost.core.outgoing.MAX_OUTGOING_QUEUES", 0)
    stranger = net.add_peer("stranger")
    stranger.connect(a)
    stranger.send(stranger.message(a.name_of("t"), "m", tx=(5, 1, 0), **JP))
    stranger.send(stranger.message(r"DIRECT=OS:a\private$\nowhere", "m", tx=(5, 1, 0), **JP))
    net.advance(2)
    assert a.bodies("t") == ["m"]
    assert (stranger.of(OrderAck), stranger.of(FinalAck)) == ([], [])
    assert a.node.manager.collection.outgoing == {}


def test_final_acks_that_are_sent_are_counted(net: Net, a: Host, peer: Peer) -> None:
    peer.connect(a)
    peer.send(peer.message(HERE, "m", tx=(5, 1, 0), **JP))
    a.receive("t")
    peer.send(peer.message(r"DIRECT=OS:a\private$\nowhere", "m", tx=(5, 1, 0)))
    assert a.network.statistics.final_acks_sent == len(peer.of(FinalAck)) == 2


@pytest.mark.spec("MQDMPR-3.1.1.12-08")
def test_arrival_order_and_receipt_have_classes_of_their_own(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("m", **asking(), **JP))
    net.advance(2)
    (order,) = net.packets(OrderAck, "b", "a")
    assert order.message.properties.message_class == 0x00FF
    assert a.classes("admin") == [0x0002]
    b.receive("t")
    net.advance(2)
    assert a.classes("admin") == [0x0002, 0x4000]
    assert [ack.message_class for ack in net.packets(FinalAck)] == [0x4000]


def test_a_status_queue_that_an_application_names_is_ignored(net: Net, a: Host, b: Host) -> None:
    status = FormatName.parse(r"DIRECT=OS:a\private$\admin")
    a.send_all(T, letter("m", transaction_status_queue_format_name=status))
    net.advance(2)
    b.receive("t")
    net.advance(2)
    assert a.bodies("admin") == []


@pytest.mark.spec("MQMQ-2.2.19.1-12")
def test_order_acks_and_final_acks_have_all_the_time_there_is(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("m", **JP))
    net.advance(2)
    net.part(a, b)
    b.receive("t")
    # Longer than the time that a message has without saying so, which is four days.
    net.advance(30 * 86_400)
    net.join()
    # Nobody has dialled for weeks: they wait for the next session.
    a.send_all(T, letter("next"))
    net.advance(6000)
    for acks in (net.packets(OrderAck, "b", "a"), net.packets(FinalAck, "b", "a")):
        assert {ack.message.base.time_to_reach_queue for ack in acks} == {INFINITE}
    assert a.bodies(";journal") == ["m"]
