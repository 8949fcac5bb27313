"""Records of the store that are read on demand, and written with the current batch.

Memory holds the most recently used ones, and those that are not durable yet: reads of the store do not see these.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from waypost.store.port import Batch

K = TypeVar("K")
V = TypeVar("V")


class CachedRecords(Generic[K, V]):
    """The records of one kind. `size`: number of durable records that stay in memory.

    `read` gives the record as the store has it, `write` and `delete` put it into a batch. Code that changes a record
    calls `changed` in the same operation. `unwritten` has the changed records, None for a deleted one; `order` has the
    batches and keys of records that are written and not durable.
    """

    __slots__ = ("_delete", "_read", "_size", "_undurable", "_used", "_write", "order", "unwritten")

    def __init__(
        self,
        read: Callable[[K], V | None],
        write: Callable[[Batch, K, V], None],
        delete: Callable[[Batch, K], None],
        *,
        size: int,
    ) -> None:
        self._read: Final = read
        self._write: Final = write
        self._delete: Final = delete
        self._size: Final = size
        self._used: OrderedDict[K, V] = OrderedDict()
        self.unwritten: dict[K, V | None] = {}
        # Records that are written and not durable, with their batches.
        self._undurable: dict[K, tuple[int, V | None]] = {}
        self.order: deque[tuple[int, K]] = deque()

    def __len__(self) -> int:
        """Number of records in memory."""
        return len(self._used.keys() | self._undurable.keys() | self.unwritten.keys())

    def get(self, key: K) -> V | None:
        value = self._used.get(key)
        if value is not None:
            self._used.move_to_end(key)
            return value
        if key in self.unwritten:
            return self.unwritten[key]
        value = self._undurable[key][1] if key in self._undurable else self._read(key)
        if value is not None:
            self._use(key, value)
        return value

    def changed(self, key: K, value: V) -> None:
        """Note a new or changed record."""
        self.unwritten[key] = value
        self._use(key, value)

    def delete(self, key: K) -> None:
        self.unwritten[key] = None
        self._used.pop(key, None)

    def forget(self, is_gone: Callable[[K], bool]) -> None:
        """Forget records that other code deletes from the store, and that are never asked for again."""
        for table in (self._used, self.unwritten, self._undurable):
            for key in [key for key in table if is_gone(key)]:
                del table[key]

    def write(self, batch: Batch, token: int) -> None:
        """Put the changes into the batch with this token."""
        for key, value in self.unwritten.items():
            if value is None:
                self._delete(batch, key)
            else:
                self._write(batch, key, value)
            if self._undurable.get(key, (0, None))[0] != token:
                self.order.append((token, key))
            self._undurable[key] = token, value
        self.unwritten.clear()

    def persisted(self, token: int) -> None:
        """Note that this batch and all before it are durable."""
        while self.order and self.order[0][0] <= token:
            written, key = self.order.popleft()
            if self._undurable.get(key, (0, None))[0] == written:
                del self._undurable[key]

    def _use(self, key: K, value: V) -> None:
        self._used[key] = value
        self._used.move_to_end(key)
        if len(self._used) > self._size:
            self._used.popitem(last=False)
