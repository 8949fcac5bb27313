"""C706 12.6.1 and 12.6.3.1, MS-RPCE 2.2.2.11: fragments, and how a stream is cut into them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.rpc.pdu import (
    HEADER_SIZE,
    LITTLE_ENDIAN,
    PFC_FIRST_FRAG,
    PFC_LAST_FRAG,
    PFC_OBJECT_UUID,
    Fragment,
    FragmentReader,
    Header,
    PacketType,
    SecurityTrailer,
    UnsupportedHeader,
    UnsupportedRepresentation,
    UnsupportedVersion,
    bare_fragment,
)

REQUEST = bytes.fromhex("05 00 00 03 10000000 1c00 0000 07000000 04000000 0100 0200 61626364")
SIGNED = bytes.fromhex(
    "05 00 00 03 10000000 3400 1000 07000000 01000000 0000 0200 61000000 0a 05 03 00 01000000"
    "01000000 0102030405060708 00000000"
)


def fragments() -> st.SearchStrategy[Fragment]:
    headers = st.builds(
        Header,
        ptype=st.sampled_from(PacketType),
        pfc_flags=st.integers(0, 255),
        call_id=st.integers(0, 0xFFFF_FFFF),
    )
    byte = st.integers(0, 255)
    trailers = st.builds(SecurityTrailer, byte, byte, st.just(0), byte, st.integers(0, 0xFFFF_FFFF))
    plain = st.builds(Fragment, headers, st.binary(max_size=64))
    signed = st.builds(Fragment, headers, st.binary(max_size=64), trailers, st.binary(min_size=1, max_size=40))
    return plain | signed


def test_the_header_has_its_fields_in_their_order_in_16_bytes() -> None:
    header, at = Header.decode(REQUEST, 0)
    assert at == 16
    assert header == Header(5, 0, PacketType.REQUEST, 3, LITTLE_ENDIAN, 28, 0, 7)
    assert header.is_first
    assert header.is_last
    assert not header.has_object
    assert header.encode() == REQUEST[:16]


def test_the_flags_of_a_header_have_their_bits() -> None:
    for flag, accessor in (
        (PFC_FIRST_FRAG, "is_first"),
        (PFC_LAST_FRAG, "is_last"),
        (PFC_OBJECT_UUID, "has_object"),
    ):
        assert getattr(Header(pfc_flags=flag), accessor)
        assert not getattr(Header(pfc_flags=0xFF & ~flag), accessor)


def test_a_fragment_has_its_token_at_its_end_and_the_trailer_before_it() -> None:
    fragment = Fragment.decode(SIGNED)
    assert fragment.trailer == SecurityTrailer(10, 5, 3, 0, 1)
    assert fragment.auth_value == SIGNED[-16:]
    assert fragment.body == bytes.fromhex("01000000 0000 0200 61000000")
    assert fragment.content == bytes.fromhex("01000000 0000 0200 61")
    assert fragment.encode() == SIGNED


def test_a_token_of_a_bind_is_aligned_to_4_bytes() -> None:
    fragment = Fragment(Header(ptype=PacketType.BIND), b"12345").authenticate(SecurityTrailer(10, 6), b"token")
    data = fragment.encode()
    assert data[16:24] == b"12345\0\0\0"
    assert data[24:32] == bytes([10, 6, 3, 0, 0, 0, 0, 0])
    assert data[32:] == b"token"
    assert Fragment.decode(data).content == b"12345"


def test_a_fragment_without_a_token_has_no_trailer() -> None:
    with pytest.raises(EncodeError, match="auth_value"):
        Fragment(Header(), b"", SecurityTrailer(10, 6)).encode()


def test_a_fragment_longer_than_64_kilobytes_is_no_fragment() -> None:
    with pytest.raises(EncodeError, match="header"):
        Fragment(Header(), bytes(0x1_0000)).encode()


def test_a_cancel_has_no_body() -> None:
    data = bare_fragment(PacketType.CO_CANCEL, 9).encode()
    assert data == bytes.fromhex("05 00 12 03 10000000 1000 0000 09000000")


@pytest.mark.parametrize(("major", "minor"), [(4, 0), (5, 1), (0, 0), (6, 0)])
def test_another_version_than_5_0_is_refused_and_can_be_answered(major: int, minor: int) -> None:
    with pytest.raises(UnsupportedVersion, match="rpc_vers at offset 0") as caught:
        Fragment.decode(bytes([major, minor]) + REQUEST[2:])
    assert caught.value.header.call_id == 7


def test_big_endian_integers_are_refused_and_can_be_answered() -> None:
    data = bytes.fromhex("05 00 0b 03 00000000 0048 0000 00000007") + bytes(56)
    with pytest.raises(UnsupportedRepresentation, match="packed_drep at offset 4") as caught:
        FragmentReader().feed(data)
    assert caught.value.header.call_id == 7
    assert caught.value.header.ptype == PacketType.BIND


def test_a_packet_type_of_datagrams_is_refused() -> None:
    for ptype in range(256):
        data = REQUEST[:2] + bytes([ptype]) + REQUEST[3:]
        if ptype in set(PacketType):
            assert Fragment.decode(data).header.ptype == ptype
        else:
            with pytest.raises(DecodeError, match="PTYPE at offset 2"):
                Fragment.decode(data)


@pytest.mark.parametrize("lengths", ["0f00 0000", "0000 0000", "1c00 0500", "1c00 ffff", "1d00 0000", "1b00 0000"])
def test_lengths_that_do_not_go_together_are_refused(lengths: str) -> None:
    with pytest.raises(DecodeError, match="frag_length at offset 8"):
        Fragment.decode(REQUEST[:8] + bytes.fromhex(lengths) + REQUEST[12:])


def test_padding_longer_than_the_body_is_refused() -> None:
    with pytest.raises(DecodeError, match="auth_pad_length at offset 30"):
        Fragment.decode(SIGNED[:30] + b"\x0d" + SIGNED[31:])


@given(fragments())
def test_a_fragment_comes_back_as_it_was(fragment: Fragment) -> None:
    data = fragment.encode()
    assert Fragment.decode(data) == fragment
    assert Fragment.decode(data).encode() == data


@given(st.binary(max_size=80))
def test_any_bytes_are_a_fragment_or_a_decode_error(data: bytes) -> None:
    try:
        fragment = Fragment.decode(data)
    except DecodeError:
        return
    assert fragment.encode() == data


@given(st.binary(max_size=60), st.integers(16, 76), st.integers(0, 60))
def test_any_bytes_behind_a_right_start_are_a_fragment_or_a_decode_error(rest: bytes, frag: int, auth: int) -> None:
    data = bytes.fromhex("05 00 00 03 10000000") + frag.to_bytes(2, "little") + auth.to_bytes(2, "little") + rest
    try:
        fragment = Fragment.decode(data)
    except DecodeError:
        return
    assert fragment.encode() == data


@given(st.lists(fragments(), max_size=5), st.data())
def test_a_stream_is_cut_into_its_fragments_whatever_the_segments(whole: list[Fragment], data: st.DataObject) -> None:
    stream = b"".join(fragment.encode() for fragment in whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FragmentReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == whole
    assert reader.pending == 0


def test_a_stream_byte_by_byte_is_held_until_a_fragment_is_whole() -> None:
    reader = FragmentReader()
    for at in range(len(SIGNED) - 1):
        assert reader.feed(SIGNED[at : at + 1]) == []
        assert reader.pending == at + 1
    assert [fragment.encode() for fragment in reader.feed(SIGNED[-1:])] == [SIGNED]
    assert reader.pending == 0


def test_what_came_before_a_break_is_returned_and_then_the_error_stays() -> None:
    reader = FragmentReader()
    assert len(reader.feed(REQUEST + SIGNED + bytes(HEADER_SIZE))) == 2
    assert reader.error is not None
    for _ in range(2):
        with pytest.raises(UnsupportedHeader):
            reader.feed(REQUEST)
    assert reader.pending == 0
