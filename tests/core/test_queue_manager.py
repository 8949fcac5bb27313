"""MS-MQDMPR 3.1.1.2, 3.1.1.16 and 3.1.7.1.1 to 3.1.7.1.6: queues, handles and cursors of one queue manager."""

from dataclasses import replace

import pytest

from tests.core.engine import ME, Rig
from waypost.core.cursors import CursorState
from waypost.core.ports import MessagePositionDeleted, QueueChanged, QueueDeleted, ReadEnded
from waypost.core.positions import START, PositionState
from waypost.core.queues import AccessType, QueueAttributes, ReadRequest, RemoteReadState, ShareMode
from waypost.errors import (
    IllegalPathName,
    InvalidParameter,
    PropertyNotAllowed,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatName,
)
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import UNLIMITED, QueuePrivacy, Scope

SEND, RECEIVE, PEEK = AccessType.SEND, AccessType.RECEIVE, AccessType.PEEK
NONE, DENY = ShareMode.DENY_NONE, ShareMode.DENY_RECEIVE
ORDERS = "DIRECT=OS:host\\private$\\orders"


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.spec("MQDMPR-3.1.7.1.1-01", "MQDMPR-3.2.7.1-01")
def test_there_is_no_cursor_on_a_deleted_queue(rig: Rig) -> None:
    handle = rig.open()
    rig.manager.delete_queue(rig.orders)
    assert rig.manager.open_cursor(handle) is None
    assert handle.cursors == {}


@pytest.mark.spec("MQDMPR-3.1.7.1.1-02", "MQDMPR-3.2.7.1-01", "MQDMPR-3.2.1.2-01")
def test_a_new_cursor_is_unread_at_start_and_has_a_handle_of_its_own(rig: Rig) -> None:
    handles = [rig.open(), rig.open()]
    cursors = [rig.manager.open_cursor(handle) for handle in handles for _ in range(3)]
    seen = set()
    for cursor in cursors:
        assert cursor is not None
        assert (cursor.position, cursor.state) == (START, CursorState.UNREAD)
        assert cursor.positions is rig.orders.positions
        seen.add(cursor.handle)
    assert len(seen) == 6
    assert [*handles[0].cursors.values(), *handles[1].cursors.values()] == cursors


@pytest.mark.spec("MQDMPR-3.1.7.1.2-01", "MQDMPR-3.1.7.1.2-02")
def test_closing_a_cursor_ends_its_own_waits_and_its_handle(rig: Rig) -> None:
    """readings MQDMPR 3.K: they are told."""
    handle = rig.open()
    closed, kept = rig.manager.open_cursor(handle), rig.manager.open_cursor(handle)
    assert closed is not None
    assert kept is not None
    own = rig.peek(handle, ReadRequest(None, closed))
    others = [rig.peek(handle, ReadRequest(None, kept)), rig.receive(handle, ReadRequest())]
    rig.manager.close_cursor(handle, closed)
    assert rig.ended() == [(own, HResult.MQ_ERROR_OPERATION_CANCELLED)]
    assert list(handle.waiting) == others
    assert handle.cursors == {kept.handle: kept}


@pytest.mark.spec("MQDMPR-3.1.7.1.3-01")
@pytest.mark.parametrize("name", ["", "a,b", "x" * 125, "private$"])
def test_an_illegal_path_makes_no_queue(rig: Rig, name: str) -> None:
    before = dict(rig.manager.queues)
    with pytest.raises(IllegalPathName):
        rig.manager.create_queue(QueueAttributes(PathName("host", QueueKind.PRIVATE, name)), rig.now)
    assert rig.manager.queues == before


def test_a_queue_is_made_once_and_on_this_computer(rig: Rig) -> None:
    """readings MQDMPR 3.AA."""
    with pytest.raises(QueueExists):
        rig.create("ORDERS")
    for path in ("elsewhere\\private$\\a", "elsewhere\\a"):
        with pytest.raises(InvalidParameter):
            rig.manager.create_queue(QueueAttributes(PathName.parse(path)), rig.now)
    queue = rig.manager.create_queue(QueueAttributes(PathName.parse(".\\private$\\a")), rig.now)
    assert str(queue.pathname) == "host\\private$\\a"


@pytest.mark.spec("MQDMPR-3.1.7.1.3-02", "MQDMPR-3.1.7.1.3-03")
def test_a_queue_has_a_journal_and_a_subqueue_has_none(rig: Rig) -> None:
    journal = rig.orders.journal
    assert journal is not None
    assert journal.is_journal
    assert rig.open(name=f"{ORDERS};JOURNAL").queue is journal
    subqueue = rig.create("orders;late")
    assert subqueue.journal is None
    assert not subqueue.is_journal
    assert rig.open(name=f"{ORDERS};LATE").queue is subqueue is rig.orders.subqueues["late"]
    with pytest.raises(QueueExists):
        rig.create("orders;late")
    with pytest.raises(QueueNotFound):
        rig.create("nothing;late")


def test_a_subqueue_is_there_when_it_is_wanted_but_not_to_send_to(rig: Rig) -> None:
    """readings MQDMPR 3.AA."""
    with pytest.raises(QueueNotFound):
        rig.open(SEND, name=f"{ORDERS};late")
    subqueue = rig.open(AccessType.MOVE, name=f"{ORDERS};late").queue
    assert subqueue is rig.orders.subqueues["late"]
    for name in ("DIRECT=OS:host\\private$\\nothing;late", f"{ORDERS};late;JOURNAL", f"{ORDERS};new;JOURNAL"):
        with pytest.raises(QueueNotFound):
            rig.open(AccessType.RECEIVE, name=name)
    assert list(rig.orders.subqueues) == ["late"]


@pytest.mark.spec("MQDMPR-3.1.7.1.3-04", "MQDMPR-3.1.1.2-03")
def test_a_new_queue_has_the_attributes_that_were_given(rig: Rig) -> None:
    given = QueueAttributes(
        PathName.parse("host\\private$\\full"),
        label="label",
        type_guid=b"\x05" * 16,
        journaling=True,
        quota=5,
        journal_quota=6,
        authentication=True,
        privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_BODY,
        transactional=True,
        multicast_address="234.1.1.1:8001",
        security=b"descriptor",
    )
    queue = rig.manager.create_queue(given, rig.now)
    assert queue.attributes == given
    given.label = "changed behind its back"
    assert queue.attributes.label == "label"
    assert queue.journal is not None
    assert queue.journal.attributes.quota == 6


@pytest.mark.parametrize(("name", "kept"), [("private$\\p", 0), ("public", -3)])
def test_only_a_public_queue_has_a_base_priority(rig: Rig, name: str, kept: int) -> None:
    """MS-MQMQ 2.3.1.6: to set that of a private queue is ignored and changes nothing."""
    attributes = QueueAttributes(PathName.parse(f"host\\{name}"), base_priority=-3)
    queue = rig.manager.create_queue(attributes, rig.now, skip_directory=True)
    assert queue.attributes.base_priority == kept
    rig.manager.modify_queue(queue, replace(queue.attributes, label="x", base_priority=5), rig.now)
    assert (queue.attributes.label, queue.attributes.base_priority) == ("x", 5 if kept else 0)


@pytest.mark.spec("MQDMPR-3.1.7.1.3-06", "MQDMPR-3.1.1.2-04")
def test_the_path_tells_the_type_and_the_qualified_path(rig: Rig) -> None:
    for text, kind in (
        ("host\\public", QueueKind.PUBLIC),
        ("host\\private$\\p", QueueKind.PRIVATE),
        ("host\\system$;s", QueueKind.SYSTEM),
    ):
        queue = rig.manager.create_queue(QueueAttributes(PathName.parse(text)), rig.now, skip_directory=True)
        assert queue.queue_type is kind
        assert str(queue.pathname) == text
        assert str(queue.qualified_pathname) == text.replace("host", "host.example.org")


@pytest.mark.spec("MQDMPR-3.1.7.1.3-05")
def test_a_new_queue_is_empty_inactive_and_of_this_moment(rig: Rig) -> None:
    rig.advance(5)
    queue = rig.create("new")
    assert (queue.is_active, queue.total_bytes, len(queue.positions)) == (False, 0, 0)
    assert (queue.subqueues, queue.descriptors, queue.scope) == ({}, {}, Scope.MQDS_ENTERPRISESCOPE)
    assert (queue.full_path, queue.directory_path) == ("", "")
    assert queue.create_time == queue.modify_time == int(rig.now.wall)


@pytest.mark.spec("MQDMPR-3.1.1.2-05", "MQDMPR-3.1.7.1.3-07")
def test_every_private_queue_has_a_number_that_no_other_has(rig: Rig) -> None:
    queues = [rig.orders, *(rig.create(f"q{number}") for number in range(5))]
    rig.manager.delete_queue(queues.pop())
    queues.append(rig.create("again"))
    assert len({queue.private_queue_number for queue in queues}) == len(queues)
    assert rig.create("public", kind="").private_queue_number == 0
    for queue in queues:
        name = f"PRIVATE={guid_text(ME)}\\{queue.private_queue_number:x}"
        assert rig.open(name=name).queue is queue
        assert rig.open(name=f"{name};JOURNAL").queue is queue.journal


@pytest.mark.spec("MQDMPR-3.1.7.1.3-11")
def test_a_new_queue_can_be_opened_at_once(rig: Rig) -> None:
    queue = rig.create("new", kind="")
    assert rig.manager.queues[queue.pathname] is queue
    for name in ("DIRECT=OS:HOST\\NEW", "DIRECT=TCP:10.0.0.1\\new", f"PUBLIC={guid_text(queue.identifier)}"):
        assert rig.open(name=name).queue is queue


@pytest.mark.spec("MQDMPR-3.1.1.2-02")
def test_the_time_of_the_last_change_is_kept(rig: Rig) -> None:
    created = int(rig.now.wall)
    rig.advance(9)
    rig.manager.modify_queue(rig.orders, replace(rig.orders.attributes, label="new", quota=7, journal_quota=8), rig.now)
    assert (rig.orders.create_time, rig.orders.modify_time) == (created, created + 9)
    assert (rig.orders.attributes.label, rig.orders.attributes.quota) == ("new", 7)
    assert rig.orders.journal is not None
    assert rig.orders.journal.attributes.quota == 8
    for for_life in (
        replace(rig.orders.attributes, transactional=True),
        replace(rig.orders.attributes, pathname=PathName.parse("host\\private$\\b")),
    ):
        with pytest.raises(PropertyNotAllowed):
            rig.manager.modify_queue(rig.orders, for_life, rig.now)


def test_quotas_are_unlimited_and_nothing_is_demanded_by_default() -> None:
    attributes = QueueAttributes(PathName.parse("host\\a"))
    assert (attributes.label, attributes.type_guid, attributes.multicast_address) == ("", bytes(16), "")
    assert (attributes.quota, attributes.journal_quota, attributes.base_priority) == (UNLIMITED, UNLIMITED, 0)
    assert (attributes.journaling, attributes.authentication, attributes.transactional) == (False, False, False)
    assert attributes.privacy_level is QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL


@pytest.mark.spec("MQDMPR-3.1.7.1.4-01", "MQDMPR-3.1.7.1.4-02", "MQDMPR-3.1.7.1.4-03")
def test_a_deleted_queue_takes_its_messages_along_and_is_not_found(rig: Rig) -> None:
    """readings MQDMPR 3.K: and those who wait are told."""
    handle, waiting = rig.open(), rig.open()
    for label in ("purge pending", "locked", "available"):
        rig.send(label)
    rig.begin(handle)
    rig.orders.positions.set_state(next(iter(rig.orders.positions)), PositionState.PURGE_PENDING)
    rig.begin(handle)
    cursor = rig.manager.open_cursor(waiting)
    assert cursor is not None
    cursor.position = rig.orders.positions.previous_available(1 << 63)
    wait_id = rig.peek(waiting, ReadRequest(None, cursor))
    rig.manager.take_events()
    rig.manager.delete_queue(rig.orders)
    journal_gone, *deleted, ended, gone = rig.manager.take_events()
    assert ended == ReadEnded(int(wait_id), HResult.MQ_ERROR_QUEUE_DELETED)
    assert rig.orders.journal is not None
    assert [journal_gone, gone] == [QueueDeleted(rig.orders.journal), QueueDeleted(rig.orders)]
    reason = MessageClass.MQMSG_CLASS_NACK_Q_DELETED
    assert [(event.message.label, event.reason) for event in deleted if isinstance(event, MessagePositionDeleted)] == [
        ("purge pending", reason),
        ("locked", reason),
        ("available", reason),
    ]
    for one in (handle, waiting):
        assert one.queue is None
        assert rig.receive(one) == HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
        rig.manager.close_queue(one)
    number = rig.orders.private_queue_number
    for name in (ORDERS, f"{ORDERS};JOURNAL", f"PRIVATE={guid_text(ME)}\\{number:x}"):
        for access in (RECEIVE, PEEK):
            with pytest.raises(QueueNotFound):
                rig.open(access, name=name)
    assert rig.messages.held == {}
    assert rig.manager.total_bytes == 0


def test_subqueues_and_journal_go_with_their_queue(rig: Rig) -> None:
    """readings MQDMPR 3.AA."""
    late, other = rig.create("orders;late"), rig.create("orders;other")
    rig.orders.attributes.journaling = True
    handles = [rig.open(), rig.open(name=f"{ORDERS};late"), rig.open(name=f"{ORDERS};JOURNAL")]
    rig.send("journaled")
    rig.receive(handles[0])
    rig.move(rig.send("moved"), late)
    rig.manager.delete_queue(other)
    assert list(rig.orders.subqueues) == ["late"]
    rig.manager.delete_queue(rig.orders)
    assert rig.messages.held == {}
    assert [handle.queue for handle in handles] == [None] * 3


def test_journals_and_system_queues_are_not_deleted_alone(rig: Rig) -> None:
    assert rig.orders.journal is not None
    for queue in (rig.orders.journal, *rig.manager.system_queues.values()):
        with pytest.raises(InvalidParameter):
            rig.manager.delete_queue(queue)
        assert not queue.is_deleted


@pytest.mark.spec("MQDMPR-3.1.7.1.5-02", "MQDMPR-3.1.7.1.5-03")
def test_several_queues_can_only_be_sent_to_and_denied_to_nobody(rig: Rig) -> None:
    several = f"{ORDERS},{ORDERS}"
    for access in AccessType:
        if access is not SEND:
            with pytest.raises(UnsupportedFormatName):
                rig.open(access, NONE, several)
    with pytest.raises(UnsupportedAccessMode):
        rig.open(SEND, DENY, several)
    assert UnsupportedAccessMode.hresult == 0xC00E0045
    assert UnsupportedFormatName.hresult == 0xC00E0020


@pytest.mark.spec("MQDMPR-3.1.7.1.5-04", "MQDMPR-3.1.1.16-03", "MQDMPR-3.1.7.1.6-02")
def test_a_handle_on_several_queues_owns_one_for_each(rig: Rig) -> None:
    """readings MQDMPR 3.D: closing it closes them."""
    other = rig.create("other")
    handle = rig.open(SEND, NONE, f"{ORDERS},DIRECT=OS:host\\private$\\other")
    assert (handle.access_type, handle.share_mode, handle.queue) == (SEND, NONE, None)
    assert handle.remote_read_state is RemoteReadState.NONE
    assert [child.queue for child in handle.multiple] == [rig.orders, other]
    numbers = set()
    for child in handle.multiple:
        assert (child.access_type, child.share_mode, child.multiple) == (SEND, NONE, ())
        numbers |= {child.handle, child.context_value}
    assert len(numbers | {handle.handle, handle.context_value}) == 6
    rig.manager.close_queue(handle)
    assert (rig.orders.is_active, other.is_active) == (False, False)


@pytest.mark.spec("MQDMPR-3.1.7.1.5-05")
def test_if_one_of_several_queues_fails_none_stays_open(rig: Rig) -> None:
    other = rig.create("other")
    with pytest.raises(QueueNotFound):
        rig.open(SEND, NONE, f"{ORDERS},DIRECT=OS:host\\private$\\other,DIRECT=OS:host\\private$\\nothing")
    assert (rig.orders.descriptors, other.descriptors) == ({}, {})


@pytest.mark.spec("MQDMPR-3.1.7.1.5-06", "MQDMPR-3.1.7.1.5-08")
@pytest.mark.parametrize(
    "name", ["DIRECT=HTTP://host/msmq/private$/orders", "DIRECT=HTTPS://host/msmq/q", "MULTICAST=234.1.1.1:8001"]
)
def test_http_and_multicast_names_can_only_be_sent_to(rig: Rig, name: str) -> None:
    for access in AccessType:
        if access is not SEND:
            with pytest.raises(UnsupportedFormatName):
                rig.open(access, name=name)


@pytest.mark.spec("MQDMPR-3.1.7.1.5-07")
@pytest.mark.parametrize("suffix", ["", ";JOURNAL", ";DEADLETTER", ";DEADXACT"])
def test_the_queues_of_a_machine_cannot_be_sent_to(rig: Rig, suffix: str) -> None:
    with pytest.raises(UnsupportedFormatName):
        rig.open(SEND, name=f"MACHINE={guid_text(ME)}{suffix}")
    if suffix:
        queue = rig.open(name=f"MACHINE={guid_text(ME)}{suffix}").queue
        assert queue is rig.open(name=f"DIRECT=OS:host\\SYSTEM${suffix}").queue
        assert queue is not None
        assert queue.queue_type is QueueKind.SYSTEM


@pytest.mark.spec("MQDMPR-3.1.7.1.5-10", "MQDMPR-3.1.7.1.5-11", "MQDMPR-3.1.7.1.5-14")
def test_a_local_name_that_matches_no_queue_is_not_found(rig: Rig) -> None:
    unknown = [
        "DIRECT=OS:host\\private$\\nothing",
        "DIRECT=OS:HOST.example.org\\nothing",
        "DIRECT=TCP:10.0.0.1\\nothing",
        f"PRIVATE={guid_text(ME)}\\ffff",
    ]
    elsewhere = ["DIRECT=OS:far\\q", f"PRIVATE={guid_text(bytes(16))}\\1", f"PUBLIC={guid_text(bytes(16))}"]
    for name in [*unknown, *elsewhere]:
        for access in (RECEIVE, PEEK):
            with pytest.raises(QueueNotFound):
                rig.open(access, name=name)
    for name in [*unknown, "DIRECT=HTTP://host:8080/msmq/nothing"]:
        with pytest.raises(QueueNotFound):
            rig.open(SEND, name=name)
    assert QueueNotFound.hresult == 0xC00E0003


RIGHTS = [SEND, RECEIVE, PEEK, AccessType.PEEK_ADMIN]
OPENS = [(access, share) for access in RIGHTS for share in (NONE, DENY)]
REFUSED = {
    (RECEIVE, DENY): {*((access, DENY) for access in RIGHTS), (RECEIVE, NONE)},
    (PEEK, DENY): {(RECEIVE, NONE), (RECEIVE, DENY)},
    (AccessType.PEEK_ADMIN, DENY): {(RECEIVE, NONE), (RECEIVE, DENY)},
    (RECEIVE, NONE): {(access, DENY) for access in RIGHTS},
}


@pytest.mark.spec(
    "MQDMPR-3.1.7.1.5-19",
    "MQDMPR-3.1.7.1.5-20",
    "MQDMPR-3.1.7.1.5-21",
    "MQDMPR-3.1.7.1.5-22",
    "MQDMPR-3.1.7.1.6-05",
)
@pytest.mark.parametrize("first", OPENS)
@pytest.mark.parametrize("second", OPENS)
def test_handles_exclude_each_other_as_they_were_opened(
    rig: Rig, first: tuple[AccessType, ShareMode], second: tuple[AccessType, ShareMode]
) -> None:
    """readings MQDMPR 3.M."""
    handle = rig.open(*first)
    if second in REFUSED.get(first, set()):
        with pytest.raises(SharingViolation):
            rig.open(*second)
        assert SharingViolation.hresult == 0xC00E0009
        assert list(rig.orders.descriptors) == [handle.handle]
        rig.manager.close_queue(handle)
        assert not rig.orders.is_active
    opened = rig.open(*second)
    assert rig.orders.is_active
    rig.manager.close_queue(opened)


@pytest.mark.spec("MQDMPR-3.1.7.1.5-23", "MQDMPR-3.1.1.16-01", "MQDMPR-3.1.1.16-02")
def test_a_handle_keeps_what_it_was_opened_with_and_is_like_no_other(rig: Rig) -> None:
    handles = [rig.open(access) for access in AccessType for _ in range(2)]
    assert [handle.access_type for handle in handles[::2]] == list(AccessType)
    for handle in handles:
        assert (handle.queue, handle.share_mode, handle.multiple) == (rig.orders, NONE, ())
        assert handle.format_name == FormatName.parse(ORDERS)
        assert rig.orders.descriptors[handle.handle] is handle
    numbers = [number for handle in handles for number in (handle.handle, handle.context_value)]
    assert len(set(numbers)) == len(numbers)
    rig.manager.close_queue(handles.pop(0))
    assert list(rig.orders.descriptors.values()) == handles
    assert all(handle.queue is rig.orders for handle in handles)


@pytest.mark.spec("MQDMPR-3.1.7.1.6-01")
def test_closing_the_handle_of_a_deleted_queue_does_nothing(rig: Rig) -> None:
    handle = rig.open()
    rig.manager.delete_queue(rig.orders)
    rig.manager.take_events()
    for _ in range(2):
        rig.manager.close_queue(handle)
    assert rig.manager.take_events() == []


@pytest.mark.spec("MQDMPR-3.1.7.1.6-03", "MQDMPR-3.1.7.1.6-04", "MQDMPR-3.1.1.16-05")
def test_closing_a_handle_cancels_its_waits_and_closes_its_cursors(rig: Rig) -> None:
    """readings MQDMPR 3.K: also those without a tag."""
    handle, other = rig.open(), rig.open()
    cursor = rig.manager.open_cursor(handle)
    waits = [
        rig.receive(handle, ReadRequest(tag=1)),
        rig.peek(handle, ReadRequest()),
        rig.peek(handle, ReadRequest(None, cursor)),
    ]
    kept = rig.receive(other, ReadRequest(tag=1))
    rig.manager.close_queue(handle)
    assert rig.ended() == [(wait_id, HResult.MQ_ERROR_OPERATION_CANCELLED) for wait_id in waits]
    assert handle.cursors == {}
    assert list(other.waiting) == [kept]
    rig.send("a")
    assert rig.ended() == [(kept, "a")]


def test_a_subqueue_that_is_only_looked_into_is_not_kept(rig: Rig) -> None:
    """readings MQDMPR 3.AA."""
    name = f"{ORDERS};late"
    rig.manager.take_events()
    number = rig.manager.last_number
    one, other = rig.open(AccessType.PEEK, name=name), rig.open(AccessType.PEEK, name=name)
    assert one.queue is other.queue is rig.orders.subqueues["late"]
    rig.manager.close_queue(one)
    assert "late" in rig.orders.subqueues
    rig.manager.close_queue(other)
    assert not rig.orders.subqueues
    assert (rig.manager.take_events(), rig.manager.last_number) == ([], number)


@pytest.mark.parametrize("access", [AccessType.RECEIVE, AccessType.MOVE])
def test_a_subqueue_that_is_looked_into_is_kept_when_it_is_wanted_for_more(rig: Rig, access: AccessType) -> None:
    name = f"{ORDERS};late"
    looking = rig.open(AccessType.PEEK, name=name)
    rig.peek(looking, ReadRequest())
    wanted = rig.open(access, name=name)
    late = rig.orders.subqueues["late"]
    assert wanted.queue is looking.queue is late is rig.manager.collection.by_number[late.number]
    assert QueueChanged(late) in rig.manager.take_events()
    if access is AccessType.MOVE:
        moved = rig.send("a")
        assert rig.manager.move_to_open_queue(rig.open(), moved, wanted, None, now=rig.now) == HResult.MQ_OK
        assert [type(event) for event in rig.manager.take_events()].count(ReadEnded) == 1, "who looks sees it"
    for handle in (looking, wanted):
        rig.manager.close_queue(handle)
    assert rig.orders.subqueues == {"late": late}


def test_a_queue_is_deleted_while_its_subqueue_is_looked_into(rig: Rig) -> None:
    looking = rig.open(AccessType.PEEK, name=f"{ORDERS};late")
    rig.manager.delete_queue(rig.orders)
    assert looking.queue is None
    rig.manager.close_queue(looking)
