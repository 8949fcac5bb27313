"""MS-MQMQ 2.2.19.3."""

import struct

import pytest
from hypothesis import given

from tests.wire.strategies import property_headers
from waypost.errors import DecodeError, EncodeError
from waypost.wire import message_properties
from waypost.wire.message_properties import MessagePropertiesHeader

CORRELATION = bytes(range(20))


def raw(
    *, flags: int = 0, label: bytes = b"", label_length: int | None = None, sizes: tuple[int, int, int] = (0, 0, 0)
) -> bytes:  # fmt: skip
    """The header by hand; `sizes` are MessageSize, AllocationBodySize and ExtensionSize."""
    length = len(label) // 2 if label_length is None else label_length
    fixed = struct.pack("<BBH20sIIII", flags, length, 0x8002, CORRELATION, 8, 9, sizes[0], sizes[1])
    return fixed + struct.pack("<IIII", 3, 0x800E, 0x6610, sizes[2]) + label


def decode(data: bytes) -> MessagePropertiesHeader:
    header, at = MessagePropertiesHeader.decode(data, 0)
    assert at == len(data)
    assert header.encode() == data
    return header


@pytest.mark.spec(
    "MQMQ-2.2.19.3-01", "MQMQ-2.2.19.3-09", "MQMQ-2.2.19.3-11", "MQMQ-2.2.19.3-12", "MQMQ-2.2.19.3-22", "MQMQ-2.2.18-01"
)  # fmt: skip
def test_56_fixed_bytes_then_label_extension_and_body_without_alignment() -> None:
    label = "hi".encode("utf-16-le") + b"\0\0"
    data = raw(flags=5, label=label, sizes=(4, 6, 3)) + b"ext" + b"body.." + b"\x99"
    header = decode(data)
    assert len(raw()) == 56
    assert header == MessagePropertiesHeader(
        flags=5,
        message_class=0x8002,
        correlation_id=CORRELATION,
        body_type=8,
        application_tag=9,
        privacy_level=3,
        hash_algorithm=0x800E,
        encryption_algorithm=0x6610,
        label="hi",
        extension_data=b"ext",
        message_body=b"body",
        allocation_remainder=b"..",
    )
    assert header.padding == b"\x99"


@pytest.mark.spec("MQMQ-2.2.19.3-06")
def test_the_upper_flag_bits_are_sent_as_0_and_mean_nothing() -> None:
    assert MessagePropertiesHeader().flags == 0
    assert decode(raw(flags=0xF5)).flags & 0x0F == 5
    flags = (message_properties.PA, message_properties.PR, message_properties.NA, message_properties.NR)
    assert flags == (1, 2, 4, 8)


@pytest.mark.spec("MQMQ-2.2.19.3-07", "MQMQ-2.2.19.3-08")
def test_a_label_has_at_most_249_units_and_a_null() -> None:
    text = "x" * 249
    label = text.encode("utf-16-le") + b"\0\0"
    assert len(label) == 500
    assert decode(raw(label=label)).label == text
    assert decode(raw()).label is None
    assert decode(raw(label=b"\0\0") + b"\0\0").label == ""
    for length in range(0xFB, 0x100):
        with pytest.raises(DecodeError, match="LabelLength at offset 1"):
            MessagePropertiesHeader.decode(raw(label=bytes(600), label_length=length), 0)
    with pytest.raises(EncodeError, match="at most 249 UTF-16 units, not 250"):
        MessagePropertiesHeader(label="x" * 250).encode()
    with pytest.raises(EncodeError, match="at most 249 UTF-16 units, not 250"):
        MessagePropertiesHeader(label="\U0001f4ee" * 125).encode()


@pytest.mark.spec("MQMQ-2.2.19.3-08")
@pytest.mark.parametrize("label", [b"h\0i\0", b"h\0\0\0i\0\0\0"])
def test_a_label_without_its_null_or_with_one_inside_is_refused(label: bytes) -> None:
    with pytest.raises(DecodeError, match="Label at offset 56"):
        MessagePropertiesHeader.decode(raw(label=label), 0)


@pytest.mark.spec("MQMQ-2.2.19.3-13", "MQMQ-2.2.19.3-21")
def test_sizes_of_0_bring_no_bytes_and_others_exactly_theirs() -> None:
    empty = decode(raw())
    assert (empty.message_body, empty.extension_data) == (b"", b"")
    assert decode(raw(sizes=(4, 4, 0)) + b"body").message_body == b"body"
    assert decode(raw(sizes=(3, 4, 0)) + b"body").message_body == b"bod"
    assert decode(raw(sizes=(0, 0, 4)) + b"exte").extension_data == b"exte"
    for sizes in ((5, 5, 0), (0, 0, 5), (0xFFFFFFFF, 0xFFFFFFFF, 0), (0, 0, 0xFFFFFFFF)):
        with pytest.raises(DecodeError, match="the data ends after 4 bytes of this field"):
            MessagePropertiesHeader.decode(raw(sizes=sizes) + b"four", 0)


@pytest.mark.spec("MQMQ-2.2.19.3-14")
def test_the_allocation_may_exceed_the_body_and_tells_where_the_header_ends() -> None:
    header = decode(raw(sizes=(3, 8, 0)) + b"cipherte")
    assert (header.message_body, header.allocation_remainder) == (b"cip", b"herte")
    assert header.allocated_body == b"cipherte"
    with pytest.raises(DecodeError, match="the data ends after 4 bytes of this field"):
        MessagePropertiesHeader.decode(raw(sizes=(4, 5, 0)) + b"four", 0)
    with pytest.raises(DecodeError, match="AllocationBodySize at offset 36"):
        MessagePropertiesHeader.decode(raw(sizes=(8, 3, 0)) + b"cipherte", 0)


@pytest.mark.spec("MQMQ-2.2.19.3-23")
def test_the_end_is_padded_to_4_bytes_with_anything() -> None:
    for size in range(9):
        padding = b"\xfe\xfd\xfc"[: -size % 4]
        header = decode(raw(sizes=(size, size, 0)) + b"b" * size + padding)
        assert header.padding == padding
        header.message_body += b"more"
        header.padding = b"wrong length"
        assert header.encode()[56:] == b"b" * size + b"more" + bytes(len(padding))
        assert len(header.encode()) % 4 == 0


@given(property_headers)
def test_every_header_survives_the_wire(header: MessagePropertiesHeader) -> None:
    if header.label is not None and len(header.label.encode("utf-16-le", "surrogatepass")) > 498:
        header.label = None
    data = header.encode()
    decoded, at = MessagePropertiesHeader.decode(data, 0)
    assert at == len(data)
    assert decoded.encode() == data
    assert decoded.allocated_body == header.allocated_body
    for name in ("flags", "message_class", "correlation_id", "body_type", "label", "extension_data", "message_body"):
        assert getattr(decoded, name) == getattr(header, name)
