"""MS-MQMQ 2.3: the tests of a value that the rules of waypost.wire.property_rules are made of.

A check is asked about a value whose variant type is right. It returns False, or raises a PropertyError or DecodeError,
for one that is illegal.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from waypost.errors import DecodeError, IllegalSecurityDescriptor
from waypost.limits import MAX_QUEUE_LABEL
from waypost.wire.addresses import decode_addresses
from waypost.wire.format_names import FormatName, MulticastFormatName
from waypost.wire.path_names import PathName
from waypost.wire.security_descriptor import SecurityDescriptor

Check: TypeAlias = Callable[[Any], bool]


def anything(_: object) -> bool:
    return True


def one_of(*legal: object) -> Check:
    return frozenset(legal).__contains__


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers that all fit the variant type of the property."""

    lowest: int
    highest: int

    def __call__(self, value: object) -> bool:
        return isinstance(value, int) and self.lowest <= value <= self.highest


def flags_of(flags: type[IntFlag]) -> Check:
    mask = sum(flags)
    return lambda value: value & ~mask == 0


def one_record(decode: Callable[[bytes, int], tuple[object, int]]) -> Check:
    """A blob that is one record and nothing behind it."""
    return lambda data: decode(data, 0)[1] == len(data)


def utf16_units(text: str) -> int:
    """A character of a label is what a WCHAR holds."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_queue_label(text: str) -> bool:
    return utf16_units(text) <= MAX_QUEUE_LABEL


def is_path_name(text: str) -> bool:
    PathName.parse(text)
    return True


def is_dns_path_name(text: str) -> bool:
    return "." in PathName.parse(text).computer


def is_multicast_address(text: str) -> bool:
    return isinstance(FormatName.parse(f"MULTICAST={text}"), MulticastFormatName)


# RFC 4514: attribute=value pairs with commas between, and plus signs where one name has several. Special characters are
# escaped with a backslash; #hex values are of the same characters.
_PAIR: Final = r'[A-Za-z0-9][A-Za-z0-9.-]*=(?:[^\\,+"<>;\0]|\\(?:[\\,+"<>;=# ]|[0-9A-Fa-f]{2}))*'
_DISTINGUISHED_NAME: Final = re.compile(rf"{_PAIR}(?:[,+]{_PAIR})*")
# RFC 4516: ldap://host:port/dn and perhaps what to search there.
_LDAP_URL: Final = re.compile(r"ldap://[^/?#\s]*/([^?]*)(?:\?.*)?", re.IGNORECASE)


def is_distinguished_name(text: str) -> bool:
    return _DISTINGUISHED_NAME.fullmatch(text) is not None


def are_distinguished_names(texts: Sequence[str]) -> bool:
    return all(map(is_distinguished_name, texts))


def is_ldap_url(text: str) -> bool:
    match = _LDAP_URL.fullmatch(text)
    return match is not None and is_distinguished_name(unquote(match[1]))


def is_address_array(data: bytes) -> bool:
    decode_addresses(data)
    return True


def is_security_descriptor(data: bytes) -> bool:
    try:
        SecurityDescriptor.decode(data)
    except DecodeError as error:
        raise IllegalSecurityDescriptor(str(error)) from error
    return True
