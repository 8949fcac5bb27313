"""Messages whose records are damaged, or are gone without anybody having removed them (ADR 30).

Such a message leaves its queue in the batch that is being made, and what is left of it goes into the table DAMAGED in
the same batch. It stays there until an operator has it forgotten. The log names it when it is set aside.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.errors import DecodeError, RecordDamaged, StoreError
from waypost.limits import MAX_DAMAGED_KEPT
from waypost.node import scans
from waypost.node.effects import Notice
from waypost.node.message_records import message_of
from waypost.store import keys
from waypost.store.checksums import CHECKSUM_SIZE
from waypost.store.damaged_records import HAS_BYTES, DamagedRecord
from waypost.store.port import Batch, Reader, Table


@dataclass(frozen=True, slots=True)
class DamagedMessage:
    """One of them. `has_bytes` if the bytes that were found in its place are kept."""

    queue_number: int
    queue: str
    lookup_id: int
    time: int
    reason: str
    message_id: str
    has_bytes: bool


class DamagedMessages:
    """Those of one queue manager. `now` gives the time of the operation, and `tell` gets a line for the log."""

    __slots__ = ("_kept", "_now", "_queues", "_reader", "_tell", "inexact", "since_start")

    def __init__(self, reader: Reader, now: Callable[[], Now], tell: Callable[[Notice], None]) -> None:
        self._reader: Final = reader
        self._now: Final = now
        self._tell: Final = tell
        # Those that were set aside since the start.
        self.since_start = 0
        # How many there are of each queue, with the name that the queue had; and how many have their bytes kept.
        self._queues: dict[int, tuple[str, int]] = {}
        # The queues that have lost messages whose sizes may not be known.
        self.inexact: Final[set[int]] = set()
        self._kept = 0
        for message in self.all():
            self._count(message)

    def __len__(self) -> int:
        return sum(count for _, count in self._queues.values())

    @property
    def by_queue(self) -> list[tuple[str, int]]:
        """The names of the queues that have lost messages, and how many."""
        return list(self._queues.values())

    def count_of(self, queue: Queue) -> int:
        return self._queues.get(queue.number, ("", 0))[1]

    def all(self) -> Iterator[DamagedMessage]:
        """Those that are durable, in the order of their queues."""
        for key in scans.keys(self._reader, Table.DAMAGED):
            if not keys.is_damaged_bytes(key):
                value = self._reader.get(Table.DAMAGED, key)
                if value is not None:
                    record = DamagedRecord.decode(value)
                    yield DamagedMessage(
                        keys.queue_id_of(key),
                        record.queue,
                        keys.lookup_id_of(key),
                        record.time,
                        record.reason,
                        record.message_id,
                        bool(record.flags & HAS_BYTES),
                    )

    def keep(self, batch: Batch, queue: Queue, lookup_id: int, damage: RecordDamaged) -> None:
        """What is left of a message goes into the batch in which it leaves its queue."""
        key = keys.message_key(queue.number, lookup_id)
        is_kept = damage.value is not None and self._kept < MAX_DAMAGED_KEPT
        identifier = _identifier(damage.value, lookup_id)
        moment = int(self._now().wall)
        record = DamagedRecord(HAS_BYTES if is_kept else 0, moment, str(queue), str(damage), identifier)
        batch.put(Table.DAMAGED, key, record.encode())
        if is_kept and damage.value is not None:
            batch.put(Table.DAMAGED, keys.damaged_bytes_key(key), damage.value)
        self.since_start += 1
        self._count(
            DamagedMessage(queue.number, record.queue, lookup_id, moment, record.reason, identifier, is_kept)
        )  # fmt: skip
        kept = "kept" if is_kept else "not there" if damage.value is None else "dropped, because many others are kept"
        facts = {"queue": str(queue), "lookup_id": lookup_id, "reason": str(damage), "bytes": kept}
        self._tell(Notice("message damaged", facts | ({"message_id": identifier} if identifier else {})))

    def forget(self, batch: Batch) -> int:
        """Remove all of them from the store. Returns how many there were."""
        count = len(self)
        for key in scans.keys(self._reader, Table.DAMAGED):
            batch.delete(Table.DAMAGED, key)
        self._queues.clear()
        self._kept = 0
        return count

    def _count(self, message: DamagedMessage) -> None:
        _, count = self._queues.get(message.queue_number, ("", 0))
        self._queues[message.queue_number] = message.queue, count + 1
        self._kept += message.has_bytes
        self.inexact.add(message.queue_number)


def size_of(value: bytes | None, lookup_id: int) -> int:
    """The size of the message that these bytes were, as quotas count it; 0 if they do not show it."""
    if value is None:
        return 0
    try:
        return len(message_of(value[:-CHECKSUM_SIZE], lookup_id).packet)
    except (DecodeError, StoreError):
        return 0


def _identifier(value: bytes | None, lookup_id: int) -> str:
    if value is None:
        return ""
    try:
        return str(message_of(value[:-CHECKSUM_SIZE], lookup_id).identifier)
    except (DecodeError, StoreError):
        return ""
