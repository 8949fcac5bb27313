"""MS-MQMQ 2.2.12 to 2.2.16: PROPVARIANT, its counted arrays and BLOB, in NDR and NDR64.

The Python type of a value follows from `vt`:

    VT_EMPTY, VT_NULL                           None
    VT_I1 to VT_UI8                             int
    VT_BOOL                                     bool; on the wire only 0xFFFF and 0x0000 are one
    VT_CLSID                                    16 bytes, or None for the NULL pointer
    VT_LPWSTR                                   str, or None for the NULL pointer
    VT_BLOB, VT_VECTOR|VT_UI1                   bytes
    VT_VECTOR|VT_UI2, |VT_I4, |VT_UI4, |VT_UI8  list of int
    VT_VECTOR|VT_CLSID                          list of 16 bytes
    VT_VECTOR|VT_LPWSTR                         list of str or None
    VT_VECTOR|VT_VARIANT                        list of PropVariant, nested at most MAX_PROPVARIANT_DEPTH levels

Another vt is an error in both directions. An empty array is written with the NULL pointer and read with either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, TypeAlias

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_PROPVARIANT_DEPTH
from waypost.wire.ndr import GUID_SIZE, I8, I16, I32, I64, U8, U16, U32, U64, NdrReader, NdrSyntax, NdrWriter
from waypost.wire.variant_types import VT_VECTOR, VarType

SECTION: Final = "MS-MQMQ 2.2.13.1"
COUNTED_ARRAY: Final = "MS-MQMQ 2.2.16"

VARIANT_TRUE: Final = 0xFFFF
VARIANT_FALSE: Final = 0x0000

# The largest member of the union is 64 bits wide in both syntaxes.
ALIGNMENT: Final = 8

INTEGERS: Final[dict[int, Struct]] = {
    VarType.VT_I1: I8,
    VarType.VT_UI1: U8,
    VarType.VT_I2: I16,
    VarType.VT_UI2: U16,
    VarType.VT_I4: I32,
    VarType.VT_UI4: U32,
    VarType.VT_I8: I64,
    VarType.VT_UI8: U64,
}

# CAUI, CAL, CAUL and CAUH. CAL is signed, as its IDL says (readings MQMQ 3.27).
INTEGER_VECTORS: Final[dict[int, Struct]] = {
    VT_VECTOR | VarType.VT_UI2: U16,
    VT_VECTOR | VarType.VT_I4: I32,
    VT_VECTOR | VarType.VT_UI4: U32,
    VT_VECTOR | VarType.VT_UI8: U64,
}

VT_BLOB: Final[int] = VarType.VT_BLOB
BYTE_VECTOR: Final = VT_VECTOR | VarType.VT_UI1
CLSID_VECTOR: Final = VT_VECTOR | VarType.VT_CLSID
LPWSTR_VECTOR: Final = VT_VECTOR | VarType.VT_LPWSTR
VARIANT_VECTOR: Final = VT_VECTOR | VarType.VT_VARIANT

# The least that one element takes on the wire: a referent, and a PROPVARIANT of no data.
ELEMENT_SIZES: Final[dict[int, int]] = {
    VT_BLOB: 1,
    BYTE_VECTOR: 1,
    **{vt: layout.size for vt, layout in INTEGER_VECTORS.items()},
    CLSID_VECTOR: GUID_SIZE,
    LPWSTR_VECTOR: 4,
    VARIANT_VECTOR: 10,
}

EMPTY: Final = frozenset({VarType.VT_EMPTY, VarType.VT_NULL})
POINTERS: Final = frozenset({VarType.VT_CLSID, VarType.VT_LPWSTR})
TYPES: Final[frozenset[int]] = frozenset({*EMPTY, *INTEGERS, VarType.VT_BOOL, *POINTERS, *ELEMENT_SIZES})

Element: TypeAlias = "int | bytes | str | PropVariant | None"
Value: TypeAlias = "int | bytes | str | Sequence[Element] | None"


@dataclass(slots=True)
class PropVariant:
    """A value that says its type."""

    vt: int
    value: Value = None
    w_reserved1: int = 0
    w_reserved2: int = 0
    w_reserved3: int = 0

    @classmethod
    def decode(cls, data: bytes) -> "PropVariant":
        """A whole NDR 2.0 stream that holds one PROPVARIANT."""
        reader = NdrReader(data, NdrSyntax.NDR20)
        record = cls.read(reader)
        reader.finish()
        return record

    def encode(self) -> bytes:
        writer = NdrWriter(NdrSyntax.NDR20)
        self.write(writer)
        return writer.finish()

    @classmethod
    def read(cls, reader: NdrReader, depth: int = 1) -> "PropVariant":
        """`depth` counts the PROPVARIANTs from the outermost to this one."""
        with reader.structure(ALIGNMENT):
            record = cls(reader.u16("vt"))
            if record.vt not in TYPES:
                raise DecodeError(SECTION, "vt", reader.offset - 2, f"0x{record.vt:04X} is not a type of the union")
            record.w_reserved1 = reader.u8("wReserved1")
            record.w_reserved2 = reader.u8("wReserved2")
            record.w_reserved3 = reader.u32("wReserved3")
            reader.union_tag(U16, record.vt, ALIGNMENT)
            record._read_arm(reader, depth)
        return record

    def write(self, writer: NdrWriter, depth: int = 1) -> None:
        """`depth` as for reading."""
        with writer.structure(ALIGNMENT):
            writer.u16(self.vt, "vt")
            writer.u8(self.w_reserved1, "wReserved1")
            writer.u8(self.w_reserved2, "wReserved2")
            writer.u32(self.w_reserved3, "wReserved3")
            writer.union_tag(U16, self.vt, ALIGNMENT)
            self._write_arm(writer, depth)

    def _read_arm(self, reader: NdrReader, depth: int) -> None:
        if layout := INTEGERS.get(self.vt):
            self.value = reader.integer(layout, "_varUnion")
        elif self.vt == VarType.VT_BOOL:
            self.value = _read_bool(reader)
        elif self.vt in POINTERS:
            reader.pointer("_varUnion", partial(self._read_pointee, reader))
        elif self.vt not in EMPTY:
            self._read_array(reader, depth)

    def _read_pointee(self, reader: NdrReader) -> None:
        self.value = reader.guid("puuid") if self.vt == VarType.VT_CLSID else reader.wide_string("pwszVal")

    def _read_array(self, reader: NdrReader, depth: int) -> None:
        count = reader.u32("cElems")
        self.value = b"" if self.vt in (VT_BLOB, BYTE_VECTOR) else []
        if not reader.pointer("pElems", partial(self._read_elements, reader, count, depth)) and count:
            raise DecodeError(COUNTED_ARRAY, "pElems", reader.offset, f"must not be NULL if cElems is {count}")

    def _read_elements(self, reader: NdrReader, count: int, depth: int) -> None:
        reader.max_count(count, ELEMENT_SIZES[self.vt], "pElems")
        if self.vt in (VT_BLOB, BYTE_VECTOR):
            self.value = reader.octets(count, "pElems")
        elif layout := INTEGER_VECTORS.get(self.vt):
            self.value = [reader.integer(layout, "pElems") for _ in range(count)]
        elif self.vt == CLSID_VECTOR:
            self.value = [reader.guid("pElems") for _ in range(count)]
        elif self.vt == LPWSTR_VECTOR:
            self.value = _read_texts(reader, count)
        elif depth < MAX_PROPVARIANT_DEPTH:
            self.value = [PropVariant.read(reader, depth + 1) for _ in range(count)]
        else:
            raise DecodeError(COUNTED_ARRAY, "pElems", reader.offset, f"must not be nested deeper than {depth} levels")

    def _write_arm(self, writer: NdrWriter, depth: int) -> None:
        match self.value:
            case None if self.vt in EMPTY:
                pass
            case None if self.vt in POINTERS:
                writer.pointer(None)
            case bool(value) if self.vt == VarType.VT_BOOL:
                writer.u16(VARIANT_TRUE if value else VARIANT_FALSE, "boolVal")
            case int(value) if self.vt in INTEGERS:
                writer.integer(INTEGERS[self.vt], value, "_varUnion")
            case bytes(value) if self.vt == VarType.VT_CLSID:
                writer.pointer(partial(writer.guid, value, "puuid"))
            case str(value) if self.vt == VarType.VT_LPWSTR:
                writer.pointer(partial(writer.wide_string, value, "pwszVal"))
            case bytes(value) if self.vt in (VT_BLOB, BYTE_VECTOR):
                writer.u32(len(value), "cElems")
                writer.pointer(partial(_write_bytes, writer, value) if value else None)
            case list(value) | tuple(value) if self.vt in ELEMENT_SIZES:
                writer.u32(len(value), "cElems")
                writer.pointer(partial(self._write_elements, writer, value, depth) if value else None)
            case value:
                kind = type(value).__name__
                raise EncodeError(SECTION, "vt", f"the type 0x{self.vt:04X} does not accept a value of type {kind}")

    def _write_elements(self, writer: NdrWriter, elements: Sequence[Element], depth: int) -> None:
        if depth == MAX_PROPVARIANT_DEPTH and self.vt == VARIANT_VECTOR:
            raise EncodeError(COUNTED_ARRAY, "pElems", f"must not be nested deeper than {depth} levels")
        writer.max_count(len(elements), "pElems")
        for element in elements:
            match element:
                case int(value) if self.vt in INTEGER_VECTORS:
                    writer.integer(INTEGER_VECTORS[self.vt], value, "pElems")
                case bytes(value) if self.vt == CLSID_VECTOR:
                    writer.guid(value, "pElems")
                case None if self.vt == LPWSTR_VECTOR:
                    writer.pointer(None)
                case str(value) if self.vt == LPWSTR_VECTOR:
                    writer.pointer(partial(writer.wide_string, value, "pElems"))
                case PropVariant() if self.vt == VARIANT_VECTOR:
                    element.write(writer, depth + 1)
                case _:
                    kind = type(element).__name__
                    reason = f"the type 0x{self.vt:04X} does not accept an element of type {kind}"
                    raise EncodeError(COUNTED_ARRAY, "pElems", reason)


def _read_bool(reader: NdrReader) -> bool:
    value = reader.u16("boolVal")
    if value not in (VARIANT_TRUE, VARIANT_FALSE):
        reason = f"must be 0xFFFF or 0x0000, not 0x{value:04X}"
        raise DecodeError("MS-MQMQ 2.2.14", "boolVal", reader.offset - 2, reason)
    return value == VARIANT_TRUE


def _read_texts(reader: NdrReader, count: int) -> list[str | None]:
    """The strings take their places when the reader comes to them."""
    texts: list[str | None] = [None] * count

    def read_text(index: int) -> None:
        texts[index] = reader.wide_string("pElems")

    for index in range(count):
        reader.pointer("pElems", partial(read_text, index))
    return texts


def _write_bytes(writer: NdrWriter, value: bytes) -> None:
    writer.max_count(len(value), "pElems")
    writer.octets(value)
