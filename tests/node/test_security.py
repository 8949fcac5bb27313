"""The security descriptors of queues, as a node gives and takes them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.node.directory_rig import DirectoryRig
from tests.node.rig import SETTINGS, Rig
from waypost.api.operations import CreateQueue, Operation, Peek, Receive, ShowQueue
from waypost.core.queues import Queue
from waypost.daemon.loading import machine_security
from waypost.directory.topology import User
from waypost.errors import AccessDenied, IllegalSecurityDescriptor, Timeout
from waypost.security.callers import Role, verified
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    SE_SELF_RELATIVE,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Acl,
    NullAcl,
    SecurityDescriptor,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, NETWORK, Sid

ALICE, BOB = Sid(5, (21, 1, 2, 3, 1104)), Sid(5, (21, 1, 2, 3, 1105))
# MS-MQMQ 2.2.24.
RIGHTS = 0x000F_003F
LOOK = 0x0002_0020
# MS-MQDMPR 3.1.7.1.33.
DEFAULTS: dict[str, object] = {
    "label": "",
    "type_guid": bytes(16),
    "journaling": False,
    "quota": 0xFFFF_FFFF,
    "journal_quota": 0xFFFF_FFFF,
    "authentication": False,
    "privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL,
    "transactional": False,
    "multicast_address": "",
    "base_priority": 0,
}


def granting(mask: int, owner: Sid | None = None) -> bytes:
    ace = AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, mask, EVERYONE)
    return SecurityDescriptor(owner=owner, dacl=Acl(aces=(ace,))).encode()


def auditing(mask: int) -> bytes:
    return SecurityDescriptor(sacl=Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, mask, EVERYONE),))).encode()


def descriptor(queue: Queue) -> SecurityDescriptor:
    return SecurityDescriptor.decode(queue.attributes.security)


def grants(queue: Queue) -> list[tuple[Sid, int]]:
    return _grants(descriptor(queue))


def computer_grants(rig: Rig) -> list[tuple[Sid, int]]:
    return _grants(SecurityDescriptor.decode(rig.node.access.machine_descriptor))


def _grants(found: SecurityDescriptor) -> list[tuple[Sid, int]]:
    assert isinstance(found.dacl, Acl)
    return [(ace.sid, ace.mask) for ace in found.dacl.aces if isinstance(ace, AccessAce)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-04")
def test_a_queue_without_a_descriptor_is_open_to_everyone_and_stays_so() -> None:
    rig = Rig()
    for _ in range(2):
        assert descriptor(rig.queue()).owner == ANONYMOUS
        assert grants(rig.queue()) == [(EVERYONE, RIGHTS)]
        rig.stop()


@pytest.mark.spec("MQDMPR-3.1.7.1.33-01")
def test_a_queue_of_which_only_the_name_is_given_has_the_defaults() -> None:
    rig = Rig()
    rig.done(rig.do(CreateQueue(name="plain")))
    attributes = rig.queue("plain").attributes
    assert {name: getattr(attributes, name) for name in DEFAULTS} == DEFAULTS
    # readings MQDMPR 7.1: the creator owns it.
    assert descriptor(rig.queue("plain")).owner == rig.node.administrator.sid
    assert grants(rig.queue("plain")) == [(EVERYONE, RIGHTS)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-05", "MQDMPR-3.1.7.1.3.1-07")
def test_an_account_can_own_a_queue_and_a_user_of_the_directory_closes_it() -> None:
    owned, odd = SecurityDescriptor(owner=ALICE).encode(), SecurityDescriptor(owner=NETWORK).encode()
    for rig in (DirectoryRig(SETTINGS), DirectoryRig()):
        assert descriptor(rig.create("odd", security=odd)).owner == ANONYMOUS
        assert descriptor(rig.create("before", security=owned)).owner == ALICE
        assert grants(rig.queue("before")) == [(EVERYONE, RIGHTS)]
    rig.put(User(security_identifier=ALICE))
    queue = rig.create("after", security=owned)
    assert descriptor(queue).owner == ALICE
    assert grants(queue) == [(EVERYONE, LOOK), (ALICE, RIGHTS)]
    assert int.from_bytes(queue.attributes.security[2:4], "little") & SE_SELF_RELATIVE


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-02")
@pytest.mark.parametrize("create", [DirectoryRig.create, DirectoryRig.publish], ids=["private", "public"])
def test_the_owner_and_the_lists_that_are_supplied_stay_as_they_are(create: Callable[..., Queue]) -> None:
    rig = DirectoryRig()
    for sid in (ALICE, BOB):
        rig.put(User(security_identifier=sid))
    sacl = Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0x40, 0x4, EVERYONE),))
    for name, dacl in (
        ("some", Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x2, BOB),))),
        ("nobody", Acl()),
        ("all", NullAcl.NULL_ACL),
    ):
        supplied = SecurityDescriptor(owner=ALICE, sacl=sacl, dacl=dacl)
        found = descriptor(create(rig, name, security=supplied.encode()))
        assert (found.owner, found.sacl, found.dacl) == (ALICE, sacl, dacl)
    # Only a missing DACL is the default one, for the owner that was supplied.
    queue = create(rig, "default", security=SecurityDescriptor(owner=BOB, sacl=sacl).encode())
    assert (descriptor(queue).owner, descriptor(queue).sacl) == (BOB, sacl)
    assert grants(queue) == [(EVERYONE, LOOK), (BOB, RIGHTS)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-03")
@pytest.mark.parametrize(
    ("sid", "is_known", "owner"),
    [
        (ALICE, True, ALICE),
        # readings MQDMPR 7.1: an account that creates a queue owns it, although the directory does not know it.
        (ALICE, False, ALICE),
        (NETWORK, False, ANONYMOUS),
        (ANONYMOUS, False, ANONYMOUS),
    ],
)
def test_the_caller_owns_a_new_queue_unless_another_owner_is_supplied(sid: Sid, owner: Sid, *, is_known: bool) -> None:
    rig = DirectoryRig()
    # Callers of the kind that may create queues.
    caller = verified(sid, frozenset(), Role.OPERATE, "somebody", "http 127.0.0.1")
    if is_known:
        rig.put(User(security_identifier=sid))
    call = replace(rig.call(), caller=caller)
    rig.handlers.start(call, CreateQueue(name="mine"))
    rig.done(call.request)
    assert descriptor(rig.queue("mine")).owner == owner
    supplied = SecurityDescriptor(owner=BOB).encode()
    assert descriptor(rig.create("of-bob", security=supplied)).owner == BOB


@pytest.mark.spec("MQDMPR-3.1.1.2-12")
@pytest.mark.parametrize("create", [DirectoryRig.create, DirectoryRig.publish], ids=["private", "public"])
def test_a_new_queue_has_only_the_rights_of_a_queue(create: Callable[..., Queue]) -> None:
    rig = DirectoryRig()
    before = set(rig.node.manager.queues)
    for bit in range(32):
        for security in (granting(1 << bit), auditing(1 << bit)):
            if not RIGHTS & 1 << bit:
                with pytest.raises(IllegalSecurityDescriptor, match=f"0x{1 << bit:08X}"):
                    create(rig, "refused", security=security)
    assert set(rig.node.manager.queues) == before
    queue = create(rig, "accepted", security=granting(RIGHTS))
    assert grants(queue) == [(EVERYONE, RIGHTS)]
    for each in rig.node.manager.collection.by_number.values():
        if each.attributes.security:
            assert all(mask & ~RIGHTS == 0 for _, mask in grants(each))


@pytest.mark.spec("MQDMPR-3.1.1.2-12")
@pytest.mark.parametrize("create", [DirectoryRig.create, DirectoryRig.publish], ids=["private", "public"])
def test_a_queue_cannot_be_given_other_rights_later(create: Callable[..., Queue]) -> None:
    rig = DirectoryRig()
    queue = create(rig, "queue")
    before = queue.attributes
    for security in (granting(RIGHTS + 0x40), auditing(0x0010_0000), b"no descriptor"):
        with pytest.raises(IllegalSecurityDescriptor):
            rig.change(queue, label="changed", security=security)
    assert queue.attributes == before
    rig.change(queue, security=granting(LOOK))
    rig.stop()
    assert [grants(each) for each in rig.node.manager.queues.values() if each.number == queue.number] == [
        [(EVERYONE, LOOK)]
    ]


DEAD, JOURNAL = "system$;deadletter", "system$;journal"
# The operations that the rights on a computer decide about, with all bits that each needs: MS-MQMQ 2.2.23.
OF_COMPUTER: list[tuple[Operation[Any], int]] = [
    (Receive(name=DEAD, timeout_s=0), 0x3),
    (Peek(name=DEAD, timeout_s=0), 0x2),
    (Receive(name=JOURNAL, timeout_s=0), 0xC0),
    (Peek(name=JOURNAL, timeout_s=0), 0x80),
    (CreateQueue(name="mine"), 0x4),
    (ShowQueue(name=DEAD), 0x20),
]


def allowed(rig: Rig) -> list[Operation[Any]]:
    """The operations that a user may do who is not an administrator."""
    found = []
    for operation, _ in OF_COMPUTER:
        call = replace(rig.call(), caller=verified(BOB, frozenset(), Role.OPERATE, "bob", "http 127.0.0.1"))
        try:
            rig.handlers.start(call, operation)
            rig.done(call.request)
        except AccessDenied:
            continue
        except Timeout:
            pass
        found.append(operation)
    return found


@pytest.mark.spec("MQMQ-2.2.23-02")
@pytest.mark.parametrize(
    ("rights", "mask"),
    [
        ("GR", 0x200E3),
        ("GW", 0x20024),
        ("GA", 0xF00F7),
        *[(f"0x{mask:x}", mask) for mask in (0x1, 0x2, 0x3, 0x4, 0x20, 0x40, 0x80, 0xC0, 0x20020)],
    ],
)
def test_a_composite_right_on_the_computer_is_all_its_bits(rights: str, mask: int) -> None:
    security = machine_security(f"D:(A;;{rights};;;{BOB})")
    rig = Rig(settings=replace(SETTINGS, machine_security=security))
    assert computer_grants(rig) == [(BOB, mask)]
    assert allowed(rig) == [operation for operation, needed in OF_COMPUTER if needed & mask == needed]


@pytest.mark.spec("MQMQ-2.2.23-02")
def test_users_may_write_to_the_computer_and_everyone_may_look_at_it_by_default() -> None:
    assert computer_grants(Rig()) == [(ADMINISTRATORS, 0xF00F7), (AUTHENTICATED_USERS, 0x20024), (EVERYONE, 0x20020)]
