"""A walk through the trees of a store's file: is every page what its parent, its table and the free pages say of it?

It looks at branch and leaf pages, at the first bytes of overflow pages and at the lists of free pages. Values are only
read for a visitor. LMDB trusts all of this: a page that is not right makes it abort, read what was never written, or
give away pages that are in use.

The walk is plain code on bytes that were read, so whatever the file holds, it ends in linear time and with a result.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import lt
from typing import Any, Final

from waypost.store.pages import (
    BIG,
    DATABASE_SIZE,
    FIRST_PAGE,
    HEADER_SIZE,
    MAX_DEPTH,
    NO_PAGE,
    TABLE,
    Database,
    Meta,
    Node,
    PageDamaged,
    PageSource,
    branch_children,
    decode_database,
    leaf_nodes,
    number_of,
    page_list,
    run_length,
    run_pages,
    value_of,
)
from waypost.store.progress import Progress, unheard

# The names of the two trees that have none.
MAIN: Final = "tables"
FREE_PAGES: Final = "free pages"

# Kinds of pages.
UNKNOWN, USED, FREE = 0, 1, 2

# Pages between two reports of progress.
_STEP: Final = 1024

# Gets the table, the number of a leaf, the page and its entries.
Visit = Callable[[str, int, bytes, list[Node]], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """A fault in a page of a table."""

    table: str
    page: int
    reason: str

    def __str__(self) -> str:
        place = f" of {self.table}" if self.table == FREE_PAGES else f" of the table {self.table}" if self.table else ""
        return f"page {self.page}{place} {self.reason}"


@dataclass(frozen=True, slots=True)
class Hole:
    """Keys from `low` to before `high` that could not be reached. None stands for an end of the table.

    `page` is the one that breaks off, 0 if it is not one of the table.
    """

    low: bytes | None = None
    high: bytes | None = None
    page: int = 0

    def __contains__(self, key: bytes) -> bool:
        return (self.low is None or key >= self.low) and (self.high is None or key < self.high)


@dataclass(slots=True)
class Walked:
    """The result. Without damage, `unused` is 0: LMDB loses no page."""

    damage: list[Damage] = field(default_factory=list)
    # Kind of each page of the file.
    pages: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    tables: dict[str, Database] = field(default_factory=dict)
    holes: dict[str, list[Hole]] = field(default_factory=dict)
    # Pages that belong to no table and are not free either.
    unused: int = 0
    # Whether there are records beside the tables, as another program's file may have.
    has_others: bool = False


@dataclass(slots=True)
class _Tree:
    """One that is walked. `order` makes of a key what it is ordered by."""

    name: str
    database: Database
    visit: Visit | None = None
    order: Callable[[bytes], Any] | None = None
    entries: int = 0
    branches: int = 0
    leaves: int = 0
    overflow: int = 0
    is_damaged: bool = False


class Walker:
    """One walk from a meta page on."""

    def __init__(
        self,
        source: PageSource,
        meta: Meta,
        *,
        visit: Visit | None = None,
        progress: Progress = unheard,
        free: Iterable[int] | None = None,
    ) -> None:
        """`free` are the free pages, where the tree that has them is not to be looked at."""
        self._source: Final = source
        self._meta: Final = meta
        self._visit: Final = visit
        self._progress: Final = progress
        self._known_free: Final = free
        self._end: Final = min(source.count, meta.last_page + 1)
        self._pages: Final = bytearray(source.count)
        # Free pages that the file does not have.
        self._behind: Final[set[int]] = set()
        self._result: Final = Walked(pages=self._pages)
        self._done = 0
        self._total = 0

    def walk(self) -> Walked:
        meta, result = self._meta, self._result
        self._pages[:FIRST_PAGE] = bytes([USED]) * len(self._pages[:FIRST_PAGE])
        main = _Tree(MAIN, meta.main, self._tables)
        free = _Tree(FREE_PAGES, meta.free, self._free, number_of)
        self._count(meta.main)
        if self._known_free is not None:
            for number in self._known_free:
                self._set_free(number, 0)
        else:
            self._count(meta.free)
            self._walk_tree(free)
        self._walk_tree(main)
        for database in result.tables.values():
            self._count(database)
        for name, database in result.tables.items():
            if database.flags or database.pad:
                self._damaged(_Tree(name, database), PageDamaged(meta.main.root, "describes a table of another kind"))
                result.holes[name] = [Hole()]
                continue
            self._walk_tree(_Tree(name, database, self._visit))
        missing = meta.last_page + 1 - self._source.count - len(self._behind)
        if missing > 0:
            result.damage.append(
                Damage("", self._source.count, f"and {missing - 1} more are after the end of the file")
            )
        result.unused = self._pages.count(UNKNOWN, 0, self._end)
        self._progress(self._total, self._total)
        return result

    def walk_table(self, name: str) -> None:
        """Let the visitor see one table, as far as it can be reached."""
        self._walk_tree(_Tree(MAIN, self._meta.main, self._tables))
        database = self._result.tables.get(name)
        if database is not None:
            self._walk_tree(_Tree(name, database, self._visit))

    def _walk_tree(self, tree: _Tree) -> None:
        database = tree.database
        if database.root == NO_PAGE:
            if database.entries or database.depth:
                self._damaged(tree, PageDamaged(self._meta.main.root, "describes a table without a root"))
        elif not 0 < database.depth <= MAX_DEPTH:
            self._hole(
                tree,
                PageDamaged(database.root, f"is the root of a tree with an invalid depth of {database.depth}"),
                None,
                None,
            )
        else:
            self._descend(tree, database.root, database.depth, None, None)
        self._result.entries[tree.name] = tree.entries
        counted = (tree.entries, tree.branches, tree.leaves, tree.overflow)
        stated = (database.entries, database.branch_pages, database.leaf_pages, database.overflow_pages)
        if counted != stated and not tree.is_damaged:
            reason = f"is the root of a tree with {_amounts(counted)}, but the table record says {_amounts(stated)}"
            self._damaged(tree, PageDamaged(database.root, reason))

    def _descend(self, tree: _Tree, number: int, level: int, low: Any, high: Any) -> None:
        """`level` is 1 for a leaf. The keys below are from `low` to before `high`."""
        try:
            page = self._take(tree, number)
            if level == 1:
                self._leaf(tree, number, page, low, high)
                return
            children = branch_children(number, page)
            bounds = _ordered(tree, number, [child.key for child in children[1:]], low, high)
        except PageDamaged as error:
            self._hole(tree, error, low, high)
            return
        tree.branches += 1
        for child, start, stop in zip(children, (low, *bounds), (*bounds, high), strict=True):
            self._descend(tree, child.page, level - 1, start, stop)

    def _leaf(self, tree: _Tree, number: int, page: bytes, low: Any, high: Any) -> None:
        nodes = leaf_nodes(number, page)
        _ordered(tree, number, [node[0] for node in nodes], low, high)
        tree.leaves += 1
        tree.entries += len(nodes)
        is_main = tree.name == MAIN
        for node in nodes:
            if node.flags & TABLE and not is_main:
                raise PageDamaged(number, "has a table among its records")
            if node.flags & BIG:
                self._take_run(tree, node)
        if tree.visit is not None:
            tree.visit(tree.name, number, page, nodes)

    def _take(self, tree: _Tree, number: int) -> bytes:
        """A page that belongs to the tree and to nothing else."""
        self._use(tree, number)
        self._done += 1
        if not self._done % _STEP:
            self._progress(min(self._done, self._total), self._total)
        return self._source.page(number)

    def _take_run(self, tree: _Tree, node: Node) -> None:
        """The overflow pages of a value. A fault in them loses this value alone."""
        try:
            needed = run_length(node.size, self._source.page_size)
            if node.at + needed > self._end:
                raise PageDamaged(node.at, "is after the last page")
            pages = run_pages(node.at, self._source.read(node.at, HEADER_SIZE), needed)
            if node.at + pages > self._end:
                raise PageDamaged(node.at, "needs more overflow pages than the file has")
            for number in range(node.at, node.at + pages):
                self._use(tree, number)
            tree.overflow += pages
        except PageDamaged as error:
            self._damaged(tree, error)

    def _use(self, tree: _Tree, number: int) -> None:
        if not FIRST_PAGE <= number < self._end:
            raise PageDamaged(number, "is after the last page")
        was, self._pages[number] = self._pages[number], USED
        if was == USED:
            raise PageDamaged(number, "is used twice")
        if was == FREE:
            # Its parent knows it, and it is looked at: the list of free pages is wrong.
            self._damaged(tree, PageDamaged(number, "is listed as free"))

    def _tables(self, _: str, number: int, page: bytes, nodes: list[Node]) -> None:
        for node in nodes:
            if not node.flags & TABLE:
                self._result.has_others = True
            elif node.flags != TABLE or node.size != DATABASE_SIZE:
                raise PageDamaged(number, "has an invalid record of a table")
            else:
                self._result.tables[node.key.decode("ascii", "backslashreplace")] = decode_database(page, node.at)

    def _free(self, _: str, number: int, page: bytes, nodes: list[Node]) -> None:
        for node in nodes:
            transaction, pages = number_of(node.key), page_list(value_of(self._source, node, page))
            if transaction is None or not 0 < transaction <= self._meta.transaction or pages is None:
                raise PageDamaged(number, "has an invalid list of free pages")
            for each in pages:
                self._set_free(each, number)

    def _set_free(self, number: int, listed: int) -> None:
        if not FIRST_PAGE <= number <= self._meta.last_page:
            raise PageDamaged(listed, f"lists page {number} as free, but the store has no data page with this number")
        if number >= self._source.count:
            self._behind.add(number)
            return
        if self._pages[number]:
            fault = "in use" if self._pages[number] == USED else "already listed as free"
            raise PageDamaged(listed, f"lists page {number} as free, but the page is {fault}")
        self._pages[number] = FREE

    def _hole(self, tree: _Tree, error: PageDamaged, low: Any, high: Any) -> None:
        self._damaged(tree, error)
        if tree.order is None:
            self._result.holes.setdefault(tree.name, []).append(Hole(low, high, error.page))

    def _damaged(self, tree: _Tree, error: PageDamaged) -> None:
        tree.is_damaged = True
        self._result.damage.append(Damage(tree.name, error.page, error.reason))

    def _count(self, database: Database) -> None:
        """There is so much more to look at, as far as there can be."""
        self._total = min(self._total + database.branch_pages + database.leaf_pages, self._source.count)


def _ordered(tree: _Tree, number: int, keys: list[Any], low: Any, high: Any) -> list[Any]:
    """The keys of a page, or what they are ordered by. They ascend, and are from `low` to before `high`."""
    if tree.order is not None:
        keys = list(map(tree.order, keys))
        if None in keys:
            raise PageDamaged(number, "has an invalid key")
    if not all(map(lt, keys, keys[1:])):
        raise PageDamaged(number, "has keys that are not in ascending order")
    if (low is not None and keys[0] < low) or (high is not None and keys[-1] >= high):
        raise PageDamaged(number, "has keys outside the range that its parent page specifies")
    return keys


def _amounts(counts: tuple[int, int, int, int]) -> str:
    return "{} records in {} branch, {} leaf and {} overflow pages".format(*counts)


def newest_free(source: PageSource, meta: Meta) -> int:
    """The transaction that has given back pages last, by the tree of free pages of this moment; 0 if none has.

    Raises PageDamaged.
    """
    number, newest = meta.free.root, 0
    if number == NO_PAGE:
        return 0
    for _ in range(min(meta.free.depth, MAX_DEPTH) - 1):
        number = branch_children(number, source.page(number))[-1].page
    for node in leaf_nodes(number, source.page(number)):
        newest = max(newest, number_of(node.key) or 0)
    return newest


def check_metas(source: PageSource, metas: dict[int, Meta], damaged: Iterable[PageDamaged]) -> list[Damage]:
    """Faults in the two meta pages. LMDB opens the one with the higher transaction, without a check.

    Two transactions follow each other, and every one gives back the pages that it has replaced, but for the first.
    """
    found = [Damage("", error.page, error.reason) for error in damaged]
    if found:
        return found
    first, second = metas[0].transaction, metas[1].transaction
    if abs(first - second) != 1 and (first or second):
        found.append(
            Damage("", 0, f"and page 1 have the transaction numbers {first} and {second}, which are not consecutive")
        )
    for meta in metas.values():
        try:
            newest = newest_free(source, meta)
        except PageDamaged:
            # The older moment may be gone, and a walk sees what is wrong with the newer one.
            continue
        if newest != meta.transaction and max(newest, meta.transaction) > 1:
            found.append(
                Damage(
                    "",
                    meta.number,
                    f"has the transaction number {meta.transaction}, but its last free pages have {newest}",
                )
            )
    return found
