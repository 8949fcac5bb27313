"""IP addresses as text: the one form by which they are compared, and who has which."""

from ipaddress import IPv6Address, ip_address


def plain_address(text: str) -> str:
    """The one form of an IP address by which addresses are compared. Raises ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def network_of(address: str) -> str:
    """What the owner of this address has: of IPv6 a network of 64 bits."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Address(int(found) >> 64 << 64))
    return address
