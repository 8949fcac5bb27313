"""The records of a range that are whole, page by page, for those who go on without the others."""

from collections.abc import Iterator, Sequence
from typing import Final

from waypost.errors import RecordDamaged
from waypost.store.port import Item, Reader, Table, after

_PAGE: Final = 1000


def whole_pages(
    reader: Reader, table: Table, start: bytes = b"", stop: bytes | None = None, limit: int = _PAGE
) -> Iterator[Sequence[Item]]:
    """Pages with one record at least. Whoever takes them may change the store between two."""
    while True:
        try:
            page = reader.scan(table, start, stop, limit)
        except RecordDamaged as damage:
            start = after(damage.key)
            continue
        if not page:
            return
        yield page
        start = after(page[-1][0])


def damaged_records(reader: Reader) -> int:
    """How many records of a store are not what was written. Reads all of it."""
    whole = sum(len(page) for table in Table for page in whole_pages(reader, table))
    return sum(map(reader.count, Table)) - whole
