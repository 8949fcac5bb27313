"""Destinations of transactional messages: the durable facts by which their acknowledgments are judged (ADR 22).

For each format name: the queue managers that answered there, at which addresses, and the last message that was written
to a session. A record lives as long as its outgoing queue, or as a message to that name waits for its FinalAck. The
last written message goes into a batch that other work starts, so the record may lag behind, and is never ahead: the
judgment takes that into account. The addresses that an operator has admitted are kept here too.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from waypost.clock import Now
from waypost.errors import LimitReached
from waypost.limits import MAX_ADMITTED_ADDRESSES, MAX_MET_ADDRESSES
from waypost.node import scans
from waypost.node.stored_messages import StoredMessages
from waypost.store import keys
from waypost.store.ack_records import AdmittedRecord, DestinationRecord
from waypost.store.port import Reader, Table
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import TxSequenceId

# A place in the sequences of one outgoing queue; later messages have greater ones.
SequencePlace = tuple[TxSequenceId, int]

NO_PLACE: Final[SequencePlace] = TxSequenceId(0, 0), 0


@dataclass(slots=True)
class KnownDestination:
    """`met` are queue managers that answered, by their GUIDs, each with its addresses, the latest at the end."""

    name: FormatName
    written: SequencePlace = NO_PLACE
    met: dict[bytes, dict[str, None]] = field(default_factory=dict)


class Destinations:
    """The known destinations of one queue manager."""

    __slots__ = ("_known", "_messages", "admitted", "unwritten")

    def __init__(self, reader: Reader, messages: StoredMessages) -> None:
        self._messages: Final = messages
        self._known: dict[FormatName, KnownDestination] = {}
        # Destinations that `write` has to write.
        self.unwritten: dict[FormatName, KnownDestination] = {}
        for key, value in scans.items(reader, Table.COUNTERS, *keys.destination_range()):
            try:
                known = _destination_of(DestinationRecord.decode(value))
            except scans.UNDECODABLE as error:
                raise scans.undecodable(Table.COUNTERS, key, error) from error
            self._known[known.name] = known
        # GUIDs with addresses.
        self.admitted: set[tuple[bytes, str]] = set()
        for key, value in scans.items(reader, Table.COUNTERS, *keys.admitted_range()):
            AdmittedRecord.decode(value)
            self.admitted.add(keys.admitted_of(key))

    def __iter__(self) -> Iterator[FormatName]:
        return iter(tuple(self._known))

    def of(self, name: FormatName) -> KnownDestination:
        """The record of this destination, which may be empty."""
        return self._known.get(name) or self._known.setdefault(name, KnownDestination(name))

    def written(self, name: FormatName) -> SequencePlace:
        known = self._known.get(name)
        return NO_PLACE if known is None else known.written

    def met(self, name: FormatName) -> Mapping[bytes, AbstractSet[str]]:
        known = self._known.get(name)
        return {} if known is None else {guid: addresses.keys() for guid, addresses in known.met.items()}

    def note_met(self, known: KnownDestination, guid: bytes, address: str) -> bool:
        """Note that the queue manager with this GUID answered at this address. True if that is new."""
        addresses = known.met.setdefault(guid, {})
        if address in addresses:
            return False
        addresses[address] = None
        if sum(map(len, known.met.values())) > MAX_MET_ADDRESSES:
            _forget_one(known, guid)
        self._write(known)
        return True

    def note_written(self, known: KnownDestination, place: SequencePlace) -> None:
        """Note that messages up to this one were written to a session."""
        if place > known.written:
            known.written = place
            self.unwritten[known.name] = known

    def write(self) -> None:
        """Put the notes of written messages into the current batch, which is not empty."""
        for known in self.unwritten.values():
            self._write(known)
        self.unwritten.clear()

    def forget(self, name: FormatName) -> None:
        """Forget a name that no message waits for."""
        self.unwritten.pop(name, None)
        if self._known.pop(name, None) is not None:
            self._messages.batch.delete(Table.COUNTERS, _key(name))

    def admit(self, guid: bytes, address: str, now: Now) -> None:
        """Believe this queue manager at this address. Raises LimitReached."""
        if (guid, address) in self.admitted:
            return
        if len(self.admitted) >= MAX_ADMITTED_ADDRESSES:
            raise LimitReached(f"the limit of {MAX_ADMITTED_ADDRESSES} admitted addresses is reached")
        self.admitted.add((guid, address))
        record = AdmittedRecord(int(now.wall))
        self._messages.batch.put(Table.COUNTERS, keys.admitted_key(guid, address), record.encode())

    def revoke(self, guid: bytes, address: str) -> bool:
        """Take an admission back. True if it existed."""
        if (guid, address) not in self.admitted:
            return False
        self.admitted.discard((guid, address))
        self._messages.batch.delete(Table.COUNTERS, keys.admitted_key(guid, address))
        return True

    def _write(self, known: KnownDestination) -> None:
        sequence_id, number = known.written
        met = [(guid, address) for guid, addresses in known.met.items() for address in addresses]
        record = DestinationRecord(str(known.name), sequence_id.value, number, met)
        self._messages.batch.put(Table.COUNTERS, _key(known.name), record.encode())


def _forget_one(known: KnownDestination, but: bytes) -> None:
    """Forget the address that was learned first, preferably of a queue manager that did not answer now."""
    guid = next((guid for guid in known.met if guid != but), but)
    addresses = known.met[guid]
    del addresses[next(iter(addresses))]
    if not addresses:
        del known.met[guid]


def _destination_of(record: DestinationRecord) -> KnownDestination:
    name = FormatName.parse(record.name)
    known = KnownDestination(name, (TxSequenceId.of(record.sequence_identifier), record.sequence_number))
    for guid, address in record.met:
        known.met.setdefault(guid, {})[address] = None
    return known


def _key(name: FormatName) -> bytes:
    text = str(name).lower().encode("utf-16-le", "surrogatepass")
    return keys.destination_key(blake2b(text, digest_size=16).digest())
