"""The IP addresses of this computer: from netlink on Linux (rtnetlink(7)), by host name elsewhere."""

import socket
import sys
from ipaddress import ip_address
from struct import Struct, error
from typing import Final

# rtnetlink(7), netlink(7).
_RTM_NEWADDR: Final = 20
_RTM_GETADDR: Final = 22
_NLM_F_REQUEST: Final = 0x001
_NLM_F_DUMP: Final = 0x300
_NLMSG_ERROR: Final = 2
_NLMSG_DONE: Final = 3
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_HEADER: Final = Struct("=IHHII")
_IFADDRMSG: Final = Struct("=BBBBI")
_ATTRIBUTE: Final = Struct("=HH")
_ANSWER: Final = 0x10000
_SECONDS: Final = 2.0


def own_addresses() -> frozenset[str]:
    """The IP addresses of this computer; empty if the system does not say. May block: call it in a thread."""
    try:
        return _by_netlink() if sys.platform == "linux" else _by_name()
    except (OSError, error):
        return frozenset()


def _by_netlink() -> frozenset[str]:
    found: set[str] = set()
    body = _IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    request = _HEADER.pack(_HEADER.size + len(body), _RTM_GETADDR, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.bind((0, 0))
        kernel.send(request)
        while True:
            answer = kernel.recv(_ANSWER)
            at = 0
            while at < len(answer):
                size, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    return frozenset(found)
                if kind == _RTM_NEWADDR:
                    found.add(_address(answer[at + _HEADER.size + _IFADDRMSG.size : at + size]))
                at += _aligned(size)


def _address(attributes: bytes) -> str:
    """IFA_LOCAL if present: IFA_ADDRESS is then the other end of a point-to-point connection."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(attributes):
        size, kind = _ATTRIBUTE.unpack_from(attributes, at)
        values[kind] = attributes[at + _ATTRIBUTE.size : at + size]
        at += _aligned(size)
    return str(ip_address(values.get(_IFA_LOCAL) or values[_IFA_ADDRESS]))


def _aligned(size: int) -> int:
    # No size is less than that of its header; the bound keeps a wrong size from ending in an endless loop.
    return max(size + 3 & ~3, _ATTRIBUTE.size)


def _by_name() -> frozenset[str]:
    """The addresses that the host name resolves to, the address for outgoing connections, and loopback."""
    found = {"127.0.0.1", "::1"}
    found |= {str(place[0]) for *_, place in socket.getaddrinfo(socket.gethostname(), None)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Nothing is sent: TEST-NET-1 of RFC 5737 only stands for elsewhere.
        asking.connect(("192.0.2.1", 9))
        found.add(str(asking.getsockname()[0]))
    return frozenset(address.partition("%")[0] for address in found)
