"""MS-MQDMPR 3.1.7.1.3.1."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import IllegalSecurityDescriptor
from waypost.security.default_descriptor import QueueCreation, create_default_queue_security_descriptor, machine_sid
from waypost.wire.access_masks import QueueAccess
from waypost.wire.path_names import PathName
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    SE_DACL_PROTECTED,
    SE_SELF_RELATIVE,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Acl,
    NullAcl,
    SecurityDescriptor,
)
from waypost.wire.sid import ANONYMOUS, EVERYONE, LOCAL_SYSTEM, Sid

DOMAIN = (21, 11, 22, 33)
ALICE = Sid(5, (*DOMAIN, 1104))
BOB = Sid(5, (*DOMAIN, 1105))
GUEST = Sid(5, (*DOMAIN, 501))
COMPUTER = Sid(5, (*DOMAIN, 1000))
LOCAL_USER = Sid(5, (21, 99, 99, 99, 1001))

LOOK = 0x0002_0020
WRITE = 0x0000_0004
ALL = 0x000F_003F


def is_domain_user(sid: Sid) -> bool:
    return sid.sub_authority[:4] == DOMAIN


def created(creation: QueueCreation) -> SecurityDescriptor:
    return SecurityDescriptor.decode(create_default_queue_security_descriptor(creation))


def by(caller: Sid, machine: Sid | None = None, *, srmp: bool = False) -> QueueCreation:
    return QueueCreation(caller, is_domain_user, machine_sid=machine, receives_srmp=srmp)


def grants(descriptor: SecurityDescriptor) -> list[tuple[Sid, int]]:
    """The grants by trustee, in the order of the list, which has nothing but plain grants."""
    assert isinstance(descriptor.dacl, Acl)
    for ace in descriptor.dacl.aces:
        assert isinstance(ace, AccessAce)
        assert (ace.ace_type, ace.ace_flags) == (ACCESS_ALLOWED_ACE_TYPE, 0)
    return [(ace.sid, ace.mask) for ace in descriptor.dacl.aces if isinstance(ace, AccessAce)]


def supplied(descriptor: SecurityDescriptor) -> QueueCreation:
    return replace(by(ALICE, COMPUTER), supplied=descriptor.encode())


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-01")
def test_the_computer_of_the_queue_may_look_at_it_if_the_directory_knows_the_computer() -> None:
    asked: list[str] = []

    def object_sid(computer: str) -> Sid | None:
        asked.append(computer)
        return COMPUTER if computer == "HOST" else None

    path = PathName.parse("HOST\\private$\\orders")
    found = machine_sid(path, object_sid)
    assert (found, asked) == (COMPUTER, ["HOST"])
    assert (COMPUTER, LOOK) in grants(created(by(ALICE, found)))
    failed = machine_sid(PathName.parse("LOST\\private$\\orders"), object_sid)
    in_a_workgroup = machine_sid(path, None)
    assert len(asked) == 2
    for unknown in (failed, in_a_workgroup):
        assert unknown is None
        assert grants(created(by(ALICE, unknown))) == [(EVERYONE, LOOK), (ALICE, ALL)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-02")
def test_a_supplied_owner_and_supplied_lists_are_taken_as_they_are() -> None:
    dacl = Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, int(QueueAccess.MQSEC_PEEK_MESSAGE), BOB),))
    sacl = Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0x40, WRITE, EVERYONE),))
    final = created(supplied(SecurityDescriptor(0, SE_DACL_PROTECTED, BOB, LOCAL_SYSTEM, sacl, dacl)))
    assert (final.owner, final.sacl, final.dacl) == (BOB, sacl, dacl)
    assert final.control & SE_DACL_PROTECTED
    assert final.group is None


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-02")
def test_without_a_supplied_dacl_the_default_one_is_for_the_supplied_owner() -> None:
    sacl = Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0x40, WRITE, EVERYONE),))
    final = created(supplied(SecurityDescriptor(owner=BOB, sacl=sacl)))
    assert (final.owner, final.sacl) == (BOB, sacl)
    assert grants(final) == [(EVERYONE, LOOK), (COMPUTER, LOOK), (BOB, ALL)]


@pytest.mark.parametrize("dacl", [NullAcl.NULL_ACL, Acl()])
def test_a_supplied_dacl_that_allows_everything_or_nothing_is_a_dacl(dacl: Acl | NullAcl) -> None:
    final = created(supplied(SecurityDescriptor(dacl=dacl)))
    assert (final.dacl, final.owner) == (dacl, ALICE)


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-03")
def test_the_caller_owns_the_queue_unless_somebody_else_is_named() -> None:
    assert created(by(ALICE)).owner == ALICE
    assert created(supplied(SecurityDescriptor(dacl=Acl()))).owner == ALICE
    assert created(supplied(SecurityDescriptor(owner=BOB))).owner == BOB


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-03")
def test_an_owner_who_is_no_domain_user_is_replaced_by_the_anonymous_user() -> None:
    anonymous = Sid.parse("S-1-5-7")
    assert created(by(LOCAL_USER)).owner == anonymous
    assert created(supplied(SecurityDescriptor(owner=LOCAL_USER))).owner == anonymous
    assert created(supplied(SecurityDescriptor(owner=LOCAL_USER, dacl=Acl()))).owner == anonymous


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-04")
@pytest.mark.parametrize("caller", [GUEST, LOCAL_USER])
def test_the_queue_of_a_guest_or_of_no_domain_user_is_open_to_everyone(caller: Sid) -> None:
    assert ALL == QueueAccess.MQSEC_QUEUE_GENERIC_ALL
    assert grants(created(by(caller))) == [(Sid.parse("S-1-1-0"), ALL)]


def test_only_the_account_501_of_a_domain_is_its_guest() -> None:
    for caller in (Sid(5, (*DOMAIN, 501, 501)), Sid(5, (*DOMAIN, 502)), Sid(9, (*DOMAIN, 501))):
        assert grants(created(by(caller))) == [(EVERYONE, LOOK), (caller, ALL)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-05")
def test_everyone_may_look_at_the_queue_of_a_domain_user_who_may_do_everything() -> None:
    assert LOOK == QueueAccess.MQSEC_GET_QUEUE_PROPERTIES | QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS
    assert grants(created(by(ALICE))) == [(EVERYONE, LOOK), (ALICE, ALL)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-06")
def test_everyone_and_the_anonymous_user_may_send_where_srmp_reaches() -> None:
    assert WRITE == QueueAccess.MQSEC_WRITE_MESSAGE
    assert grants(created(by(ALICE, srmp=True))) == [
        (EVERYONE, LOOK | WRITE),
        (Sid.parse("S-1-5-7"), WRITE),
        (ALICE, ALL),
    ]
    assert grants(created(by(LOCAL_USER, srmp=True))) == [(EVERYONE, ALL), (ANONYMOUS, WRITE)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-07")
def test_the_grants_are_in_order_and_the_descriptor_is_self_relative() -> None:
    data = create_default_queue_security_descriptor(by(ALICE, COMPUTER, srmp=True))
    assert int.from_bytes(data[2:4], "little") & SE_SELF_RELATIVE
    assert [sid for sid, _ in grants(SecurityDescriptor.decode(data))] == [EVERYONE, ANONYMOUS, COMPUTER, ALICE]
    of_a_guest = created(by(GUEST, COMPUTER, srmp=True))
    assert [sid for sid, _ in grants(of_a_guest)] == [EVERYONE, ANONYMOUS, COMPUTER]
    assert [sid for sid, _ in grants(created(by(ALICE, COMPUTER)))] == [EVERYONE, COMPUTER, ALICE]


@given(st.binary(min_size=1, max_size=200))
def test_any_supplied_bytes_give_a_descriptor_or_are_refused(data: bytes) -> None:
    try:
        final = create_default_queue_security_descriptor(replace(by(ALICE), supplied=data))
    except IllegalSecurityDescriptor:
        return
    assert SecurityDescriptor.decode(final).owner is not None


@pytest.mark.parametrize("bit", range(32))
def test_a_right_that_is_none_on_a_queue_is_refused_in_either_list(bit: int) -> None:
    allow = AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 1 << bit, EVERYONE)
    audit = AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, 1 << bit, EVERYONE)
    for descriptor in (SecurityDescriptor(dacl=Acl(aces=(allow,))), SecurityDescriptor(sacl=Acl(aces=(audit,)))):
        if ALL & 1 << bit:
            create_default_queue_security_descriptor(supplied(descriptor))
        else:
            with pytest.raises(IllegalSecurityDescriptor, match=f"0x{1 << bit:08X}"):
                create_default_queue_security_descriptor(supplied(descriptor))
