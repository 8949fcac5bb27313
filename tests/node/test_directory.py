"""Public queues from their creation to their end, through a node with the embedded directory."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.directory_rig import DirectoryRig, public_name
from tests.node.rig import RECEIVE, SEND, letter
from tests.store.engines import LmdbEngine
from waypost.api.operations import CreateQueue, SetQueue
from waypost.core.queues import OutgoingQueue, Queue
from waypost.directory import objects
from waypost.directory.core_directory import CoreDirectory
from waypost.directory.effects import ChangeOperation, SendChangeNotification
from waypost.directory.queries import Query
from waypost.directory.topology import DistributionList, Enterprise
from waypost.errors import (
    DirectoryNotConnected,
    DirectoryObjectExists,
    DirectoryObjectNotFound,
    QueueNotFound,
    UnsupportedFormatName,
)
from waypost.guid import NULL_GUID, guid_text
from waypost.hresult import HResult
from waypost.node.directory import DirectoryMode
from waypost.wire.format_names import DistributionListFormatName, FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import QueuePrivacy

SOMEBODY = b"\x5b" * 16


@pytest.fixture
def rig() -> DirectoryRig:
    return DirectoryRig()


def published(rig: DirectoryRig) -> list[str]:
    """The paths of all queues that the directory has."""
    events = rig.node.directory.events
    handle = events.read_directory_begin(Query(objects.Queue), rig.now).value
    assert handle is not None
    found = []
    while (item := events.read_directory_next(handle).value) is not None:
        assert isinstance(item, objects.Queue)
        found.append(item.pathname)
    events.read_directory_end(handle)
    return found


def opened(rig: DirectoryRig, name: str) -> Queue:
    """The queue behind a handle for sending."""
    queue = rig.open(name, SEND).queue
    assert queue is not None
    return queue


@pytest.mark.spec("MQDMPR-3.1.7.1.3-08", "MQDMPR-3.1.1.2-14")
def test_a_public_queue_is_published_and_known_by_the_identifier_of_the_directory(rig: DirectoryRig) -> None:
    queue = rig.publish(label="all can see it")
    item = rig.object_of(queue)
    assert (item.pathname, item.label) == ("host\\public", "all can see it")
    assert queue.full_path == item.full_path == "CN=public,CN=msmq,CN=host,CN=Computers,DC=waypost"
    assert queue.directory_path == item.directory_path == f"<GUID={guid_text(queue.identifier)}>"
    quiet = rig.publish_quietly("quiet")
    for other in (rig.queue(), quiet, *rig.node.manager.system_queues.values()):
        assert (other.full_path, other.directory_path) == ("", "")
    rig.stop()
    assert (rig.public().full_path, rig.public().directory_path) == (item.full_path, item.directory_path)
    assert (rig.queue().full_path, rig.queue().directory_path) == ("", "")


def test_a_message_comes_and_goes_by_the_public_name_also_over_a_restart(tmp_path: Path) -> None:
    engine = LmdbEngine(tmp_path / "store")
    rig = DirectoryRig(engine=engine)
    name = public_name(rig.publish().identifier)
    rig.done(rig.mail("first", name))
    rig.done(rig.mail("second", name))
    assert rig.message(rig.receive(name)).label == "first"
    rig.stop()
    assert public_name(rig.public().identifier) == name
    assert rig.message(rig.receive(name)).label == "second"
    engine.stop()


def test_a_message_goes_to_several_queues_of_which_some_are_public(rig: DirectoryRig) -> None:
    local = rig.publish()
    far = rig.put(objects.Queue(pathname="other\\orders"))
    rig.put(objects.QueueManager(identifier=SOMEBODY, computer_name="Other"))
    names = [public_name(local.identifier), public_name(far), "DIRECT=OS:host\\private$\\orders"]
    rig.done(rig.mail("letter", ",".join(names)))
    outgoing = rig.node.manager.collection.outgoing[FormatName.parse(names[1])]
    hosts = [rig.contents(queue)[0].destination_queue_manager_identifier for queue in (local, outgoing, rig.queue())]
    assert hosts == [rig.node.manager.identity.identifier, SOMEBODY, NULL_GUID]


def test_an_acknowledgment_goes_to_a_public_queue_elsewhere(rig: DirectoryRig) -> None:
    far = public_name(rig.put(objects.Queue(pathname="other\\answers")))
    rig.put(objects.QueueManager(identifier=SOMEBODY, computer_name="Other"))
    asking = letter("letter", acknowledgements_requested=1, administration_queue_format_name=FormatName.parse(far))
    rig.done(rig.send(asking))
    (answer,) = rig.contents(rig.node.manager.collection.outgoing[FormatName.parse(far)])
    assert answer.destination_queue_manager_identifier == SOMEBODY
    assert answer.message_class == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE


@pytest.mark.spec("MQDMPR-3.1.7.1.3-09")
def test_a_queue_that_cannot_be_published_is_not_created(rig: DirectoryRig) -> None:
    rig.put(objects.Queue(pathname="HOST\\PUBLIC"))
    before = dict(rig.node.manager.collection.by_number)
    with pytest.raises(DirectoryObjectExists) as refusal:
        rig.publish()
    assert refusal.value.hresult is HResult.MQ_ERROR_DS_ERROR
    assert rig.node.manager.collection.by_number == before
    rig.stop()
    assert PathName.parse("host\\public") not in rig.node.manager.queues


@pytest.mark.spec("MQDMPR-3.1.7.1.3-10", "MQDMPR-3.1.7.1.4-05")
def test_the_directory_can_be_left_alone(rig: DirectoryRig) -> None:
    quiet = rig.publish_quietly("quiet")
    assert published(rig) == []
    rig.done(rig.mail("letter", public_name(quiet.identifier)))
    rig.change(quiet, label="still unknown")
    assert published(rig) == []
    public = rig.publish()
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.delete_queue(public, skip_directory=True)
    rig.settle()
    assert published(rig) == ["host\\public"]
    rig.stop()
    assert published(rig) == ["host\\public"]
    assert rig.public("quiet").attributes.label == "still unknown"


@pytest.mark.spec("MQDMPR-3.1.7.1.4-04")
def test_a_public_queue_is_withdrawn_after_it_is_gone(rig: DirectoryRig) -> None:
    first, second = rig.publish("first"), rig.publish("second")
    rig.unpublish(first)
    assert published(rig) == ["host\\second"]
    rig.remove(objects.Queue(identifier=second.identifier))
    with pytest.raises(DirectoryObjectNotFound):
        rig.unpublish(second)
    rig.stop()
    assert published(rig) == []
    assert not {PathName.parse("host\\first"), PathName.parse("host\\second")} & set(rig.node.manager.queues)


def test_queue_and_object_are_in_one_batch(rig: DirectoryRig) -> None:
    rig.hold_disk()
    rig.submitted.clear()
    assert not rig.is_answered(rig.do(CreateQueue(name="host\\public")))
    assert len(rig.submitted) == 1
    rig.crash()
    assert published(rig) == []
    queue = rig.publish()
    rig.hold_disk()
    assert not rig.is_answered(rig.delete(str(queue.pathname)))
    rig.crash()
    assert published(rig) == ["host\\public"]
    assert rig.object_of(rig.public()).identifier == queue.identifier


@pytest.mark.spec("MQDMPR-3.1.1-02")
def test_what_is_changed_of_a_queue_is_changed_in_the_directory_and_both_survive(rig: DirectoryRig) -> None:
    queue = rig.publish(label="old")
    rig.advance(60)
    changes = {
        "label": "new",
        "type_guid": b"\x77" * 16,
        "journaling": True,
        "quota": 10,
        "journal_quota": 20,
        "authentication": True,
        "privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
        "multicast_address": "234.1.1.1:8001",
        "base_priority": -3,
    }
    rig.change(queue, **changes)
    for _ in range(2):
        queue = rig.public()
        item = rig.object_of(queue)
        assert {name: getattr(item, name) for name in changes} == changes
        assert {name: getattr(queue.attributes, name) for name in changes} == changes
        assert (item.create_time, item.modify_time) == (queue.create_time, queue.modify_time)
        assert item.modify_time == item.create_time + 60
        rig.stop()
    rig.unpublish(rig.public())
    assert rig.read(objects.Queue, queue.identifier) is None


def test_what_is_not_changed_is_not_written(rig: DirectoryRig) -> None:
    queue = rig.publish()
    item = rig.object_of(queue)
    rig.advance(60)
    rig.change(queue)
    assert rig.object_of(queue) == item


@pytest.mark.spec("MQDMPR-3.1.1.2-18")
def test_only_public_queues_are_published(rig: DirectoryRig) -> None:
    rig.publish()
    rig.create("private")
    rig.open("DIRECT=OS:host\\public;part", RECEIVE)
    assert isinstance(opened(rig, "DIRECT=OS:elsewhere\\public"), OutgoingQueue)
    rig.change(rig.queue("private"), label="another")
    assert published(rig) == ["host\\public"]
    kinds = {str(queue): queue.queue_type for queue in rig.node.manager.queues.values()}
    rig.stop()
    assert {str(queue): queue.queue_type for queue in rig.node.manager.queues.values()} == kinds
    assert set(kinds.values()) == {QueueKind.PUBLIC, QueueKind.PRIVATE, QueueKind.SYSTEM}
    with pytest.raises(DirectoryNotConnected):
        DirectoryRig(replace(rig.settings, directory=DirectoryMode.WORKGROUP)).publish()


@pytest.mark.spec("MQDMPR-3.1.7.1.5-12")
def test_a_public_name_that_the_directory_does_not_know_cannot_be_opened(rig: DirectoryRig) -> None:
    with pytest.raises(UnsupportedFormatName) as refusal:
        rig.open(public_name(SOMEBODY), SEND)
    assert refusal.value.hresult == 0xC00E0020


@pytest.mark.spec("MQDMPR-3.1.7.1.5-13")
def test_a_queue_of_this_computer_that_only_the_directory_has_is_not_found(rig: DirectoryRig) -> None:
    identifier = rig.put(objects.Queue(pathname="HOST\\gone"))
    with pytest.raises(QueueNotFound) as refusal:
        rig.open(public_name(identifier), SEND)
    assert refusal.value.hresult == 0xC00E0003


@pytest.mark.spec("MQDMPR-3.1.7.1.5-16")
def test_an_outgoing_queue_has_the_base_priority_of_the_directory(
    rig: DirectoryRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = public_name(rig.put(objects.Queue(pathname="other\\orders", base_priority=-7)))
    with pytest.raises(DirectoryObjectNotFound, match="queue manager"):
        rig.mail("letter", name)
    rig.put(objects.QueueManager(identifier=SOMEBODY, computer_name="Other"))
    queue = opened(rig, name)
    assert isinstance(queue, OutgoingQueue)
    assert queue.attributes.base_priority == -7
    rig.done(rig.mail("letter", name))
    rig.stop()
    [waiting] = rig.contents(opened(rig, name))
    assert (waiting.label, waiting.destination_queue_manager_identifier) == ("letter", SOMEBODY)

    vanishing = rig.put(objects.Queue(pathname="other\\vanishing"))
    reads = [CoreDirectory.find_queue(rig.node.directory.core, vanishing), None]
    monkeypatch.setattr(CoreDirectory, "find_queue", lambda *_: reads.pop(0))
    with pytest.raises(QueueNotFound) as refusal:
        rig.open(public_name(vanishing), SEND)
    assert refusal.value.hresult == 0xC00E0003


@pytest.mark.spec("MQDMPR-3.1.7.1.5-01", "MQMQ-2.1.5-02")
def test_distribution_lists_are_expanded_before_anything_is_opened(rig: DirectoryRig) -> None:
    names = ("DIRECT=OS:host\\private$\\orders", "DIRECT=OS:host\\private$\\copies")
    rig.create("copies")
    inner = rig.put(DistributionList(elements=(FormatName.parse(names[1]),)))
    elements = (FormatName.parse(names[0]), DistributionListFormatName(inner))
    outer = rig.put(DistributionList(elements=elements))
    rig.done(rig.send("to all", f"DL={guid_text(outer)}"))
    assert [rig.labels(rig.queue(name)) for name in ("orders", "copies")] == [["to all"], ["to all"]]
    rig.stop()
    rig.done(rig.send("again", f"DL={guid_text(outer)}"))
    assert rig.labels() == ["to all", "again"]
    rig.remove(DistributionList(identifier=inner))
    before = {queue.number: len(queue.descriptors) for queue in rig.node.manager.queues.values()}
    with pytest.raises(UnsupportedFormatName, match="cannot resolve "):
        rig.done(rig.ask(f"DL={guid_text(outer)}", SEND))
    assert {queue.number: len(queue.descriptors) for queue in rig.node.manager.queues.values()} == before


def test_those_who_do_not_speak_ldap_are_notified_when_a_change_is_durable(rig: DirectoryRig) -> None:
    enterprise = rig.node.directory.events.read_directory(Query(Enterprise), rig.now).value
    assert enterprise is not None
    rig.set(
        replace(enterprise, non_ldap_capable_queue_manager_notification=True),
        "non_ldap_capable_queue_manager_notification",
    )
    rig.stop()
    assert rig.notices == []
    queue = rig.publish()
    rig.hold_disk()
    rig.notices.clear()
    assert not rig.is_answered(rig.do(SetQueue(name=str(queue.pathname), label="new")))
    assert rig.notices == []
    rig.release_disk()
    rig.unpublish(queue)
    operations = [each.operation for each in rig.notices if isinstance(each, SendChangeNotification)]
    assert operations == [ChangeOperation.QUEUE_UPDATE, ChangeOperation.QUEUE_DELETION]
    updated = rig.notices[0]
    assert isinstance(updated, SendChangeNotification)
    assert isinstance(updated.item, objects.Queue)
    assert (updated.item.identifier, updated.item.label) == (queue.identifier, "new")


def test_a_queue_takes_over_what_was_changed_in_the_directory(rig: DirectoryRig) -> None:
    queue = rig.publish(journaling=True)
    names = ("label", "quota", "transactional", "journal_quota", "pathname")
    changed = replace(rig.object_of(queue), label="theirs", quota=7, journal_quota=8, transactional=True, pathname="no")
    rig.advance(60)
    rig.set(changed, *names)
    assert queue.attributes.label == ""
    rig.look_at_directory()
    for _ in range(2):
        attributes = rig.public().attributes
        assert (attributes.label, attributes.quota, attributes.journal_quota) == ("theirs", 7, 8)
        assert not attributes.transactional
        item = rig.object_of(rig.public())
        assert (item.label, item.transactional, item.pathname) == ("theirs", False, "host\\public")
        rig.stop()
    rig.look_at_directory()
    assert rig.public().modify_time == rig.object_of(rig.public()).modify_time
