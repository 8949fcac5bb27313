"""Bulk reads of the store in a folder, without a daemon, also while one writes to it.

A queue manager starts on a snapshot of the store, and writes nothing. So it sees the disk as of that moment, without
express messages, and without the locks of readers since the last start. It starts for the first operation that needs
it, in time for all messages of the store. A range of a plan, with its epoch, is read without it, with cursors.
"""

import time
import warnings
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar, cast

from waypost.api.bulk import BULK_OPERATIONS, ReadRange
from waypost.api.claims import CLAIM_OPERATIONS
from waypost.api.frames import Frame
from waypost.api.operation_rows import QueueRight
from waypost.api.operations import Operation
from waypost.client.bulk.reading import BulkReading
from waypost.clock import Now
from waypost.core.positions import PRIORITIES, SEQUENCE_BITS, SEQUENCE_MASK
from waypost.drive.new_guid import new_guid
from waypost.errors import DecodeError, NotAStore, QueueDeleted, StoreReadOnly
from waypost.guid import parse_guid
from waypost.node.effects import Commit, Failure, Notice, Reply
from waypost.node.epochs import epoch_from
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.lmdb_reading import StoreSnapshot
from waypost.store.port import Table
from waypost.store.queue_records import QueueRecord
from waypost.store.records import split_messages
from waypost.wire.path_names import PathName

# Number of records to merge at a time.
_MERGED: Final = 512

R = TypeVar("R")

_READS: Final = frozenset(
    kind
    for kind in (*BULK_OPERATIONS, *CLAIM_OPERATIONS)
    if kind.row.reads_only or kind.row.queue_right is QueueRight.PEEK
)


class FolderReader(BulkReading):
    """The read methods of BulkClient, for the folder of a queue manager. Close it, or use it in a `with` statement.

    Raises NotAStore or another StoreError if the folder is not readable.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder: Final = folder
        self._request = 0
        self._open()

    def close(self) -> None:
        self._store.close()

    def renew(self) -> None:
        """Read the disk again: take a new snapshot."""
        self.close()
        self._open()

    def _open(self) -> None:
        self._store = StoreSnapshot(self._folder)
        self._engine: tuple[Node, Handlers] | None = None
        try:
            self._computer = _computer_name(self._store, self._folder)
        except BaseException:
            self._store.close()
            raise

    def _started(self) -> tuple[Node, Handlers]:
        if self._engine is None:
            node = Node(self._store, Settings(self._computer), new_guid, _now())
            self._engine = node, Handlers(node)
        return self._engine

    def read_all(self, wanted: ReadRange) -> Iterator[Frame]:
        number = self._number(wanted)
        return super().read_all(wanted) if number is None else self._frames(number, wanted)

    def _number(self, wanted: ReadRange) -> int | None:
        """The number of the queue if cursors are enough. Raises QueueDeleted.

        They are not for a range without the epoch of a plan, for locked messages, and for a queue with messages that
        expire or are purged when their lock ends.
        """
        if not wanted.epoch or wanted.locked != "wait":
            return None
        epoch = parse_guid(wanted.epoch)
        at = b""
        while found := self._store.scan(Table.QUEUES, at):
            for key, value in found:
                record = QueueRecord.decode(value)
                number = keys.queue_id_of(key)
                if epoch_from(number, record.identifier, record.create_time) == epoch:
                    first, last = keys.message_key(number, 0), keys.message_key(number + 1, 0)
                    return None if self._store.keys(Table.POSITIONS, first, last, 1) else number
            at = found[-1][0] + b"\0"
        raise QueueDeleted(f"{wanted.name} was deleted, or deleted and created again: its old messages are gone")

    def _frames(self, number: int, wanted: ReadRange) -> Iterator[Frame]:
        epoch = parse_guid(wanted.epoch)
        for ids, heads, packets in _pages(self._records(number, wanted), wanted):
            end = ids[-1] & SEQUENCE_MASK
            yield Frame.of((ids, heads, packets), end=end, epoch=epoch, is_last=False)

    def _records(self, number: int, wanted: ReadRange) -> Iterator[tuple[list[int], list[bytes]]]:
        """LookupIdentifiers and records in the order of arrival: one priority, or several merged."""
        bands = []
        for priority in range(PRIORITIES):
            base = priority << SEQUENCE_BITS
            start = keys.message_key(number, base | wanted.after + 1)
            if self._store.keys(Table.MESSAGES, start, keys.message_key(number, base | wanted.up_to + 1), 1):
                bands.append(self._band(start, keys.message_key(number, base | wanted.up_to + 1)))
        if len(bands) == 1:
            yield from bands[0]
            return
        rows = [(row for ids, values in band for row in zip(ids, values, strict=True)) for band in bands]
        merged = merge(*rows, key=lambda row: row[0] & SEQUENCE_MASK)
        while some := list(islice(merged, _MERGED)):
            yield [lookup_id for lookup_id, _ in some], [value for _, value in some]

    def _band(self, start: bytes, stop: bytes) -> Iterator[tuple[list[int], list[bytes]]]:
        for found, values in self._store.walk(Table.MESSAGES, start, stop):
            if len(values) < len(found):
                damaged = describe(Table.MESSAGES, found.pop())
                warnings.warn(f"{self._folder}: {damaged} is damaged and was skipped", stacklevel=3)
            if found:
                yield list(map(keys.lookup_id_of, found)), values

    def call(self, operation: Operation[R], /) -> R:
        """Run an operation of waypost.api.bulk that changes nothing. Raises StoreReadOnly for others."""
        if type(operation) not in _READS:
            raise StoreReadOnly(
                f"{self._folder} is open for reading only; the operation {operation.row.words!r} requires the daemon"
            )
        self._request += 1
        node, handlers = self._started()
        handlers.start(Call(self._request, _now(), node.administrator), operation)
        while True:
            for effect in node.kernel.take_effects():
                match effect:
                    case Commit(token=token):
                        # The batch is never written, but its waiters need not wait.
                        node.persisted(token, _now())
                    case Notice("message damaged", facts):
                        warnings.warn(f"{self._folder}: {facts['reason']}, and was skipped", stacklevel=3)
                    case Reply(request=request, value=value) if request == self._request:
                        return cast("R", value)
                    case Failure(request=request, error=error) if request == self._request:
                        raise error


def _pages(
    records: Iterator[tuple[list[int], list[bytes]]], limits: ReadRange
) -> Iterator[tuple[list[int], bytes, list[bytes]]]:
    """Rows of frames: LookupIdentifiers, attributes and packets, about as many as the limits of a frame allow."""
    ids: list[int] = []
    heads: list[bytes] = []
    packets: list[bytes] = []
    size = 0
    for lookup_ids, values in records:
        head, new = split_messages(values)
        ids += lookup_ids
        heads.append(head)
        packets += new
        size += sum(map(len, new))
        if size >= limits.max_bytes or len(packets) >= limits.max_messages:
            yield ids, b"".join(heads), packets
            ids, heads, packets, size = [], [], [], 0
    if packets:
        yield ids, b"".join(heads), packets


def _computer_name(store: StoreSnapshot, folder: str | Path) -> str:
    """The computer name at the last write of the queues: every queue manager has system queues with its name."""
    found = store.first(Table.QUEUES)
    if found is None:
        raise NotAStore(f"the queue manager in {folder} has never started")
    try:
        return PathName.parse(QueueRecord.decode(found[1]).pathname).computer
    except DecodeError:
        raise NotAStore(f"the store in {folder} does not contain the name of its computer") from None


def _now() -> Now:
    return Now(time.monotonic(), time.time())
