"""The verification of a store: its pages, then every record, then the records against each other.

It reads the file without LMDB, which would end the process on some kinds of damage. LMDB only holds the moment to
verify: while its table has a reader, no writer overwrites a page of that moment.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb

from waypost.api.status import StoreDamage, StoreReport
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.stored_message import check_packet
from waypost.errors import DecodeError, NotAStore, StoreDamaged, StoreError, StoreTooNew
from waypost.node import any_record
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord
from waypost.store.descriptions import describe
from waypost.store.folder import DATA, require_store
from waypost.store.keys import Counter
from waypost.store.lmdb_reading import FORMAT_VERSION, store_error
from waypost.store.page_file import PageFile
from waypost.store.pages import Meta, Node, PageDamaged, value_of
from waypost.store.port import Table
from waypost.store.progress import Progress, unheard
from waypost.store.queue_records import QueueRecord
from waypost.store.records import CounterRecord, MessageRecord, TotalsRecord
from waypost.store.sealed_tables import CHECKSUM_SIZE, is_whole
from waypost.store.start_check import STORE_TABLE
from waypost.store.walk import FREE, MAIN, Damage, Walked, Walker, check_metas

_MOST: Final = 1000
# Number of attempts to hold a moment while another process writes.
_TRIES: Final = 1000
_TABLES: Final = {table.name.lower(): table for table in Table}


def verify(folder: str | Path, *, progress: Progress = unheard) -> StoreReport:
    """Verify the whole store in a data folder. A queue manager can use the folder at the same time.

    `progress` is called with the number of verified pages and the total number of pages. Raises NotAStore, StoreTooNew
    or another StoreError if the folder does not contain a store that this function can verify.
    """
    path = Path(folder)
    try:
        require_store(path)
        with _moment(path) as (file, meta):
            return _Verification(path, file, meta, progress).report()
    except OSError as error:
        raise store_error(error, path) from error


@contextmanager
def _moment(folder: Path) -> Iterator[tuple[PageFile, Meta | None]]:
    """The file, and the meta page of a moment that is held; None without a whole meta page."""
    with PageFile(folder / DATA) as file:
        if file.damaged_metas:
            # LMDB refuses to open it, so no process writes to it.
            yield file, file.newest
            return
    try:
        env = lmdb.open(str(folder), readonly=True, create=False, max_dbs=1)
    except lmdb.Error as error:
        raise store_error(error, folder) from error
    with env:
        for _ in range(_TRIES):
            # Of two meta pages, that of the reader is overwritten after two more commits: try again then.
            with env.begin() as reader, PageFile(folder / DATA) as file:
                found = [meta for meta in file.metas.values() if meta.transaction == reader.id()]
                if found:
                    yield file, found[0]
                    return
        raise StoreError(
            f"the store in {folder} changes too fast for a verification; try again at a time with less traffic"
        )


class _Verification:
    def __init__(self, folder: Path, file: PageFile, meta: Meta | None, progress: Progress) -> None:
        self._folder: Final = folder
        self._file: Final = file
        self._meta: Final = meta
        self._progress: Final = progress
        self._format = FORMAT_VERSION
        self._damage: Final[list[StoreDamage]] = []
        self._damage_count = 0
        # Facts of the records to compare, by the ids of queues.
        self._lookup_ids: Final[dict[int, array[int]]] = defaultdict(lambda: array("Q"))
        self._bytes: Final[dict[int, int]] = defaultdict(int)
        self._positions: Final[dict[int, array[int]]] = defaultdict(lambda: array("Q"))
        self._queues: Final[dict[int, QueueRecord]] = {}
        self._totals: Final[dict[int, TotalsRecord]] = {}
        self._counters: Final[dict[bytes, int]] = {}
        # Queues that a record of another table names, with the words for that record.
        self._named: Final[list[tuple[int, Table, str]]] = []
        self._unread: Final[set[Table]] = set()
        # Damage to records, by table and key: described at the end, when the names of the queues are known.
        self._records: Final[list[tuple[Table, bytes, int | None, str]]] = []

    def report(self) -> StoreReport:
        file, meta = self._file, self._meta
        walked = Walked()
        damage = check_metas(file, file.metas, file.damaged_metas)
        if meta is not None:
            walked = self._walk(meta)
            damage += walked.damage
            if walked.unused and not walked.damage:
                damage.append(
                    Damage(
                        "", meta.last_page, f"is the end of a file in which {walked.unused} pages belong to no table"
                    )
                )
        for each in damage:
            self._found(StoreDamage(each.table, str(each), each.page))
        for table, key, page, reason in self._records:
            self._found(self._of_record(table, key, page, reason))
        self._compare()
        records = {name: count for name, count in walked.entries.items() if name in _TABLES}
        return StoreReport(
            is_whole=not self._damage_count,
            path=str(self._folder),
            format=self._format,
            size=file.size,
            pages=file.count,
            free_pages=walked.pages.count(FREE),
            records=records,
            damage=tuple(self._damage),
            damage_count=self._damage_count,
        )

    def _walk(self, meta: Meta) -> Walked:
        """Walk all trees. The format decides how to read records, so its table comes first and alone."""
        self._format = format_of(self._file, meta)
        if not self._format:
            self._format = FORMAT_VERSION
            self._found(StoreDamage(STORE_TABLE, "the store has format 0, which no version of Waypost writes"))
        walked = Walker(self._file, meta, visit=self._visit, progress=self._progress).walk()
        if STORE_TABLE not in walked.tables and MAIN not in walked.holes:
            raise NotAStore(f"{self._folder} contains an LMDB database that is not a store of Waypost")
        self._unread.update(_TABLES[name] for name in walked.holes if name in _TABLES)
        for table in Table:
            if MAIN in walked.holes and table.name.lower() not in walked.tables:
                self._unread.add(table)
        return walked

    def _visit(self, name: str, number: int, page: bytes, nodes: list[Node]) -> None:
        table = _TABLES.get(name)
        if table is None:
            return
        for node in nodes:
            try:
                value = value_of(self._file, node, page)
            except PageDamaged:
                # The walk has reported it.
                self._unread.add(table)
                continue
            if self._format > 1:
                if not is_whole(table, node.key, value):
                    self._unread.add(table)
                    self._records.append((table, node.key, number, "does not match its checksum"))
                    continue
                value = value[:-CHECKSUM_SIZE]
            try:
                record = any_record.decode(table, node.key, value)
                if isinstance(record, MessageRecord):
                    check_packet(record.packet)
                self._take(table, node.key, record)
            except LookupError:
                continue
            except (DecodeError, StoreDamaged, StoreTooNew) as error:
                self._unread.add(table)
                self._records.append((table, node.key, number, f"is malformed: {error}"))

    def _take(self, table: Table, key: bytes, record: object) -> None:
        if isinstance(record, MessageRecord):
            queue = keys.queue_id_of(key)
            self._lookup_ids[queue].append(keys.lookup_id_of(key))
            self._bytes[queue] += len(record.packet)
        elif table is Table.POSITIONS:
            self._positions[keys.queue_id_of(key)].append(keys.lookup_id_of(key))
        elif isinstance(record, QueueRecord):
            self._queues[keys.queue_id_of(key)] = record
        elif isinstance(record, TotalsRecord):
            self._totals[int.from_bytes(key[-8:], "big")] = record
        elif isinstance(record, CounterRecord):
            self._counters[key] = record.value
        elif table is Table.SEQUENCES:
            self._named.append((keys.sequence_of(key)[0], table, describe(table, key)))
        elif isinstance(record, ClaimRecord):
            self._named.append((int.from_bytes(key[1:9], "big"), table, describe(table, key)))

    # Comparisons of records with each other. Tables that are not whole are left out.

    def _compare(self) -> None:
        if not self._unread & {Table.MESSAGES, Table.COUNTERS}:
            self._compare_totals()
            self._compare_counters()
        if not self._unread & {Table.MESSAGES, Table.POSITIONS}:
            self._compare_positions()
        if Table.QUEUES not in self._unread:
            self._compare_queues()

    def _compare_totals(self) -> None:
        for queue in sorted({*self._totals, *self._lookup_ids}):
            totals = self._totals.get(queue, TotalsRecord())
            count, size = len(self._lookup_ids[queue]), self._bytes[queue]
            if (count, size) != (totals.message_count, totals.total_bytes):
                sentence = (
                    f"{self._name(queue)} holds {count} messages of {size} bytes, but its totals say "
                    f"{totals.message_count} messages of {totals.total_bytes} bytes"
                )
                self._found(StoreDamage("counters", sentence, queue=self._name(queue)))

    def _compare_counters(self) -> None:
        last = max((lookup_id & SEQUENCE_MASK for ids in self._lookup_ids.values() for lookup_id in ids), default=0)
        self._compare_counter(Counter.SEQUENTIAL_ID, last, "a message has the number")
        self._compare_counter(Counter.QUEUE_ID, max(self._queues, default=0), "a queue has the id")

    def _compare_counter(self, counter: Counter, last: int, words: str) -> None:
        found = self._counters.get(counter.value, 0)
        if found < last:
            sentence = f"the counter {counter.name.lower()} is at {found}, but {words} {last}"
            self._found(StoreDamage("counters", sentence))

    def _compare_positions(self) -> None:
        for queue, positions in self._positions.items():
            for lookup_id in sorted(set(positions) - set(self._lookup_ids[queue])):
                sentence = f"message {lookup_id} of {self._name(queue)} has a position, but does not exist"
                self._found(StoreDamage("positions", sentence, None, self._name(queue), str(lookup_id)))

    def _compare_queues(self) -> None:
        for queue, ids in sorted(self._lookup_ids.items()):
            if ids and queue not in self._queues:
                self._found(
                    StoreDamage("messages", f"{len(ids)} messages belong to queue {queue}, which does not exist")
                )
        for queue, record in self._queues.items():
            if record.parent and record.parent not in self._queues:
                sentence = f"{self._name(queue)} belongs to queue {record.parent}, which does not exist"
                self._found(StoreDamage("queues", sentence, queue=self._name(queue)))
        for queue, table, words in self._named:
            if queue not in self._queues:
                self._found(StoreDamage(table.name.lower(), f"{words} belongs to a queue that does not exist"))

    def _of_record(self, table: Table, key: bytes, page: int | None, reason: str) -> StoreDamage:
        words = describe(table, key)
        if table in (Table.MESSAGES, Table.POSITIONS) and len(key) == len(keys.message_key(0, 0)):
            queue, lookup_id = self._name(keys.queue_id_of(key)), str(keys.lookup_id_of(key))
            words = f"message {lookup_id} of {queue}"
            if table is Table.POSITIONS:
                words = f"the position of {words}"
            return StoreDamage(table.name.lower(), f"{words} {reason}", page, queue, lookup_id)
        return StoreDamage(table.name.lower(), f"{words} {reason}", page)

    def _name(self, queue: int) -> str:
        record = self._queues.get(queue)
        return f"queue {queue}" if record is None else queue_name(record)

    def _found(self, damage: StoreDamage) -> None:
        self._damage_count += 1
        if len(self._damage) < _MOST:
            self._damage.append(damage)


def queue_name(record: QueueRecord) -> str:
    """The name of a queue for people: its path, or the destination of an outgoing queue."""
    return record.destination_format_name or record.pathname


def format_of(file: PageFile, meta: Meta) -> int:
    """The format that the store records; the current one if its record is damaged. Raises StoreTooNew."""
    found: list[bytes] = []

    def visit(_: str, __: int, page: bytes, nodes: list[Node]) -> None:
        found.extend(value_of(file, node, page) for node in nodes if node.key == b"format")

    Walker(file, meta, visit=visit).walk_table(STORE_TABLE)
    version = int.from_bytes(found[0], "little") if found else FORMAT_VERSION
    if version > FORMAT_VERSION:
        raise StoreTooNew(
            f"{file.path.parent} has format {version}, but this version of Waypost supports only formats up to "
            f"{FORMAT_VERSION}"
        )
    return version
