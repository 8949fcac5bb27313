"""MS-MQQB 3.1.5.8.3: who may send to a queue."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.security.access import (
    INHERIT_ONLY_ACE,
    QUEUE_MANAGER,
    UNNAMED,
    Sender,
    caller_of,
    may_write,
    sender_of,
)
from waypost.security.default_descriptor import QueueCreation, create_default_queue_security_descriptor
from waypost.wire.access_masks import QueueAccess
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    ACCESS_DENIED_OBJECT_ACE_TYPE,
    ACL_REVISION_DS,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Ace,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, LOCAL_SYSTEM, NETWORK, Sid

ALICE, STAFF = Sid(5, (21, 1, 2, 3, 1001)), Sid(5, (21, 1, 2, 3, 513))
WRITE = int(QueueAccess.MQSEC_WRITE_MESSAGE)
ALL = int(QueueAccess.MQSEC_QUEUE_GENERIC_ALL)
PART = b"\x07" * 16


def allow(sid: Sid, mask: int = WRITE, flags: int = 0) -> AccessAce:
    return AccessAce(ACCESS_ALLOWED_ACE_TYPE, flags, mask, sid)


def deny(sid: Sid, mask: int = WRITE, flags: int = 0) -> AccessAce:
    return AccessAce(ACCESS_DENIED_ACE_TYPE, flags, mask, sid)


def dacl(*aces: Ace) -> bytes:
    return SecurityDescriptor(dacl=Acl(ACL_REVISION_DS, aces=aces)).encode()


def from_alice() -> SecurityHeader:
    return SecurityHeader(SENDER_SID, ALICE.encode())


def staff(sid: Sid) -> frozenset[Sid] | None:
    return frozenset({STAFF}) if sid == ALICE else None


@pytest.mark.spec("MQQB-3.1.5.8.3-18")
def test_the_right_to_write_comes_from_the_sender_or_its_groups() -> None:
    alice = sender_of(from_alice(), staff)
    for sid in (ALICE, STAFF, EVERYONE):
        assert may_write(dacl(allow(sid)), alice)
        assert may_write(dacl(allow(sid, ALL)), alice)
        assert not may_write(dacl(allow(sid, ALL & ~WRITE)), alice)
    assert not may_write(dacl(allow(Sid(5, (21, 1, 2, 3, 1002)))), alice)
    assert not may_write(dacl(allow(ANONYMOUS)), alice)
    assert WRITE == 0x00000004


@pytest.mark.spec("MQQB-3.1.5.8.3-19")
def test_a_queue_manager_is_checked_as_everyone() -> None:
    sender = sender_of(SecurityHeader(SENDER_QUEUE_MANAGER, bytes(range(16))), staff)
    assert sender == QUEUE_MANAGER == Sender(frozenset({Sid.parse("S-1-1-0")}))
    assert may_write(dacl(allow(EVERYONE)), sender)
    assert not may_write(dacl(allow(ANONYMOUS), allow(ALICE)), sender)


@pytest.mark.spec("MQQB-3.1.5.8.3-21")
def test_a_sender_that_cannot_be_looked_up_may_do_nothing() -> None:
    stranger = SecurityHeader(SENDER_SID, Sid(5, (21, 9, 9, 9, 9)).encode())
    open_to_all = (dacl(allow(EVERYONE, ALL), allow(ANONYMOUS)), SecurityDescriptor(dacl=NullAcl.NULL_ACL).encode())
    for header in (
        stranger,
        SecurityHeader(SENDER_SID, b"no SID"),
        SecurityHeader(SENDER_SID, ALICE.encode() + bytes(4)),
        SecurityHeader(SENDER_SID, b""),
        SecurityHeader(0xF, ALICE.encode()),
    ):
        for descriptor in open_to_all:
            assert not may_write(descriptor, sender_of(header, staff))
    assert all(may_write(descriptor, sender_of(from_alice(), staff)) for descriptor in open_to_all)


def test_who_names_no_sender_is_everyone_and_anonymous() -> None:
    """readings MQQB 3.26."""
    for header in (None, SecurityHeader(), SecurityHeader(0, ALICE.encode())):
        sender = sender_of(header, staff)
        assert sender == UNNAMED == Sender(frozenset({Sid.parse("S-1-1-0"), Sid.parse("S-1-5-7")}))
        assert not may_write(dacl(allow(ALICE)), sender)
        assert may_write(dacl(allow(ANONYMOUS)), sender)
        assert may_write(dacl(allow(EVERYONE)), sender)


def test_a_sid_that_nobody_has_verified_is_anonymous_granted_nothing_and_denied_what_it_is_denied() -> None:
    sender = sender_of(from_alice(), None)
    assert sender == Sender(frozenset({EVERYONE, ANONYMOUS}), claimed=frozenset({ALICE}))
    assert not may_write(dacl(allow(ALICE)), sender)
    assert may_write(dacl(allow(EVERYONE)), sender)
    assert may_write(dacl(allow(ANONYMOUS)), sender)
    assert not may_write(dacl(deny(ALICE), allow(EVERYONE)), sender)
    assert not may_write(dacl(deny(ANONYMOUS), allow(EVERYONE)), sender)
    assert may_write(dacl(deny(STAFF), allow(EVERYONE)), sender)


def test_who_claims_to_be_a_queue_manager_is_everyone_and_gets_around_nothing() -> None:
    sender = sender_of(SecurityHeader(SENDER_QUEUE_MANAGER, bytes(range(16))), None)
    assert may_write(dacl(allow(EVERYONE)), sender)
    assert not may_write(dacl(allow(ANONYMOUS), allow(ALICE)), sender)
    assert not may_write(dacl(deny(ANONYMOUS), allow(EVERYONE)), sender)


def test_a_caller_with_a_name_is_an_authenticated_user_of_the_network() -> None:
    caller = caller_of("CORP\\alice")
    for sid in (EVERYONE, AUTHENTICATED_USERS, NETWORK):
        assert may_write(dacl(allow(sid)), caller)
        assert not may_write(dacl(deny(sid), allow(EVERYONE)), caller)
    for sid in (ALICE, STAFF, ANONYMOUS):
        assert not may_write(dacl(allow(sid)), caller)
    assert caller_of(None) == UNNAMED


@pytest.mark.parametrize("sid", [ALICE, STAFF, Sid(5, (21, 1, 2, 3)), Sid(5, (21,))], ids=str)
def test_an_account_that_is_denied_may_be_that_of_any_caller_with_a_name(sid: Sid) -> None:
    caller = caller_of("CORP\\alice")
    part = ObjectAce(ACCESS_DENIED_OBJECT_ACE_TYPE, 0, WRITE, 0, PART, None, sid)
    assert not may_write(dacl(deny(sid), allow(EVERYONE)), caller)
    assert not may_write(dacl(part, allow(EVERYONE)), caller)
    assert may_write(dacl(deny(sid, ALL & ~WRITE), allow(EVERYONE)), caller)
    assert may_write(dacl(deny(sid, flags=INHERIT_ONLY_ACE), allow(EVERYONE)), caller)
    assert may_write(dacl(allow(EVERYONE), deny(sid)), caller), "the order decides"
    audit = AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, WRITE, sid)
    assert may_write(dacl(audit, allow(EVERYONE)), caller)


@pytest.mark.parametrize("sid", [ANONYMOUS, LOCAL_SYSTEM, ADMINISTRATORS, Sid(21, (21, 1)), Sid(5, ())], ids=str)
def test_what_is_no_account_of_a_domain_is_not_that_of_a_caller(sid: Sid) -> None:
    assert may_write(dacl(deny(sid), allow(EVERYONE)), caller_of("CORP\\alice"))


def test_an_account_that_is_denied_is_nobody_who_is_known_or_has_none() -> None:
    denied = dacl(deny(Sid(5, (21, 1, 2, 3, 1002))), allow(EVERYONE))
    for sender in (
        UNNAMED,
        caller_of(None),
        QUEUE_MANAGER,
        sender_of(from_alice(), staff),
        sender_of(from_alice(), None),
    ):
        assert may_write(denied, sender)


def test_the_first_ace_that_speaks_of_the_sender_decides() -> None:
    alice = sender_of(from_alice(), staff)
    assert may_write(dacl(allow(ALICE), deny(EVERYONE)), alice)
    assert not may_write(dacl(deny(STAFF), allow(ALICE)), alice)
    assert may_write(dacl(deny(STAFF, ALL & ~WRITE), deny(ANONYMOUS), allow(ALICE)), alice)


def test_an_ace_for_what_is_below_the_queue_does_not_count() -> None:
    alice = sender_of(from_alice(), staff)
    assert not may_write(dacl(allow(ALICE, flags=INHERIT_ONLY_ACE)), alice)
    assert may_write(dacl(deny(ALICE, flags=INHERIT_ONLY_ACE), allow(ALICE)), alice)


def test_an_ace_for_a_part_of_the_queue_gives_nothing_and_denies() -> None:
    alice = sender_of(from_alice(), staff)
    part = ObjectAce(ACCESS_ALLOWED_OBJECT_ACE_TYPE, 0, WRITE, 0, PART, None, ALICE)
    denied = replace(part, ace_type=ACCESS_DENIED_OBJECT_ACE_TYPE)
    assert not may_write(dacl(part), alice)
    assert may_write(dacl(replace(part, object_type=None)), alice)
    assert not may_write(dacl(denied, allow(ALICE)), alice)


def test_an_audit_neither_gives_nor_denies() -> None:
    alice = sender_of(from_alice(), staff)
    audit = AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, WRITE, ALICE)
    assert not may_write(dacl(audit), alice)
    assert may_write(dacl(audit, allow(ALICE)), alice)


def test_no_list_allows_everything_and_an_empty_one_nothing() -> None:
    assert may_write(SecurityDescriptor().encode(), UNNAMED)
    assert may_write(SecurityDescriptor(dacl=NullAcl.NULL_ACL).encode(), UNNAMED)
    assert not may_write(dacl(), UNNAMED)


@pytest.mark.parametrize(
    "descriptor",
    [
        b"",
        b"no descriptor",
        dacl(allow(EVERYONE, ALL | 0x1000_0000)),
        dacl(allow(EVERYONE), OpaqueAce(0x09, 0, bytes(8))),
    ],
)
def test_a_descriptor_that_no_queue_can_have_denies(descriptor: bytes) -> None:
    assert not may_write(descriptor, UNNAMED)


def test_a_new_queue_of_a_computer_without_a_domain_is_open_to_all() -> None:
    descriptor = create_default_queue_security_descriptor(QueueCreation(ANONYMOUS, lambda sid: False))
    assert may_write(descriptor, UNNAMED)
    assert may_write(descriptor, sender_of(from_alice(), None))
    owned = create_default_queue_security_descriptor(QueueCreation(ALICE, lambda sid: True))
    assert not may_write(owned, UNNAMED)
    assert may_write(owned, sender_of(from_alice(), staff))


@settings(deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(0, 15))
def test_any_bytes_get_an_answer(descriptor: bytes, security_id: bytes, sender_type: int) -> None:
    sender = sender_of(SecurityHeader(sender_type, security_id), staff)
    assert may_write(descriptor, sender) in (False, True)
