"""Where transactional messages went: what has to be known to judge acknowledgments of them (ADR 22), and survives.

For each format name: the queue managers that answered there, at which addresses, and the last message that was written
to a session. A record lives as long as its outgoing queue, or as a message to that name waits for its FinalAck. What
was written last goes into a batch that others make, so it may be less than was written, and never more: whoever judges
takes that into account. Beside it stand the addresses that an operator has admitted.
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
    """`met` are queue managers that answered, by their GUIDs, each with its addresses, the last one at the end."""

    name: FormatName
    written: SequencePlace = NO_PLACE
    met: dict[bytes, dict[str, None]] = field(default_factory=dict)


class Destinations:
    """See the module."""

    __slots__ = ("_known", "_messages", "admitted", "unwritten")

    def __init__(self, reader: Reader, messages: StoredMessages) -> None:
        self._messages: Final = messages
        self._known: dict[FormatName, KnownDestination] = {}
        # What `write` has to do.
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
        """What is known of this destination, which may be nothing yet."""
        return self._known.get(name) or self._known.setdefault(name, KnownDestination(name))

    def written(self, name: FormatName) -> SequencePlace:
        known = self._known.get(name)
        return NO_PLACE if known is None else known.written

    def met(self, name: FormatName) -> Mapping[bytes, AbstractSet[str]]:
        known = self._known.get(name)
        return {} if known is None else {guid: addresses.keys() for guid, addresses in known.met.items()}

    def note_met(self, known: KnownDestination, guid: bytes, address: str) -> bool:
        """The queue manager with this GUID answered at this address. Whether that is new."""
        addresses = known.met.setdefault(guid, {})
        if address in addresses:
            return False
        addresses[address] = None
        if sum(map(len, known.met.values())) > MAX_MET_ADDRESSES:
            _forget_one(known, guid)
        self._write(known)
        return True

    def note_written(self, known: KnownDestination, place: SequencePlace) -> None:
        """Messages up to this one were written to a session."""
        if place > known.written:
            known.written = place
            self.unwritten[known.name] = known

    def write(self) -> None:
        """What was written to sessions goes into the batch that is being made, in which there is something anyway."""
        for known in self.unwritten.values():
            self._write(known)
        self.unwritten.clear()

    def forget(self, name: FormatName) -> None:
        """Nothing to this name waits any more."""
        self.unwritten.pop(name, None)
        if self._known.pop(name, None) is not None:
            self._messages.batch.delete(Table.COUNTERS, _key(name))

    def admit(self, guid: bytes, address: str, now: Now) -> None:
        """Raises LimitReached."""
        if (guid, address) in self.admitted:
            return
        if len(self.admitted) >= MAX_ADMITTED_ADDRESSES:
            raise LimitReached(f"{MAX_ADMITTED_ADDRESSES} addresses are admitted, and there is no room for more")
        self.admitted.add((guid, address))
        record = AdmittedRecord(int(now.wall))
        self._messages.batch.put(Table.COUNTERS, keys.admitted_key(guid, address), record.encode())

    def revoke(self, guid: bytes, address: str) -> bool:
        """Take an admission back. Whether there was one."""
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
    """The address that was learned first, of a queue manager that did not answer now if there is one."""
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
