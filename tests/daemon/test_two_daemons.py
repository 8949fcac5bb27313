"""Daemons in separate processes that send to each other: what the suite of the node shows, on real sockets."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

import waypost
from tests.crash.daemons import SHORT_TIMERS, Daemon, loopback, patience, start_all
from waypost.errors import Timeout
from waypost.wire.message_class import MessageClass

# A queue manager that is nowhere, and to which beta and gamma send by way of each other.
NOWHERE: Final = "deadbeef-0000-4000-8000-000000000001"
SECONDS: Final = 60
ADMIN: Final = "admin"


class Place:
    """Three daemons with an application each. From alpha the way to gamma is by way of beta, and back."""

    def __init__(self, daemons: list[Daemon], stack: ExitStack) -> None:
        self.alpha_daemon, self.beta_daemon, self.gamma_daemon = daemons
        self.alpha = stack.enter_context(self.alpha_daemon.connect())
        self.beta = stack.enter_context(self.beta_daemon.connect())
        self.gamma = stack.enter_context(self.gamma_daemon.connect())
        self.admin = self.alpha.create_queue(ADMIN)
        self._numbers = iter(range(1, 1000))
        self._acknowledgments: dict[str, list[MessageClass]] = defaultdict(list)

    def queue(self, **properties: Any) -> waypost.Queue:
        """A new one at beta."""
        return self.beta.create_queue(f"queue{next(self._numbers)}", **properties)

    def name(self, queue: waypost.Queue) -> str:
        return self.beta_daemon.direct(queue.info().path.rpartition("\\")[2])

    def send(self, name: str, body: str = "hello", **properties: Any) -> waypost.Message:
        """From alpha, with all acknowledgments unless other ones are named."""
        wanted = properties.pop("acknowledge", "full-receive,pos-arrival")
        if wanted:
            properties = {"admin_queue": self.alpha_daemon.direct(ADMIN), "acknowledge": wanted} | properties
        if properties.pop("transactional", False):
            with self.alpha.transaction() as transaction:
                return self.alpha.send(name, body, transaction=transaction, **properties)
        return self.alpha.send(name, body, **properties)

    def settle(self) -> None:
        """Until nothing waits at alpha: all is acknowledged."""
        with patience(SECONDS, "messages are left in outgoing queues") as turns:
            for _ in turns:
                if not any(queue.info().message_count for queue in self.alpha.outgoing_queues()):
                    break

    def acknowledgment(self, sent: waypost.Message) -> MessageClass:
        """The next one for this message. A message sent again on a slow machine may be acknowledged twice, and late."""
        while not self._acknowledgments[sent.id]:
            ack = self.admin.receive(timeout=SECONDS)
            self._acknowledgments[ack.correlation_id or ""].append(MessageClass(ack.message_class))
        return self._acknowledgments[sent.id].pop(0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("daemons")
    timers = (*SHORT_TIMERS, "transfer.send_insecure_nacks=true")
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(Daemon(folder, name, loopback(number), *timers))
            for number, name in enumerate(("alpha", "beta", "gamma"), 11)
        ]
        for daemon in daemons:
            daemon.prepare()
        alpha, beta, gamma = daemons
        for daemon, others in (
            (alpha, f"{gamma.guid}=via {beta.guid},{beta.guid}={beta.address},{NOWHERE}=via {beta.guid}"),
            (beta, f"{alpha.guid}={alpha.address},{gamma.guid}={gamma.address},{NOWHERE}=via {gamma.guid}"),
            (gamma, f"{alpha.guid}=via {beta.guid},{beta.guid}={beta.address},{NOWHERE}=via {beta.guid}"),
        ):
            daemon.settings.append(f"routing.routes={others}")
        start_all(daemons)
        yield Place(daemons, stack)
        stack.pop_all().close()
        for daemon in daemons:
            assert "unexpected error" not in daemon.log


# Delivery


def test_what_is_sent_to_a_daemon_that_is_not_there_is_delivered_when_it_starts(place: Place) -> None:
    plain, orders = place.queue(), place.queue(transactional=True)
    names = [place.name(queue) for queue in (plain, orders)]
    with place.beta_daemon.down():
        for number in range(5):
            place.send(names[0], f"plain {number}", acknowledge="")
            place.send(names[1], f"order {number}", acknowledge="", transactional=True)
        with place.alpha_daemon.down():
            pass
    assert [plain.receive(timeout=SECONDS).text for _ in range(5)] == [f"plain {number}" for number in range(5)]
    assert [orders.receive(timeout=SECONDS).text for _ in range(5)] == [f"order {number}" for number in range(5)]


def test_what_no_direct_way_leads_to_goes_through_a_third(place: Place) -> None:
    plain = place.gamma.create_queue("plain")
    orders = place.gamma.create_queue("orders", transactional=True)
    to_plain, to_orders = (queue.info().private_format_name or "" for queue in (plain, orders))
    # A direct name would open a session between the two.
    sent = place.send(to_plain, "plain", admin_queue=place.admin.info().private_format_name)
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
    assert plain.receive(timeout=SECONDS).text == "plain"
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_ACK_RECEIVE
    place.settle()
    with place.beta_daemon.down():
        for number in range(5):
            place.send(to_orders, f"order {number}", acknowledge="", transactional=True)
        with pytest.raises(Timeout):
            orders.receive(timeout=0.3)
    assert [orders.receive(timeout=SECONDS).text for _ in range(5)] == [f"order {number}" for number in range(5)]
    place.settle()


# Acknowledgments


def test_arrival_and_receipt_are_acknowledged(place: Place) -> None:
    queue = place.queue()
    sent = place.send(place.name(queue))
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
    queue.receive(timeout=SECONDS)
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_ACK_RECEIVE


@pytest.mark.parametrize(
    ("queue", "message", "expected"),
    [
        ({"quota_kb": 1}, {"body": "x" * 4000}, MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA),
        ({"authenticate": True}, {}, MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE),
        ({"privacy": "body"}, {}, MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION),
        ({}, {"transactional": True}, MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q),
        ({"transactional": True}, {}, MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG),
    ],
    ids=lambda value: value.name if isinstance(value, MessageClass) else "",
)
def test_a_refusal_is_told_with_its_reason(
    place: Place, queue: dict[str, Any], message: dict[str, Any], expected: MessageClass
) -> None:
    refusing = place.queue(**queue)
    sent = place.send(place.name(refusing), **message)
    assert place.acknowledgment(sent) is expected
    assert refusing.info().message_count == 0


def test_a_queue_that_is_not_there_is_told(place: Place) -> None:
    sent = place.send(place.beta_daemon.direct("nothing"))
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q


def test_a_message_that_goes_round_in_circles_is_ended_and_told(place: Place) -> None:
    """One of a transaction: others end when they come to the same place again, as duplicates."""
    sent = place.send(rf"PRIVATE={NOWHERE}\00000063", transactional=True)
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED


def test_a_message_that_does_not_arrive_in_time_is_told_by_its_source(place: Place) -> None:
    sent = place.send(rf"DIRECT=TCP:{loopback(99)}\private$\nobody", time_to_reach_queue=1)
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT


def test_a_message_that_is_purged_on_its_way_is_told_by_its_source(place: Place) -> None:
    name = rf"DIRECT=TCP:{loopback(98)}\private$\nobody"
    sent = place.send(name)
    [outgoing] = [queue for queue in place.alpha.outgoing_queues() if loopback(98) in queue.info().format_name]
    outgoing.purge()
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_NACK_DELETED


@pytest.mark.parametrize("is_transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize(
    "expected",
    [MessageClass.MQMSG_CLASS_NACK_Q_PURGED, MessageClass.MQMSG_CLASS_NACK_Q_DELETED],
    ids=lambda value: value.name,
)
def test_a_message_that_is_never_received_is_told_with_the_reason(
    place: Place, expected: MessageClass, *, is_transactional: bool
) -> None:
    queue = place.queue(transactional=is_transactional)
    name = place.name(queue)
    sent = place.send(name, transactional=is_transactional)
    assert place.acknowledgment(sent) is MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
    # A deleted queue acknowledges no more, and what is sent again is refused then.
    place.settle()
    if expected is MessageClass.MQMSG_CLASS_NACK_Q_PURGED:
        queue.purge()
    elif expected is MessageClass.MQMSG_CLASS_NACK_Q_DELETED:
        place.beta.delete_queue(queue.info().path)
    assert place.acknowledgment(sent) is expected


# Dead-letter messages


def dead_letter(manager: waypost.Manager, name: str, sent: waypost.Message) -> MessageClass:
    """Why this message, and no other, is in a dead-letter queue. It is empty then."""
    letter = manager.queue(name).receive(timeout=SECONDS)
    assert (letter.id, letter.text) == (sent.id, "hello")
    assert manager.queue(name).info().message_count == 0
    return MessageClass(letter.message_class)


def test_a_message_that_expires_at_its_source_is_a_dead_letter_there(place: Place) -> None:
    nobody = rf"DIRECT=TCP:{loopback(97)}\private$\nobody"
    timeout = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT
    wishes: dict[str, Any] = {"dead_letter": True, "time_to_reach_queue": 1, "acknowledge": ""}
    plain = place.send(nobody, **wishes)
    assert dead_letter(place.alpha, "system$;deadletter", plain) is timeout
    transactional = place.send(nobody, transactional=True, **wishes)
    assert dead_letter(place.alpha, "system$;deadxact", transactional) is timeout


def test_a_message_that_expires_at_its_destination_is_told_and_a_dead_letter_there_unless_it_is_transactional(
    place: Place,
) -> None:
    arrived = MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
    expired = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
    # Long enough to hear of the arrival: without that the source would end it, too.
    wishes: dict[str, Any] = {"dead_letter": True, "time_to_be_received": 20}
    plain, orders = place.name(place.queue()), place.name(place.queue(transactional=True))
    sent = place.send(plain, **wishes)
    transactional = place.send(orders, transactional=True, **wishes)
    assert [place.acknowledgment(sent), place.acknowledgment(transactional)] == [arrived, arrived]
    assert [place.acknowledgment(sent), place.acknowledgment(transactional)] == [expired, expired]
    assert dead_letter(place.beta, "system$;deadletter", sent) is expired
    assert dead_letter(place.alpha, "system$;deadxact", transactional) is expired
    assert place.beta.queue("system$;deadxact").info().message_count == 0


def test_a_transactional_message_that_is_refused_is_a_dead_letter_of_its_source(place: Place) -> None:
    sent = place.send(place.beta_daemon.direct("nothing"), transactional=True, dead_letter=True, acknowledge="")
    assert dead_letter(place.alpha, "system$;deadxact", sent) is MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q


def test_a_transactional_message_that_is_received_is_in_the_journal_of_its_source_only(place: Place) -> None:
    orders = place.queue(transactional=True)
    sent = place.send(place.name(orders), transactional=True, journal=True, dead_letter=True, acknowledge="")
    assert orders.receive(timeout=SECONDS).id == sent.id
    assert place.alpha.queue("system$;journal").receive(timeout=SECONDS).id == sent.id
    assert place.alpha.queue("system$;deadxact").info().message_count == 0
