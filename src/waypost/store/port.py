"""The store port: ordered tables, atomic batches that become durable later, reads of what was reported durable.

One owner (the task that owns the engine) calls every method. Its writes go out as batches, each with a token:

    store.submit(batch, token)      returns at once; several batches may be pending
    store.poll() -> tokens          the batches that became durable since the last poll, in the order of submission

Invariants, which the contract suite holds against every implementation:

- A batch is applied whole or not at all, its operations in their order; batches never overtake each other. An engine
  writes everything that is pending in one transaction with one flush to disk (group commit).
- Reads see exactly the batches whose tokens `poll` has returned, no more and no less; only `poll` and `commit` move
  what reads see. Keys order as bytes; a range is half-open, and None as its end is the end of the table.
- A token that was returned is durable. A batch that was not reported when the process dies is there whole or not at
  all.
- A record that is not what was written (RecordDamaged) is never given out: `get` raises, and a read of several ends
  before it and raises if it is the first, so that its reader hears of it where it stands and can go on behind it.
- While the store cannot write (`trouble`), batches stay pending and are tried again; nothing is dropped or reordered.
- `room` says what may be stored; it is for the owner to ask before it makes a batch. The store takes every batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from waypost.errors import StoreError, StoreFull

# LMDB's bound on a key.
MAX_KEY: Final = 511

# A value larger than this takes whole pages, which have to be neighbours; the smallest pages have 4 KiB.
_SMALL: Final = 2000
_PAGE: Final = 4096
# Header of a value there.
_OVERHEAD: Final = 64
# Of each byte that is stored: half-filled pages, the last page of a large value, and keys.
_COST: Final = 2
_MEGABYTE: Final = 1 << 20
# So few bytes beside the reserve are none to a person.
_LITTLE: Final = _MEGABYTE // 10

Item = tuple[bytes, bytes]


class Table(IntEnum):
    """The named databases. waypost.store.records documents their keys and values. The names are those on disk."""

    MESSAGES = 0
    QUEUES = 1
    SEQUENCES = 2
    TRANSACTIONS = 3
    DUPLICATES = 4
    COUNTERS = 5
    POSITIONS = 6
    DIRECTORY = 7
    BULK = 8
    DAMAGED = 9
    USERS = 10
    AUDIT = 11


class Action(IntEnum):
    """Kind of a write."""

    PUT = 0  # the key, the value
    DELETE = 1  # the key, nothing; a key that is absent stays absent
    DELETE_RANGE = 2  # the first key, the key behind the last


# A plain tuple, because a hundred thousand of them are made every second.
Operation = tuple[Action, Table, bytes, bytes]


class Batch:
    """Writes that belong together, in their order. Nobody changes a batch that was submitted."""

    __slots__ = ("operations", "size")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.size = 0  # bytes of the values, by which an engine bounds a transaction

    def __len__(self) -> int:
        return len(self.operations)

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self.operations.append((Action.PUT, table, key, value))
        self.size += len(value)

    def delete(self, table: Table, key: bytes) -> None:
        self.operations.append((Action.DELETE, table, key, b""))

    def delete_range(self, table: Table, start: bytes, stop: bytes) -> None:
        self.operations.append((Action.DELETE_RANGE, table, start, stop))


class Reader(Protocol):
    """Ordered reads of what `poll` has reported."""

    def get(self, table: Table, key: bytes) -> bytes | None: ...

    def values(self, table: Table, keys: Sequence[bytes]) -> Sequence[bytes]:
        """The values of these keys, in this order.

        It ends early behind the value that brings it to MAX_SCAN_BYTES or some values later, and before a key that is
        absent, so only an empty result says that the first key is.
        """

    def first(self, table: Table, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        """The first key of the range with its value."""
        return next(iter(self.scan(table, start, stop, 1)), None)

    def last(self, table: Table, start: bytes = b"", stop: bytes | None = None) -> Item | None:
        """The last key of the range with its value."""
        return next(iter(self.scan_back(table, start, stop, 1)), None)

    def scan(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> Sequence[Item]:
        """The first `limit` keys of the range with their values, ascending.

        It ends early behind the value that brings it to MAX_SCAN_BYTES, so only an empty result says that the range is
        empty. To go on, start at `after(last key)`.
        """

    def scan_back(
        self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100
    ) -> Sequence[Item]:
        """The same from the end of the range, descending. To go on, stop at the last key of the result."""

    def keys(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> Sequence[bytes]:
        """The first `limit` keys of the range, ascending, without their values, which may be damaged."""

    def count(self, table: Table) -> int:
        """Number of records of the table by its header, without a walk through them."""


@dataclass(frozen=True, slots=True)
class Room:
    """Room in the store beyond its reserve, in bytes of the disk; judged without the disk (ADR 33).

    A part of the disk is a reserve: nothing new is stored when only the reserve is left, so that receives, removals and
    acknowledgments, which need new pages before they give others back, always find some.

    `free` is for values of any size that fit on a page with others. Those that need neighbouring pages find them in
    `extent`, after the last used page, and in `runs`: the number of runs of free pages of each length.
    `is_low` says that nothing new is to be stored; it ends when there is some more room than it takes to begin.
    """

    where: str
    free: int
    extent: int
    reserve: int
    is_low: bool = False
    runs: Mapping[int, int] = field(default_factory=dict)

    def takes(self, pending: int, size: int, largest: int = 0) -> bool:
        """Whether values of this size find room behind those that were admitted before and are not durable yet.

        `largest` is the size of the largest of them.
        """
        return not self.is_low and _COST * (pending + size) <= self._room_for(largest)

    def _room_for(self, largest: int) -> int:
        """Bytes for values up to this size."""
        return self.free if largest <= _SMALL else min(self.free, self._neighbours(largest))

    def _neighbours(self, largest: int) -> int:
        """Bytes for values of this size."""
        pages = (largest + _OVERHEAD) // _PAGE + 1
        return self.extent + _PAGE * sum(length // pages * pages * count for length, count in self.runs.items())

    @property
    def left(self) -> int:
        """Bytes with those of the reserve."""
        return max(self.free + self.reserve, 0)

    @property
    def sentence(self) -> str:
        return (
            f"{self.where} is nearly full: {megabytes(self.left)} are left, of which {megabytes(self.reserve)} are "
            "reserved for receiving messages (store.reserve_mb)"
        )

    def refusal(self, pending: int = 0, size: int = 0, largest: int = 0) -> StoreFull:
        """Why something is not stored, and never will be unless it is asked for again. As `takes` was asked."""
        left = self._room_for(largest) - _COST * pending
        if self.is_low or left < _LITTLE:
            return StoreFull(f"{self.sentence}; nothing was stored")
        return StoreFull(
            f"{self.where} has no room for the message: the message needs {megabytes(_COST * size)}, but only "
            f"{megabytes(left)} are free, not counting the {megabytes(self.reserve)} that are reserved for receiving "
            "messages (store.reserve_mb); nothing was stored"
        )


def megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB"


LOW: Final = (
    "New messages are refused. Programs can still receive and purge messages, and acknowledgments are still processed."
)
LOW_HINT: Final = "receive or purge messages, or free space on the disk"

# Of a store that has no end.
PLENTY: Final = Room("the store", 1 << 62, 1 << 62, 0)


class Store(Reader, Protocol):
    """A reader that is also written to."""

    # Why pending batches wait, as of the last poll: StoreFull, another StoreError if the disk fails, or None.
    trouble: StoreError | None
    # Room in the store, as of the last poll.
    room: Room

    def submit(self, batch: Batch, token: int) -> None: ...

    def poll(self) -> list[int]:
        """The tokens of the batches that became durable since the last poll; reads see these batches from now on.

        Raises a StoreError when the store has failed for good; what is pending is then lost with the process.
        """

    def take_troubles(self) -> list[StoreError]:
        """Every trouble that has come up since the last call, also one that is over: an operator hears of all."""

    def commit(self, batch: Batch, token: int) -> list[int]:
        """Submit, wait until it is durable, and poll: the tokens with this one as the last.

        Raises OutcomeUnknown if the store cannot write it now; the batch stays pending, and a later poll reports it.
        """

    def close(self) -> list[int]:
        """Write what is pending, then let go: the tokens that no poll has returned.

        Raises a StoreError if something could not be written; it has let go all the same.
        """


def after(key: bytes) -> bytes:
    """The smallest key behind `key`."""
    return key + b"\0"
