"""Configured routes to other queue managers, and the addresses that may acknowledge messages.

Routes are GUID=HOST, or GUID=via GUID; relays are GUIDs or IP addresses; an address for acknowledgments is
GUID=ADDRESS, or ADDRESS for all queue managers there.
"""

from collections.abc import Iterable

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, parse_guid
from waypost.routing.routes import Relays, Route
from waypost.wire.ip_addresses import plain_address


def parse_routes(texts: Iterable[str]) -> tuple[Route, ...]:
    """Parse routes. Raises ValueError with the text that is not a route."""
    return tuple(_parse(text) for text in texts)


def _parse(text: str) -> Route:
    target, _, way = text.partition("=")
    way = way.strip()
    try:
        if way.startswith("via "):
            return Route(parse_guid(target.strip()), via=parse_guid(way.removeprefix("via ").strip()))
        if way:
            return Route(parse_guid(target.strip()), host=way)
    except (DecodeError, ValueError):
        pass
    raise ValueError(text)


def logon_hosts(hosts: Iterable[str], routes: Iterable[str]) -> frozenset[str]:
    """The hosts that the daemon may log on to, in lower case: those of remote.hosts, else those of the routes."""
    listed = [host.strip() for host in hosts if host.strip()]
    found = listed or [route.host for route in parse_routes(routes) if route.host]
    return frozenset(host.casefold() for host in found)


def parse_relays(texts: Iterable[str]) -> Relays:
    """Parse relays. Raises ValueError with the text that is neither a GUID nor an IP address."""
    guids, addresses = set(), set()
    for text in map(str.strip, texts):
        try:
            guids.add(parse_guid(text))
        except DecodeError:
            addresses.add(_address(text, text))
    return Relays(frozenset(guids), frozenset(addresses))


def parse_ack_addresses(texts: Iterable[str]) -> frozenset[tuple[bytes, str]]:
    """Pairs of GUID and address; NULL_GUID means any. Raises ValueError with the text that is not such a pair."""
    found = set()
    for text in texts:
        guid, separator, address = text.rpartition("=")
        try:
            found.add((parse_guid(guid.strip()) if separator else NULL_GUID, _address(address.strip(), text)))
        except DecodeError:
            raise ValueError(text) from None
    return frozenset(found)


def _address(text: str, given: str) -> str:
    try:
        return plain_address(text)
    except ValueError:
        raise ValueError(given) from None
