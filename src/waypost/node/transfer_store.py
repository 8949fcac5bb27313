"""What of transfer has to survive, as records of the store: MS-MQQB 3.1.1.3, 3.1.1.3.1 and 3.1.1.3.2.

Transactional sequences stand beside their queue and go with it (waypost.node.queue_store).
"""

from waypost.clock import Now
from waypost.limits import MAX_MET_HOSTS
from waypost.node import scans
from waypost.node.reserves import stored_end
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord, DuplicatesRecord, SequenceRecord
from waypost.transfer.duplicates import Block, MessageHistory
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence, OutgoingSequence
from waypost.wire.identifiers import TxSequenceId


def write_outgoing(batch: Batch, queue: int, sequence: OutgoingSequence) -> None:
    record = SequenceRecord(sequence.sequence_id.value, sequence.next_number)
    batch.put(Table.SEQUENCES, keys.outgoing_sequence_key(queue), record.encode())


def write_incoming(batch: Batch, key: SequenceKey, sequence: IncomingSequence) -> None:
    source, queue = key
    record = SequenceRecord(
        sequence.sequence_id, sequence.number, sequence.reject_count, sequence.last_access_time
    )  # fmt: skip
    batch.put(Table.SEQUENCES, keys.incoming_sequence_key(queue, source), record.encode())


def delete_incoming(batch: Batch, key: SequenceKey) -> None:
    source, queue = key
    batch.delete(Table.SEQUENCES, keys.incoming_sequence_key(queue, source))


def read_sequences(reader: Reader) -> tuple[dict[int, OutgoingSequence], dict[SequenceKey, IncomingSequence]]:
    """Those of all queues: what goes out by the number of the queue, what comes in also by its source."""
    outgoing: dict[int, OutgoingSequence] = {}
    incoming: dict[SequenceKey, IncomingSequence] = {}
    for key, value in scans.items(reader, Table.SEQUENCES):
        queue, source = keys.sequence_of(key)
        record = SequenceRecord.decode(value)
        if source is None:
            time_stamp, ordinal = divmod(record.sequence_identifier, 1 << 32)
            outgoing[queue] = OutgoingSequence(TxSequenceId(ordinal, time_stamp), record.sequence_number)
        else:
            incoming[source, queue] = IncomingSequence(
                record.sequence_identifier,
                record.sequence_number,
                record.reject_count,
                record.last_access_time,
                record.reject_count,
            )
    return outgoing, incoming


def begin_outgoing(batch: Batch, queue: int, last_time_stamp: int, now: Now) -> OutgoingSequence:
    """The first sequence of an outgoing queue, with a TimeStamp above the last one of this queue manager.

    The queue may have existed before: its destination accepts nothing below what it has seen.
    """
    sequence = OutgoingSequence.first(max(int(now.wall), last_time_stamp + 1))
    write_outgoing(batch, queue, sequence)
    value = CounterRecord(sequence.sequence_id.time_stamp).encode()
    batch.put(Table.COUNTERS, Counter.SEQUENCE_TIME_STAMP.value, value)
    return sequence


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
    block = history.take_block(now.monotonic)
    if block is not None:
        record = DuplicatesRecord(int(now.wall), block.identifiers)
        batch.put(Table.DUPLICATES, keys.duplicates_key(block.number), record.encode())
    obsolete = history.take_obsolete()
    if obsolete:
        start, stop = keys.duplicates_key(obsolete.start), keys.duplicates_key(obsolete.stop)
        batch.delete_range(Table.DUPLICATES, start, stop)


def restore_history(reader: Reader, history: MessageHistory, now: Now) -> None:
    """What is kept was young when it was written.

    An age that is not between 0 and the period says that the clock was set, or that this queue manager was down, when
    nothing could come again. Then it counts as new.
    """
    for key, value in scans.items(reader, Table.DUPLICATES):
        record = DuplicatesRecord.decode(value)
        age = now.wall - record.time_stamp
        if not 0 <= age <= history.period:
            age = 0.0
        history.restore(Block(keys.duplicates_number_of(key), record.identifiers, now.monotonic - age))
