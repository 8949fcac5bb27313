"""The order in which a message is looked at (MS-MQQB 3.1.5.8, readings MQQB 7.2), and the OrderAck that follows."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer
from waypost.core.message_values import Acknowledgements
from waypost.node.directory import DirectoryMode
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import SessionAck
from waypost.wire.security_descriptor import Acl, SecurityDescriptor
from waypost.wire.transactional_acks import FinalAck, OrderAck

Q = r"DIRECT=OS:a\private$\q"
T = r"DIRECT=OS:a\private$\t"
CLOSED = SecurityDescriptor(dacl=Acl()).encode()
ALL: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": Acknowledgements.ACK_FULL_REACH_QUEUE,
}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a", TransferSettings(send_insecure_nacks=True), directory=DirectoryMode.EMBEDDED)
    host.create("q")
    host.create("t", transactional=True)
    host.create("admin")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(a)
    return peer


def late(net: Net) -> dict[str, int]:
    """The time of the message is over when it comes."""
    return {"sent_time": int(net.now.wall) - 11, "time_to_reach_queue": 10}


def told(peer: Peer) -> list[int]:
    return [ack.body.tx_sequence_number for ack in peer.of(OrderAck)]


def classes(peer: Peer) -> list[int]:
    return [ack.message_class for ack in peer.of(FinalAck)]


@pytest.mark.spec("MQQB-3.1.5.8-02")
def test_a_duplicate_is_not_looked_at_further(net: Net, a: Host, peer: Peer) -> None:
    reports = a.publish("reports")
    traced: dict[str, Any] = {"tracing_requested": True, "tracing_queue_identifier": reports.identifier}
    messages = [peer.message(Q, "m", **ALL, **traced), peer.message(T, "m", tx=(5, 1, 0), **ALL, **traced)]
    for message in messages:
        peer.send(message)
    assert (a.classes("admin"), len(a.messages(reports))) == ([0x0002, 0x0002], 2)
    # Neither would be taken now, if somebody looked at its queue or at who sends it.
    a.delete("q")
    a.queue("t").attributes.authentication = True
    for message in messages:
        peer.send(message)
    net.advance(1)
    assert (a.classes("admin"), len(a.messages(reports)), classes(peer)) == ([0x0002, 0x0002], 2, [])


@pytest.mark.spec("MQQB-3.1.5.8-02")
def test_what_the_queue_is_counts_before_who_may_write_to_it(net: Net, a: Host, peer: Peer) -> None:
    for name, is_transactional in (("plain", False), ("xact", True)):
        a.create(name, security=CLOSED, transactional=is_transactional)
    peer.send(peer.message(r"DIRECT=OS:a\private$\xact", "m", **ALL))
    peer.send(peer.message(r"DIRECT=OS:a\private$\plain", "m", tx=(5, 1, 0), **ALL))
    peer.send(peer.message(r"DIRECT=OS:a\private$\plain", "m", **ALL))
    assert a.classes("admin") == [0x800A, 0x8009, 0x8004]


@pytest.mark.spec("MQQB-3.1.5.8-02")
def test_who_may_write_counts_before_the_place_in_the_sequence(net: Net, a: Host, peer: Peer) -> None:
    a.create("xact", security=CLOSED, transactional=True)
    name = r"DIRECT=OS:a\private$\xact"
    # Neither out of order nor too late: that is not looked at.
    peer.send(peer.message(name, "m", tx=(5, 2, 1), **late(net)), peer.message(name, "m", tx=(5, 1, 0)))
    net.advance(1)
    assert (classes(peer), told(peer), a.sources) == ([0x8004, 0x8004], [], [])
    a.queue("xact").attributes.security = a.queue("t").attributes.security
    peer.send(peer.message(name, "m", tx=(5, 1, 0)))
    assert a.bodies("xact") == ["m"]


@pytest.mark.spec("MQQB-3.1.5.8-02", "MQQB-3.1.1.1.1.8-01")
@pytest.mark.parametrize("reason", ["no room", "too late"])
def test_the_place_in_the_sequence_counts_before_the_insertion(net: Net, a: Host, peer: Peer, reason: str) -> None:
    """readings MQQB 7.2: a message that is not inserted has its place all the same, and its OrderAck."""
    a.create("small", transactional=True, quota=1)
    name = r"DIRECT=OS:a\private$\small"
    bad = late(net) if reason == "too late" else {"body": bytes(2000)}
    expected = 0x8002 if reason == "too late" else 0x8003
    # Out of order it is not even tried.
    peer.send(peer.message(name, "no", tx=(5, 2, 1), **bad))
    assert (classes(peer), a.sources) == ([], [])
    peer.send(peer.message(name, "no", tx=(5, 1, 0), **bad))
    net.advance(1)
    assert (a.bodies("small"), classes(peer), told(peer)) == ([], [expected], [1])
    peer.send(peer.message(name, "next", tx=(5, 2, 1)))
    net.advance(1)
    assert (a.bodies("small"), classes(peer), told(peer)) == (["next"], [expected], [1, 2])


@pytest.mark.spec("MQQB-3.1.5.8-02")
def test_a_message_is_inserted_then_reported_then_acknowledged(net: Net, a: Host, peer: Peer) -> None:
    a.create("small", quota=1)
    reports = a.publish("reports")
    admin = FormatName.parse(r"DIRECT=OS:a\reports")
    for name, size in ((Q, 1), (r"DIRECT=OS:a\private$\small", 2000)):
        peer.send(
            peer.message(
                name,
                "m",
                tracing_requested=True,
                tracing_queue_identifier=reports.identifier,
                administration_queue_format_name=admin,
                acknowledgements_requested=Acknowledgements.ACK_FULL_REACH_QUEUE,
                body=bytes(size),
            )
        )
    # The one that was not inserted has no report.
    assert [message.message_class for message in a.messages(reports)] == [0x0001, 0x0002, 0x8003]


@pytest.mark.spec("MQQB-3.1.1.1.1.8-01")
def test_a_message_of_a_transaction_is_durable_before_any_ack_of_it(net: Net, a: Host, peer: Peer) -> None:
    a.hold_disk()
    peer.send(peer.message(T, "m", tx=(5, 1, 0)))
    net.advance(15)
    assert told(peer) == []
    assert {ack.session.recoverable_msg_ack_flags for ack in peer.of(SessionAck)} <= {0}
    a.release_disk()
    net.advance(15)
    assert told(peer) == [1]
    assert sum(ack.session.recoverable_msg_ack_flags for ack in peer.of(SessionAck)) == 1
    a.crash_and_start()
    assert a.bodies("t") == ["m"]


@pytest.mark.spec("MQQB-3.1.1.1.1.8-01")
def test_no_order_ack_follows_what_has_no_queue(net: Net, a: Host, peer: Peer) -> None:
    peer.send(peer.message(r"DIRECT=OS:a\private$\nowhere", "m", tx=(5, 1, 0)))
    peer.send(peer.message(Q, "m", tx=(5, 1, 0)))
    net.advance(15)
    assert (told(peer), classes(peer)) == ([], [0x8000, 0x8009])


@pytest.mark.spec("MQQB-3.1.6.9-01")
@pytest.mark.parametrize("is_closed", [False, True])
def test_when_the_timer_expires_the_last_accepted_message_is_acknowledged(
    net: Net, a: Host, peer: Peer, *, is_closed: bool
) -> None:  # fmt: skip
    """readings MQQB 7.3: also if the session is closed by then."""
    for number in (1, 2, 4):
        peer.send(peer.message(T, str(number), tx=(5, number, number - 1)))
    if is_closed:
        peer.hang_up()
    net.advance(0.4)
    assert told(peer) == []
    net.advance(0.1)
    (ack,) = peer.of(OrderAck)
    assert (ack.body.tx_sequence_id, ack.body.tx_sequence_number, ack.body.tx_previous_sequence_number) == (5, 2, 1)
    assert a.network.statistics.order_acks_sent == 1


@pytest.mark.spec("MQQB-3.1.6.9-01")
def test_the_longest_delay_counts_from_the_last_order_ack(net: Net, a: Host, peer: Peer) -> None:
    times = []
    for number in range(1, 80):
        peer.send(peer.message(T, "m", tx=(5, number, number - 1)))
        before = len(told(peer))
        net.advance(0.4)
        times += [0.4 * number] * (len(told(peer)) - before)
    # Traffic that never rests puts it off for ten seconds; without a new LastOrderAckSendTime it would follow at once.
    assert times == pytest.approx([10.4, 20.8, 31.2], abs=0.5)
