"""The embedded directory."""

from dataclasses import replace

import pytest

from tests.directory.rig import (
    EXISTS,
    GENERIC_ERROR,
    NO_ATTRIBUTE,
    NOT_FOUND,
    OK,
    SOMEBODY,
    START,
    embedded,
    equals,
    guid,
)
from waypost.clock import Now
from waypost.directory.embedded import EmbeddedDirectory
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.port import Access
from waypost.directory.queries import AttributeFilter, Query, by_identifier
from waypost.directory.records import DirectoryRecord
from waypost.directory.topology import (
    ConnectedNetwork,
    DistributionList,
    Enterprise,
    RoutingLink,
    Site,
    User,
)
from waypost.guid import NULL_GUID
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import EVERYONE, Sid

AT_START = Access(START)
LATER = Access(Now(START.monotonic + 60, START.wall + 60))

EVERY_TYPE: list[DirectoryObject] = [
    QueueManager(identifier=guid(1), computer_name="host"),
    Queue(identifier=guid(2), pathname="host\\orders"),
    Enterprise(identifier=guid(3), name="enterprise"),
    Site(identifier=guid(4), name="site"),
    RoutingLink(identifier=guid(5), site1_identifier=guid(4), site2_identifier=guid(40)),
    ConnectedNetwork(identifier=guid(6), name="net"),
    User(identifier=guid(7), security_identifier=EVERYONE),
    DistributionList(identifier=guid(8), elements=(FormatName.parse("DIRECT=OS:a\\b"),)),
]


def the(directory: EmbeddedDirectory, item: DirectoryObject) -> DirectoryObject:
    found = directory.read(Query(type(item), by_identifier(item.identifier)), AT_START)
    assert found.status is OK
    assert found.value is not None
    return found.value


@pytest.mark.spec("MQDMPR-3.1.1-04")
@pytest.mark.parametrize("item", EVERY_TYPE, ids=lambda item: type(item).__name__)
def test_every_object_has_one_identifier_for_life_and_nobody_else_has_it(item: DirectoryObject) -> None:
    directory = embedded()
    assert directory.create(item, None, AT_START).value == item.identifier
    assert the(directory, item).identifier == item.identifier
    nameless = replace(item, identifier=NULL_GUID)
    if not isinstance(item, DistributionList):
        # It is found by its name, and stays who it is although the written object has another identifier or none.
        assert directory.write(nameless, None, LATER) is OK
        assert the(directory, item).identifier == item.identifier
        assert directory.create(nameless, None, LATER).status is EXISTS
    for other in EVERY_TYPE:
        assert directory.create(replace(other, identifier=item.identifier), None, LATER).status is EXISTS
    given = [directory.create(Queue(pathname=f"host\\{number}"), None, LATER).value for number in range(3)]
    assert len({*given, item.identifier}) == 4
    assert NULL_GUID not in given


@pytest.mark.spec("MQDMPR-3.1.1.1-04")
def test_create_time_is_set_once_and_modify_time_moves_with_every_change() -> None:
    directory = embedded()
    manager = QueueManager(identifier=guid(1), computer_name="host", create_time=5, modify_time=6)
    directory.create(manager, None, AT_START)
    created = the(directory, manager)
    assert isinstance(created, QueueManager)
    assert (created.create_time, created.modify_time) == (1_000_000, 1_000_000)
    assert directory.write(replace(created, queue_manager_quota=7, create_time=9), None, LATER) is OK
    changed = the(directory, manager)
    assert isinstance(changed, QueueManager)
    assert (changed.create_time, changed.modify_time, changed.queue_manager_quota) == (1_000_000, 1_000_060, 7)


def test_the_directory_says_where_an_object_is() -> None:
    directory = embedded()
    for item in EVERY_TYPE:
        directory.create(item, None, AT_START)
    names = {type(item): the(directory, item) for item in EVERY_TYPE}
    paths = {kind: getattr(item, "full_path", None) for kind, item in names.items()}
    assert paths == {
        QueueManager: "CN=msmq,CN=host,CN=Computers,DC=waypost",
        Queue: "CN=orders,CN=msmq,CN=host,CN=Computers,DC=waypost",
        Enterprise: None,
        Site: "CN=site,CN=Sites,CN=Configuration,DC=waypost",
        RoutingLink: f"CN={'0' * 30}04{'0' * 30}28,CN=MsmqServices,CN=Services,CN=Configuration,DC=waypost",
        ConnectedNetwork: None,
        User: None,
        DistributionList: None,
    }
    directory.create(Site(identifier=guid(9), name="a,b=c\\d"), None, AT_START)
    odd = the(directory, Site(identifier=guid(9)))
    assert isinstance(odd, Site)
    assert odd.full_path.startswith("CN=a\\,b\\=c\\\\d,")


@pytest.mark.spec("MQDMPR-3.1.1.7-01")
def test_two_sites_never_share_a_name() -> None:
    directory = embedded()
    assert directory.create(Site(identifier=guid(1), name="north"), None, AT_START).status is OK
    assert directory.create(Site(identifier=guid(2), name="NORTH"), None, AT_START).status is EXISTS
    assert directory.create(Site(identifier=guid(3), name="south"), None, AT_START).status is OK
    assert directory.write(Site(identifier=guid(3), name="North"), ("name",), LATER) is EXISTS
    assert directory.write(Site(identifier=guid(3), name="east"), ("name",), LATER) is OK
    assert directory.create(Site(identifier=guid(4), name="south"), None, AT_START).status is OK
    renamed = directory.read(Query(Site, equals("name", "east")), AT_START).value
    assert renamed is not None
    assert renamed.full_path == "CN=east,CN=Sites,CN=Configuration,DC=waypost"


@pytest.mark.spec("MQDMPR-3.1.1.15-02")
def test_a_user_is_found_by_the_sid_and_brings_digests_and_certificates() -> None:
    directory = embedded()
    user = User.with_certificates(EVERYONE, MqUserSignCerts((MqUserSignCert.of(SOMEBODY, b"certificate"),)))
    identifier = directory.create(user, None, AT_START).value
    found = directory.read(Query(User, equals("security_identifier", EVERYONE)), AT_START).value
    assert identifier is not None
    assert found == replace(user, identifier=identifier)
    assert directory.create(User(security_identifier=EVERYONE), None, AT_START).status is EXISTS


def test_a_user_is_found_by_the_sid_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = embedded()
    sids = [Sid(5, (21, 1, 2, 3, 1000 + number)) for number in range(30)]
    users = [User(identifier=guid(number + 1), security_identifier=sid) for number, sid in enumerate(sids)]
    for user in users[:-1]:
        directory.create(user, None, AT_START)
    looked_at: list[DirectoryObject] = []
    compare = AttributeFilter.matches

    def matches(expression: AttributeFilter, item: DirectoryObject) -> bool:
        looked_at.append(item)
        return compare(expression, item)

    monkeypatch.setattr(AttributeFilter, "matches", matches)

    def found(sid: Sid) -> bytes | None:
        user = directory.read(Query(User, equals("security_identifier", sid)), AT_START).value
        return None if user is None else user.identifier

    assert [found(sid) for sid in sids] == [user.identifier for user in users[:-1]] + [None]
    assert len(looked_at) == len(sids) - 1
    # After changes, too.
    assert directory.write(replace(users[0], security_identifier=sids[-1]), None, AT_START) is OK
    assert directory.delete(users[1], AT_START) is OK
    assert [found(sid) for sid in (sids[0], sids[1], sids[-1])] == [None, None, users[0].identifier]
    again = EmbeddedDirectory(lambda: guid(99), directory.take_changes()[: len(users) - 1])
    assert again.read(Query(User, equals("security_identifier", sids[5])), AT_START).value == the(again, users[5])


def test_each_status_has_its_cause() -> None:
    directory = embedded()
    queue = Queue(identifier=guid(1), pathname="host\\orders", label="l")
    assert directory.delete(queue, AT_START) is NOT_FOUND
    assert directory.write(queue, None, AT_START) is NOT_FOUND
    assert directory.read(Query(Queue), AT_START).status is NOT_FOUND
    assert directory.create(queue, ("label",), AT_START).status is OK
    assert directory.read(Query(Queue, attribute_list=("quota",)), AT_START).status is NO_ATTRIBUTE
    assert directory.write(replace(queue, quota=3), ("quota",), AT_START) is OK
    found = directory.read(Query(Queue, attribute_list=("quota", "label")), AT_START)
    assert (found.status, found.value) == (OK, Queue(identifier=guid(1), quota=3, label="l"))
    assert directory.create(Queue(pathname="HOST\\Orders"), None, AT_START).status is EXISTS
    assert directory.delete(Queue(pathname="Host\\ORDERS"), AT_START) is OK
    assert directory.read(Query(Queue), AT_START).status is NOT_FOUND


def test_what_does_not_fit_together_is_not_written() -> None:
    directory = embedded()
    user = User.with_certificates(EVERYONE, MqUserSignCerts((MqUserSignCert.of(SOMEBODY, b"one"),)))
    directory.create(user, None, AT_START)
    other = User.with_certificates(EVERYONE, MqUserSignCerts((MqUserSignCert.of(SOMEBODY, b"two"),)))
    assert directory.write(other, ("certificates",), LATER) is GENERIC_ERROR
    assert directory.write(other, ("certificates", "certificate_digest_list"), LATER) is OK


def test_an_attribute_that_becomes_none_is_no_longer_set() -> None:
    directory = embedded()
    queue = Queue(identifier=guid(1), pathname="host\\q", security=SecurityDescriptor(owner=EVERYONE))
    directory.create(queue, None, AT_START)
    assert directory.read(Query(Queue, attribute_list=("security",)), AT_START).status is OK
    assert directory.write(replace(queue, security=None), ("security",), LATER) is OK
    assert directory.read(Query(Queue, attribute_list=("security",)), AT_START).status is NO_ATTRIBUTE


def last_of_each(changes: list[DirectoryRecord]) -> list[DirectoryRecord]:
    """The content of a store that did as it was asked."""
    kept = {(change.object_type, change.identifier): change for change in changes}
    return [change for change in kept.values() if change.value is not None]


def test_a_directory_made_from_its_records_is_the_same() -> None:
    directory = embedded()
    for item in reversed(EVERY_TYPE):
        directory.create(item, None, AT_START)
    directory.create(Queue(identifier=guid(0xFF), pathname="host\\gone"), None, AT_START)
    directory.write(Queue(identifier=guid(2), label="new"), ("label",), LATER)
    directory.delete(Queue(identifier=guid(0xFF)), LATER)
    again = EmbeddedDirectory(lambda: guid(0xAA), last_of_each(directory.take_changes()))
    assert directory.take_changes() == again.take_changes() == []
    for item in EVERY_TYPE:
        assert the(again, item) == the(directory, item)
        assert again.create(item, None, LATER).status is EXISTS
    assert again.read(Query(Queue, equals("label", "new")), AT_START).status is OK
    assert again.create(Queue(pathname="HOST\\orders"), None, LATER).status is EXISTS
    assert again.create(Queue(pathname="host\\gone"), None, LATER).value == guid(0xAA)


def test_objects_stand_in_the_order_of_their_identifiers() -> None:
    directory = embedded()
    for number in (5, 1, 9, 3):
        directory.create(Queue(identifier=guid(number), pathname=f"host\\q{number}"), None, AT_START)
    directory.delete(Queue(identifier=guid(5)), AT_START)
    found = directory.enumerate(Query(Queue), AT_START).value
    assert found is not None
    assert [each.value.identifier for each in found if each.value] == [guid(1), guid(3), guid(9)]


def test_a_distribution_list_has_the_members_that_it_was_given() -> None:
    directory = embedded()
    for item in EVERY_TYPE:
        directory.create(item, None, AT_START)
    found = directory.resolve_distribution_list(DistributionListFormatName(guid(8), "example.org"), AT_START)
    assert (found.status, found.value) == (OK, (FormatName.parse("DIRECT=OS:a\\b"),))
    assert directory.resolve_distribution_list(DistributionListFormatName(guid(2)), AT_START).status is NOT_FOUND
