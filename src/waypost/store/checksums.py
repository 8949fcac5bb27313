"""The checksum that every value of the store ends with, from format 2 on.

It is XXH3 with 64 bits over the table, the key and the value, so that a record which lies under another key, or in
another table, is found as well as one whose bytes have changed.
"""

from typing import Final

from xxhash import xxh3_64_digest

from waypost.store.port import Table

CHECKSUM_SIZE: Final = 8


def seal(table: Table, key: bytes, value: bytes) -> bytes:
    """The value as it is written."""
    return value + checksum(table, key, value)


def checksum(table: Table, key: bytes, value: bytes) -> bytes:
    # The length of the key keeps its end and the beginning of the value apart.
    return xxh3_64_digest(key + value, table | len(key) << 8)


def is_whole(table: Table, key: bytes, sealed: bytes) -> bool:
    """Whether these bytes are what `seal` gave for this key."""
    return sealed[-CHECKSUM_SIZE:] == checksum(table, key, sealed[:-CHECKSUM_SIZE])
