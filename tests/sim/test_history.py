"""Promises to clients, without the model: each broken promise is reported."""

import pytest

from waypost.api.messages import Received
from waypost.api.operations import DeleteQueue, MoveMessage, PurgeQueue, Receive
from waypost.core.message import Message
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft, send_of
from waypost.sim.local.history import History
from waypost.sim.plans import end_of
from waypost.sim.violation import Violation

TX = b"\x71" * 16


class Client:
    """One who works on the queue q1."""

    def __init__(self) -> None:
        self.history = History()

    def did(self, ask: Ask, value: object = None, status: HResult = HResult.MQ_OK) -> None:
        self.history.answered(ask, Result(0, status, value))

    def sent(self, uid: int, transaction: bytes | None = None) -> None:
        self.did(send(uid, transaction))

    def received(self, uid: int, transaction: bytes | None = None) -> None:
        self.did(receive(transaction), Received([message(uid)]))


def message(uid: int) -> Message:
    return Message(packet=Draft(uid).mark)


def send(uid: int, transaction: bytes | None = None) -> Ask:
    return Ask(send_of("q1", (Draft(uid),), transaction))


def receive(transaction: bytes | None = None) -> Ask:
    if transaction is None:
        return Ask(Receive(name="q1"))
    return Ask(Receive(name="q1", transaction=guid_text(transaction)))


def commit() -> Ask:
    return Ask(end_of(TX, commits=True))


def abort() -> Ask:
    return Ask(end_of(TX, commits=False))


def test_a_message_that_was_received_is_not_missed() -> None:
    client = Client()
    client.sent(1)
    client.received(1)
    client.history.drained()


def test_a_message_that_never_comes_is_missed() -> None:
    client = Client()
    client.sent(1)
    with pytest.raises(Violation, match=r"the recoverable messages \[1\] were acknowledged, but never received"):
        client.history.drained()


def test_a_send_that_failed_promises_nothing() -> None:
    client = Client()
    client.did(send(1), status=HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
    client.history.drained()


def test_a_message_that_was_refused_never_comes_out() -> None:
    client = Client()
    client.did(send(1), status=HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
    with pytest.raises(Violation, match="received the message <1>, although the request to send it was refused"):
        client.received(1)


def test_a_message_is_received_once() -> None:
    client = Client()
    client.received(1)
    with pytest.raises(Violation, match="<1> was received twice"):
        client.received(1)


def test_what_an_aborted_transaction_sent_is_never_received() -> None:
    client = Client()
    client.sent(1, TX)
    client.did(abort())
    with pytest.raises(Violation, match="<1> was received, but its send was not committed"):
        client.received(1)


def test_a_crash_aborts_what_nobody_asked_to_commit() -> None:
    client = Client()
    client.sent(1, TX)
    client.history.crashed([])
    with pytest.raises(Violation, match="was received, but its send was not committed"):
        client.received(1)


def test_a_commit_under_way_in_a_crash_can_have_either_outcome() -> None:
    client = Client()
    client.sent(1)
    client.received(1, TX)
    client.history.crashed([commit()])
    client.history.drained()
    client.received(1)


def test_a_receive_in_a_transaction_counts_with_its_commit() -> None:
    client = Client()
    client.received(1, TX)
    client.did(abort())
    client.received(1, TX)
    client.did(commit())
    with pytest.raises(Violation, match="was received twice"):
        client.received(1)


def test_a_receive_under_way_in_a_crash_may_have_taken_one_message() -> None:
    client = Client()
    client.sent(1)
    client.history.crashed([receive()])
    client.history.drained()
    client.sent(2)
    with pytest.raises(Violation, match="crashes interrupted only 1 receives"):
        client.history.drained()


@pytest.mark.parametrize("ask", [Ask(PurgeQueue(name="q1")), Ask(DeleteQueue(name="q1"))])
def test_what_was_in_a_queue_that_somebody_cleared_is_not_missed(ask: Ask) -> None:
    client = Client()
    client.sent(1)
    client.did(ask)
    client.history.drained()


def test_what_was_moved_to_a_queue_that_somebody_cleared_is_not_missed() -> None:
    client = Client()
    client.sent(1)
    client.did(Ask(MoveMessage(name="q1", lookup_id="7", to="q2;late")))
    client.did(Ask(DeleteQueue(name="q2")))
    client.history.drained()


def test_a_message_that_a_remote_reader_has_ended_never_comes_again() -> None:
    client = Client()
    client.sent(1)
    client.history.ending(1)
    client.history.ended(1, None)
    with pytest.raises(Violation, match="<1> was received twice"):
        client.received(1)


def test_whether_a_remote_reader_was_heard_may_be_unknown() -> None:
    client = Client()
    client.sent(1)
    client.history.ending(1)
    client.history.drained()
    client.received(1)


def test_what_the_node_did_not_let_a_remote_reader_end_is_missed() -> None:
    client = Client()
    client.sent(1)
    client.history.ending(1)
    client.history.not_ended(1)
    with pytest.raises(Violation, match=r"the recoverable messages \[1\] were acknowledged, but never received"):
        client.history.drained()


def test_what_a_remote_reader_receives_in_a_transaction_is_received_with_its_commit() -> None:
    client = Client()
    client.sent(1)
    client.history.ending(1)
    client.history.ended(1, TX)
    with pytest.raises(Violation, match="were acknowledged, but never received"):
        client.history.drained()
    client.did(commit())
    client.history.drained()


def test_what_remote_readers_purge_or_move_may_be_gone() -> None:
    client = Client()
    client.sent(1)
    client.history.moves("q1", "q1;late")
    client.history.clears("q1;late")
    client.history.drained()
