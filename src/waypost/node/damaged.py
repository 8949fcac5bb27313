"""Messages with records that are damaged, or missing without a removal (ADR 30).

Such a message leaves its queue in the current batch, and the remains go into the table DAMAGED in the same batch. They
stay there until an operator has them forgotten. The log names the message when it is set aside.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from waypost.clock import Now
from waypost.core.damaged_message import DamagedMessage
from waypost.core.queues import Queue
from waypost.errors import DecodeError, RecordDamaged, StoreError
from waypost.limits import MAX_DAMAGED_KEPT, MAX_DAMAGED_PAGE, MAX_SCAN_BYTES
from waypost.node import scans
from waypost.node.message_records import unchecked_message_of
from waypost.store import keys
from waypost.store.damaged_records import HAS_BYTES, DamagedRecord
from waypost.store.port import Batch, Reader, Table, after
from waypost.store.sealed_tables import CHECKSUM_SIZE


class Notices(Protocol):
    """The current operation: its time, and its access to the log."""

    now: Now

    def notice(self, event: str, **facts: object) -> None: ...


class DamagedMessages:
    """The damaged messages of one queue manager."""

    __slots__ = ("_fresh", "_kept", "_notices", "_queues", "_reader", "inexact", "since_start")

    def __init__(self, reader: Reader, notices: Notices) -> None:
        self._reader: Final = reader
        self._notices: Final = notices
        # Number set aside since the start.
        self.since_start = 0
        # Their number for each queue, with the name that the queue had; and the number with kept bytes.
        self._queues: dict[int, tuple[str, int]] = {}
        # The queues that lost messages of possibly unknown sizes.
        self.inexact: Final[set[int]] = set()
        self._kept = 0
        # Those that are not durable yet.
        self._fresh: dict[bytes, DamagedMessage] = {}
        for message in self.all():
            self._count(message)

    def __len__(self) -> int:
        return sum(count for _, count in self._queues.values())

    @property
    def by_queue(self) -> list[tuple[str, int]]:
        """The names of the queues that lost messages, and the numbers of these."""
        return list(self._queues.values())

    def count_of(self, queue: Queue) -> int:
        return self._queues.get(queue.number, ("", 0))[1]

    def all(self) -> Iterator[DamagedMessage]:
        """Every damaged message, in the order of the queues, without the kept bytes."""
        start: bytes | None = b""
        while start is not None:
            page, start = self.page(start, with_bytes=False)
            yield from page

    def page(self, start: bytes, *, with_bytes: bool) -> tuple[list[DamagedMessage], bytes | None]:
        """The damaged messages from a place of the store on, and the place to go on from; None at the end."""
        self._forget_durable()
        found: list[DamagedMessage] = []
        size = 0
        fresh = [key for key in self._fresh if key >= start]
        stored = sorted({*self._reader.keys(Table.DAMAGED, start, None, MAX_DAMAGED_PAGE), *fresh})[:MAX_DAMAGED_PAGE]
        for key in stored:
            if keys.is_damaged_bytes(key):
                continue
            if size >= MAX_SCAN_BYTES:
                return found, key
            message = self._read(key, with_bytes=with_bytes)
            found.append(message)
            size += len(message.data or b"")
        return found, after(stored[-1]) if len(stored) == MAX_DAMAGED_PAGE else None

    def _read(self, key: bytes, *, with_bytes: bool) -> DamagedMessage:
        number, lookup_id = keys.queue_id_of(key), keys.lookup_id_of(key)
        fresh = self._fresh.get(key)
        if fresh is not None:
            return fresh if with_bytes else replace(fresh, data=None)
        try:
            value = self._reader.get(Table.DAMAGED, key)
            record = None if value is None else DamagedRecord.decode(value)
            data = self._reader.get(Table.DAMAGED, keys.damaged_bytes_key(key)) if with_bytes else None
        except StoreError as error:
            # The disk still fails: at least the existence of the record is known.
            return DamagedMessage(number, "", lookup_id, 0, str(error), "", has_bytes=False)
        if record is None:
            return DamagedMessage(number, "", lookup_id, 0, "nothing more is known", "", has_bytes=False)
        has_bytes = bool(record.flags & HAS_BYTES)
        return DamagedMessage(
            number, record.queue, lookup_id, record.time, record.reason, record.message_id, has_bytes, data
        )  # fmt: skip

    def keep(self, batch: Batch, queue: Queue, lookup_id: int, damage: RecordDamaged) -> None:
        """Put the remains of a message into the batch in which it leaves its queue."""
        key = keys.message_key(queue.number, lookup_id)
        is_kept = damage.value is not None and self._kept < MAX_DAMAGED_KEPT
        identifier = _identifier(damage.value, lookup_id)
        moment = int(self._notices.now.wall)
        record = DamagedRecord(HAS_BYTES if is_kept else 0, moment, str(queue), str(damage), identifier)
        batch.put(Table.DAMAGED, key, record.encode())
        if is_kept and damage.value is not None:
            batch.put(Table.DAMAGED, keys.damaged_bytes_key(key), damage.value)
        self.since_start += 1
        message = DamagedMessage(
            queue.number,
            record.queue,
            lookup_id,
            moment,
            record.reason,
            identifier,
            is_kept,
            damage.value if is_kept else None,
        )
        self._count(message)
        self._forget_durable()
        self._fresh[key] = message
        too_many = f"discarded, because the store already keeps the bytes of {MAX_DAMAGED_KEPT} damaged messages"
        kept = "kept" if is_kept else "missing" if damage.value is None else too_many
        facts = {"queue": str(queue), "lookup_id": lookup_id, "reason": str(damage), "bytes": kept}
        self._notices.notice("message damaged", **facts, **({"message_id": identifier} if identifier else {}))

    def forget(self, batch: Batch) -> int:
        """Remove all damaged messages from the store. Returns their number."""
        count = len(self)
        for key in scans.keys(self._reader, Table.DAMAGED):
            batch.delete(Table.DAMAGED, key)
        for key in self._fresh:
            batch.delete(Table.DAMAGED, key)
            batch.delete(Table.DAMAGED, keys.damaged_bytes_key(key))
        self._fresh.clear()
        self._queues.clear()
        self._kept = 0
        return count

    def _forget_durable(self) -> None:
        """Drop durable ones from memory."""
        for key in [key for key in self._fresh if self._reader.keys(Table.DAMAGED, key, after(key), 1)]:
            del self._fresh[key]

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
        return len(unchecked_message_of(value[:-CHECKSUM_SIZE], lookup_id).packet)
    except (DecodeError, StoreError):
        return 0


def _identifier(value: bytes | None, lookup_id: int) -> str:
    if value is None:
        return ""
    try:
        return str(unchecked_message_of(value[:-CHECKSUM_SIZE], lookup_id).identifier)
    except (DecodeError, StoreError):
        return ""
