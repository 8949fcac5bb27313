"""MS-MQDMPR 3.1.1.18, 3.1.7.1.28, 3.1.7.1.29, 3.1.7.1.34 and 3.1.7.3.9: which message is sent next."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine import Rig
from waypost.core.dispatch import Dispatch, DispatchEntry, TransferProtocol
from waypost.core.ports import QueuePaused, QueueResumed
from waypost.core.queues import AccessType, OutgoingQueue, OutgoingQueueState
from waypost.core.reading import MessageSeekAction
from waypost.core.writing import EnqueueStatus

FAR = "DIRECT=OS:far\\private$\\q"
NEAR = "DIRECT=OS:near\\private$\\q"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def outgoing(rig: Rig, name: str = FAR, base_priority: int = 0) -> OutgoingQueue:
    """An outgoing queue without handles."""
    handle = rig.open(AccessType.SEND, name=name)
    queue = handle.queue
    assert isinstance(queue, OutgoingQueue)
    queue.attributes.base_priority = base_priority
    rig.manager.close_queue(handle)
    return queue


def put(rig: Rig, queue: OutgoingQueue, label: str = "", priority: int = 3) -> int:
    message = rig.message(label, priority=priority)
    assert rig.enqueue(message, queue) is EnqueueStatus.ACCEPTED
    return message.lookup_identifier


def add(rig: Rig, queue: OutgoingQueue, lookup_id: int, data: object | None = "data") -> DispatchEntry | None:
    return rig.manager.dispatch.add_message_to_dispatch_collection(queue, lookup_id, data)


def sent(rig: Rig, entry: DispatchEntry | None) -> list[str]:
    """The labels of all that is sent from here on, each as soon as the one before is on its way."""
    labels = []
    while entry is not None:
        labels.append(rig.messages.get(entry.queue.number, entry.lookup_id).label)
        entry = rig.manager.dispatch.remove_message_from_dispatch_collection(entry.queue, entry.lookup_id)
    return labels


@pytest.mark.spec("MQDMPR-3.1.7.1.28-01", "MQDMPR-3.1.1.18-01", "MQDMPR-3.1.1.2-13")
@pytest.mark.parametrize("base_priority", [-32768, 0, 32767])
def test_an_entry_has_the_sum_of_both_priorities(rig: Rig, base_priority: int) -> None:
    queue = outgoing(rig, base_priority=base_priority)
    for priority in range(8):
        lookup_id = put(rig, queue, priority=priority)
        entry = add(rig, queue, lookup_id)
        assert entry is not None
        assert (entry.queue, entry.lookup_id, entry.protocol_data) == (queue, lookup_id, "data")
        assert (entry.priority, entry.send_in_progress) == (base_priority + priority, True)
        rig.manager.dispatch.remove_message_from_dispatch_collection(queue, lookup_id)
    first, second = (put(rig, queue) for _ in range(2))
    add(rig, queue, first)
    assert add(rig, queue, second) is None
    waiting = rig.manager.dispatch._entries[queue.number][second]
    assert not waiting.send_in_progress


@pytest.mark.spec("MQDMPR-3.1.7.3.9-01")
def test_one_message_is_on_its_way_at_a_time_whatever_its_queue(rig: Rig) -> None:
    far, near = outgoing(rig), outgoing(rig, NEAR)
    first, second = put(rig, far), put(rig, near, priority=7)
    assert add(rig, far, first) is not None
    assert add(rig, near, second) is None
    other = put(rig, near)
    assert rig.manager.dispatch.remove_message_from_dispatch_collection(near, other) is None
    entry = rig.manager.dispatch.remove_message_from_dispatch_collection(far, first)
    assert entry is not None
    assert entry.lookup_id == second


@pytest.mark.spec("MQDMPR-3.1.7.1.29-01", "MQDMPR-3.1.7.3.9-02")
def test_the_highest_sum_goes_first_and_among_equals_what_came_first(rig: Rig) -> None:
    far, near = outgoing(rig, base_priority=-1), outgoing(rig, NEAR, base_priority=2)
    blocker = add(rig, far, put(rig, far, "blocker"))
    for label, queue, priority in (
        ("far 7", far, 7),
        ("near 0", near, 0),
        ("far 3", far, 3),
        ("near 5", near, 5),
        ("far 3 again", far, 3),
    ):
        assert add(rig, queue, put(rig, queue, label, priority)) is None
    assert sent(rig, blocker) == ["blocker", "near 5", "far 7", "near 0", "far 3", "far 3 again"]
    assert len(rig.manager.dispatch) == 0


def test_a_message_that_is_told_again_keeps_its_place(rig: Rig) -> None:
    """MS-MQQB 3.1.5.5.1 reports messages again which were sent and not acknowledged."""
    queue = outgoing(rig)
    first, second, third = (put(rig, queue, label) for label in ("first", "second", "third"))
    entry = add(rig, queue, third)
    add(rig, queue, second)
    add(rig, queue, first)
    assert add(rig, queue, second, "newer") is None
    assert len(rig.manager.dispatch) == 3
    assert sent(rig, entry) == ["third", "first", "second"]


@pytest.mark.spec("MQDMPR-3.1.7.3.9-02")
def test_what_is_deleted_is_passed_over_and_so_is_a_queue_that_is_not_active(rig: Rig) -> None:
    far, near = outgoing(rig, base_priority=5), outgoing(rig, NEAR)
    blocker = add(rig, near, put(rig, near, "blocker"))
    # Messages that no transaction has committed make no queue active.
    held = rig.message("held", priority=0)
    assert rig.enqueue(held, far, rig.start()) is EnqueueStatus.ACCEPTED
    gone = put(rig, near, "gone", priority=7)
    add(rig, far, held.lookup_identifier)
    for lookup_id in (gone, put(rig, near, "last", priority=0)):
        add(rig, near, lookup_id)
    reader = rig.open(AccessType.RECEIVE_ADMIN, name=NEAR)
    assert rig.seek(reader, MessageSeekAction.SEEK_FIRST, 0) == "gone"
    assert rig.receive(reader) == "gone"
    assert sent(rig, blocker) == ["blocker", "last"]
    assert len(rig.manager.dispatch) == 1
    assert not far.is_active
    rig.open(AccessType.SEND, name=FAR)
    nothing = rig.manager.dispatch.remove_message_from_dispatch_collection(near, gone)
    assert sent(rig, nothing) == ["held"]


@pytest.mark.spec("MQDMPR-3.1.7.3.9-03")
def test_the_data_of_the_protocol_tells_which_one_sends(rig: Rig) -> None:
    queue = outgoing(rig)
    for data, protocol in (("data", TransferProtocol.BINARY), (None, TransferProtocol.SRMP)):
        lookup_id = put(rig, queue)
        entry = add(rig, queue, lookup_id, data)
        assert entry is not None
        assert entry.transfer_protocol is protocol
        rig.manager.dispatch.remove_message_from_dispatch_collection(queue, lookup_id)


@pytest.mark.spec("MQDMPR-3.1.7.1.34-01")
def test_all_entries_of_one_queue_go_at_once_and_no_others(rig: Rig) -> None:
    far, near = outgoing(rig), outgoing(rig, NEAR)
    add(rig, far, put(rig, far, "blocker"))
    for number in range(3):
        add(rig, far, put(rig, far, f"far {number}"))
        add(rig, near, put(rig, near, f"near {number}"))
    dispatch = rig.manager.dispatch
    dispatch.remove_messages_from_dispatch_collection_by_queue(far)
    assert len(dispatch) == 3
    assert sent(rig, add(rig, near, put(rig, near, "near 3"))) == [f"near {number}" for number in range(4)]
    dispatch.remove_messages_from_dispatch_collection_by_queue(far)
    assert len(dispatch) == 0


@pytest.mark.spec("MQDMPR-3.1.7.2.3-01", "MQDMPR-3.1.7.2.4-01", "MQDMPR-3.1.4.14-01", "MQDMPR-3.1.4.15-01")
def test_a_paused_queue_sends_nothing_and_goes_on_in_order(rig: Rig) -> None:
    queue = outgoing(rig)
    lookup_ids = [put(rig, queue, label) for label in ("first", "second", "third")]
    for lookup_id in lookup_ids:
        add(rig, queue, lookup_id)
    rig.manager.take_events()
    rig.manager.pause_queue(queue)
    states = [queue.state]
    assert [add(rig, queue, lookup_id) for lookup_id in lookup_ids] == [None] * 3
    assert len(rig.manager.dispatch) == 0
    rig.manager.resume_queue(queue)
    assert rig.manager.take_events() == [QueuePaused(queue), QueueResumed(queue)]
    assert [*states, queue.state] == [OutgoingQueueState.ON_HOLD, OutgoingQueueState.INACTIVE]
    entries = [add(rig, queue, lookup_id) for lookup_id in reversed(lookup_ids)]
    assert sent(rig, entries[0]) == ["third", "first", "second"]
    assert rig.labels(queue) == ["first", "second", "third"]


@pytest.mark.spec("MQDMPR-3.1.1.1-27")
def test_a_new_queue_manager_has_nothing_to_dispatch(rig: Rig) -> None:
    """It is volatile: those who transfer add what is in the outgoing queues after a restart."""
    queue = outgoing(rig)
    lookup_ids = [put(rig, queue, str(number)) for number in range(3)]
    for lookup_id in lookup_ids:
        add(rig, queue, lookup_id)
    assert len(rig.manager.dispatch) == 3
    restarted = Rig().manager.dispatch
    assert len(restarted) == 0
    first, *others = [
        restarted.add_message_to_dispatch_collection(queue, each, "data") for each in queue.positions
    ]  # fmt: skip
    assert first is not None
    assert others == [None, None]
    assert (first.lookup_id, len(restarted)) == (lookup_ids[0], 3)


def test_what_was_removed_does_not_stay_in_memory(rig: Rig) -> None:
    queue = outgoing(rig)
    lookup_ids = [put(rig, queue) for _ in range(50)]
    for _ in range(20):
        for lookup_id in lookup_ids:
            add(rig, queue, lookup_id)
        rig.manager.dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
    assert len(rig.manager.dispatch._heap) < 200


@settings(max_examples=50)
@given(st.data())
def test_dispatch_does_what_a_sorted_list_does(data: st.DataObject) -> None:
    rig = Rig()
    queues = [outgoing(rig, f"DIRECT=OS:host{number}\\q", number - 1) for number in range(3)]
    dispatch, waiting, flying = rig.manager.dispatch, set[tuple[int, int]](), list[tuple[int, int]]()
    known: list[tuple[OutgoingQueue, int]] = []

    def rank(key: tuple[int, int]) -> tuple[int, int]:
        queue = next(queue for queue in queues if queue.number == key[0])
        return -(queue.attributes.base_priority + 7 - (key[1] >> 56)), key[1] & (1 << 56) - 1

    def check(entry: DispatchEntry | None) -> None:
        expected = min(waiting, key=rank) if waiting and not flying else None
        assert (None if entry is None else (entry.queue.number, entry.lookup_id)) == expected
        if expected is not None:
            flying.append(expected)

    def put_one() -> None:
        queue = data.draw(st.sampled_from(queues))
        known.append((queue, put(rig, queue, priority=data.draw(st.integers(0, 7)))))
        waiting.add((queue.number, known[-1][1]))
        check(dispatch.add_message_to_dispatch_collection(*known[-1], "data"))

    def remove_one() -> None:
        if known:
            queue, lookup_id = data.draw(st.sampled_from(known))
            waiting.discard((queue.number, lookup_id))
            if (queue.number, lookup_id) in flying:
                flying.clear()
            check(dispatch.remove_message_from_dispatch_collection(queue, lookup_id))

    def remove_all_of_one() -> None:
        queue = data.draw(st.sampled_from(queues))
        waiting.difference_update({key for key in waiting if key[0] == queue.number})
        if flying and flying[0][0] == queue.number:
            flying.clear()
        dispatch.remove_messages_from_dispatch_collection_by_queue(queue)

    actions = st.sampled_from([put_one, put_one, remove_one, remove_all_of_one])
    for action in data.draw(st.lists(actions, max_size=30)):
        action()
        assert len(dispatch) == len(waiting)


def test_many_messages_are_dispatched_in_order(rig: Rig) -> None:
    queue = outgoing(rig)
    dispatch = Dispatch()
    lookup_ids = [put(rig, queue, priority=number % 8) for number in range(2000)]
    entry = None
    for lookup_id in lookup_ids:
        entry = dispatch.add_message_to_dispatch_collection(queue, lookup_id, "data") or entry
    order = []
    while entry is not None:
        order.append(entry.lookup_id)
        entry = dispatch.remove_message_from_dispatch_collection(queue, entry.lookup_id)
    assert all(before < after for before, after in pairwise(order[1:]))
    assert len(order) == 2000
