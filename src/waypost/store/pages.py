"""The pages of an LMDB 0.9 file (data version 1), as its header and its public documentation lay them down.

Any bytes give a page or PageDamaged: every number is checked against the bytes that are there before it is used. The
integers are those of a 64-bit computer of this byte order, as LMDB writes them; files do not travel between others.

    page      number u64, pad u16, flags u16, lower u16, upper u16, then u16 for each node: where it begins
    node      of a leaf: size of the value u32, flags u16, size of the key u16, key, value
              of a branch: page u48, size of the key u16, key; the first key of a branch counts as smaller than all
    overflow  number u64, pad u16, flags u16, pages u32, then the value, which goes on through the pages behind
    meta      page 0 and 1: the header of a page, then magic, version, address, size of the map, the records of the tree
              of free pages and of the tree of tables, the last page, the number of the transaction
    database  pad u32, flags u16, depth u16, then u64: branch, leaf and overflow pages, entries, root
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, Protocol

from waypost.errors import StoreDamaged
from waypost.store.port import MAX_KEY

# The byte order of this computer, without the gaps of its compiler.
_ORDER: Final = "="
_HEADER: Final = Struct(f"{_ORDER}QHHHH")
_OVERFLOW_HEADER: Final = Struct(f"{_ORDER}QHHI")
_NODE: Final = Struct(f"{_ORDER}HHHH")
_DATABASE: Final = Struct(f"{_ORDER}IHHQQQQQ")
_META: Final = Struct(f"{_ORDER}IIQQ")
_META_END: Final = Struct(f"{_ORDER}QQ")
_NUMBER: Final = Struct(f"{_ORDER}Q")

HEADER_SIZE: Final = _HEADER.size
NODE_SIZE: Final = _NODE.size
DATABASE_SIZE: Final = _DATABASE.size
META_SIZE: Final = HEADER_SIZE + _META.size + 2 * _DATABASE.size + _META_END.size
NUMBER_SIZE: Final = _NUMBER.size

# The first page behind the meta pages.
FIRST_PAGE: Final = 2
# The root of an empty tree.
NO_PAGE: Final = (1 << 64) - 1
MAX_DEPTH: Final = 32
PAGE_SIZES: Final = (4096, 8192, 16_384, 32_768)

BRANCH: Final = 0x01
LEAF: Final = 0x02
OVERFLOW: Final = 0x04
_META_PAGE: Final = 0x08

# Flags of a node: its value is on overflow pages, or is the record of a table.
BIG: Final = 0x01
TABLE: Final = 0x02

# Flags of a database: its keys are numbers.
INTEGER_KEYS: Final = 0x08
# The record of the free pages also has flags of the environment: the file was made without a folder.
_NO_FOLDER: Final = 0x4000

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1


class PageDamaged(StoreDamaged):
    """A page of the file is not what LMDB writes."""

    def __init__(self, page: int, reason: str) -> None:
        super().__init__(page, reason)
        self.page = page
        self.reason = reason

    def __str__(self) -> str:
        return f"page {self.page} {self.reason}"


class OtherVersion(PageDamaged):
    """Another release of LMDB, with another format, has written the page."""


class PageSource(Protocol):
    """The file, page by page."""

    page_size: int
    # Number of whole pages.
    count: int

    def page(self, number: int) -> bytes:
        """Raises PageDamaged if the page is behind the end of the file or unreadable."""

    def read(self, number: int, size: int) -> bytes:
        """So many bytes from the beginning of a page on. The same errors."""


@dataclass(frozen=True, slots=True)
class Database:
    """The record of a tree."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


@dataclass(frozen=True, slots=True)
class Meta:
    """A meta page: one moment of the file. Of the two, the one with the higher transaction counts."""

    number: int
    page_size: int
    free: Database
    main: Database
    last_page: int
    transaction: int


class Node(NamedTuple):
    """An entry of a leaf. `at` is where its value begins in the page, or the number of its first overflow page."""

    key: bytes
    flags: int
    at: int
    size: int


class Child(NamedTuple):
    """An entry of a branch."""

    key: bytes
    page: int


@lru_cache(maxsize=4096)
def _offsets(count: int) -> Struct:
    return Struct(f"{_ORDER}{count}H")


def decode_meta(number: int, data: bytes) -> Meta:
    """The meta page with this number; `data` begins where it does."""
    if len(data) < META_SIZE:
        raise PageDamaged(number, "ends too early for a meta page")
    stored, _, flags, _, _ = _HEADER.unpack_from(data)
    magic, version, _, _ = _META.unpack_from(data, HEADER_SIZE)
    at = HEADER_SIZE + _META.size
    free, main = decode_database(data, at), decode_database(data, at + DATABASE_SIZE)
    last_page, transaction = _META_END.unpack_from(data, at + 2 * DATABASE_SIZE)
    if magic != _MAGIC or flags != _META_PAGE or stored != number:
        raise PageDamaged(number, "is not a meta page")
    if version != _VERSION:
        raise OtherVersion(number, f"must have data version {_VERSION}, but has {version}")
    # The record of the free pages has the size of a page where others have nothing.
    if free.pad not in PAGE_SIZES:
        raise PageDamaged(number, f"specifies the invalid page size {free.pad}")
    if free.flags & ~_NO_FOLDER != INTEGER_KEYS or main.flags or main.pad:
        raise PageDamaged(number, "has trees of an unknown kind")
    return Meta(number, free.pad, free, main, last_page, transaction)


def decode_database(data: bytes, at: int = 0) -> Database:
    """`data` has DATABASE_SIZE bytes from there on."""
    return Database(*_DATABASE.unpack_from(data, at))


def _check_size(number: int, data: bytes) -> None:
    if len(data) < HEADER_SIZE:
        raise PageDamaged(number, "ends too early")


def kind_of(number: int, page: bytes) -> int:
    """The flags of a page: BRANCH, LEAF or OVERFLOW, and no more than one of them."""
    _check_size(number, page)
    stored, _, flags, _, _ = _HEADER.unpack_from(page)
    if stored != number:
        raise PageDamaged(number, f"contains the page number {stored}")
    if flags not in (BRANCH, LEAF, OVERFLOW):
        raise PageDamaged(number, f"has the unknown type {flags:#06x}")
    return int(flags)


def _node_offsets(number: int, page: bytes, flags: int) -> tuple[tuple[int, ...], int]:
    """Where the nodes of a page begin, in the order of their keys, and the bytes that they have together."""
    _check_size(number, page)
    stored, _, found, lower, upper = _HEADER.unpack_from(page)
    if stored != number:
        raise PageDamaged(number, f"contains the page number {stored}")
    if found != flags:
        raise PageDamaged(number, f"has the type {found:#06x}, but must have the type {flags:#06x}")
    if lower & 1 or not HEADER_SIZE <= lower <= upper <= len(page):
        raise PageDamaged(number, f"has invalid bounds of free space: {lower} and {upper}")
    offsets: tuple[int, ...] = _offsets((lower - HEADER_SIZE) >> 1).unpack_from(page, HEADER_SIZE)
    if offsets and not (upper <= min(offsets) and max(offsets) <= len(page) - NODE_SIZE):
        raise PageDamaged(number, "has a node outside its bounds")
    return offsets, len(page) - upper


def leaf_nodes(number: int, page: bytes) -> list[Node]:
    """The entries of a leaf, in its order. They fill the room that the page has for them."""
    offsets, room = _node_offsets(number, page, LEAF)
    if not offsets:
        raise PageDamaged(number, "is a leaf without entries")
    nodes = []
    unpack, end, new = _NODE.unpack_from, len(page), Node._make
    for offset in offsets:
        low, high, flags, key_size = unpack(page, offset)
        size = low | high << 16
        start = offset + NODE_SIZE + key_size
        key = page[offset + NODE_SIZE : start]
        if flags & BIG:
            taken = NODE_SIZE + key_size + NUMBER_SIZE
            at = _NUMBER.unpack_from(page, start)[0] if start + NUMBER_SIZE <= end else NO_PAGE
        else:
            taken, at = NODE_SIZE + key_size + size, start
        if offset + taken > end or flags & ~(BIG | TABLE) or not 0 < key_size <= MAX_KEY:
            raise PageDamaged(number, "has an invalid entry")
        room -= taken + (taken & 1)
        nodes.append(new((key, flags, at, size)))
    if room:
        raise PageDamaged(number, "has entries whose total size does not match the used space")
    return nodes


def branch_children(number: int, page: bytes) -> list[Child]:
    """The entries of a branch, in its order. The first key is given as empty: it stands for all before the second."""
    offsets, room = _node_offsets(number, page, BRANCH)
    if len(offsets) < 2:
        raise PageDamaged(number, "is a branch with fewer than two children")
    children: list[Child] = []
    for offset in offsets:
        low, high, top, key_size = _NODE.unpack_from(page, offset)
        end = offset + NODE_SIZE + key_size
        if end > len(page) or key_size > MAX_KEY:
            raise PageDamaged(number, "has an invalid entry")
        key = page[offset + NODE_SIZE : end] if children else b""
        room -= NODE_SIZE + key_size + (key_size & 1)
        children.append(Child(key, low | high << 16 | top << 32))
    if room:
        raise PageDamaged(number, "has entries whose total size does not match the used space")
    return children


def loose_nodes(page: bytes) -> list[Node]:
    """Bytes that look like entries of a leaf in a page that may be damaged. Only a checksum shows which are whole."""
    if len(page) < HEADER_SIZE:
        return []
    _, _, _, lower, _ = _HEADER.unpack_from(page)
    count = (lower - HEADER_SIZE) >> 1 if HEADER_SIZE <= lower <= len(page) else (len(page) - HEADER_SIZE) >> 1
    nodes = []
    for offset in _offsets(count).unpack_from(page, HEADER_SIZE):
        if not HEADER_SIZE <= offset <= len(page) - NODE_SIZE:
            continue
        low, high, flags, key_size = _NODE.unpack_from(page, offset)
        size, start = low | high << 16, offset + NODE_SIZE + key_size
        end = start + (NUMBER_SIZE if flags & BIG else size)
        if end > len(page) or not 0 < key_size <= MAX_KEY:
            continue
        at = _NUMBER.unpack_from(page, start)[0] if flags & BIG else start
        nodes.append(Node(page[offset + NODE_SIZE : start], flags, at, size))
    return nodes


def run_length(size: int, page_size: int) -> int:
    """Number of overflow pages for a value of this size."""
    return (HEADER_SIZE - 1 + size) // page_size + 1


def run_pages(number: int, header: bytes, pages: int) -> int:
    """Number of overflow pages that begin here, by the header of the first.

    A value that has become shorter in the transaction that wrote it has more than it needs.
    """
    _check_size(number, header)
    stored, _, flags, count = _OVERFLOW_HEADER.unpack_from(header)
    if stored != number or flags != OVERFLOW or count < pages:
        raise PageDamaged(number, f"is not the first of {pages} overflow pages")
    return int(count)


def value_of(source: PageSource, node: Node, page: bytes) -> bytes:
    """The value of an entry of this page. Raises PageDamaged."""
    if not node.flags & BIG:
        return page[node.at : node.at + node.size]
    return source.read(node.at, HEADER_SIZE + node.size)[HEADER_SIZE:]


def number_of(key: bytes) -> int | None:
    """The transaction that a key of the tree of free pages is, None if it is not one."""
    return int(_NUMBER.unpack(key)[0]) if len(key) == NUMBER_SIZE else None


def page_list(value: bytes) -> tuple[int, ...] | None:
    """The page numbers in a value of the tree of free pages, which descend; None if it is not such a list."""
    if len(value) < NUMBER_SIZE or len(value) % NUMBER_SIZE:
        return None
    count, *numbers = Struct(f"{_ORDER}{len(value) // NUMBER_SIZE}Q").unpack(value)
    if count != len(numbers) or any(first <= second for first, second in pairwise(numbers)):
        return None
    return tuple(numbers)
