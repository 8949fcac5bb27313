"""Capture files: containers, link layers, damage."""

import random
from contextlib import suppress
from io import BytesIO
from struct import pack

import pytest

from tests.cli import wiretap
from tests.cli.wiretap import Tcp, conversation, ethernet_frame, ipv4, ipv6, pcap_file, tcp_capture, vector
from waypost.captures.containers import Frame, read_frames
from waypost.captures.frames import Datagram, Dissector, Remark, Segment
from waypost.captures.inputs import Kind, Ports, findings
from waypost.captures.packets import FoundPacket, FoundPing
from waypost.captures.source import InputError, Source

PORTS = Ports(frozenset({1801}), frozenset({3527}))
HELLO = Tcp().segment(0, vector("mqqb-4.1.5"))


def source(data: bytes) -> Source:
    return Source("capture", BytesIO(data), lambda _: None)


def frames(data: bytes) -> list[Frame]:
    return list(read_frames(source(data)))


def found(data: bytes) -> list[object]:
    return list(findings(source(data), Kind.PCAP, PORTS))


def dissect(frame: bytes, link_type: int = 1, cut: int = 0) -> object:
    return Dissector(PORTS.tcp, PORTS.ping).dissect(Frame(1, 0, link_type, frame, cut))


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) & 3)
    size = len(body) + 12
    return pack(order + "II", kind, size) + body + pack(order + "I", size)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int, order: str = "<", options: bytes = b"") -> bytes:
    return block(1, pack(order + "HHI", link_type, 0, 0) + options, order)


def enhanced(index: int, ticks: int, data: bytes, order: str = "<") -> bytes:
    fixed = pack(order + "IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, fixed + data, order)


@pytest.mark.parametrize("write", [wiretap.pcap_file, wiretap.dpkt_pcap_file, wiretap.pcapng_file])
def test_every_container_gives_the_packets_with_addresses_and_times(write: object) -> None:
    assert callable(write)
    tcp = Tcp()
    segments = [tcp.syn(), *tcp.cut(b"".join(conversation()), [700, 3, 1460])]
    got = found(write([ethernet_frame(ipv4(segment)) for segment in segments]))
    assert [finding.data for finding in got if isinstance(finding, FoundPacket)] == conversation()
    first = got[0]
    assert isinstance(first, FoundPacket)
    assert (first.origin.source, first.origin.destination) == ("10.0.0.1:40000", "10.0.0.2:1801")
    assert first.time is not None
    assert first.time // 10**9 == wiretap.SECOND + 1


@pytest.mark.parametrize("magic", ["d4c3b2a1", "4d3cb2a1", "a1b2c3d4", "a1b23c4d"])
def test_pcap_in_both_byte_orders_and_both_units_has_the_same_times(magic: str) -> None:
    order, nano = ("<" if magic[0] != "a" else ">"), "3c" in magic
    fraction = 5_000_000 if nano else 5_000
    data = bytes.fromhex(magic) + pack(order + "HHiIII", 2, 4, 0, 0, 65535, 1)
    data += pack(order + "IIII", 7, fraction, 3, 9) + b"abc"
    assert frames(data) == [Frame(1, 7_005_000_000, 1, b"abc", 6)]


def test_pcapng_sections_change_byte_order_and_interfaces_have_their_own_clock() -> None:
    nanoseconds = pack("<HHBxxx", 9, 1, 9) + pack("<HHq", 14, 8, 100) + bytes(4)
    data = section() + interface(1) + interface(101, options=nanoseconds)
    data += enhanced(0, 2_000_000, b"one") + enhanced(1, 3_000_000_000, b"two")
    data += section(">") + interface(113, ">") + enhanced(0, 4_000_000, b"three", ">")
    assert frames(data) == [
        Frame(1, 2_000_000_000, 1, b"one", 0),
        Frame(2, 103_000_000_000, 101, b"two", 0),
        Frame(3, 4_000_000_000, 113, b"three", 0),
    ]


def test_simple_and_old_packet_blocks_are_read_and_other_blocks_skipped() -> None:
    old = block(2, pack("<HHIIII", 0, 0, 0, 1_000_000, 2, 2) + b"ab")
    simple = block(3, pack("<I", 5) + b"hello")
    data = section() + interface(1) + block(5, b"statistics") + old + simple
    assert frames(data) == [Frame(1, 1_000_000_000, 1, b"ab", 0), Frame(2, None, 1, b"hello", 0)]


def test_a_comment_that_is_not_utf_8_does_not_cost_the_frame() -> None:
    fixed = pack("<IIIII", 0, 0, 0, 4, 4)
    comment = pack("<HH", 1, 2) + b"\xff\xfe\0\0" + bytes(4)
    assert frames(section() + interface(1) + block(6, fixed + b"data" + comment))[0].data == b"data"


@pytest.mark.parametrize(
    "tail",
    [
        pack("<IIII", 1, 0, 0xFFFFFFFF, 0xFFFFFFFF),
        pack("<IIII", 1, 0, 100, 100) + b"short",
        b"\1\2\3",
    ],
)
def test_a_damaged_pcap_gives_its_good_packets_and_then_an_error(tail: bytes) -> None:
    walk = findings(source(tcp_capture([HELLO]) + tail), Kind.PCAP, PORTS)
    assert isinstance(next(walk), FoundPacket)
    with pytest.raises(InputError, match="capture is damaged"):
        next(walk)


@pytest.mark.parametrize("size", [0, 8, 11, 13, 0xFFFFFFFC])
def test_a_pcapng_block_with_an_impossible_length_is_an_error(size: int) -> None:
    with pytest.raises(InputError, match="damaged"):
        frames(section() + pack("<II", 6, size) + bytes(64))


@pytest.mark.parametrize(
    ("frame", "link_type"),
    [
        (wiretap.ethernet_frame(ipv4(HELLO)), 1),
        (wiretap.vlan_frame(ipv4(HELLO)), 1),
        (wiretap.sll_frame(ipv4(HELLO)), 113),
        (wiretap.sll2_frame(ipv4(HELLO)), 276),
        (wiretap.loopback_frame(ipv4(HELLO)), 0),
        (ipv4(HELLO), 101),
        (ipv4(HELLO), 228),
        (ipv6(HELLO), 101),
        (ipv6(HELLO), 229),
        (wiretap.ethernet_frame(ipv6(HELLO), 0x86DD), 1),
        (wiretap.ethernet_frame(ipv4(HELLO)) + b"trailer", 1),
    ],
)
def test_each_link_layer_leads_to_the_segment(frame: bytes, link_type: int) -> None:
    segment = dissect(frame, link_type)
    assert isinstance(segment, Segment)
    assert (segment.data, segment.cut, segment.sequence) == (vector("mqqb-4.1.5"), 0, 1000)
    assert segment.flow.destination_port == 1801


def test_pings_are_found_and_other_traffic_is_not() -> None:
    ping = wiretap.udp_datagram(vector("mqqb-4.1.1"))
    assert isinstance(dissect(ethernet_frame(ipv4(ping, 17))), Datagram)
    assert dissect(ethernet_frame(ipv4(wiretap.udp_datagram(b"x", 53), 17))) is None
    assert dissect(ethernet_frame(ipv4(Tcp(destination_port=80).segment(0, b"x")))) is None
    assert dissect(ethernet_frame(b"arp", 0x0806)) is None
    assert isinstance(found(pcap_file([ethernet_frame(ipv4(ping, 17))]))[0], FoundPing)


def test_a_frame_cut_by_the_snap_length_says_how_much_is_missing() -> None:
    whole = ethernet_frame(ipv4(HELLO))
    segment = dissect(whole[:60], cut=len(whole) - 60)
    assert isinstance(segment, Segment)
    assert (segment.data, segment.cut) == (vector("mqqb-4.1.5")[:6], 26)
    for kept in (20, 30, 36, 46):
        assert isinstance(dissect(whole[:kept], cut=len(whole) - kept), Remark)


def test_a_frame_whose_length_offloading_left_empty_is_whole() -> None:
    packet = ipv4(HELLO)
    segment = dissect(ethernet_frame(packet[:2] + b"\0\0" + packet[4:]))
    assert isinstance(segment, Segment)
    assert (segment.data, segment.cut) == (vector("mqqb-4.1.5"), 0)


def test_fragments_of_our_ports_are_reported() -> None:
    packet = ipv4(HELLO)
    first = dissect(ethernet_frame(packet[:6] + b"\x20\x00" + packet[8:]))
    assert isinstance(first, Remark)
    assert "fragment" in first.text
    assert dissect(ethernet_frame(packet[:6] + b"\x00\x05" + packet[8:])) is None


def test_an_unknown_link_type_is_reported_once() -> None:
    assert [type(finding) for finding in found(pcap_file([b"usb", b"usb"], link_type=189))] == [Remark]


def test_mutated_captures_never_raise_anything_else() -> None:
    chance = random.Random(4)
    tcp = Tcp()
    bare = [tcp.syn(), *tcp.cut(b"".join(conversation()), [900])]
    packets = [ipv4(segment) for segment in bare] + [ipv6(segment) for segment in bare[:2]]
    whole = [
        pcap_file([ethernet_frame(packet) for packet in packets]),
        wiretap.pcapng_file([wiretap.vlan_frame(packet) for packet in packets]),
        pcap_file([wiretap.sll2_frame(packet) for packet in packets], link_type=276),
        pcap_file(packets, link_type=101),
        pcap_file([wiretap.loopback_frame(packet) for packet in packets], link_type=0),
    ]
    for _ in range(400):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.choice((1, 3, 30))):
            data[chance.randrange(4, len(data))] = chance.choice((0, 0xFF, chance.randrange(256)))
        with suppress(InputError):
            found(bytes(data[: chance.choice((len(data), chance.randrange(4, len(data))))]))
