"""The checksum that every value of the store ends with, from format 2 on.

It is XXH3 with 64 bits over the table, the key and the value, so that a record which lies under another key, or in
another table, is found as well as one whose bytes have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from xxhash import xxh3_64, xxh3_64_digest

from waypost.store.port import Item, Table

CHECKSUM_SIZE: Final = 8
# From here on it takes longer to put key and value together than to look at them one after the other.
_LARGE: Final = 4096


def seal(table: Table, key: bytes, value: bytes) -> bytes:
    """The value as it is written."""
    return value + checksum(table, key, value)


def seal_all(table: Table, items: Iterable[Item]) -> Iterator[Item]:
    """The same for many: there are a hundred thousand a second.

    One after the other, so that each takes the memory that the one before has left.
    """
    number = int(table)
    return (
        (
            key,
            value + xxh3_64_digest(key + value, number | len(key) << 8)
            if len(value) < _LARGE
            else value + checksum(table, key, value),
        )
        for key, value in items
    )


def checksum(table: Table, key: bytes, value: bytes) -> bytes:
    # The length of the key keeps its end and the beginning of the value apart.
    seed = table | len(key) << 8
    if len(value) < _LARGE:
        return xxh3_64_digest(key + value, seed)
    hasher = xxh3_64(key, seed)
    hasher.update(value)
    return hasher.digest()


def is_whole(table: Table, key: bytes, sealed: bytes) -> bool:
    """Whether these bytes are what `seal` gave for this key."""
    return sealed[-CHECKSUM_SIZE:] == checksum(table, key, sealed[:-CHECKSUM_SIZE])


def unseal(table: Table, items: Sequence[Item]) -> list[bytes]:
    """The values without their checksums, up to the first that is not whole."""
    found = [
        value
        for key, sealed in items
        if (
            xxh3_64_digest(key + (value := sealed[:-CHECKSUM_SIZE]), table | len(key) << 8)
            if len(sealed) < _LARGE
            else checksum(table, key, value := sealed[:-CHECKSUM_SIZE])
        )
        == sealed[-CHECKSUM_SIZE:]
    ]
    if len(found) == len(items):
        return found
    damaged = next(at for at, (key, sealed) in enumerate(items) if not is_whole(table, key, sealed))
    return found[:damaged]
