"""The first start on a store that is older than its queue manager (waypost.store.restored, ADR 32).

The store is of a moment, and the queue manager went on after it: it gave numbers that the store does not know, and its
peers remember them. So before the queue manager starts:

- Every outgoing queue begins a new transactional sequence now, above all TimeStamps that were used before (MS-MQQB
  3.1.1.3.1, note 35), and what waits in it gets the numbers of that sequence. Its destination takes them as new.
- Identifiers of messages, SequentialIDs and the numbers of transactions and queues go on far above the store's.

All that is done in parts, because a queue may hold millions of messages: each part is one batch with the mark, which
says how far it has come, so a start that is interrupted goes on there at the next. The last batch removes the mark.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.stored_message import is_numbered
from waypost.errors import StoreError
from waypost.node import manager_store, scans
from waypost.node.message_records import message_of, value_of
from waypost.node.renumbering import give_number
from waypost.node.reserves import stored_end
from waypost.node.sequences import last_time_stamp, write_last_time_stamp, write_outgoing
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Batch, Item, Store, Table, after
from waypost.store.queue_records import QueueKind, QueueRecord
from waypost.store.records import CounterRecord
from waypost.store.restored import RestoredRecord, read_mark, remove_mark, write_mark
from waypost.store.whole import whole_pages
from waypost.transfer.sequences import OutgoingSequence
from waypost.wire.identifiers import TxSequenceId

_PAGE: Final = 1000
# Arrival numbers have 56 bits: a million for each second since 1970, more than any queue manager gives. So they go on
# above all that were given since the backup, also after several restores of it.
_SEQUENTIAL_SHIFT: Final = 20
# Of 32 and of 20 bits, which begin again when they are used up: numbers go on between a quarter and three quarters of
# the way round, at a place that depends on the time.
_ORDINALS: Final = 1 << 32
_TRANSACTIONS: Final = 1 << 20
# The golden section of 32 bits: its multiples lie as far from each other as can be.
_GOLDEN: Final = 2_654_435_769
# More queues than are made between two backups.
_QUEUES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Restored:
    """The work of such a start: sequences that begin now, and messages with new numbers in them."""

    sequences: int = 0
    renumbered: int = 0


def begin_again(store: Store, now: Now) -> Restored | None:
    """Do what the mark of the store asks for. None if there is none. Everything is durable when this comes back."""
    try:
        mark = read_mark(store)
    except scans.UNDECODABLE as error:
        raise scans.undecodable(Table.COUNTERS, keys.RESTORED_KEY, error) from error
    if mark is None:
        return None
    if not mark.time_stamp:
        mark.time_stamp = max(int(now.wall), last_time_stamp(store) + 1)
        batch = Batch()
        write_mark(batch, mark)
        store.commit(batch, 1)
    renumbered = 0
    record = manager_store.read(store)
    if record is not None:
        for queue in list(_outgoing_queues(store, mark.queue_id)):
            renumbered += _renumber(store, queue, record.identifier, mark)
    batch = Batch()
    if mark.begun:
        write_last_time_stamp(batch, mark.time_stamp + mark.begun - 1)
    _raise_counters(store, batch, now)
    # Every sequence has begun again: a reset that was under way when the backup was made is over.
    batch.delete_range(Table.COUNTERS, *keys.renumbering_range())
    remove_mark(batch)
    store.commit(batch, 1)
    return Restored(mark.begun, renumbered)


def _outgoing_queues(store: Store, first: int) -> Iterator[int]:
    for key, value in scans.items(store, Table.QUEUES, keys.queue_key(first)):
        if scans.decoded(Table.QUEUES, key, value, QueueRecord.decode).kind is QueueKind.OUTGOING:
            yield keys.queue_id_of(key)


def _renumber(store: Store, queue: int, own: bytes, mark: RestoredRecord) -> int:
    """Begin the sequence of one queue again, from where the mark is. Returns how many messages got a number."""
    if mark.queue_id != queue:
        mark.queue_id, mark.lookup_id, mark.next_number = queue, 0, 1
    sequence = OutgoingSequence(TxSequenceId(1, mark.time_stamp + mark.begun), mark.next_number)
    first, stop = keys.message_range(queue)
    start = after(keys.message_key(queue, mark.lookup_id)) if mark.lookup_id else first
    count = 0
    for page in whole_pages(store, Table.MESSAGES, start, stop, _PAGE):
        batch = Batch()
        for item in page:
            count += _give_number(batch, item, own, sequence)
        mark.lookup_id, mark.next_number = keys.lookup_id_of(page[-1][0]), sequence.next_number
        if len(batch):
            write_mark(batch, mark)
            store.commit(batch, 1)
    batch = Batch()
    if sequence.next_number > 1 or store.get(Table.SEQUENCES, keys.outgoing_sequence_key(queue)) is not None:
        write_outgoing(batch, queue, sequence)
        mark.begun += 1
    mark.queue_id, mark.lookup_id, mark.next_number = queue + 1, 0, 1
    write_mark(batch, mark)
    store.commit(batch, 1)
    return count


def _give_number(batch: Batch, item: Item, own: bytes, sequence: OutgoingSequence) -> bool:
    """Whether the message is one of ours in a sequence: one that is not committed has no number yet.

    One that cannot be read is set aside by the first who wants it (ADR 30).
    """
    key, value = item
    try:
        message = message_of(value, keys.lookup_id_of(key))
        if not is_numbered(message, own):
            return False
    except StoreError:
        return False
    give_number(message, sequence)
    batch.put(Table.MESSAGES, key, value_of(message))
    return True


def _raise_counters(store: Store, batch: Batch, now: Now) -> None:
    seconds = int(now.wall)

    def raise_to(counter: Counter, value: int) -> None:
        batch.put(Table.COUNTERS, counter.value, CounterRecord(value).encode())

    raise_to(Counter.SEQUENTIAL_ID, max(stored_end(store, Counter.SEQUENTIAL_ID), seconds << _SEQUENTIAL_SHIFT))
    for counter, size in ((Counter.MESSAGE_ID_ORDINAL, _ORDINALS), (Counter.TRANSACTION_NUMBER, _TRANSACTIONS)):
        spread = seconds * _GOLDEN % _ORDINALS * size // _ORDINALS
        raise_to(counter, stored_end(store, counter) + size // 4 + spread // 2)
    for counter in (Counter.QUEUE_ID, Counter.PRIVATE_QUEUE_NUMBER):
        raise_to(counter, stored_end(store, counter) + _QUEUES)
