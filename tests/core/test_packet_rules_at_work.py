"""Rules of MS-MQMQ about the fields of a packet and the properties of a queue, done by the core."""

from dataclasses import replace

import pytest

from tests.core.engine import TX, Rig
from tests.wire.test_property_rules import accepts, default
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import Queue
from waypost.core.serialization import serialize_message_to_buffer
from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import Journal
from waypost.wire.propid import ObjectKind, find_property
from waypost.wire.user_message import UserMessage
from waypost.wire.variant_types import VarType


@pytest.fixture
def rig() -> Rig:
    return Rig()


def journal_of(queue: Queue) -> Queue:
    assert queue.journal is not None
    return queue.journal


@pytest.mark.spec("MQMQ-2.3.1.4-01")
def test_a_journal_gets_a_copy_of_what_is_removed_when_the_property_is_1(rig: Rig) -> None:
    assert [value for value in range(256) if accepts(ObjectKind.QUEUE, 104, value)] == [0, 1]
    assert default(ObjectKind.QUEUE, 104) == 0
    assert not rig.orders.attributes.journaling
    handle = rig.open()
    for value, label in ((Journal.MQ_JOURNAL_NONE, "without"), (Journal.MQ_JOURNAL, "with")):
        attributes = replace(rig.orders.attributes, journaling=value is Journal.MQ_JOURNAL)
        rig.manager.modify_queue(rig.orders, attributes, rig.now)
        rig.send(label)
        assert rig.receive(handle) == label
    assert rig.labels(journal_of(rig.orders)) == ["with"]


@pytest.mark.spec("MQMQ-2.3.1.9-01")
def test_a_queue_tells_when_it_was_made_and_when_it_was_changed(rig: Rig) -> None:
    for propid in (109, 110):
        assert find_property(ObjectKind.QUEUE, propid).vt == VarType.VT_I4
    rig.advance(100)
    queue = rig.create("late")
    assert (queue.create_time, queue.modify_time) == (1_000_100, 1_000_100)
    rig.advance(7)
    rig.manager.modify_queue(queue, replace(queue.attributes, label="changed"), rig.now)
    assert (queue.create_time, queue.modify_time) == (1_000_100, 1_000_107)


@pytest.mark.spec("MQMQ-2.2.19.1-05")
def test_a_packet_of_higher_priority_is_nearer_the_front(rig: Rig) -> None:
    assert BaseHeader().priority == 3
    for priority in (0, 3, 7, 5, 1, 6, 2, 4, 7):
        message = rig.message(f"p{priority}", priority=priority)
        assert UserMessage.decode(serialize_message_to_buffer(message)).base.priority == priority
        rig.enqueue(message)
    assert rig.labels() == ["p7", "p7", "p6", "p5", "p4", "p3", "p2", "p1", "p0"]


@pytest.mark.spec("MQMQ-2.2.20.5-05")
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_first_and_the_last_packet_of_a_transaction_are_marked_and_no_other(rig: Rig, count: int) -> None:
    rig.start()
    for number in range(count):
        message = replace(
            rig.message(str(number), priority=0),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            transaction_identifier=5,
        )
        rig.enqueue(message, tx=TX)
    rig.commit()
    flags = []
    for lookup_id in rig.orders.positions:
        packet = UserMessage.decode(serialize_message_to_buffer(rig.messages.get(rig.orders.number, lookup_id)))
        assert packet.transaction is not None
        flags.append((packet.transaction.is_first, packet.transaction.is_last))
    assert flags == [(number == 0, number == count - 1) for number in range(count)]


@pytest.mark.spec("MQMQ-2.2.19.2-05")
def test_a_message_that_was_not_received_in_its_time_is_removed(rig: Rig) -> None:
    rig.send("never", ttbr=INFINITE)
    rig.advance(50)
    late = rig.message("taken 20 seconds ago", ttbr=30)
    late.sent_time -= 20
    rig.enqueue(late)
    rig.advance(9)
    assert rig.labels() == ["never", "taken 20 seconds ago"]
    rig.manager.take_events()
    rig.advance(1)
    assert rig.deleted() == [("taken 20 seconds ago", MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)]
    rig.advance(10**9)
    assert rig.labels() == ["never"]
