"""Peers: the range from which one host can choose its address, an IPv4 address or a /64 network of IPv6."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

_NETWORK: Final = 64


@lru_cache(maxsize=1024)
def peer_of(address: str) -> str:
    """The IPv4 address itself, or the first address of the /64 network. Other text stays as it is."""
    if ":" not in address:
        return address
    ipv6 = IPv6Address(address.partition("%")[0])
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return str(ip_address(int(ipv6) >> _NETWORK << _NETWORK))
