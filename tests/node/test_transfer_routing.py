"""Messages that go by way of another queue manager: MS-MQQB 3.1.1.5, 3.1.5.8.2, 3.1.5.8.5 and 3.1.5.8.8."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.node.hosts import TRANSFER, Host, Net, Peer, letter
from waypost.core.management import DirectoryState, queue_snapshot
from waypost.core.message_values import Acknowledgements
from waypost.guid import guid_text
from waypost.routing.routes import Route
from waypost.wire.base_header import SIZE
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import SequenceInfo
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.security_header import AS, EB, SENDER_SID, SecurityHeader
from waypost.wire.sid import ANONYMOUS
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_header import RC
from waypost.wire.user_message import UserMessage

# UserHeader.Flags, whose lowest bits are RC.
FLAGS = slice(SIZE + 44, SIZE + 48)
ADMIN: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": Acknowledgements.ACK_NEG_ARRIVAL,
}


@dataclass
class Way:
    """From `a` by way of `b` to `c`. `peer` is a neighbour of `b` like `a`, and `end` one like `c`."""

    net: Net
    a: Host
    b: Host
    c: Host
    peer: Peer
    end: Peer

    @property
    def q(self) -> str:
        return self.c.name_of("q")

    @property
    def t(self) -> str:
        return self.c.name_of("t")

    @property
    def beyond(self) -> str:
        return f"PRIVATE={guid_text(self.end.guid)}\\00000009"


@pytest.fixture
def way() -> Way:
    net = Net()
    a, b, c = (net.add(name) for name in "abc")
    peer, end = net.add_peer("peer"), net.add_peer("end")
    a.restart(routes=(Route(c.guid, via=b.guid), Route(b.guid, "b")))
    neighbours = (Route(a.guid, "a"), Route(c.guid, "c"), Route(peer.guid, "peer"), Route(end.guid, "end"))
    b.restart(routes=neighbours)
    c.restart(routes=(Route(a.guid, via=b.guid), Route(b.guid, "b")))
    c.create("q")
    c.create("t", transactional=True)
    a.create("admin")
    peer.connect(b)
    return Way(net, a, b, c, peer, end)


@pytest.mark.spec("MQQB-3.1.5.8.5-01", "MQQB-3.1.5.8.5-02")
def test_a_message_for_another_queue_manager_goes_on_and_one_for_this_stays(way: Way) -> None:
    way.b.create("q")
    way.peer.send(way.peer.message(way.b.name_of("q"), "by identifier"))
    way.peer.send(way.peer.message(r"DIRECT=OS:b\private$\q", "by zero"))
    assert way.b.bodies("q") == ["by identifier", "by zero"]
    way.net.part(way.b, way.c)
    way.peer.send(way.peer.message(way.q, "for c"))
    assert way.b.bodies(way.q) == ["for c"]
    way.net.join()
    way.net.advance(6)
    assert (way.b.bodies(way.q), way.c.bodies("q")) == ([], ["for c"])


@pytest.mark.spec("MQQB-3.1.5.8.2-11")
def test_a_message_that_goes_on_has_one_hop_more(way: Way) -> None:
    way.a.send(way.q, "m")
    (first, second) = way.net.packets(UserMessage)
    assert (first.user.hop_count, second.user.hop_count) == (0, 1)
    (message,) = way.c.messages("q")
    assert UserMessage.decode(message.packet).user.hop_count == 1


@pytest.mark.spec("MQQB-3.1.5.8.2-12")
def test_a_message_with_too_many_hops_is_dropped(way: Way) -> None:
    def send(body: str, hops: int, tx: tuple[int, int, int] | None = None, **changes: Any) -> None:
        packet = way.peer.message(way.beyond, body, tx=tx, **changes)
        packet.user.flags = packet.user.flags & ~RC | hops
        way.peer.send(packet)

    send("last", 0x1C)
    assert way.end.bodies == ["last"]
    send("quiet", 0x1D)
    assert (way.a.bodies("admin"), way.peer.of(FinalAck)) == ([], [])
    send("asks", 0x1D, **ADMIN)
    way.net.advance(1)
    assert (way.a.classes("admin"), way.peer.of(FinalAck)) == ([0x8005], [])
    send("transactional", 0x1D, (5, 1, 0))
    assert [ack.message_class for ack in way.peer.of(FinalAck)] == [0x8005]
    assert way.end.bodies == ["last"]


@pytest.mark.spec("MQQB-3.1.5.8.3-01")
def test_what_goes_on_is_neither_verified_nor_decrypted(way: Way) -> None:
    packet = way.peer.message(way.beyond, "m")
    packet.security = SecurityHeader(
        flags=SENDER_SID | EB,
        security_id=ANONYMOUS.encode(),
        encryption_key=b"no key at all",
        signature=b"no signature",
        sender_cert=b"no certificate",
    )
    way.peer.send(packet)
    (arrived,) = way.end.of(UserMessage)
    assert _without_hops(arrived.encode()) == _without_hops(packet.encode())
    assert arrived.security is not None
    assert arrived.security.flags & AS == 0


@pytest.mark.spec("MQQB-3.1.1.5-06", "MQQB-3.1.7.1.3-04", "MQQB-3.1.1.3.1-12")
def test_the_transaction_header_goes_on_as_it_is_and_no_sequence_is_touched(way: Way) -> None:
    packets = [
        way.peer.message(way.beyond, str(number), tx=(77, number, previous)) for number, previous in ((3, 2), (1, 0))
    ]
    way.peer.send(*packets)
    way.peer.send(packets[0])
    way.net.advance(20)
    assert [_without_hops(packet.encode()) for packet in way.end.of(UserMessage)] == [
        _without_hops(packet.encode()) for packet in (*packets, packets[0])
    ]
    assert way.peer.of(OrderAck) == []
    assert way.b.sources == []
    queue = way.b.outgoing(way.beyond)
    assert way.b.node.sequences.outgoing_of(queue).next_number == 1
    # A local message in the same queue starts the sequence.
    way.b.send_all(way.beyond, "own")
    assert [(each.tx_sequence_number, each.previous_tx_sequence_number) for each in way.end.headers][-1] == (1, 0)


@pytest.mark.spec("MQQB-3.1.1.5-06")
def test_only_the_ends_of_a_way_take_care_of_order(way: Way) -> None:
    way.a.send_all(way.t, letter("1", positive_journaling_requested=True), "2")
    way.net.advance(2)
    assert (way.c.bodies("t"), way.a.bodies(way.t)) == (["1", "2"], [])
    (order,) = way.net.packets(OrderAck, "c", "b")
    assert way.net.packets(OrderAck, "b", "a")[0].body == order.body
    assert way.b.network.statistics.order_acks_sent == 0
    way.c.receive("t")
    way.net.advance(2)
    assert way.a.bodies(";journal") == ["1"]
    assert way.net.packets(EstablishConnection, "a", "c") == []


@pytest.mark.spec("MQQB-3.1.5.8.8-07")
def test_the_transfer_of_a_forwarded_transactional_message_is_told(way: Way) -> None:
    way.peer.send(way.peer.message(way.beyond, "m", tx=(77, 1, 0)))
    queue = way.b.outgoing(way.beyond)
    eod = queue_snapshot(queue, DirectoryState()).eod
    assert eod is not None
    outgoing = way.b.node.sequences.outgoing_of(queue)
    assert eod.next_seq == SequenceInfo.of(outgoing.sequence_id, 1, 0)
    assert (eod.no_ack_count, eod.first_non_ack, eod.last_non_ack, eod.no_read_count) == (0, None, None, 0)
    assert (eod.resend_interval, eod.resend_count, eod.resend_time) == (30, 0, 0)


def test_a_message_to_which_no_way_leads_is_refused(way: Way) -> None:
    way.peer.send(way.peer.message(f"PRIVATE={guid_text(bytes(15) + bytes([9]))}\\00000009", "m", tx=(5, 1, 0)))
    assert [ack.message_class for ack in way.peer.of(FinalAck)] == [0x8000]


def test_management_tells_the_hop_that_a_queue_is_connected_to(way: Way) -> None:
    way.a.send(way.q, "m")
    snapshot = queue_snapshot(way.a.outgoing(way.q), DirectoryState())
    assert [str(hop) for hop in snapshot.next_hops] == [way.b.address]


def _without_hops(packet: bytes) -> bytes:
    flags = int.from_bytes(packet[FLAGS], "little") & ~RC
    return packet[: FLAGS.start] + flags.to_bytes(4, "little") + packet[FLAGS.stop :]


@pytest.mark.parametrize("is_server", [False, True])
def test_a_queue_that_is_there_for_others_is_no_way_for_a_stranger(*, is_server: bool) -> None:
    """Neither the queue of a program here, unless this is a routing server, nor one for acknowledgments."""
    net = Net()
    b = net.add("b", replace(TRANSFER, is_routing_server=is_server))
    b.create("t", transactional=True)
    stranger, used, source = net.add_peer("stranger"), net.add_peer("used"), net.add_peer("source")
    b.hold(rf"DIRECT=TCP:{used.address}\private$\x")
    source.connect(b)
    source.send(source.message(b.name_of("t"), "1", tx=(7, 1, 0), positive_journaling_requested=True))
    net.advance(2)
    source.acknowledge()
    net.part(b, source)
    b.receive("t")
    (owed,) = [name for name in b.node.manager.collection.outgoing if "order_queue" in str(name)]
    stranger.connect(b)
    for name in (rf"DIRECT=TCP:{used.address}\private$\x", str(owed)):
        packet = stranger.message(name, "m")
        packet.user.queue_manager_address = source.guid
        stranger.send(packet)
    assert used.bodies == (["m"] if is_server else [])
    assert len(b.outgoing(str(owed)).positions) == 1
