"""Peers that send more than the window of this side: MS-MQQB 3.1.7.1, where each side tests its own window."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, express
from waypost.node.effects import Commit, HoldReading, Write
from waypost.node.turns import Work
from waypost.transfer.session import Session, SessionState
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import SessionAck
from waypost.wire.user_message import UserMessage

WINDOW = TransferSettings(window_size=4)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a", WINDOW)


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    a.create("q")
    peer = net.add_peer()
    peer.connect(a)
    return peer


def messages(peer: Peer, a: Host, count: int) -> list[UserMessage]:
    return [peer.message(f"DIRECT=OS:{a.name}\\private$\\q", str(number)) for number in range(count)]


def test_a_flood_is_taken_window_by_window_and_nothing_of_it_is_lost(net: Net, a: Host, peer: Peer) -> None:
    a.hold_disk()
    peer.send(*messages(peer, a, 23))
    assert len(a.queue("q").positions) == 5
    assert len(a.network.sessions[0].inlet.packets) == 18
    a.release_disk()
    assert a.bodies("q") == [str(number) for number in range(23)]
    (session,) = a.network.sessions
    assert session.state is SessionState.OPEN
    assert len(session.inlet.packets) == 0


def test_nothing_more_is_read_before_the_acknowledgment_was_handed_over(net: Net, a: Host, peer: Peer) -> None:
    a.hold_disk()
    (connection,) = a.connections
    packets = b"".join(packet.encode() for packet in messages(peer, a, 12))
    assert a.network.data_received(connection, packets, net.now) == Work(5, 7)
    effects = a.node.kernel.take_effects()
    assert HoldReading(connection, is_held=True) in effects
    assert a.network.data_received(connection, b"", net.now) == Work(0, 7)
    effects += a.node.kernel.take_effects()
    for effect in effects:
        if isinstance(effect, Commit):
            a.node.persisted(effect.token, net.now)
    written = [effect for effect in a.node.kernel.take_effects() if isinstance(effect, Write | HoldReading)]
    assert [type(effect) for effect in written] == [Write, HoldReading]
    assert written[-1] == HoldReading(connection, is_held=False)
    assert a.network.data_received(connection, b"", net.now) == Work(5, 2)


def test_not_more_packets_are_looked_at_in_one_turn_than_its_budget(net: Net, a: Host, peer: Peer) -> None:
    (connection,) = a.connections
    packets = b"".join(packet.encode() for packet in messages(peer, a, 4))
    assert a.network.data_received(connection, packets, net.now, 3) == Work(3, 1)
    assert a.network.data_received(connection, b"", net.now, 3) == Work(1, 0)
    net.settle()
    assert a.bodies("q") == ["0", "1", "2", "3"]


def test_both_sides_beyond_the_window_of_the_other_come_through(monkeypatch: pytest.MonkeyPatch, net: Net) -> None:
    """Neither reads nor sends until its acknowledgment is out, and that never waits for the other side."""
    may_send: Any = Session.__dict__["can_send"].fget

    def tests_a_window_of_its_own(session: Session) -> bool:
        theirs, session.received_window_size = session.received_window_size, 40
        ours, session.window_size = session.window_size, 40
        try:
            return bool(may_send(session))
        finally:
            session.received_window_size, session.window_size = theirs, ours

    monkeypatch.setattr(Session, "can_send", property(tests_a_window_of_its_own))
    one, other = net.add("a", WINDOW), net.add("b", WINDOW)
    held: set[str] = set()
    for host in (one, other):
        host.create("q")

        def hold(connection: int, *, is_held: bool, host: Host = host, go_on: Any = host.hold_reading) -> None:
            held.add(host.name)
            go_on(connection, is_held=is_held)

        monkeypatch.setattr(host, "hold_reading", hold)
        other_name = "b" if host is one else "a"
        host.hold(f"DIRECT=OS:{other_name}\\private$\\q")
    # Messages of one that are on their way to the disk when the other sends as many.
    for host in (one, other):
        host.hold_disk()
    for host, there in ((one, other), (other, one)):
        for number in range(60):
            host.send(f"DIRECT=OS:{there.name}\\private$\\q", express(str(number)) if number % 3 else str(number))
    one.release_disk()
    other.release_disk()
    assert held == {"a", "b"}
    for host in (one, other):
        assert sorted(host.bodies("q"), key=int) == [str(number) for number in range(60)]
        assert all(session.state is SessionState.OPEN for session in host.network.sessions)
        assert not any(session.inlet.is_held for session in host.network.sessions)
    net.advance(60)
    assert [notice for host in (one, other) for notice in host.notices if notice.event == "session closed"] == []


def test_a_session_acknowledgment_goes_before_further_messages(net: Net, a: Host, peer: Peer) -> None:
    other = f"DIRECT=TCP:{peer.address}\\private$\\there"
    a.hold(other)
    a.send(other, express("first"))
    a.hold_disk()
    peer.send(*messages(peer, a, 9))
    before = len(net.wire)
    a.send(other, express("mine"))
    assert net.wire[before:] == []
    a.release_disk()
    kinds = [type(packet) for source, _, packet in net.wire[before:] if source == a.name]
    assert kinds.index(SessionAck) < kinds.index(UserMessage)


def test_our_own_ack_wait_timer_stands_still_while_the_shell_does_not_read(net: Net, a: Host, peer: Peer) -> None:
    (connection,) = a.connections
    (session,) = a.network.sessions
    a.network.reading_paused(connection, net.now)
    assert session.inlet.is_unread
    net.advance(1000)
    assert session.state is SessionState.OPEN
    a.network.reading_resumed(connection, net.now)
    assert not session.inlet.is_unread
