"""Search for every whole record of a damaged file.

The search walks the trees as far as they go. If a damaged page cuts off a part of a table, it looks for the keys of
that part in all pages that are neither reached nor free: no page of the last moment is elsewhere. A free page has
older records, with whole checksums but deleted since, so the search skips it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from waypost.client.storage.salvage_moment import Moment, leaves
from waypost.errors import StoreError
from waypost.node import any_record
from waypost.store.page_file import PageFile
from waypost.store.pages import BIG, FIRST_PAGE, TABLE, Node, PageDamaged, loose_nodes, run_length, value_of
from waypost.store.port import Table
from waypost.store.progress import Progress
from waypost.store.sealed_tables import CHECKSUM_SIZE, is_whole
from waypost.store.walk import FREE, FREE_PAGES, MAIN, UNKNOWN, Damage, Hole, Walked, Walker

TABLES: Final = {table.name.lower(): table for table in Table}
# The order to try tables for a record of format 1: those with a fixed length or fixed bytes first.
_TRIED: Final = (
    *(Table.QUEUES, Table.POSITIONS, Table.COUNTERS, Table.SEQUENCES, Table.TRANSACTIONS, Table.DUPLICATES),
    *(Table.BULK, Table.DIRECTORY, Table.MESSAGES),
)


class Found(NamedTuple):
    """A whole record. `is_sure` says that the store had it in the last moment, and not only before."""

    table: Table
    key: bytes
    value: bytes
    is_sure: bool = True


@dataclass(slots=True)
class Losses:
    """Damaged pages, and damaged records on whole pages. `holes` are the key ranges that were searched elsewhere."""

    pages: list[Damage] = field(default_factory=list)
    records: list[tuple[Table, bytes, int]] = field(default_factory=list)
    holes: dict[Table, list[Hole]] = field(default_factory=dict)
    # Number of users and groups that the store had; None if it is unknown.
    users: int | None = 0
    # True if the list of the free pages is known: otherwise deleted records may come back.
    knows_free: bool = True

    @property
    def tables(self) -> set[Table]:
        """The tables with records that may be missing."""
        return {*self.holes, *(table for table, _, _ in self.records)}


class Search:
    """One search through a file of this format."""

    def __init__(self, file: PageFile, moment: Moment, version: int, progress: Progress) -> None:
        self._file: Final = file
        self._moment: Final = moment
        self._version: Final = version
        self._progress: Final = progress
        self._walked = Walked(pages=bytearray(file.count))
        self._last = Table.MESSAGES
        self.losses: Final = Losses()

    def reached(self, take: Callable[[Found], None]) -> None:
        """Give every record that the trees lead to."""

        def visit(name: str, number: int, page: bytes, nodes: list[Node]) -> None:
            table = TABLES.get(name)
            if table is None:
                return
            for node in nodes:
                value = self._value(table, node, page)
                if value is None:
                    self.losses.records.append((table, node.key, number))
                else:
                    take(Found(table, node.key, value))

        meta, losses = self._moment.meta, self.losses
        if meta is not None:
            self._walked = Walker(
                self._file, meta, visit=visit, progress=self._progress, free=self._moment.free
            ).walk()  # fmt: skip
        else:
            for number in self._moment.free or ():
                if number < self._file.count:
                    self._walked.pages[number] = FREE
        walked = self._walked
        losses.pages += walked.damage
        losses.knows_free = all(each.table != FREE_PAGES for each in walked.damage) and (
            meta is not None or bool(self._moment.free)
        )
        has_lost_tables = meta is None or MAIN in walked.holes
        database = walked.tables.get(Table.USERS.name.lower())
        if database is not None:
            losses.users = database.entries
        elif has_lost_tables and self._version > 1:
            losses.users = None
        for name, table in TABLES.items():
            if name in walked.holes:
                losses.holes[table] = walked.holes[name]
            elif has_lost_tables and name not in walked.tables:
                losses.holes[table] = [Hole()]

    def orphans(self, take: Callable[[Found], None]) -> None:
        """Give the records on pages that no tree leads to any more. Call it after `reached`."""
        holes = self.losses.holes
        if not holes:
            return
        # A value may look like a page. It is read first, so that a sender does not inject records.
        inside = bytearray(self._file.count)
        for _, page in self._orphan_pages():
            for _, run in self._records_of(page):
                inside[run.start : run.stop] = bytes([1]) * len(run)
        for number, page in self._orphan_pages():
            if not inside[number]:
                for record, _ in self._records_of(page):
                    if any(record.key in hole for hole in holes.get(record.table, ())):
                        take(record)

    def older(self, tables: set[Table]) -> Iterator[Found]:
        """Records of these tables from before the last moment, deleted or changed since. Call it after `reached`."""
        for number, page in leaves(self._file, self._progress):
            if self._walked.pages[number] in (FREE, UNKNOWN):
                for record, _ in self._records_of(page):
                    if record.table in tables:
                        yield record

    def _orphan_pages(self) -> Iterator[tuple[int, bytes]]:
        pages = self._walked.pages
        for number, page in leaves(self._file, self._progress):
            if pages[number] == UNKNOWN:
                yield number, page
        # The remains of a reached page.
        for number in {hole.page for holes in self.losses.holes.values() for hole in holes}:
            if FIRST_PAGE <= number < self._file.count:
                try:
                    yield number, self._file.page(number)
                except PageDamaged:
                    continue

    def _records_of(self, page: bytes) -> Iterator[tuple[Found, range]]:
        """The whole records of a page, and the overflow pages of each."""
        for node in loose_nodes(page):
            if node.flags & TABLE:
                continue
            found = self._found(node, page)
            if found is not None:
                length = run_length(node.size, self._file.page_size) if node.flags & BIG else 0
                yield found, range(node.at, node.at + length)

    def _found(self, node: Node, page: bytes) -> Found | None:
        """The record of a node of an unknown table. The records of a page are of one table."""
        order = (self._last, *(table for table in Table if table is not self._last)) if self._version > 1 else _TRIED
        for table in order:
            value = self._value(table, node, page)
            if value is not None:
                self._last = table
                return Found(table, node.key, value, self.losses.knows_free)
        return None

    def _value(self, table: Table, node: Node, page: bytes) -> bytes | None:
        """The value of a record if it is whole, and of this table. Format 1 has no checksums: it must decode."""
        try:
            value = value_of(self._file, node, page)
        except PageDamaged:
            return None
        if self._version > 1:
            return value[:-CHECKSUM_SIZE] if is_whole(table, node.key, value) else None
        try:
            any_record.decode(table, node.key, value)
        except (StoreError, LookupError):
            return None
        return value
