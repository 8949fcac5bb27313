"""Tables of sealed values: their checksums, and the walks and writes of the LMDB engine.

From format 2 on every value ends with a checksum, which only the engine sees: values are written with it and read
without. It is XXH3 with 64 bits over the table, the key and the value, so that a record which lies under another key,
or in another table, is found as well as one whose bytes have changed. A read of several ends before a record that is
damaged, and raises RecordDamaged if that is the first one. All are pure functions, of bytes or of a cursor.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, takewhile
from operator import itemgetter
from typing import Final, Protocol, TypeVar

from xxhash import xxh3_64, xxh3_64_digest

from waypost.errors import RecordDamaged
from waypost.limits import MAX_SCAN_BYTES
from waypost.store.descriptions import describe
from waypost.store.port import Action, Item, Operation, Table

CHECKSUM_SIZE: Final = 8
# From here on it takes longer to put key and value together than to look at them one after the other.
_LARGE: Final = 4096

Database = TypeVar("Database", contravariant=True)

_key: Final = itemgetter(0)
# Those of an operation.
_strings: Final = itemgetter(2, 3)

# Number of records of a walk that are read together.
_STRIDE: Final = 128

# Number of values to read before a check of their sizes: the largest have megabytes.
_RUN: Final = 16


def seal(table: Table, key: bytes, value: bytes) -> bytes:
    """The value as it is written."""
    return value + checksum(table, key, value)


def seal_all(table: Table, items: Iterable[Item]) -> Iterator[Item]:
    """The same for many: there are a hundred thousand a second.

    One after the other, so that each takes the memory that the one before has left.
    """
    number = int(table)
    return (
        (
            key,
            value + xxh3_64_digest(key + value, number | len(key) << 8)
            if len(value) < _LARGE
            else value + checksum(table, key, value),
        )
        for key, value in items
    )


def checksum(table: Table, key: bytes, value: bytes) -> bytes:
    # The length of the key keeps its end and the beginning of the value apart.
    seed = table | len(key) << 8
    if len(value) < _LARGE:
        return xxh3_64_digest(key + value, seed)
    hasher = xxh3_64(key, seed)
    hasher.update(value)
    return hasher.digest()


def is_whole(table: Table, key: bytes, sealed: bytes) -> bool:
    """Whether these bytes are what `seal` gave for this key."""
    return sealed[-CHECKSUM_SIZE:] == checksum(table, key, sealed[:-CHECKSUM_SIZE])


def unseal(table: Table, items: Sequence[Item]) -> list[bytes]:
    """The values without their checksums, up to the first that is not whole."""
    found = [
        value
        for key, sealed in items
        if (
            xxh3_64_digest(key + (value := sealed[:-CHECKSUM_SIZE]), table | len(key) << 8)
            if len(sealed) < _LARGE
            else checksum(table, key, value := sealed[:-CHECKSUM_SIZE])
        )
        == sealed[-CHECKSUM_SIZE:]
    ]
    if len(found) == len(items):
        return found
    damaged = next(at for at, (key, sealed) in enumerate(items) if not is_whole(table, key, sealed))
    return found[:damaged]


class Cursor(Protocol):
    """The methods of lmdb.Cursor in use. Moves return False when the key does not exist."""

    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def next(self) -> bool: ...
    def prev(self) -> bool: ...
    def last(self) -> bool: ...
    def set_key(self, key: bytes, /) -> bool: ...
    def set_range(self, key: bytes, /) -> bool: ...
    def iternext(self) -> Iterator[Item]: ...
    def getmulti(self, keys: Sequence[bytes], /) -> list[Item]: ...
    def putmulti(self, items: Iterable[Item], /) -> tuple[int, int]: ...
    def delete(self) -> bool: ...


def values(cursor: Cursor, table: Table, keys: Sequence[bytes]) -> list[bytes]:
    """Reader.values.

    Most keys that are asked for are neighbours in the table, and to walk takes a fifth less time than to find each.
    From where they are not, it finds them.
    """
    found: list[bytes] = []
    size = 0
    walk = cursor.iternext() if keys and cursor.set_key(keys[0]) else iter(())
    for at in range(0, len(keys), _RUN):
        wanted = keys[at : at + _RUN]
        items = list(islice(walk, len(wanted)))
        if list(map(_key, items)) != wanted:
            walk = iter(())
            items = cursor.getmulti(wanted)
        if len(items) < len(wanted):
            pairs = zip(items, wanted, strict=False)
            items = [item for item, _ in takewhile(lambda pair: pair[0][0] == pair[1], pairs)]
        new = unseal(table, items)
        if len(new) < len(items) and not found and not new:
            raise damaged(table, *items[0])
        found += new
        size += sum(map(len, new))
        if len(new) < len(wanted) or size >= MAX_SCAN_BYTES:
            break
    return found


def scan(cursor: Cursor, table: Table, start: bytes, stop: bytes | None, limit: int) -> list[Item]:
    """Reader.scan."""
    if not cursor.set_range(start):
        return []
    return _whole(table, _page(cursor, cursor.next, lambda key: stop is None or key < stop, limit))


def walk(cursor: Cursor, table: Table, start: bytes, stop: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """All keys in [start, stop) and their values, some at a time. A damaged record ends a part with its key alone.

    The cursor belongs to the walk until its end.
    """
    more = cursor.iternext() if cursor.set_range(start) else iter(())
    while items := list(islice(more, _STRIDE)):
        if items[-1][0] >= stop:
            items = [item for item in items if item[0] < stop]
            more = iter(())
        at = 0
        while at < len(items):
            found = unseal(table, items[at:])
            end = at + len(found)
            # One more key than values says that a record is damaged.
            yield [key for key, _ in items[at : end + 1]], found
            at = end + 1


def scan_back(cursor: Cursor, table: Table, start: bytes, stop: bytes | None, limit: int) -> list[Item]:
    """Reader.scan_back."""
    stands_behind = stop is not None and cursor.set_range(stop)
    if not (cursor.prev() if stands_behind else cursor.last()):
        return []
    return _whole(table, _page(cursor, cursor.prev, lambda key: key >= start, limit))


def keys(cursor: Cursor, start: bytes, stop: bytes | None, limit: int) -> list[bytes]:
    """Reader.keys."""
    found: list[bytes] = []
    more = limit > 0 and cursor.set_range(start)
    while more:
        key = cursor.key()
        if stop is not None and key >= stop:
            break
        found.append(key)
        more = len(found) < limit and cursor.next()
    return found


def damaged(table: Table, key: bytes, sealed: bytes | None) -> RecordDamaged:
    """The error for a record whose bytes are not what was written; None if they cannot even be read."""
    return RecordDamaged(f"{describe(table, key)} is damaged in the store", table, key, sealed)


def _whole(table: Table, items: list[Item]) -> list[Item]:
    """The items without their checksums, up to the first that is damaged."""
    found = unseal(table, items)
    if items and not found:
        raise damaged(table, *items[0])
    return list(zip(map(_key, items), found, strict=False))


def _page(cursor: Cursor, step: Callable[[], bool], is_inside: Callable[[bytes], bool], limit: int) -> list[Item]:
    """Up to `limit` items from where the cursor stands. It neither steps nor reads a value without need."""
    found: list[Item] = []
    size = 0
    more = limit > 0
    while more:
        key = cursor.key()
        if not is_inside(key):
            break
        value = cursor.value()
        found.append((key, value))
        size += len(value) - CHECKSUM_SIZE
        more = len(found) < limit and size < MAX_SCAN_BYTES and step()
    return found


class WriteTransaction(Protocol[Database]):
    """The methods of lmdb.Transaction in use for writes."""

    def cursor(self, db: Database) -> Cursor: ...


def apply(
    transaction: WriteTransaction[Database], tables: Sequence[Database], operations: Iterable[Operation]
) -> None:  # fmt: skip
    """Write the operations in their order, with one cursor for each table that they touch.

    `tables` are the databases by the numbers of their tables.
    """
    cursors: dict[Table, Cursor] = {}
    for (action, table), run in groupby(operations, itemgetter(0, 1)):
        cursor = cursors.get(table)
        if cursor is None:
            cursor = cursors[table] = transaction.cursor(tables[table])
        items = map(_strings, run)
        if action is Action.PUT:
            # One call for all of them takes half of the time that one for each takes.
            cursor.putmulti(seal_all(table, items))
        elif action is Action.DELETE:
            for key, _ in items:
                if cursor.set_key(key):
                    cursor.delete()
        else:
            for start, stop in items:
                while cursor.set_range(start) and cursor.key() < stop:
                    cursor.delete()
