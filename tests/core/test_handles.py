"""MS-MQDMPR 3.1.7.1.27, 3.1.1.16 and 3.1.1.17: sending through handles, and what each access allows."""

import pytest

from tests.core.engine import OTHER_TX, TX, Rig
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, ReadRequest, RemoteReadState, ShareMode
from waypost.core.writing import EnqueueStatus
from waypost.errors import AccessDenied, QueueNotAvailable, SharingViolation
from waypost.hresult import HResult
from waypost.wire.format_names import FormatName

SEND = AccessType.SEND
ORDERS = "DIRECT=OS:host\\private$\\orders"
FAR = "DIRECT=OS:far\\private$\\q"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def send(rig: Rig, handle: OpenQueueDescriptor, message: Message, tx: bytes | None = None) -> EnqueueStatus:
    return rig.manager.enqueue_message_to_open_queue(handle, message, tx, rig.now)


@pytest.mark.spec("MQDMPR-3.1.7.1.27-01")
def test_a_message_to_one_queue_is_enqueued_there_and_the_status_returned(rig: Rig) -> None:
    handle = rig.open(SEND)
    assert send(rig, handle, rig.message("a")) == 0
    assert send(rig, handle, rig.message("b"), rig.start()) == 0
    assert rig.labels() == ["a", "b"]
    rig.abort()
    assert rig.labels() == ["a"]
    rig.orders.attributes.quota = 0
    assert send(rig, handle, rig.message("c")) == 1
    rig.manager.set_quota(0)
    assert send(rig, handle, rig.message("d")) == 2
    late = rig.message("e")
    late.time_to_reach_queue, late.sent_time = 5, late.sent_time - 6
    assert send(rig, handle, late) == 3
    assert rig.labels() == ["a"]


@pytest.mark.spec("MQDMPR-3.1.7.1.27-02")
def test_a_message_to_several_queues_is_copied_for_each_of_them(rig: Rig) -> None:
    """readings MQDMPR 3.CC."""
    several = f"{FAR},{ORDERS},DIRECT=OS:host\\private$\\other"
    other = rig.create("other")
    handle = rig.open(SEND, name=several)
    message = rig.message("a")
    message.packet = b"of another form of the message"
    assert send(rig, handle, message) is EnqueueStatus.ACCEPTED
    far = handle.multiple[0].queue
    assert far is not None
    for queue, name in zip((far, rig.orders, other), several.split(","), strict=True):
        (lookup_id,) = queue.positions
        copy = rig.messages.get(queue.number, lookup_id)
        assert copy.label == "a"
        assert copy.destination_queue_format_name == FormatName.parse(name)
        assert copy.destination_multi_queue_format_name == tuple(map(FormatName.parse, several.split(",")))
        assert copy.packet != message.packet


@pytest.mark.spec("MQDMPR-3.1.7.1.27-03")
def test_the_first_copy_that_is_refused_ends_the_sending(rig: Rig) -> None:
    """readings MQDMPR 3.CC."""
    full, last = rig.create("full"), rig.create("last")
    full.attributes.quota = 0
    handle = rig.open(SEND, name=f"{ORDERS},DIRECT=OS:host\\private$\\full,DIRECT=OS:host\\private$\\last")
    assert send(rig, handle, rig.message("a")) is EnqueueStatus.QUEUE_QUOTA_EXCEEDED
    assert (rig.labels(), rig.labels(full), rig.labels(last)) == (["a"], [], [])
    assert send(rig, handle, rig.message("b"), rig.start()) is EnqueueStatus.QUEUE_QUOTA_EXCEEDED
    assert rig.labels() == ["a", "b"]
    rig.abort()
    assert rig.labels() == ["a"]


def test_nothing_is_sent_through_the_handle_of_a_queue_that_is_gone(rig: Rig) -> None:
    for name in (ORDERS, f"{ORDERS},{FAR}"):
        rig = Rig()
        handle = rig.open(SEND, name=name)
        rig.manager.delete_queue(rig.orders)
        with pytest.raises(QueueNotAvailable):
            send(rig, handle, rig.message("a"))
        assert rig.messages.held == {}


@pytest.mark.spec("MQDMPR-3.1.1.17-03")
@pytest.mark.parametrize(
    ("access", "allowed"),
    [
        (AccessType.RECEIVE, {"peek", "receive", "purge"}),
        (AccessType.PEEK, {"peek"}),
        (AccessType.SEND, {"send"}),
        (AccessType.MOVE, {"target"}),
    ],
)
def test_a_handle_can_do_what_it_was_opened_for_and_nothing_else(
    rig: Rig, access: AccessType, allowed: set[str]
) -> None:
    rig.open(AccessType.MOVE, name=f"{ORDERS};other")
    other = rig.orders.subqueues["other"]
    source, handle = rig.open(AccessType.RECEIVE, name=f"{ORDERS};other"), rig.open(access)
    held = rig.message("in the subqueue")
    rig.enqueue(held, other)
    for label in ("first", "second"):
        rig.send(label)
    done = set()
    if rig.peek(handle) == "first":
        done.add("peek")
    if rig.receive(handle) == "first":
        done.add("receive")
    for word, operation in (
        ("send", lambda: send(rig, handle, rig.message("sent"))),
        ("target", lambda: rig.manager.move_to_open_queue(source, held.lookup_identifier, handle, None, now=rig.now)),
        ("purge", lambda: rig.manager.purge_open_queue(handle)),
    ):
        before = (rig.labels(), rig.labels(other))
        try:
            operation()
        except AccessDenied:
            assert before == (rig.labels(), rig.labels(other))
        else:
            done.add(word)
            assert before != (rig.labels(), rig.labels(other))
    assert done == allowed


def test_a_message_is_moved_in_a_transaction_or_not_at_all(rig: Rig) -> None:
    rig.orders.attributes.transactional = True
    source, target = rig.open(), rig.open(AccessType.MOVE, name=f"{ORDERS};late")
    lookup_id = rig.send("a")
    move = rig.manager.move_to_open_queue
    assert move(source, lookup_id, target, OTHER_TX, now=rig.now) == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
    with pytest.raises(AccessDenied):
        move(rig.open(AccessType.PEEK), lookup_id, target, None, now=rig.now)
    assert move(source, lookup_id, target, rig.start(TX), now=rig.now) == HResult.MQ_OK
    rig.commit()
    assert (rig.labels(), rig.labels(rig.orders.subqueues["late"])) == ([], ["a"])


@pytest.mark.spec("MQDMPR-3.1.1.17-05")
def test_who_denies_receiving_keeps_others_from_receiving_until_the_handle_is_closed() -> None:
    """readings MQDMPR 3.M: the rules of 3.1.7.1.5 hold, by which others can still peek."""
    for share, others in ((ShareMode.DENY_NONE, {"RECEIVE", "PEEK"}), (ShareMode.DENY_RECEIVE, {"PEEK"})):
        rig = Rig()
        handle = rig.open(AccessType.RECEIVE, share)
        assert opens(rig) == others
        rig.manager.close_queue(handle)
        assert opens(rig) == {"RECEIVE", "PEEK"}


def opens(rig: Rig) -> set[str]:
    """The accesses with which somebody else gets in."""
    possible = set()
    for access in (AccessType.RECEIVE, AccessType.PEEK):
        try:
            rig.manager.close_queue(rig.open(access))
        except SharingViolation:
            continue
        possible.add(access.name)
    return possible


def test_a_handle_for_remote_reading_becomes_known_to_one_side_and_then_to_the_other(rig: Rig) -> None:
    handle, local = rig.open(), rig.open()
    states = [handle.remote_read_state]
    for _ in range(2):
        handle.advance_remote_read()
        states.append(handle.remote_read_state)
    assert states == [RemoteReadState.NONE, RemoteReadState.OPENED, RemoteReadState.READY_FOR_READ]
    assert local.remote_read_state is RemoteReadState.NONE


def test_a_message_is_moved_within_one_queue_only(rig: Rig) -> None:
    """MS-MQRR 3.1.4.10, in its order, for every path alike."""
    names = {
        name: f"DIRECT=OS:host\\private$\\{name}" for name in ("orders", "orders;a", "orders;b", "other", "other;a")
    }
    rig.create("other")
    targets = {name: rig.open(AccessType.MOVE, name=text) for name, text in names.items()}
    sources = {name: rig.open(AccessType.RECEIVE, name=text) for name, text in names.items()}
    check, lookup_id = rig.manager.check_move, rig.send("a")
    for name, target in targets.items():
        is_related = name in ("orders;a", "orders;b")
        expected = HResult.MQ_OK if is_related else HResult.STATUS_INVALID_PARAMETER
        assert check(sources["orders"], lookup_id, target, None) == expected, name
        if not is_related:
            move = rig.manager.move_to_open_queue
            assert move(sources["orders"], lookup_id, target, None, now=rig.now) == expected
    assert check(sources["orders"], lookup_id, targets["other"], TX) == HResult.STATUS_INVALID_PARAMETER
    assert check(sources["orders;a"], 4711, targets["orders;b"], None) == HResult.MQ_ERROR_MESSAGE_NOT_FOUND
    assert check(sources["orders;a"], 4711, targets["orders"], TX) == HResult.MQ_ERROR_TRANSACTION_USAGE
    rig.receive(sources["orders"], ReadRequest(transaction=rig.start()))
    locked = HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
    assert check(sources["orders"], lookup_id, targets["orders;a"], None) == locked
    assert rig.labels() == ["a"]
