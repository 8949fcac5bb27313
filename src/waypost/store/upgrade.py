"""The upgrade of a store of format 1, whose records have no checksums.

The records are copied with their checksums into a new file beside the old one, which takes its place when it is on
disk as a whole. A process that dies at any moment leaves the old file or the new one, and what it left of a copy is
removed before the next.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Final

import lmdb

from waypost.errors import StoreDamaged, StoreFull
from waypost.store.folder import DATA, READERS, flush_folder
from waypost.store.lmdb_reading import FORMAT, FORMAT_VERSION, MARK, format_of, name_of
from waypost.store.port import Item, Table
from waypost.store.progress import Progress
from waypost.store.sealed_tables import CHECKSUM_SIZE, seal_all

if TYPE_CHECKING:
    from lmdb import _Database

_COPY: Final = "data.mdb.upgrade"
# Limits of one transaction of the copy: records, and bytes including the record that reaches the limit.
_PART: Final = 16_384
_PART_BYTES: Final = 1 << 24
# Room for the pages that a file has besides its records.
_SPARE: Final = 1 << 20


def remove_leftovers(folder: Path) -> None:
    """Remove the copy of an upgrade that came to no end."""
    (folder / _COPY).unlink(missing_ok=True)


def needs_upgrade(env: "lmdb.Environment", folder: Path) -> bool:
    """Whether it is a store of an older format. A file that is empty or of another program is not."""
    with env.begin() as transaction:
        if not transaction.stat()["entries"]:
            return False
        try:
            mark = env.open_db(MARK, transaction, create=False)
        except lmdb.NotFoundError:
            return False
        return format_of(transaction.get(b"format", db=mark), folder) < FORMAT_VERSION


def upgrade(env: "lmdb.Environment", folder: Path, progress: Progress) -> None:
    """Copy the store into a file of the present format, and put that in its place. `env` is closed on the way.

    Raises StoreFull if the disk has no room for the copy; the store is then as it was.
    """
    copy = folder / _COPY
    with env.begin() as transaction:
        tables = _tables_of(env, transaction)
        _check_room(transaction, tables.values(), folder)
        try:
            _copy(transaction, tables, copy, progress)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
    env.close()
    # A reader of the old file has its place in this one, and counts its transactions; the new file begins again.
    (folder / READERS).unlink(missing_ok=True)
    copy.replace(folder / DATA)
    if sys.platform != "win32":
        flush_folder(folder)


def _tables_of(env: "lmdb.Environment", transaction: "lmdb.Transaction[bytes]") -> "dict[Table, _Database]":
    """Those that the store has: later ones of format 1 have more."""
    found = {}
    for table in Table:
        try:
            found[table] = env.open_db(name_of(table), transaction, create=False)
        except lmdb.NotFoundError:
            continue
    return found


def _check_room(transaction: "lmdb.Transaction[bytes]", tables: "Iterable[_Database]", folder: Path) -> None:
    stats = [transaction.stat(table) for table in tables]
    pages = sum(stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"] for stat in stats)
    needed = pages * transaction.stat()["psize"] + sum(stat["entries"] for stat in stats) * CHECKSUM_SIZE + _SPARE
    free = disk_usage(folder).free
    if free < needed:
        raise StoreFull(
            f"the upgrade of {folder} from format 1 to format {FORMAT_VERSION} requires {needed:,} bytes of disk "
            f"space, but only {free:,} are free"
        )


def _copy(
    source: "lmdb.Transaction[bytes]", tables: "dict[Table, _Database]", path: Path, progress: Progress
) -> None:  # fmt: skip
    counts = {table: source.stat(database)["entries"] for table, database in tables.items()}
    total, done = sum(counts.values()), 0
    room = 2 * (os.path.getsize(path.with_name(DATA)) + total * CHECKSUM_SIZE) + (_SPARE << 4)
    # Nothing is flushed before the end: only the whole copy counts.
    with lmdb.open(str(path), room, subdir=False, mode=0o600, max_dbs=len(Table) + 1, sync=False, lock=False) as env:
        with env.begin(write=True) as transaction:
            transaction.put(b"format", FORMAT, db=env.open_db(MARK, transaction))
            written = {table: env.open_db(name_of(table), transaction) for table in Table}
        for table, database in tables.items():
            copied = 0
            for part in _parts(source.cursor(database).iternext()):
                with env.begin(write=True, db=written[table]) as transaction:
                    copied += transaction.cursor().putmulti(seal_all(table, part), append=True)[1]
                progress(done + copied, total)
            if copied != counts[table]:
                raise StoreDamaged(
                    f"{path.parent} is damaged: its table {table.name.lower()} should have {counts[table]} records, "
                    f"but only {copied} could be copied"
                )
            done += copied
        env.sync(True)


def _parts(records: Iterator[Item]) -> Iterator[list[Item]]:
    part, size = [], 0
    for item in records:
        part.append(item)
        size += len(item[1])
        if len(part) == _PART or size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
