"""Answers to a sender, over the node and its store: acknowledgments, copies for several queues, identifiers."""

from collections.abc import Callable

import pytest

from tests.node.rig import SEND, TX, Rig, direct, letter
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements
from waypost.core.queues import AccessType
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

ADMIN = "DIRECT=OS:host\\private$\\admin"
HERE = "DIRECT=OS:host\\private$\\orders"
FAR = "DIRECT=OS:far\\private$\\orders"

ARRIVAL, RECEIPT = Acknowledgements.ACK_POS_ARRIVAL, Acknowledgements.ACK_POS_RECEIVE
NO_ARRIVAL, NO_RECEIPT = Acknowledgements.ACK_NEG_ARRIVAL, Acknowledgements.ACK_NEG_RECEIVE


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("admin")
    return rig


def receive(rig: Rig, message: Message) -> None:
    rig.done(rig.send(message))
    rig.done(rig.receive())


def purge(rig: Rig, message: Message) -> None:
    rig.done(rig.send(message))
    rig.done(rig.purge())


def purge_on_its_way(rig: Rig, message: Message) -> None:
    rig.done(rig.send(message, FAR))
    rig.done(rig.purge(FAR, AccessType.RECEIVE_ADMIN))


FATES: tuple[tuple[Callable[[Rig, Message], None], dict[Acknowledgements, MessageClass]], ...] = (
    (
        receive,
        {ARRIVAL: MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, RECEIPT: MessageClass.MQMSG_CLASS_ACK_RECEIVE},
    ),
    (
        purge,
        {ARRIVAL: MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, NO_RECEIPT: MessageClass.MQMSG_CLASS_NACK_Q_PURGED},
    ),
    (purge_on_its_way, {NO_ARRIVAL: MessageClass.MQMSG_CLASS_NACK_DELETED}),
)


@pytest.mark.parametrize(("fate", "told"), FATES)
@pytest.mark.parametrize("asked", [ARRIVAL, RECEIPT, NO_ARRIVAL, NO_RECEIPT])
@pytest.mark.spec("MQMQ-2.2.19.3-02", "MQMQ-2.2.19.3-03", "MQMQ-2.2.19.3-04", "MQMQ-2.2.19.3-05")
def test_each_bit_brings_its_acknowledgment_and_no_other(
    rig: Rig,
    asked: Acknowledgements,
    fate: Callable[[Rig, Message], None],
    told: dict[Acknowledgements, MessageClass],
) -> None:
    message = letter("order", administration_queue_format_name=direct(ADMIN), acknowledgements_requested=asked)
    fate(rig, message)
    answers = rig.contents(rig.queue("admin"))
    assert [answer.message_class for answer in answers] == ([told[asked]] if asked in told else [])
    assert all(answer.correlation_identifier == message.identifier for answer in answers)
    # It is as durable as the message that asked for it.
    rig.crash()
    assert rig.contents(rig.queue("admin")) == answers


@pytest.mark.spec("MQMQ-2.2.20.1-02")
def test_a_message_to_several_queues_is_a_packet_for_each(rig: Rig) -> None:
    rig.done(rig.send("order", f"{HERE},{FAR}"))
    rig.crash()
    outgoing = rig.node.manager.collection.outgoing[FormatName.parse(FAR)]
    for queue, destination in ((rig.queue(), HERE), (outgoing, FAR)):
        (copy,) = rig.contents(queue)
        assert copy.destination_queue_format_name == direct(destination)
        assert set(copy.destination_multi_queue_format_name) == {direct(HERE), direct(FAR)}
        packet = UserMessage.decode(copy.packet)
        assert packet.multi_queue is not None


def test_a_send_to_several_queues_is_one_batch(rig: Rig) -> None:
    name = f"{HERE},{FAR}"
    rig.open(name, SEND)
    rig.hold_disk()
    request = rig.send("order", name)
    assert not rig.is_answered(request)
    assert rig.pending == 1
    rig.crash()
    assert rig.labels() == rig.labels(rig.node.manager.collection.outgoing[FormatName.parse(FAR)]) == []


def test_what_is_sent_in_a_transaction_is_recoverable_and_carries_its_number(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    numbers = []
    for _ in range(2):
        rig.done(rig.begin())
        sent = [rig.message(rig.send(Message(label=label), "ledger", TX)) for label in "abc"]
        rig.done(rig.commit())
        assert len({message.transaction_identifier for message in sent}) == 1
        numbers.append(sent[0].transaction_identifier)
    assert len(set(numbers)) == 2
    rig.crash()
    kept = rig.contents(rig.queue("ledger"))
    assert [message.transaction_identifier for message in kept] == [numbers[0]] * 3 + [numbers[1]] * 3
    assert [message.first_in_transaction for message in kept] == [True, False, False] * 2
    assert [message.last_in_transaction for message in kept] == [False, False, True] * 2
