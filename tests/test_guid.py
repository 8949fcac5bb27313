"""GUIDs, MS-DTYP 2.3.4 and MS-MQMQ 2.2.18.1.1."""

import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, braced_guid_text, guid_text, parse_guid

PACKET = bytes.fromhex("33221100 5544 7766 8899 aabbccddeeff")
TEXT = "00112233-4455-6677-8899-aabbccddeeff"


@pytest.mark.spec("MQMQ-2.2.18.1.1-01")
def test_the_packet_form_has_three_little_endian_parts_and_eight_bytes_as_they_stand() -> None:
    assert len(PACKET) == 16
    assert guid_text(PACKET) == TEXT
    assert parse_guid(TEXT) == PACKET


def test_text_is_read_in_any_case_with_and_without_braces() -> None:
    assert parse_guid(TEXT.upper()) == PACKET
    assert parse_guid(braced_guid_text(PACKET)) == PACKET
    assert braced_guid_text(NULL_GUID) == "{00000000-0000-0000-0000-000000000000}"


@given(st.binary(min_size=16, max_size=16))
def test_every_guid_comes_back_from_its_text(guid: bytes) -> None:
    assert parse_guid(guid_text(guid)) == guid
    assert guid_text(guid) == str(uuid.UUID(bytes_le=guid))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{",
        TEXT[:-1],
        TEXT + "0",
        "{" + TEXT,
        TEXT + "}",
        TEXT.replace("-", ""),
        TEXT.replace("0", "g"),
        TEXT + "\n",
    ],
)
def test_other_text_is_no_guid(text: str) -> None:
    with pytest.raises(DecodeError, match="GUID at offset 0"):
        parse_guid(text)


@given(st.text(max_size=50))
def test_any_text_gives_16_bytes_or_a_decode_error(text: str) -> None:
    with suppress(DecodeError):
        assert len(parse_guid(text)) == 16
