"""MS-DTYP 2.4.4 to 2.4.6 and MS-MQMQ 2.2.3."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError, IllegalSecurityDescriptor
from waypost.guid import parse_guid
from waypost.wire.access_masks import SecurityInformation
from waypost.wire.property_rules import check_value
from waypost.wire.propid import ObjectKind, QueueProperty
from waypost.wire.propvariant import PropVariant
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    ACL_REVISION_DS,
    SE_DACL_PRESENT,
    SE_DACL_PROTECTED,
    SE_OWNER_DEFAULTED,
    SE_SACL_AUTO_INHERITED,
    SE_SACL_PRESENT,
    SE_SELF_RELATIVE,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Ace,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, LOCAL_SYSTEM, Sid
from waypost.wire.variant_types import VarType

ADMINISTRATORS_BYTES = "01 02 000000000005 20000000 20020000"
EVERYONE_BYTES = "01 01 000000000001 00000000"
QUEUE_DACL = Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x2002B, EVERYONE),))

# O:BAG:BAD:(A;;0x2002B;;;WD)
QUEUE = bytes.fromhex(
    "01 00 0480 30000000 40000000 00000000 14000000"
    "02 00 1c00 0100 0000  00 00 1400 2b000200" + EVERYONE_BYTES + ADMINISTRATORS_BYTES + ADMINISTRATORS_BYTES
)

bytes_ = st.integers(0, 0xFF)
words = st.integers(0, 0xFFFF)
dwords = st.integers(0, 0xFFFF_FFFF)
guids = st.binary(min_size=16, max_size=16)
sids = st.builds(Sid, st.integers(0, (1 << 48) - 1), st.lists(dwords, max_size=15).map(tuple))
rests = st.binary(max_size=5)
aces = st.one_of(
    st.builds(AccessAce, st.integers(0, 2), bytes_, dwords, sids, rests),
    st.builds(ObjectAce, st.integers(5, 7), bytes_, dwords, dwords, st.none() | guids, st.none() | guids, sids, rests),
    st.builds(OpaqueAce, st.integers(8, 255) | st.sampled_from((3, 4)), bytes_, st.binary(max_size=20)),
)
ace_lists = st.lists(aces, max_size=4).map(tuple)
acls = st.builds(Acl, st.sampled_from((2, 4)), bytes_, words, ace_lists, rests).map(
    lambda acl: replace(acl, acl_revision=ACL_REVISION_DS) if acl.needs_other_revision else acl
)
lists = st.one_of(st.none(), st.just(NullAcl.NULL_ACL), acls)
descriptors = st.builds(SecurityDescriptor, bytes_, words, st.none() | sids, st.none() | sids, lists, lists)


def test_a_queue_descriptor_that_lets_everyone_use_the_queue() -> None:
    descriptor = SecurityDescriptor(owner=ADMINISTRATORS, group=ADMINISTRATORS, dacl=QUEUE_DACL)
    assert SecurityDescriptor.decode(QUEUE) == descriptor
    assert descriptor.encode() == QUEUE
    assert descriptor.control == SE_SELF_RELATIVE | SE_DACL_PRESENT


def test_allowed_denied_and_audit_aces() -> None:
    data = bytes.fromhex(
        "02 00 4400 0300 0000"
        "00 00 1400 2b000200 01 01 000000000001 00000000"
        "01 02 1400 04000000 01 01 000000000005 07000000"
        "02 c0 1400 ffffffff 01 01 000000000005 12000000"
    )
    acl = Acl(
        aces=(
            AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x2002B, EVERYONE),
            AccessAce(ACCESS_DENIED_ACE_TYPE, 2, 4, ANONYMOUS),
            AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0xC0, 0xFFFF_FFFF, LOCAL_SYSTEM),
        )
    )
    assert Acl.decode(data, 0) == (acl, len(data))
    assert acl.encode() == data


@pytest.mark.parametrize(
    ("flags", "size", "object_type", "inherited"),
    [
        (0, "1800", None, None),
        (1, "2800", "06bd3202-df3e-11d1-9c86-006008764d0e", None),
        (2, "2800", None, "9a0dc344-c100-11d1-bbc5-0080c76670c0"),
        (3, "3800", "06bd3202-df3e-11d1-9c86-006008764d0e", "9a0dc344-c100-11d1-bbc5-0080c76670c0"),
    ],
)
def test_an_object_ace_has_the_guids_that_its_flags_name(
    flags: int, size: str, object_type: str | None, inherited: str | None
) -> None:
    first = parse_guid(object_type) if object_type else None
    second = parse_guid(inherited) if inherited else None
    ace = bytes.fromhex("05 00" + size + "00010000") + flags.to_bytes(4, "little")
    ace += (first or b"") + (second or b"") + bytes.fromhex(EVERYONE_BYTES)
    data = b"\x04\x00" + (8 + len(ace)).to_bytes(2, "little") + b"\x01\x00\x00\x00" + ace
    expected = ObjectAce(ACCESS_ALLOWED_OBJECT_ACE_TYPE, 0, 0x100, 0, first, second, EVERYONE)
    assert expected.flags == flags
    assert Acl.decode(data, 0) == (Acl(acl_revision=ACL_REVISION_DS, aces=(expected,)), len(data))
    assert expected.encode() == ace


def test_an_ace_of_an_unknown_type_is_kept_as_bytes() -> None:
    data = bytes.fromhex("02 00 1000 0100 0000  11 05 0800 01020304")
    acl, _ = Acl.decode(data, 0)
    assert acl.aces == (OpaqueAce(0x11, 5, b"\x01\x02\x03\x04"),)
    assert acl.encode() == data


def test_no_dacl_a_null_dacl_and_an_empty_dacl_are_three_things() -> None:
    absent = bytes.fromhex("01 00 0080 00000000 00000000 00000000 00000000")
    null = bytes.fromhex("01 00 0480 00000000 00000000 00000000 00000000")
    empty = bytes.fromhex("01 00 0480 00000000 00000000 00000000 14000000 02 00 0800 0000 0000")
    for data, dacl in ((absent, None), (null, NullAcl.NULL_ACL), (empty, Acl())):
        assert SecurityDescriptor.decode(data).dacl == dacl
        assert SecurityDescriptor(dacl=dacl).encode() == data


def test_taking_the_dacl_away_does_not_leave_a_null_dacl() -> None:
    descriptor = replace(SecurityDescriptor.decode(QUEUE), dacl=None)
    assert SecurityDescriptor.decode(descriptor.encode()).dacl is None


def test_a_list_that_the_control_word_calls_absent_is_not_looked_at() -> None:
    data = QUEUE[:2] + b"\x00\x80" + QUEUE[4:16] + b"\xff\xff\xff\xff" + QUEUE[20:]
    descriptor = SecurityDescriptor.decode(data)
    assert descriptor.dacl is None
    assert descriptor.encode() == data


@pytest.mark.parametrize(
    "data",
    [
        # Owner, group, DACL, with gaps, a byte behind the end, and a set sbz1.
        bytes.fromhex("01 77 0480 18000000 2a000000 00000000 3c000000 aabbccdd")
        + bytes.fromhex(ADMINISTRATORS_BYTES + "eeee" + ADMINISTRATORS_BYTES + "ffff")
        + QUEUE[20:48]
        + b"\x99",
        # One SID serves as owner and group.
        QUEUE[:8] + b"\x30" + QUEUE[9:64],
        # The owner lies inside the DACL, in the SID of its ACE.
        QUEUE[:4] + b"\x24" + QUEUE[5:],
    ],
)
def test_an_untouched_descriptor_encodes_to_the_bytes_it_came_from(data: bytes) -> None:
    descriptor = SecurityDescriptor.decode(data)
    assert descriptor.encode() == data
    assert descriptor.group == ADMINISTRATORS
    assert descriptor.dacl == QUEUE_DACL
    changed = replace(descriptor, owner=LOCAL_SYSTEM)
    assert SecurityDescriptor.decode(changed.encode()) == changed
    assert changed.dacl == QUEUE_DACL


@pytest.mark.spec("MQMQ-2.2.3-01")
def test_security_information_selects_parts() -> None:
    whole = SecurityDescriptor(owner=LOCAL_SYSTEM, group=ADMINISTRATORS, sacl=Acl(), dacl=QUEUE_DACL)
    for information in range(16):
        part = SecurityDescriptor.decode(whole.select(information).encode())
        assert part.owner == (LOCAL_SYSTEM if information & 0x1 else None)
        assert part.group == (ADMINISTRATORS if information & 0x2 else None)
        assert part.dacl == (QUEUE_DACL if information & 0x4 else None)
        assert part.sacl == (Acl() if information & 0x8 else None)


@pytest.mark.spec("MQMQ-2.3.1.25-01")
@pytest.mark.parametrize(("number", "name"), [(1101, "PROPID_Q_SECURITY"), (1102, "PROPID_Q_OBJ_SECURITY")])
def test_the_security_of_a_queue_is_a_self_relative_descriptor_of_selected_parts(number: int, name: str) -> None:
    assert QueueProperty[name] == number
    check_value(ObjectKind.QUEUE, number, PropVariant(VarType.VT_BLOB, QUEUE))
    absolute = QUEUE[:2] + b"\x04\x00" + QUEUE[4:]
    for illegal in (absolute, QUEUE[:-1], b""):
        with pytest.raises(IllegalSecurityDescriptor):
            check_value(ObjectKind.QUEUE, number, PropVariant(VarType.VT_BLOB, illegal))
    assert QueueProperty["PROPID_Q_SECURITY_INFORMATION"] == 1103
    for parts in range(16):
        information = PropVariant(VarType.VT_UI4, parts)
        check_value(ObjectKind.QUEUE, 1103, information)
        selected = SecurityDescriptor.decode(QUEUE).select(parts)
        assert (selected.owner is not None, selected.dacl is not None) == (parts & 0x1 != 0, parts & 0x4 != 0)
        check_value(ObjectKind.QUEUE, number, PropVariant(VarType.VT_BLOB, selected.encode()))


def test_the_control_bits_of_a_part_go_with_it() -> None:
    control = SE_OWNER_DEFAULTED | SE_DACL_PROTECTED | SE_SACL_AUTO_INHERITED
    whole = SecurityDescriptor(control=control, owner=LOCAL_SYSTEM, sacl=Acl(), dacl=NullAcl.NULL_ACL)
    assert whole.select(SecurityInformation.OWNER_SECURITY_INFORMATION).control == SE_SELF_RELATIVE | SE_OWNER_DEFAULTED
    assert whole.select(SecurityInformation.GROUP_SECURITY_INFORMATION).control == SE_SELF_RELATIVE
    dacl = whole.select(SecurityInformation.DACL_SECURITY_INFORMATION)
    assert dacl.control == SE_SELF_RELATIVE | SE_DACL_PRESENT | SE_DACL_PROTECTED
    assert dacl.dacl is NullAcl.NULL_ACL
    sacl = whole.select(SecurityInformation.SACL_SECURITY_INFORMATION)
    assert sacl.control == SE_SELF_RELATIVE | SE_SACL_PRESENT | SE_SACL_AUTO_INHERITED


@given(descriptors)
def test_a_descriptor_comes_back_from_its_bytes(descriptor: SecurityDescriptor) -> None:
    data = descriptor.encode()
    decoded = SecurityDescriptor.decode(data)
    assert decoded == descriptor
    assert decoded.encode() == data
    assert replace(decoded).encode() == data


@given(acls, st.binary(max_size=4))
def test_an_acl_comes_back_from_its_bytes(acl: Acl, before: bytes) -> None:
    data = acl.encode()
    assert Acl.decode(before + data, len(before)) == (acl, len(before) + len(data))


@given(descriptors, st.data())
def test_a_damaged_descriptor_is_a_descriptor_or_a_decode_error(
    descriptor: SecurityDescriptor, data: st.DataObject
) -> None:
    damaged = bytearray(descriptor.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(bytes_)
    whole = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        decoded = SecurityDescriptor.decode(whole)
    except DecodeError:
        return
    assert decoded.encode() == whole
    relaid = replace(decoded)
    assert SecurityDescriptor.decode(relaid.encode()) == relaid


@given(st.binary(max_size=100))
def test_any_bytes_are_a_descriptor_or_a_decode_error(data: bytes) -> None:
    for hostile in (data, b"\x01\x00\x14\x80" + data):
        with suppress(DecodeError):
            assert SecurityDescriptor.decode(hostile).encode() == hostile


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (QUEUE[:19], "SECURITY_DESCRIPTOR at offset 0"),
        (b"\x02" + QUEUE[1:], "Revision at offset 0"),
        (QUEUE[:2] + b"\x04\x00" + QUEUE[4:], "Control at offset 2"),
        (QUEUE[:4] + b"\x13" + QUEUE[5:], "OffsetOwner at offset 4"),
        (QUEUE[:8] + b"\x01" + QUEUE[9:], "OffsetGroup at offset 8"),
        (QUEUE[:4] + b"\xff\xff\xff\xff" + QUEUE[8:], "OffsetOwner at offset 4"),
        (QUEUE[:2] + b"\x14" + QUEUE[3:12] + b"\x01" + QUEUE[13:], "OffsetSacl at offset 12"),
        (QUEUE[:16] + b"\x13" + QUEUE[17:], "OffsetDacl at offset 16"),
        (QUEUE[:16] + b"\x4c" + QUEUE[17:], "ACL at offset 76"),
        (QUEUE[:20] + b"\x05" + QUEUE[21:], "AclRevision at offset 20"),
        (QUEUE[:22] + b"\x07" + QUEUE[23:], "AclSize at offset 22: must be 8 to 60, not 7"),
        (QUEUE[:22] + b"\x3d" + QUEUE[23:], "AclSize at offset 22: must be 8 to 60, not 61"),
        (QUEUE[:24] + b"\xff\xff" + QUEUE[26:], "AceCount at offset 24"),
        (QUEUE[:24] + b"\x02" + QUEUE[25:], "ACE_HEADER at offset 48"),
        (QUEUE[:30] + b"\x03" + QUEUE[31:], "AceSize at offset 30: must be 4 to 20, not 3"),
        (QUEUE[:30] + b"\x15" + QUEUE[31:], "AceSize at offset 30: must be 4 to 20, not 21"),
        (QUEUE[:30] + b"\x07" + QUEUE[31:], "Mask at offset 32"),
        (QUEUE[:30] + b"\x13" + QUEUE[31:], "Sid at offset 36"),
        (QUEUE[:28] + b"\x05\x00\x0b" + QUEUE[31:], "Flags at offset 32"),
    ],
)
def test_a_descriptor_that_does_not_hold_together_is_refused(data: bytes, where: str) -> None:
    with pytest.raises(DecodeError, match=where):
        SecurityDescriptor.decode(data)


def test_an_object_ace_needs_a_list_of_revision_4() -> None:
    ace = ObjectAce(ACCESS_ALLOWED_OBJECT_ACE_TYPE, 0, 0x100, 0, None, None, EVERYONE)
    data = Acl(acl_revision=ACL_REVISION_DS, aces=(ace,)).encode()
    with pytest.raises(DecodeError, match="AclRevision at offset 0: must be 4 for an object ACE, not 2"):
        Acl.decode(b"\x02" + data[1:], 0)
    with pytest.raises(EncodeError, match="AclRevision"):
        Acl(aces=(ace,)).encode()


def test_a_list_and_an_ace_may_have_65535_bytes() -> None:
    ace = OpaqueAce(0x11, 0, bytes(0xFFFF - 4))
    assert ace.encode()[2:4] == b"\xff\xff"
    longest = Acl(aces=(OpaqueAce(0x11, 0, bytes(0xFFFF - 8 - 4)),))
    data = longest.encode()
    assert len(data) == 0xFFFF
    assert Acl.decode(data, 0) == (longest, 0xFFFF)
    with pytest.raises(EncodeError, match="AclSize: must be at most 65535, not 65536"):
        replace(longest, unused=b"\0").encode()
    with pytest.raises(EncodeError, match="AceSize: must be at most 65535, not 65536"):
        replace(ace, data=bytes(0xFFFF - 3)).encode()


@pytest.mark.parametrize(
    "oversized",
    [(OpaqueAce(0x11, 0, bytes(0xFFFC)),), (OpaqueAce(0x11, 0, bytes(0x8000)), OpaqueAce(0x11, 0, bytes(0x8000)))],
)
def test_a_list_above_64_kib_cannot_be_written(oversized: tuple[Ace, ...]) -> None:
    with pytest.raises(EncodeError):
        Acl(aces=oversized).encode()
