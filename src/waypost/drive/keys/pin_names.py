"""Names for which keys are pinned: a host, or the GUID of a queue manager."""

import re
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Final

from waypost.api.excerpt import excerpt
from waypost.drive.keys import formats
from waypost.errors import InvalidParameter
from waypost.guid import GUID_PATTERN, guid_text, parse_guid

GUID: Final = re.compile(rf"\{{?({GUID_PATTERN})\}}?")
HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]{1,255}")


def pin_name(who: str) -> str:
    """A host in lower case, or a GUID."""
    found = GUID.fullmatch(who.strip())
    if found is not None:
        return guid_text(parse_guid(found[1]))
    name = who.strip().lower()
    if not HOST.fullmatch(name):
        raise InvalidParameter(f"{excerpt(who)} is not a host name, an address or a GUID")
    return name


def check_host(name: str) -> None:
    """A pin counts for a host, whatever its port: with a port it would count for nothing."""
    if ":" not in name:
        return
    with suppress(ValueError):
        IPv6Address(name)
        return
    host, _, port = name.rpartition(":")
    if not port.isdecimal():
        raise InvalidParameter(f"{excerpt(name)} is not a host name, an address or a GUID")
    sentence = f"{excerpt(name)} contains a port, but keys are pinned for a host, without a port"
    raise formats.refusal(sentence, f"omit the port: {excerpt(host)}")


def pin_key(name: str) -> bytes | str:
    return parse_guid(name) if GUID.fullmatch(name) else name
