"""Packets that say something odd, and stop nothing: names that are not understood, numbers that no sequence has."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer
from waypost.core.message_values import Acknowledgements
from waypost.routing.routes import Route
from waypost.transfer.settings import TransferSettings
from waypost.wire import user_header
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import SessionAck
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import MqfDirectQueueFormatName, MqfFormatNameElement, MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.unknown_names import UnknownFormatName
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:a\private$\q"
T = r"DIRECT=OS:a\private$\t"
ADMIN = FormatName.parse(r"DIRECT=OS:a\private$\admin")


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return with_queues(net.add("a", TransferSettings(send_insecure_nacks=True)))


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(a)
    return peer


def with_queues(host: Host) -> Host:
    host.create("q")
    host.create("t", transactional=True)
    host.create("admin")
    return host


def response(packet: UserMessage) -> None:
    packet.user.response_queue = DirectQueueFormatName("bogus")


def response_on_a_host_that_nothing_tells(packet: UserMessage) -> None:
    packet.user.flags |= 4 << user_header.RQ_SHIFT
    packet.user.response_queue = PrivateQueueFormatNameId(7)


def response_of_several(packet: UserMessage) -> None:
    packet.multi_queue = MultiQueueFormatHeader()
    packet.multi_queue.response.elements.append(MqfFormatNameElement(MqfDirectQueueFormatName("bogus")))


@pytest.mark.parametrize("odd", [response, response_on_a_host_that_nothing_tells, response_of_several])
@pytest.mark.parametrize("name", [Q, T])
def test_a_message_with_a_response_queue_that_is_not_understood_is_delivered(
    a: Host, peer: Peer, name: str, odd: Callable[[UserMessage], None]
) -> None:
    packet = peer.message(name, "odd", tx=None if name == Q else (5, 1, 0))
    odd(packet)
    sent = packet.encode()
    peer.send(packet, peer.message(name, "next", tx=None if name == Q else (5, 2, 1)))
    queue = name.rpartition("\\")[2]
    assert a.bodies(queue) == ["odd", "next"]
    got = a.messages(queue)[0]
    assert got.packet == sent, "it is kept as it came"
    assert isinstance(
        got.response_multi_queue_format_name[0] if odd is response_of_several else got.response_queue_format_name,
        UnknownFormatName,
    )
    a.crash_and_start()
    assert a.receive(queue).packet == sent


def test_a_message_with_an_administration_queue_that_is_not_understood_is_delivered_and_not_acknowledged(
    a: Host, peer: Peer
) -> None:
    everything = Acknowledgements.ACK_POS_ARRIVAL | Acknowledgements.ACK_POS_RECEIVE
    packet = peer.message(
        Q, "odd", administration_queue_format_name=ADMIN, acknowledgements_requested=everything
    )  # fmt: skip
    packet.user.admin_queue = DirectQueueFormatName("bogus")
    peer.send(packet, peer.message(Q, "next"))
    assert a.bodies("q") == ["odd", "next"]
    assert str(a.receive("q").administration_queue_format_name) == "UNKNOWN=bogus"
    assert list(a.node.manager.collection.outgoing) == []
    assert a.bodies("admin") == []


@pytest.mark.parametrize("tx", [None, (5, 1, 0)])
def test_a_message_for_a_queue_whose_name_is_not_understood_is_refused_and_closes_nothing(
    a: Host, peer: Peer, tx: tuple[int, int, int] | None
) -> None:
    asks = Acknowledgements.ACK_NEG_ARRIVAL
    packet = peer.message(
        T, "odd", tx=tx, administration_queue_format_name=ADMIN, acknowledgements_requested=asks
    )  # fmt: skip
    packet.user.destination_queue = DirectQueueFormatName("bogus")
    peer.send(packet, peer.message(Q, "next"))
    assert a.bodies("q") == ["next"]
    assert a.classes("admin") == [MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q]
    assert [ack.message_class for ack in peer.of(FinalAck)] == ([] if tx is None else [0x8000])


@pytest.mark.parametrize("is_relay", [False, True])
def test_ipx_names_of_others_are_carried_and_lead_nowhere(net: Net, *, is_relay: bool) -> None:
    """Not as a destination, and not as one of acknowledgments."""
    a = with_queues(net.add("a", TransferSettings(send_insecure_nacks=True, is_routing_server=is_relay)))
    peer = net.add_peer()
    peer.connect(a)
    ipx = FormatName.parse(r"DIRECT=IPX:00000012:00a0234f7500\private$\q")
    asks = Acknowledgements.ACK_NEG_ARRIVAL | Acknowledgements.ACK_POS_ARRIVAL
    names: dict[str, Any] = {"administration_queue_format_name": ipx, "response_queue_format_name": ipx}
    here = peer.message(Q, "carried", acknowledgements_requested=asks, **names)
    lost = peer.message(str(ipx), "lost", administration_queue_format_name=ADMIN, acknowledgements_requested=asks)
    far = peer.message(str(ipx), "far", administration_queue_format_name=ADMIN, acknowledgements_requested=asks)
    far.user.queue_manager_address = b"\x77" * 16
    peer.send(here, lost, far, peer.message(Q, "next"))
    assert a.bodies("q") == ["carried", "next"]
    carried = a.receive("q")
    assert (carried.administration_queue_format_name, carried.response_queue_format_name) == (ipx, ipx)
    assert a.classes("admin") == [MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q] * 2
    assert list(a.node.manager.collection.outgoing) == []


def test_a_relay_passes_a_response_queue_that_it_does_not_understand_on_as_it_came(net: Net) -> None:
    far = with_queues(net.add("a"))
    relay = net.add("relay", TRANSFER, [Route(far.guid, "a")])
    peer = net.add_peer()
    peer.connect(relay)
    packet = peer.message(far.name_of("q"), "odd")
    packet.user.response_queue = DirectQueueFormatName("bogus")
    peer.send(packet, peer.message(far.name_of("q"), "next"))
    assert far.bodies("q") == ["odd", "next"]
    assert str(far.messages("q")[0].response_queue_format_name) == "UNKNOWN=bogus"


@pytest.mark.spec("MQMQ-2.2.20.5-07", "MQMQ-2.2.20.5-08")
@pytest.mark.parametrize(("number", "previous"), [(0, 0), (1, 0xFFFFFFFF)])
def test_a_message_with_a_number_that_no_sequence_has_is_discarded_and_closes_nothing(
    net: Net, a: Host, peer: Peer, number: int, previous: int
) -> None:
    packet = peer.message(T, "odd", tx=(5, 1, 0))
    assert packet.transaction is not None
    packet.transaction.tx_sequence_number = number
    packet.transaction.previous_tx_sequence_number = previous
    peer.send(packet, peer.message(T, "next", tx=(5, 1, 0)))
    assert a.bodies("t") == ["next"]
    assert a.network.statistics.packets_malformed == 1
    assert {"the sequence number is invalid"} == {
        notice.facts["reason"] for notice in a.notices if notice.event == "message discarded"
    }
    net.advance(1)
    assert peer.of(SessionAck)[-1].session.ack_sequence_number == 2, "the sender need not keep it"


def test_a_relay_does_not_pass_a_number_on_that_no_sequence_has(net: Net) -> None:
    far = with_queues(net.add("a"))
    relay = net.add("relay", TRANSFER, [Route(far.guid, "a")])
    peer = net.add_peer()
    peer.connect(relay)
    packet = peer.message(far.name_of("t"), "odd", tx=(5, 1, 0))
    assert packet.transaction is not None
    packet.transaction.tx_sequence_number = 0
    peer.send(packet, peer.message(far.name_of("q"), "next"))
    assert (far.bodies("t"), far.bodies("q")) == ([], ["next"])


@pytest.mark.spec("MQQB-3.1.5.1.2-02")
@pytest.mark.parametrize("at", range(4, 8))
def test_a_packet_with_another_signature_ends_the_session_and_is_not_looked_at(
    net: Net, a: Host, peer: Peer, at: int
) -> None:
    good, bad, behind = (peer.message(Q, label).encode() for label in ("good", "bad", "behind"))
    assert bad[4:8] == b"LIOR"
    assert int.from_bytes(bad[4:8], "little") == 0x524F494C
    (connection,) = a.connections
    a.arrived(connection, good + bad[:at] + bytes([bad[at] ^ 1]) + bad[at + 1 :] + behind)
    net.settle()
    assert a.bodies("q") == ["good"]
    assert (a.network.sessions, a.connections, peer.connections) == ([], {}, {})
    assert a.network.statistics.packets_malformed == 1
