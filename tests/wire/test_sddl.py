"""MS-DTYP 2.5.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.test_sid import sids
from waypost.errors import EncodeError, IllegalSddl
from waypost.wire.sddl import ALIASES, RIGHTS, parse_sddl, sddl
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    SE_DACL_AUTO_INHERITED,
    SE_DACL_PROTECTED,
    AccessAce,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, LOCAL_SYSTEM, Sid

COMPUTER = Sid(5, (21, 1, 2, 3))
ALICE = Sid(5, (21, 1, 2, 3, 1001))

aces = st.builds(
    AccessAce,
    st.sampled_from((ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE)),
    st.sampled_from((0, 0x08, 0x13)),
    st.integers(0, 0xFFFF_FFFF),
    sids,
)
lists = st.none() | st.just(NullAcl.NULL_ACL) | st.builds(Acl, aces=st.lists(aces, max_size=5).map(tuple))


def test_a_text_has_owner_group_and_the_list_of_rights() -> None:
    found = parse_sddl("O:BAG:SYD:PAI(D;;0x4;;;AN)(A;;0xf003f;;;WD)(A;IO;0x3;;;S-1-5-21-1-2-3-1001)")
    assert found.owner == ADMINISTRATORS
    assert found.group == LOCAL_SYSTEM
    assert found.control & (SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED) == SE_DACL_PROTECTED | SE_DACL_AUTO_INHERITED
    assert isinstance(found.dacl, Acl)
    assert found.dacl.aces == (
        AccessAce(ACCESS_DENIED_ACE_TYPE, 0, 0x4, ANONYMOUS),
        AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0xF003F, EVERYONE),
        AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0x08, 0x3, ALICE),
    )


@pytest.mark.parametrize(
    ("rights", "mask"),
    [("0xF003F", 0xF003F), ("10", 10), ("010", 8), ("KA", 0xF003F), ("CCDCLC", 7), ("sdrcwdwo", 0xF0000), ("", 0)],
)
def test_rights_are_words_or_numbers(rights: str, mask: int) -> None:
    found = parse_sddl(f"D:(A;;{rights};;;WD)")
    assert isinstance(found.dacl, Acl)
    assert [ace.mask for ace in found.dacl.aces if isinstance(ace, AccessAce)] == [mask]


def test_a_null_list_is_not_an_empty_one() -> None:
    assert parse_sddl("D:NO_ACCESS_CONTROL").dacl is NullAcl.NULL_ACL
    assert parse_sddl("D:").dacl == Acl()
    assert parse_sddl("").dacl is None


def test_the_administrator_of_a_computer_belongs_to_its_sid() -> None:
    assert parse_sddl("O:LA", COMPUTER).owner == Sid(5, (21, 1, 2, 3, 500))
    assert parse_sddl("O:LG", COMPUTER).owner == Sid(5, (21, 1, 2, 3, 501))


def test_a_hexadecimal_authority_ends_before_the_list() -> None:
    found = parse_sddl("O:S-1-0x00050000000DD:")
    assert found.owner == Sid(0x00050000000D, ())
    assert found.dacl == Acl()


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("X:WD", 0, "`O:`, `G:`, `D:` or `S:` is expected"),
        ("O:WDO:WD", 4, "O: occurs twice"),
        ("O:QQ", 2, "'QQ' is not an alias"),
        ("O:DA", 2, "write the SID"),
        ("O:LA", 2, "write the SID"),
        ("O:", 2, "a SID or an alias"),
        ("O:S-1-5-99999999999", 2, "must be S-1-"),
        ("D:(A;;0x1;;;WD", 14, r"must end with `\)`"),
        ("D:(A;;0x1;;;WD;x)", 14, r"must end with `\)`"),
        ("D:(A;;0x1", 6, "a semicolon is expected"),
        ("D:(Q;;0x1;;;WD)", 3, "must be `A` or `D`, not 'Q'"),
        ("D:(XA;;0x1;;;WD;(1))", 3, "XA is not supported"),
        ("D:(A;ZZ;0x1;;;WD)", 5, "'ZZ' is unknown"),
        ("D:(A;;CCQQ;;;WD)", 8, "'QQ' is unknown"),
        ("D:(A;;0x123456789;;;WD)", 6, "is not a number"),
        ("D:(A;;4294967296;;;WD)", 6, "32 bits"),
        ("D:(A;;089;;;WD)", 6, "is not a number"),
        ("D:(A;;1;4a2d3f00-0000-0000-0000-000000000001;;WD)", 8, "must not have a GUID"),
        ("D:(OA;;1;nonsense;;WD)", 9, "is not a GUID of 8-4-4-4-12"),
        ("D:(A;;1;;;WD) (A;;1;;;WD)", 13, "`O:`, `G:`, `D:` or `S:` is expected"),
        ("D:" + "(A;;1;;;WD)" * 4000, 44002, "at most 65535"),
    ],
)
def test_an_error_says_where(text: str, offset: int, reason: str) -> None:
    with pytest.raises(IllegalSddl, match=reason) as caught:
        parse_sddl(text)
    assert caught.value.offset == offset


def test_a_text_longer_than_any_descriptor_is_refused() -> None:
    with pytest.raises(IllegalSddl, match="at most"):
        parse_sddl("D:" + "(A;;1;;;WD)" * 100_000)


@given(st.none() | sids, st.none() | sids, lists, lists)
def test_every_descriptor_has_a_text_that_means_the_same(
    owner: Sid | None, group: Sid | None, dacl: Acl | NullAcl | None, sacl: Acl | NullAcl | None
) -> None:
    descriptor = SecurityDescriptor(owner=owner, group=group, dacl=dacl, sacl=sacl)
    assert parse_sddl(sddl(descriptor)) == descriptor


def test_object_aces_have_guids() -> None:
    text = "D:(OA;;0x1;4a2d3f00-0000-0000-0000-000000000001;;WD)"
    found = parse_sddl(text)
    assert isinstance(found.dacl, Acl)
    assert isinstance(found.dacl.aces[0], ObjectAce)
    assert found.dacl.acl_revision == 4
    assert sddl(found) == text


def test_an_ace_that_is_not_understood_has_no_text() -> None:
    with pytest.raises(EncodeError, match="cannot express an ACE of type 17"):
        sddl(SecurityDescriptor(dacl=Acl(aces=(OpaqueAce(17, 0, b""),))))


def test_aliases_and_rights_are_two_letters_and_distinct() -> None:
    assert all(len(word) == 2 for word in (*ALIASES, *RIGHTS))
    assert len(set(ALIASES.values())) == len(ALIASES)
