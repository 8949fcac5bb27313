"""The salvage of a damaged folder: all whole records of its file go into a new folder, which a queue manager opens.

The salvage only reads the old folder, so it may be on a read-only disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from waypost.client.storage.new_folder import being_made
from waypost.client.storage.salvage_mending import Recovered
from waypost.client.storage.salvage_moment import last_moment, leaves
from waypost.client.storage.salvage_records import Losses, Search
from waypost.client.storage.salvage_report import SalvagedQueue, SalvageReport
from waypost.client.storage.verifying import format_of, queue_name, verify
from waypost.drive.keys.settings import KEY_FOLDER
from waypost.errors import InvalidParameter, NotAStore, StoreDamaged
from waypost.node import scans
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.folder import DATA, hold_folder, release, require_store
from waypost.store.lmdb import LmdbStore
from waypost.store.lmdb_reading import FORMAT_VERSION, store_error
from waypost.store.page_file import PageFile
from waypost.store.pages import PageDamaged, loose_nodes, value_of
from waypost.store.port import Batch, Table
from waypost.store.progress import Progress, unheard
from waypost.store.restored import mark_restored
from waypost.store.sealed_tables import is_whole
from waypost.store.user_records import LOST_KEY, LostUsersRecord

_MOST: Final = 1000
_BATCH_BYTES: Final = 1 << 23
# Tables of which an older record is better than none: they have few records, which seldom change.
_FROM_OLDER: Final = {Table.QUEUES, Table.COUNTERS}


def salvage(
    folder: str | Path, new_folder: str | Path, *, progress: Progress = unheard
) -> SalvageReport:  # fmt: skip
    """Copy all intact records of a damaged data folder into a new folder. The damaged folder must not be in use.

    The function does not change the damaged folder, and does not copy the key folder `keys`. The new folder contains
    the same queue manager, so use only one of the two folders after the salvage. The queue manager in the new folder
    begins new outgoing sequences, as after a restore. `progress` is called with the number of searched pages and the
    total number of pages. If the salvage might have lost users, a daemon starts in the new folder only after you run
    `waypost store forget-users`.

    Raises StoreInUse if another process uses the damaged folder, and StoreFull if the disk is full. Raises NotAStore if
    the damaged folder contains no intact record, and InvalidParameter if the new folder is not empty.
    """
    old, new = Path(folder), Path(new_folder)
    with _held(old) as file:
        try:
            with being_made(new, "salvage", InvalidParameter) as place:
                return _salvage(file, new, place, progress)
        except OSError as error:
            raise store_error(error, new) from error


def forget_lost_users(folder: str | Path) -> list[str]:
    """Let a daemon start in a salvaged folder that may lack users. Returns the known names of lost users and groups.

    Raises NotAStore, StoreInUse, and InvalidParameter if the folder does not miss users.
    """
    path = Path(folder)
    try:
        require_store(path)
    except OSError as error:
        raise store_error(error, path) from error
    with LmdbStore(path) as store:
        value = store.get(Table.USERS, LOST_KEY)
        if value is None:
            raise InvalidParameter(f"{path / DATA} does not record that a salvage has lost users")
        names = scans.decoded(Table.USERS, LOST_KEY, value, LostUsersRecord.decode).names
        batch = Batch()
        batch.delete(Table.USERS, LOST_KEY)
        store.commit(batch, 1)
        return names


@contextmanager
def _held(folder: Path) -> Iterator[PageFile]:
    """The file of the folder, locked against other users."""
    try:
        require_store(folder)
        lock = hold_folder(folder)
        try:
            file = PageFile(folder / DATA)
        except OSError:
            release(lock)
            raise
    except OSError as error:
        raise store_error(error, folder) from error
    try:
        with file:
            yield file
    finally:
        release(lock)


class _Writer:
    """Records on their way into the new store, in batches."""

    def __init__(self, store: LmdbStore) -> None:
        self._store: Final = store
        self._batch = Batch()
        self._token = 0

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self._batch.put(table, key, value)
        if self._batch.size > _BATCH_BYTES:
            self.flush()

    def get(self, table: Table, key: bytes) -> bytes | None:
        self.flush()
        return self._store.get(table, key)

    def flush(self) -> None:
        if self._batch.operations:
            self._token += 1
            self._store.commit(self._batch, self._token)
            self._batch = Batch()


def _salvage(file: PageFile, new: Path, place: Path, progress: Progress) -> SalvageReport:
    moment = last_moment(file, progress)
    version = 0 if moment.meta is None else format_of(file, moment.meta)
    # Format 0 never existed: the record of the format is damaged.
    version = version or _guess_format(file, progress)
    search = Search(file, moment, version, progress)
    with LmdbStore(place, finishes=True) as store:
        writer = _Writer(store)
        recovered = Recovered(writer.put, writer.get)
        search.reached(recovered.take)
        search.orphans(recovered.take_orphan)
        if search.losses.tables & _FROM_OLDER:
            for found in search.older(_FROM_OLDER):
                recovered.take_older(found)
        if recovered.is_empty:
            raise NotAStore(f"{file.path.parent} contains nothing to salvage: no record of a store is intact")
        recovered.mend(search.losses)
        for table, records in recovered.tables.items():
            for key, value in sorted(records.items()):
                writer.put(table, key, value)
        writer.flush()
        # Sends and receives after the lost records are unknown, so the next start begins new sequences.
        mark_restored(store)
    checked = verify(place, progress=progress)
    if not checked.is_whole:
        raise StoreDamaged(f"the salvaged store is damaged: {checked.damage[0].reason}")
    pages = [str(error) for error in file.damaged_metas] + [str(each) for each in search.losses.pages]
    return _report(file.path.parent, new, version, recovered, search.losses, pages)


def _guess_format(file: PageFile, progress: Progress) -> int:
    """The current format; format 1 if no record of the file has a valid checksum."""
    for _, page in leaves(file, progress):
        for node in loose_nodes(page):
            try:
                value = value_of(file, node, page)
            except PageDamaged:
                continue
            if any(is_whole(table, node.key, value) for table in Table):
                return FORMAT_VERSION
    return 1


def _report(
    old: Path, new: Path, version: int, recovered: Recovered, losses: Losses, pages: list[str]
) -> SalvageReport:  # fmt: skip
    names = {number: queue_name(record) for number, record in recovered.queues.items()}
    queues = []
    for number in sorted({*recovered.lookup_ids, *recovered.counted}):
        brought, counted = len(recovered.lookup_ids.get(number, ())), recovered.counted.get(number)
        if not brought and not counted:
            continue
        queues.append(
            SalvagedQueue(
                names.get(number, f"queue {number}"),
                brought,
                counted,
                max(0, (counted or 0) - brought),
                recovered.uncertain[number],
                number in recovered.made,
            )
        )
    lost = [_lost(table, key, page, names) for table, key, page in losses.records]
    records = {table.name.lower(): len(found) for table, found in recovered.tables.items()}
    records["messages"] = sum(map(len, recovered.lookup_ids.values()))
    return SalvageReport(
        str(old),
        str(new),
        version,
        keys.QUEUE_MANAGER_KEY in recovered.tables[Table.COUNTERS],
        records,
        tuple(queues),
        tuple(pages[:_MOST]),
        len(pages),
        tuple(lost[:_MOST]),
        len(lost),
        losses.knows_free,
        recovered.has_lost_users,
        (old / KEY_FOLDER).is_dir(),
    )


def _lost(table: Table, key: bytes, page: int, names: dict[int, str]) -> str:
    words = describe(table, key)
    if table is Table.MESSAGES and len(key) == len(keys.message_key(0, 0)):
        queue = keys.queue_id_of(key)
        words = f"message {keys.lookup_id_of(key)} of {names.get(queue, f'queue {queue}')}"
    return f"{words} on page {page} is damaged"
