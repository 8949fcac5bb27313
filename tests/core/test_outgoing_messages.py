"""Messages in outgoing queues: their order, their numbers, how they leave, and how long they may stay."""

from collections.abc import Sequence

import pytest

from tests.core.engine import OTHER_TX, TX
from tests.core.office import ADMIN, RECEIVED, TOO_LATE, Office
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements, DeliveryGuarantee
from waypost.core.ports import MessageArrived, MessagePositionAvailable, MessagePositionDeleted
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType, OutgoingQueue, ReadRequest
from waypost.core.reading import MessageSeekAction
from waypost.core.serialization import packet_of
from waypost.core.stored_message import sequence_of, set_sequence
from waypost.hresult import HResult
from waypost.limits import EXPIRY_PART
from waypost.wire.codec import INFINITE
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.message_class import MessageClass

SEQUENCE = TxSequenceId(1, 77)
FAR = "DIRECT=OS:far\\private$\\orders"
NEAR = "DIRECT=OS:near\\private$\\orders"
REACHED = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def far(office: Office) -> OutgoingQueue:
    return outgoing(office, FAR)


def outgoing(office: Office, name: str) -> OutgoingQueue:
    queue = office.outgoing(name)
    assert isinstance(queue, OutgoingQueue)
    return queue


class Numbers:
    """The work of a sequence for its messages."""

    def __init__(self, office: Office) -> None:
        self.calls: list[tuple[OutgoingQueue, list[str]]] = []
        self.last = 0
        office.manager.transactions.number_sends = self

    def __call__(self, queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        self.calls.append((queue, [message.label for message in messages]))
        for message in messages:
            self.last += 1
            set_sequence(message, SEQUENCE, self.last, self.last - 1)


def send(office: Office, label: str, queue: OutgoingQueue, tx: bytes, /, **changes: object) -> None:
    office.enqueue(office.transactional(label=label, **changes), queue, tx)


def listed(office: Office, queue: OutgoingQueue) -> list[tuple[str, int]]:
    """Labels and numbers, in list order."""
    return [(message.label, sequence_of(packet_of(message))[1]) for message in office.contents(queue)]


@pytest.mark.parametrize("changes", [{}, {"positive_journaling_requested": True}])
def test_commit_numbers_what_goes_to_each_outgoing_queue_in_list_order(
    office: Office, far: OutgoingQueue, changes: dict[str, object]
) -> None:
    numbers, near = Numbers(office), outgoing(office, NEAR)
    office.orders.attributes.transactional = True
    office.start(TX)
    for label, queue in (("a", far), ("b", near), ("c", far)):
        send(office, label, queue, TX, **changes)
    office.enqueue(office.transactional(label="here"), office.orders, TX)
    assert numbers.calls == []
    office.commit()
    assert numbers.calls == [(far, ["a", "c"]), (near, ["b"])]
    assert listed(office, far) == [("a", 1), ("c", 2)]
    assert [sequence_of(packet_of(message)) for message in office.contents(far)] == [
        (SEQUENCE, 1, 0),
        (SEQUENCE, 2, 1),
    ]
    assert [message.first_in_transaction for message in office.contents(far)] == [True, False]


def test_nothing_is_numbered_that_is_taken_back_or_sent_without_a_transaction(
    office: Office, far: OutgoingQueue
) -> None:
    numbers = Numbers(office)
    office.start(TX)
    send(office, "a", far, TX)
    office.abort()
    office.deliver(office.transactional(b"\x22" * 16, label="forwarded"), far)
    assert numbers.calls == []
    assert listed(office, far) == [("forwarded", 1)]


def test_what_a_transaction_sends_stands_behind_all_that_was_committed_before(
    office: Office, far: OutgoingQueue
) -> None:
    Numbers(office)
    office.start(TX)
    office.start(OTHER_TX)
    send(office, "slow 1", far, TX)
    send(office, "quick 1", far, OTHER_TX)
    send(office, "slow 2", far, TX)
    send(office, "quick 2", far, OTHER_TX)
    send(office, "slow 3", far, TX)
    office.manager.take_events()
    office.commit(OTHER_TX)
    quick = [event.lookup_id for event in office.events(MessagePositionAvailable)]
    office.commit(TX)
    slow = [event.lookup_id for event in office.events(MessagePositionAvailable)]
    assert listed(office, far) == [("quick 1", 1), ("quick 2", 2), ("slow 1", 3), ("slow 2", 4), ("slow 3", 5)]
    assert list(far.positions) == quick + slow == [message.lookup_identifier for message in office.contents(far)]
    assert far.total_bytes == office.manager.total_bytes == sum(len(packet_of(each)) for each in office.contents(far))
    assert all(far.positions.state(lookup_id) is PositionState.AVAILABLE for lookup_id in far.positions)


def test_what_is_committed_in_the_order_of_sending_keeps_its_place(office: Office, far: OutgoingQueue) -> None:
    office.start(TX)
    office.start(OTHER_TX)
    for tx in (TX, OTHER_TX):
        send(office, "a", far, tx)
    places = list(far.positions)
    office.commit(TX)
    office.commit(OTHER_TX)
    assert list(far.positions) == places


def test_what_expired_or_was_purged_while_it_was_overtaken_is_treated_as_before(
    office: Office, far: OutgoingQueue
) -> None:
    office.start(TX)
    office.start(OTHER_TX)
    send(office, "late", far, TX, time_to_reach_queue=5)
    send(office, "purged", far, TX)
    send(office, "quick", far, OTHER_TX)
    office.commit(OTHER_TX)
    office.manager.writing.purge_queue(far)
    office.advance(6)
    office.manager.take_events()
    office.commit(TX)
    assert office.deleted() == [("late", MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)]
    # It was not in the queue yet when that was purged.
    assert [message.label for message in office.contents(far)] == ["purged"]


@pytest.mark.spec("MQQB-3.1.5.5.4-01")
def test_what_was_delivered_is_journaled_if_it_asked_for_it_and_is_in_no_transaction(
    office: Office, far: OutgoingQueue
) -> None:
    wish = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    office.deliver(office.letter(label="journaled", **wish), far)
    office.deliver(office.letter(label="dropped", negative_journaling_requested=True), far)
    office.deliver(office.letter(label="plain"), far)
    office.deliver(office.transactional(label="final ack", **wish), far)
    office.deliver(office.letter(label="stays", **wish), far)
    delivered = [message for message in office.contents(far) if message.label != "stays"]
    office.manager.positions.delivered_all(far, delivered)
    gone = office.manager.take_events()
    assert [(event.message.label, event.reason) for event in gone if isinstance(event, MessagePositionDeleted)] == [
        (message.label, REACHED) for message in delivered
    ]
    for event in gone:
        assert isinstance(event, MessagePositionDeleted)
        office.delivery.handle(event, office.now)
    office.settle()
    assert [message.label for message in office.contents(far)] == ["stays"]
    assert [message.label for message in office.contents(office.journal)] == ["journaled"]
    assert office.contents(office.dead) == office.contents(office.dead_tx) == []
    assert far.total_bytes == sum(len(packet_of(message)) for message in office.contents(far))


def test_no_message_of_an_outgoing_queue_is_held_only_to_come_back_to_it(office: Office, far: OutgoingQueue) -> None:
    """Those behind it would have been sent by then."""
    lookup_id = office.deliver(office.letter(label="first"), far)
    handle = office.open(AccessType.RECEIVE_ADMIN, name=FAR)
    office.start(TX)
    for request in (ReadRequest(0, transaction=TX), ReadRequest(0, two_phase_read=True)):
        assert office.receive(handle, request) == HResult.MQ_ERROR_TRANSACTION_USAGE
        sought = office.seek(handle, MessageSeekAction.SEEK_CURRENT, lookup_id, request)
        assert sought == HResult.MQ_ERROR_TRANSACTION_USAGE
        assert office.manager.reading.dequeue_messages(handle, 1, request) == []
    move = office.manager.writing.move_message
    assert move(far, lookup_id, office.orders, TX, office.now) == HResult.MQ_ERROR_TRANSACTION_USAGE
    assert far.positions.state(lookup_id) is PositionState.AVAILABLE
    # For good, it can be taken.
    office.deliver(office.letter(label="second"), far)
    assert office.receive(handle) == "first"
    (second,) = far.positions
    assert move(far, second, office.orders, None, office.now) == HResult.MQ_OK
    assert (office.labels(far), office.labels()) == ([], ["second"])


@pytest.mark.spec("MQQB-1.3.4-01")
@pytest.mark.parametrize("reason", [REACHED, RECEIVED, TOO_LATE, MessageClass.MQMSG_CLASS_NACK_Q_PURGED])
def test_a_message_that_asks_for_no_journaling_leaves_no_copy(
    office: Office, far: OutgoingQueue, reason: MessageClass
) -> None:
    assert not Message().positive_journaling_requested
    assert not Message().negative_journaling_requested
    for letter in (office.letter(), office.transactional()):
        for queue in (far, office.orders):
            lookup_id = office.deliver(letter, queue)
            office.manager.positions.deleted(queue, lookup_id, reason)
            office.settle()
    office.deliver(office.transactional(), far)
    office.manager.final_acks.await_final_ack(far, next(iter(far.positions)))
    office.settle()
    assert office.contents(office.journal) == office.contents(office.dead) == office.contents(office.dead_tx) == []


WISH = {
    "negative_journaling_requested": True,
    "administration_queue_format_name": ADMIN,
    "acknowledgements_requested": Acknowledgements.ACK_NEG_ARRIVAL,
}


@pytest.mark.spec("MQQB-3.1.7.1.2-01", "MQQB-3.1.1.1.1.3-02")
@pytest.mark.parametrize("name", [FAR, "DIRECT=HTTP://far/msmq/q", "MULTICAST=234.1.1.1:8001"])
def test_a_message_leaves_an_outgoing_queue_when_its_time_to_reach_the_other_is_over(office: Office, name: str) -> None:
    queue = outgoing(office, name)
    office.deliver(office.letter(label="short", time_to_reach_queue=60), queue)
    office.deliver(office.letter(label="short life", time_to_be_received=60), queue)
    office.deliver(office.letter(label="long", time_to_reach_queue=61, time_to_be_received=1000), queue)
    office.deliver(office.letter(label="no limit", time_to_reach_queue=INFINITE), queue)
    office.deliver(office.letter(label="four days"), queue)
    office.manager.outgoing.connected(queue, "TCP:10.1.1.1")
    held = {message.label: message.lookup_identifier for message in office.contents(queue)}
    assert office.next_deadline() == office.now.monotonic + 60
    office.advance(60)
    assert held["short"] in queue.positions
    assert held["short life"] not in queue.positions
    office.advance(1)
    assert held["short"] not in queue.positions
    assert held["long"] in queue.positions
    office.advance(1)
    assert [message.label for message in office.contents(queue)] == ["no limit", "four days"]
    office.advance(400_000)
    assert [message.label for message in office.contents(queue)] == ["no limit"]
    assert office.next_deadline() is None
    assert office.contents(office.dead) == []


@pytest.mark.spec("MQQB-3.1.7.1.2-01")
def test_a_time_to_reach_the_queue_means_nothing_once_a_message_is_there(office: Office) -> None:
    office.deliver(office.letter(time_to_reach_queue=60))
    office.advance(61)
    assert len(office.contents(office.orders)) == 1


@pytest.mark.spec("MQQB-3.1.7.1.2-02", "MQQB-3.1.7.1.2-03", "MQQB-3.1.1.1.1.3-02")
@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_the_sender_hears_of_a_message_that_expired_on_its_way(
    office: Office, far: OutgoingQueue, guarantee: DeliveryGuarantee
) -> None:
    box = office.create("box")
    path = "host\\private$\\box"
    own = office.transactional(label="own", application_deadletter_queue=path, **WISH, time_to_reach_queue=60)
    letters = [
        office.letter(label="plain", delivery_guarantee=guarantee, **WISH, time_to_reach_queue=60),
        office.transactional(label="in transaction", **WISH, time_to_reach_queue=60),
        own,
        office.letter(label="no copy", time_to_reach_queue=60),
        office.transactional(label="no copy", time_to_reach_queue=60),
    ]
    for letter in letters:
        office.deliver(letter, far)
    office.expire()
    assert office.contents(far) == []
    assert [message.label for message in office.contents(office.dead)] == ["plain"]
    assert [message.label for message in office.contents(office.dead_tx)] == ["in transaction"]
    assert [message.label for message in office.contents(box)] == ["own"]
    for queue in (office.dead, office.dead_tx, box):
        assert office.classes(queue) == [TOO_LATE]
    answers = office.contents(office.admin)
    assert [answer.message_class for answer in answers] == [TOO_LATE] * 3
    assert [answer.correlation_identifier for answer in answers] == [letter.identifier for letter in letters[:3]]
    office.advance(400_000)
    office.settle()
    assert len(office.contents(office.dead)) == 1


def test_many_messages_expire_in_parts(office: Office, far: OutgoingQueue) -> None:
    like = office.letter(time_to_reach_queue=60)
    messages = [office.letter(time_to_reach_queue=60) for _ in range(EXPIRY_PART + 5)]
    for message in messages:
        packet_of(message)
    office.manager.writing.enqueue_messages(far, messages, like, None, office.now)
    office.advance(61)
    assert len(far.positions) == 5
    assert office.next_deadline() == office.now.monotonic
    late = office.letter(time_to_be_received=0, positive_journaling_requested=True)
    office.manager.take_events()
    office.enqueue(late)
    assert late.lookup_identifier not in office.orders.positions
    assert office.events(MessageArrived) == []
    office.advance(0)
    assert (len(far.positions), office.next_deadline()) == (0, None)


def test_many_messages_that_come_too_late_arrive_never(office: Office) -> None:
    like = office.letter(time_to_be_received=0)
    messages = [office.letter(time_to_be_received=0) for _ in range(2 * EXPIRY_PART)]
    for message in messages:
        packet_of(message)
    office.manager.writing.enqueue_messages(office.orders, messages, like, None, office.now)
    assert len(office.orders.positions) == 0
    assert office.events(MessagePositionAvailable) == []
