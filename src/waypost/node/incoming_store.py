"""The incoming transactional sequences of a queue manager: MS-MQQB 3.1.1.3.1, kept in the store for good.

A sequence that has taken a message is not forgotten, because its source would be heard twice or not at all. Nothing is
read at a start: what is wanted is read then, and a part of it stays in memory. waypost.transfer.incoming has the rule.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from waypost.core.queues import Queue
from waypost.guid import NULL_GUID
from waypost.limits import MAX_CACHED_SEQUENCES, MAX_SEQUENCE_PAGE
from waypost.node import scans
from waypost.node.cached_records import CachedRecords
from waypost.store import keys
from waypost.store.port import Batch, Reader, Table, after
from waypost.store.records import SequenceRecord
from waypost.store.sequence_records import TAKES_ANY, WENT_ON, AddressRecord, IncomingRecord, PlaceRecord
from waypost.transfer.incoming import ANY_ADDRESS, AddressPlace, IncomingSequences
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence
from waypost.wire.identifiers import TIME_STAMP_SHIFT
from waypost.wire.management import SourceInfo
from waypost.wire.transaction_header import TransactionHeader

# Bytes that a source takes in the store, with what the store needs for it: for quotas.
SOURCE_BYTES: Final = 128

# Bytes of a /64 network.
_NETWORK_SIZE: Final = 8

# The number of a queue, and an address.
_AddressKey = tuple[int, str]


class IncomingStore:
    """What was taken from each source, for each queue and each name that the source uses for it: `kept`.

    `met` counts the sources of each address.
    """

    __slots__ = ("_reader", "kept", "met", "unguarded")

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader
        # Sources with a line that has ended and was forgotten too early, until somebody says so.
        self.unguarded: Final[list[SequenceKey]] = []
        self.kept: Final[CachedRecords[SequenceKey, IncomingSequences]] = CachedRecords(
            self._read,
            # Looked up when it is used: the simulator plants a mistake in its place.
            lambda batch, key, sequences: write_incoming(batch, key, sequences),  # noqa: PLW0108
            delete_incoming,
            size=MAX_CACHED_SEQUENCES,
        )
        self.met: Final[CachedRecords[_AddressKey, AddressRecord]] = CachedRecords(
            self._read_address, _write_address, _delete_address, size=MAX_CACHED_SEQUENCES
        )

    @property
    def in_memory(self) -> int:
        return len(self.kept)

    def find(self, key: SequenceKey) -> IncomingSequences | None:
        return self.kept.get(key)

    def take(self, key: SequenceKey, address: str, header: TransactionHeader, wall: float) -> IncomingSequence:
        """A message that was judged to be taken moves its sequence. Returns that."""
        found = self.kept.get(key)
        sequences = IncomingSequences() if found is None else found
        before = None if address in sequences.places else set(sequences.places)
        went_on = sequences.went_on
        line = sequences.take(address, header, wall)
        if before is not None or went_on is not sequences.went_on:
            met = set(sequences.places) if before is None else before
            self._recount(key[1], sequences, met, was_single=not went_on)
        self.kept.changed(key, sequences)
        if sequences.unguarded:
            self.unguarded.append(key)
        return line

    def reject(self, key: SequenceKey, header: TransactionHeader, wall: float) -> None:
        """A message of a known sequence that is not the next one is counted."""
        sequences = self.kept.get(key)
        line = None if sequences is None else sequences.line_of(header)
        if sequences is not None and line is not None:
            line.accept(header, wall)
            self.kept.changed(key, sequences)

    def expect_any(self, key: SequenceKey) -> None:
        """Forget all about a source. Its next message is taken whatever its PreviousTxSequenceNumber."""
        self._forget(key)
        self.kept.changed(key, IncomingSequences(takes_any=True))

    def delete(self, key: SequenceKey) -> None:
        """Forget all about a source."""
        self._forget(key)
        self.kept.delete(key)

    def forget_address(self, key: SequenceKey, address: str) -> bool:
        """What came from this address was of somebody else. Whether there was anything."""
        sequences = self.kept.get(key)
        if sequences is None or address not in sequences.places:
            return False
        before = set(sequences.places)
        sequences.forget_address(address)
        self._recount(key[1], sequences, before, was_single=not sequences.went_on)
        if sequences.places:
            self.kept.changed(key, sequences)
        else:
            self.kept.delete(key)
        return True

    def forget(self, queue: Queue) -> None:
        """The queue is deleted, and its records with it."""
        self.kept.forget(lambda key: key[1] == queue.number)
        self.met.forget(lambda key: key[0] == queue.number)

    def write(self, batch: Batch, token: int) -> None:
        """What has changed goes into the batch that is being made."""
        self.kept.write(batch, token)
        self.met.write(batch, token)

    def persisted(self, token: int) -> None:
        if self.kept.order:
            self.kept.persisted(token)
        if self.met.order:
            self.met.persisted(token)

    def page(
        self, start: bytes, stop: bytes | None = None, limit: int = MAX_SEQUENCE_PAGE
    ) -> tuple[list[tuple[SequenceKey, IncomingSequences]], bytes | None]:
        """Those behind a place of the store, as they are now, and where to go on; None at the end.

        One that is not durable yet may be missing.
        """
        found = []
        first, last = keys.all_incoming_sequences()
        stop = last if stop is None else stop
        page = self._reader.keys(Table.SEQUENCES, max(start, first), stop, limit)
        for stored in page:
            queue, source = keys.sequence_of(stored)
            assert source is not None
            sequences = self.kept.get((source, queue))
            if sequences is not None:
                found.append(((source, queue), sequences))
        return found, after(page[-1]) if len(page) == limit else None

    def of_source(self, queue: int, source: bytes) -> list[SequenceKey]:
        """The keys under which a source is known at a queue: one for each name that it uses."""
        start = keys.incoming_sequence_key(queue, source)
        stop = keys.incoming_sequence_key(queue, source + b"\xff" * 9)
        found = []
        for stored in self._reader.keys(Table.SEQUENCES, start, stop, MAX_SEQUENCE_PAGE):
            _, name = keys.sequence_of(stored)
            assert name is not None
            if self.kept.get((name, queue)) is not None:
                found.append((name, queue))
        return found

    def addresses(self, limit: int) -> tuple[dict[str, AddressRecord], bool]:
        """The sources of all addresses that were met, and whether these are all of them."""
        found: dict[str, AddressRecord] = {}
        for count, (stored, value) in enumerate(
            scans.whole_items(self._reader, Table.SEQUENCES, *keys.all_sequence_addresses())
        ):
            if count == limit:
                return found, False
            _, address = keys.sequence_address_of(stored)
            try:
                record = AddressRecord.decode(value)
            except scans.UNDECODABLE:
                continue
            total = found.setdefault(address_text(address), AddressRecord())
            total.sources += record.sources
            total.single += record.single
        return found, True

    def bytes_of(self, address: str, queues: Iterable[Queue]) -> int:
        """What the sources that were met at an address take in the store: their share of the quota."""
        records = (self.met.get((queue.number, address)) for queue in queues if queue.attributes.transactional)
        return sum(record.sources for record in records if record is not None) * SOURCE_BYTES

    def source_info(self, queue: Queue) -> list[SourceInfo]:
        """MS-MQQB 3.1.5.8.6: IncomingTransactionalTransferInfo of the queue, of as many sources as one page has.

        Which of its names a source uses for the queue is not kept.
        """
        name = f"DIRECT=OS:{queue.qualified_pathname}"
        found, _ = self.page(*keys.incoming_sequence_range(queue.number))
        return [
            SourceInfo(
                name,
                source[: len(NULL_GUID)],
                line.sequence_id,
                line.number,
                line.last_access_time,
                line.last_reject_count,
            )
            for (source, _), sequences in found
            for line in sequences.lines.values()
        ]

    def _forget(self, key: SequenceKey) -> None:
        """The addresses at which a source was met have one source less."""
        sequences = self.kept.get(key)
        if sequences is not None:
            before, was_single = set(sequences.places), not sequences.went_on
            self._recount(key[1], IncomingSequences(), before, was_single=was_single)

    def _recount(self, queue: int, sequences: IncomingSequences, before: set[str], *, was_single: bool) -> None:
        """The source was met at the addresses `before`, and is met at those that it has now."""
        single = not sequences.went_on
        for address in before - sequences.places.keys():
            self._count(queue, address, -1, -was_single)
        for address in sequences.places.keys() - before:
            self._count(queue, address, 1, int(single))
        if single is not was_single:
            for address in before & sequences.places.keys():
                self._count(queue, address, 0, single - was_single)

    def _count(self, queue: int, address: str, sources: int, single: int) -> None:
        if address == ANY_ADDRESS:
            return
        key = queue, address
        record = self.met.get(key) or AddressRecord()
        record.sources = max(record.sources + sources, 0)
        record.single = max(record.single + single, 0)
        if record.sources:
            self.met.changed(key, record)
        else:
            self.met.delete(key)

    def _read(self, key: SequenceKey) -> IncomingSequences | None:
        source, queue = key
        try:
            value = self._reader.get(Table.SEQUENCES, keys.incoming_sequence_key(queue, source))
            return None if value is None else read_incoming(value)
        except scans.UNDECODABLE:
            # To take it for a source that was never met would be to take its messages twice.
            return IncomingSequences(is_damaged=True)

    def _read_address(self, key: _AddressKey) -> AddressRecord | None:
        """It only counts, so one that is damaged begins again."""
        queue, address = key
        stored = keys.sequence_address_key(queue, address_bytes(address))
        try:
            value = self._reader.get(Table.SEQUENCES, stored)
            return None if value is None else AddressRecord.decode(value)
        except scans.UNDECODABLE:
            return None


def _write_address(batch: Batch, key: _AddressKey, record: AddressRecord) -> None:
    queue, address = key
    stored = keys.sequence_address_key(queue, address_bytes(address))
    batch.put(Table.SEQUENCES, stored, record.encode())


def _delete_address(batch: Batch, key: _AddressKey) -> None:
    queue, address = key
    batch.delete(Table.SEQUENCES, keys.sequence_address_key(queue, address_bytes(address)))


def write_incoming(batch: Batch, key: SequenceKey, sequences: IncomingSequences) -> None:
    source, queue = key
    batch.put(Table.SEQUENCES, keys.incoming_sequence_key(queue, source), _incoming_record(sequences).encode())


def delete_incoming(batch: Batch, key: SequenceKey) -> None:
    source, queue = key
    batch.delete(Table.SEQUENCES, keys.incoming_sequence_key(queue, source))


def read_incoming(value: bytes) -> IncomingSequences:
    """A record without an address is of every address until one needs it."""
    record = IncomingRecord.decode(value)
    lines = [
        IncomingSequence(
            line.sequence_identifier, line.sequence_number, line.reject_count, line.last_access_time, line.reject_count
        )
        for line in record.lines
    ]
    time_stamps = [line.sequence_id >> TIME_STAMP_SHIFT for line in lines]
    return IncomingSequences(
        dict(zip(time_stamps, lines, strict=True)),
        {
            address_text(place.address): AddressPlace(time_stamps[place.line], place.last_access_time, place.ended)
            for place in record.places
        },
        takes_any=bool(record.flags & TAKES_ANY),
        went_on=bool(record.flags & WENT_ON),
    )


def _incoming_record(sequences: IncomingSequences) -> IncomingRecord:
    numbers = {time_stamp: number for number, time_stamp in enumerate(sequences.lines)}
    return IncomingRecord(
        (TAKES_ANY if sequences.takes_any else 0) | (WENT_ON if sequences.went_on else 0),
        [
            SequenceRecord(line.sequence_id, line.number, line.reject_count, line.last_access_time)
            for line in sequences.lines.values()
        ],
        [
            PlaceRecord(address_bytes(address), numbers[place.time_stamp], place.last_access_time, place.ended)
            for address, place in sequences.places.items()
        ],
    )


@lru_cache(maxsize=1024)
def address_bytes(peer: str) -> bytes:
    """An address as waypost.peers.peer_of gives it, in a key or a record: IPv4, or the network of IPv6."""
    return ip_address(peer).packed[:_NETWORK_SIZE] if peer else b""


def address_text(data: bytes) -> str:
    """The same as text."""
    if len(data) == _NETWORK_SIZE:
        data += bytes(_NETWORK_SIZE)
    return str(ip_address(data)) if data else ""
