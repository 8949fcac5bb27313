"""The acknowledgments of a session, and the start of the next one: MS-MQQB 3.1.3.2, 3.1.5.1.1 and 3.1.5.5."""

from dataclasses import replace

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.core.message import Message
from waypost.wire import base_header
from waypost.wire.codec import INFINITE
from waypost.wire.internal_packets import SessionAck
from waypost.wire.message_class import MessageClass
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from waypost.wire.session_header import SessionHeader
from waypost.wire.transactional_acks import FinalAck, FinalAckBody, OrderAck, OrderAckBody, final_ack, order_ack
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

P = r"DIRECT=OS:peer\private$\q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def journaled(message: Message) -> Message:
    return replace(message, positive_journaling_requested=True)


@pytest.mark.spec("MQQB-3.1.5.5-02")
@pytest.mark.parametrize("rides", [False, True])
def test_a_session_header_acknowledges_before_its_counts_are_looked_at(
    net: Net, a: Host, peer: Peer, *, rides: bool
) -> None:
    a.create("q")
    for message in (journaled(letter("R")), journaled(express("E")), letter("R2"), express("E2")):
        a.send(P, message)
    # It says that it has sent more than has come.
    header = SessionHeader(4, 1, 0b01, 7, 0, 64)
    if rides:
        carrier = peer.message(rf"DIRECT=TCP:{a.address}\private$\q", "rides")
        carrier.base.flags |= base_header.SH
        packet = replace(carrier, session=header).encode()
    else:
        packet = SessionAck(session=header).encode()
    (connection,) = a.connections
    a.network.data_received(connection, packet, net.now)
    net.settle()
    # Express ones first; then the recoverable one that is stored; R2 stays.
    assert a.bodies(";journal") == ["E", "R"]
    assert a.bodies(P) == ["R2"]
    assert a.bodies("q") == (["rides"] if rides else [])
    assert a.network.sessions == []


@pytest.mark.spec("MQQB-3.1.5.5.1-02")
def test_what_an_acknowledgment_frees_of_the_window_is_filled_at_once_and_in_order(a: Host, peer: Peer) -> None:
    peer.window = 3
    for label in "123456789":
        a.send(P, express(label))
    assert peer.bodies == ["1", "2", "3"]
    peer.ack(1)
    assert peer.bodies == ["1", "2", "3", "4"]
    peer.ack(4)
    assert peer.bodies == ["1", "2", "3", "4", "5", "6", "7"]
    peer.ack(4)
    assert peer.bodies == ["1", "2", "3", "4", "5", "6", "7"]
    peer.ack(7)
    assert peer.bodies == list("123456789")


@pytest.mark.spec("MQQB-3.1.3.2-04")
def test_on_a_new_session_everything_in_the_queue_is_sent_again(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "1")
    a.send_all(P, "2")
    a.send(P, express("3"))
    # The session has acknowledged the one of a transaction, and its destination has not.
    peer.ack(2)
    link = a.outgoing(P).link
    assert sorted(sent.message.label for sent in link.outbox.sent.values()) == ["1", "2", "3"]
    peer.hang_up()
    assert link.outbox.sent == {}
    net.advance(6)
    # That of a transaction has the lowest priority.
    assert peer.bodies == ["1", "2", "3", "1", "3", "2"]
    peer.acknowledge()
    peer.hang_up()
    net.advance(6)
    assert peer.bodies[6:] == ["2"]


def _order_ack(peer: Peer, host: Host) -> OrderAck:
    user = UserHeader(peer.guid, host.guid, INFINITE, 0, 1, destination_queue=PrivateQueueFormatNameId(4))
    return order_ack(user, PrivateQueueFormatNameId(4), OrderAckBody(1, 1, 0))


def _final_ack(peer: Peer, host: Host) -> FinalAck:
    user = UserHeader(peer.guid, host.guid, INFINITE, 0, 1, destination_queue=PrivateQueueFormatNameId(4))
    return final_ack(user, PrivateQueueFormatNameId(4), 0x4000, FinalAckBody(1, 1, 0, host.guid, 1))


def _changed(packet: OrderAck | FinalAck, what: str) -> UserMessage:
    message = packet.message
    properties = message.properties
    match what:
        case "nothing":
            return message
        case "by direct name":
            queue = DirectQueueFormatName(r"TCP:127.0.0.2\PRIVATE$\order_queue$")
            user = replace(message.user, destination_queue=queue, queue_manager_address=bytes(16))
            return replace(message, user=user)
        case "flags":
            return replace(message, base=replace(message.base, flags=base_header.DEFAULT_PRIORITY))
        case "another queue":
            return replace(message, user=replace(message.user, destination_queue=PrivateQueueFormatNameId(9)))
        case "another computer":
            return replace(message, user=replace(message.user, queue_manager_address=bytes(range(16))))
        case "label":
            return replace(message, properties=replace(properties, label="QM Ordering Ac"))
        case _:
            return replace(message, properties=replace(properties, message_class=int(MessageClass.MQMSG_CLASS_NORMAL)))


CHANGES = [
    ("nothing", True),
    ("by direct name", True),
    ("flags", False),
    ("another queue", False),
    ("another computer", False),
    ("label", False),
    ("class", False),
]


@pytest.mark.spec("MQQB-3.1.5.1.1-02")
@pytest.mark.parametrize(("what", "is_one"), CHANGES)
def test_what_an_order_ack_is_known_by(a: Host, peer: Peer, what: str, *, is_one: bool) -> None:
    peer.connect(a)
    peer.send(_changed(_order_ack(peer, a), what))
    assert a.network.statistics.order_acks_received == is_one
    assert len(a.network.sessions) == 1


@pytest.mark.spec("MQQB-3.1.5.1.1-03")
@pytest.mark.parametrize(("what", "is_one"), CHANGES)
def test_what_a_final_ack_is_known_by(a: Host, peer: Peer, what: str, *, is_one: bool) -> None:
    peer.connect(a)
    peer.send(_changed(_final_ack(peer, a), what))
    assert a.network.statistics.final_acks_received == is_one
    assert len(a.network.sessions) == 1


@pytest.mark.spec("MQQB-3.1.5.1.1-02")
def test_an_order_ack_of_another_size_is_malformed(net: Net, a: Host, peer: Peer) -> None:
    peer.connect(a)
    message = _order_ack(peer, a).message
    (connection,) = a.connections
    longer = replace(message, properties=replace(message.properties, message_body=bytes(0x25)))
    a.network.data_received(connection, longer.encode(), net.now)
    assert a.network.statistics.order_acks_received == 0
    assert a.network.sessions == []
