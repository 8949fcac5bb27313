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

# Errors for a record with a right checksum that Waypost does not understand.
UNDECODABLE: Final = (StoreDamaged, StoreTooNew, DecodeError, ValueError, LookupError, OverflowError, error)


def decoded(table: Table, key: bytes, value: bytes, decode: Callable[[bytes], _Record]) -> _Record:
    """The record of this value. Raises the error of `undecodable` if it does not decode."""
    try:
        return decode(value)
    except UNDECODABLE as reason:
        raise undecodable(table, key, reason) from reason


def undecodable(table: Table, key: bytes, reason: Exception) -> StoreError:
    """The error for a required record that does not decode. It names the record and its key.

    StoreTooNew if a newer Waypost has written the record, otherwise RecordDamaged.
    """
    if isinstance(reason, RecordDamaged):
        return reason
    name = f"{describe(table, key)} (table {table.name.lower()}, key {key.hex()})"
    if isinstance(reason, StoreTooNew):
        return StoreTooNew(f"cannot decode {name}: {reason}")
    return RecordDamaged(f"cannot decode {name}: {str(reason) or type(reason).__name__}", table, key)


def items(reader: Reader, table: Table, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
    while page := reader.scan(table, start, stop, _PAGE):
        yield from page
        start = after(page[-1][0])


def whole_table(reader: Reader, table: Table) -> Iterator[Item]:
    """All records of a table. Raises StoreDamaged if their number differs from the count of the table."""
    found = 0
    for item in items(reader, table):
        found += 1
        yield item
    check_count(reader, table, found)


def check_count(reader: Reader, table: Table, found: int) -> None:
    """Raise StoreDamaged for an unreachable record, so that it does not pass for one that never existed."""
    counted = reader.count(table)
    if counted != found:
        name = table.name.lower()
        raise StoreDamaged(f"the table {name} should have {counted} records, but {found} were found")


def keys(reader: Reader, table: Table, start: bytes = b"", stop: bytes | None = None) -> Iterator[bytes]:
    """All keys of a table or of a range, without reading the values."""
    while page := reader.keys(table, start, stop, _PAGE):
        yield from page
        start = after(page[-1])


def whole_items(reader: Reader, table: Table, start: bytes, stop: bytes) -> Iterator[Item]:
    """The undamaged records of a range, for callers that can do without the others."""
    for page in whole_pages(reader, table, start, stop, _PAGE):
        yield from page


def messages_and_damage(reader: Reader, queue: int) -> Iterator[tuple[Sequence[Item], RecordDamaged | None]]:
    """All messages of a queue with their keys, in list order. Each damage comes with an empty page."""
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
    """The LookupIdentifiers of all messages of a queue, in list order. In bulk: a million take a second."""
    found = array("Q")
    start, stop = message_range(queue)
    while page := reader.keys(Table.MESSAGES, start, stop, _PAGE):
        try:
            numbers = unpack(f">{2 * len(page)}Q", b"".join(page))
        except error:
            raise StoreDamaged(f"queue {queue} of the store has a message with an invalid key") from None
        found.extend(numbers[1::2])
        start = after(page[-1])
    if any(map(ge, found, islice(found, 1, None))):
        raise StoreDamaged(f"the messages of queue {queue} are out of order in the store: a key has changed")
    return found
