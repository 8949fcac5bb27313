"""What of transfer has to survive, as records of the store: MS-MQQB 3.1.1.3, 3.1.1.3.1 and 3.1.1.3.2.

Transactional sequences stand beside their queue and go with it (waypost.node.queue_store).
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from waypost.clock import Now
from waypost.limits import MAX_MET_HOSTS
from waypost.node import scans
from waypost.node.reserves import stored_end
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord, DuplicatesRecord, SequenceRecord
from waypost.store.sequence_records import TAKES_ANY, WENT_ON, IncomingRecord, PlaceRecord, RenumberingRecord
from waypost.transfer.duplicates import Block, MessageHistory
from waypost.transfer.incoming import IncomingSequences, Place
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence, OutgoingSequence
from waypost.wire.identifiers import TIME_STAMP_SHIFT, TxSequenceId

# Bytes of a /64 network.
_NETWORK_SIZE: Final = 8


def write_outgoing(batch: Batch, queue: int, sequence: OutgoingSequence) -> None:
    record = SequenceRecord(sequence.sequence_id.value, sequence.next_number)
    batch.put(Table.SEQUENCES, keys.outgoing_sequence_key(queue), record.encode())


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
            address_text(place.address): Place(time_stamps[place.line], place.last_access_time, place.ended)
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


def read_outgoing(reader: Reader) -> dict[int, OutgoingSequence]:
    """The sequences of what goes out, by the numbers of the queues."""
    outgoing: dict[int, OutgoingSequence] = {}
    for key, value in scans.items(reader, Table.SEQUENCES, *keys.all_outgoing_sequences()):
        try:
            queue, _ = keys.sequence_of(key)
            record = SequenceRecord.decode(value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.SEQUENCES, key, error) from error
        outgoing[queue] = _outgoing(record.sequence_identifier, record.sequence_number)
    return outgoing


def _outgoing(identifier: int, next_number: int) -> OutgoingSequence:
    return OutgoingSequence(TxSequenceId.of(identifier), next_number)


def write_renumbering(batch: Batch, queue: int, record: RenumberingRecord) -> None:
    batch.put(Table.COUNTERS, keys.renumbering_key(queue), record.encode())


def delete_renumbering(batch: Batch, queue: int) -> None:
    batch.delete(Table.COUNTERS, keys.renumbering_key(queue))


def read_renumberings(reader: Reader) -> dict[int, tuple[OutgoingSequence, int, int]]:
    """Resets under way, by the numbers of the queues: the new sequence, and between which positions they go on."""
    found: dict[int, tuple[OutgoingSequence, int, int]] = {}
    for key, value in scans.items(reader, Table.COUNTERS, *keys.renumbering_range()):
        # All of COUNTERS was decoded before.
        record = RenumberingRecord.decode(value)
        sequence = _outgoing(record.sequence_identifier, record.next_number)
        found[keys.renumbering_queue_of(key)] = sequence, record.lookup_id, record.end
    return found


def begin_outgoing(batch: Batch, queue: int, last_time_stamp: int, now: Now) -> OutgoingSequence:
    """The first sequence of an outgoing queue, with a TimeStamp above the last one of this queue manager.

    The queue may have existed before: its destination accepts nothing below what it has seen.
    """
    sequence = OutgoingSequence.first(max(int(now.wall), last_time_stamp + 1))
    write_outgoing(batch, queue, sequence)
    write_last_time_stamp(batch, sequence.sequence_id.time_stamp)
    return sequence


def write_last_time_stamp(batch: Batch, time_stamp: int) -> None:
    batch.put(Table.COUNTERS, Counter.SEQUENCE_TIME_STAMP.value, CounterRecord(time_stamp).encode())


def last_time_stamp(reader: Reader) -> int:
    """The greatest TimeStamp of all sequences that begin_outgoing made; 0 if it made none."""
    return stored_end(reader, Counter.SEQUENCE_TIME_STAMP)


def write_met_host(batch: Batch, host: str, now: Now) -> None:
    batch.put(Table.COUNTERS, keys.met_host_key(host), CounterRecord(int(now.wall)).encode())


def delete_met_host(batch: Batch, host: str) -> None:
    batch.delete(Table.COUNTERS, keys.met_host_key(host))


def read_met_hosts(reader: Reader) -> list[str]:
    """The one that was met first is the first."""
    found = [
        (CounterRecord.decode(value).value, keys.met_host_of(key))
        for key, value in reader.scan(Table.COUNTERS, *keys.met_host_range(), MAX_MET_HOSTS + 2)
    ]
    return [host for _, host in sorted(found)]


def write_history(batch: Batch, history: MessageHistory, now: Now) -> None:
    """Goes into every batch that received messages."""
    for block in history.take_blocks(now.monotonic):
        record = DuplicatesRecord(int(now.wall), block.identifiers, block.peer)
        batch.put(Table.DUPLICATES, keys.duplicates_key(block.number), record.encode())
    for number in history.take_obsolete() if history.obsolete else ():
        batch.delete(Table.DUPLICATES, keys.duplicates_key(number))


def restore_history(reader: Reader, history: MessageHistory, now: Now) -> None:
    """What is kept was young when it was written.

    An age that is not between 0 and the period says that the clock was set, or that this queue manager was down, when
    nothing could come again. Then it counts as new.
    """
    for key, value in scans.whole_table(reader, Table.DUPLICATES):
        try:
            record = DuplicatesRecord.decode(value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.DUPLICATES, key, error) from error
        age = now.wall - record.time_stamp
        if not 0 <= age <= history.period:
            age = 0.0
        number = keys.duplicates_number_of(key)
        history.restore(Block(number, record.identifiers, now.monotonic - age, record.peer))
