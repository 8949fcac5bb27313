"""MS-MQMQ 2.2.18.1.4 and 2.2.20.1 to 2.2.20.3."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError, UnsupportedFormatName
from waypost.limits import MAX_MQF_ELEMENTS
from waypost.wire.format_names import FormatName
from waypost.wire.multi_queue import (
    MqfAddressHeader,
    MqfDirectQueueFormatName,
    MqfDistributionQueueFormatName,
    MqfFormatNameElement,
    MqfHeaderId,
    MqfName,
    MqfSignatureHeader,
    MultiQueueFormatHeader,
    from_format_name,
    to_format_name,
)
from waypost.wire.queue_names import PrivateQueueFormatName, PublicQueueFormatName
from waypost.wire.unknown_names import UnknownFormatName

GUID_A = bytes(range(0x10, 0x20))
GUID_B = bytes(range(0x20, 0x30))
EMPTY = {
    MqfHeaderId.DESTINATION: bytes.fromhex("0c000000 6400 0000 00000000"),
    MqfHeaderId.ADMIN: bytes.fromhex("0c000000 c800 0000 00000000"),
    MqfHeaderId.RESPONSE: bytes.fromhex("0c000000 2c01 0000 00000000"),
}
NO_SIGNATURE = bytes.fromhex("5e01 0000 00000000")

units = st.integers(1, 0xFFFF).map(lambda unit: unit.to_bytes(2, "little"))
texts = st.lists(units, max_size=12).map(lambda parts: b"".join(parts).decode("utf-16-le", "surrogatepass"))
guids = st.binary(min_size=16, max_size=16)
names = st.one_of(
    st.builds(PublicQueueFormatName, guids),
    st.builds(PrivateQueueFormatName, guids, st.integers(0, 0xFFFF_FFFF)),
    st.builds(MqfDirectQueueFormatName, texts),
    st.builds(MqfDistributionQueueFormatName, guids),
)
address_headers = st.builds(
    MqfAddressHeader,
    reserved=st.integers(0, 0xFFFF),
    elements=st.lists(st.builds(MqfFormatNameElement, names, st.binary(min_size=2, max_size=2)), max_size=5),
    padding=st.binary(min_size=2, max_size=2),
)
signatures = st.builds(MqfSignatureHeader, st.integers(0, 0xFFFF), st.binary(max_size=9), st.binary(max_size=3))
headers = st.builds(MultiQueueFormatHeader, address_headers, address_headers, address_headers, signatures)


def address_header(count: int, names_hex: str) -> bytes:
    names = bytes.fromhex(names_hex)
    return (12 + len(names)).to_bytes(4, "little") + b"\x64\0\0\0" + count.to_bytes(4, "little") + names


def decode_destination(data: bytes) -> MqfAddressHeader:
    header, at = MqfAddressHeader.decode(data, 0, MqfHeaderId.DESTINATION)
    assert at == len(data)
    return header


def decoded_names(data: bytes) -> list[MqfName]:
    return [element.format_name for element in decode_destination(data).elements]


@pytest.mark.spec("MQMQ-2.2.18.1.4-01")
def test_the_format_type_selects_the_kind_of_name() -> None:
    data = address_header(
        4,
        f"0100 0000 {GUID_A.hex()} 0200 0000 {GUID_B.hex()} 0d000000"
        f"0300 4f00 5300 3a00 6100 5c00 7100 0000 0600 0000 {GUID_A.hex()}",
    )
    assert decoded_names(data) == [
        PublicQueueFormatName(GUID_A),
        PrivateQueueFormatName(GUID_B, 13),
        MqfDirectQueueFormatName("OS:a\\q"),
        MqfDistributionQueueFormatName(GUID_A),
    ]
    assert decode_destination(data).encode(MqfHeaderId.DESTINATION) == data


@pytest.mark.spec("MQMQ-2.2.18.1.4-01")
def test_another_format_type_is_refused() -> None:
    for format_type in (*({*range(256)} - {1, 2, 3, 6}), 0x0103, 0xFFFF):
        data = address_header(1, f"{format_type.to_bytes(2, 'little').hex()} 0000 {GUID_A.hex()} 00000000")
        with pytest.raises(DecodeError, match="FormatType at offset 12"):
            decode_destination(data)


@pytest.mark.spec("MQMQ-2.2.18.1.4-01")
@pytest.mark.parametrize("format_type", ["0100", "0600"])
def test_alignment_bytes_of_an_element_are_not_examined_and_come_back(format_type: str) -> None:
    data = address_header(1, f"{format_type} dead {GUID_A.hex()}")
    header = decode_destination(data)
    assert header.elements[0].padding == b"\xde\xad"
    assert header.encode(MqfHeaderId.DESTINATION) == data


@pytest.mark.spec("MQMQ-2.2.18.1.4.1-01")
def test_a_direct_name_has_no_count_and_ends_at_its_null_on_a_2_byte_boundary() -> None:
    # The first name starts 2 bytes off a 4-byte boundary, the second on one.
    data = address_header(3, "0300 6100 0000 0300 6200 6300 0000 0300 6400 0000")
    assert decoded_names(data) == [MqfDirectQueueFormatName(text) for text in ("a", "bc", "d")]


@pytest.mark.spec("MQMQ-2.2.18.1.4.1-01")
def test_two_zero_bytes_across_two_characters_do_not_end_a_direct_name() -> None:
    assert decoded_names(address_header(1, "0300 6100 0001 0000")) == [MqfDirectQueueFormatName("a\u0100")]


@pytest.mark.spec("MQMQ-2.2.18.1.4.1-01")
def test_a_direct_name_without_a_null_is_refused() -> None:
    with pytest.raises(DecodeError, match="DirectFormatName at offset 14: has no terminating null"):
        decode_destination(address_header(1, "0300 6100 6200 6300"))


@pytest.mark.spec("MQMQ-2.2.18.1.4.2-01")
def test_the_guid_of_a_distribution_list_starts_on_a_4_byte_boundary() -> None:
    behind_nothing = MqfFormatNameElement(MqfDistributionQueueFormatName(GUID_A))
    assert behind_nothing.encode(12) == b"\x06\0" + b"\0\0" + GUID_A
    behind_a_direct_name = address_header(2, f"0300 6100 0000 0600 {GUID_A.hex()}")
    assert decoded_names(behind_a_direct_name) == [
        MqfDirectQueueFormatName("a"),
        MqfDistributionQueueFormatName(GUID_A),
    ]


@pytest.mark.spec("MQMQ-2.2.18.1.7.1-01")
def test_a_public_name_is_16_bytes_of_guid() -> None:
    assert decoded_names(address_header(1, f"0100 0000 {GUID_A.hex()}")) == [PublicQueueFormatName(GUID_A)]
    with pytest.raises(DecodeError, match="PublicQueueIdentifier at offset 16"):
        decode_destination(address_header(1, f"0100 0000 {GUID_A[:15].hex()}"))


@pytest.mark.spec("MQMQ-2.2.18.1.7.2-01")
@pytest.mark.parametrize(("before", "padding"), [("", "0000"), ("0300 6100 0000", "")])
def test_a_private_name_is_an_aligned_guid_and_a_number(before: str, padding: str) -> None:
    data = address_header(2 if before else 1, f"{before} 0200 {padding} {GUID_B.hex()} 78563412")
    assert decoded_names(data)[-1] == PrivateQueueFormatName(GUID_B, 0x12345678)


@pytest.mark.spec("MQMQ-2.2.20.1-01", "MQMQ-2.2.20.2-02", "MQMQ-2.2.18-01")
def test_the_four_parts_stand_in_order_with_their_identifiers() -> None:
    header = MultiQueueFormatHeader(
        MqfAddressHeader(elements=[MqfFormatNameElement(MqfDirectQueueFormatName("d"))]),
        MqfAddressHeader(elements=[MqfFormatNameElement(MqfDirectQueueFormatName("a"))]),
        MqfAddressHeader(elements=[MqfFormatNameElement(MqfDirectQueueFormatName("r"))]),
        MqfSignatureHeader(signature=b"sign"),
    )
    data = bytes.fromhex(
        "14000000 6400 0000 01000000 0300 6400 0000 0000"
        "14000000 c800 0000 01000000 0300 6100 0000 0000"
        "14000000 2c01 0000 01000000 0300 7200 0000 0000"
        "5e01 0000 04000000 7369676e"
    )
    assert header.encode() == data
    decoded, at = MultiQueueFormatHeader.decode(data, 0)
    assert at == len(data)
    parts = (decoded.destination, decoded.administration, decoded.response)
    assert [part.elements[0].format_name for part in parts] == [MqfDirectQueueFormatName(text) for text in "dar"]
    assert decoded.signature.signature == b"sign"


@pytest.mark.spec("MQMQ-2.2.20.2-02")
@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("wrong", [0x0000, 0x0064, 0x00C8, 0x012C, 0x015E, 0xFFFF])
def test_a_wrong_header_id_is_refused(part: int, wrong: int) -> None:
    data = bytearray(b"".join(EMPTY.values()) + NO_SIGNATURE)
    if wrong == list(EMPTY)[part]:
        assert MultiQueueFormatHeader.decode(bytes(data), 0)[1] == len(data)
        return
    data[12 * part + 4 : 12 * part + 6] = wrong.to_bytes(2, "little")
    with pytest.raises(DecodeError, match=f"HeaderID at offset {12 * part + 4}"):
        MultiQueueFormatHeader.decode(bytes(data), 0)


@pytest.mark.spec("MQMQ-2.2.20.1-03", "MQMQ-2.2.20.2-03")
@pytest.mark.parametrize("garbage", ["0000", "ffff", "5a01"])
def test_each_address_part_ends_on_a_4_byte_boundary_with_any_padding(garbage: str) -> None:
    parts = [f"14000000 {header_id} 0000 01000000 0300 6400 0000 {garbage}" for header_id in ("6400", "c800", "2c01")]
    data = bytes.fromhex("".join(parts)) + NO_SIGNATURE
    header, at = MultiQueueFormatHeader.decode(data, 0)
    assert at == len(data)
    assert [len(part.elements) for part in (header.destination, header.administration, header.response)] == [1, 1, 1]
    assert header.encode() == data


def test_a_header_size_that_leaves_out_the_padding_is_read_and_comes_back() -> None:
    data = bytes.fromhex("12000000 6400 0000 01000000 0300 6400 0000 ffff")
    assert decode_destination(data).encode(MqfHeaderId.DESTINATION) == data
    with pytest.raises(DecodeError, match="FormatNameList at offset 18"):
        MqfAddressHeader.decode(data[:-1], 0, MqfHeaderId.DESTINATION)


def test_a_changed_list_gets_a_new_size_and_zero_padding() -> None:
    header = decode_destination(bytes.fromhex("14000000 6400 0000 01000000 0300 6400 0000 ffff"))
    header.elements.append(MqfFormatNameElement(MqfDirectQueueFormatName("e")))
    assert header.encode(MqfHeaderId.DESTINATION) == address_header(2, "0300 6400 0000 0300 6500 0000")
    header.elements.append(MqfFormatNameElement(MqfDirectQueueFormatName("fg")))
    header.elements.append(MqfFormatNameElement(MqfDirectQueueFormatName("")))
    header.padding = b""
    assert header.encode(MqfHeaderId.DESTINATION)[-8:] == bytes.fromhex("6700 0000 0300 0000")


@pytest.mark.spec("MQMQ-2.2.20.2-01")
def test_the_fields_of_an_address_header_and_a_reserved_field_that_is_ignored() -> None:
    assert MqfAddressHeader().encode(MqfHeaderId.DESTINATION) == EMPTY[MqfHeaderId.DESTINATION]
    data = bytes.fromhex(f"20000000 6400 adde 01000000 0100 0000 {GUID_A.hex()}")
    header = decode_destination(data)
    assert (header.header_size, header.reserved, len(header.elements)) == (32, 0xDEAD, 1)
    assert header.encode(MqfHeaderId.DESTINATION) == data


@pytest.mark.spec("MQMQ-6-01")
def test_padding_is_not_compared() -> None:
    name = MqfFormatNameElement(MqfDirectQueueFormatName("a"))
    assert MqfAddressHeader(elements=[name], padding=b"\xde\xad") == MqfAddressHeader(elements=[name])
    assert MqfAddressHeader() != MqfAddressHeader(elements=[name])
    public = PublicQueueFormatName(GUID_A)
    assert MqfFormatNameElement(public, b"\xde\xad") == MqfFormatNameElement(public)
    assert MqfFormatNameElement(public) != name


@pytest.mark.spec("MQMQ-2.2.20.2-01")
@pytest.mark.parametrize("header_size", [0, 11, 13, 16, 28, 31, 33, 36, 40, 0xFFFF_FFFF])
def test_a_header_size_that_does_not_count_the_whole_header_is_refused(header_size: int) -> None:
    data = header_size.to_bytes(4, "little") + bytes.fromhex(f"6400 0000 01000000 0100 0000 {GUID_A.hex()}") + bytes(8)
    with pytest.raises(DecodeError):
        MqfAddressHeader.decode(data, 0, MqfHeaderId.DESTINATION)


@pytest.mark.spec("MQMQ-2.2.20.2-03")
@pytest.mark.parametrize("count", [0, 1, 3, 4, 0x4000_0000, 0xFFFF_FFFF])
def test_an_element_count_that_is_not_the_number_of_elements_is_refused(count: int) -> None:
    assert len(decoded_names(address_header(2, "0300 6100 0000 0300 6200 0000"))) == 2
    with pytest.raises(DecodeError):
        decode_destination(address_header(count, "0300 6100 0000 0300 6200 0000"))


@pytest.mark.spec("MQMQ-2.2.20.2-03")
def test_no_elements_are_valid() -> None:
    assert decoded_names(EMPTY[MqfHeaderId.DESTINATION]) == []


@pytest.mark.spec("MQMQ-2.2.20.3-01")
def test_the_fields_of_a_signature_header() -> None:
    assert MqfSignatureHeader().encode() == NO_SIGNATURE
    assert MqfSignatureHeader.decode(NO_SIGNATURE, 0) == (MqfSignatureHeader(), 8)
    data = bytes.fromhex("5e01 efbe 05000000 0102030405 aabbcc")
    header, at = MqfSignatureHeader.decode(data, 0)
    assert (header.reserved, header.signature, at) == (0xBEEF, bytes((1, 2, 3, 4, 5)), 16)
    assert header.encode() == data
    with pytest.raises(DecodeError, match="ID at offset 0"):
        MqfSignatureHeader.decode(b"\x5f" + data[1:], 0)
    with pytest.raises(DecodeError, match="Signature at offset 8"):
        MqfSignatureHeader.decode(data[:12], 0)


def test_a_list_longer_than_any_name_can_make_is_refused_before_it_is_read() -> None:
    assert len(decoded_names(address_header(MAX_MQF_ELEMENTS, "0300 0000" * MAX_MQF_ELEMENTS))) == MAX_MQF_ELEMENTS
    with pytest.raises(DecodeError, match="ElementCount at offset 8"):
        decode_destination(address_header(MAX_MQF_ELEMENTS + 1, "0300 0000" * (MAX_MQF_ELEMENTS + 1)))


def test_a_direct_name_with_a_null_inside_cannot_be_encoded() -> None:
    with pytest.raises(EncodeError, match="DirectFormatName"):
        MqfDirectQueueFormatName("OS:a\0\\q").encode()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PUBLIC=13121110-1514-1716-1819-1a1b1c1d1e1f", PublicQueueFormatName(GUID_A)),
        ("PRIVATE=13121110-1514-1716-1819-1a1b1c1d1e1f\\0000000d", PrivateQueueFormatName(GUID_A, 13)),
        ("DL=13121110-1514-1716-1819-1a1b1c1d1e1f", MqfDistributionQueueFormatName(GUID_A)),
        ("DIRECT=OS:host\\PRIVATE$\\q", MqfDirectQueueFormatName("OS:host\\PRIVATE$\\q")),
    ],
)
def test_a_format_name_becomes_an_element_and_comes_back(text: str, name: MqfName) -> None:
    element = from_format_name(FormatName.parse(text))
    assert element == MqfFormatNameElement(name)
    assert str(to_format_name(element)) == text


def test_the_domain_of_a_distribution_list_is_left_out() -> None:
    name = FormatName.parse("DL=13121110-1514-1716-1819-1a1b1c1d1e1f@example.org")
    assert from_format_name(name).format_name == MqfDistributionQueueFormatName(GUID_A)


@pytest.mark.parametrize(
    "text",
    [
        "PUBLIC=13121110-1514-1716-1819-1a1b1c1d1e1f;JOURNAL",
        "PRIVATE=13121110-1514-1716-1819-1a1b1c1d1e1f\\d;JOURNAL",
        "MACHINE=13121110-1514-1716-1819-1a1b1c1d1e1f;JOURNAL",
        "MULTICAST=239.1.2.3:8001",
    ],
)
def test_a_name_without_an_element_for_it_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedFormatName, match=r"2\.2\.18\.1\.4"):
        from_format_name(FormatName.parse(text))


def test_a_direct_text_that_is_not_understood_is_an_unknown_name_that_can_be_passed_on() -> None:
    element = MqfFormatNameElement(MqfDirectQueueFormatName("nonsense"))
    name = to_format_name(element)
    assert (name, str(name)) == (UnknownFormatName("nonsense"), "UNKNOWN=nonsense")
    assert from_format_name(name) == element


@given(headers, st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_every_header_round_trips_wherever_it_stands(header: MultiQueueFormatHeader, before: int) -> None:
    data = header.encode()
    assert len(data) % 4 == 0
    decoded, at = MultiQueueFormatHeader.decode(bytes(before) + data + b"behind", before)
    assert at == before + len(data)
    assert decoded.encode() == data
    for part in ("destination", "administration", "response"):
        sent, read = getattr(header, part), getattr(decoded, part)
        assert [element.format_name for element in read.elements] == [element.format_name for element in sent.elements]
    assert decoded.signature.signature == header.signature.signature


@given(headers, st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_give_the_same_bytes_again_or_a_decode_error(
    header: MultiQueueFormatHeader, data: st.DataObject
) -> None:
    damaged = bytearray(header.encode())
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    raw = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        decoded, at = MultiQueueFormatHeader.decode(raw, 0)
    except DecodeError:
        return
    assert decoded.encode() == raw[:at]
