"""TimeToReachQueue of messages between whole queue managers: MS-MQQB 3.1.1.1.1.3, 3.1.1.1.1.4 and 3.1.7.1.2."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.core.message_values import Acknowledgements
from waypost.wire.format_names import FormatName
from waypost.wire.user_message import UserMessage

P = r"DIRECT=OS:peer\private$\q"
JN: dict[str, Any] = {"negative_journaling_requested": True}
ADMIN: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(r"DIRECT=OS:a\private$\admin"),
    "acknowledgements_requested": Acknowledgements.ACK_NEG_ARRIVAL,
}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a")
    host.create("q")
    host.create("admin")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


@pytest.mark.spec("MQQB-3.1.1.1.1.3-02")
@pytest.mark.parametrize("state", ["waits to be sent", "waits for its SessionAck"])
def test_an_outgoing_message_expires_before_it_is_sent_and_before_it_is_acknowledged(
    net: Net, a: Host, peer: Peer, state: str
) -> None:  # fmt: skip
    if state == "waits to be sent":
        net.part(a, peer)
    for make in (express, letter):
        a.send(P, make("dropped", time_to_reach_queue=10))
        a.send(P, make("kept", time_to_reach_queue=10, **JN))
    assert len(peer.bodies) == (0 if state == "waits to be sent" else 4)
    net.advance(10)
    assert len(a.bodies(P)) == 4
    net.advance(1)
    assert (a.bodies(P), a.bodies(";deadletter")) == ([], ["kept", "kept"])


@pytest.mark.spec("MQQB-3.1.7.1.2-01")
def test_a_message_is_sent_up_to_the_last_second_of_its_time_and_deleted_after_it(net: Net) -> None:
    a, peer = net.add("a", long_live_time=0xFFFF_FFFF), net.add_peer()
    net.part(a, peer)
    for seconds in (9, 10, 0xFFFF_FFFF):
        a.send(P, letter(str(seconds), time_to_reach_queue=seconds))
    net.join()
    a.crash()
    net.advance(10)
    a.start()
    assert peer.bodies == ["10", "4294967295"]
    # Messages that no reader gets any more are removed with the next tick, which is due.
    assert a.next_deadline() == net.now.monotonic
    a.tick()
    assert a.bodies(P) == ["10", "4294967295"]
    a.crash()
    net.advance(1e9)
    a.start()
    a.tick()
    assert [message.label for message in a.messages(P)] == ["4294967295"]
    assert peer.bodies[2:] == ["4294967295"]


@pytest.mark.spec("MQQB-3.1.7.1.2-02")
@pytest.mark.parametrize("is_transactional", [False, True])
def test_an_expired_outgoing_message_is_told_to_its_administration_queue_by_the_sender(
    net: Net, a: Host, peer: Peer, *, is_transactional: bool
) -> None:  # fmt: skip
    net.part(a, peer)
    send = a.send_all if is_transactional else a.send
    send(P, letter("asks", time_to_reach_queue=5, **ADMIN))
    send(P, letter("does not", time_to_reach_queue=5))
    asked = a.messages(P)[0].identifier
    net.advance(10)
    (ack,) = a.messages("admin")
    assert (ack.message_class, ack.correlation_identifier) == (0x8002, asked)
    assert ack.source_machine_identifier == a.guid


@pytest.mark.spec("MQQB-3.1.7.1.2-03")
def test_an_expired_outgoing_message_goes_to_its_dead_letter_queue_if_it_asks_for_that(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    a.create("dead", transactional=True)
    net.part(a, peer)
    own = {"application_deadletter_queue": r"a\private$\dead"}
    a.send(P, letter("plain", time_to_reach_queue=5, **JN))
    a.send(P, letter("no copy", time_to_reach_queue=5))
    a.send_all(
        P,
        letter("own", time_to_reach_queue=5, **own, **JN),
        letter("system", time_to_reach_queue=5, **JN),
        letter("no copy", time_to_reach_queue=5, **own),
    )
    net.advance(10)
    assert (a.bodies(";deadletter"), a.bodies("dead"), a.bodies(";deadxact")) == (["plain"], ["own"], ["system"])
    assert a.classes("dead") == a.classes(";deadletter") == [0x8002]


@pytest.mark.spec("MQQB-3.1.1.1.1.4-01")
@pytest.mark.parametrize("make", [express, letter])
def test_a_message_that_comes_when_its_time_is_over_is_not_inserted(
    net: Net, a: Host, peer: Peer, make: object
) -> None:  # fmt: skip
    guarantee = express().delivery_guarantee if make is express else letter().delivery_guarantee

    def late(body: str, **changes: Any) -> UserMessage:
        sent_time = int(net.now.wall) - 11
        return peer.message(
            r"DIRECT=OS:a\private$\q",
            body,
            sent_time=sent_time,
            time_to_reach_queue=10,
            delivery_guarantee=guarantee,
            **changes,
        )

    peer.connect(a)
    peer.send(late("quiet"))
    assert (a.bodies("q"), a.bodies("admin")) == ([], [])
    peer.send(late("asks", **ADMIN))
    assert (a.bodies("q"), a.classes("admin")) == ([], [0x8002])
    peer.send(
        peer.message(r"DIRECT=OS:a\private$\q", "in time", sent_time=int(net.now.wall) - 10, time_to_reach_queue=10)
    )
    assert a.bodies("q") == ["in time"]
