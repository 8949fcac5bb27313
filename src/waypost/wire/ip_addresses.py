"""IP addresses as text: whether it is one, the one form by which they are compared, and with a port."""

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


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def with_port(address: str, port: int) -> str:
    """ADDRESS:PORT, with brackets around an address of IPv6."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
