"""MS-MQMQ 2.2.18.1.5 and 2.2.18.1.7, as a UserHeader packs them."""

import pytest

from waypost.errors import DecodeError, EncodeError
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)

GUID = bytes(range(16))


def direct(text: str) -> bytes:
    """A DirectQueueFormatName by hand: Count, UTF-16 with null, padding from the start of the header."""
    data = text.encode("utf-16-le") + b"\0\0"
    return len(data).to_bytes(2, "little") + data + bytes(-(2 + len(data)) % 4)


def test_a_private_queue_number_has_32_bits() -> None:
    assert PrivateQueueFormatNameId(0x87654321).encode() == bytes.fromhex("21436587")
    assert PrivateQueueFormatNameId.decode(bytes.fromhex("ffff 04000000"), 2) == (PrivateQueueFormatNameId(4), 6)
    with pytest.raises(DecodeError, match="PrivateQueueIdentifier"):
        PrivateQueueFormatNameId.decode(bytes(3), 0)


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-01")
def test_the_count_of_a_direct_name_is_in_bytes_with_the_null_and_without_the_padding() -> None:
    text = "OS:a04bm02\\q"
    data = direct(text)
    assert data[:2] == b"\x1a\x00"
    assert DirectQueueFormatName(text).encode() == data
    assert DirectQueueFormatName.decode(data, 0) == (DirectQueueFormatName(text), 28)


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-02")
def test_a_direct_name_is_padded_to_4_bytes_with_anything() -> None:
    data = direct("OS:host\\q")
    assert len(data) == 24
    record, at = DirectQueueFormatName.decode(data[:-2] + b"\xde\xad" + b"next", 0)
    assert (record, at) == (DirectQueueFormatName("OS:host\\q", b"\xde\xad"), 24)
    assert record.encode() == data[:-2] + b"\xde\xad"
    # Boundaries count from the start of the header, wherever that is.
    assert DirectQueueFormatName.decode(b"??" + data + b"next", 2) == (record, 26)
    record.direct_format_name = "OS:hosts\\q"
    assert record.encode() == direct("OS:hosts\\q")


@pytest.mark.spec("MQMQ-6-01")
def test_the_padding_of_a_direct_name_is_not_compared() -> None:
    assert DirectQueueFormatName("OS:host\\q", b"\xde\xad") == DirectQueueFormatName("OS:host\\q")
    assert DirectQueueFormatName("OS:host\\q") != DirectQueueFormatName("OS:host\\r")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x04", "Count"),
        (bytes.fromhex("0300 410000 000000"), "terminating null"),
        (bytes.fromhex("0400 41004200 0000"), "terminating null"),
        (bytes.fromhex("0000 0000"), "terminating null"),
        (bytes.fromhex("0600 4100 0000 0000"), "null before the end"),
        (bytes.fromhex("ffff 41000000"), "the data ends after 4 bytes of this field"),
    ],
)
def test_a_damaged_direct_name_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        DirectQueueFormatName.decode(data, 0)


def test_a_direct_name_that_does_not_fit_its_count_is_refused_when_encoding() -> None:
    assert len(DirectQueueFormatName("x" * 32766).encode()) == 65536
    with pytest.raises(EncodeError, match="does not fit"):
        DirectQueueFormatName("x" * 32767).encode()
    with pytest.raises(EncodeError, match="null"):
        DirectQueueFormatName("x\0y").encode()


@pytest.mark.spec("MQMQ-2.2.18.1.7.1-01", "MQMQ-2.2.18.1.7.2-01")
def test_public_and_private_names_are_guids_the_private_one_with_a_number() -> None:
    assert PublicQueueFormatName(GUID).encode() == GUID
    assert PublicQueueFormatName.decode(b"...." + GUID, 4) == (PublicQueueFormatName(GUID), 20)
    assert PrivateQueueFormatName(GUID, 0x0A).encode() == GUID + b"\x0a\0\0\0"
    assert PrivateQueueFormatName.decode(GUID + b"\x0a\0\0\0", 0) == (PrivateQueueFormatName(GUID, 10), 20)
    with pytest.raises(DecodeError, match="PublicQueueIdentifier"):
        PublicQueueFormatName.decode(GUID[:15], 0)
    with pytest.raises(DecodeError, match="PrivateQueueFormatName"):
        PrivateQueueFormatName.decode(GUID + bytes(3), 0)
