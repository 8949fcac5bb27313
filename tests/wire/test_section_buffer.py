"""MS-MQRR 2.2.6, 2.2.7, and the reply of R_StartReceive (3.1.4.7) that carries the sections.

The replies marked "second marshaller" were made by impacket 0.13.1, with its own referent numbers and its own bytes in
the gaps.
"""

from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_REMOTE_PACKET_SIZE
from waypost.wire.ndr import NdrReader, NdrSyntax, NdrWriter
from waypost.wire.section_buffer import SectionBuffer, SectionType, join_sections, read_sections, write_sections

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
FULL = SectionType.ST_FULL_PACKET
FIRST, SECOND = SectionType.ST_BINARY_FIRST_SECTION, SectionType.ST_BINARY_SECOND_SECTION
SRMP_FIRST, SRMP_SECOND = SectionType.ST_SRMP_FIRST_SECTION, SectionType.ST_SRMP_SECOND_SECTION


def section(section_type: SectionType, data: bytes, left_out: int = 0) -> SectionBuffer:
    return SectionBuffer(section_type, len(data) + left_out, len(data), data)


TWO = [section(FIRST, b"hello", 4), section(SECOND, b"end")]


class Reply(NamedTuple):
    arrive_time: int
    sequence_id: int
    sections: list[SectionBuffer]
    hresult: int


def encode(reply: Reply, syntax: NdrSyntax) -> bytes:
    writer = NdrWriter(syntax)
    writer.u32(reply.arrive_time, "pdwArriveTime")
    writer.u64(reply.sequence_id, "pSequenceId")
    write_sections(writer, reply.sections)
    writer.u32(reply.hresult, "HRESULT")
    return writer.finish()


def decode(data: bytes, syntax: NdrSyntax) -> Reply:
    reader = NdrReader(data, syntax)
    arrive_time, sequence_id = reader.u32("pdwArriveTime"), reader.u64("pSequenceId")
    reply = Reply(arrive_time, sequence_id, read_sections(reader), reader.u32("HRESULT"))
    reader.finish()
    return reply


REPLY = Reply(0x11111111, 0x2222222222, TWO, 0x400E03E8)
NARROW = (
    "11111111 00000000 2222222222000000 02000000 00000200 02000000"
    "0100 0000 09000000 05000000 04000200"
    "0200 0000 03000000 03000000 08000200"
    "05000000 68656c6c6f 000000 03000000 656e64 00 e8030e40"
)
WIDE = (
    "11111111 00000000 2222222222000000 02000000 00000000 0000020000000000 0200000000000000"
    "01000000 09000000 05000000 00000000 0400020000000000"
    "02000000 03000000 03000000 00000000 0800020000000000"
    "0500000000000000 68656c6c6f 000000 0300000000000000 656e64 00 e8030e40"
)


@pytest.mark.spec("MQRR-2.2.7-01")
def test_the_section_types_and_their_width() -> None:
    assert [(int(member), member.name) for member in SectionType] == [
        (0, "ST_FULL_PACKET"),
        (1, "ST_BINARY_FIRST_SECTION"),
        (2, "ST_BINARY_SECOND_SECTION"),
        (3, "ST_SRMP_FIRST_SECTION"),
        (4, "ST_SRMP_SECOND_SECTION"),
    ]
    narrow = NdrWriter(NDR20)
    section(SRMP_SECOND, b"").write(narrow)
    # 16 bits and a gap: what stands in the gap has no meaning. NDR64 has 32 bits.
    assert narrow.finish()[:4] == bytes.fromhex("0400 0000")
    gap = bytearray.fromhex(NARROW)
    gap[30:32] = b"\xff\xff"
    assert decode(bytes(gap), NDR20) == REPLY
    wide = bytearray.fromhex(WIDE)
    wide[42] = 1
    with pytest.raises(DecodeError, match="SectionBufferType at offset 40: 65537 is not a SectionType"):
        decode(bytes(wide), NDR64)
    with pytest.raises(DecodeError, match="SectionBufferType at offset 28: 5 is not a SectionType"):
        decode(bytes.fromhex(NARROW.replace("0100 0000", "0500 0000")), NDR20)


@pytest.mark.spec("MQRR-2.2.6-02", "MQRR-6-02")
def test_a_reply_has_an_array_of_structures_with_their_bytes_behind_it() -> None:
    assert encode(REPLY, NDR20) == bytes.fromhex(NARROW)
    assert encode(REPLY, NDR64) == bytes.fromhex(WIDE)
    assert decode(bytes.fromhex(NARROW), NDR20) == REPLY
    assert decode(bytes.fromhex(WIDE), NDR64) == REPLY


@pytest.mark.spec("MQRR-2.2.6-02")
def test_the_offsets_of_a_reply_in_ndr() -> None:
    # readings MQRR 5.
    data = encode(Reply(1, 2, [section(FULL, b"packet")], 3), NDR20)
    assert (data[0], data[8], data[16], data[20:24], data[24]) == (1, 2, 1, b"\0\0\2\0", 1)
    assert data[28:44] == bytes.fromhex("00000000 06000000 06000000 04000200")
    assert data[44:48] == (6).to_bytes(4, "little")
    assert data[48:54] == b"packet"
    assert data[56:] == (3).to_bytes(4, "little")


def test_the_reply_of_a_failed_call_has_no_sections() -> None:
    failed = Reply(0, 0, [], 0xC00E001B)
    assert encode(failed, NDR20) == bytes(24) + bytes.fromhex("1b000ec0")
    assert encode(failed, NDR64) == bytes(32) + bytes.fromhex("1b000ec0")
    assert decode(encode(failed, NDR20), NDR20) == failed
    assert decode(encode(failed, NDR64), NDR64) == failed


def test_what_another_implementation_writes_is_read() -> None:
    narrow = (
        "11111111bfbfbfbf222222222200000002000000bfe50000020000000100bfbf09000000050000005dc700000200bfbf"
        "0300000003000000c33900000500000068656c6c6fefefef03000000656e64bfe8030e40"
    )  # second marshaller
    wide = (
        "11111111bfbfbfbf222222222200000002000000aaaaaaaa48680000000000000200000000000000010000000900000005000000"
        "aaaaaaaad60c000000000000020000000300000003000000aaaaaaaae6f7000000000000050000000000000068656c6c6fefefef"
        "0300000000000000656e64bfe8030e40"
    )  # second marshaller
    assert decode(bytes.fromhex(narrow), NDR20) == REPLY
    assert decode(bytes.fromhex(wide), NDR64) == REPLY


@pytest.mark.spec("MQRR-2.2.6-02")
def test_a_section_has_its_buffer_and_exactly_its_size() -> None:
    null = bytes.fromhex(NARROW.replace("04000200", "00000000"))
    with pytest.raises(DecodeError, match="pSectionBuffer at offset 40: must not be NULL"):
        decode(null, NDR20)
    for size, count in (("04000000", 4), ("06000000", 6), ("ffffffff", 0xFFFFFFFF)):
        other = bytes.fromhex(NARROW.replace("09000000 05000000", f"ffffffff {size}"))
        with pytest.raises(DecodeError, match=f"pSectionBuffer at offset 60: must have {count} elements, not 5"):
            decode(other, NDR20)
    with pytest.raises(EncodeError, match="SectionSize is 4, but the section has 5 bytes"):
        encode(REPLY._replace(sections=[SectionBuffer(FULL, 4, 4, b"hello")]), NDR20)


@pytest.mark.spec("MQRR-6-02")
def test_the_array_has_the_number_of_sections_that_the_reply_says() -> None:
    with pytest.raises(DecodeError, match="ppPacketSections at offset 24: must have 1 elements, not 2"):
        decode(bytes.fromhex(NARROW.replace("02000000 00000200", "01000000 00000200")), NDR20)
    with pytest.raises(DecodeError, match="ppPacketSections at offset 20: must not be NULL if the count is 2"):
        decode(bytes.fromhex(NARROW.replace("02000000 00000200", "02000000 00000000")), NDR20)


@pytest.mark.spec("MQRR-2.2.6-01")
def test_the_packet_is_its_sections_in_their_order() -> None:
    assert join_sections([section(FULL, b"whole packet")]) == b"whole packet"
    assert join_sections([section(FIRST, b"head+bo", 2), section(SECOND, b"tail")]) == b"head+bo\0\0tail"
    assert join_sections([section(SRMP_FIRST, b"head", 5), section(SRMP_SECOND, b"tail")]) == b"head\0\0\0\0\0tail"
    # Without trailers the first section stands alone.
    assert join_sections([section(FIRST, b"head", 1)]) == b"head\0"


@pytest.mark.parametrize(
    "sections",
    [
        [],
        [section(SECOND, b"x")],
        [section(SRMP_SECOND, b"x")],
        [section(FULL, b"x"), section(FULL, b"x")],
        [section(FULL, b"x"), section(SECOND, b"x")],
        [section(SECOND, b"x"), section(FIRST, b"x", 1)],
        [section(FIRST, b"x", 1), section(SRMP_SECOND, b"x")],
        [section(FIRST, b"x"), section(SECOND, b"x")],  # nothing was left out
        [section(FIRST, b"x", 1), section(SECOND, b"x"), section(SECOND, b"x")],
    ],
)
def test_other_sections_are_no_packet(sections: list[SectionBuffer]) -> None:
    with pytest.raises(DecodeError, match="ppPacketSections"):
        join_sections(sections)
    if sections:
        with pytest.raises(EncodeError, match="ppPacketSections"):
            encode(REPLY._replace(sections=sections), NDR20)


def test_three_sections_are_refused_before_they_are_read() -> None:
    with pytest.raises(DecodeError, match="pdwNumberOfSections at offset 16: must be at most 2, not 3"):
        decode(bytes.fromhex(NARROW.replace("02000000 00000200 02000000", "03000000 00000200 03000000")), NDR20)


@pytest.mark.spec("MQRR-2.2.6-03")
def test_the_difference_of_the_sizes_is_what_was_left_out() -> None:
    first, second = decode(encode(REPLY, NDR20), NDR20).sections
    assert (first.section_size_alloc, first.section_size, first.left_out) == (9, 5, 4)
    assert second.left_out == 0
    # With the four bytes that were left out the section has its size again.
    assert join_sections([first]) == b"hello" + bytes(4)
    assert len(join_sections([first, second])) == first.section_size_alloc + second.section_size_alloc


@pytest.mark.spec("MQRR-2.2.6-04")
def test_only_a_first_section_may_be_cut() -> None:
    for cut in (FIRST, SRMP_FIRST):
        assert len(join_sections([section(cut, b"abc", 0)])) == 3
        assert len(join_sections([section(cut, b"abc", 7)])) == 10
    wrong = [
        [section(FULL, b"abc", 1)],
        [section(FULL, b"abc", -1)],
        [section(FIRST, b"abc", -1)],
        [section(SRMP_FIRST, b"abc", -1)],
        [section(FIRST, b"abc", 1), section(SECOND, b"abc", 1)],
        [section(FIRST, b"abc", 1), section(SECOND, b"abc", -1)],
        [section(SRMP_FIRST, b"abc", 1), section(SRMP_SECOND, b"abc", 1)],
    ]
    for sections in wrong:
        with pytest.raises(DecodeError, match=r"SectionSizeAlloc \d+ does not fit SectionSize 3"):
            join_sections(sections)
        with pytest.raises(EncodeError, match=r"SectionSizeAlloc \d+ does not fit SectionSize 3"):
            encode(REPLY._replace(sections=sections), NDR20)
    with pytest.raises(DecodeError, match="SectionSizeAlloc 4 does not fit SectionSize 5"):
        decode(bytes.fromhex(NARROW.replace("09000000 05000000", "04000000 05000000")), NDR20)


def test_a_packet_beyond_all_bounds_is_not_allocated() -> None:
    join_sections([SectionBuffer(FIRST, MAX_REMOTE_PACKET_SIZE, 1, b"x")])
    for size in (MAX_REMOTE_PACKET_SIZE + 1, 0xFFFF_FFFF):
        with pytest.raises(DecodeError, match="the packet is longer than"):
            join_sections([SectionBuffer(FIRST, size, 1, b"x")])
    with pytest.raises(DecodeError, match="the packet is longer than"):
        decode(bytes.fromhex(NARROW.replace("09000000 05000000", "ffffffff 05000000")), NDR20)


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_cut_data_is_refused_wherever_it_is_cut(syntax: NdrSyntax) -> None:
    data = encode(REPLY, syntax)
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:length], syntax)


cut_sections = st.builds(section, st.just(FIRST), st.binary(max_size=9), st.integers(1, 9))
packets = st.one_of(
    st.builds(lambda data: [section(FULL, data)], st.binary(max_size=9)),
    st.builds(lambda first, rest: [first, section(SECOND, rest)], cut_sections, st.binary(max_size=9)),
    st.builds(lambda first: [first], cut_sections),
)


@settings(max_examples=100)
@given(packets, st.sampled_from(NdrSyntax))
def test_what_is_written_is_read(sections: list[SectionBuffer], syntax: NdrSyntax) -> None:
    reply = REPLY._replace(sections=sections)
    assert decode(encode(reply, syntax), syntax) == reply


@settings(max_examples=200)
@given(st.integers(1, 2), st.integers(0, 5), st.binary(max_size=80), st.sampled_from(NdrSyntax))
def test_any_bytes_give_sections_or_a_decode_error(
    count: int, section_type: int, rest: bytes, syntax: NdrSyntax
) -> None:
    head = b"".join(value.to_bytes(syntax, "little") for value in (count, 1, count))
    for data in (head + section_type.to_bytes(4, "little") + rest, rest):
        with suppress(DecodeError):
            join_sections(read_sections(NdrReader(data, syntax)))
