"""Events for the storage of queues, their restoration, and calls of the directory: MS-MQDMPR 3.1.7.1.3 and .4."""

from dataclasses import replace
from itertools import count

import pytest

from tests.core.directory_twin import DirectoryTwin
from tests.core.engine import ME, START, Messages, Rig
from waypost.core.ports import Event, QueueChanged, QueueDeleted
from waypost.core.queue_manager import Identity, QueueManager
from waypost.core.queues import AccessType, OutgoingQueue, Queue, QueueAttributes, ShareMode
from waypost.errors import AccessDenied, DirectoryError, DirectoryNotConnected, QueueNotFound, WaypostError
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName
from waypost.wire.property_values import QueuePrivacy, Scope

SEND = AccessType.SEND
ORDERS = "DIRECT=OS:host\\private$\\orders"
FAR = "DIRECT=OS:far\\private$\\q"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def create(rig: Rig, path: str) -> Queue:
    return rig.manager.create_queue(QueueAttributes(PathName.parse(path)), rig.now)


def told(events: list[Event]) -> list[tuple[type[Event], str]]:
    """The queues that were kept or forgotten; a journal as the journal of its queue."""
    return [
        (type(event), f"{event.queue};JOURNAL" if event.queue.is_journal else str(event.queue))
        for event in events
        if isinstance(event, QueueChanged | QueueDeleted)
    ]


def test_a_queue_its_journal_and_its_subqueues_are_each_told_of(rig: Rig) -> None:
    queue = create(rig, "host\\private$\\q")
    rig.open(AccessType.MOVE, name="DIRECT=OS:host\\private$\\q;late")
    path = "host\\private$\\q"
    assert told(rig.manager.take_events()) == [
        (QueueChanged, path),
        (QueueChanged, f"{path};JOURNAL"),
        (QueueChanged, f"{path};late"),
    ]
    rig.manager.modify_queue(queue, replace(queue.attributes, label="new"), rig.now)
    assert told(rig.manager.take_events()) == [(QueueChanged, path)]
    rig.manager.modify_queue(queue, replace(queue.attributes, journal_quota=5), rig.now)
    assert told(rig.manager.take_events()) == [(QueueChanged, path), (QueueChanged, f"{path};JOURNAL")]
    rig.manager.delete_queue(queue)
    assert told(rig.manager.take_events()) == [
        (QueueDeleted, f"{path};late"),
        (QueueDeleted, f"{path};JOURNAL"),
        (QueueDeleted, path),
    ]


def test_what_fails_is_not_told_of(rig: Rig) -> None:
    for path in (
        *("host\\private$\\orders", "host\\public", "far\\private$\\q", "host\\private$\\none;late"),
        *("host\\private$\\order_queue$;late", "host\\system$;journal;late"),
    ):
        with pytest.raises(WaypostError):
            create(rig, path)
    with pytest.raises(AccessDenied):
        rig.open(AccessType.MOVE, name="DIRECT=OS:host\\private$\\notify_queue$;late")
    assert rig.manager.take_events() == []


def test_a_deleted_queue_does_not_come_back(rig: Rig) -> None:
    rig.manager.delete_queue(rig.orders)
    rig.manager.take_events()
    with pytest.raises(QueueNotFound):
        rig.manager.modify_queue(rig.orders, replace(rig.orders.attributes, label="new"), rig.now)
    with pytest.raises(QueueNotFound):
        rig.manager.delete_queue(rig.orders)
    assert rig.manager.take_events() == []


def test_system_queues_are_made_at_the_first_start_and_outgoing_ones_when_they_are_opened() -> None:
    manager = QueueManager(Identity(ME, "host", "host.example.org"), Messages(), lambda: bytes(16))
    manager.queue_manager_started(START)
    assert told(manager.take_events()) == [
        (QueueChanged, "host\\system$;journal"),
        (QueueChanged, "host\\system$;deadletter"),
        (QueueChanged, "host\\system$;deadxact"),
        (QueueChanged, "host\\private$\\order_queue$"),
        (QueueChanged, "host\\private$\\notify_queue$"),
        (QueueChanged, "host\\private$\\awaiting_final_ack$"),
    ]
    for _ in range(2):
        manager.open_queue(FormatName.parse(FAR), SEND, ShareMode.DENY_NONE, START)
    assert told(manager.take_events()) == [(QueueChanged, "DIRECT=OS:far\\PRIVATE$\\q")]


def test_every_kind_of_queue_comes_back_under_its_names_and_without_a_word() -> None:
    before = Rig(DirectoryTwin())
    for path in ("host\\private$\\q", "host\\private$\\q;late", "host\\public"):
        create(before, path)
    before.open(SEND, name=FAR)
    gone = create(before, "host\\private$\\gone")
    before.manager.delete_queue(gone)
    before.advance(50)

    guids = count(10_000)
    identity = Identity(ME, "host", "host.example.org")
    manager = QueueManager(identity, Messages(), lambda: next(guids).to_bytes(16, "big"))
    manager.last_number, manager.last_private_number = before.manager.last_number, before.manager.last_private_number
    for kept in before.manager.collection.by_number.values():
        manager.restore_queue(copy_of(kept, manager))
    manager.queue_manager_started(before.now)
    assert manager.take_events() == []
    assert list(manager.collection.by_number) == list(before.manager.collection.by_number)
    assert manager.queues.keys() == before.manager.queues.keys()
    assert manager.system_queues.keys() == before.manager.system_queues.keys()
    public = before.manager.queues[PathName.parse("host\\public")]
    q = before.manager.queues[PathName.parse("host\\private$\\q")]
    for name in (
        *("DIRECT=OS:host\\private$\\q", "DIRECT=OS:host\\private$\\q;JOURNAL", "DIRECT=OS:host\\private$\\q;late"),
        *(f"PUBLIC={guid_text(public.identifier)}", f"PRIVATE={guid_text(ME)}\\{q.private_queue_number:x}"),
        *(f"MACHINE={guid_text(ME)};{suffix}" for suffix in ("JOURNAL", "DEADLETTER", "DEADXACT")),
        f"PRIVATE={guid_text(ME)}\\4",
    ):
        old, new = before.manager.find_queue(FormatName.parse(name)), manager.find_queue(FormatName.parse(name))
        assert old is not None
        assert new is not None
        assert (new.number, new.identifier, new.attributes) == (old.number, old.identifier, old.attributes)
    shared = manager.open_queue(FormatName.parse(FAR.upper()), SEND, ShareMode.DENY_NONE, before.now).queue
    assert shared is manager.collection.outgoing[FormatName.parse(FAR)]
    new = manager.create_queue(QueueAttributes(PathName.parse("host\\private$\\new")), before.now)
    assert new.number > gone.number
    assert new.private_queue_number > gone.private_queue_number


def copy_of(kept: Queue, manager: QueueManager) -> Queue:
    """The queue as a store would bring it back: its persistent attributes alone."""
    queue: Queue
    if isinstance(kept, OutgoingQueue):
        name = FormatName.parse(str(kept.destination_format_name))
        queue = OutgoingQueue(
            kept.number, kept.identifier, kept.attributes, kept.qualified_pathname, destination_format_name=name
        )
    else:
        queue = Queue(kept.number, kept.identifier, replace(kept.attributes), kept.qualified_pathname)
    queue.private_queue_number = kept.private_queue_number
    queue.create_time, queue.modify_time = kept.create_time, kept.modify_time
    queue.parent = None if kept.parent is None else manager.collection.by_number[kept.parent.number]
    return queue


def test_a_restored_queue_keeps_its_numbers_from_others() -> None:
    manager = QueueManager(Identity(ME, "host", "host.example.org"), Messages(), lambda: bytes(16))
    manager.queue_manager_started(START)
    path = PathName.parse("host\\private$\\q")
    manager.restore_queue(Queue(70, bytes(16), QueueAttributes(path), path, private_queue_number=80))
    new = manager.create_queue(QueueAttributes(PathName.parse("host\\private$\\new")), START)
    assert (new.number, new.private_queue_number) == (71, 81)


@pytest.mark.spec("MQDMPR-3.1.7.1.3-08", "MQDMPR-3.1.1.2-14")
def test_a_public_queue_is_published_and_known_by_the_identifier_of_the_directory() -> None:
    directory = DirectoryTwin()
    rig = Rig(directory)
    queue = create(rig, "host\\public")
    assert list(directory.queues) == [queue.identifier]
    assert (queue.full_path, queue.directory_path) == ("CN=public", "LDAP://CN=public")
    assert rig.open(name=f"PUBLIC={guid_text(queue.identifier)}").queue is queue
    private = create(rig, "host\\private$\\private")
    assert directory.log == ["create host\\public"]
    for other in (private, rig.orders, *rig.manager.system_queues.values()):
        assert (other.full_path, other.directory_path) == ("", "")


def test_paths_that_cannot_be_read_back_stay_empty() -> None:
    directory = DirectoryTwin()
    directory.paths_of = lambda queue: None  # type: ignore[method-assign]
    queue = create(Rig(directory), "host\\public")
    assert (queue.full_path, queue.directory_path) == ("", "")


@pytest.mark.spec("MQDMPR-3.1.7.1.3-09")
def test_a_public_queue_that_cannot_be_published_is_not_created() -> None:
    directory = DirectoryTwin()
    rig = Rig(directory)
    directory.is_broken = True
    before = dict(rig.manager.collection.by_number)
    with pytest.raises(DirectoryError, match="cannot create"):
        create(rig, "host\\public")
    assert rig.manager.collection.by_number == before
    with pytest.raises(QueueNotFound):
        rig.open(name="DIRECT=OS:host\\public")
    assert rig.manager.take_events() == []


def test_in_workgroup_mode_there_are_no_new_public_queues(rig: Rig) -> None:
    with pytest.raises(DirectoryNotConnected, match="create a private queue"):
        create(rig, "host\\public")
    assert PathName.parse("host\\public") not in rig.manager.queues


@pytest.mark.spec("MQDMPR-3.1.7.1.3-10", "MQDMPR-3.1.7.1.4-05")
def test_the_directory_can_be_left_alone() -> None:
    directory = DirectoryTwin()
    rig = Rig(directory)
    quiet = rig.create("quiet", kind="")
    assert rig.open(name=f"PUBLIC={guid_text(quiet.identifier)}").queue is quiet
    public = create(rig, "host\\public")
    rig.manager.delete_queue(public, skip_directory=True)
    assert directory.log == ["create host\\public"]
    assert list(directory.queues) == [public.identifier]


@pytest.mark.spec("MQDMPR-3.1.7.1.4-04")
def test_a_public_queue_is_withdrawn_from_the_directory_after_it_is_gone() -> None:
    directory = DirectoryTwin()
    rig = Rig(directory)
    first, second = create(rig, "host\\first"), create(rig, "host\\second")
    create(rig, "host\\first;late")
    rig.manager.delete_queue(first)
    assert directory.log[-1] == "delete host\\first"
    assert list(directory.queues) == [second.identifier]
    rig.manager.take_events()
    directory.is_broken = True
    with pytest.raises(DirectoryError, match="cannot delete"):
        rig.manager.delete_queue(second)
    assert second.is_deleted
    assert told(rig.manager.take_events()) == [(QueueDeleted, "host\\second;JOURNAL"), (QueueDeleted, "host\\second")]
    with pytest.raises(QueueNotFound):
        rig.open(name="DIRECT=OS:host\\second")


@pytest.mark.spec("MQDMPR-3.1.7.1.33-01")
def test_a_queue_of_which_only_the_path_is_given_has_the_defaults() -> None:
    identity = Identity(ME, "host", "host.example.org")
    seen: list[QueueAttributes] = []

    def descriptor(attributes: QueueAttributes) -> bytes:
        seen.append(attributes)
        return b"generated from " + attributes.security

    manager = QueueManager(identity, Messages(), lambda: bytes(16), default_security=descriptor)
    manager.queue_manager_started(START)
    given = QueueAttributes(PathName.parse("host\\private$\\q"))
    attributes = manager.create_queue(given, START).attributes
    assert (attributes.label, attributes.type_guid, attributes.multicast_address) == ("", bytes(16), "")
    assert (attributes.quota, attributes.journal_quota) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (attributes.journaling, attributes.authentication, attributes.transactional) == (False, False, False)
    assert attributes.privacy_level is QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL
    assert (attributes.base_priority, attributes.security) == (0, b"generated from ")
    supplied = QueueAttributes(PathName.parse("host\\private$\\r"), security=b"an owner")
    assert manager.create_queue(supplied, START).attributes.security == b"generated from an owner"
    assert seen == [given, supplied]


@pytest.mark.spec("MQDMPR-3.1.1.2-15")
def test_the_scope_is_always_the_enterprise_and_not_among_what_can_be_given(rig: Rig) -> None:
    rig.open(SEND, name=FAR)
    create(rig, "host\\private$\\orders;late")
    assert {queue.scope for queue in rig.manager.collection.by_number.values()} == {Scope.MQDS_ENTERPRISESCOPE}
    assert "scope" not in QueueAttributes.__slots__


@pytest.mark.spec("MQDMPR-3.1.1.2-11")
def test_a_multicast_address_is_bound_to_a_queue_and_taken_from_it(rig: Rig) -> None:
    address = "234.1.1.1:8001"
    assert rig.orders.attributes.multicast_address == ""
    for bound in (address, ""):
        changed = replace(rig.orders.attributes, multicast_address=bound)
        rig.manager.modify_queue(rig.orders, changed, rig.now)
        assert rig.orders.attributes.multicast_address == bound
    given = QueueAttributes(PathName.parse("host\\private$\\new"), multicast_address=address)
    assert rig.manager.create_queue(given, rig.now).attributes.multicast_address == address


def test_a_queue_refers_to_its_journal_and_its_subqueues(rig: Rig) -> None:
    late, lost = (create(rig, f"host\\private$\\orders;{name}") for name in ("late", "lost"))
    assert rig.orders.journal is rig.manager.find_queue(FormatName.parse(f"{ORDERS};JOURNAL"))
    assert rig.orders.subqueues == {"late": late, "lost": lost}
