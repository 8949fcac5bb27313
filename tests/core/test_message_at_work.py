"""MS-MQDMPR 3.1.1.12: what attributes of a message mean in a queue, shown through the core."""

from dataclasses import replace

import pytest

from tests.core.engine import ME, TX, Messages, Rig
from tests.core.messages import plain
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.positions import PositionState
from waypost.core.queue_manager import Identity, QueueManager
from waypost.core.queues import ReadRequest
from waypost.core.serialization import deserialize_message_from_buffer, packet_of, serialize_message_to_buffer
from waypost.errors import EncodeError
from waypost.hresult import HResult
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.spec("MQDMPR-3.1.1.12-01")
def test_lookup_identifiers_are_unique_64_bit_numbers_in_the_order_of_the_queue(rig: Rig) -> None:
    for number in range(40):
        rig.send(str(number), priority=number * 5 % 8)
    stands = [rig.messages.get(rig.orders.number, lookup_id) for lookup_id in rig.orders.positions]
    identifiers = [message.lookup_identifier for message in stands]
    assert identifiers == sorted(set(identifiers))
    assert all(0 <= identifier < 1 << 64 for identifier in identifiers)
    handle = rig.open()
    assert [rig.receive(handle) for _ in stands] == [message.label for message in stands]


@pytest.mark.spec("MQDMPR-3.1.1.12-03")
def test_a_locked_message_can_be_peeked_at_only_if_it_allows_that(rig: Rig) -> None:
    assert Message().allow_peek_when_locked is False
    handle = rig.open()
    for allowed in (False, True):
        message = replace(rig.message("a"), allow_peek_when_locked=allowed)
        rig.enqueue(message)
        assert rig.peek(handle) == "a"
        assert rig.receive(handle, ReadRequest(0, transaction=rig.start())) == "a"
        assert rig.state(message.lookup_identifier) is PositionState.LOCKED
        assert rig.peek(handle) == ("a" if allowed else HResult.MQ_ERROR_IO_TIMEOUT)
        rig.commit()


@pytest.mark.spec("MQDMPR-3.1.1.12-05")
def test_the_arrival_time_is_when_the_message_came_into_the_list(rig: Rig) -> None:
    message = rig.message("a")
    rig.advance(30)
    rig.enqueue(message)
    captured = rig.message("b")
    rig.enqueue(captured, tx=rig.start())
    rig.advance(30)
    rig.commit()
    for each in (message, captured):
        kept = rig.messages.get(rig.orders.number, each.lookup_identifier)
        assert kept.arrival_time == int(rig.now.wall) - 30 == message.sent_time + 30


@pytest.mark.spec("MQDMPR-3.1.1.12-15")
def test_priorities_go_from_0_to_7_and_order_the_queue(rig: Rig) -> None:
    assert Message().priority == 3
    for priority in range(8):
        message = rig.message(str(priority), priority=priority)
        rig.enqueue(message)
        assert message.lookup_identifier >> 56 == 7 - priority
    assert "".join(rig.labels()) == "76543210"
    for priority in (-1, 8, 255):
        with pytest.raises(EncodeError):
            serialize_message_to_buffer(replace(plain(), priority=priority))
        with pytest.raises(EncodeError):
            rig.enqueue(rig.message("x", priority=priority))
    assert "".join(rig.labels()) == "76543210"


@pytest.mark.spec("MQDMPR-3.1.1.12-35")
def test_a_message_waits_as_long_after_sent_time_as_time_to_be_received_says(rig: Rig) -> None:
    assert Message().time_to_be_received == INFINITE == 0xFFFF_FFFF
    rig.send("no limit")
    message = rig.message("a", ttbr=100)
    rig.advance(60)
    rig.enqueue(message)
    rig.advance(39)
    assert rig.labels() == ["no limit", "a"]
    rig.advance(2)
    assert rig.deleted() == [("a", MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)]
    rig.advance(10 * 365 * 86_400)
    assert rig.labels() == ["no limit"]


@pytest.mark.spec("MQDMPR-3.1.1.12-54")
def test_the_first_and_the_last_message_of_a_transaction_to_a_queue_are_marked(rig: Rig) -> None:
    """readings MQDMPR 3.P: the set is what one transaction sends to one queue."""
    other = rig.create("other")
    rig.start()
    for label, queue in (("a", rig.orders), ("b", other), ("c", rig.orders), ("d", rig.orders)):
        message = replace(
            rig.message(label, priority=0), transaction_identifier=1, delivery_guarantee=DeliveryGuarantee.RECOVERABLE
        )
        rig.enqueue(message, queue, tx=TX)
    rig.commit()
    marks = {
        message.label: (message.first_in_transaction, message.last_in_transaction)
        for message in rig.messages.held.values()
    }
    assert marks == {"a": (True, False), "b": (True, True), "c": (False, False), "d": (False, True)}


@pytest.mark.spec("MQDMPR-3.1.1.12-24")
def test_the_source_is_who_took_the_message_first_on_every_hop() -> None:
    first = QueueManager(Identity(b"\x22" * 16, "first", "first.example.org"), Messages(), lambda: bytes(16))
    message = replace(plain(), identifier=first.message_identifier(), time_to_reach_queue=INFINITE)
    for _ in range(3):
        relay = Rig()
        relay.enqueue(deserialize_message_from_buffer(packet_of(message)))
        (lookup_id,) = relay.orders.positions
        message = relay.messages.get(relay.orders.number, lookup_id)
        assert relay.manager.identity.identifier == ME != message.source_machine_identifier
        assert message.source_machine_identifier == b"\x22" * 16
        assert UserMessage.decode(packet_of(message)).user.source_queue_manager == b"\x22" * 16
