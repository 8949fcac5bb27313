"""Captures for the tests: packets of the vectors in TCP segments, in frames, in files."""

import io
from dataclasses import dataclass
from pathlib import Path
from struct import pack

from dpkt import ethernet, ip, ip6, pcap, pcapng, tcp, udp

VECTORS = Path(__file__).parents[1] / "vectors"

CLIENT, SERVER = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
CLIENT_6, SERVER_6 = bytes(15) + b"\x01", bytes(15) + b"\x02"
SECOND = 1_700_000_000


def vector(name: str) -> bytes:
    return (VECTORS / f"{name}.bin").read_bytes()


def frame_7() -> bytes:
    """The UserMessage of MS-MQQB 4.1.7 with the part that is not printed there (readings MQQB 6)."""
    printed = vector("mqqb-4.1.7")
    return printed + b"a\0" * ((2222 - len(printed)) // 2) + b"\0\0"


def conversation() -> list[bytes]:
    """The packets of an initiator: two session packets, two messages, an acknowledgment."""
    return [vector("mqqb-4.1.3"), vector("mqqb-4.1.5"), frame_7(), frame_7(), vector("mqqb-4.1.8")]


@dataclass
class Tcp:
    """Segments of one direction. `sequence` is that of the first byte."""

    sequence: int = 1000
    source_port: int = 40000
    destination_port: int = 1801

    def segment(self, at: int, data: bytes, flags: int = tcp.TH_ACK) -> bytes:
        return bytes(
            tcp.TCP(
                sport=self.source_port,
                dport=self.destination_port,
                seq=(self.sequence + at) & 0xFFFFFFFF,
                flags=flags,
                data=data,
            )
        )

    def syn(self) -> bytes:
        return self.segment(-1, b"", tcp.TH_SYN)

    def cut(self, data: bytes, sizes: list[int]) -> list[bytes]:
        """The segments of `data`, cut into pieces of these sizes in turn."""
        segments: list[bytes] = []
        at = 0
        while at < len(data):
            size = sizes[len(segments) % len(sizes)]
            segments.append(self.segment(at, data[at : at + size]))
            at += size
        return segments


def udp_datagram(data: bytes, port: int = 3527) -> bytes:
    return bytes(udp.UDP(sport=4057, dport=port, ulen=8 + len(data), data=data))


def ipv4(payload: bytes, protocol: int = 6) -> bytes:
    return bytes(ip.IP(src=CLIENT, dst=SERVER, p=protocol, data=payload, len=20 + len(payload)))


def ipv6(payload: bytes, protocol: int = 6) -> bytes:
    packet = ip6.IP6(src=CLIENT_6, dst=SERVER_6, nxt=protocol, hlim=64, plen=len(payload))
    packet.data, packet.extension_hdrs, packet.all_extension_headers, packet.p = payload, {}, [], protocol
    return bytes(packet.pack_hdr()) + payload


def ethernet_frame(packet: bytes, kind: int = ethernet.ETH_TYPE_IP) -> bytes:
    return bytes(6) + bytes(6) + kind.to_bytes(2, "big") + packet


def vlan_frame(packet: bytes) -> bytes:
    return bytes(12) + b"\x81\x00\x00\x05\x08\x00" + packet


def sll_frame(packet: bytes) -> bytes:
    return pack(">HHH8sH", 0, 1, 6, bytes(8), 0x0800) + packet


def sll2_frame(packet: bytes) -> bytes:
    return pack(">HHiHBB8s", 0x0800, 0, 1, 1, 0, 6, bytes(8)) + packet


def loopback_frame(packet: bytes) -> bytes:
    return pack("<I", 2) + packet


def pcap_file(frames: list[bytes], link_type: int = 1, snap_length: int = 1 << 18) -> bytes:
    """A frame a second; frames longer than `snap_length` are cut."""
    out = pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap_length, link_type)
    for index, frame in enumerate(frames):
        kept = frame[:snap_length]
        out += pack("<IIII", SECOND + index, 250_000, len(kept), len(frame)) + kept
    return out


def pcapng_file(frames: list[bytes]) -> bytes:
    file = io.BytesIO()
    writer = pcapng.Writer(file)
    for index, frame in enumerate(frames):
        writer.writepkt(frame, SECOND + index)
    return file.getvalue()


def dpkt_pcap_file(frames: list[bytes]) -> bytes:
    file = io.BytesIO()
    writer = pcap.Writer(file, nano=True)
    for index, frame in enumerate(frames):
        writer.writepkt(frame, SECOND + index)
    return file.getvalue()


def tcp_capture(segments: list[bytes]) -> bytes:
    return pcap_file([ethernet_frame(ipv4(segment)) for segment in segments])
