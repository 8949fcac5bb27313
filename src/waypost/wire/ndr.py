"""NDR 2.0 (C706 chapter 14) and NDR64 (MS-RPCE 2.2.5), little-endian: the stream that carries RPC parameters.

A structure is written inside `structure(alignment)`, member after member. A pointer is written with the function that
writes its pointee; `flush()`, called after each parameter, runs these functions in the order of C706 14.3.12.3: the
pointees of a construct follow it from left to right, and the pointees of a pointee come before its right neighbour.
Reading mirrors this, so a record with pointers is whole only after `flush()`. Reference pointers at the top level carry
nothing and need no call.

The reader checks each count against the bytes that are left before it uses it. A record lacks two things of the
wire: the content of alignment gaps (MS-RPCE 3.1.1.5.3.2.2.6) and the number of a referent. Encoding makes both again.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.guid import NULL_GUID
from waypost.wire.codec import cut_short, decode_text, encode_text

ALIGNMENT: Final = "C706 14.2.2"
INTEGER: Final = "C706 14.2.5"
OCTETS: Final = "C706 14.2.7"
CONFORMANT_ARRAY: Final = "C706 14.3.3.2"
STRING: Final = "C706 14.3.4.2"
UNION: Final = "C706 14.3.8"
STREAM: Final = "C706 14.4"

U8: Final = Struct("<B")
I8: Final = Struct("<b")
U16: Final = Struct("<H")
I16: Final = Struct("<h")
U32: Final = Struct("<I")
I32: Final = Struct("<i")
U64: Final = Struct("<Q")
I64: Final = Struct("<q")

GUID_SIZE: Final = 16
GUID_ALIGNMENT: Final = 4

# C706 14.3.10: any number but 0 will do, different for each pointer.
FIRST_REFERENT: Final = 0x0002_0000
REFERENT_STEP: Final = 4


class NdrSyntax(IntEnum):
    """The value is the width of pointers and of array counts (MS-RPCE 2.2.5.3.2, 2.2.5.3.5)."""

    NDR20 = 4
    NDR64 = 8

    @property
    def width(self) -> Struct:
        return U32 if self is NdrSyntax.NDR20 else U64

    @property
    def enum(self) -> Struct:
        """MS-RPCE 2.2.5.2: a plain enum is 16 bits in NDR and a signed 32-bit number in NDR64."""
        return U16 if self is NdrSyntax.NDR20 else I32


class _Stream(ABC):
    """Common to both directions: the syntax, the deferred pointees, and where structures begin and end."""

    __slots__ = ("_deferred", "syntax")

    def __init__(self, syntax: NdrSyntax) -> None:
        self.syntax: Final = syntax
        self._deferred: list[Callable[[], None]] = []

    @abstractmethod
    def align(self, alignment: int) -> None:
        """Goes on to the next multiple of `alignment`, counted from the start of the stream."""

    def align64(self, alignment: int) -> None:
        """The gaps of NDR64 alone: behind a structure (MS-RPCE 2.2.5.3.4.1), around a union's tag (2.2.5.3.4.4)."""
        if self.syntax is NdrSyntax.NDR64:
            self.align(alignment)

    @contextmanager
    def structure(self, alignment: int) -> Iterator[None]:
        """The members of a structure whose largest member, arms of unions included, has this alignment."""
        self.align(alignment)
        yield
        self.align64(alignment)

    def flush(self) -> None:
        """C706 14.3.12.3: the deferred pointees, each followed by its own."""
        stack = self._take_deferred()
        while stack:
            stack.pop()()
            stack += self._take_deferred()

    def _take_deferred(self) -> list[Callable[[], None]]:
        deferred = self._deferred[::-1]
        self._deferred.clear()
        return deferred


class NdrWriter(_Stream):
    """Writes one stream. A value that does not fit its type is an EncodeError."""

    __slots__ = ("_next_referent", "_out")

    def __init__(self, syntax: NdrSyntax) -> None:
        super().__init__(syntax)
        self._out = bytearray()
        self._next_referent = FIRST_REFERENT

    def finish(self) -> bytes:
        """The whole stream, with what was still deferred."""
        self.flush()
        return bytes(self._out)

    def align(self, alignment: int) -> None:
        self._out += bytes(-len(self._out) % alignment)

    def integer(self, layout: Struct, value: int, field: str) -> None:
        """One of the layouts of this module, at its natural alignment."""
        self.align(layout.size)
        try:
            self._out += layout.pack(value)
        except struct.error as error:
            raise EncodeError(INTEGER, field, f"{value!r} does not fit ({error})") from None

    def u8(self, value: int, field: str) -> None:
        self.integer(U8, value, field)

    def u16(self, value: int, field: str) -> None:
        self.integer(U16, value, field)

    def u32(self, value: int, field: str) -> None:
        self.integer(U32, value, field)

    def u64(self, value: int, field: str) -> None:
        self.integer(U64, value, field)

    def enum(self, value: int, field: str) -> None:
        self.integer(self.syntax.enum, value, field)

    def guid(self, value: bytes, field: str) -> None:
        """A GUID in place: a structure of a long, two shorts and eight octets."""
        if len(value) != GUID_SIZE:
            raise EncodeError(OCTETS, field, f"must have 16 bytes, not {len(value)}")
        self.align(GUID_ALIGNMENT)
        self._out += value

    def octets(self, value: bytes) -> None:
        self._out += value

    def max_count(self, count: int, field: str) -> None:
        """The count before the elements of a conformant array."""
        self.integer(self.syntax.width, count, field)

    def wide_string(self, text: str, field: str) -> None:
        """A conformant varying string of wchar_t with its terminating null."""
        data = encode_text(text, STRING, field)
        for count in (len(data) // 2, 0, len(data) // 2):
            self.integer(self.syntax.width, count, field)
        self._out += data

    def union_tag(self, layout: Struct, tag: int, alignment: int) -> None:
        """The switch of a union, repeated before the arm. `alignment` is that of the largest arm."""
        self.align64(alignment)
        self.integer(layout, tag, "tag")
        self.align64(alignment)

    def pointer(self, write: Callable[[], None] | None) -> None:
        """A unique pointer whose pointee `write` writes later; None is the NULL pointer."""
        if write is None:
            self.integer(self.syntax.width, 0, "referent")
            return
        self.integer(self.syntax.width, self._next_referent, "referent")
        self._next_referent += REFERENT_STEP
        self._deferred.append(write)


class NdrReader(_Stream):
    """Reader of one stream. Any fault in it is a DecodeError whose offset counts from its start."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, syntax: NdrSyntax) -> None:
        super().__init__(syntax)
        self._data = data
        self._at = 0

    @property
    def offset(self) -> int:
        return self._at

    def finish(self) -> None:
        """Reads what is still deferred. Bytes behind it are an error."""
        self.flush()
        left = len(self._data) - self._at
        if left:
            raise DecodeError(STREAM, "stream", self._at, f"{left} extra bytes follow")

    def align(self, alignment: int) -> None:
        self._skip(-self._at % alignment, ALIGNMENT, "gap")

    def integer(self, layout: Struct, field: str) -> int:
        """One of the layouts of this module, at its natural alignment."""
        self.align(layout.size)
        at = self._skip(layout.size, INTEGER, field)
        value: int = layout.unpack_from(self._data, at)[0]
        return value

    def u8(self, field: str) -> int:
        return self.integer(U8, field)

    def u16(self, field: str) -> int:
        return self.integer(U16, field)

    def u32(self, field: str) -> int:
        return self.integer(U32, field)

    def u64(self, field: str) -> int:
        return self.integer(U64, field)

    def enum(self, field: str) -> int:
        return self.integer(self.syntax.enum, field)

    def guid(self, field: str) -> bytes:
        self.align(GUID_ALIGNMENT)
        return self.octets(GUID_SIZE, field)

    def octets(self, size: int, field: str) -> bytes:
        at = self._skip(size, OCTETS, field)
        return bytes(self._data[at : self._at])

    def max_count(self, count: int, element_size: int, field: str) -> None:
        """MS-RPCE 3.1.1.5.3.2.1.1: a conformant array has as many elements as the field that dictates its size says.

        `element_size` is the least that one element takes, so that an impossible count fails here.
        """
        found = self.integer(self.syntax.width, field)
        at = self._at - self.syntax
        if found != count:
            raise DecodeError(CONFORMANT_ARRAY, field, at, f"must have {count} elements, not {found}")
        if count * element_size > len(self._data) - self._at:
            raise DecodeError(CONFORMANT_ARRAY, field, at, f"the data is too short for {count} elements")

    def wide_string(self, field: str) -> str:
        """MS-RPCE 3.1.1.5.3.2.1.10, .12: the offset is 0, and the maximum is not below what is there."""
        maximum, first, actual = (self.integer(self.syntax.width, field) for _ in range(3))
        if first != 0 or actual > maximum:
            reason = f"the counts {maximum}, {first} and {actual} do not match"
            raise DecodeError(STRING, field, self._at - 3 * self.syntax, reason)
        at = self._skip(2 * actual, STRING, field)
        return decode_text(self._data[at : self._at], STRING, field, at)

    def union_tag(self, layout: Struct, switch: int, alignment: int) -> None:
        """MS-RPCE 3.1.1.5.3.2.1.11: the tag before a union's arm repeats the member that switches the union."""
        self.align64(alignment)
        tag = self.integer(layout, "tag")
        if tag != switch:
            raise DecodeError(
                UNION, "tag", self._at - layout.size, f"must be {switch}, the switch of the union, not {tag}"
            )
        self.align64(alignment)

    def pointer(self, field: str, read: Callable[[], None]) -> bool:
        """A unique pointer whose pointee `read` reads later. False for the NULL pointer."""
        if self.integer(self.syntax.width, field) == 0:
            return False
        self._deferred.append(read)
        return True

    def _skip(self, size: int, section: str, field: str) -> int:
        """Moves over `size` bytes and returns where they start."""
        at = self._at
        if size > len(self._data) - at:
            raise cut_short(section, field, at, len(self._data))
        self._at = at + size
        return at


@dataclass(frozen=True, slots=True)
class ContextHandle:
    """C706 ndr_context_handle: 20 bytes in both syntaxes. The handle of nothing is all zeros."""

    attributes: int = 0
    uuid: bytes = NULL_GUID

    @classmethod
    def read(cls, reader: NdrReader) -> "ContextHandle":
        return cls(reader.u32("context_handle_attributes"), reader.guid("context_handle_uuid"))

    def write(self, writer: NdrWriter) -> None:
        writer.u32(self.attributes, "context_handle_attributes")
        writer.guid(self.uuid, "context_handle_uuid")

    @property
    def is_null(self) -> bool:
        return self.uuid == NULL_GUID
