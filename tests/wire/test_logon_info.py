"""MS-PAC 2.5 KERB_VALIDATION_INFO, with the example of MS-PAC 3.1."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import u16, u32, u64
from tests.wire.vectors import vector
from waypost.errors import DecodeError, EncodeError
from waypost.wire.logon_info import (
    GroupMembership,
    KerbValidationInfo,
    SidAndAttributes,
    UnicodeString,
)
from waypost.wire.sid import Sid

DOMAIN = Sid(5, (21, 1, 2, 3))
RESOURCES = Sid(5, (21, 7, 8, 9))
ALICE = KerbValidationInfo(
    effective_name=UnicodeString.of("alice"),
    user_id=1105,
    primary_group_id=513,
    group_ids=[GroupMembership(513), GroupMembership(1120)],
    logon_domain_name=UnicodeString.of("CORP"),
    logon_domain_id=DOMAIN,
    extra_sids=[SidAndAttributes(Sid(18, (1,)))],
    resource_group_domain_sid=RESOURCES,
    resource_group_ids=[GroupMembership(2001)],
)


def sid(text: str) -> Sid:
    return Sid.parse(text)


def test_the_example_of_the_specification_is_read_and_written() -> None:
    data = vector("pac-3.1", "pac")
    info = KerbValidationInfo.decode(data)
    domain = "S-1-5-21-397955417-626881126-188441444"
    assert str(info.user_sid) == f"{domain}-2914711"
    assert info.effective_name.buffer == "lzhu"
    assert info.full_name.buffer == "Liqiang(Larry) Zhu"
    # The prose of 3.1 has "ntds.bat" and a space before "(Larry)"; the bytes do not.
    assert info.logon_script.buffer == "ntds2.bat"
    assert info.profile_path.buffer == ""
    assert (info.logon_server.buffer, info.logon_domain_name.buffer) == ("NTDEV-DC-05", "NTDEV")
    assert (len(info.group_ids), len(info.extra_sids)) == (26, 13)
    assert {sid(f"{domain}-3392609"), sid(f"{domain}-513")} <= info.group_sids
    assert sid("S-1-5-21-773533881-1816936887-355810188-513") in info.group_sids
    assert len(info.group_sids) == 26 + 13
    assert info.encode() == data


def test_groups_come_from_all_domains() -> None:
    info = KerbValidationInfo.decode(ALICE.encode())
    assert info == ALICE
    assert str(info.user_sid) == "S-1-5-21-1-2-3-1105"
    assert set(map(str, info.group_sids)) == {
        "S-1-5-21-1-2-3-513",
        "S-1-5-21-1-2-3-1120",
        "S-1-18-1",
        "S-1-5-21-7-8-9-2001",
    }


def test_a_group_that_is_not_enabled_does_not_count() -> None:
    off = replace(
        ALICE,
        group_ids=[GroupMembership(1120, 0x3)],
        extra_sids=[SidAndAttributes(sid("S-1-18-1"), 0x3)],
        resource_group_ids=[GroupMembership(2001, 0x2000_0000)],
    )
    assert set(map(str, off.group_sids)) == {"S-1-5-21-1-2-3-513"}


def test_without_a_user_id_the_first_extra_sid_is_the_account() -> None:
    foreign = [SidAndAttributes(sid("S-1-5-21-4-5-6-1200")), SidAndAttributes(sid("S-1-5-21-4-5-6-513"))]
    info = KerbValidationInfo.decode(KerbValidationInfo(extra_sids=foreign).encode())
    assert str(info.user_sid) == "S-1-5-21-4-5-6-1200"
    assert set(map(str, info.group_sids)) == {"S-1-5-21-4-5-6-513"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (replace(ALICE, user_id=0, extra_sids=()), "UserId"),
        (replace(ALICE, logon_domain_id=None), "LogonDomainId"),
        (replace(ALICE, logon_domain_id=Sid(5, (1,) * 15)), "LogonDomainId"),
        (replace(ALICE, resource_group_domain_sid=None), "ResourceGroupDomainSid"),
        (replace(ALICE, user_session_key=b"short"), "UserSessionKey"),
        (replace(ALICE, user_id=1 << 32), "UserId"),
        (replace(ALICE, full_name=UnicodeString("text", 6)), "FullName"),
    ],
)
def test_a_record_without_the_parts_of_its_sids_is_not_written(wrong: KerbValidationInfo, field: str) -> None:
    with pytest.raises(EncodeError, match=field):
        wrong.encode()


DATA = ALICE.encode()


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [
        (0, b"\2", "Version"),
        (1, b"\0", "Endianness"),
        (2, b"\x10", "Version"),
        (8, struct.pack("<I", len(DATA) - 15), "ObjectBufferLength"),
        (8, struct.pack("<I", len(DATA) - 24), "ObjectBufferLength"),
        (16, bytes(4), "KERB_VALIDATION_INFO"),
        (68, b"\x0b", "EffectiveName"),
        (68, b"\x0c", "EffectiveName"),
        (72, bytes(4), "EffectiveName"),
        (120, bytes(4), "UserId"),
        (128, b"\3", "GroupIds"),
        (132, bytes(4), "GroupIds"),
    ],
)
def test_a_wrong_field_is_named(at: int, value: bytes, field: str) -> None:
    # UserId is 0 in one case; then the first of ExtraSids is the account, which is there: take it away.
    data = bytearray(replace(ALICE, extra_sids=()).encode() if field == "UserId" else DATA)
    data[at : at + len(value)] = value
    with pytest.raises(DecodeError, match=field):
        KerbValidationInfo.decode(bytes(data))


def test_a_count_without_its_elements_takes_no_memory() -> None:
    data = bytearray(DATA)
    array = DATA.index(struct.pack("<III", 2, 513, 7))
    data[128:132] = data[array : array + 4] = struct.pack("<I", 0xFFFF_FFFF)
    with pytest.raises(DecodeError, match="the data is too short for 4294967295 elements"):
        KerbValidationInfo.decode(bytes(data))


@given(st.integers(0, len(DATA) - 1))
def test_a_part_of_a_record_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        KerbValidationInfo.decode(DATA[:size])


strings = st.builds(UnicodeString) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(
    UnicodeString.of
)
domains = st.builds(Sid, st.integers(0, (1 << 48) - 1), st.lists(u32, max_size=14).map(tuple))
groups = st.lists(st.builds(GroupMembership, u32, u32), max_size=5)
extras = st.lists(st.builds(SidAndAttributes, domains, u32), max_size=5)
records = st.builds(
    KerbValidationInfo,
    logon_time=u64,
    password_last_set=u64,
    effective_name=strings,
    full_name=strings,
    logon_script=strings,
    home_directory=strings,
    logon_count=u16,
    user_id=st.integers(1, 0xFFFF_FFFF),
    primary_group_id=u32,
    group_ids=groups,
    user_flags=u32,
    user_session_key=st.binary(min_size=16, max_size=16),
    logon_server=strings,
    logon_domain_name=strings,
    logon_domain_id=domains,
    reserved1=st.tuples(u32, u32),
    last_failed_i_logon=u64,
    extra_sids=extras,
    resource_group_domain_sid=domains,
    resource_group_ids=groups,
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: KerbValidationInfo) -> None:
    data = record.encode()
    assert len(data) % 8 == 0
    found = KerbValidationInfo.decode(data)
    assert found == replace(
        record,
        group_ids=list(record.group_ids),
        extra_sids=list(record.extra_sids),
        resource_group_ids=list(record.resource_group_ids),
    )
    assert found.encode() == data
    assert found.user_sid.sub_authority[-1] == record.user_id
    assert len(found.group_sids) <= 1 + len(record.group_ids) + len(record.extra_sids) + len(record.resource_group_ids)


@given(st.binary(max_size=400), st.integers(0, len(DATA)), st.integers(0, 8))
def test_any_bytes_are_a_record_or_a_decode_error(data: bytes, at: int, left_out: int) -> None:
    for changed in (data, DATA[:20] + data, DATA[:at] + data[:4] + DATA[at + left_out :]):
        try:
            info = KerbValidationInfo.decode(changed)
        except DecodeError as error:
            assert 0 <= error.offset <= len(changed)
        else:
            assert KerbValidationInfo.decode(info.encode()) == info
            assert all(map(str, (info.user_sid, *info.group_sids)))
