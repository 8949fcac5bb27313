"""MS-MQMQ 2.2.20.7, MS-MQRR 2.2.5.1.2.1 and 2.2.5.1.2.2."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader

SRMP_VECTOR = (Path(__file__).parents[1] / "vectors" / "srmp-user-message.bin").read_bytes()
ENVELOPE_AT, COMPOUND_AT, EXTENSION_AT = 0xE4, 0x524, 0x940

SOAP = bytes.fromhex("2003 0000 03000000 6800 6900 0000 ffff 8403 0000 02000000 6200 0000")

u16 = st.integers(0, 0xFFFF)
units = st.integers(1, 0xFFFF).map(lambda unit: unit.to_bytes(2, "little"))
texts = st.lists(units, max_size=12).map(lambda parts: b"".join(parts).decode("utf-16-le", "surrogatepass"))
two_bytes = st.binary(min_size=2, max_size=2)
soap_headers = st.builds(SoapHeader, u16, st.none() | texts, two_bytes, u16, st.none() | texts, two_bytes)
envelopes = st.builds(SrmpEnvelopeHeader, u16, u16, texts, two_bytes)


@st.composite
def compound_messages(draw: st.DrawFn) -> CompoundMessageHeader:
    data = draw(st.binary(max_size=30))
    offset = draw(st.integers(0, len(data)))
    size = draw(st.integers(0, len(data) - offset))
    return CompoundMessageHeader(draw(u16), draw(u16), size, offset, data, draw(st.binary(max_size=3)))


@pytest.mark.spec("MQMQ-2.2.20.7-01", "MQMQ-2.2.18-01")
def test_the_fields_of_a_soap_header_stand_in_their_order() -> None:
    data = bytes.fromhex("2003 1122 02000000 6800 0000 8403 3344 02000000 6200 0000")
    header, at = SoapHeader.decode(data, 0)
    assert at == len(data)
    assert (header.reserved, header.header, header.reserved1, header.body) == (0x2211, "h", 0x4433, "b")
    assert header.encode() == data
    assert SoapHeader(header="h", body="b").encode() == bytes.fromhex(
        "2003 0000 02000000 6800 0000 8403 0000 02000000 6200 0000"
    )


@pytest.mark.spec("MQMQ-2.2.20.7-01")
@pytest.mark.parametrize(("place", "field"), [(0, "HeaderSectionID"), (16, "BodySectionID")])
@pytest.mark.parametrize("wrong", [0x0000, 0x0321, 0x0385, 0x0190, 0xFFFF])
def test_another_section_identifier_is_refused(place: int, field: str, wrong: int) -> None:
    data = SOAP[:place] + wrong.to_bytes(2, "little") + SOAP[place + 2 :]
    with pytest.raises(DecodeError, match=f"{field} at offset {place}"):
        SoapHeader.decode(data, 0)


@pytest.mark.spec("MQMQ-2.2.20.7-02")
def test_soap_lengths_count_utf16_units_with_the_null() -> None:
    header, at = SoapHeader.decode(SOAP, 0)
    assert (header.header, header.body, at) == ("hi", "b", len(SOAP))
    outside_the_bmp = SoapHeader(header="\U0001f600", body="").encode()
    assert outside_the_bmp[4:8] == (3).to_bytes(4, "little")
    assert outside_the_bmp[20:24] == (1).to_bytes(4, "little")
    # Lengths in bytes, 6 and 4, run into what follows.
    with pytest.raises(DecodeError):
        SoapHeader.decode(SOAP[:4] + b"\x06" + SOAP[5:], 0)
    with pytest.raises(DecodeError, match="Body at offset 24"):
        SoapHeader.decode(SOAP[:20] + b"\x04" + SOAP[21:], 0)


def test_each_soap_part_ends_on_a_4_byte_boundary_and_its_padding_comes_back() -> None:
    header, _ = SoapHeader.decode(SOAP, 0)
    assert (header.header_padding, header.body_padding) == (b"\xff\xff", b"")
    assert header.encode() == SOAP


def test_a_soap_text_of_length_0_is_absent_and_one_of_length_1_is_empty() -> None:
    absent = bytes.fromhex("2003 0000 00000000 8403 0000 00000000")
    empty = bytes.fromhex("2003 0000 01000000 0000 0000 8403 0000 01000000 0000 0000")
    assert SoapHeader.decode(absent, 0) == (SoapHeader(), len(absent))
    header, _ = SoapHeader.decode(empty, 0)
    assert (header.header, header.body) == ("", "")
    assert (SoapHeader().encode(), header.encode()) == (absent, empty)


@pytest.mark.parametrize("length", [4, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_a_soap_length_beyond_the_packet_is_refused(length: int) -> None:
    with pytest.raises(DecodeError, match="Body at offset 24"):
        SoapHeader.decode(SOAP[:20] + length.to_bytes(4, "little") + SOAP[24:], 0)


@pytest.mark.spec("MQRR-2.2.5.1.2.1-01")
def test_the_fields_of_an_envelope_stand_in_their_order_and_reserved_is_ignored() -> None:
    data = bytes.fromhex("9001 adde 03000000 3c00 3e00 0000 5a5a")
    header, at = SrmpEnvelopeHeader.decode(data, 0)
    assert (header.header_id, header.reserved, header.data, at) == (0x0190, 0xDEAD, "<>", len(data))
    assert header.encode() == data


@pytest.mark.spec("MQRR-2.2.5.1.2.1-01")
@pytest.mark.parametrize(
    "data",
    [
        "0000 0000 00000000",
        "0000 0000 02000000 3c00 3e00",
        "0000 0000 02000000 0000 0000",
        "0000 0000 03000000 3c00 0000",
        "0000 0000 ffffffff 3c00 0000",
    ],
)
def test_an_envelope_that_is_not_text_with_one_null_at_its_end_is_refused(data: str) -> None:
    with pytest.raises(DecodeError, match="Data"):
        SrmpEnvelopeHeader.decode(bytes.fromhex(data), 0)


@pytest.mark.spec("MQRR-2.2.5.1.2.1-01")
def test_the_envelope_of_the_vector_is_counted_in_units_and_padded_to_4() -> None:
    header, at = SrmpEnvelopeHeader.decode(SRMP_VECTOR, ENVELOPE_AT)
    assert at == COMPOUND_AT
    assert len(header.data) + 1 == 0x21B
    assert header.data.startswith("<se:Envelope ")
    assert header.data.endswith("</se:Envelope>\r\n\r\n")
    assert header.encode() == SRMP_VECTOR[ENVELOPE_AT:COMPOUND_AT]


@pytest.mark.spec("MQRR-2.2.5.1.2.2-01")
def test_the_fields_of_a_compound_message_stand_in_their_order_and_reserved_is_ignored() -> None:
    data = bytes.fromhex("f401 adde 05000000 02000000 03000000 0102030405 aabbcc")
    header, at = CompoundMessageHeader.decode(data, 0)
    assert (header.header_id, header.reserved, header.msg_body_size, header.msg_body_offset) == (0x01F4, 0xDEAD, 2, 3)
    assert (header.data, at) == (bytes((1, 2, 3, 4, 5)), len(data))
    assert header.encode() == data


@pytest.mark.spec("MQRR-2.2.5.1.2.2-02")
def test_the_compound_message_of_the_vector_holds_the_post_and_in_it_the_body() -> None:
    header, at = CompoundMessageHeader.decode(SRMP_VECTOR, COMPOUND_AT)
    assert at == EXTENSION_AT
    assert len(header.data) == 0x40C
    assert header.data.startswith(b"POST /msmq HTTP/1.1\r\n")
    assert (header.msg_body_offset, header.message_body) == (0x3E3, b"Message")
    assert header.encode() == SRMP_VECTOR[COMPOUND_AT:EXTENSION_AT]


@pytest.mark.spec("MQRR-2.2.5.1.2.2-02")
def test_http_body_size_is_the_size_of_the_data() -> None:
    assert CompoundMessageHeader(data=b"12345").encode()[4:8] == (5).to_bytes(4, "little")
    for size in (9, 0xFFFF_FFFF):
        with pytest.raises(DecodeError, match="Data at offset 16"):
            CompoundMessageHeader.decode(bytes(4) + size.to_bytes(4, "little") + bytes(8) + b"12345678", 0)


@pytest.mark.spec("MQRR-2.2.5.1.2.2-02")
@pytest.mark.parametrize(("size", "offset"), [(5, 0), (1, 4), (0, 5), (0xFFFF_FFFF, 0xFFFF_FFFF)])
def test_a_message_body_outside_the_data_is_refused_both_ways(size: int, offset: int) -> None:
    fixed = b"".join(number.to_bytes(4, "little") for number in (0x01F4, 4, size, offset))
    with pytest.raises(DecodeError, match="MsgBodySize at offset 8"):
        CompoundMessageHeader.decode(fixed + b"data", 0)
    with pytest.raises(EncodeError, match="MsgBodySize"):
        CompoundMessageHeader(msg_body_size=size, msg_body_offset=offset, data=b"data").encode()


@given(soap_headers | envelopes | compound_messages(), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_every_header_round_trips(header: SoapHeader | SrmpEnvelopeHeader | CompoundMessageHeader, before: int) -> None:
    data = header.encode()
    decoded, at = type(header).decode(bytes(before) + data + b"behind", before)
    assert at == before + len(data)
    assert len(data) % 4 == 0
    assert decoded.encode() == data
    for name in ("reserved", "reserved1", "header", "body", "header_id", "data", "msg_body_offset", "msg_body_size"):
        assert getattr(decoded, name, None) == getattr(header, name, None)


@pytest.mark.parametrize("kind", [SoapHeader, SrmpEnvelopeHeader, CompoundMessageHeader])
@given(
    st.binary(max_size=40) | st.binary(max_size=24).map(lambda tail: b"\x20\x03\0\0\1\0\0\0\0\0\0\0\x84\x03\0\0" + tail)
)
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_the_same_bytes_again_or_a_decode_error(
    kind: type[SoapHeader | SrmpEnvelopeHeader | CompoundMessageHeader], data: bytes
) -> None:
    try:
        header, at = kind.decode(data, 0)
    except DecodeError:
        return
    assert header.encode() == data[:at]
