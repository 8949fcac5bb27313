"""MS-MQMQ 2.2.12 to 2.2.16.

The constants marked "second marshaller" are what scapy 2.8.0 with scapy-rpc 0.0.8 made of the same values.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_PROPVARIANT_DEPTH
from waypost.wire.ndr import NdrReader, NdrSyntax, NdrWriter
from waypost.wire.propvariant import TYPES, PropVariant, Value
from waypost.wire.variant_types import VT_VECTOR, VarType

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
GUID = bytes(range(16))

SCALARS = {
    VarType.VT_I1: (1, -0x80, 0x7F),
    VarType.VT_UI1: (1, 0, 0xFF),
    VarType.VT_I2: (2, -0x8000, 0x7FFF),
    VarType.VT_UI2: (2, 0, 0xFFFF),
    VarType.VT_I4: (4, -0x8000_0000, 0x7FFF_FFFF),
    VarType.VT_UI4: (4, 0, 0xFFFF_FFFF),
    VarType.VT_I8: (8, -0x8000_0000_0000_0000, 0x7FFF_FFFF_FFFF_FFFF),
    VarType.VT_UI8: (8, 0, 0xFFFF_FFFF_FFFF_FFFF),
}
OTHERS: dict[int, Value] = {
    VarType.VT_EMPTY: None,
    VarType.VT_NULL: None,
    VarType.VT_BOOL: True,
    VarType.VT_CLSID: GUID,
    VarType.VT_BLOB: b"blob",
    VarType.VT_LPWSTR: "text",
    VT_VECTOR | VarType.VT_UI1: b"\1\2",
    VT_VECTOR | VarType.VT_UI2: [1, 0xFFFF],
    VT_VECTOR | VarType.VT_I4: [-1, 1],
    VT_VECTOR | VarType.VT_UI4: [1, 0xFFFF_FFFF],
    VT_VECTOR | VarType.VT_UI8: [1, 0xFFFF_FFFF_FFFF_FFFF],
    VT_VECTOR | VarType.VT_CLSID: [GUID, bytes(16)],
    VT_VECTOR | VarType.VT_LPWSTR: ["a", None, "bc"],
    VT_VECTOR | VarType.VT_VARIANT: [PropVariant(VarType.VT_UI4, 7), PropVariant(VarType.VT_LPWSTR, "x")],
}


def encode(record: PropVariant, syntax: NdrSyntax) -> bytes:
    writer = NdrWriter(syntax)
    record.write(writer)
    return writer.finish()


def decode(data: bytes, syntax: NdrSyntax) -> PropVariant:
    reader = NdrReader(data, syntax)
    record = PropVariant.read(reader)
    reader.finish()
    return record


def header(vt: int) -> bytes:
    """vt, the reserved fields and, in NDR 2.0, the union's tag."""
    return vt.to_bytes(2, "little") + bytes(6) + vt.to_bytes(2, "little")


@pytest.mark.spec("MQMQ-2.2.12-01")
def test_the_type_constants_and_their_16_bits_on_the_wire() -> None:
    assert {member.name: member.value for member in VarType} == {
        "VT_EMPTY": 0,
        "VT_NULL": 1,
        "VT_I2": 2,
        "VT_I4": 3,
        "VT_BOOL": 11,
        "VT_VARIANT": 12,
        "VT_I1": 16,
        "VT_UI1": 17,
        "VT_UI2": 18,
        "VT_UI4": 19,
        "VT_I8": 20,
        "VT_UI8": 21,
        "VT_LPWSTR": 31,
        "VT_BLOB": 65,
        "VT_CLSID": 72,
    }
    assert VT_VECTOR == 0x1000
    # A VARTYPE is unsigned: all 16 bits come back as a positive number, and a 17th is refused.
    with pytest.raises(DecodeError, match="vt at offset 0: 0xFFFF"):
        PropVariant.decode(header(0xFFFF))
    with pytest.raises(EncodeError, match="vt"):
        PropVariant(0x1_0003, 0).encode()


@pytest.mark.spec("MQMQ-2.2.12-02")
def test_vectors_and_variants_need_each_other_or_an_element_type() -> None:
    for alone in (VarType.VT_VARIANT, VT_VECTOR, VT_VECTOR | VarType.VT_NULL):
        with pytest.raises(DecodeError, match="is not a type of the union"):
            PropVariant.decode(header(alone) + bytes(8))
        with pytest.raises(EncodeError):
            PropVariant(alone, []).encode()
    nested = PropVariant(VT_VECTOR | VarType.VT_VARIANT, [PropVariant(VarType.VT_UI1, 5)])
    assert nested.vt == 0x100C
    # cElems 1, a referent, then the array of PROPVARIANT: the form of a CAPROPVARIANT.
    assert nested.encode() == bytes.fromhex(
        "0c100000 00000000 0c100000 01000000 00000200 01000000 11000000 00000000 1100 05"
    )
    vector = PropVariant(VT_VECTOR | VarType.VT_UI1, b"\x0a\x0b")
    assert vector.encode() == header(0x1011) + bytes.fromhex("0000 02000000 00000200 02000000 0a0b")
    for vt in (VarType.VT_EMPTY, VarType.VT_NULL):
        assert PropVariant(vt).encode() == header(vt)
        assert PropVariant.decode(header(vt)) == PropVariant(vt)
        with pytest.raises(DecodeError, match="extra bytes follow"):
            PropVariant.decode(header(vt) + bytes(4))
        with pytest.raises(EncodeError, match="does not accept a value of type int"):
            PropVariant(vt, 0).encode()


@pytest.mark.spec("MQMQ-2.2.13.1-01")
def test_the_header_is_8_bytes_and_its_reserved_fields_do_not_matter() -> None:
    record = PropVariant.decode(bytes.fromhex("1300 a1 a2 a6a5a4a3 1300 0000 78563412"))
    assert (record.vt, record.value) == (VarType.VT_UI4, 0x12345678)
    assert (record.w_reserved1, record.w_reserved2, record.w_reserved3) == (0xA1, 0xA2, 0xA3A4A5A6)
    assert record.encode() == bytes.fromhex("1300 a1 a2 a6a5a4a3 1300 0000 78563412")
    zeros = PropVariant.decode(bytes.fromhex("1300 00 00 00000000 1300 0000 78563412"))
    assert zeros == PropVariant(VarType.VT_UI4, 0x12345678)


@pytest.mark.spec("MQMQ-2.2.13.1-02")
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_the_union_has_exactly_its_types(syntax: NdrSyntax) -> None:
    known: dict[int, Value] = {**OTHERS, **{vt: largest for vt, (_, _, largest) in SCALARS.items()}}
    for vt, value in known.items():
        record = PropVariant(vt, value)
        assert decode(encode(record, syntax), syntax) == record
    assert set(known) == TYPES
    for vt in (*range(0x1100), 0x2003, 0x4003, 0x8003, 0xFFFF):
        if vt not in known:
            with pytest.raises(DecodeError, match="vt at offset 0"):
                decode(vt.to_bytes(2, "little") + bytes(6) + vt.to_bytes(2, "little") + bytes(30), syntax)
    for unknown in (8, 12, 0x1002, 0x100B, 0x1010, 0x1041, 0x4003):
        with pytest.raises(EncodeError):
            encode(PropVariant(unknown, 1), syntax)


@pytest.mark.parametrize(("vt", "limits"), SCALARS.items())
def test_an_integer_has_its_size_and_range(vt: VarType, limits: tuple[int, int, int]) -> None:
    size, smallest, largest = limits
    for value in (smallest, largest):
        data = PropVariant(vt, value).encode()
        assert data[-size:] == value.to_bytes(size, "little", signed=smallest < 0)
        # The arm stands at its own alignment in NDR 2.0, and at that of the widest arm in NDR64.
        assert len(data) == -(-10 // size) * size + size
        assert len(encode(PropVariant(vt, value), NDR64)) == 24
        assert PropVariant.decode(data).value == value
    for value in (smallest - 1, largest + 1):
        with pytest.raises(EncodeError, match="does not fit"):
            PropVariant(vt, value).encode()


@pytest.mark.spec("MQMQ-2.2.14-01")
def test_true_is_ffff_and_false_is_0000_in_16_bits() -> None:
    assert PropVariant(VarType.VT_BOOL, True).encode() == header(11) + b"\xff\xff"
    assert PropVariant(VarType.VT_BOOL, False).encode() == header(11) + b"\0\0"
    assert PropVariant.decode(header(11) + b"\xff\xff").value is True
    assert PropVariant.decode(header(11) + b"\0\0").value is False
    with pytest.raises(DecodeError, match="boolVal at offset 10: must be 0xFFFF or 0x0000, not 0x0001"):
        PropVariant.decode(header(11) + b"\1\0")
    with pytest.raises(EncodeError):
        PropVariant(VarType.VT_BOOL, 1).encode()


@pytest.mark.spec("MQMQ-2.2.15-01")
def test_a_blob_is_its_size_and_a_pointer_to_as_many_bytes() -> None:
    data = bytes.fromhex("41000000 00000000 41000000 05000000 00000200 05000000 68656c6c6f")  # second marshaller
    assert PropVariant(VarType.VT_BLOB, b"hello").encode() == data
    assert PropVariant.decode(data).value == b"hello"
    wide = bytes.fromhex(
        "4100000000000000 4100000000000000 0500000000000000 0000020000000000 0500000000000000 68656c6c6f"
    )  # second marshaller
    assert encode(PropVariant(VarType.VT_BLOB, b"hello"), NDR64) == wide
    assert decode(wide, NDR64).value == b"hello"
    with pytest.raises(DecodeError, match="must have 4 elements, not 5"):
        PropVariant.decode(data[:12] + b"\4" + data[13:])


# cElems 2 and the array, in NDR 2.0, and all of it in NDR64; the latter from the second marshaller.
ARRAYS: list[tuple[int, Value, str, str]] = [
    (VarType.VT_UI1, b"\1\2", "0102", ""),
    (VarType.VT_UI2, [1, 2], "0100 0200", ""),
    (VarType.VT_I4, [-1, 2], "ffffffff 02000000", ""),
    (
        VarType.VT_UI4,
        [1, 0xFFFF_FFFF],
        "01000000 ffffffff",
        "1310000000000000 1310000000000000 0200000000000000 0000020000000000 0200000000000000 01000000 ffffffff",
    ),
    (
        VarType.VT_UI8,
        [1, 0xFFFF_FFFF_FFFF_FFFF],
        "0100000000000000 ffffffffffffffff",
        "1510000000000000 1510000000000000 0200000000000000 0000020000000000 0200000000000000"
        "0100000000000000 ffffffffffffffff",
    ),
    (
        VarType.VT_CLSID,
        [GUID, GUID],
        "000102030405060708090a0b0c0d0e0f" * 2,
        "4810000000000000 4810000000000000 0200000000000000 0000020000000000 0200000000000000"
        "000102030405060708090a0b0c0d0e0f 000102030405060708090a0b0c0d0e0f",
    ),
    (
        VarType.VT_LPWSTR,
        ["a", "bc"],
        "04000200 08000200 02000000 00000000 02000000 61000000 03000000 00000000 03000000 620063000000",
        "1f10000000000000 1f10000000000000 0200000000000000 0000020000000000 0200000000000000"
        "0400020000000000 0800020000000000 0200000000000000 0000000000000000 0200000000000000 61000000 00000000"
        "0300000000000000 0000000000000000 0300000000000000 620063000000",
    ),
    (
        VarType.VT_VARIANT,
        [PropVariant(VarType.VT_UI4, 7), PropVariant(VarType.VT_LPWSTR, "x")],
        "13000000 00000000 13000000 07000000 1f000000 00000000 1f000000 0400020002000000 00000000 02000000 78000000",
        "",
    ),
]


@pytest.mark.spec("MQMQ-2.2.16-01")
@pytest.mark.parametrize(("element", "value", "array", "wide"), ARRAYS)
def test_a_counted_array_is_its_count_and_a_pointer_to_the_elements(
    element: int, value: Value, array: str, wide: str
) -> None:
    vt = VT_VECTOR | element
    data = header(vt) + bytes.fromhex("0000 02000000 00000200 02000000" + array)
    assert PropVariant(vt, value).encode() == data
    assert PropVariant.decode(data).value == value
    if wide:
        assert encode(PropVariant(vt, value), NDR64) == bytes.fromhex(wide)
        assert decode(bytes.fromhex(wide), NDR64).value == value
    with pytest.raises(DecodeError, match="must have 3 elements"):
        PropVariant.decode(data[:12] + b"\3" + data[13:])


def test_elements_of_a_variant_vector_are_aligned_to_8_in_both_syntaxes() -> None:
    record = PropVariant(0x100C, [PropVariant(VarType.VT_UI1, 1), PropVariant(VarType.VT_UI1, 2)])
    assert encode(record, NDR20)[24:] == header(17) + b"\1" + bytes(5) + header(17) + b"\2"
    first, second = encode(record, NDR64)[40:64], encode(record, NDR64)[64:]
    assert first == bytes.fromhex("1100000000000000 1100000000000000 0100000000000000")
    assert second == bytes.fromhex("1100000000000000 1100000000000000 0200000000000000")


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_an_empty_array_is_read_with_and_without_its_pointer(syntax: NdrSyntax) -> None:
    blob = encode(PropVariant(VarType.VT_BLOB, b""), syntax)
    assert blob[-2 * syntax :] == bytes(2 * syntax)
    assert decode(blob, syntax).value == b""
    assert decode(blob[:-syntax] + b"\1" + bytes(syntax - 1) + bytes(syntax), syntax).value == b""
    assert decode(encode(PropVariant(0x101F, []), syntax), syntax).value == []


def test_a_count_without_an_array_is_refused() -> None:
    with pytest.raises(DecodeError, match="pElems at offset 20: must not be NULL if cElems is 2"):
        PropVariant.decode(header(0x1013) + bytes.fromhex("0000 02000000 00000000"))


def test_null_pointers_are_none() -> None:
    for vt in (VarType.VT_LPWSTR, VarType.VT_CLSID):
        assert PropVariant(vt).encode() == header(vt) + bytes(6)
        assert PropVariant.decode(header(vt) + bytes(6)) == PropVariant(vt)


def nested(depth: int) -> PropVariant:
    record = PropVariant(VarType.VT_UI1, 1)
    for _ in range(depth - 1):
        record = PropVariant(VT_VECTOR | VarType.VT_VARIANT, [record])
    return record


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_nesting_has_a_bound_in_both_directions(syntax: NdrSyntax) -> None:
    deepest = encode(nested(MAX_PROPVARIANT_DEPTH), syntax)
    assert decode(deepest, syntax) == nested(MAX_PROPVARIANT_DEPTH)
    with pytest.raises(EncodeError, match="nested deeper than 8"):
        encode(nested(MAX_PROPVARIANT_DEPTH + 1), syntax)
    one_more = encode(PropVariant(0x100C, [PropVariant(VarType.VT_NULL)]), syntax)
    # The innermost element becomes a vector of one element itself.
    inner = len(encode(PropVariant(VarType.VT_UI1, 1), syntax))
    with pytest.raises(DecodeError, match="nested deeper than 8"):
        decode(deepest[:-inner] + one_more, syntax)


@pytest.mark.parametrize(
    ("vt", "value"),
    [
        (VarType.VT_UI4, "5"),
        (VarType.VT_UI4, None),
        (VarType.VT_LPWSTR, 5),
        (VarType.VT_CLSID, bytes(15)),
        (VarType.VT_BLOB, "text"),
        (VT_VECTOR | VarType.VT_LPWSTR, "text"),
        (VT_VECTOR | VarType.VT_LPWSTR, [5]),
        (VT_VECTOR | VarType.VT_UI4, [None]),
        (VT_VECTOR | VarType.VT_UI4, [-1]),
        (VT_VECTOR | VarType.VT_CLSID, ["text"]),
        (VT_VECTOR | VarType.VT_VARIANT, [5]),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_refused(vt: int, value: Any) -> None:
    with pytest.raises(EncodeError):
        PropVariant(vt, value).encode()


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_cut_data_is_refused_wherever_it_is_cut(syntax: NdrSyntax) -> None:
    data = encode(PropVariant(0x100C, [PropVariant(0x101F, ["a", "bc"]), PropVariant(VarType.VT_BLOB, b"x")]), syntax)
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:length], syntax)


texts = st.text(st.characters(exclude_characters="\0"), max_size=8)
guids = st.binary(min_size=16, max_size=16)


def of(vt: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[PropVariant]:
    octet = st.integers(0, 0xFF)
    return st.builds(PropVariant, st.just(vt), values, octet, octet, st.integers(0, 0xFFFF_FFFF))


flat = st.one_of(
    *(of(vt, st.integers(smallest, largest)) for vt, (_, smallest, largest) in SCALARS.items()),
    of(VarType.VT_NULL, st.none()),
    of(VarType.VT_BOOL, st.booleans()),
    of(VarType.VT_LPWSTR, st.none() | texts),
    of(VarType.VT_CLSID, st.none() | guids),
    of(VarType.VT_BLOB, st.binary(max_size=9)),
    of(VT_VECTOR | VarType.VT_UI2, st.lists(st.integers(0, 0xFFFF), max_size=4)),
    of(VT_VECTOR | VarType.VT_UI8, st.lists(st.integers(0, (1 << 64) - 1), max_size=4)),
    of(VT_VECTOR | VarType.VT_CLSID, st.lists(guids, max_size=3)),
    of(VT_VECTOR | VarType.VT_LPWSTR, st.lists(st.none() | texts, max_size=3)),
)
variants = st.recursive(
    flat, lambda inner: of(VT_VECTOR | VarType.VT_VARIANT, st.lists(inner, max_size=3)), max_leaves=6
)


@settings(max_examples=100)
@given(variants, st.sampled_from(NdrSyntax))
def test_what_is_written_is_read(record: PropVariant, syntax: NdrSyntax) -> None:
    assert decode(encode(record, syntax), syntax) == record


@settings(max_examples=200)
@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=80), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(vt: int, rest: bytes, syntax: NdrSyntax) -> None:
    head = header(vt) if syntax is NDR20 else header(vt) + bytes(6)
    for data in (head + rest, rest):
        with suppress(DecodeError):
            record = decode(data, syntax)
            assert decode(encode(record, syntax), syntax) == record
