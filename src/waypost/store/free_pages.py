"""The pages of an LMDB file that the next transaction can use again, read from the file itself.

LMDB keeps them in a tree by the transaction that freed them, and gives out those that no reader can still see. Its
interface does not show them. The file is read between two transactions of the one process that writes to it; bytes
that are not as expected count as no free pages, because somebody else looks for damage.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from waypost.store.pages import (
    LEAF,
    MAX_DEPTH,
    META_SIZE,
    NO_PAGE,
    Meta,
    PageDamaged,
    branch_children,
    decode_meta,
    kind_of,
    leaf_nodes,
    number_of,
    page_list,
    value_of,
)

# Reads so many bytes from this place of the file.
Read = Callable[[int, int], bytes]


def free_pages(read: Read, oldest: int, most: int) -> tuple[Mapping[int, int], int]:
    """Free pages of the file, as far as there are not many more than `most`.

    Of those that transactions before `oldest` have freed, how many runs of neighbours there are of each length; of the
    others, which readers still see, their number.
    """
    pages = array("Q")
    seen = 0
    try:
        for transaction, freed in _records(read):
            if transaction < oldest:
                pages.extend(freed)
            else:
                seen += len(freed)
            if len(pages) + seen >= most:
                break
    except (PageDamaged, OSError):
        return {}, 0
    return _runs(sorted(pages)), seen


def _runs(pages: list[int]) -> Mapping[int, int]:
    lengths: Counter[int] = Counter()
    length = 1
    for before, page in pairwise(pages):
        if page == before + 1:
            length += 1
        else:
            lengths[length] += 1
            length = 1
    if pages:
        lengths[length] += 1
    return lengths


class _Pages:
    """See waypost.store.pages.PageSource."""

    count: int

    def __init__(self, read: Read) -> None:
        self._read: Final = read
        first = decode_meta(0, read(0, META_SIZE))
        self.page_size = first.page_size
        second = decode_meta(1, read(self.page_size, META_SIZE))
        self.newest: Final[Meta] = max(first, second, key=lambda meta: meta.transaction)
        self.count = self.newest.last_page + 1

    def page(self, number: int) -> bytes:
        return self.read(number, self.page_size)

    def read(self, number: int, size: int) -> bytes:
        data = self._read(number * self.page_size, size) if number < self.count else b""
        if len(data) < size:
            raise PageDamaged(number, "is after the end of the file")
        return data


def _records(read: Read) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The transactions that have freed pages, in their order, with the pages."""
    pages = _Pages(read)
    root = pages.newest.free.root
    if root != NO_PAGE:
        yield from _walk(pages, root, 0)


def _walk(pages: _Pages, number: int, depth: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    if depth > MAX_DEPTH:
        raise PageDamaged(number, "is in a tree that is too deep")
    page = pages.page(number)
    if kind_of(number, page) != LEAF:
        for child in branch_children(number, page):
            yield from _walk(pages, child.page, depth + 1)
        return
    for node in leaf_nodes(number, page):
        transaction, freed = number_of(node.key), page_list(value_of(pages, node, page))
        if transaction is None or freed is None:
            raise PageDamaged(number, "has an entry that is not a list of free pages")
        yield transaction, freed
