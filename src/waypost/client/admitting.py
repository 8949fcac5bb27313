"""The arguments of `admit_sequence_address`: the queue manager, and the address that it acknowledges from."""

from ipaddress import ip_address

from waypost.api.excerpt import excerpt
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import NULL_GUID, parse_guid
from waypost.wire.ip_addresses import plain_address


def admitted_address(guid: object, address: object) -> tuple[bytes, str]:
    """Raises InvalidParameter."""
    try:
        identifier = parse_guid(str(guid))
    except DecodeError:
        identifier = NULL_GUID
    if identifier == NULL_GUID:
        raise InvalidParameter(f"{excerpt(guid)} is not the GUID of a queue manager")
    try:
        plain = plain_address(str(address))
    except ValueError:
        raise InvalidParameter(f"{excerpt(address)} is not an IP address") from None
    found = ip_address(plain)
    if found.is_unspecified or found.is_multicast:
        raise InvalidParameter(f"{plain} is not the address of a host")
    return identifier, plain
