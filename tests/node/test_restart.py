"""The parts of a queue manager and its queues that stay over a restart, and those that begin again."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from tests.node.directory_rig import DirectoryRig
from tests.node.rig import (
    EXPRESS,
    RECEIVE,
    SEND,
    SETTINGS,
    START,
    TX,
    ReadOptions,
    Rig,
    direct,
    guids,
    letter,
    transactions,
)
from tests.store.engines import MemoryEngine
from waypost.api.opened import Handle
from waypost.api.operations import CursorPeek, OpenCursor
from waypost.core.queues import OutgoingQueue, OutgoingQueueState, Queue
from waypost.core.reading import Reading
from waypost.core.system import QueueManagerAttributes, QueueManagerState
from waypost.directory import objects
from waypost.directory.core_directory import queue_object
from waypost.errors import InvalidHandle, QueueNotFound
from waypost.guid import NULL_GUID
from waypost.node import manager_store, queue_store
from waypost.node.directory import DirectoryMode
from waypost.node.effects import Commit
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.queue_records import QueueManagerRecord
from waypost.wire.format_names import FormatName, Suffix
from waypost.wire.path_names import QueueKind
from waypost.wire.property_values import QueuePrivacy

FAR = "DIRECT=OS:far\\private$\\orders"
NEAR = "DIRECT=OS:near\\private$\\orders"
MULTICAST = "MULTICAST=234.1.1.1:8001"
INTEGRATED = replace(SETTINGS, directory=DirectoryMode.EMBEDDED)

# No attribute has its default. Bits: DirectoryIntegrated, SrmpHttpSupport, SrmpPgmSupport, HardenedSecurity.
STORED = QueueManagerRecord(
    flags=0x0F,
    create_time=900_000,
    modify_time=950_000,
    queue_manager_quota=0x0020_0000,
    journal_quota=77,
    initialization_retry_timer_duration=60,
    identifier=b"\x21" * 16,
    last_domain=b"\x22" * 16,
    computer_name="host",
    security=b"",
    directory_server_list=["DC1", "DC2"],
)

Restart = Callable[[Rig], None]
both_restarts = pytest.mark.parametrize("restart", [Rig.stop, Rig.crash])


def on_record(record: QueueManagerRecord = STORED) -> Rig:
    """A queue manager that was set up with these attributes."""
    engine = MemoryEngine()
    batch = Batch()
    batch.put(Table.COUNTERS, keys.QUEUE_MANAGER_KEY, record.encode())
    engine.memory.commit(batch, 1)
    return Rig(engine, INTEGRATED)


# No attribute of a queue has its default.
SET: dict[str, object] = {
    "label": "Everything",
    "type_guid": b"\x31" * 16,
    "journaling": True,
    "quota": 1000,
    "journal_quota": 500,
    "authentication": True,
    "privacy_level": QueuePrivacy.MQ_PRIV_LEVEL_BODY,
    "transactional": True,
    "multicast_address": "234.1.1.1:8001",
    "base_priority": -7,
}


def queue_of_everything(rig: Rig) -> Queue:
    queue = rig.create("everything", **SET)
    rig.advance(10)
    rig.modify("everything", label="Everything else")
    return queue


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1-01")
def test_what_is_persistent_is_the_same_after_a_restart(restart: Restart) -> None:
    rig = on_record()
    queue_of_everything(rig)
    rig.open("DIRECT=OS:host\\private$\\everything;part", RECEIVE)
    rig.open(FAR, SEND)
    rig.done(rig.send(letter("kept", time_to_be_received=60)))
    rig.create("ledger", transactional=True)
    rig.enlist()
    rig.send("captured", "ledger", TX)
    rig.prepare()
    rig.settle()
    before = persistent(rig)
    for _ in range(2):
        restart(rig)
        rig.finish_index()
        assert persistent(rig) == before


def persistent(rig: Rig) -> tuple[object, ...]:
    manager = rig.node.manager
    queues = manager.collection.by_number
    return (
        manager.identity,
        manager.attributes,
        [(queue.identifier, queue.attributes, queue_store.record_of(queue)) for queue in queues.values()],
        {number: (queue.total_bytes, rig.contents(queue)) for number, queue in queues.items()},
        manager.total_bytes,
        transactions(rig.node),
        manager.last_number,
        manager.last_private_number,
        rig.node.next_deadline(rig.now),
    )


def test_a_new_queue_manager_has_the_defaults() -> None:
    attributes = Rig().node.manager.attributes
    assert attributes == QueueManagerAttributes(create_time=int(START.wall), modify_time=int(START.wall))
    assert attributes.queue_manager_quota == 0x0010_0000
    assert attributes.journal_quota == 0xFFFF_FFFF
    assert attributes.initialization_retry_timer_duration == 120
    assert attributes.directory_server_list == ()
    assert attributes.last_domain == NULL_GUID
    assert not attributes.directory_integrated
    assert not attributes.hardened_security


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.1-17")
def test_attributes_of_the_queue_manager_survive(restart: Restart) -> None:
    rig = on_record()
    restart(rig)
    restart(rig)
    manager = rig.node.manager
    assert manager.identity.identifier == STORED.identifier
    assert manager.attributes == manager_store.attributes_of(replace(STORED, last_domain=NULL_GUID))
    assert manager.attributes.directory_server_list == ("DC1", "DC2")
    assert manager.attributes.directory_integrated
    assert manager.attributes.srmp_http_support
    assert manager.attributes.srmp_pgm_support
    assert manager.attributes.hardened_security
    assert manager.attributes.initialization_retry_timer_duration == 60
    published = {each.name for each in fields(objects.QueueManager)}
    assert not published & {"directory_server_list", "directory_integrated", "srmp_http_support", "srmp_pgm_support"}


@pytest.mark.spec("MQDMPR-3.1.1.1-17")
@pytest.mark.parametrize("settings", [SETTINGS, INTEGRATED])
def test_a_queue_manager_works_with_a_directory_or_in_a_workgroup_and_keeps_which(settings: Settings) -> None:
    rig = Rig(settings=settings)
    record = manager_store.read(rig.store)
    assert record is not None
    attributes = manager_store.attributes_of(record)
    assert attributes.directory_integrated == (settings is INTEGRATED)
    assert attributes.directory_server_list == ()


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.1-16")
def test_the_domain_of_the_start_before_is_remembered_and_that_of_this_start_is_not(restart: Restart) -> None:
    rig = Rig()
    assert remembered_domain(rig) == rig.node.manager.attributes.last_domain == NULL_GUID
    for domain in (b"\x24" * 16, b"\x25" * 16, NULL_GUID):
        before = rig.node.manager.machine_domain_id
        assert remembered_domain(rig) == before
        rig.settings = replace(SETTINGS, domain=domain)
        restart(rig)
        assert rig.node.manager.machine_domain_id == domain
        assert remembered_domain(rig) == before
        rig.settle()
    assert not any("domain" in each.name for each in fields(objects.QueueManager))


def remembered_domain(rig: Rig) -> bytes:
    record = manager_store.read(rig.store)
    assert record is not None
    return record.last_domain


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.1-25")
def test_attributes_of_the_queue_manager_that_are_changed_survive(restart: Restart) -> None:
    rig = Rig()
    manager = rig.node.manager
    assert manager.attributes.initialization_retry_timer_duration == 120
    with rig.node.kernel.operation(rig.now):
        manager.modify(replace(manager.attributes, initialization_retry_timer_duration=60, journal_quota=7), rig.now)
    rig.settle()
    restart(rig)
    assert rig.node.manager.attributes.initialization_retry_timer_duration == 60
    assert rig.node.manager.attributes.journal_quota == 7
    assert rig.system(Suffix.JOURNAL).attributes.quota == 7


@both_restarts
def test_what_was_configured_once_stays(restart: Restart) -> None:
    rig = Rig(settings=replace(SETTINGS, quota=4711, hardened_security=True))
    rig.settings = SETTINGS
    restart(rig)
    assert rig.node.manager.attributes.queue_manager_quota == 4711
    assert rig.node.manager.positions.quota == 4711
    assert rig.node.manager.attributes.hardened_security
    rig.settings = replace(SETTINGS, quota=4712, hardened_security=False)
    restart(rig)
    assert rig.node.manager.attributes.queue_manager_quota == 4712
    assert not rig.node.manager.attributes.hardened_security


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1-03")
def test_what_is_volatile_begins_anew(restart: Restart) -> None:
    rig = Rig()
    rig.open(FAR, SEND)
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS), FAR))
    cursor = rig.done(rig.do(OpenCursor(queue="orders")))
    assert isinstance(cursor, Handle)
    rig.receive(options=ReadOptions(timeout_ms=60_000))
    manager = rig.node.manager
    outgoing = far(rig)
    rig.done(rig.begin())
    manager.pause_queue(outgoing)
    rig.done(rig.send("waiting", NEAR))
    (lookup_id,) = far(rig, NEAR).positions
    manager.dispatch.add_message_to_dispatch_collection(far(rig, NEAR), lookup_id, 3)
    assert len(manager.dispatch) == 1
    manager.writing.begin_flow_control()
    manager.take_offline()
    manager.machine_domain_id = b"\x23" * 16
    outgoing.next_hops = ("TCP:10.0.0.1",)
    restart(rig)

    manager = rig.node.manager
    assert not manager.writing.throttled
    assert manager.connection_active
    assert manager.state is QueueManagerState.READY
    assert manager.machine_domain_id == NULL_GUID
    assert not manager.transactions.collection
    assert not any(queue.descriptors or queue.waiting for queue in manager.collection.by_number.values())
    assert not any(isinstance(key, tuple) and key[0] is Reading for key in manager.timers._running)
    with pytest.raises(InvalidHandle):
        rig.do(CursorPeek(identifier=cursor.id))
    assert len(manager.dispatch) == 0
    assert far(rig).state is OutgoingQueueState.INACTIVE
    assert far(rig).next_hops == ()
    assert not rig.contents(far(rig))


def far(rig: Rig, name: str = FAR) -> OutgoingQueue:
    return rig.node.manager.collection.outgoing[FormatName.parse(name)]


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.2-01")
def test_a_private_queue_keeps_what_was_set_without_a_directory(restart: Restart) -> None:
    rig = Rig()
    before = queue_of_everything(rig)
    restart(rig)
    after = rig.queue("everything")
    assert after is not before
    assert rig.node.manager.attributes.directory_integrated is False
    assert after.attributes == before.attributes
    assert after.attributes.label == "Everything else"
    for attribute in ("number", "identifier", "qualified_pathname", "private_queue_number", "create_time", "scope"):
        assert getattr(after, attribute) == getattr(before, attribute)
    assert after.modify_time == before.modify_time == before.create_time + 10
    assert (after.full_path, after.directory_path) == ("", "")
    assert after.journal is not None
    assert after.journal.attributes.quota == 500


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.2-01")
def test_of_a_public_queue_the_directory_has_the_same_and_of_a_private_one_nothing(restart: Restart) -> None:
    rig = DirectoryRig()
    before = queue_object(rig.publish(**SET))
    assert before.full_path
    assert before.directory_path
    private = rig.create("everything", **SET)
    restart(rig)
    assert rig.object_of(rig.public()) == queue_object(rig.public()) == before
    assert all(getattr(before, name) == value for name, value in SET.items())
    assert rig.read(objects.Queue, private.identifier) is None


@both_restarts
def test_subqueues_journals_and_system_queues_belong_where_they_did(restart: Restart) -> None:
    rig = Rig()
    rig.open("DIRECT=OS:host\\private$\\orders;part", RECEIVE)
    numbers = {number: str(queue) for number, queue in rig.node.manager.collection.by_number.items()}
    restart(rig)
    manager = rig.node.manager
    assert {number: str(queue) for number, queue in manager.collection.by_number.items()} == numbers
    orders = rig.queue()
    assert orders.subqueues["part"].parent is orders
    assert orders.journal is not None
    assert orders.journal.parent is orders
    assert set(manager.system_queues) == {Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT}
    assert manager.order_queue.queue_type is manager.notification_queue.queue_type is QueueKind.SYSTEM


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.1.3-01")
def test_an_outgoing_queue_is_there_again_with_its_recoverable_messages(restart: Restart) -> None:
    rig = Rig()
    rig.done(rig.send("first", FAR))
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS), FAR))
    rig.done(rig.send("second", FAR))
    number, sent = far(rig).number, [message for message in rig.contents(far(rig)) if message.label != "express"]
    restart(rig)
    queue = far(rig)
    assert isinstance(queue, OutgoingQueue)
    assert queue.number == number
    assert queue.destination_format_name == FormatName.parse(FAR)
    assert rig.contents(queue) == sent
    assert [message.label for message in sent] == ["first", "second"]
    rig.open(FAR.lower(), SEND)
    assert far(rig) is queue


@both_restarts
def test_only_a_queue_for_a_multicast_destination_is_multicast_before_and_after(restart: Restart) -> None:
    rig = Rig()
    rig.open(MULTICAST, SEND)
    rig.open(FAR, SEND)
    far(rig).next_hops = ("TCP:10.0.0.1", "OS:far")
    for _ in range(2):
        assert far(rig, MULTICAST).multicast
        assert not far(rig).multicast
        restart(rig)
    # Not published, and not kept: who transfers finds the hops again.
    assert far(rig).next_hops == ()


@both_restarts
def test_a_deleted_queue_stays_away_and_its_numbers_are_not_given_again(restart: Restart) -> None:
    rig = Rig()
    queue = rig.create("last")
    rig.done(rig.send(letter("lost", time_to_be_received=60), "last"))
    rig.done(rig.delete("last"))
    restart(rig)
    with pytest.raises(QueueNotFound):
        rig.open("last")
    assert not rig.store.keys(Table.MESSAGES)
    assert not rig.store.keys(Table.POSITIONS)
    assert rig.store.get(Table.COUNTERS, keys.totals_key(queue.number)) is None
    following = rig.create("next")
    assert following.number > queue.number
    assert following.private_queue_number > queue.private_queue_number


def test_a_computer_with_another_name_keeps_its_queues() -> None:
    rig = Rig()
    rig.done(rig.send("kept"))
    rig.done(rig.send("on its way", FAR))
    rig.settings = replace(SETTINGS, computer_name="renamed", qualified_computer_name="renamed.example.org")
    rig.stop()
    queue = rig.node.manager.find_queue(FormatName.parse("DIRECT=OS:renamed\\private$\\orders"))
    assert queue is not None
    assert (str(queue), str(queue.qualified_pathname)) == (
        "renamed\\private$\\orders",
        "renamed.example.org\\private$\\orders",
    )
    assert rig.labels(queue) == ["kept"]
    assert rig.labels(far(rig)) == ["on its way"]
    assert rig.node.manager.find_queue(direct("orders")) is None
    assert len(rig.node.manager.system_queues) == 3


def test_a_first_start_that_was_lost_is_a_first_start_again() -> None:
    engine = MemoryEngine()
    lost = Node(engine.store, SETTINGS, lambda: b"\x01" * 16, START)
    (commit,) = lost.kernel.take_effects()
    assert isinstance(commit, Commit)
    engine.store.submit(commit.batch, commit.token)
    engine.memory.crash()
    rig = Rig(engine)
    assert rig.node.manager.identity.identifier == next(guids())
    assert len(rig.node.manager.system_queues) == 3


@both_restarts
def test_an_outgoing_queue_for_a_transactional_connector_comes_back_as_it_was(restart: Restart) -> None:
    rig = Rig()
    rig.open("CONNECTOR=00000000-0000-0000-0000-000000000001;XACTONLY", SEND)
    (before,) = rig.node.manager.collection.outgoing.values()
    restart(rig)
    (after,) = rig.node.manager.collection.outgoing.values()
    assert after.pathname == before.pathname
    assert after.pathname.subqueue == ""
