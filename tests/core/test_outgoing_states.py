"""MS-MQDMPR 3.1.1.3 State: what an outgoing queue goes through, as MS-MQQB 3.1.5 and administrators drive it."""

from collections.abc import Callable

import pytest

from tests.core.directory_twin import DirectoryTwin
from tests.core.engine import Rig
from waypost.core.outgoing import STATES, Happening, OutgoingQueues, needs_directory
from waypost.core.ports import PublicQueue
from waypost.core.queues import AccessType, OutgoingQueue, OutgoingQueueState
from waypost.core.system import QueueManagerAttributes
from waypost.guid import guid_text

State = OutgoingQueueState
GUID = b"\x77" * 16
DIRECT = "DIRECT=OS:far\\private$\\q"
HTTP = "DIRECT=HTTP://far/msmq/q"
MULTICAST = "MULTICAST=234.1.1.1:8001"
PUBLIC = f"PUBLIC={guid_text(GUID)}"
PRIVATE = f"PRIVATE={guid_text(GUID)}\\a"
CONNECTOR = f"CONNECTOR={guid_text(GUID)}"
NAMES = [DIRECT, HTTP, MULTICAST, PUBLIC, PRIVATE, CONNECTOR]
HOPS = ("TCP:10.1.1.1", "TCP:10.1.1.2")

# The reports of a connection about its queue, in any order.
OF_A_CONNECTION: list[Callable[[OutgoingQueues, OutgoingQueue], None]] = [
    OutgoingQueues.connection_attempt_begun,
    lambda outgoing, queue: outgoing.address_resolved(queue, HOPS),
    OutgoingQueues.address_not_resolved,
    lambda outgoing, queue: outgoing.connected(queue, HOPS[0]),
    OutgoingQueues.disconnecting,
    OutgoingQueues.disconnected,
]


@pytest.fixture
def rig() -> Rig:
    directory = DirectoryTwin()
    directory.queues[GUID] = PublicQueue("far\\q", bytes(16), "far", 0)
    return Rig(directory)


def outgoing(rig: Rig, name: str) -> OutgoingQueue:
    queue = rig.open(AccessType.SEND, name=name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


def is_dispatched(rig: Rig, queue: OutgoingQueue) -> bool:
    """Whether a message that is put into the queue now can go."""
    message = rig.message("")
    rig.enqueue(message, queue)
    entry = rig.manager.dispatch.add_message_to_dispatch_collection(queue, message.lookup_identifier, "data")
    rig.manager.dispatch.remove_messages_from_dispatch_collection_by_queue(queue)
    return entry is not None


@pytest.mark.spec("MQDMPR-3.1.1.3-03", "MQDMPR-3.1.1.3-04")
@pytest.mark.parametrize("name", NAMES)
def test_a_connection_says_in_which_state_its_queue_is(rig: Rig, name: str) -> None:
    queue, states = outgoing(rig, name), rig.manager.outgoing
    is_in_directory = name in (PUBLIC, PRIVATE, CONNECTOR)
    assert needs_directory(queue.destination_format_name) is is_in_directory
    steps: list[tuple[Callable[[], None], State, tuple[str, ...]]] = [
        (lambda: None, State.INACTIVE, ()),
        (
            lambda: states.connection_attempt_begun(queue),
            State.NEED_VALIDATION if is_in_directory else State.WAITING,
            (),
        ),
        (lambda: states.address_resolved(queue, HOPS), State.WAITING, HOPS),
        (lambda: states.connected(queue, HOPS[1]), State.CONNECTED, HOPS[1:]),
        (lambda: states.disconnecting(queue), State.DISCONNECTING, HOPS[1:]),
        (lambda: states.disconnected(queue), State.DISCONNECTED, HOPS[1:]),
        (lambda: states.connection_attempt_begun(queue), State.WAITING, HOPS[1:]),
        (lambda: states.address_not_resolved(queue), State.NEED_VALIDATION, ()),
    ]
    for happen, state, next_hops in steps:
        happen()
        assert (queue.state, queue.next_hops) == (state, next_hops)


@pytest.mark.spec("MQDMPR-3.1.1.3-04")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_an_administrator_ends_a_pause_and_nothing_leaves_in_it(rig: Rig, name: str) -> None:
    queue = outgoing(rig, name)
    for before in OF_A_CONNECTION:
        before(rig.manager.outgoing, queue)
        assert is_dispatched(rig, queue)
        rig.manager.pause_queue(queue)
        for happening in OF_A_CONNECTION:
            assert (queue.state, is_dispatched(rig, queue)) == (State.ON_HOLD, False)
            happening(rig.manager.outgoing, queue)
        assert (queue.state, is_dispatched(rig, queue)) == (State.ON_HOLD, False)
        rig.manager.resume_queue(queue)
        assert (queue.state, is_dispatched(rig, queue)) == (State.INACTIVE, True)


@pytest.mark.spec("MQDMPR-3.1.1.3-05")
def test_a_connection_that_is_still_there_does_not_unlock_its_queue(rig: Rig) -> None:
    queue = outgoing(rig, DIRECT)
    rig.manager.outgoing.connected(queue, HOPS[0])
    rig.manager.modify(QueueManagerAttributes(hardened_security=True), rig.now)
    rig.manager.pause_queue(queue)
    rig.manager.resume_queue(queue)
    for happening in OF_A_CONNECTION:
        happening(rig.manager.outgoing, queue)
        assert queue.state is State.LOCKED
        assert not is_dispatched(rig, queue)


def test_a_connection_that_goes_on_after_a_pause_is_seen_again(rig: Rig) -> None:
    """MS-MQQB 3.1.7.13 does not close it."""
    queue, states = outgoing(rig, DIRECT), rig.manager.outgoing
    states.connection_attempt_begun(queue)
    rig.manager.pause_queue(queue)
    rig.manager.resume_queue(queue)
    states.connected(queue, HOPS[0])
    assert queue.state is State.CONNECTED


def test_every_state_can_be_reached_and_left() -> None:
    entered = {following for (state, _), following in STATES.items() if state is not following}
    left = {state for (state, _), following in STATES.items() if state is not following}
    assert entered == left == set(State)
    assert {happening for _, happening in STATES} == set(Happening)
    ends = {happening for (state, happening), following in STATES.items() if state is State.ON_HOLD is not following}
    assert ends == {Happening.RESUMED, Happening.LOCKED}
