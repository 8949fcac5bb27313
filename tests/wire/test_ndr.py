"""C706 chapter 14 and MS-RPCE 2.2.5."""

import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.wire.ndr import I8, I16, I32, I64, U8, U16, U32, U64, ContextHandle, NdrReader, NdrSyntax, NdrWriter

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
GUID = bytes(range(16))


def written(syntax: NdrSyntax, write: Callable[[NdrWriter], None]) -> bytes:
    writer = NdrWriter(syntax)
    write(writer)
    return writer.finish()


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_integers_stand_at_multiples_of_their_size(syntax: NdrSyntax) -> None:
    def write(writer: NdrWriter) -> None:
        writer.u8(0xA1, "a")
        writer.u16(0xB1B2, "b")
        writer.u8(0xC1, "c")
        writer.integer(I32, -2, "d")
        writer.integer(I16, -3, "e")
        writer.u64(0xE1E2E3E4E5E6E7E8, "f")
        writer.u8(0xF1, "g")
        writer.guid(GUID, "h")
        writer.integer(I64, -4, "i")
        writer.u32(0xF00D, "j")

    data = written(syntax, write)
    assert data == bytes.fromhex(
        "a1 00 b2b1 c1 000000 feffffff fdff 0000 e8e7e6e5e4e3e2e1 f1 000000"
        "000102030405060708090a0b0c0d0e0f 00000000 fcffffffffffffff 0df00000"
    )
    reader = NdrReader(data, syntax)
    assert (reader.u8("a"), reader.u16("b"), reader.u8("c"), reader.integer(I32, "d")) == (0xA1, 0xB1B2, 0xC1, -2)
    assert (reader.integer(I16, "e"), reader.u64("f"), reader.u8("g")) == (-3, 0xE1E2E3E4E5E6E7E8, 0xF1)
    assert (reader.guid("h"), reader.integer(I64, "i"), reader.u32("j")) == (GUID, -4, 0xF00D)
    reader.finish()


def test_an_enum_has_16_bits_in_ndr_and_32_in_ndr64() -> None:
    assert written(NDR20, lambda writer: writer.enum(3, "e")) == bytes.fromhex("0300")
    assert written(NDR64, lambda writer: writer.enum(3, "e")) == bytes.fromhex("03000000")
    assert NdrReader(bytes.fromhex("ffff"), NDR20).enum("e") == 0xFFFF
    assert NdrReader(bytes.fromhex("ffffffff"), NDR64).enum("e") == -1


def test_the_trailing_gap_of_a_structure_exists_in_ndr64_only() -> None:
    def write(writer: NdrWriter) -> None:
        with writer.structure(4):
            writer.integer(I32, 1, "l")
            writer.integer(I16, 2, "s")

    # MS-RPCE 4.8 StructWithPad: 8 bytes.
    assert written(NDR20, write) == bytes.fromhex("01000000 0200")
    assert written(NDR64, write) == bytes.fromhex("01000000 0200 0000")


def test_a_union_aligns_its_tag_and_its_arm_in_ndr64_only() -> None:
    def write(writer: NdrWriter) -> None:
        writer.u8(7, "before")
        writer.union_tag(U8, 2, 8)
        writer.u8(9, "arm")

    assert written(NDR20, write) == bytes.fromhex("07 02 09")
    assert written(NDR64, write) == bytes.fromhex("07" + "00" * 7 + "02" + "00" * 7 + "09")


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_tag_that_is_not_the_switch_is_refused(syntax: NdrSyntax) -> None:
    data = written(syntax, lambda writer: writer.union_tag(U16, 2, 8))
    NdrReader(data, syntax).union_tag(U16, 2, 8)
    with pytest.raises(DecodeError, match=r"tag at offset 0: must be 3, .* not 2 \(C706 14.3.8\)"):
        NdrReader(data, syntax).union_tag(U16, 3, 8)


def test_a_string_has_three_counts_and_its_null() -> None:
    for syntax, counts in ((NDR20, "03000000 00000000 03000000"), (NDR64, "03" + "00" * 15 + "03" + "00" * 7)):
        data = written(syntax, lambda writer: writer.wide_string("hé", "s"))
        assert data == bytes.fromhex(counts + "6800 e900 0000")
        assert NdrReader(data, syntax).wide_string("s") == "hé"


@pytest.mark.parametrize(
    "data",
    [
        "02000000 01000000 01000000 4100 0000",  # an offset
        "01000000 00000000 02000000 4100 0000",  # more than the maximum
        "02000000 00000000 02000000 4100 4200",  # no null
        "02000000 00000000 02000000 0000 0000",  # two nulls
        "00000000 00000000 00000000",  # not even the null
        "ffffffff 00000000 ffffffff 4100 0000",  # longer than the data
        "02000000 00000000",
    ],
)
def test_a_string_that_contradicts_itself_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        NdrReader(bytes.fromhex(data), NDR20).wide_string("s")


def test_a_maximum_above_the_length_of_a_string_is_accepted() -> None:
    data = bytes.fromhex("ffffffff 00000000 02000000 4100 0000")
    assert NdrReader(data, NDR20).wide_string("s") == "A"


def test_an_array_has_the_number_of_elements_that_its_size_says() -> None:
    data = bytes.fromhex("03000000 010203")
    NdrReader(data, NDR20).max_count(3, 1, "a")
    with pytest.raises(DecodeError, match=r"a at offset 0: must have 4 elements, not 3 \(C706 14.3.3.2\)"):
        NdrReader(data, NDR20).max_count(4, 1, "a")
    with pytest.raises(DecodeError, match="too short for 3 elements"):
        NdrReader(data, NDR20).max_count(3, 2, "a")
    with pytest.raises(DecodeError, match="too short"):
        NdrReader(b"\xff" * 8, NDR64).max_count(0xFFFF_FFFF_FFFF_FFFF, 1, "a")


def write_tree(writer: NdrWriter) -> None:
    """struct { A *a; long x; B *b; } where A is struct { char *p; char *q; } and B is a char."""

    def write_a() -> None:
        writer.pointer(partial(writer.u8, 0xA1, "p"))
        writer.pointer(partial(writer.u8, 0xA2, "q"))

    writer.pointer(write_a)
    writer.u32(0xEEEEEEEE, "x")
    writer.pointer(partial(writer.u8, 0xB1, "b"))


def test_the_pointees_of_a_pointee_come_before_its_right_neighbour() -> None:
    # C706 14.3.12.3: the structure, then *a, then *p and *q, then *b.
    assert written(NDR20, write_tree) == bytes.fromhex(
        "00000200 eeeeeeee 04000200   08000200 0c000200   a1 a2   b1",
    )
    assert written(NDR64, write_tree) == bytes.fromhex(
        "0000020000000000 eeeeeeee 00000000 0400020000000000   0800020000000000 0c00020000000000   a1 a2   b1",
    )


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_reading_defers_pointees_as_writing_does(syntax: NdrSyntax) -> None:
    reader = NdrReader(written(syntax, write_tree), syntax)
    found: list[int] = []

    def read_octet() -> None:
        found.append(reader.u8("octet"))

    def read_a() -> None:
        assert reader.pointer("p", read_octet)
        assert reader.pointer("q", read_octet)

    assert reader.pointer("a", read_a)
    found.append(reader.u32("x"))
    assert reader.pointer("b", read_octet)
    reader.finish()
    assert found == [0xEEEEEEEE, 0xA1, 0xA2, 0xB1]


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_null_pointer_is_zero_and_has_no_pointee(syntax: NdrSyntax) -> None:
    data = written(syntax, lambda writer: writer.pointer(None))
    assert data == bytes(syntax)
    reader = NdrReader(data, syntax)
    assert not reader.pointer("p", lambda: pytest.fail("NULL has no pointee"))
    reader.finish()


def test_a_long_chain_of_pointers_needs_no_recursion() -> None:
    reader = NdrReader(b"\1" * 40_000, NDR20)

    def read_next() -> None:
        if reader.offset < 40_000:
            reader.pointer("next", read_next)

    read_next()
    reader.finish()
    assert reader.offset == 40_000


def test_the_content_of_gaps_is_ignored() -> None:
    reader = NdrReader(bytes.fromhex("01 efefef 02000000"), NDR20)
    assert (reader.u8("a"), reader.u32("b")) == (1, 2)


def test_bytes_behind_the_end_are_refused() -> None:
    reader = NdrReader(bytes(5), NDR20)
    reader.u32("a")
    with pytest.raises(DecodeError, match="stream at offset 4: 1 extra bytes follow"):
        reader.finish()


@pytest.mark.parametrize(("layout", "value"), [(U8, 256), (I8, 128), (U16, -1), (U32, 1 << 32), (I64, 1 << 63)])
def test_a_number_that_does_not_fit_is_refused(layout: struct.Struct, value: int) -> None:
    with pytest.raises(EncodeError, match=r"dwSize: .* does not fit .*\(C706 14.2.5\)"):
        NdrWriter(NDR20).integer(layout, value, "dwSize")


def test_a_guid_of_another_length_and_a_string_with_a_null_are_refused() -> None:
    with pytest.raises(EncodeError, match="must have 16 bytes, not 15"):
        NdrWriter(NDR20).guid(bytes(15), "guid")
    with pytest.raises(EncodeError, match="null before the end"):
        NdrWriter(NDR20).wide_string("a\0b", "text")


@pytest.mark.spec("MQRR-2.2.4-02")
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_context_handle_is_20_bytes_whatever_its_declared_type(syntax: NdrSyntax) -> None:
    # One record serves both types: what R_OpenQueue returned as SERIALIZE is sent back as NOSERIALIZE.
    returned_as_serialize = written(syntax, ContextHandle(0x04030201, GUID).write)
    assert returned_as_serialize == bytes.fromhex("01020304") + GUID
    reader = NdrReader(returned_as_serialize, syntax)
    sent_as_noserialize = ContextHandle.read(reader)
    reader.finish()
    assert written(syntax, sent_as_noserialize.write) == returned_as_serialize


def test_the_null_context_handle_is_all_zeros() -> None:
    assert written(NDR20, ContextHandle().write) == bytes(20)
    assert ContextHandle().is_null
    assert not ContextHandle(0, GUID).is_null


@settings(max_examples=200)
@given(st.sampled_from(NdrSyntax), st.text(), st.integers(0, 0xFF), st.integers(0, (1 << 64) - 1))
def test_what_is_written_is_read(syntax: NdrSyntax, text: str, small: int, large: int) -> None:
    text = text.replace("\0", "")

    def write(writer: NdrWriter) -> None:
        writer.u8(small, "small")
        writer.pointer(partial(writer.wide_string, text, "text"))
        writer.flush()
        writer.u64(large, "large")

    reader = NdrReader(written(syntax, write), syntax)
    texts: list[str] = []
    assert reader.integer(U8, "small") == small
    reader.pointer("text", lambda: texts.append(reader.wide_string("text")))
    reader.flush()
    assert reader.integer(U64, "large") == large
    reader.finish()
    assert texts == [text]


@settings(max_examples=200)
@given(st.sampled_from(NdrSyntax), st.binary(max_size=60))
def test_any_bytes_give_values_or_a_decode_error(syntax: NdrSyntax, data: bytes) -> None:
    reader = NdrReader(data, syntax)
    texts: list[str] = []
    with suppress(DecodeError):
        ContextHandle.read(reader)
        reader.pointer("text", lambda: texts.append(reader.wide_string("text")))
        reader.finish()
    assert reader.offset <= len(data)
