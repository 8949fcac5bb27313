"""Common parts of the records of the store: the version byte, texts, parts with their lengths, and the two errors."""

from struct import Struct
from typing import Any, Final

from waypost.errors import StoreDamaged, StoreError, StoreTooNew

VERSION: Final = 1
_LENGTH: Final = Struct("<I")


def unpack(layout: Struct, value: bytes, what: str, version: int = VERSION) -> list[Any]:
    """The fixed fields behind the version; `version` is the newest that this kind of record has."""
    if len(value) < layout.size or value[0] != version:
        raise bad(value, what, version)
    return list(layout.unpack_from(value)[1:])


def unpack_whole(layout: Struct, value: bytes, what: str) -> list[Any]:
    """The same, of a record that has no others."""
    if len(value) > layout.size:
        raise bad(value, what)
    return unpack(layout, value, what)


def join(parts: list[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def split(value: bytes, at: int, what: str) -> list[bytes]:
    """Split what `join` joined, to the end of the value."""
    parts = []
    while at < len(value):
        start = at + _LENGTH.size
        at = start + int.from_bytes(value[at:start], "little")
        if at > len(value):
            raise damaged(what)
        parts.append(value[start:at])
    return parts


def encode_text(text: str) -> bytes:
    """Names come from packets, which can hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise damaged(what) from None


def bad(value: bytes, what: str, newest: int = VERSION) -> StoreError:
    if value and value[0] > newest:
        return StoreTooNew(f"a {what} record has format {value[0]}, and this Waypost knows formats up to {newest}")
    return damaged(what)


def damaged(what: str) -> StoreDamaged:
    return StoreDamaged(f"a {what} record of the store is damaged")
