"""MS-MQMQ 2.2.19.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire.base_header import LAYOUT, SIGNATURE, BaseHeader

FRAME_7 = bytes.fromhex("1000 0300 4c494f52 b0080000 00460500")


def header(flags: int = 3, packet_size: int = 16) -> bytes:
    return LAYOUT.pack(0x10, 0, flags, SIGNATURE, packet_size, 0xFFFFFFFF)


@pytest.mark.spec("MQMQ-2.2.19.1-01", "MQMQ-2.2.18-01")
def test_the_fields_stand_in_their_order_in_16_bytes_little_endian() -> None:
    data = bytes.fromhex("10 c0 0b01 4c494f52 78563400 21436587")
    record, at = BaseHeader.decode(data, 0)
    assert at == 16
    assert record == BaseHeader(0x10, 0xC0, 0x010B, 0x524F494C, 0x345678, 0x87654321)
    assert record.encode() == data


@pytest.mark.spec("MQMQ-2.2.19.1-02")
def test_another_version_is_refused_and_any_reserved_byte_is_kept() -> None:
    for reserved in range(256):
        data = FRAME_7[:1] + bytes([reserved]) + FRAME_7[2:]
        assert BaseHeader.decode(data, 0)[0].encode() == data
    for version in range(256):
        if version != 0x10:
            with pytest.raises(DecodeError, match=r"VersionNumber at offset 0"):
                BaseHeader.decode(bytes([version]) + FRAME_7[1:], 0)


@pytest.mark.spec("MQMQ-2.2.19.1-03")
def test_the_signature_is_lior_on_the_wire() -> None:
    assert BaseHeader().encode()[4:8] == b"LIOR"
    with pytest.raises(DecodeError, match=r"Signature at offset 4: must be 0x524F494C, not 0x4C494F52"):
        BaseHeader.decode(FRAME_7[:4] + b"ROIL" + FRAME_7[8:], 0)


@pytest.mark.spec("MQMQ-2.2.19.1-04")
def test_the_flags_count_from_the_least_significant_bit() -> None:
    def decoded(flags: int) -> BaseHeader:
        return BaseHeader.decode(header(flags), 0)[0]

    assert [decoded(priority).priority for priority in range(8)] == list(range(8))
    for flag, accessor in (
        (0x0008, "is_internal"),
        (0x0010, "has_session_header"),
        (0x0020, "has_debug_header"),
        (0x0100, "is_traced"),
    ):
        assert getattr(decoded(flag), accessor)
        assert not getattr(decoded(0xFFFF & ~flag), accessor)


@pytest.mark.spec("MQMQ-2.2.19.1-10")
def test_reserved_bits_are_sent_as_0_and_ignored_when_received() -> None:
    assert BaseHeader().flags & ~0x013F == 0
    quiet, _ = BaseHeader.decode(header(0x0003), 0)
    noisy, _ = BaseHeader.decode(header(0x0003 | 0xFEC0), 0)
    accessors = ("priority", "is_internal", "has_session_header", "has_debug_header", "is_traced")
    assert [getattr(noisy, name) for name in accessors] == [getattr(quiet, name) for name in accessors]


@pytest.mark.spec("MQMQ-2.2.19.1-11")
def test_a_packet_has_16_bytes_to_4_megabytes() -> None:
    for size in (16, 0x00400000):
        assert BaseHeader.decode(header(packet_size=size), 0)[0].packet_size == size
    for size in (0, 15, 0x00400001, 0xFFFFFFFF):
        with pytest.raises(DecodeError, match=r"PacketSize at offset 8"):
            BaseHeader.decode(header(packet_size=size), 0)
    assert MAX_PACKET_SIZE == 0x00400000


@given(st.binary(max_size=24), st.integers(0, 8))
def test_any_bytes_give_a_header_or_an_error(data: bytes, at: int) -> None:
    try:
        record, after = BaseHeader.decode(data, at)
    except DecodeError as error:
        assert error.section == "MS-MQMQ 2.2.19.1"
    else:
        assert record.encode() == data[at:after]
