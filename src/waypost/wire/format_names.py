"""MS-MQMQ 2.1.2 to 2.1.7 format names of every kind: parse, print, compare.

A name keeps the letters of its host, queue and domain as they were given. The rest prints in one form: keywords,
PRIVATE$, SYSTEM$ and suffixes in upper case, GUIDs in lower case, the number of a private queue as eight lower-case
digits, HTTP names with slashes. Names are equal when their printed forms are, without regard to case, and
parse(str(name)) == name. `parse` is the gate: a name that is built from its parts is taken on trust. Text from outside
raises IllegalFormatName and nothing else.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Final

from waypost.errors import DecodeError, IllegalFormatName, IllegalPathName, UnsupportedFormatName
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.limits import MAX_DOMAIN_NAME, MAX_FORMAT_NAME_TEXT
from waypost.wire.direct_names import (
    DEFAULT_PORTS,
    Protocol,
    cut_address,
    cut_protocol,
    http_host_and_port,
    separators_of,
)
from waypost.wire.direct_names import SECTION as DIRECT_SECTION
from waypost.wire.path_names import QueueKind, cut_kind, cut_subqueue

__all__ = [
    "ConnectorFormatName",
    "Destination",
    "DirectFormatName",
    "DistributionListFormatName",
    "FormatName",
    "MachineFormatName",
    "MulticastFormatName",
    "MultipleElementFormatName",
    "PrivateFormatName",
    "Protocol",
    "PublicFormatName",
    "Suffix",
]

PUBLIC_SECTION: Final = "MS-MQMQ 2.1.3"
PRIVATE_SECTION: Final = "MS-MQMQ 2.1.4"
LIST_SECTION: Final = "MS-MQMQ 2.1.5"
MACHINE_SECTION: Final = "MS-MQMQ 2.1.6"
ELEMENTS_SECTION: Final = "MS-MQMQ 2.1.7"


class Suffix(IntEnum):
    """MS-MQMQ 2.2.11 QUEUE_SUFFIX_TYPE: the word behind the semicolon; SUBQUEUE if it is the name of a subqueue."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5


# The queues that the queue manager alone fills; they can be read and purged, not sent to.
READ_ONLY: Final = (Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT)


@dataclass(frozen=True, slots=True)
class Destination:
    """MS-MQQB 3.1.7.4: the host of a queue, "" if unknown, and its queue manager's identifier, zeros if unknown."""

    host: str
    queue_manager: bytes


class FormatName(ABC):
    """A name by which an application opens a queue."""

    __slots__ = ()

    @staticmethod
    def parse(text: str) -> "FormatName":
        _check_length(text)
        parts = _SEPARATOR.split(text)
        if len(parts) == 1:
            return _parse_single(text, 0)
        elements: list[FormatName] = []
        at = 0
        for part in parts:
            element = _parse_single(part, at)
            if element.is_read_only:
                raise IllegalFormatName(
                    ELEMENTS_SECTION,
                    "FormatName",
                    at,
                    "a read-only queue is not allowed in a multiple-element format name",
                )
            elements.append(element)
            at += len(part) + 1
        return MultipleElementFormatName(tuple(elements))

    @abstractmethod
    def __str__(self) -> str: ...

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FormatName):
            return NotImplemented
        return str(self).lower() == str(other).lower()

    def __hash__(self) -> int:
        return hash(str(self).lower())

    @property
    def suffix(self) -> Suffix:
        return Suffix.NONE

    @property
    def is_read_only(self) -> bool:
        """Journals and dead-letter queues."""
        return self.suffix in READ_ONLY

    def destination(self) -> Destination:
        """MS-MQQB 3.1.7.4 Get Destination Info, for the kinds that need no directory."""
        raise UnsupportedFormatName(f"the name {self} does not identify one destination (MS-MQQB 3.1.7.4)")


@dataclass(frozen=True, slots=True, eq=False)
class DirectFormatName(FormatName):
    """A queue by the address of its computer. The queue of kind SYSTEM has no name: the suffix says which one it is."""

    protocol: Protocol
    address: str
    kind: QueueKind
    queue: str
    subqueue: str = ""
    suffix: Suffix = Suffix.NONE
    # The text without DIRECT=. It is made once, because every message that is sent needs it.
    direct_text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.subqueue and self.suffix is Suffix.NONE:
            object.__setattr__(self, "suffix", Suffix.SUBQUEUE)
        object.__setattr__(self, "direct_text", self._text())

    @classmethod
    def parse_direct(cls, text: str) -> "DirectFormatName":
        """From the text without DIRECT=, as packets (MS-MQMQ 2.2.18.1.5.2) and QUEUE_FORMAT (2.2.7) carry it."""
        _check_length(text)
        return _parse_direct(text, 0)

    def _text(self) -> str:
        separator = separators_of(self.protocol)[0]
        start = f"{self.protocol.value}:{self.address}{separator}"
        if self.kind is QueueKind.SYSTEM:
            return f"{start}SYSTEM${_suffix_text(self.suffix)}"
        marker = f"PRIVATE${separator}" if self.kind is QueueKind.PRIVATE else ""
        subqueue = f";{self.subqueue}" if self.subqueue else ""
        return f"{start}{marker}{self.queue}{subqueue}{_suffix_text(self.suffix)}"

    def __str__(self) -> str:
        return f"DIRECT={self.direct_text}"

    @property
    def host(self) -> str:
        """The computer: the whole address, or its Host for HTTP and HTTPS."""
        return http_host_and_port(self.protocol, self.address)[0] if self.protocol in DEFAULT_PORTS else self.address

    @property
    def port(self) -> int | None:
        """The port of an HTTP or HTTPS name. The other protocols put no port into a name."""
        return http_host_and_port(self.protocol, self.address)[1] if self.protocol in DEFAULT_PORTS else None

    def destination(self) -> Destination:
        if self.protocol is Protocol.IPX:
            raise UnsupportedFormatName(f"{self} contains an IPX address, which Waypost does not support")
        return Destination(self.address, NULL_GUID)


@dataclass(frozen=True, slots=True, eq=False)
class PublicFormatName(FormatName):
    """A public queue, or its journal, by its identifier in the directory."""

    guid: bytes
    suffix: Suffix = Suffix.NONE

    def __str__(self) -> str:
        return f"PUBLIC={guid_text(self.guid)}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class PrivateFormatName(FormatName):
    """A private queue, or its journal, by its number on a computer."""

    computer_guid: bytes
    number: int
    suffix: Suffix = Suffix.NONE

    def __str__(self) -> str:
        return f"PRIVATE={guid_text(self.computer_guid)}\\{self.number:08x}{_suffix_text(self.suffix)}"

    def destination(self) -> Destination:
        return Destination("", self.computer_guid)


@dataclass(frozen=True, slots=True, eq=False)
class DistributionListFormatName(FormatName):
    """A group object of the directory, with the domain where to look for it."""

    guid: bytes
    domain: str = ""

    def __str__(self) -> str:
        return f"DL={guid_text(self.guid)}" + (f"@{self.domain}" if self.domain else "")


@dataclass(frozen=True, slots=True, eq=False)
class MachineFormatName(FormatName):
    """The journal or a dead-letter queue of a computer. The grammar allows no suffix: then it is open which one."""

    guid: bytes
    suffix: Suffix = Suffix.NONE

    def __str__(self) -> str:
        return f"MACHINE={guid_text(self.guid)}{_suffix_text(self.suffix)}"

    @property
    def is_read_only(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ConnectorFormatName(FormatName):
    """The queue of a connector server, or with XACTONLY its transactional one."""

    guid: bytes
    suffix: Suffix = Suffix.NONE

    def __str__(self) -> str:
        return f"CONNECTOR={guid_text(self.guid)}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class MulticastFormatName(FormatName):
    """All queues that listen to an IPv4 multicast address."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"


@dataclass(frozen=True, slots=True, eq=False)
class MultipleElementFormatName(FormatName):
    """Two or more names of other kinds to send to at once; one alone parses to that name itself."""

    elements: tuple[FormatName, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.elements))


def _suffix_text(suffix: Suffix) -> str:
    """SUBQUEUE prints nothing: the subqueue's own name stands for it."""
    return "" if suffix in (Suffix.NONE, Suffix.SUBQUEUE) else f";{suffix.name}"


def _check_length(text: str) -> None:
    if len(text) > MAX_FORMAT_NAME_TEXT:
        reason = f"must have at most {MAX_FORMAT_NAME_TEXT} characters, not {len(text)}"
        raise IllegalFormatName("MS-MQMQ 2.1", "FormatName", MAX_FORMAT_NAME_TEXT, reason)


def _parse_single(text: str, at: int) -> FormatName:
    keyword, equals, value = text.partition("=")
    parser = _PARSERS.get(keyword.lower())
    if parser is None or not equals:
        reason = f"{text[:60]!r} does not begin with the type of a format name, such as DIRECT= or PRIVATE="
        raise IllegalFormatName("MS-MQMQ 2.1", "FormatName", at, reason)
    return parser(value, at + len(keyword) + 1)


def _parse_direct(text: str, at: int) -> DirectFormatName:
    protocol, length = cut_protocol(text, at)
    try:
        address = cut_address(protocol, text[length:], at + length)
        start = length + len(address) + 1
        kind, marker_length = cut_kind(text[start:], separators_of(protocol))
        rest, at = text[start + marker_length :], at + start + marker_length
        if kind is QueueKind.SYSTEM:
            return DirectFormatName(protocol, address, kind, "", suffix=_suffix(rest, READ_ONLY, DIRECT_SECTION, at))
        # A last ;JOURNAL is the suffix and never the name of a subqueue.
        is_journal = rest[-8:].lower() == ";journal"
        queue, subqueue = cut_subqueue(rest[:-8] if is_journal else rest, at)
    except IllegalPathName as error:
        raise IllegalFormatName(error.section, error.field, error.offset, error.reason) from None
    return DirectFormatName(protocol, address, kind, queue, subqueue, Suffix.JOURNAL if is_journal else Suffix.NONE)


def _parse_public(text: str, at: int) -> PublicFormatName:
    value, suffix = _cut_suffix(text, (Suffix.JOURNAL,), PUBLIC_SECTION, at)
    return PublicFormatName(_guid(value, PUBLIC_SECTION, "QueueGuid", at), suffix)


def _parse_private(text: str, at: int) -> PrivateFormatName:
    value, suffix = _cut_suffix(text, (Suffix.JOURNAL,), PRIVATE_SECTION, at)
    guid, _, number = value.partition("\\")
    computer_guid = _guid(guid, PRIVATE_SECTION, "ComputerGuid", at)
    if not _PRIVATE_NUMBER.fullmatch(number):
        reason = f"{number[:60]!r} is not one to eight hexadecimal digits"
        raise IllegalFormatName(PRIVATE_SECTION, "PrivateName", at + len(value) - len(number), reason)
    return PrivateFormatName(computer_guid, int(number, 16), suffix)


def _parse_distribution_list(text: str, at: int) -> DistributionListFormatName:
    guid, at_sign, domain = text.partition("@")
    list_guid = _guid(guid, LIST_SECTION, "DistributionListGuid", at)
    if at_sign and not _DOMAIN.fullmatch(domain):
        reason = f"must be 1 to {MAX_DOMAIN_NAME} visible ASCII characters"
        raise IllegalFormatName(LIST_SECTION, "DomainName", at + len(guid) + 1, reason)
    return DistributionListFormatName(list_guid, domain)


def _parse_machine(text: str, at: int) -> MachineFormatName:
    value, suffix = _cut_suffix(text, READ_ONLY, MACHINE_SECTION, at)
    return MachineFormatName(_guid(value, MACHINE_SECTION, "Machine", at), suffix)


def _parse_connector(text: str, at: int) -> ConnectorFormatName:
    value, suffix = _cut_suffix(text, (Suffix.XACTONLY,), MACHINE_SECTION, at)
    return ConnectorFormatName(_guid(value, MACHINE_SECTION, "Connector", at), suffix)


def _parse_multicast(text: str, at: int) -> MulticastFormatName:
    address, _, port = text.partition(":")
    try:
        is_multicast = IPv4Address(address).is_multicast
    except ValueError:
        is_multicast = False
    if not is_multicast:
        reason = f"{address[:60]!r} is not between 224.0.0.0 and 239.255.255.255"
        raise IllegalFormatName(MACHINE_SECTION, "Address", at, reason)
    if not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        reason = f"{port[:60]!r} is not a number from 0 to 65535"
        raise IllegalFormatName(MACHINE_SECTION, "Port", at + len(text) - len(port), reason)
    return MulticastFormatName(address, int(port))


def _cut_suffix(text: str, allowed: tuple[Suffix, ...], section: str, at: int) -> tuple[str, Suffix]:
    value, semicolon, word = text.partition(";")
    return value, _suffix(word, allowed, section, at + len(value) + 1) if semicolon else Suffix.NONE


def _suffix(word: str, allowed: tuple[Suffix, ...], section: str, at: int) -> Suffix:
    for suffix in allowed:
        if word.lower() == suffix.name.lower():
            return suffix
    expected = " or ".join(suffix.name for suffix in allowed)
    raise IllegalFormatName(section, "suffix", at, f"{word[:60]!r} is not {expected}")


def _guid(text: str, section: str, field: str, at: int) -> bytes:
    # parse_guid takes braces, a format name does not.
    if not text.startswith("{"):
        with suppress(DecodeError):
            return parse_guid(text)
    raise IllegalFormatName(section, field, at, f"{text[:60]!r} is not 8-4-4-4-12 hexadecimal digits")


_PARSERS: Final[dict[str, Callable[[str, int], FormatName]]] = {
    "direct": _parse_direct,
    "public": _parse_public,
    "private": _parse_private,
    "dl": _parse_distribution_list,
    "machine": _parse_machine,
    "connector": _parse_connector,
    "multicast": _parse_multicast,
}

# The grammar lets a comma into the domain of a distribution list: a comma separates only where the next name starts.
_SEPARATOR: Final = re.compile(rf",(?=(?:{'|'.join(_PARSERS)})=)", re.ASCII | re.IGNORECASE)
_PRIVATE_NUMBER: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}")
_DOMAIN: Final = re.compile(rf"[\x21-\x7E]{{1,{MAX_DOMAIN_NAME}}}")
