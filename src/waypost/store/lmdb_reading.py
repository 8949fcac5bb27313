"""The reading half of the LMDB engine, and stores that are only read.

A StoreSnapshot shows a store as it was when it was opened, while others write to it: LMDB keeps what a snapshot
shows, so the file grows for as long as one is open. Writes to the snapshot are forgotten.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import disk_usage
from struct import Struct
from typing import Final, Self, TypeVar

import lmdb

from waypost.errors import (
    NotAStore,
    RecordDamaged,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreTooOld,
)
from waypost.store import sealed_tables
from waypost.store.folder import DATA, require_store
from waypost.store.port import Item, Reader, Table
from waypost.store.sealed_tables import CHECKSUM_SIZE, checksum
from waypost.store.space import disk_of, reserve_of

R = TypeVar("R")

FORMAT_VERSION: Final = 2

# The database that marks a store of Waypost, and its one value.
MARK: Final = b"store"
_FORMAT: Final = Struct("<I")
FORMAT: Final = _FORMAT.pack(FORMAT_VERSION)

# Two meta pages, and the one of the mark.
_META_PAGES: Final = 3
# The unit in which a file says how much of the disk it has.
_BLOCK: Final = 512

_SPARE: Final = 1 << 28

# A disk with less room than this counts as full.
_LITTLE: Final = 1 << 20

_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_DAMAGE: Final = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError)


class LmdbReader(Reader):
    """See waypost.store.port.Reader. It reads from one snapshot until it is given another."""

    _folder: Path
    # In the order of Table.
    _tables: "list[lmdb._Database]"
    # Whether LMDB has met a page that it cannot use.
    _is_damaged = False

    def get(self, table: Table, key: bytes) -> bytes | None:
        try:
            sealed = self._snapshot.get(key, None, self._tables[table])
        except _DAMAGE:
            raise sealed_tables.damaged(table, key, None) from None
        except lmdb.Error as error:
            raise self._error(error) from error
        if sealed is None:
            return None
        value = sealed[:-CHECKSUM_SIZE]
        if sealed[-CHECKSUM_SIZE:] != checksum(table, key, value):
            raise sealed_tables.damaged(table, key, sealed)
        return value

    def values(self, table: Table, keys: Sequence[bytes]) -> list[bytes]:
        try:
            return sealed_tables.values(self._cursor(table), table, keys)
        except _DAMAGE:
            return self._values_up_to_damage(table, keys)
        except lmdb.Error as error:
            raise self._error(error) from error

    def _values_up_to_damage(self, table: Table, keys: Sequence[bytes]) -> list[bytes]:
        """Find the first record on an unreadable page, one after the other."""
        found: list[bytes] = []
        for key in keys:
            try:
                value = self.get(table, key)
            except RecordDamaged:
                if not found:
                    raise
                break
            if value is None:
                break
            found.append(value)
        return found

    def scan(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[Item]:
        return self._read(lambda: sealed_tables.scan(self._cursor(table), table, start, stop, limit))

    def scan_back(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[Item]:
        return self._read(lambda: sealed_tables.scan_back(self._cursor(table), table, start, stop, limit))

    def keys(self, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = 100) -> list[bytes]:
        return self._read(lambda: sealed_tables.keys(self._cursor(table), start, stop, limit))

    def count(self, table: Table) -> int:
        return self._read(lambda: self._snapshot.stat(self._tables[table]))["entries"]

    def _read(self, read: Callable[[], R]) -> R:
        try:
            return read()
        except lmdb.Error as error:
            raise self._error(error) from error

    def _error(self, error: lmdb.Error) -> StoreError:
        found = store_error(error, self._folder)
        self._is_damaged = self._is_damaged or isinstance(found, StoreDamaged)
        return found

    def _read_from(self, snapshot: "lmdb.Transaction[bytes]") -> None:
        self._snapshot = snapshot
        self._cursors: dict[Table, lmdb.Cursor[bytes]] = {}

    def _cursor(self, table: Table) -> "lmdb.Cursor[bytes]":
        """Opened when it is first wanted: there is a snapshot for every batch, and most reads are of one table."""
        cursor = self._cursors.get(table)
        if cursor is None:
            cursor = self._cursors[table] = self._snapshot.cursor(self._tables[table])
        return cursor


class StoreSnapshot(LmdbReader):
    """A store in a folder, read only. A context manager that closes."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            require_store(self._folder)
            # The store may grow before the snapshot is taken, and a map that is too small could not show it then.
            size = (self._folder / DATA).stat().st_size
            if not size:
                raise NotAStore(f"{folder} does not contain a store: its file {DATA} is empty")
            room = 4 * size + _SPARE
            self._env = lmdb.open(str(folder), room, readonly=True, create=False, max_dbs=len(Table) + 1)
        except (OSError, lmdb.Error) as error:
            raise store_error(error, self._folder) from error
        try:
            self._tables = self._open_tables()
            self._read_from(self._env.begin())
        except lmdb.Error as error:
            self._env.close()
            raise store_error(error, self._folder) from error
        except BaseException:
            self._env.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._snapshot.abort()
        self._env.close()

    def walk(self, table: Table, start: bytes, stop: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All records of a range, as waypost.store.sealed_tables.walk. Several walks may go on at once."""
        try:
            yield from sealed_tables.walk(self._snapshot.cursor(self._tables[table]), table, start, stop)
        except lmdb.Error as error:
            raise self._error(error) from error

    @property
    def bytes_in_use(self) -> int:
        """Size of a copy of the store, without the free pages."""
        stats = [self._env.stat(), *(self._snapshot.stat(table) for table in self._tables)]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return (pages + _META_PAGES) * int(stats[0]["psize"])

    def room(self, max_size: int, reserve: int | None) -> tuple[int, int]:
        """The bytes by which the file can grow now before its reserve begins, and the reserve.

        They are those of waypost.store.space but for the free pages, which this reader may keep from being used.
        Raises OSError.
        """
        info = self._env.info()
        used = (info["last_pgno"] + 1) * self._env.stat()["psize"]
        total, free = disk_of(self._folder)
        given = (self._folder / DATA).stat()
        behind = max(getattr(given, "st_blocks", 0) * _BLOCK, given.st_size) - used + free
        kept = reserve_of(used, min(total, max_size), reserve)
        return min(behind, max_size - used) - kept, kept

    def copy(self, file: int) -> None:
        """Write a whole store with what the snapshot shows into an open file. Other threads go on meanwhile.

        Without the transaction LMDB would begin another one, which fails if the store has outgrown its map since.
        """
        self._read(lambda: self._env.copyfd(file, compact=True, txn=self._snapshot))

    def _open_tables(self) -> "list[lmdb._Database]":
        try:
            mark = self._env.open_db(MARK, create=False)
        except lmdb.NotFoundError:
            raise not_a_store(self._folder) from None
        with self._env.begin() as transaction:
            version = format_of(transaction.get(b"format", db=mark), self._folder)
        if version < FORMAT_VERSION:
            raise too_old(self._folder)
        try:
            return [self._env.open_db(name_of(table), create=False) for table in Table]
        except lmdb.NotFoundError:
            raise too_old(self._folder) from None


def name_of(table: Table) -> bytes:
    return table.name.lower().encode("ascii")


def format_of(found: bytes | None, folder: Path) -> int:
    """The number of a format that is known. Raises a StoreError for another one.

    Format 1 has no checksums and no table DAMAGED.
    """
    if found is None or len(found) != _FORMAT.size:
        raise StoreDamaged(f"{folder} does not contain its format number")
    version: int = _FORMAT.unpack(found)[0]
    if version > FORMAT_VERSION:
        raise StoreTooNew(
            f"{folder} has format {version}, but this version of Waypost supports only formats up to {FORMAT_VERSION}"
        )
    if not version:
        raise StoreDamaged(f"{folder} has format 0, which no version of Waypost writes")
    return version


def too_old(folder: Path) -> StoreTooOld:
    return StoreTooOld(
        f"{folder} was written by an older version of Waypost; start its queue manager once with this version"
    )


def not_a_store(folder: Path) -> NotAStore:
    return NotAStore(f"{folder} contains an LMDB database that is not a store of Waypost")


def store_error(error: Exception, folder: Path) -> StoreError:
    """The error for the caller who opened the folder, from one of LMDB or the operating system."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    # LMDB puts the folder before the words of the system.
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error).removeprefix(f"{folder}: ")
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(f"{folder} has reached its maximum size")
    # LMDB says EIO when only a part of the data found room.
    if code in _FULL or (code == errno.EIO and disk_usage(folder).free < _LITTLE):
        return StoreFull(f"{folder}: the disk is full")
    if code in _READ_ONLY or isinstance(error, lmdb.ReadonlyError):
        return StoreReadOnly(f"cannot write to {folder}: {reason}")
    if isinstance(error, lmdb.VersionMismatchError):
        return StoreTooNew(f"{folder} was written by another version of LMDB: {error}")
    # After a page that it cannot use LMDB lets nothing more be read from that moment.
    if isinstance(error, (*_DAMAGE, lmdb.BadTxnError)):
        return StoreDamaged(f"{folder} is damaged: {reason}")
    return StoreError(f"cannot use {folder}: {reason}")
