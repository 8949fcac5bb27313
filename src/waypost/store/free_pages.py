"""The pages of an LMDB file that the next transaction can use again, read from the file itself.

LMDB keeps them in a tree by the transaction that freed them, and gives out those that no reader can still see. Nothing
of its interface tells of them. The file is read between two transactions of the one process that writes to it; bytes
that are not as expected count as no free pages, because somebody else looks for damage.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from struct import Struct, error
from typing import Final

# In the byte order of this computer, as LMDB writes them.
_HALF: Final = Struct("=H")
_WORD: Final = Struct("=I")
_NUMBER: Final = Struct("=Q")
_NODE: Final = Struct("=HHHH")

_MAGIC: Final = 0xBEEFC0DE
# Where the magic number stands on a meta page, which is the size of a page's header: of LMDB 0.9 and of 1.0.
_HEADERS: Final = (16, 24)
_META: Final = 160
# Behind the magic number: the record of the tree of free pages, its root within, and the transaction.
_FREE: Final = 24
_ROOT: Final = 40
_TRANSACTION: Final = 128
_LEAF: Final = 0x02
_BIG: Final = 0x01
_NO_PAGE: Final = (1 << 64) - 1
_MAX_DEPTH: Final = 32

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
    except (error, ValueError, OSError):
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


def _records(read: Read) -> Iterator[tuple[int, "array[int]"]]:
    """The transactions that have freed pages, in their order, with the pages."""
    first = read(0, _META)
    header = next((each for each in _HEADERS if _WORD.unpack_from(first, each)[0] == _MAGIC), 0)
    if not header:
        raise ValueError("not an LMDB file of this kind of computer")
    (size,) = _WORD.unpack_from(first, header + _FREE)
    if size < 256 or size & (size - 1):
        raise ValueError(f"pages of {size} bytes")
    newest = max((first, read(size, _META)), key=lambda meta: _transaction(meta, header))
    (root,) = _NUMBER.unpack_from(newest, header + _FREE + _ROOT)
    if root != _NO_PAGE:
        yield from _walk(read, root, (header, size), 0)


def _transaction(meta: bytes, header: int) -> int:
    number: int = _NUMBER.unpack_from(meta, header + _TRANSACTION)[0]
    return number


def _walk(read: Read, number: int, form: tuple[int, int], depth: int) -> Iterator[tuple[int, "array[int]"]]:
    header, size = form
    # LMDB 1.0 counts places on a page from behind its header.
    base = header if header == _HEADERS[1] else 0
    page = read(number * size, size)
    (flags,) = _HALF.unpack_from(page, header - 6)
    (lower,) = _HALF.unpack_from(page, header - 4)
    if depth > _MAX_DEPTH:
        raise ValueError("a tree that is too deep")
    for index in range((lower + base - header) // 2):
        at = base + _HALF.unpack_from(page, header + 2 * index)[0]
        low, high, node_flags, key_size = _NODE.unpack_from(page, at)
        at += _NODE.size
        if not flags & _LEAF:
            yield from _walk(read, low | high << 16 | node_flags << 32, form, depth + 1)
            continue
        (transaction,) = _NUMBER.unpack_from(page, at)
        at += key_size
        length = low | high << 16
        if node_flags & _BIG:
            (overflow,) = _NUMBER.unpack_from(page, at)
            value = read(overflow * size + header, length)
        else:
            value = page[at : at + length]
        freed = array("Q")
        # The first number is the count of the others.
        freed.frombytes(value[_NUMBER.size :])
        yield transaction, freed
