"""Knowledge of messages that are in no queue here: refused on arrival, or handed to others."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.limits import MAX_OUTCOMES_OF_PEER
from waypost.node.explain import explain_message
from waypost.node.network import handed_over, refusals
from waypost.node.network.handed_over import Handed, Outcome, Way
from waypost.node.network.recent_records import RecentRecords
from waypost.node.network.refusals import Reason
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage

Q, T = r"DIRECT=OS:a\private$\q", r"DIRECT=OS:a\private$\t"
TX = (5, 1, 0)


@pytest.fixture
def net() -> Net:
    return Net()


def add(net: Net, name: str = "a") -> Host:
    host = net.add(name, TransferSettings())
    host.create("q", quota=1)
    host.create("t", transactional=True)
    host.create("admin")
    return host


def identifier(packet: UserMessage) -> MessageIdentifier:
    return MessageIdentifier(packet.user.source_queue_manager, packet.user.message_id)


def told(host: Host, packet: UserMessage | MessageIdentifier) -> str:
    which = packet if isinstance(packet, MessageIdentifier) else identifier(packet)
    return " ".join(explain_message(host.node, which, host.net.now).sentences)


def refused(net: Net, host: Host, name: str, body: str = "m", /, **changes: Any) -> tuple[Peer, UserMessage]:
    peer = net.add_peer()
    peer.connect(host)
    packet = peer.message(name, body, **changes)
    peer.send(packet)
    return peer, packet


@pytest.mark.parametrize(
    ("name", "changes", "reason", "sentence"),
    [
        (r"DIRECT=OS:a\private$\none", {}, Reason.NO_QUEUE, "this computer has no queue with this name"),
        (Q, {"body": bytes(3000)}, Reason.QUEUE_QUOTA, "the queue is full"),
        (T, {}, Reason.TRANSACTIONAL, "a nontransactional message arrived at a transactional queue"),
        (Q, {"tx": TX}, Reason.TRANSACTIONAL, "a transactional message arrived at a nontransactional queue"),
        (
            Q,
            {"time_to_reach_queue": 0, "sent_time": 1000},
            Reason.EXPIRED,
            "the message expired before it reached its queue",
        ),
        (r"DIRECT=OS:a\system$;deadletter", {}, Reason.ACCESS, "the sender does not have the right"),
    ],
)
def test_a_refused_message_is_told_counted_and_explained(
    net: Net, name: str, changes: dict[str, Any], reason: Reason, sentence: str
) -> None:
    a = add(net)
    peer, packet = refused(net, a, name, **changes)
    said = told(a, packet)
    assert f"Message {identifier(packet)} arrived from {peer.address} at " in said
    assert f"and was refused: {sentence}" in said
    assert "The message is not sent again" in said
    assert a.network.refusals.counts == {reason: 1}
    (notice,) = [each for each in a.notices if each.event in ("message rejected", "message discarded")]
    assert notice.facts["message"] == str(identifier(packet))
    assert str(notice.facts["queue"]).lower() == name.lower()
    facts = explain_message(a.node, identifier(packet), net.now).facts
    assert facts["found"] is False
    assert facts["refusal"]["reason"] == reason.value  # type: ignore[index]


def test_a_message_that_there_is_no_room_for_comes_again_and_is_forgotten_when_it_is_taken(net: Net) -> None:
    a = net.add("a", TransferSettings(), quota=4)
    a.create("q")
    peer, packet = refused(net, a, Q, body=bytes(5000))
    said = told(a, packet)
    assert "the messages do not fit into the quota" in said
    assert "The sender keeps the message and sends it again" in said
    assert a.network.refusals.counts == {Reason.MACHINE_QUOTA: 1}
    peer.connect(a)
    peer.send(packet)
    assert "2 times so far" in told(a, packet)
    a.node.manager.positions.quota = 1000
    peer.connect(a)
    peer.send(packet)
    assert len(a.bodies("q")) == 1
    assert "was refused" not in told(a, packet)


def test_a_sequence_that_is_not_believed_is_the_reason(net: Net) -> None:
    a = add(net)
    _, packet = refused(net, a, T, tx=(5, 7, 6))
    assert "was refused: in the middle" in told(a, packet)
    assert a.network.refusals.counts == {Reason.SEQUENCE: 1}


def test_messages_of_a_run_that_were_refused_before_are_forgotten_too(net: Net) -> None:
    a = add(net)
    peer = net.add_peer()
    peer.connect(a)
    late = r"DIRECT=OS:a\private$\late"
    packets = [peer.message(late, str(number)) for number in range(3)]
    peer.send(*packets)
    assert "was refused" in told(a, packets[1])
    a.create("late")
    peer.send(*packets)
    assert a.bodies("late") == ["0", "1", "2"]
    assert len(a.network.refusals) == 0


def test_one_address_does_not_make_others_forgotten(net: Net) -> None:
    with patch.object(refusals, "MAX_REFUSALS_OF_PEER", 3):
        a = add(net)
    _, packet = refused(net, a, r"DIRECT=OS:a\private$\none")
    other = net.add_peer("other")
    other.connect(a)
    flood = [other.message(r"DIRECT=OS:a\private$\none") for _ in range(10)]
    other.send(*flood)
    assert "was refused" in told(a, packet)
    assert ["was refused" in told(a, each) for each in flood] == [False] * 7 + [True] * 3
    assert a.network.refusals.counts == {Reason.NO_QUEUE: 11}


# At the sender.


def last(host: Host) -> MessageIdentifier:
    return MessageIdentifier(host.guid, host.node.manager.last_ordinal)


@pytest.mark.parametrize("message", [letter("m"), express("m")], ids=["recoverable", "express"])
def test_a_message_that_was_handed_over_says_to_whom_and_how_to_hear_more(net: Net, message: object) -> None:
    a, b = add(net), add(net, "b")
    a.send(r"DIRECT=OS:b\private$\q", message)  # type: ignore[arg-type]
    net.advance(30)
    assert b.bodies("q") == ["m"]
    said = told(a, last(a))
    assert f"was sent to {b.address} at " in said
    result = "the destination reports acceptance or refusal only if the message requests this."
    assert rf"for DIRECT=OS:b\PRIVATE$\q; {result}" in said
    assert "--ack full-reach-queue" in said
    facts = explain_message(a.node, last(a), net.now).facts
    assert [each["address"] for each in facts["handed_over"]] == [b.address]  # type: ignore[attr-defined]
    # The other side of it.
    assert "has been waiting in the queue b\\private$\\q" in told(b, last(a))


def test_a_refusal_comes_back_to_the_administration_queue_and_is_explained(net: Net) -> None:
    a, b = add(net), add(net, "b")
    admin = FormatName.parse(r"DIRECT=OS:a\private$\admin")
    asks = letter("m", administration_queue_format_name=admin, acknowledgements_requested=0x0F)
    a.send(r"DIRECT=OS:b\private$\t", asks)
    sent = last(a)
    net.advance(30)
    assert a.classes("admin") == [MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG]
    said = told(a, sent)
    assert f"an acknowledgment of message {sent} arrived from {b.address}: a nontransactional message arrived" in said
    assert "--ack full-reach-queue" not in said


def test_a_final_acknowledgment_says_why_a_transactional_message_was_refused(net: Net) -> None:
    a, b = add(net), add(net, "b")
    tx = a.begin()
    a.send(r"DIRECT=OS:b\private$\q", letter("m"), tx)
    sent = last(a)
    a.commit(tx)
    net.advance(60)
    said = told(a, sent)
    assert "a final acknowledgment of message" in said
    assert "a transactional message arrived at a nontransactional queue" in said
    assert "was refused: a transactional message arrived" in told(b, sent)


def test_a_transactional_message_that_was_taken_was_acknowledged_in_its_order(net: Net) -> None:
    a, b = add(net), add(net, "b")
    tx = a.begin()
    a.send(r"DIRECT=OS:b\private$\t", letter("m"), tx)
    sent = last(a)
    a.commit(tx)
    net.advance(60)
    assert b.bodies("t") == ["m"]
    assert "the destination acknowledged the message" in told(a, sent)


def test_what_is_not_known_any_more_is_said_in_words(net: Net) -> None:
    a, _ = add(net), add(net, "b")
    with patch.object(handed_over, "MAX_HANDED_OVER", 2):
        identifiers = []
        for _ in range(4):
            a.send(r"DIRECT=OS:b\private$\q", letter("m"))
            identifiers.append(last(a))
            net.advance(2)
    assert ["was sent to" in told(a, each) for each in identifiers] == [False, False, True, True]
    assert "The message is not among the messages sent to other hosts since" in told(a, identifiers[0])


def test_a_stranger_that_claims_an_outcome_is_named(net: Net) -> None:
    a, _ = add(net), add(net, "b")
    a.send(r"DIRECT=OS:b\private$\q", letter("m"))
    sent = last(a)
    net.advance(30)
    peer = net.add_peer()
    peer.connect(a)
    forged = peer.message(r"DIRECT=OS:a\private$\admin")
    forged.properties.message_class = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
    forged.properties.correlation_id = sent.encode()
    peer.send(forged)
    assert f"The message was not sent to {peer.address}" in told(a, sent)


# The memories.


def test_what_is_handed_over_is_bounded(net: Net) -> None:
    handed = Handed(net.now)
    message = letter("m")
    with patch.object(handed_over, "MAX_HANDED_OVER_ENTRIES", 5):
        for number in range(50):
            message.identifier = MessageIdentifier(b"\x01" * 16, number + 1)
            handed.add(Way("q", f"10.0.0.{number}", is_transactional=False), [message], net.now)
    found = [bool(handed.find(MessageIdentifier(b"\x01" * 16, number + 1))) for number in range(50)]
    assert found == [False] * 45 + [True] * 5


def test_messages_of_one_second_and_way_are_one_entry(net: Net) -> None:
    handed = Handed(net.now)
    ways = [Way("q", "10.0.0.1", is_transactional=False), Way("r", "10.0.0.1", is_transactional=False)]
    message = letter("m", identifier=MessageIdentifier(b"\x01" * 16, 1))
    for _ in range(10):
        for way in ways:
            handed.add(way, [message], net.now)
    assert [entry.way for entry in handed.find(message.identifier)] == ways


def test_records_are_bounded_for_each_peer_and_in_all() -> None:
    recent: RecentRecords[Outcome] = RecentRecords(10, 4)
    for number in range(MAX_OUTCOMES_OF_PEER):
        recent.put(number.to_bytes(20, "big"), Outcome("flood", 0, number, is_final_ack=False))
    assert len(recent) == 4
    for number in range(20):
        recent.put(bytes([number]), Outcome(f"peer{number}", 0, number, is_final_ack=False))
    assert len(recent) == 10
    assert recent.get(bytes([19])) is not None
    recent.discard(bytes([19]))
    recent.discard(bytes([19]))
    assert (len(recent), recent.get(bytes([19]))) == (9, None)
