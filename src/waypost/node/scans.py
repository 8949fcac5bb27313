"""Whole tables and ranges of the store, page by page."""

from array import array
from collections.abc import Iterator, Sequence
from struct import error, unpack
from typing import Final

from waypost.errors import StoreDamaged
from waypost.store import keys
from waypost.store.port import Item, Reader, Table, after

_PAGE: Final = 10_000


def items(reader: Reader, table: Table, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
    while page := reader.scan(table, start, stop, _PAGE):
        yield from page
        start = after(page[-1][0])


def range_items(reader: Reader, table: Table, start: bytes, stop: bytes) -> Iterator[Item]:
    while page := reader.scan(table, start, stop, _PAGE):
        yield from page
        start = after(page[-1][0])


def messages(reader: Reader, queue: int) -> Iterator[Sequence[Item]]:
    """All messages of a queue with their keys, in list order."""
    start, stop = keys.message_range(queue)
    while page := reader.scan(Table.MESSAGES, start, stop, _PAGE):
        yield page
        start = after(page[-1][0])


def lookup_ids(reader: Reader, queue: int) -> "array[int]":
    """Those of all messages of a queue, in list order. In bulk: a million of them have to be there in a second."""
    found = array("Q")
    start, stop = keys.message_range(queue)
    while page := reader.keys(Table.MESSAGES, start, stop, _PAGE):
        try:
            numbers = unpack(f">{2 * len(page)}Q", b"".join(page))
        except error:
            raise StoreDamaged(f"queue {queue} of the store has a message whose key is not one") from None
        found.extend(numbers[1::2])
        start = after(page[-1])
    return found
