"""From a captured frame to what it carries for us: a TCP segment, a ping datagram, or a remark why it is unusable.

dpkt takes the frame apart. Link layers: Ethernet (with VLAN tags), Linux cooked 1 and 2, raw IP, BSD loopback; then
IPv4 and IPv6.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from struct import Struct
from typing import Any, Final

import dpkt
from dpkt import ethernet, ip, ip6, loopback, sll, sll2, tcp, udp

from waypost.captures.containers import Frame
from waypost.wire.ip_addresses import with_port

TCP: Final = 6
UDP: Final = 17
FRAGMENT_HEADER: Final = 44

_PORTS: Final = Struct(">HH")
_UDP_HEADER_SIZE: Final = 8
# Ethernet, IPv4 and TCP headers without options.
_WITH_PORTS: Final = 54

_LINK_LAYERS: Final = {
    0: loopback.Loopback,
    1: ethernet.Ethernet,
    108: loopback.Loopback,
    113: sll.SLL,
    228: ip.IP,
    229: ip6.IP6,
    276: sll2.SLL2,
}
# 101 is the number in files; 12 and 14 are what some systems wrote before it existed.
_RAW_IP: Final = frozenset((12, 14, 101))


@dataclass(slots=True, frozen=True)
class Flow:
    """One direction between two addresses and ports."""

    source: bytes
    source_port: int
    destination: bytes
    destination_port: int

    @property
    def source_text(self) -> str:
        return _endpoint(self.source, self.source_port)

    @property
    def destination_text(self) -> str:
        return _endpoint(self.destination, self.destination_port)


def _endpoint(address: bytes, port: int) -> str:
    return with_port(str(ip_address(address)), port)


@dataclass(slots=True, frozen=True)
class Segment:
    """A TCP segment. `cut` is the number of bytes of the payload after `data` that the capture omits."""

    flow: Flow
    time: int | None
    sequence: int
    starts: bool
    data: bytes
    cut: int


@dataclass(slots=True, frozen=True)
class Datagram:
    """A UDP datagram. `cut` has the same meaning as in a segment."""

    flow: Flow
    time: int | None
    data: bytes
    cut: int


@dataclass(slots=True, frozen=True)
class Remark:
    """A frame that is, or may be, traffic of a queue manager, and that could not be used."""

    time: int | None
    text: str


class Dissector:
    """Finds the traffic of the given TCP and UDP ports. Remembers only which link types it has complained about."""

    def __init__(self, tcp_ports: frozenset[int], udp_ports: frozenset[int]) -> None:
        self._ports = {TCP: tcp_ports, UDP: udp_ports}
        self._port_bytes = [port.to_bytes(2, "big") for port in tcp_ports | udp_ports]
        self._unknown_links: set[int] = set()

    def dissect(self, frame: Frame) -> Segment | Datagram | Remark | None:
        link_layer = _LINK_LAYERS.get(frame.link_type)
        if frame.link_type in _RAW_IP:
            link_layer = ip6.IP6 if frame.data[:1] and frame.data[0] >> 4 == 6 else ip.IP
        if link_layer is None:
            return self._unknown_link(frame)
        # Most frames of a big capture are not ours, and dpkt need not take them apart, nor fail on them.
        if not any(port in frame.data for port in self._port_bytes):
            return _too_short(frame)
        try:
            layer = link_layer(frame.data)
            while isinstance(layer, dpkt.Packet) and not isinstance(layer, (ip.IP, ip6.IP6)):
                layer = layer.data
            return self._carried(frame, layer) if isinstance(layer, dpkt.Packet) else _too_short(frame)
        except Exception as error:  # noqa: BLE001 - dpkt raises whatever its parsers trip over
            return Remark(frame.time, f"frame {frame.number} is malformed ({type(error).__name__})")

    def _unknown_link(self, frame: Frame) -> Remark | None:
        if frame.link_type in self._unknown_links:
            return None
        self._unknown_links.add(frame.link_type)
        return Remark(
            frame.time,
            f"frames of link type {frame.link_type} are not supported; the first such frame is frame {frame.number}",
        )

    def _carried(self, frame: Frame, packet: Any) -> Segment | Datagram | Remark | None:
        ports = self._ports.get(getattr(packet, "p", 0))
        if ports is None or not _begins_transport(packet):
            return None
        payload = bytes(packet.data)
        if len(payload) < _PORTS.size:
            return _too_short(frame)
        source_port, destination_port = _PORTS.unpack_from(payload)
        if source_port not in ports and destination_port not in ports:
            return None
        flow = Flow(packet.src, source_port, packet.dst, destination_port)
        if _is_fragment(packet):
            return _remark(frame, flow, "is an IP fragment; fragments are not reassembled")
        transport = packet.data
        if not isinstance(transport, (tcp.TCP, udp.UDP)):
            return _remark(frame, flow, "is truncated or damaged inside its TCP or UDP header")
        header_size = _UDP_HEADER_SIZE if isinstance(transport, udp.UDP) else transport.off * 4
        cut = _cut(frame, packet, max(len(payload), header_size))
        if isinstance(transport, udp.UDP):
            return Datagram(flow, frame.time, bytes(transport.data), cut)
        starts = bool(transport.flags & tcp.TH_SYN)
        # A SYN takes the sequence number before the first byte.
        return Segment(flow, frame.time, (transport.seq + starts) & 0xFFFF_FFFF, starts, bytes(transport.data), cut)


def _remark(frame: Frame, flow: Flow, text: str) -> Remark:
    return Remark(frame.time, f"frame {frame.number} ({flow.source_text} -> {flow.destination_text}) {text}")


def _too_short(frame: Frame) -> Remark | None:
    """A frame that shows no ports is of no interest, unless the capture kept too little of it to show them."""
    if frame.cut and len(frame.data) < _WITH_PORTS:
        return Remark(frame.time, f"frame {frame.number} was truncated by the capture before its port numbers")
    return None


def _begins_transport(packet: Any) -> bool:
    """False after the first fragment: the bytes at the place of a port are not a port."""
    return not (packet.offset if isinstance(packet, ip.IP) else getattr(_fragment_header(packet), "frag_off", 0))


def _is_fragment(packet: Any) -> bool:
    return bool(packet.mf if isinstance(packet, ip.IP) else getattr(_fragment_header(packet), "m_flag", 0))


def _fragment_header(packet: Any) -> Any:
    return packet.extension_hdrs.get(FRAGMENT_HEADER)


def _cut(frame: Frame, packet: Any, captured: int) -> int:
    """Number of bytes of payload that the IP header announces beyond the transport header and the captured bytes."""
    if isinstance(packet, ip.IP):
        announced = int(packet.len) and int(packet.len) - len(packet.pack_hdr()) - len(packet.opts)
    else:
        announced = int(packet.plen) and int(packet.plen) - sum(
            header.length for header in packet.all_extension_headers
        )
    # Offloading to the network card leaves the length empty in frames that are captured on their way out.
    return max(announced - captured, 0) if announced else frame.cut
