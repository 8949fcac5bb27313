"""The records of incoming transactional sequences: MS-MQQB 3.1.1.3.1, waypost.transfer.incoming.

An IncomingRecord of format 1 is a SequenceRecord: it knows one line and no address. It is read, and the next change
writes format 2.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import StoreError, StoreTooNew
from waypost.store.records import VERSION, SequenceRecord, damaged, unpack_whole

_FORMAT: Final = 2
_HEAD: Final = Struct("<BBBB")
_LINE: Final = Struct("<QIII")
_PLACE: Final = Struct("<BBBI")
_ENDED: Final = Struct("<I")
_RENUMBERING: Final = Struct("<BQIQQ")
_WHAT: Final = "incoming sequence"
# Bytes of an address: none, IPv4, and the network of IPv6.
_ADDRESS_SIZES: Final = (0, 4, 8)

# IncomingRecord.flags.
TAKES_ANY: Final = 0x01
WENT_ON: Final = 0x02


@dataclass(slots=True)
class PlaceRecord:
    """An address (4 bytes, 8 of an IPv6 network, or none), the line that it is at, and those that ended with it."""

    address: bytes
    line: int
    last_access_time: int = 0
    ended: list[int] = field(default_factory=list)


@dataclass(slots=True)
class RenumberingRecord:
    """The progress of a reset: messages of an outgoing queue up to `lookup_id` have numbers of the new sequence.

    The next one gets `next_number`, and the last one that gets one is at `end`.
    """

    sequence_identifier: int
    next_number: int
    lookup_id: int
    end: int

    @classmethod
    def decode(cls, value: bytes) -> "RenumberingRecord":
        return cls(*unpack_whole(_RENUMBERING, value, "renumbering"))

    def encode(self) -> bytes:
        return _RENUMBERING.pack(VERSION, self.sequence_identifier, self.next_number, self.lookup_id, self.end)


@dataclass(slots=True)
class IncomingRecord:
    """Facts about one source queue manager that sends to one queue under one name."""

    flags: int = 0
    lines: list[SequenceRecord] = field(default_factory=list)
    places: list[PlaceRecord] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "IncomingRecord":
        if value[:1] == bytes([VERSION]):
            line = SequenceRecord.decode(value)
            return cls(WENT_ON, [line], [PlaceRecord(b"", 0, line.last_access_time)])
        if len(value) < _HEAD.size or value[0] != _FORMAT:
            raise _bad(value)
        _, flags, line_count, place_count = _HEAD.unpack_from(value)
        at = _HEAD.size + line_count * _LINE.size
        if flags & ~(TAKES_ANY | WENT_ON) or at > len(value):
            raise damaged(_WHAT)
        lines = [SequenceRecord(*fields) for fields in _LINE.iter_unpack(value[_HEAD.size : at])]
        places = []
        for _ in range(place_count):
            place, at = _place(value, at, line_count)
            places.append(place)
        if at != len(value):
            raise damaged(_WHAT)
        return cls(flags, lines, places)

    def encode(self) -> bytes:
        lines = (
            _LINE.pack(line.sequence_identifier, line.sequence_number, line.reject_count, line.last_access_time)
            for line in self.lines
        )
        places = (
            _PLACE.pack(len(place.address), place.line, len(place.ended), place.last_access_time)
            + place.address
            + b"".join(map(_ENDED.pack, place.ended))
            for place in self.places
        )
        head = _HEAD.pack(_FORMAT, self.flags, len(self.lines), len(self.places))
        return b"".join((head, *lines, *places))


def _place(value: bytes, at: int, line_count: int) -> tuple[PlaceRecord, int]:
    if at + _PLACE.size > len(value):
        raise damaged(_WHAT)
    size, line, ended_count, access = _PLACE.unpack_from(value, at)
    start = at + _PLACE.size
    middle = start + size
    end = middle + ended_count * _ENDED.size
    if end > len(value) or size not in _ADDRESS_SIZES or line >= line_count:
        raise damaged(_WHAT)
    ended = [time_stamp for (time_stamp,) in _ENDED.iter_unpack(value[middle:end])]
    return PlaceRecord(value[start:middle], line, access, ended), end


def _bad(value: bytes) -> StoreError:
    if value and value[0] > _FORMAT:
        return StoreTooNew(
            f"an {_WHAT} record has format {value[0]}, but this version of Waypost supports only formats up to "
            f"{_FORMAT}"
        )
    return damaged(_WHAT)


_ADDRESS: Final = Struct("<BII")


@dataclass(slots=True)
class AddressRecord:
    """Number of sources of a queue at an address, and of those with only one accepted message."""

    sources: int = 0
    single: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "AddressRecord":
        return cls(*unpack_whole(_ADDRESS, value, "address"))

    def encode(self) -> bytes:
        return _ADDRESS.pack(VERSION, self.sources, self.single)
