"""The records of what decides whether an acknowledgment of a transactional message is believed (ADR 22).

They stand in the table COUNTERS, under keys that waypost.store.keys makes.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.guid import NULL_GUID
from waypost.store.records import VERSION, damaged, decode_text, encode_text, join, split, unpack, unpack_whole

_DESTINATION: Final = Struct("<BQI")
_GUID_SIZE: Final = len(NULL_GUID)


@dataclass(slots=True)
class DestinationRecord:
    """The destination that transactional messages were sent to under a format name, the text of which is `name`.

    `sequence_identifier` and `sequence_number` are those of the last message that is known to have been written to a
    session. `met` are the queue managers that answered there, each with an address at which it did.
    """

    name: str
    sequence_identifier: int
    sequence_number: int
    met: list[tuple[bytes, str]]

    @classmethod
    def decode(cls, value: bytes) -> "DestinationRecord":
        identifier, number = unpack(_DESTINATION, value, "destination")
        parts = split(value, _DESTINATION.size, "destination")
        if not parts or any(len(part) < _GUID_SIZE for part in parts[1:]):
            raise damaged("destination")
        met = [(part[:_GUID_SIZE], decode_text(part[_GUID_SIZE:], "destination")) for part in parts[1:]]
        return cls(decode_text(parts[0], "destination"), identifier, number, met)

    def encode(self) -> bytes:
        head = _DESTINATION.pack(VERSION, self.sequence_identifier, self.sequence_number)
        return head + join([encode_text(self.name), *(guid + encode_text(address) for guid, address in self.met)])


_KEPT: Final = Struct("<BQIIHI16s16s")


@dataclass(slots=True)
class KeptAckRecord:
    """A FinalAck that is neither believed nor refused, and the other end of the session that brought it.

    `time` is when it came, in seconds since 1970.
    """

    sequence_identifier: int
    sequence_number: int
    message_id: int
    message_class: int
    time: int
    source: bytes
    guid: bytes
    address: str

    @classmethod
    def decode(cls, value: bytes) -> "KeptAckRecord":
        address = decode_text(value[_KEPT.size :], "acknowledgment")
        return cls(*[*unpack(_KEPT, value, "acknowledgment"), address])

    def encode(self) -> bytes:
        head = _KEPT.pack(
            VERSION,
            self.sequence_identifier,
            self.sequence_number,
            self.message_id,
            self.message_class,
            self.time,
            self.source,
            self.guid,
        )
        return head + encode_text(self.address)


_ADMITTED: Final = Struct("<BI")


@dataclass(slots=True)
class AdmittedRecord:
    """An operator has admitted an address for a queue manager, both of which are the key. `time` is when."""

    time: int

    @classmethod
    def decode(cls, value: bytes) -> "AdmittedRecord":
        return cls(*unpack_whole(_ADMITTED, value, "address"))

    def encode(self) -> bytes:
        return _ADMITTED.pack(VERSION, self.time)
