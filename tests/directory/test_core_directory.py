"""The directory as the core calls it."""

import pytest

from tests.directory.rig import ME, OK, SOMEBODY, Rig, guid
from waypost.core.ports import Directory, PublicQueue
from waypost.core.queues import Queue as CoreQueue
from waypost.core.queues import QueueAttributes
from waypost.directory.core_directory import CoreDirectory, queue_attributes, queue_object
from waypost.directory.effects import ChangeOperation
from waypost.directory.objects import Queue, QueueManager
from waypost.directory.topology import DistributionList
from waypost.errors import (
    DirectoryNotConnected,
    DirectoryObjectExists,
    DirectoryObjectNotFound,
    IllegalSecurityDescriptor,
    UnsupportedFormatName,
)
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.path_names import PathName
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.security_descriptor import ACCESS_ALLOWED_ACE_TYPE, AccessAce, Acl, SecurityDescriptor
from waypost.wire.sid import EVERYONE


def security(mask: int) -> bytes:
    return SecurityDescriptor(dacl=Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, mask, EVERYONE),))).encode()


def core_queue(name: str = "orders", mask: int = 0x4) -> CoreQueue:
    attributes = QueueAttributes(
        pathname=PathName.parse(f"host\\{name}"),
        label="label",
        type_guid=guid(0x77),
        journaling=True,
        quota=1,
        journal_quota=2,
        authentication=True,
        privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_BODY,
        transactional=True,
        multicast_address="234.1.1.1:8001",
        security=security(mask),
        base_priority=-3,
    )
    return CoreQueue(1, guid(1), attributes, PathName.parse(f"host.example.org\\{name}"))


def adapter(rig: Rig) -> Directory:
    return CoreDirectory(rig.events, lambda: rig.now)


def test_a_queue_of_the_core_keeps_its_attributes_through_the_directory() -> None:
    queue = core_queue()
    known = QueueAttributes(queue.pathname, transactional=True)
    assert queue_attributes(queue_object(queue), known) == queue.attributes
    rig = Rig()
    identifier = adapter(rig).create_queue(queue)
    found = rig.read(Queue, identifier).value
    assert found is not None
    assert queue_attributes(found, known) == queue.attributes
    assert found.qualified_pathname == "host.example.org\\orders"


@pytest.mark.spec("MQDMPR-3.1.1.2-14")
def test_a_published_queue_has_paths_and_another_has_none() -> None:
    rig = Rig()
    directory = adapter(rig)
    queue = core_queue()
    unpublished = queue_object(queue)
    assert (unpublished.full_path, unpublished.directory_path) == ("", "")
    assert directory.paths_of(queue) is None
    queue.identifier = directory.create_queue(queue)
    paths = directory.paths_of(queue)
    assert paths == (
        "CN=orders,CN=msmq,CN=host,CN=Computers,DC=waypost",
        f"<GUID={guid_text(queue.identifier)}>",
    )
    assert rig.events.delete_directory_object(Queue(pathname="host\\orders"), rig.now) is OK


def test_what_the_directory_refuses_is_an_error_with_its_status() -> None:
    rig = Rig()
    directory = adapter(rig)
    directory.create_queue(core_queue())
    with pytest.raises(DirectoryObjectExists):
        directory.create_queue(core_queue())
    directory.delete_queue(core_queue())
    with pytest.raises(DirectoryObjectNotFound):
        directory.delete_queue(core_queue())
    rig.line.is_cut = True
    with pytest.raises(DirectoryNotConnected):
        directory.create_queue(core_queue())
    with pytest.raises(DirectoryNotConnected):
        adapter(Rig(integrated=False)).create_queue(core_queue())
    assert rig.local.directory_offline


def test_only_what_has_changed_of_a_published_queue_is_written() -> None:
    rig = Rig()
    directory = CoreDirectory(rig.events, lambda: rig.now)
    queue = core_queue()
    directory.write_queue(queue)
    assert rig.read(Queue, queue.identifier).value is None
    queue.identifier = directory.create_queue(queue)
    rig.notifications()
    directory.write_queue(queue)
    assert rig.notifications() == []
    rig.set(Queue(identifier=queue.identifier, pathname="host\\orders", label="label", quota=1, base_priority=99))
    queue.attributes.label = "new"
    queue.attributes.base_priority = 99
    directory.write_queue(queue)
    assert [operation for operation, _ in rig.notifications()] == [ChangeOperation.QUEUE_UPDATE]
    read = rig.read(Queue, queue.identifier).value
    assert read is not None
    assert queue_attributes(read, queue.attributes) == queue.attributes
    rig.line.is_cut = True
    rig.line.on_call = lambda: setattr(rig.line, "is_cut", rig.line.calls[-1][0] == "write")
    queue.attributes.label = "newer"
    with pytest.raises(DirectoryNotConnected, match="update"):
        directory.write_queue(queue)


def test_a_queue_with_foreign_rights_is_not_published() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        adapter(Rig()).create_queue(core_queue(mask=0x40))


def test_a_public_queue_is_found_with_its_computer() -> None:
    rig = Rig()
    directory = adapter(rig)
    rig.put(Queue(identifier=guid(1), pathname="Other\\orders", base_priority=7))
    assert directory.find_queue(guid(1)) == PublicQueue("Other\\orders", NULL_GUID, "Other", 7)
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="OTHER"))
    assert directory.find_queue(guid(1)) == PublicQueue("Other\\orders", SOMEBODY, "Other", 7)
    assert directory.find_queue(guid(2)) is None


def test_a_computer_is_named_by_its_identifier() -> None:
    rig = Rig()
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="other"))
    assert adapter(rig).computer_name(SOMEBODY) == "other"
    assert adapter(rig).computer_name(ME) is None
    assert adapter(Rig(integrated=False)).computer_name(ME) == "host"


def test_a_distribution_list_is_known_to_the_directory_alone() -> None:
    rig = Rig()
    elements = (FormatName.parse("DIRECT=OS:a\\q"), FormatName.parse("DIRECT=OS:b\\q"))
    rig.put(DistributionList(identifier=guid(1), elements=elements))
    name = DistributionListFormatName(guid(1))
    assert adapter(rig).members(name) == elements
    assert adapter(rig).members(DistributionListFormatName(guid(2))) is None
    core = CoreDirectory(rig.events, lambda: rig.now)
    assert str(core.expand_format_name(name)) == "DIRECT=OS:a\\q,DIRECT=OS:b\\q"
    workgroup = Rig(integrated=False)
    workgroup.put(DistributionList(identifier=guid(1), elements=elements))
    assert adapter(workgroup).members(name) is None
    with pytest.raises(UnsupportedFormatName):
        CoreDirectory(workgroup.events, lambda: workgroup.now).expand_format_name(name)
