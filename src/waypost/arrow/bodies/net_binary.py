"""MS-NRBF, the format of the BinaryMessageFormatter of .NET: read the name of the class at the root, and no more.

A stream is a header, the libraries of its classes, and then records of objects, with the root first. Reading ends at
the name of the root's class: no value is read, and no object is made.
"""

import struct
from typing import Final

from waypost.errors import DecodeError
from waypost.limits import MAX_NRBF_LIBRARIES, MAX_NRBF_NAME

_HEADER: Final = struct.Struct("<Biiii")
_NUMBER: Final = struct.Struct("<i")

# MS-NRBF 2.1.2.1 RecordTypeEnumeration.
SERIALIZED_STREAM_HEADER: Final = 0
SYSTEM_CLASS_WITH_MEMBERS: Final = 2
CLASS_WITH_MEMBERS: Final = 3
SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES: Final = 4
CLASS_WITH_MEMBERS_AND_TYPES: Final = 5
BINARY_OBJECT_STRING: Final = 6
BINARY_ARRAY: Final = 7
BINARY_LIBRARY: Final = 12
ARRAY_SINGLE_PRIMITIVE: Final = 15
ARRAY_SINGLE_OBJECT: Final = 16
ARRAY_SINGLE_STRING: Final = 17

_CLASSES: Final = frozenset(
    {
        SYSTEM_CLASS_WITH_MEMBERS,
        CLASS_WITH_MEMBERS,
        SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES,
        CLASS_WITH_MEMBERS_AND_TYPES,
    }
)
_NAMED: Final = {
    BINARY_OBJECT_STRING: "System.String",
    ARRAY_SINGLE_OBJECT: "System.Object[]",
    ARRAY_SINGLE_STRING: "System.String[]",
}

# MS-NRBF 2.1.2.3 PrimitiveTypeEnumeration; 4 is not used.
_PRIMITIVES: Final = {
    1: "Boolean", 2: "Byte", 3: "Char", 5: "Decimal", 6: "Double", 7: "Int16", 8: "Int32", 9: "Int64", 10: "SByte",
    11: "Single", 12: "TimeSpan", 13: "DateTime", 14: "UInt16", 15: "UInt32", 16: "UInt64", 18: "String",
}  # fmt: skip

# MS-NRBF 2.1.2.2 BinaryTypeEnumeration: the type of an array's elements.
_PRIMITIVE: Final = 0
_CLASS_NAMES: Final = frozenset({3, 4})
_PRIMITIVE_ARRAY: Final = 7
_ELEMENTS: Final = {1: "System.String", 2: "System.Object", 5: "System.Object[]", 6: "System.String[]"}

# MS-NRBF 2.4.1.1 BinaryArrayTypeEnumeration: types from 3 on have lower bounds. .NET has at most 32 dimensions.
_FIRST_WITH_BOUNDS: Final = 3
_LAST_ARRAY_TYPE: Final = 5
_MAX_RANK: Final = 32


def root_type(data: bytes) -> str:
    """The name of the root's class as .NET writes it, such as `MyApp.Order`. Raises DecodeError if it is unknown."""
    return _Reader(data).root_type()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        # Offset of the field that was read last.
        self._start = 0

    def root_type(self) -> str:
        if len(self._data) < _HEADER.size:
            raise self._error("SerializationHeaderRecord", f"the data is only {len(self._data)} bytes long")
        kind, root, _, major, minor = _HEADER.unpack_from(self._data)
        if (kind, major, minor) != (SERIALIZED_STREAM_HEADER, 1, 0):
            raise self._error("SerializationHeaderRecord", f"unknown type {kind}, version {major}.{minor}")
        self._at = _HEADER.size
        kind = self._byte("RecordTypeEnum")
        for _ in range(MAX_NRBF_LIBRARIES):
            if kind != BINARY_LIBRARY:
                break
            self._number("LibraryId")
            self._skip_string("LibraryName")
            kind = self._byte("RecordTypeEnum")
        object_id = self._number("ObjectId")
        if object_id != root:
            raise self._error(
                "ObjectId", f"the first object must be the root object {root}, not the object {object_id}"
            )
        return self._type_of(kind)

    def _type_of(self, kind: int) -> str:
        if kind in _CLASSES:
            return self._name("Name")
        if kind in _NAMED:
            return _NAMED[kind]
        if kind == ARRAY_SINGLE_PRIMITIVE:
            self._number("Length")
            return f"{self._primitive()}[]"
        if kind == BINARY_ARRAY:
            return self._array()
        raise self._error("RecordTypeEnum", f"a root object with the record type {kind} has no class name")

    def _array(self) -> str:
        """MS-NRBF 2.4.3.1, after ObjectId."""
        shape = self._byte("BinaryArrayTypeEnum")
        rank = self._number("Rank")
        if shape > _LAST_ARRAY_TYPE or not 1 <= rank <= _MAX_RANK:
            raise self._error("BinaryArrayTypeEnum", f"an array of the type {shape} and the rank {rank} is not valid")
        for _ in range(rank * (2 if shape >= _FIRST_WITH_BOUNDS else 1)):
            self._number("Lengths")
        element = self._byte("TypeEnum")
        if element == _PRIMITIVE:
            name = self._primitive()
        elif element == _PRIMITIVE_ARRAY:
            name = f"{self._primitive()}[]"
        elif element in _CLASS_NAMES:
            name = self._name("AdditionalTypeInfo")
        elif element in _ELEMENTS:
            name = _ELEMENTS[element]
        else:
            raise self._error("TypeEnum", f"{element} is not a valid element type")
        return f"{name}[{',' * (rank - 1)}]"

    def _primitive(self) -> str:
        number = self._byte("PrimitiveTypeEnum")
        if number not in _PRIMITIVES:
            raise self._error("PrimitiveTypeEnum", f"{number} is not a primitive type")
        return f"System.{_PRIMITIVES[number]}"

    def _byte(self, field: str) -> int:
        self._start = self._at
        if self._at >= len(self._data):
            raise self._error(field, "the data ends before the end of this field")
        self._at += 1
        return self._data[self._at - 1]

    def _number(self, field: str) -> int:
        self._start = self._at
        if len(self._data) - self._at < _NUMBER.size:
            raise self._error(field, "the data ends before the end of this field")
        value: int = _NUMBER.unpack_from(self._data, self._at)[0]
        self._at += _NUMBER.size
        return value

    def _length(self, field: str) -> int:
        """MS-NRBF 2.1.1.6: seven bits in each of up to five bytes, the low ones first."""
        length = 0
        for shift in range(0, 35, 7):
            byte = self._byte(field)
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if length > len(self._data) - self._at:
            raise self._error(
                field, f"the length is {length} bytes, but only {len(self._data) - self._at} bytes are left"
            )
        return length

    def _skip_string(self, field: str) -> None:
        length = self._length(field)
        self._at += length

    def _name(self, field: str) -> str:
        length = self._length(field)
        if not 0 < length <= MAX_NRBF_NAME:
            raise self._error(field, f"a name must be 1 to {MAX_NRBF_NAME} bytes long, not {length}")
        try:
            name = self._data[self._at : self._at + length].decode()
        except UnicodeDecodeError:
            name = ""
        if not name.isprintable() or not name:
            raise self._error(field, "the name is empty or contains characters that are not printable")
        return name

    def _error(self, field: str, reason: str) -> DecodeError:
        return DecodeError("MS-NRBF 2", field, self._start, reason)
