"""Violations that the ledger over several hosts finds."""

import pytest

from waypost.api.properties import MessageProperties
from waypost.core.message import Message
from waypost.sim.client import Ask, Result
from waypost.sim.marks import Marks
from waypost.sim.net.arguments import Kind, SentMessage
from waypost.sim.net.facts import OUTGOING, Facts, Put
from waypost.sim.net.ledger import Ledger
from waypost.sim.plans import Plan
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.records import SequenceRecord
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass

PLAN = Plan("n", host="b")
SURE = Plan("t", host="b", transactional=True)
GUID = bytes(range(16))
ANY = MessageProperties()


def make_ledger(history: int = 10) -> Ledger:
    return Ledger(("a", "b", "c"), Marks(3), history=history, is_quota_limited=False)


def new_message(
    ledger: Ledger, uid: int, kind: Kind = Kind.RECOVERABLE, properties: MessageProperties = ANY
) -> SentMessage:
    made = SentMessage(
        uid,
        properties,
        path=("a", "b"),
        plan=SURE if kind is Kind.TRANSACTIONAL else PLAN,
        name="DIRECT=OS:b\\PRIVATE$\\n",
        kind=kind,
        lives=(1, 1, 1),
        order=(uid, 0),
    )
    ledger.messages[uid] = made
    return made


def message(sent: SentMessage) -> Message:
    packet = b"\0" * 100 + sent.body
    return Message(body=sent.body, identifier=MessageIdentifier(GUID, sent.uid), packet=packet)


def put(ledger: Ledger, host: str, role: str, sent: SentMessage, at: int = 1, counts: tuple[int, int] = (0, 1)) -> None:
    """One batch that writes the message, durable at once."""
    facts = Facts(puts=[Put((len(role), at), role, message(sent), counts)])
    ledger.records[host].pending.append(facts)
    ledger.durable(host, 1)


def remove(ledger: Ledger, host: str, role: str, at: int = 1) -> None:
    place = len(role), at
    ledger.records[host].pending.append(Facts(gone=[(place, (place[0], place[1] + 1))]))
    ledger.durable(host, 1)


def test_a_recoverable_message_that_left_and_is_nowhere_is_a_violation() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1)
    put(ledger, "a", OUTGOING, sent)
    with pytest.raises(Violation, match="but is not on another host"):
        remove(ledger, "a", OUTGOING)


def test_a_recoverable_message_leaves_when_the_next_host_has_it() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1)
    put(ledger, "a", OUTGOING, sent)
    put(ledger, "b", "n", sent)
    remove(ledger, "a", OUTGOING)
    assert sent.reached == 1


def test_a_message_that_may_expire_may_be_gone() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1, properties=MessageProperties(time_to_reach_queue=1))
    put(ledger, "a", OUTGOING, sent)
    remove(ledger, "a", OUTGOING)
    assert not sent.reached


def test_a_transactional_message_comes_once() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1, Kind.TRANSACTIONAL)
    put(ledger, "b", "t", sent)
    with pytest.raises(Violation, match="arrived twice"):
        put(ledger, "b", "t", sent, at=2)


def test_transactional_messages_come_in_the_order_of_their_commits() -> None:
    ledger = make_ledger()
    first, second = new_message(ledger, 1, Kind.TRANSACTIONAL), new_message(ledger, 2, Kind.TRANSACTIONAL)
    put(ledger, "b", "t", second)
    with pytest.raises(Violation, match="was committed before another message, but arrived after that message"):
        put(ledger, "b", "t", first, at=2)


def test_a_duplicate_is_excused_only_by_as_many_messages_as_the_host_remembers() -> None:
    ledger = make_ledger(history=10)
    one, other = new_message(ledger, 1), new_message(ledger, 2)
    put(ledger, "b", "n", one, counts=(0, 1))
    put(ledger, "b", "n", one, at=2, counts=(8, 10))
    put(ledger, "b", "n", other, at=3, counts=(10, 11))
    with pytest.raises(Violation, match="arrived twice, although only 9 messages arrived at"):
        put(ledger, "b", "n", other, at=4, counts=(18, 19))


def test_what_a_crash_took_was_never_there() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1)
    ledger.records["a"].pending.append(Facts(puts=[Put((1, 1), OUTGOING, message(sent), (0, 0))]))
    ledger.crashed("a", ())
    assert ledger.places_of("a") == {}
    with pytest.raises(Violation, match="but the message is not durable"):
        ledger.answered("a", Ask(sent.sending()), Result(1))


def test_a_sequence_never_goes_back() -> None:
    ledger = make_ledger()
    key = keys.incoming_sequence_key(7, GUID)
    for number in (3, 4):
        ledger.records["b"].pending.append(Facts(sequences=[(key, SequenceRecord(1 << 32, number))]))
    ledger.durable("b", 2)
    ledger.records["b"].pending.append(Facts(sequences=[(key, SequenceRecord(1 << 32, 3))]))
    with pytest.raises(Violation, match="goes backward"):
        ledger.durable("b", 1)


def test_a_negative_acknowledgment_needs_a_reason() -> None:
    ledger = make_ledger()
    sent = new_message(ledger, 1)
    put(ledger, "b", "n", sent)
    ack = Message(
        identifier=MessageIdentifier(GUID, 77),
        correlation_identifier=MessageIdentifier(GUID, 1),
        message_class=MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA,
        packet=b"ack",
    )
    ledger.records["a"].pending.append(Facts(puts=[Put((3, 3), "admin", ack, (0, 0))]))
    with pytest.raises(Violation, match=r"MQMSG_CLASS_NACK_Q_EXCEED_QUOTA arrived for .*, but was not expected"):
        ledger.durable("a", 1)
