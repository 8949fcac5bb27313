"""MS-MQMQ 2.1.2, the first half of a direct format name: Protocol and ProtocolAddressSpecification.

The address is checked here and kept as text; it is resolved elsewhere. Its spelling counts: two spellings of one IPv6
address, or a default port given and left out, make different names.
"""

import re
from collections.abc import Callable
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Final

from waypost.errors import IllegalFormatName
from waypost.wire.path_names import check_computer_name

SECTION: Final = "MS-MQMQ 2.1.2"
ADDRESS: Final = "ProtocolAddressSpecification"


class Protocol(Enum):
    """Protocol to reach the computer. Waypost does not speak IPX: such a name is legal, but does not open."""

    TCP = "TCP"
    OS = "OS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"


DEFAULT_PORTS: Final = {Protocol.HTTP: 80, Protocol.HTTPS: 443}

# A host without the delimiters of a URI, or an IPv6 address in brackets; the grammar allows a port without digits.
_HTTP_ADDRESS: Final = re.compile(
    r"//(?P<host>\[[0-9A-F:.]*\]|[^\\/:,@?#\[\]]*)(?::(?P<port>[0-9]{0,5}))?/MSMQ", re.ASCII | re.IGNORECASE
)
# MS-MQMQ 2.2.4.2: 4 bytes of a network number and 6 of a host number.
_IPX_ADDRESS: Final = re.compile(r"[0-9A-F]{1,8}:[0-9A-F]{1,12}", re.ASCII | re.IGNORECASE)


def separators_of(protocol: Protocol) -> tuple[str, ...]:
    """Separators after the address and PRIVATE$, the printed form first: slashes in HTTP (readings MQMQ 3.26)."""
    return ("/", "\\") if protocol in DEFAULT_PORTS else ("\\",)


def cut_protocol(text: str, at: int) -> tuple[Protocol, int]:
    """The protocol that starts `text`, which stands at `at` of what was given, and its length with the colon."""
    word, colon, _ = text.partition(":")
    protocol = next((known for known in Protocol if known.value.lower() == word.lower()), None)
    if protocol is None or not colon:
        reason = f"must be `TCP:`, `OS:`, `HTTP:`, `HTTPS:` or `IPX:`, not {word[:60]!r}"
        raise IllegalFormatName(SECTION, "Protocol", at, reason)
    return protocol, len(word) + 1


def cut_address(protocol: Protocol, text: str, at: int) -> str:
    """The checked address that starts `text`; one of the protocol's separators follows it there."""
    if protocol in DEFAULT_PORTS:
        return _cut_http_address(text, at)
    address, backslash, _ = text.partition("\\")
    if not backslash:
        raise IllegalFormatName(SECTION, ADDRESS, at, "must be followed by a backslash and a queue name")
    if protocol is Protocol.IPX:
        _check_ipx_address(address, at)
        return address
    check_computer_name(address, at)
    if "," in address:
        raise IllegalFormatName(SECTION, ADDRESS, at + address.index(","), "must not contain ','")
    if protocol is Protocol.TCP:
        _check_ip_address(ip_address, address, at)
    return address


def http_host_and_port(protocol: Protocol, address: str) -> tuple[str, int]:
    """Host, without the brackets of an IPv6 address, and port of the checked address of an HTTP or HTTPS name."""
    match = _HTTP_ADDRESS.match(address)
    assert match is not None
    return match["host"].strip("[]"), int(match["port"] or DEFAULT_PORTS[protocol])


def _cut_http_address(text: str, at: int) -> str:
    match = _HTTP_ADDRESS.match(text)
    if match is None or text[match.end() : match.end() + 1] not in ("/", "\\"):
        raise IllegalFormatName(
            SECTION, ADDRESS, at, "must be //host[:port]/msmq, followed by a slash and a queue name"
        )
    host = match["host"]
    check_computer_name(host, at + match.start("host"))
    if host.startswith("["):
        _check_ip_address(IPv6Address, host[1:-1], at + match.start("host") + 1)
    if match["port"] and not 0 < int(match["port"]) <= 0xFFFF:
        raise IllegalFormatName(SECTION, "Port", at + match.start("port"), f"{match['port']} is outside 1 to 65535")
    return match[0]


def _check_ipx_address(address: str, at: int) -> None:
    if _IPX_ADDRESS.fullmatch(address) is None:
        reason = f"must be a network number, a colon and a host number in hexadecimal digits, not {address[:60]!r}"
        raise IllegalFormatName(SECTION, ADDRESS, at, reason)


def _check_ip_address(reader: Callable[[str], object], address: str, at: int) -> None:
    try:
        reader(address)
    except ValueError:
        raise IllegalFormatName(SECTION, ADDRESS, at, f"{address[:60]!r} is not an IP address") from None
