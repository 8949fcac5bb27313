"""The in-memory twin of the LMDB engine, for tests and the simulator.

It is deterministic: a batch becomes durable when the test calls `complete`, never by itself, so a slow disk is a
late call. `crash` forgets what was not completed and keeps what was, reported or not. While `low` is set nothing new is
to be stored, and while `full` is nothing can be completed. `damage` is a bit that flips in a record at rest, and `lose`
one that flips in its key.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Final

from waypost.errors import OutcomeUnknown, StoreError, StoreFull
from waypost.limits import MAX_SCAN_BYTES
from waypost.store.port import MAX_KEY, PLENTY, Action, Batch, Item, Room, Store, Table
from waypost.store.sealed_tables import damaged, seal

_LOW: Final = Room("the simulated disk", 0, 0, 0, is_low=True)


class MemoryStore(Store):
    """See waypost.store.port.Store."""

    def __init__(self) -> None:
        self.full = self.low = False
        self.room = PLENTY
        self.trouble: StoreError | None = None
        self._tables = tuple(_SortedTable() for _ in Table)
        self._pending: deque[tuple[Batch, int]] = deque()
        self._durable: deque[tuple[Batch, int]] = deque()

    def submit(self, batch: Batch, token: int) -> None:
        for action, _, first, _ in batch.operations:
            assert action is Action.DELETE_RANGE or 0 < len(first) <= MAX_KEY, first
        self._pending.append((batch, token))

    @property
    def pending(self) -> int:
        """Number of batches that a crash would lose."""
        return len(self._pending)

    def complete(self, count: int | None = None) -> int:
        """The disk has written the first `count` of the pending batches, or all of them. Returns how many."""
        done = 0 if self.full else min(len(self._pending), len(self._pending) if count is None else count)
        for _ in range(done):
            self._durable.append(self._pending.popleft())
        return done

    def poll(self) -> list[int]:
        self.trouble = StoreFull("the simulated disk is full") if self.full and self._pending else None
        self.room = _LOW if self.low else PLENTY
        tokens = []
        while self._durable:
            batch, token = self._durable.popleft()
            for operation in batch.operations:
                self._tables[operation[1]].apply(operation[0], operation[2], operation[3])
            tokens.append(token)
        return tokens

    def take_troubles(self) -> list[StoreError]:
        return [] if self.trouble is None else [self.trouble]

    def commit(self, batch: Batch, token: int) -> list[int]:
        self.submit(batch, token)
        self.complete()
        tokens = self.poll()
        if self.trouble is not None:
            raise OutcomeUnknown(str(self.trouble))
        return tokens

    def crash(self) -> None:
        """The process dies and starts again: what was not completed is gone, and no token is reported any more."""
        self._pending.clear()
        self.poll()

    def close(self) -> list[int]:
        self.complete()
        tokens = self.poll()
        if self.trouble is not None:
            raise self.trouble
        return tokens

    def damage(self, table: Table, key: bytes) -> bool:
        """Damage a record: reads of it fail until it is written again. False if the record does not exist."""
        found = self._tables[table]
        if key in found.values:
            found.damaged.add(key)
        return key in found.values

    def lose(self, table: Table, key: bytes) -> bool:
        """The record is not found any more. False if there was none."""
        was_there = key in self._tables[table].values
        self._tables[table].apply(Action.DELETE, key, b"")
        return was_there

    def get(self, table: Table, key: bytes) -> bytes | None:
        if key in self._tables[table].damaged:
            raise damaged(table, key, _flipped(self._tables[table].values[key]))
        return self._tables[table].values.get(key)

    def values(self, table: Table, keys: Sequence[bytes]) -> list[bytes]:
        values = self._tables[table].values
        is_absent = next((at for at, key in enumerate(keys) if key not in values), len(keys))
        return [value for _, value in self._page(table, keys[:is_absent])]

    def scan(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[Item]:
        return self._page(table, self.keys(table, start, stop, limit))

    def scan_back(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[Item]:
        found = self._tables[table].within(start, stop)
        return self._page(table, found[: -limit - 1 : -1])

    def keys(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[bytes]:
        return self._tables[table].within(start, stop)[:limit]

    def count(self, table: Table) -> int:
        return len(self._tables[table].keys)

    def _page(self, table: Table, keys: Sequence[bytes]) -> list[Item]:
        found: list[Item] = []
        size = 0
        for key in keys:
            value = self._tables[table].values[key]
            if key in self._tables[table].damaged:
                if not found:
                    raise damaged(table, key, _flipped(value))
                break
            found.append((key, value))
            size += len(value)
            if size >= MAX_SCAN_BYTES:
                break
        return found


def _flipped(value: bytes) -> bytes:
    """A damaged value: one bit differs, with the checksum of the whole one."""
    sealed = bytearray(seal(Table.MESSAGES, b"", value))
    sealed[len(value) // 2] ^= 1
    return bytes(sealed)


class _SortedTable:
    __slots__ = ("damaged", "keys", "values")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: dict[bytes, bytes] = {}
        self.damaged: set[bytes] = set()

    def apply(self, action: Action, first: bytes, second: bytes) -> None:
        if action is Action.PUT:
            self.damaged.discard(first)
            if first not in self.values:
                insort(self.keys, first)
            self.values[first] = second
        elif action is Action.DELETE:
            self.damaged.discard(first)
            if self.values.pop(first, None) is not None:
                del self.keys[bisect_left(self.keys, first)]
        else:
            gone = self.within(first, second)
            at = bisect_left(self.keys, first)
            del self.keys[at : at + len(gone)]
            for key in gone:
                del self.values[key]
            self.damaged.difference_update(gone)

    def within(self, start: bytes, stop: bytes | None) -> list[bytes]:
        return self.keys[
            bisect_left(self.keys, start) : len(self.keys) if stop is None else bisect_left(self.keys, stop)
        ]
