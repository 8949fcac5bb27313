"""IP addresses as text: the one form by which they are compared, and who has which."""

from ipaddress import IPv6Address, ip_address
from typing import Final

# Characters of the zone of an IPv6 address: no interface has a longer name.
_MAX_ZONE: Final = 64


def plain_address(text: str) -> str:
    """The one form of an IP address by which addresses are compared, which is a part of keys. Raises ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        zone = address.scope_id or ""
        if len(zone) > _MAX_ZONE or not zone.isascii() or not zone.isprintable():
            raise ValueError(text)
    return str(address)


def network_of(address: str) -> str:
    """The network that the owner of this address has: 64 bits for IPv6, the address itself for IPv4."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Address(int(found) >> 64 << 64))
    return address
