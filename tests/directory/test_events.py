"""The directory events: MS-MQDMPR 3.1.7.1.18 to 3.1.7.1.25."""

from dataclasses import replace

import pytest

from tests.directory.rig import (
    END_OF_DATA,
    EXISTS,
    GENERIC_ERROR,
    ME,
    NO_ATTRIBUTE,
    NOT_CONNECTED,
    NOT_FOUND,
    OK,
    SOMEBODY,
    Rig,
    equals,
    guid,
)
from waypost.directory.effects import ChangeOperation, LocalQueueManagerRefreshed, LocalQueueRefreshed
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.queries import Query
from waypost.directory.results import DirectoryOperationResult, directory_error
from waypost.directory.timers import Timer
from waypost.directory.topology import Enterprise, Site, User
from waypost.errors import (
    DirectoryAttributeNotFound,
    DirectoryError,
    DirectoryNotConnected,
    DirectoryObjectExists,
    DirectoryObjectNotFound,
    InvalidParameter,
)
from waypost.wire.path_names import QueueKind
from waypost.wire.sid import ADMINISTRATORS, EVERYONE

ORDERS = Queue(identifier=guid(1), pathname="host\\orders", label="l", quota=7)
PRIVATE = Queue(
    identifier=guid(2), pathname="host\\private$\\mine", private_queue_number=5, queue_type=QueueKind.PRIVATE
)  # fmt: skip
OTHERS: tuple[DirectoryObject, ...] = (Site(name="s"), User(security_identifier=EVERYONE), Enterprise(), PRIVATE)


def is_offline(rig: Rig) -> bool:
    """Whether it knows that it is: then it also has a timer that will look again."""
    assert rig.local.directory_offline == rig.events.timers.is_running(Timer.DIRECTORY_ONLINE)
    return rig.local.directory_offline


def notified_before(rig: Rig) -> list[tuple[ChangeOperation, DirectoryObject]]:
    """A list that gets what was notified of until the directory is called."""
    seen: list[tuple[ChangeOperation, DirectoryObject]] = []
    rig.line.on_call = lambda: seen.extend(rig.notifications())
    return seen


@pytest.mark.spec("MQDMPR-3.1.7.1.18-01")
def test_creation_is_notified_of_before_it_happens() -> None:
    rig = Rig()
    before = notified_before(rig)
    rig.events.create_directory_object(ORDERS, rig.now)
    assert before == [(ChangeOperation.QUEUE_CREATION, ORDERS)]
    assert rig.notifications() == []
    found = rig.read(Queue, guid(1)).value
    assert found is not None
    assert (found.label, found.quota) == ("l", 7)
    rig.events.create_directory_object(
        replace(ORDERS, identifier=guid(3), pathname="host\\two"), rig.now, attribute_list=("label",)
    )  # fmt: skip
    assert rig.events.read_directory(Query(Queue, equals("pathname", "host\\two"), ("label",)), rig.now).status is OK
    missing = Query(Queue, equals("pathname", "host\\two"), ("quota",))
    assert rig.events.read_directory(missing, rig.now).status is NO_ATTRIBUTE


def test_only_public_queues_are_notified_of_when_they_come_and_go() -> None:
    rig = Rig()
    for item in (*OTHERS, QueueManager(computer_name="other")):
        assert rig.events.create_directory_object(item, rig.now).status is OK
        assert rig.events.delete_directory_object(item, rig.now) is OK
    assert rig.notifications() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.18-02")
def test_creation_without_a_connection_takes_the_queue_manager_offline() -> None:
    rig = Rig()
    rig.line.is_cut = True
    assert rig.events.create_directory_object(ORDERS, rig.now).status is NOT_CONNECTED
    assert is_offline(rig)
    assert rig.timers.earliest() == rig.now.monotonic + 60
    rig.advance(59)
    assert rig.events.create_directory_object(ORDERS, rig.now).status is NOT_CONNECTED
    assert rig.timers.earliest() == rig.now.monotonic + 1


@pytest.mark.spec("MQDMPR-3.1.7.1.18-03")
def test_creation_gives_the_status_of_the_directory_and_the_identifier() -> None:
    rig = Rig()
    made = rig.events.create_directory_object(Queue(pathname="host\\new"), rig.now)
    assert made.status is OK
    assert made.value is not None
    assert rig.read(Queue, made.value).status is OK
    again = rig.events.create_directory_object(Queue(pathname="host\\new"), rig.now)
    assert (again.status, again.value) == (EXISTS, None)
    assert not is_offline(rig)


@pytest.mark.spec("MQDMPR-3.1.7.1.19-01")
def test_deletion_is_notified_of_before_it_happens() -> None:
    rig = Rig()
    rig.put(ORDERS)
    before = notified_before(rig)
    assert rig.events.delete_directory_object(ORDERS, rig.now) is OK
    assert before == [(ChangeOperation.QUEUE_DELETION, ORDERS)]
    assert rig.notifications() == []
    assert rig.read(Queue, guid(1)).status is NOT_FOUND
    assert rig.events.delete_directory_object(ORDERS, rig.now) is NOT_FOUND


@pytest.mark.spec("MQDMPR-3.1.7.1.19-02")
def test_deletion_without_a_connection_takes_the_queue_manager_offline() -> None:
    rig = Rig()
    rig.line.is_cut = True
    assert rig.events.delete_directory_object(ORDERS, rig.now) is NOT_CONNECTED
    assert is_offline(rig)
    deadline = rig.timers.earliest()
    rig.advance(30)
    assert rig.events.delete_directory_object(ORDERS, rig.now) is NOT_CONNECTED
    assert rig.timers.earliest() == deadline


def offline() -> Rig:
    rig = Rig()
    rig.put(replace(ORDERS, label="in the directory"))
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="other"))
    rig.line.is_cut = True
    rig.events.delete_directory_object(ORDERS, rig.now)
    rig.line.is_cut = False
    rig.line.took()
    return rig


@pytest.mark.spec("MQDMPR-3.1.7.1.20-04")
def test_offline_the_queues_of_this_computer_are_found_and_no_others() -> None:
    rig = offline()
    assert rig.read(Queue, guid(1)).status is NOT_FOUND
    rig.queues = [PRIVATE, replace(ORDERS, label="here")]
    found = rig.read(Queue, guid(1))
    assert (found.status, found.value) == (OK, rig.queues[1])
    assert rig.events.read_directory(Query(Queue), rig.now).value == PRIVATE
    some = rig.events.read_directory(Query(Queue, equals("label", "here"), ("quota",)), rig.now).value
    assert some == Queue(identifier=guid(1), quota=7)
    assert rig.line.took() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.20-05")
def test_offline_the_queue_manager_itself_is_found() -> None:
    rig = offline()
    for filters in (equals("identifier", ME), equals("computer_name", "HOST"), ()):
        found = rig.events.read_directory(Query(QueueManager, filters), rig.now)
        assert (found.status, found.value) == (OK, rig.local.queue_manager)
    assert rig.line.took() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.20-06")
def test_offline_every_other_read_fails_without_asking() -> None:
    rig = offline()
    assert rig.read(QueueManager, SOMEBODY).status is NOT_CONNECTED
    for kind in (Site, User, Enterprise):
        assert rig.events.read_directory(Query(kind), rig.now).status is NOT_CONNECTED
    assert rig.line.took() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.20-07")
def test_a_read_that_finds_no_connection_goes_offline_unless_it_was_forced() -> None:
    rig = Rig()
    rig.put(ORDERS)
    assert rig.read(Queue, guid(1)).status is OK
    rig.line.is_cut = True
    forced = rig.events.read_directory(Query(Queue), rig.now, force_directory_read=True)
    assert forced.status is NOT_CONNECTED
    assert not is_offline(rig)
    assert rig.events.read_directory(Query(Queue), rig.now).status is NOT_CONNECTED
    assert is_offline(rig)
    rig.line.is_cut = False
    assert rig.events.read_directory(Query(Queue), rig.now, force_directory_read=True).status is OK
    assert is_offline(rig)
    deadline = rig.timers.earliest()
    rig.advance(10)
    rig.events.read_directory(Query(Site), rig.now)
    assert rig.timers.earliest() == deadline


@pytest.mark.spec("MQDMPR-3.1.7.1.24-01")
def test_a_write_changes_the_listed_attributes_or_all() -> None:
    rig = Rig()
    rig.put(ORDERS)
    changed = replace(ORDERS, label="new", quota=8)
    assert rig.events.write_directory(changed, rig.now, attribute_list=("label",)) is OK
    found = rig.read(Queue, guid(1)).value
    assert found is not None
    assert (found.label, found.quota) == ("new", 7)
    assert rig.events.write_directory(changed, rig.now) is OK
    found = rig.read(Queue, guid(1)).value
    assert found is not None
    assert (found.label, found.quota) == ("new", 8)
    assert rig.events.write_directory(replace(ORDERS, identifier=guid(9)), rig.now) is NOT_FOUND
    rig.line.is_cut = True
    assert not is_offline(rig)
    assert rig.events.write_directory(changed, rig.now) is NOT_CONNECTED
    assert is_offline(rig)
    deadline = rig.timers.earliest()
    rig.advance(30)
    assert rig.events.write_directory(changed, rig.now) is NOT_CONNECTED
    assert rig.timers.earliest() == deadline


@pytest.mark.spec("MQDMPR-3.1.7.1.24-02")
def test_only_a_write_that_succeeded_is_notified_of() -> None:
    rig = Rig()
    manager = QueueManager(identifier=ME, computer_name="host")
    for item in (ORDERS, manager, *OTHERS):
        assert rig.events.write_directory(item, rig.now) is NOT_FOUND
    assert rig.notifications() == []
    for item in (ORDERS, manager, *OTHERS):
        rig.put(item)
    before = notified_before(rig)
    assert rig.events.write_directory(ORDERS, rig.now) is OK
    assert before == []
    assert rig.notifications() == [(ChangeOperation.QUEUE_UPDATE, ORDERS)]
    assert rig.events.write_directory(manager, rig.now) is OK
    assert rig.notifications() == [(ChangeOperation.QUEUE_MANAGER_UPDATE, manager)]
    for item in OTHERS:
        assert rig.events.write_directory(item, rig.now) is OK
    rig.line.is_cut = True
    rig.events.write_directory(ORDERS, rig.now)
    assert rig.notifications() == []


@pytest.mark.spec("MQDMPR-3.1.1.6-03")
def test_an_enterprise_without_old_queue_managers_notifies_nobody() -> None:
    for is_enabled in (True, False):
        rig = Rig()
        rig.local.enterprise_reference = Enterprise(non_ldap_capable_queue_manager_notification=is_enabled)
        rig.events.create_directory_object(ORDERS, rig.now)
        rig.events.write_directory(ORDERS, rig.now)
        rig.events.delete_directory_object(ORDERS, rig.now)
        expected = [ChangeOperation.QUEUE_CREATION, ChangeOperation.QUEUE_UPDATE, ChangeOperation.QUEUE_DELETION]
        assert [operation for operation, _ in rig.notifications()] == (expected if is_enabled else [])


@pytest.mark.spec("MQDMPR-3.1.7.1.25-01", "MQDMPR-3.1.2.5-01")
def test_a_minute_later_the_queue_manager_looks_for_itself_and_is_online_again() -> None:
    rig = offline()
    rig.put(QueueManager(identifier=ME, computer_name="host", queue_manager_quota=77))
    rig.advance(59.9)
    assert is_offline(rig)
    assert rig.line.took() == []
    rig.advance(0.1)
    assert not is_offline(rig)
    assert rig.local.queue_manager.queue_manager_quota == 77
    assert LocalQueueManagerRefreshed(rig.local.queue_manager) in rig.events.take_effects()


@pytest.mark.spec("MQDMPR-3.1.7.1.25-02")
def test_back_online_every_local_public_queue_is_read_again() -> None:
    rig = offline()
    rig.put(QueueManager(identifier=ME, computer_name="host"))
    gone = replace(ORDERS, identifier=guid(8), pathname="host\\gone")
    rig.put(replace(PRIVATE, label="not ours to read"))
    rig.queues = [ORDERS, gone, PRIVATE]
    rig.events.take_effects()
    rig.advance(60)
    refreshed = [each.queue for each in rig.events.take_effects() if isinstance(each, LocalQueueRefreshed)]
    assert [(queue.identifier, queue.label) for queue in refreshed] == [(guid(1), "in the directory")]


@pytest.mark.spec("MQDMPR-3.1.7.1.25-03")
def test_the_check_repeats_every_minute_until_it_succeeds() -> None:
    rig = offline()
    rig.line.is_cut = True
    for _ in range(3):
        rig.advance(60)
        assert rig.line.took() == ["read"]
        assert is_offline(rig)
        assert rig.timers.earliest() == rig.now.monotonic + 60
    # The directory is there again and does not know this queue manager.
    rig.line.is_cut = False
    rig.advance(60)
    assert is_offline(rig)
    rig.put(QueueManager(identifier=ME, computer_name="host"))
    rig.advance(60)
    assert not is_offline(rig)
    assert rig.timers.earliest() is None


@pytest.mark.spec("MQDMPR-3.1.1.1-18")
def test_a_workgroup_is_never_offline_and_asks_nobody() -> None:
    rig = Rig(integrated=False)
    rig.put(ORDERS)
    rig.put(QueueManager(identifier=SOMEBODY, computer_name="other"))
    rig.queues = [PRIVATE]
    rig.line.is_cut = True
    assert rig.events.create_directory_object(ORDERS, rig.now).status is NOT_CONNECTED
    assert rig.events.delete_directory_object(ORDERS, rig.now) is NOT_CONNECTED
    assert rig.events.write_directory(ORDERS, rig.now) is NOT_CONNECTED
    assert rig.read(Queue, guid(1)).status is NOT_FOUND
    assert rig.read(Queue, guid(2)).value == PRIVATE
    assert rig.read(QueueManager, ME).value == rig.local.queue_manager
    assert rig.read(QueueManager, SOMEBODY).status is NOT_FOUND
    assert rig.events.read_directory(Query(Site), rig.now, force_directory_read=True).status is NOT_FOUND
    handle = rig.events.read_directory_begin(Query(Queue), rig.now).value
    assert handle is not None
    assert rig.events.read_directory_next(handle).value == PRIVATE
    assert rig.events.read_directory_next(handle).status is END_OF_DATA
    rig.local.go_offline()
    assert not rig.local.directory_offline
    assert rig.timers.earliest() is None
    assert rig.line.took() == []
    assert rig.events.take_effects() == []


@pytest.mark.spec("MQDMPR-3.1.1.6-02")
def test_with_weakened_security_the_queue_manager_uses_its_own_credentials() -> None:
    for is_weakened in (False, True):
        rig = Rig()
        rig.local.enterprise_reference = Enterprise(weakened_security=is_weakened)
        rig.events.create_directory_object(ORDERS, rig.now, caller=ADMINISTRATORS)
        rig.events.read_directory(Query(Queue), rig.now, caller=ADMINISTRATORS)
        rig.events.read_directory_begin(Query(Queue), rig.now, caller=ADMINISTRATORS)
        rig.events.write_directory(ORDERS, rig.now, caller=ADMINISTRATORS)
        rig.events.delete_directory_object(ORDERS, rig.now, caller=ADMINISTRATORS)
        users = [access.user for _, access in rig.line.calls]
        assert users == [None if is_weakened else ADMINISTRATORS] * 5


@pytest.mark.spec("MQDMPR-3.1.1.17-01")
def test_each_status_is_reported_for_its_cause_and_has_its_error() -> None:
    rig = Rig()
    made = rig.events.create_directory_object(ORDERS, rig.now, attribute_list=("label",))
    handle = rig.events.read_directory_begin(Query(Queue), rig.now).value
    assert handle is not None
    rig.events.read_directory_next(handle)
    causes = {
        OK: made.status,
        EXISTS: rig.events.create_directory_object(ORDERS, rig.now).status,
        NOT_FOUND: rig.read(Queue, guid(9)).status,
        NO_ATTRIBUTE: rig.events.read_directory(Query(Queue, attribute_list=("quota",)), rig.now).status,
        END_OF_DATA: rig.events.read_directory_next(handle).status,
        GENERIC_ERROR: rig.events.read_directory_next(handle + 1).status,
    }
    rig.line.is_cut = True
    causes[NOT_CONNECTED] = rig.read(Queue, guid(1)).status
    assert all(expected is status for expected, status in causes.items())
    assert set(causes) == set(DirectoryOperationResult)
    for status, error in {
        EXISTS: DirectoryObjectExists,
        NOT_FOUND: DirectoryObjectNotFound,
        NO_ATTRIBUTE: DirectoryAttributeNotFound,
        NOT_CONNECTED: DirectoryNotConnected,
        GENERIC_ERROR: DirectoryError,
    }.items():
        assert type(directory_error(status, "do it")) is error


def test_an_unknown_attribute_is_refused_before_anything_happens() -> None:
    rig = Rig()
    for call in (rig.events.create_directory_object, rig.events.write_directory):
        with pytest.raises(InvalidParameter, match="colour"):
            call(ORDERS, rig.now, attribute_list=("colour",))
    assert rig.line.took() == []
    assert rig.notifications() == []


def test_an_enumeration_without_a_connection_has_no_handle() -> None:
    rig = Rig()
    rig.line.is_cut = True
    assert rig.events.read_directory_begin(Query(Queue), rig.now).status is NOT_CONNECTED
