"""A node gets its directory, finds it again, and works without one."""

from dataclasses import replace

import pytest

from tests.node.directory_rig import EMBEDDED, NOT_CONNECTED, OK, DirectoryRig, public_name
from tests.node.rig import SEND, SETTINGS, Rig
from waypost.core.message import DEFAULT_TIME_TO_REACH_QUEUE
from waypost.core.queues import OutgoingQueueState
from waypost.directory import objects
from waypost.directory.effects import FindDirectoryServers
from waypost.directory.names import QueuePath, get_queue_path
from waypost.directory.objects import QueueManager
from waypost.directory.queries import Query
from waypost.directory.topology import DistributionList, Enterprise, Site
from waypost.errors import DirectoryNotConnected, DirectoryObjectExists, StoreDamaged, UnsupportedFormatName
from waypost.node.recovery import Settings
from waypost.store.keys import directory_key
from waypost.store.port import Batch, Table
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.path_names import PathName
from waypost.wire.property_values import OperatingSystem

HOUR = 3600
SOMEBODY = b"\x5b" * 16


def own(rig: DirectoryRig) -> QueueManager:
    item = rig.read(QueueManager, rig.node.manager.identity.identifier)
    assert item is not None
    return item


def enterprise(rig: DirectoryRig) -> Enterprise:
    read = rig.node.directory.events.read_directory(Query(Enterprise), rig.now)
    assert read.value is not None
    return read.value


def stored(rig: Rig) -> int:
    return len(rig.store.keys(Table.DIRECTORY, limit=1000))


def restart(rig: Rig, settings: Settings) -> None:
    rig.settings = settings
    rig.stop()
    rig.settle()


def test_the_first_start_makes_the_enterprise_and_the_queue_manager_and_the_next_finds_them() -> None:
    rig = DirectoryRig()
    first = own(rig), enterprise(rig)
    assert (first[0].computer_name, first[0].qualified_computer_name) == ("host", "host.example.org")
    assert first[0].full_path == "CN=msmq,CN=host,CN=Computers,DC=waypost"
    assert rig.node.directory.events.local.queue_manager == first[0]
    assert rig.node.manager.attributes.directory_integrated
    assert stored(rig) == 2
    rig.stop()
    rig.settle()
    assert (own(rig), enterprise(rig)) == first
    assert stored(rig) == 2


@pytest.mark.spec("MQDMPR-3.1.1.1-02")
def test_the_version_of_the_queue_manager_is_empty() -> None:
    assert own(DirectoryRig()).queue_manager_version == ""


@pytest.mark.spec("MQDMPR-3.1.1.1-03", "MQMQ-2.3.2.19-01")
def test_the_operating_system_is_a_foreign_one() -> None:
    for settings in (EMBEDDED, SETTINGS):
        rig = DirectoryRig(settings)
        assert own(rig).operating_system_type is OperatingSystem.MSMQ_OS_FOREIGN
        assert int(own(rig).operating_system_type) == 0x100
        assert own(rig).operating_system_version == ""
    rig = DirectoryRig()
    rig.set(replace(own(rig), operating_system_version="Linux 6.1"), "operating_system_version")
    rig.stop()
    assert own(rig).operating_system_version == "Linux 6.1"


def test_a_queue_manager_of_a_workgroup_can_get_a_directory_and_lose_it() -> None:
    rig = DirectoryRig(SETTINGS)
    identifier = rig.node.manager.identity.identifier
    rig.done(rig.send("letter"))
    restart(rig, EMBEDDED)
    assert own(rig).identifier == identifier
    name = public_name(rig.publish().identifier)
    rig.done(rig.mail("public message", name))
    restart(rig, SETTINGS)
    assert not rig.node.manager.attributes.directory_integrated
    assert rig.labels() == ["letter"]
    assert rig.message(rig.receive(name)).label == "public message"
    assert stored(rig) == 3


@pytest.mark.spec("MQDMPR-3.1.1-02")
def test_the_directory_attributes_of_the_queue_manager_are_those_of_the_directory_and_survive() -> None:
    rig = DirectoryRig()
    rig.set(replace(own(rig), queue_manager_quota=77, journal_quota=88), "queue_manager_quota", "journal_quota")
    assert rig.node.manager.positions.quota != 77
    rig.look_at_directory()
    for _ in range(2):
        attributes = rig.node.manager.attributes
        assert (attributes.queue_manager_quota, attributes.journal_quota) == (77, 88)
        assert rig.node.manager.positions.quota == 77
        assert (own(rig).queue_manager_quota, own(rig).journal_quota) == (77, 88)
        rig.stop()
    restart(rig, SETTINGS)
    assert rig.node.manager.attributes.queue_manager_quota == 77


def test_a_configured_quota_is_published() -> None:
    rig = DirectoryRig()
    restart(rig, replace(EMBEDDED, quota=5))
    assert own(rig).queue_manager_quota == rig.node.manager.positions.quota == 5
    restart(rig, EMBEDDED)
    assert own(rig).queue_manager_quota == rig.node.manager.positions.quota == 5


def test_a_computer_with_another_name_tells_the_directory() -> None:
    rig = DirectoryRig()
    queue = rig.publish()
    restart(rig, replace(EMBEDDED, computer_name="renamed", qualified_computer_name="renamed.example.com"))
    assert (own(rig).computer_name, own(rig).qualified_computer_name) == ("renamed", "renamed.example.com")
    item = rig.object_of(queue)
    assert (item.pathname, item.qualified_pathname) == ("renamed\\public", "renamed.example.com\\public")
    assert item.full_path == "CN=public,CN=msmq,CN=renamed,CN=Computers,DC=waypost"
    assert rig.node.directory.events.local.queue_manager == own(rig)


def test_two_computers_cannot_have_one_name() -> None:
    rig = DirectoryRig()
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="taken"))
    with pytest.raises(DirectoryObjectExists):
        restart(rig, replace(EMBEDDED, computer_name="TAKEN"))


def test_an_object_of_an_unknown_type_is_damage() -> None:
    rig = DirectoryRig()
    batch = Batch()
    batch.put(Table.DIRECTORY, directory_key(9, SOMEBODY), b"\x01")
    rig.memory.submit(batch, 1)
    rig.memory.complete(1)
    rig.memory.poll()
    with pytest.raises(StoreDamaged, match="unknown type 9"):
        rig.stop()


def test_the_timers_of_the_directory_are_timers_of_the_node() -> None:
    rig = DirectoryRig()
    north = Site(identifier=SOMEBODY, name="north")
    rig.put(north)
    rig.set(replace(own(rig), site_identifier_list=(SOMEBODY,)), "site_identifier_list")
    rig.stop()
    start = rig.now.monotonic
    assert rig.node.next_deadline(rig.now) == start + HOUR
    rig.set(replace(north, primary_site_controller="psc"), "primary_site_controller")
    site = rig.node.directory.events.local.site_collection
    rig.advance(12 * HOUR - 1)
    assert site[SOMEBODY].primary_site_controller == ""
    rig.advance(1)
    assert site[SOMEBODY].primary_site_controller == "psc"


def test_the_directory_servers_are_looked_for_once_a_day() -> None:
    rig = DirectoryRig()
    rig.advance(24 * HOUR - 1)
    rig.settle()
    assert rig.notices == []
    rig.advance(1)
    rig.settle()
    assert rig.notices == [FindDirectoryServers()]


def test_the_default_time_to_reach_a_queue_is_that_of_the_enterprise_or_configured() -> None:
    rig = DirectoryRig()
    assert rig.node.sending.default_time_to_reach_queue == DEFAULT_TIME_TO_REACH_QUEUE == 345_600
    rig.set(replace(enterprise(rig), default_time_to_live=600), "default_time_to_live")
    rig.stop()
    assert rig.node.sending.default_time_to_reach_queue == 600
    restart(rig, replace(EMBEDDED, long_live_time=60))
    assert rig.node.sending.default_time_to_reach_queue == 60
    assert Rig().node.sending.default_time_to_reach_queue == 345_600
    assert Rig(settings=replace(SETTINGS, long_live_time=60)).node.sending.default_time_to_reach_queue == 60


@pytest.mark.spec("MQDMPR-6-02")
def test_hardened_mode_is_read_when_the_queue_manager_starts() -> None:
    rig = Rig()
    name = "DIRECT=OS:elsewhere\\private$\\orders"

    def mode() -> tuple[bool, OutgoingQueueState]:
        rig.open(name, SEND)
        state = rig.node.manager.collection.outgoing[FormatName.parse(name)].state
        return rig.node.manager.attributes.hardened_security, state

    assert mode() == (False, OutgoingQueueState.INACTIVE)
    rig.settings = replace(SETTINGS, hardened_security=True)
    assert mode() == (False, OutgoingQueueState.INACTIVE)
    rig.stop()
    assert mode() == (True, OutgoingQueueState.LOCKED)
    restart(rig, SETTINGS)
    assert mode() == (True, OutgoingQueueState.LOCKED)
    restart(rig, replace(SETTINGS, hardened_security=False))
    assert mode() == (False, OutgoingQueueState.INACTIVE)


def test_without_a_directory_a_node_knows_itself_and_its_queues() -> None:
    rig = DirectoryRig(SETTINGS)
    events = rig.node.directory.events
    assert own(rig).computer_name == "host"
    assert rig.object_of(rig.queue()).pathname == "host\\private$\\orders"
    assert events.read_directory(Query(Enterprise), rig.now).value is None
    name = PrivateFormatName(own(rig).identifier, rig.queue().private_queue_number)
    assert get_queue_path(events, name, rig.now) == QueuePath("host\\private$\\orders", "host")
    assert stored(rig) == 0


@pytest.mark.spec("MQMQ-2.1.5-02")
def test_without_a_directory_nothing_is_published_and_public_names_lead_nowhere() -> None:
    rig = DirectoryRig(SETTINGS)
    with pytest.raises(DirectoryNotConnected, match="create a private queue"):
        rig.publish()
    assert PathName.parse("host\\public") not in rig.node.manager.queues
    events = rig.node.directory.events
    assert events.create_directory_object(Site(name="north"), rig.now).status is NOT_CONNECTED
    with pytest.raises(UnsupportedFormatName):
        rig.open(public_name(SOMEBODY), SEND)
    with pytest.raises(UnsupportedFormatName):
        rig.open(str(FormatName.parse("DL=" + public_name(SOMEBODY)[7:])), SEND)
    assert not events.local.directory_offline
    assert rig.node.next_deadline(rig.now) is None
    quiet = rig.publish_quietly()
    rig.done(rig.mail("letter", public_name(quiet.identifier)))
    rig.stop()
    assert rig.labels(rig.public()) == ["letter"]
    assert stored(rig) == 0


def test_all_kinds_of_objects_survive_a_crash() -> None:
    rig = DirectoryRig()
    items = [
        Site(identifier=b"\x01" * 16, name="north"),
        objects.Queue(identifier=b"\x02" * 16, pathname="other\\orders"),
        DistributionList(identifier=b"\x03" * 16, elements=(FormatName.parse("DIRECT=OS:host\\private$\\orders"),)),
    ]
    before = []
    for item in items:
        rig.put(item)
        before.append(rig.read(type(item), item.identifier))
    rig.hold_disk()
    with rig.node.kernel.operation(rig.now):
        assert rig.node.directory.events.delete_directory_object(items[0], rig.now) is OK
    rig.settle()
    rig.crash()
    assert [rig.read(type(item), item.identifier) for item in items] == before
