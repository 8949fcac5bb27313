"""The last moment of a damaged file, and the pages that were free then.

Whole meta pages have both. Otherwise the rest of the file shows them: every transaction that changes something gives
back pages, and the list of these has its number. So the newest list belongs to the last transaction, and the leaf
with the tables that is not free by then is the one of that transaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from waypost.store.page_file import PageFile
from waypost.store.pages import (
    DATABASE_SIZE,
    FIRST_PAGE,
    INTEGER_KEYS,
    LEAF,
    NO_PAGE,
    TABLE,
    Database,
    Meta,
    Node,
    PageDamaged,
    kind_of,
    leaf_nodes,
    number_of,
    page_list,
    value_of,
)
from waypost.store.progress import Progress
from waypost.store.start_check import STORE_TABLE
from waypost.store.walk import check_metas, newest_free

# More transactions than any store has: a larger key is not the number of one.
_MOST_TRANSACTIONS: Final = 1 << 48


@dataclass(frozen=True, slots=True)
class Moment:
    """The last moment. `meta` is None without a tree. `free` has the free pages if `meta` does not lead to them."""

    meta: Meta | None
    free: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class _FreeLeaf:
    page: int
    first: int
    last: int
    pages: frozenset[int]


def last_moment(file: PageFile, progress: Progress) -> Moment:
    if not check_metas(file, file.metas, file.damaged_metas):
        return Moment(file.newest)
    lists, roots = _structure(file, progress)
    lists.sort(key=lambda each: each.last, reverse=True)
    newest = lists[0].last if lists else 0
    by_meta = {_newest_free(file, meta): meta for meta in file.metas.values()}
    if by_meta and max(by_meta) >= newest:
        # A transaction with a damaged number still has its tree of free pages.
        return Moment(by_meta[max(by_meta)])
    free: set[int] = set()
    before = newest + 1
    for each in lists:
        if each.last < before and each.page not in free:
            free |= each.pages
            before = each.first
    left = [(page, count) for page, count in roots if page not in free]
    # Without a list, or with two leaves of tables, an older moment might look like the last.
    is_known = lists and len(left) == 1
    return Moment(_meta_of(file, *left[0], newest) if is_known else None, frozenset(free))


def leaves(file: PageFile, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """All pages of the file that are leaves by their headers."""
    for number in range(FIRST_PAGE, file.count):
        if not number % 1024:
            progress(number, file.count)
        try:
            page = file.page(number)
            if kind_of(number, page) == LEAF:
                yield number, page
        except PageDamaged:
            continue


def _structure(file: PageFile, progress: Progress) -> tuple[list[_FreeLeaf], list[tuple[int, int]]]:
    """The leaves with lists of free pages, and those with the tables and their number, of all moments."""
    lists: list[_FreeLeaf] = []
    roots: list[tuple[int, int]] = []
    for number, page in leaves(file, progress):
        try:
            nodes = leaf_nodes(number, page)
        except PageDamaged:
            continue
        if all(node.flags == TABLE and node.size == DATABASE_SIZE for node in nodes):
            if STORE_TABLE.encode() in {node.key for node in nodes}:
                roots.append((number, len(nodes)))
        elif (found := _free_leaf(file, number, page, nodes)) is not None:
            lists.append(found)
    return lists, roots


def _free_leaf(file: PageFile, number: int, page: bytes, nodes: list[Node]) -> _FreeLeaf | None:
    transactions: list[int] = []
    pages: set[int] = set()
    for node in nodes:
        transaction = number_of(node.key)
        if transaction is None or not 0 < transaction < _MOST_TRANSACTIONS:
            return None
        try:
            listed = page_list(value_of(file, node, page))
        except PageDamaged:
            return None
        if listed is None or (listed and listed[-1] < FIRST_PAGE):
            return None
        transactions.append(transaction)
        pages.update(listed)
    return _FreeLeaf(number, min(transactions), max(transactions), frozenset(pages))


def _newest_free(file: PageFile, meta: Meta) -> int:
    try:
        return newest_free(file, meta)
    except PageDamaged:
        return 0


def _meta_of(file: PageFile, root: int, tables: int, transaction: int) -> Meta:
    free = Database(file.page_size, INTEGER_KEYS, 0, 0, 0, 0, 0, NO_PAGE)
    main = Database(0, 0, 1, 0, 1, 0, tables, root)
    return Meta(0, file.page_size, free, main, file.count - 1, transaction)
