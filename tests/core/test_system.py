"""MS-MQDMPR 3.1.1.1, 3.1.3, 3.1.4.1, 3.1.4.2, 3.1.4.12 and 3.1.4.13: the queue manager as a whole."""

from contextlib import suppress
from dataclasses import fields, replace

import pytest

from tests.core.engine import ME, START, Messages, Rig
from waypost.core import dispatch, opening, reading, transactions, writing
from waypost.core.message import Message
from waypost.core.ports import QueueChanged
from waypost.core.positions import PositionState
from waypost.core.queue_manager import Identity, QueueManager
from waypost.core.queues import AccessType, OutgoingQueue, Queue, QueueAttributes, ReadRequest, ShareMode
from waypost.core.system import (
    STATES,
    QueueManagerAttributes,
    QueueManagerState,
    Step,
)
from waypost.core.writing import EnqueueStatus
from waypost.errors import AccessDenied, InvalidParameter, QueueExists, QueueNotFound, ServiceNotAvailable
from waypost.guid import NULL_GUID, guid_text
from waypost.hresult import HResult
from waypost.wire.format_names import FormatName, Suffix
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import UNLIMITED

State = QueueManagerState
ORDERS = FormatName.parse("DIRECT=OS:host\\private$\\orders")
FAR = FormatName.parse("DIRECT=OS:far\\private$\\q")


@pytest.fixture
def rig() -> Rig:
    return Rig()


def stopped() -> QueueManager:
    return QueueManager(Identity(ME, "host", "host.example.org"), Messages(), lambda: bytes(16))


@pytest.mark.spec("MQDMPR-3.1.1.1-05", "MQDMPR-3.1.1.1-06")
def test_the_default_quotas_are_a_gigabyte_in_all_and_no_limit_for_the_journal(rig: Rig) -> None:
    """readings MQDMPR 3.F."""
    attributes = QueueManagerAttributes()
    assert (attributes.queue_manager_quota, attributes.journal_quota) == (0x00100000, 0xFFFFFFFF)
    assert rig.manager.positions.quota == 0x00100000
    assert rig.manager.system_queues[Suffix.JOURNAL].attributes.quota == UNLIMITED


def test_quotas_that_are_changed_hold_at_once_and_the_journal_is_told_of() -> None:
    rig = Rig()
    journal = rig.manager.system_queues[Suffix.JOURNAL]
    rig.manager.modify(replace(rig.manager.attributes, queue_manager_quota=3, journal_quota=1), rig.now)
    assert rig.manager.attributes.modify_time == int(rig.now.wall)
    assert rig.events(QueueChanged) == [QueueChanged(journal)]
    body = bytes(700)
    assert rig.enqueue(replace(rig.message(""), body=body), journal) is EnqueueStatus.ACCEPTED
    assert rig.enqueue(replace(rig.message(""), body=body), journal) is EnqueueStatus.QUEUE_QUOTA_EXCEEDED
    for status in (EnqueueStatus.ACCEPTED, EnqueueStatus.ACCEPTED, EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED):
        assert rig.enqueue(replace(rig.message(""), body=body)) is status
    rig.manager.modify(rig.manager.attributes, rig.now)
    assert rig.events(QueueChanged) == []


def test_a_provisioned_queue_manager_is_in_no_domain_and_tries_again_after_two_minutes() -> None:
    attributes = QueueManagerAttributes()
    assert (attributes.last_domain, attributes.directory_server_list) == (NULL_GUID, ())
    assert attributes.initialization_retry_timer_duration == 120
    flags = ("directory_integrated", "srmp_http_support", "srmp_pgm_support", "hardened_security")
    assert [getattr(attributes, flag) for flag in flags] == [False] * 4
    assert stopped().machine_domain_id == NULL_GUID


@pytest.mark.spec("MQDMPR-3.1.1.1-19")
def test_throttled_is_volatile_and_refuses_as_an_exhausted_quota_does(rig: Rig) -> None:
    assert not rig.manager.writing.throttled
    rig.manager.writing.begin_flow_control()
    assert rig.enqueue(rig.message("")) is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED
    assert "throttled" not in {each.name for each in fields(QueueManagerAttributes)}
    assert not stopped().writing.throttled


@pytest.mark.spec("MQDMPR-3.1.1.1-20", "MQDMPR-3.1.4.12-01", "MQDMPR-3.1.4.13-01")
def test_the_queue_manager_is_taken_offline_and_brought_online(rig: Rig) -> None:
    seen = [rig.manager.connection_active]
    rig.manager.take_offline()
    seen.append(rig.manager.connection_active)
    rig.manager.bring_online()
    seen.append(rig.manager.connection_active)
    assert seen == [True, False, True]
    assert "connection_active" not in {each.name for each in fields(QueueManagerAttributes)}


@pytest.mark.spec("MQDMPR-3.1.1.1-22")
def test_only_a_ready_queue_manager_does_anything() -> None:
    manager = stopped()
    assert list(State) == [State.STOPPED, State.INITIALIZING, State.READY, State.STOPPING]
    assert {end for (start, _), end in STATES.items() if start is State.STOPPING} == {State.STOPPED}
    path = PathName.parse("host\\private$\\orders")
    queue = Queue(1, bytes(16), QueueAttributes(path), path)
    manager.restore_queue(queue)
    manager.positions.place(queue, Message(time_to_be_received=0, priority=0), PositionState.AVAILABLE)
    other = QueueAttributes(PathName.parse("host\\private$\\other"))
    functions = (
        lambda: manager.open_queue(ORDERS, AccessType.RECEIVE, ShareMode.DENY_NONE, START),
        lambda: manager.modify_queue(queue, queue.attributes, START),
        lambda: manager.delete_queue(manager.create_queue(other, START)),
    )
    seen: list[tuple[State, bool]] = []

    def works(state: State) -> None:
        for function in functions:
            with suppress(ServiceNotAvailable):
                function()
                seen.append((state, True))
        manager.expire(START)
        manager.timers.fire(START)
        assert len(queue.positions) == (0 if (State.READY, True) in seen else 1)
        if (state, True) not in seen:
            seen.append((state, False))

    manager.subscribe(works)
    works(manager.state)
    manager.queue_manager_started(START)
    manager.queue_manager_stopped()
    assert seen == [
        (State.STOPPED, False),
        (State.INITIALIZING, False),
        *[(State.READY, True)] * 3,
        (State.STOPPING, False),
        (State.STOPPED, False),
    ]
    assert ServiceNotAvailable.hresult is HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    for state, step in ((State.STOPPED, Step.STOP), (State.READY, Step.START)):
        assert (state, step) not in STATES


@pytest.mark.spec("MQDMPR-3.1.4.1-01")
def test_the_initialization_is_over_before_anybody_serves_requests() -> None:
    manager = stopped()
    manager.attributes = replace(manager.attributes, hardened_security=True)
    far = OutgoingQueue(1, bytes(16), QueueAttributes(PathName.parse("far\\q")), PathName.parse("far\\q"),
                        destination_format_name=FAR)  # fmt: skip
    manager.restore_queue(far)
    ready: list[tuple[int, str]] = []
    manager.subscribe(
        lambda state: ready.append((len(manager.system_queues), far.state.name)) if state is State.READY else None
    )
    manager.queue_manager_started(START)
    assert ready == [(3, "LOCKED")]


@pytest.mark.spec("MQDMPR-3.1.4.2-01")
def test_stopping_changes_nothing_and_is_told_to_everybody_who_wants_to_know(rig: Rig) -> None:
    handle = rig.open()
    rig.send("a")
    rig.manager.take_events()
    told: list[list[State]] = [[], []]
    for subscriber in told:
        rig.manager.subscribe(subscriber.append)
    before = dict(rig.manager.collection.by_number)
    rig.manager.queue_manager_stopped()
    assert told == [[State.STOPPING, State.STOPPED]] * 2
    assert rig.manager.collection.by_number == before
    assert rig.orders.descriptors == {handle.handle: handle}
    assert (rig.labels(), rig.manager.take_events()) == (["a"], [])


@pytest.mark.spec("MQDMPR-3.1.3-19")
def test_an_error_of_the_initialization_reaches_the_caller_who_may_try_again() -> None:
    guids = iter([b"\x01" * 16])
    manager = QueueManager(Identity(ME, "host", "host.example.org"), Messages(), lambda: next(guids))
    with pytest.raises(StopIteration):
        manager.queue_manager_started(START)
    assert manager.state is State.STOPPED
    guids = iter([bytes([number] * 16) for number in range(2, 9)])
    manager.queue_manager_started(START)
    assert (manager.state.name, len(manager.system_queues)) == ("READY", 3)


@pytest.mark.spec("MQDMPR-3.1.3-13", "MQDMPR-3.1.1.1-23")
def test_there_are_three_system_queues_for_applications(rig: Rig) -> None:
    assert set(rig.manager.system_queues) == {Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT}
    for suffix, queue in rig.manager.system_queues.items():
        assert queue.queue_type is QueueKind.SYSTEM
        for name in (f"MACHINE={guid_text(ME)};{suffix.name}", f"DIRECT=OS:host\\SYSTEM$;{suffix.name}"):
            assert rig.open(name=name).queue is queue
    other = rig.create("other")
    rig.open(AccessType.SEND, name=str(FAR))
    collection = rig.manager.collection
    every = {*collection.by_path.values(), *collection.outgoing.values(), rig.orders.journal, other.journal}
    assert set(collection.by_number.values()) == every
    name = "DIRECT=OS:host\\private$\\other"
    assert rig.open(name=name).queue is other
    rig.manager.delete_queue(other)
    assert other not in collection.by_number.values()
    with pytest.raises(QueueNotFound):
        rig.open(name=name)


@pytest.mark.spec("MQDMPR-3.1.3-14")
def test_the_order_queue_and_the_notification_queue_are_not_for_applications(rig: Rig) -> None:
    order, notification = rig.manager.order_queue, rig.manager.notification_queue
    assert (order.queue_type, notification.queue_type) == (QueueKind.SYSTEM, QueueKind.SYSTEM)
    assert rig.manager.find_queue(FormatName.parse(f"PRIVATE={guid_text(ME)}\\4")) is order
    names = {
        f"PRIVATE={guid_text(ME)}\\4": order,
        "DIRECT=OS:host\\private$\\ORDER_QUEUE$": order,
        "DIRECT=OS:host\\private$\\notify_queue$": notification,
    }
    for name, queue in names.items():
        for access in AccessType:
            with pytest.raises(AccessDenied):
                rig.open(access, name=name)
        with pytest.raises(InvalidParameter):
            rig.manager.delete_queue(queue)
        with pytest.raises(QueueExists):
            rig.manager.create_queue(replace(queue.attributes), rig.now)
    assert (order.descriptors, notification.descriptors) == ({}, {})
    assert rig.orders.private_queue_number > 4
    rig.enqueue(rig.message("an acknowledgment"), order)
    assert rig.labels(order) == ["an acknowledgment"]


def test_message_identifiers_are_numbered_and_begin_again_at_1(rig: Rig) -> None:
    first = rig.manager.message_identifier()
    assert (first.queue_manager_guid, first.ordinal, rig.manager.last_ordinal) == (ME, 1, 1)
    rig.manager.last_ordinal = 0xFFFF_FFFE
    assert [rig.manager.message_identifier().ordinal for _ in range(3)] == [0xFFFF_FFFF, 1, 2]


@pytest.mark.spec("MQDMPR-3.1.1-05")
def test_what_one_protocol_does_the_others_see_at_once(rig: Rig) -> None:
    """Each has a reference to the same queue manager and nothing of its own."""
    transfer = remote_read = administration = rig.manager
    queue = administration.create_queue(QueueAttributes(PathName.parse("host\\private$\\new")), rig.now)
    name = FormatName.parse("DIRECT=OS:host\\private$\\new")
    handle = remote_read.open_queue(name, AccessType.RECEIVE, ShareMode.DENY_NONE, rig.now)
    waiting = rig.receive(handle, ReadRequest())
    found = transfer.find_queue(name)
    assert found is queue
    assert transfer.writing.enqueue_message(found, rig.message("a"), None, rig.now) is EnqueueStatus.ACCEPTED
    assert rig.ended() == [(waiting, "a")]
    administration.modify_queue(queue, replace(queue.attributes, quota=0), rig.now)
    assert transfer.writing.enqueue_message(found, rig.message("b"), None, rig.now) == 1
    administration.delete_queue(queue)
    assert rig.receive(handle) == HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


@pytest.mark.spec("MQDMPR-3.1.7.3-01")
def test_the_internal_events_cannot_be_raised_from_outside(rig: Rig) -> None:
    internal = {
        *("wait_for_new_message", "seek_available_message_position", "seek_available_message_position_with_id"),
        *("waiting_message_read_timer_start", "waiting_message_read_timer_stop", "waiting_message_read_satisfied"),
        *("release_next_reader", "expand_format_name", "dispatch_send_message"),
    }
    parts = (QueueManager, reading.Reading, writing.Writing, transactions.Transactions, opening.Opening)
    for part in (*parts, dispatch.Dispatch):
        assert internal.isdisjoint(dir(part))
    assert internal.isdisjoint(dir(rig.manager))
    # The steps that they are made of are there, for the core itself.
    for own in ("_wait", "_offer"):
        assert hasattr(reading.Reading, own)
    assert hasattr(dispatch.Dispatch, "_dispatch_send_message")
