"""Objects that the directory of a node keeps: their rights, users with certificates, and new queues."""

from dataclasses import fields, replace
from hashlib import md5

import pytest

from tests.node.directory_rig import OK, DirectoryRig
from tests.node.test_protected_arrivals import certificate
from tests.node.test_security import ALICE, BOB, DEFAULTS, RIGHTS, descriptor, granting, grants
from waypost.core.queues import QueueAttributes
from waypost.directory.queries import AttributeFilter, Operator, Query
from waypost.directory.results import DirectoryOperationResult
from waypost.directory.topology import ConnectedNetwork, Enterprise, Site, User
from waypost.errors import IllegalSecurityDescriptor
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import ANONYMOUS, EVERYONE, Sid

SOMEBODY = b"\x5b" * 16


@pytest.fixture
def rig() -> DirectoryRig:
    return DirectoryRig()


def rights(mask: int) -> SecurityDescriptor:
    return SecurityDescriptor.decode(granting(mask))


@pytest.mark.parametrize(
    ("item", "mask"),
    [
        pytest.param(
            Enterprise(identifier=SOMEBODY, name="e"),
            0xF0037,
            marks=pytest.mark.spec("MQDMPR-3.1.1.6-04"),
            id="enterprise",
        ),
        pytest.param(
            Site(identifier=SOMEBODY, name="north"), 0xF0037, marks=pytest.mark.spec("MQDMPR-3.1.1.7-03"), id="site"
        ),
        pytest.param(
            ConnectedNetwork(identifier=SOMEBODY, name="lan"),
            0xF0031,
            marks=pytest.mark.spec("MQDMPR-3.1.1.9-01"),
            id="connected network",
        ),
    ],
)
def test_an_object_keeps_its_name_and_a_descriptor_with_the_rights_of_its_kind(
    item: Enterprise | Site | ConnectedNetwork, mask: int
) -> None:
    # MS-MQDMPR 3.1.1.6: there is one enterprise, which the node has made itself.
    rig = DirectoryRig()
    kind = type(item)
    if kind is Enterprise:
        own = rig.node.directory.events.read_directory(Query(Enterprise), rig.now).value
        assert own is not None
        item = own
    else:
        rig.put(item)
    for bit in range(32):
        if mask & 1 << bit:
            item = replace(item, security=rights(1 << bit))
            rig.set(item, "security")
        else:
            with pytest.raises(IllegalSecurityDescriptor, match=f"0x{1 << bit:08X}"):
                replace(item, security=rights(1 << bit))
        found = rig.read(kind, item.identifier)
        assert found is not None
        assert found.security == item.security
    rig.set(replace(item, security=rights(mask)), "security")
    rig.stop()
    kept = rig.read(kind, item.identifier)
    assert kept is not None
    assert (kept.name, kept.security) == (item.name, rights(mask))


def user(rig: DirectoryRig, sid: Sid) -> User | None:
    """The user that the directory has for a SID."""
    filters = (AttributeFilter("security_identifier", Operator.EQUALS, sid),)
    return rig.node.directory.events.read_directory(Query(User, filters), rig.now).value


def listed(*numbers: int) -> MqUserSignCerts:
    return MqUserSignCerts(tuple(MqUserSignCert.of(bytes([number]) * 16, certificate(number)) for number in numbers))


def digests(*numbers: int) -> tuple[bytes, ...]:
    return tuple(md5(certificate(number), usedforsecurity=False).digest() for number in numbers)


@pytest.mark.spec("MQDMPR-3.1.1.15-01", "MQDMPR-3.1.1.15-02")
def test_a_user_is_found_by_its_sid_and_publishes_its_certificates_and_their_md5_one_by_one(rig: DirectoryRig) -> None:
    alice = rig.put(User.with_certificates(ALICE, listed(1, 2)))
    rig.put(User.with_certificates(BOB, listed(3)))
    events = rig.node.directory.events
    # The SID is the name of a user: nobody else can have it.
    with rig.node.kernel.operation(rig.now):
        other = events.create_directory_object(User.with_certificates(ALICE, listed(4)), rig.now)
    assert other.status is DirectoryOperationResult.OBJECT_ALREADY_EXISTS
    # Digests that do not match the certificates are not written, and neither are such certificates.
    for wrong, name in (
        (User(identifier=alice, certificate_digest_list=digests(2, 1)), "certificate_digest_list"),
        (User(identifier=alice, certificate_digest_list=digests(1)), "certificate_digest_list"),
        (User(identifier=alice, certificates=listed(2, 1)), "certificates"),
    ):
        with rig.node.kernel.operation(rig.now):
            assert events.write_directory(wrong, rig.now, attribute_list=(name,)) is not OK
    for _ in range(2):
        found = user(rig, ALICE)
        assert found == User(
            identifier=alice,
            security_identifier=ALICE,
            certificate_digest_list=digests(1, 2),
            certificates=listed(1, 2),
        )
        assert {len(each) for each in found.certificate_digest_list} == {16}
        other_user = user(rig, BOB)
        assert other_user is not None
        assert other_user.certificate_digest_list == digests(3)
        rig.stop()
    assert user(rig, Sid(5, (21, 1, 2, 3, 1106))) is None


def everything() -> dict[str, object]:
    """A value for each attribute of a queue that differs from its default, but for its name and its descriptor."""
    given: dict[str, object] = {
        "label": "all can see it",
        "type_guid": b"\x77" * 16,
        "journaling": True,
        "quota": 10,
        "journal_quota": 20,
        "authentication": True,
        "privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
        "transactional": True,
        "multicast_address": "234.1.1.1:8001",
        "base_priority": -3,
    }
    assert given.keys() == DEFAULTS.keys() == {each.name for each in fields(QueueAttributes)} - {"pathname", "security"}
    assert all(given[name] != DEFAULTS[name] for name in given)
    return given


@pytest.mark.spec("MQDMPR-3.1.7.1.3-04")
def test_a_new_queue_has_all_attributes_that_were_given_here_and_in_the_directory(rig: DirectoryRig) -> None:
    given = everything()
    security = granting(0x2, ALICE)
    queue = rig.publish("orders", **given, security=security)
    for _ in range(2):
        item = rig.object_of(queue)
        assert item.security is not None
        assert str(queue.pathname) == item.pathname == "host\\orders"
        for each in (queue.attributes, item):
            assert {name: getattr(each, name) for name in given} == given
        for found in (descriptor(queue), item.security):
            assert (found.owner, found.dacl) == (ALICE, SecurityDescriptor.decode(security).dacl)
        rig.stop()
        queue = rig.public("orders")


@pytest.mark.spec("MQDMPR-3.1.7.1.33-01")
def test_a_public_queue_of_which_only_the_name_is_given_has_the_defaults(rig: DirectoryRig) -> None:
    queue = rig.publish("plain")
    for each in (queue.attributes, rig.object_of(queue)):
        assert {name: getattr(each, name) for name in DEFAULTS} == DEFAULTS
    assert descriptor(queue).owner == ANONYMOUS
    assert grants(queue) == [(EVERYONE, RIGHTS)]
