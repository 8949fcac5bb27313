"""Whole tables and ranges of the store, page by page."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import ge
from struct import error, unpack
from typing import Final, TypeVar

from waypost.errors import DecodeError, RecordDamaged, StoreDamaged, StoreError, StoreTooNew
from waypost.store.descriptions import describe
from waypost.store.keys import message_range
from waypost.store.port import Item, Reader, Table, after
from waypost.store.whole import whole_pages

_PAGE: Final = 10_000
_Record = TypeVar("_Record")

# What is raised for a record that is whole and says nothing that Waypost understands.
UNDECODABLE: Final = (StoreDamaged, StoreTooNew, DecodeError, ValueError, LookupError, OverflowError, error)


def decoded(table: Table, key: bytes, value: bytes, decode: Callable[[bytes], _Record]) -> _Record:
    """The record that is this value. Raises what `undecodable` gives if it is not one."""
    try:
        return decode(value)
    except UNDECODABLE as reason:
        raise undecodable(table, key, reason) from reason


def undecodable(table: Table, key: bytes, reason: Exception) -> StoreError:
    """The error for a record that is needed and cannot be decoded. It names the record and its key.

    StoreTooNew if a newer Waypost has written the record, else RecordDamaged.
    """
    if isinstance(reason, RecordDamaged):
        return reason
    name = f"{describe(table, key)} (table {table.name.lower()}, key {key.hex()})"
    if isinstance(reason, StoreTooNew):
        return StoreTooNew(f"{name} cannot be decoded: {reason}")
    return RecordDamaged(f"{name} cannot be decoded: {str(reason) or type(reason).__name__}", table, key)


def items(reader: Reader, table: Table, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
    while page := reader.scan(table, start, stop, _PAGE):
        yield from page
        start = after(page[-1][0])


def whole_table(reader: Reader, table: Table) -> Iterator[Item]:
    """All records of a table. Raises StoreDamaged if they are not as many as the table counts."""
    found = 0
    for item in items(reader, table):
        found += 1
        yield item
    check_count(reader, table, found)


def check_count(reader: Reader, table: Table, found: int) -> None:
    """A record that cannot be reached is not silently taken for one that never was."""
    counted = reader.count(table)
    if counted != found:
        raise StoreDamaged(f"the table {table.name.lower()} of the store counts {counted} records, and has {found}")


def keys(reader: Reader, table: Table) -> Iterator[bytes]:
    """All keys of a table, without a look at the values."""
    start = b""
    while page := reader.keys(table, start, None, _PAGE):
        yield from page
        start = after(page[-1])


def whole_items(reader: Reader, table: Table, start: bytes, stop: bytes) -> Iterator[Item]:
    """The records of a range that are not damaged, for those who need not have all."""
    for page in whole_pages(reader, table, start, stop, _PAGE):
        yield from page


def messages_and_damage(reader: Reader, queue: int) -> Iterator[tuple[Sequence[Item], RecordDamaged | None]]:
    """All messages of a queue with their keys, in list order. What is damaged comes behind a page that is empty."""
    start, stop = message_range(queue)
    while True:
        try:
            page = reader.scan(Table.MESSAGES, start, stop, _PAGE)
        except RecordDamaged as damage:
            yield (), damage
            start = after(damage.key)
            continue
        if not page:
            return
        yield page, None
        start = after(page[-1][0])


def lookup_ids(reader: Reader, queue: int) -> "array[int]":
    """Those of all messages of a queue, in list order. In bulk: a million of them have to be there in a second."""
    found = array("Q")
    start, stop = message_range(queue)
    while page := reader.keys(Table.MESSAGES, start, stop, _PAGE):
        try:
            numbers = unpack(f">{2 * len(page)}Q", b"".join(page))
        except error:
            raise StoreDamaged(f"queue {queue} of the store has a message whose key is not one") from None
        found.extend(numbers[1::2])
        start = after(page[-1])
    if any(map(ge, found, islice(found, 1, None))):
        raise StoreDamaged(f"the messages of queue {queue} are out of order in the store: a key has changed")
    return found
