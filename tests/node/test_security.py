"""The security descriptors of queues, as a node gives and takes them."""

from collections.abc import Callable

import pytest

from tests.node.directory_rig import DirectoryRig
from tests.node.rig import SETTINGS, Rig
from waypost.core.queues import Queue
from waypost.directory.topology import User
from waypost.errors import IllegalSecurityDescriptor
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Acl,
    SecurityDescriptor,
)
from waypost.wire.sid import ANONYMOUS, EVERYONE, NETWORK, Sid

ALICE = Sid(5, (21, 1, 2, 3, 1104))
# MS-MQMQ 2.2.24.
RIGHTS = 0x000F_003F
LOOK = 0x0002_0020


def granting(mask: int, owner: Sid | None = None) -> bytes:
    ace = AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, mask, EVERYONE)
    return SecurityDescriptor(owner=owner, dacl=Acl(aces=(ace,))).encode()


def auditing(mask: int) -> bytes:
    return SecurityDescriptor(sacl=Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, mask, EVERYONE),))).encode()


def descriptor(queue: Queue) -> SecurityDescriptor:
    return SecurityDescriptor.decode(queue.attributes.security)


def grants(queue: Queue) -> list[tuple[Sid, int]]:
    dacl = descriptor(queue).dacl
    assert isinstance(dacl, Acl)
    return [(ace.sid, ace.mask) for ace in dacl.aces if isinstance(ace, AccessAce)]


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-04")
def test_a_queue_without_a_descriptor_is_open_to_everyone_and_stays_so() -> None:
    rig = Rig()
    for _ in range(2):
        assert descriptor(rig.queue()).owner == ANONYMOUS
        assert grants(rig.queue()) == [(EVERYONE, RIGHTS)]
        rig.stop()


@pytest.mark.spec("MQDMPR-3.1.7.1.3.1-03", "MQDMPR-3.1.7.1.3.1-05", "MQDMPR-3.1.7.1.3.1-07")
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


@pytest.mark.spec("MQDMPR-3.1.1.2-12", "MQDMPR-3.1.7.1.3.1-02")
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
