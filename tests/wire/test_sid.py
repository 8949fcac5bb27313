"""MS-DTYP 2.4.2."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, LOCAL_SYSTEM, Sid

USER = bytes.fromhex("01 05 000000000005 15000000 c7f63d07 43170a32 4fe44a50 e9030000")

sids = st.builds(Sid, st.integers(0, (1 << 48) - 1), st.lists(st.integers(0, 0xFFFF_FFFF), max_size=15).map(tuple))


def test_a_user_has_authority_5_and_five_numbers_below_it() -> None:
    sid, at = Sid.decode(b"\xff" + USER + b"\xff", 1)
    assert at == 29
    assert sid == Sid(5, (21, 0x073DF6C7, 0x320A1743, 0x504AE44F, 1001))
    assert str(sid) == "S-1-5-21-121501383-839522115-1347085391-1001"
    assert sid.encode() == USER


@pytest.mark.parametrize(
    ("sid", "text", "data"),
    [
        (EVERYONE, "S-1-1-0", "01 01 000000000001 00000000"),
        (ANONYMOUS, "S-1-5-7", "01 01 000000000005 07000000"),
        (LOCAL_SYSTEM, "S-1-5-18", "01 01 000000000005 12000000"),
        (ADMINISTRATORS, "S-1-5-32-544", "01 02 000000000005 20000000 20020000"),
    ],
)
def test_the_well_known_sids(sid: Sid, text: str, data: str) -> None:
    assert str(sid) == text
    assert Sid.parse(text) == sid
    assert sid.encode() == bytes.fromhex(data)


def test_the_sender_of_the_published_user_message_is_a_user_of_a_domain() -> None:
    frame = (Path(__file__).parent.parent / "vectors" / "mqqb-4.1.7.bin").read_bytes()
    at = frame.index(bytes.fromhex("01 05 000000000005 15000000"))
    sid, end = Sid.decode(frame, at)
    assert end - at == 28
    assert str(sid).startswith("S-1-5-21-")
    assert sid.encode() == frame[at:end]


def test_an_authority_above_32_bits_is_written_in_hexadecimal() -> None:
    sid = Sid(0x0102_0304_0506, (7,))
    assert str(sid) == "S-1-0x010203040506-7"
    assert sid.encode() == bytes.fromhex("01 01 010203040506 07000000")
    assert Sid.parse("s-1-0X010203040506-7") == sid
    assert str(Sid(0xFFFF_FFFF, ())) == "S-1-4294967295"


@given(sids)
def test_a_sid_comes_back_from_its_bytes_and_from_its_text(sid: Sid) -> None:
    data = sid.encode()
    assert Sid.decode(data, 0) == (sid, len(data))
    assert Sid.parse(str(sid)) == sid
    with pytest.raises(DecodeError):
        Sid.decode(data[:-1], 0)


def test_15_sub_authorities_are_accepted_and_16_refused() -> None:
    longest = Sid(5, tuple(range(15)))
    assert longest.encode()[1] == 15
    assert Sid.decode(longest.encode(), 0) == (longest, 68)
    assert Sid.parse(str(longest)) == longest
    with pytest.raises(DecodeError, match="SubAuthorityCount at offset 1"):
        Sid.decode(bytes.fromhex("01 10 000000000005") + bytes(64), 0)
    with pytest.raises(EncodeError):
        Sid(5, (1,) * 16).encode()
    with pytest.raises(DecodeError):
        Sid.parse("S-1-5" + "-1" * 16)


def test_another_revision_is_refused() -> None:
    with pytest.raises(DecodeError, match="Revision at offset 0"):
        Sid.decode(b"\x02" + USER[1:], 0)


@pytest.mark.parametrize(
    "text",
    ["", "S-1", "S-1-", "S-2-5-7", "S-1-5-", "S-1-5-4294967296", "S-1-5--7", "S-1-5-7\n", "S-1-0x05-7", "S-1-5-\u0667"],
)
def test_other_text_is_no_sid(text: str) -> None:
    with pytest.raises(DecodeError):
        Sid.parse(text)


@given(st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(b"\x01\x03".__add__)))
def test_any_bytes_are_a_sid_or_a_decode_error(data: bytes) -> None:
    try:
        sid, end = Sid.decode(data, 0)
    except DecodeError:
        return
    assert sid.encode() == data[:end]
