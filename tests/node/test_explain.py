"""`waypost explain`: what is said follows from the state of the queue manager."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.node.rig import IN_TX, TX, Rig, direct, letter
from waypost.core.management import record_connection
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, OutgoingQueueState
from waypost.errors import StoreFull
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.node.explain import ExplanationDraft, explain_message, explain_queue
from waypost.node.explain_words import at, span
from waypost.wire.format_names import Suffix
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.management import ConnectionStatus

FAR = "DIRECT=OS:far\\private$\\orders"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def of_message(rig: Rig, message: Message) -> str:
    return said(explain_message(rig.node, message.identifier, rig.now))


def of_queue(rig: Rig, name: str = "orders") -> str:
    return said(explain_queue(rig.node, direct(name), rig.now))


def said(explanation: ExplanationDraft) -> str:
    return "\n".join(explanation.sentences)


def outgoing(rig: Rig) -> OutgoingQueue:
    return rig.node.manager.collection.outgoing[direct(FAR)]


def test_a_message_in_a_queue_that_nobody_reads(rig: Rig) -> None:
    rig.message(rig.send("before"))
    message = rig.message(rig.send("a"))
    rig.advance(300)
    told = of_message(rig, message)
    assert "has been waiting in the queue host\\private$\\orders since 1970-01-12T13:46:40Z (5 minutes)" in told
    assert "1 message in this queue is ahead of this message." in told
    assert "No application has opened the queue for receiving" in told


def test_the_facts_of_a_message_are_values(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    facts = explain_message(rig.node, message.identifier, rig.now).facts
    assert facts["found"] is True
    places = facts["places"]
    assert isinstance(places, list)
    (place,) = places
    assert place["queue"] == "host\\private$\\orders"
    assert place["lookup_id"] == str(message.lookup_identifier)
    assert (place["position"], place["readers"]) == ("available", 0)


def test_a_message_that_a_transaction_has_received(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    rig.begin()
    rig.done(rig.receive(options=IN_TX))
    assert f"The transaction {guid_text(TX)} has received the message: no other reader gets it" in of_message(
        rig, message
    )
    assert "1 of them locked by transactions" in of_queue(rig)


def test_a_message_that_a_transaction_has_sent(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    rig.begin()
    message = rig.message(rig.send("a", "ledger", TX))
    assert f"The transaction {guid_text(TX)} has sent the message: no reader sees it" in of_message(rig, message)


def test_a_message_of_a_two_phase_read(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    rig.done(rig.begin_receive())
    assert "A reader has locked the message, and has neither received nor returned it yet." in of_message(rig, message)


def test_a_message_that_a_purge_waits_for(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    rig.begin()
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.purge())
    assert (
        "The queue was purged while the message was locked. The message is deleted when the lock ends."
        in of_message(rig, message)
    )


def test_a_message_with_aborted_readers_and_little_time(rig: Rig) -> None:
    message = rig.message(rig.send(letter("a", time_to_be_received=600)))
    rig.begin()
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.abort())
    told = of_message(rig, message)
    assert "1 transaction received the message and aborted." in told
    assert "The message has 10 minutes left to be received" in told


def test_a_message_from_the_future(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    rig.now = replace(rig.now, wall=rig.now.wall - 3600)
    assert ", which is in the future according to the clock of this computer" in of_message(rig, message)


def test_a_dead_letter_tells_what_its_class_means(rig: Rig) -> None:
    message = rig.message(rig.send(letter("a", time_to_be_received=1, negative_journaling_requested=True)))
    rig.advance(5)
    rig.settle()
    told = of_message(rig, message)
    assert "is a dead-letter message in the queue host\\system$;deadletter" in told
    assert ", for DIRECT=OS:host\\PRIVATE$\\orders." in told
    assert "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT (0xc002): the message expired in the queue" in told


def test_a_message_in_a_journal_was_received(rig: Rig) -> None:
    rig.modify("orders", journaling=True)
    message = rig.message(rig.send("a"))
    rig.done(rig.receive())
    assert "was received from host\\private$\\orders. Its copy is in the journal of" in of_message(rig, message)


def test_a_message_in_the_journal_of_its_sender_was_delivered(rig: Rig) -> None:
    message = rig.message(rig.send(letter("a", positive_journaling_requested=True)))
    rig.done(rig.receive())
    assert rig.labels(rig.system(Suffix.JOURNAL)) == ["a"]
    assert "was delivered to DIRECT=OS:host\\PRIVATE$\\orders" in of_message(rig, message)


def test_a_message_that_was_here_and_one_that_never_was(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    rig.done(rig.receive())
    explanation = explain_message(rig.node, message.identifier, rig.now)
    assert explanation.facts["found"] is False
    assert "was sent from this computer, but is no longer here" in said(explanation)
    unborn = MessageIdentifier(message.identifier.queue_manager_guid, 1_000_000)
    assert "has not sent a message with that number yet" in said(explain_message(rig.node, unborn, rig.now))
    foreign = MessageIdentifier(b"\x09" * 16, 1)
    assert "If the message has not arrived yet" in said(explain_message(rig.node, foreign, rig.now))


def test_a_message_on_its_way_to_another_computer(rig: Rig) -> None:
    message = rig.message(rig.send(letter("a", time_to_reach_queue=7200), FAR))
    told = of_message(rig, message)
    assert "has been waiting in the outgoing queue for DIRECT=OS:far\\PRIVATE$\\orders" in told
    assert "The message has 2 hours left to reach its queue" in told
    assert "The queue is inactive" in told
    assert "The queue manager has not tried to connect since it started" in told


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (OutgoingQueueState.CONNECTED, "is connected to 10.0.0.2"),
        (OutgoingQueueState.WAITING, "waits for a connection to 10.0.0.2"),
        (OutgoingQueueState.NEED_VALIDATION, "address of the destination is not known"),
        (OutgoingQueueState.ON_HOLD, "`waypost queue resume`"),
        (OutgoingQueueState.LOCKED, "HardenedSecurity"),
        (OutgoingQueueState.DISCONNECTED, "is disconnected"),
    ],
)
def test_the_state_of_an_outgoing_queue(rig: Rig, state: OutgoingQueueState, sentence: str) -> None:
    rig.done(rig.send("a", FAR))
    outgoing(rig).state = state
    outgoing(rig).next_hops = ("10.0.0.2",)
    explanation = explain_queue(rig.node, direct(FAR), rig.now)
    assert sentence in said(explanation)
    assert explanation.facts["state"] == state.name.lower()


def test_the_last_connections_and_what_failed(rig: Rig) -> None:
    rig.done(rig.send("a", FAR))
    queue = outgoing(rig)
    for second in range(4):
        status = ConnectionStatus.CONNECT_SOCKET_FAILURE
        record_connection(queue, status, HResult.MQ_ERROR, ["10.0.0.2"], rig.now.wall + second)
    record_connection(queue, ConnectionStatus.DNS_FAILURE, HResult.MQ_ERROR, [], rig.now.wall + 9)
    told = of_queue(rig, FAR)
    assert "no program accepted the TCP connection (10.0.0.2), 4 times since 1970-01-12T13:46:40Z" in told
    assert "At 1970-01-12T13:46:49Z, the name of the host is unknown." in told
    facts = explain_queue(rig.node, direct(FAR), rig.now).facts
    connections = facts["connections"]
    assert isinstance(connections, list)
    assert len(connections) == 5


def test_a_link_tells_its_error_and_its_next_attempt(rig: Rig) -> None:
    rig.done(rig.send("a", FAR))
    queue = outgoing(rig)
    queue.state = OutgoingQueueState.WAITING
    queue.link = SimpleNamespace(last_error="far has our own identifier", next_retry=rig.now.monotonic + 5)
    explanation = explain_queue(rig.node, direct(FAR), rig.now)
    assert "The last attempt failed: far has our own identifier." in explanation.sentences
    assert "The next attempt is in 5 seconds." in explanation.sentences
    assert explanation.facts["retry_in_s"] == 5


def test_a_message_that_has_arrived_and_waits_for_its_final_acknowledgment(rig: Rig) -> None:
    message = rig.message(rig.send("a", FAR))
    kept = replace(message, lookup_identifier=0)
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.writing.enqueue_message(rig.node.manager.awaiting_final_ack, kept, None, rig.now)
    told = of_message(rig, message)
    assert (
        "has arrived at DIRECT=OS:far\\PRIVATE$\\orders.\nAs far as this queue manager knows, no application has "
        "received the message yet." in told
    )
    assert "This copy is kept until the final acknowledgment arrives" in told


def test_what_is_not_acknowledged(rig: Rig) -> None:
    rig.done(rig.send("a", FAR))
    info = outgoing(rig).outgoing_transfer_info
    info.no_ack_count, info.no_read_count, info.resend_count = 3, 2, 1
    info.resend_time = int(rig.now.wall) + 30
    told = of_queue(rig, FAR)
    assert "3 transactional messages were sent, but not acknowledged yet." in told
    assert "These messages are sent again in 30 seconds. They were sent 1 time so far." in told
    assert "2 transactional messages arrived, but no application has received them yet." in told


def test_quotas_are_told_when_they_are_nearly_used_up(rig: Rig) -> None:
    rig.modify("orders", quota=1)
    assert "quota" not in of_queue(rig)
    rig.done(rig.send(letter("a", body=bytes(800))))
    assert "of its quota of 1 KB" in of_queue(rig)
    rig.node.manager.positions.quota = 1
    assert "All queues together use" in of_queue(rig)


def test_a_queue_with_readers(rig: Rig) -> None:
    rig.receive(options=replace(IN_TX, transaction=None, timeout_ms=5000))
    rig.settle()
    told = of_queue(rig)
    assert "No application has" not in told
    assert "1 read waits for a message in the queue." in told


def test_a_queue_that_is_not_there(rig: Rig) -> None:
    assert "The queue DIRECT=OS:host\\PRIVATE$\\nothing does not exist" in of_queue(rig, "nothing")
    assert "this computer has no outgoing queue" in of_queue(rig, FAR)


def test_a_store_that_cannot_write_is_told(rig: Rig) -> None:
    rig.node.kernel.trouble = StoreFull("the disk is full")
    assert "The store cannot write now: the disk is full." in of_queue(rig)


def test_spans_and_times_are_for_people() -> None:
    assert [span(seconds) for seconds in (-3, 0.5, 1, 119, 120, 7300, 200_000)] == [
        *("0 seconds", "less than a second", "1 second", "119 seconds", "2 minutes", "2 hours", "2 days"),
    ]
    assert at(0) == "1970-01-01T00:00:00Z"
    assert at(1e18) == "1000000000000000000 seconds after 1970"
