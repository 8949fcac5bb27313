"""The mark of a store that is older than its queue manager: made of a backup, or salvaged (ADR 32).

The queue manager went on after that moment, and others know of it. So its next start begins new
transactional sequences for everything that goes out, and goes on with numbers far above those of the store
(waypost.node.restoring). Incoming sequences go on wherever their sources are.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from waypost.errors import StoreError
from waypost.store import keys
from waypost.store.port import Batch, Reader, Store, Table
from waypost.store.records import VERSION, unpack_whole
from waypost.store.sequence_records import TAKES_ANY, IncomingRecord
from waypost.store.whole import whole_pages

_RESTORED: Final = Struct("<BIIQQI")


@dataclass(slots=True)
class RestoredRecord:
    """The progress of the start that follows a restore.

    `time_stamp` is that of the first new sequence, 0 before the start has begun, and `begun` how many it has begun.
    The messages of outgoing queues are renumbered up to `lookup_id` in the queue `queue_id`, where the next one gets
    `next_number`.
    """

    time_stamp: int = 0
    begun: int = 0
    queue_id: int = 0
    lookup_id: int = 0
    next_number: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "RestoredRecord":
        return cls(*unpack_whole(_RESTORED, value, "restored"))

    def encode(self) -> bytes:
        return _RESTORED.pack(VERSION, self.time_stamp, self.begun, self.queue_id, self.lookup_id, self.next_number)


def mark_restored(store: Store) -> None:
    """Mark a store that no queue manager has open. It is durable when this comes back.

    A record of an incoming sequence that is damaged or malformed stays as it is: messages of its source are refused
    (ADR 30).
    """
    for page in whole_pages(store, Table.SEQUENCES, *keys.all_incoming_sequences()):
        batch = Batch()
        for key, value in page:
            try:
                record = IncomingRecord.decode(value)
            except StoreError:
                continue
            record.flags |= TAKES_ANY
            batch.put(Table.SEQUENCES, key, record.encode())
        store.commit(batch, 1)
    batch = Batch()
    write_mark(batch, RestoredRecord())
    store.commit(batch, 1)


def read_mark(reader: Reader) -> RestoredRecord | None:
    value = reader.get(Table.COUNTERS, keys.RESTORED_KEY)
    return None if value is None else RestoredRecord.decode(value)


def write_mark(batch: Batch, record: RestoredRecord) -> None:
    batch.put(Table.COUNTERS, keys.RESTORED_KEY, record.encode())


def remove_mark(batch: Batch) -> None:
    batch.delete(Table.COUNTERS, keys.RESTORED_KEY)
