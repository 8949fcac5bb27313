"""Common parts of all records of this package: the shape, the padding, the strings.

A record is a slotted dataclass whose fields stand in the order of the specification. `decode(buf, at)` reads it from
`buf` at offset `at` and returns the record with the offset of the byte behind it; `encode()` returns its bytes. A fixed
run of fields is one precompiled `struct.Struct`, whose tuple is handed to the constructor as it is. Reserved fields and
padding are kept as they came, so that a record nobody touched encodes to the bytes it was read from. Presence flags and
sizes that follow from other fields are computed when encoding.

The records that every message has are written for speed. `encode_into(parts)` appends the bytes in pieces and returns
their number: the pieces of a packet are joined once, and a body is copied once. Decoding leaves it to `struct` to find
the data too short, and asks for rare things together, with one test.
"""

import re
import struct

# bytes.decode and str.encode look the codec up by name, which costs more than to run it.
from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

from waypost.errors import DecodeError, EncodeError

Record = TypeVar("Record")

INFINITE: Final = 0xFFFF_FFFF

_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

PADDING: Final = (b"", bytes(1), bytes(2), bytes(3))


def attribute_name(name: str) -> str:
    """The attribute for a name of the specification: correlation_id for CorrelationID."""
    return _WORD.sub("_", name).lower()


def encodes(section: str, field: str) -> Callable[[Callable[[Record], bytes]], Callable[[Record], bytes]]:
    """Makes an EncodeError of what `struct` says of a value that does not fit its field."""

    def decorate(encode: Callable[[Record], bytes]) -> Callable[[Record], bytes]:
        @wraps(encode)
        def checked(record: Record) -> bytes:
            try:
                return encode(record)
            except struct.error as error:
                raise EncodeError(section, field, f"a value does not fit its field ({error})") from None

        return checked

    return decorate


def exactly(size: int, value: bytes, section: str, field: str) -> bytes:
    """The value, which has this many bytes: `struct` would cut or fill it without a word."""
    if len(value) != size:
        raise EncodeError(section, field, f"must have {size} bytes, not {len(value)}")
    return value


def cut_short(section: str, field: str, offset: int, have: int) -> DecodeError:
    """The buffer ends inside `field`, which starts at `offset`; `have` is the length of the buffer."""
    return DecodeError(section, field, offset, f"the data ends after {max(have - offset, 0)} bytes of this field")


def decode_text(data: bytes, section: str, field: str, offset: int) -> str:
    """UTF-16LE text with its terminating null, which is checked and removed.

    A null inside is an error. Lone surrogates survive.
    """
    units, used = utf_16_le_decode(data, "surrogatepass")
    text, null, rest = units.partition("\0")
    if rest or not null or used != len(data):
        raise bad_text(units, section, field, offset)
    return text


def encode_text(text: str, section: str, field: str) -> bytes:
    """UTF-16LE with a terminating null."""
    if "\0" in text:
        raise EncodeError(section, field, "contains a null before the end")
    return utf_16_le_encode(text + "\0", "surrogatepass")[0]


def padding_for(length: int, kept: bytes) -> bytes:
    """The bytes that bring `length` to a multiple of 4: those that came with the record if they fit, else zeros."""
    size = -length & 3
    return kept if len(kept) == size else PADDING[size]


def bad_text(text: str, section: str, field: str, offset: int) -> DecodeError:
    if text.endswith("\0"):
        return DecodeError(section, field, offset, "contains a null before the end")
    return DecodeError(section, field, offset, "must be UTF-16 text with a terminating null")
