"""Directory objects as the store keeps them.

| key                                       | value                                                               |
|-------------------------------------------|---------------------------------------------------------------------|
| ObjectType u8, GUID of the object         | version u8, then for each attribute that is set: length of the name |
|                                           | u8, name, length of the value u32, value                            |

Values are as in waypost.directory.attributes. `Entry.decode` gives the entry, StoreTooNew if a newer Waypost wrote it,
and StoreDamaged for all bytes that `encode` cannot have made; what it gives encodes to the same bytes.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.directory.attributes import codecs_of
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.topology import ConnectedNetwork, DistributionList, Enterprise, RoutingLink, Site, User
from waypost.errors import StoreDamaged, StoreTooNew, WaypostError
from waypost.guid import NULL_GUID

VERSION: Final = 1
_LENGTH: Final = Struct("<I")


class ObjectType(IntEnum):
    """The number of a type in the store; those of MS-MQMQ 2.3.13.4, and one of our own."""

    QUEUE = 1
    QUEUE_MANAGER = 2
    SITE = 3
    CONNECTED_NETWORK = 5
    ENTERPRISE = 6
    USER = 7
    ROUTING_LINK = 8
    DISTRIBUTION_LIST = 0x80


OBJECT_TYPES: Final[dict[ObjectType, type[DirectoryObject]]] = {
    ObjectType.QUEUE: Queue,
    ObjectType.QUEUE_MANAGER: QueueManager,
    ObjectType.SITE: Site,
    ObjectType.CONNECTED_NETWORK: ConnectedNetwork,
    ObjectType.ENTERPRISE: Enterprise,
    ObjectType.USER: User,
    ObjectType.ROUTING_LINK: RoutingLink,
    ObjectType.DISTRIBUTION_LIST: DistributionList,
}
_NUMBERS: Final = {object_type: number for number, object_type in OBJECT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class DirectoryRecord:
    """An object as it goes to the store and comes from it. A `value` of None says that the object was deleted."""

    object_type: ObjectType
    identifier: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An object in the directory, and the names of its attributes that are set. The others have their defaults."""

    item: DirectoryObject
    present: frozenset[str]

    @property
    def object_type(self) -> ObjectType:
        return _NUMBERS[type(self.item)]

    def encode(self) -> bytes:
        parts = [bytes([VERSION])]
        for name, codec in codecs_of(type(self.item)).items():
            if name in self.present and name != "identifier":
                value = codec.encode(getattr(self.item, name))
                parts += (bytes([len(name)]), name.encode(), _LENGTH.pack(len(value)), value)
        return b"".join(parts)

    @classmethod
    def decode(cls, object_type: ObjectType, identifier: bytes, value: bytes) -> "Entry":
        if value and value[0] > VERSION:
            raise StoreTooNew(
                f"a directory record has format {value[0]}, but this version of Waypost supports only formats up to "
                f"{VERSION}"
            )
        kind = OBJECT_TYPES[object_type]
        codecs = codecs_of(kind)
        try:
            values = {name: codecs[name].decode(data) for name, data in _split(value)}
            entry = cls(kind(identifier=identifier, **values), frozenset({"identifier", *values}))
        except (KeyError, TypeError, ValueError, struct.error, WaypostError):
            raise _damaged() from None
        if len(identifier) != len(NULL_GUID) or entry.encode() != value:
            raise _damaged()
        return entry


def _split(value: bytes) -> list[tuple[str, bytes]]:
    parts = []
    at = 1
    while at < len(value):
        name_end = at + 1 + value[at]
        start = name_end + _LENGTH.size
        end = start + _LENGTH.unpack_from(value, name_end)[0]
        parts.append((value[at + 1 : name_end].decode("ascii"), value[start:end]))
        at = end
    return parts


def _damaged() -> StoreDamaged:
    return StoreDamaged("a directory record of the store is damaged")
