"""Hardened mode (MS-MQDMPR 3.1.1.1): nothing comes or goes, and what waits goes when the mode has ended."""

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from waypost.core.queues import OutgoingQueueState

HTTP = "DIRECT=HTTP://peer/msmq/q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a")
    host.create("q")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def name_at(peer: Peer, queue: str = "q") -> str:
    return rf"DIRECT=TCP:{peer.address}\private$\{queue}"


@pytest.mark.spec("MQDMPR-3.1.1.3-05", "MQDMPR-3.1.3-15", "MQDMPR-3.1.3-16", "MQDMPR-3.1.7.1.5-17")
def test_outgoing_queues_are_locked_while_the_mode_is_on_unless_they_are_for_http(
    net: Net, a: Host, peer: Peer
) -> None:
    net.part(a, peer)
    a.send(name_at(peer), "before")
    a.restart(hardened_security=True)
    net.join()
    assert a.outgoing(name_at(peer)).state is OutgoingQueueState.LOCKED
    a.send(name_at(peer, "new"), "during")
    assert a.outgoing(name_at(peer, "new")).state is OutgoingQueueState.LOCKED
    assert a.open(HTTP).state is not OutgoingQueueState.LOCKED
    net.advance(600)
    assert peer.received == []
    a.restart(hardened_security=False)
    assert a.outgoing(name_at(peer)).state is not OutgoingQueueState.LOCKED
    net.advance(60)
    assert sorted(peer.bodies) == ["before", "during"]


@pytest.mark.spec("MQDMPR-3.1.1.1-21")
def test_the_mode_is_off_at_first_and_outlasts_a_start_that_does_not_mention_it(net: Net, a: Host, peer: Peer) -> None:
    a.send(name_at(peer), "off")
    peer.acknowledge()
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\q", "off"))
    assert (peer.bodies, a.bodies("q")) == (["off"], ["off"])
    a.restart(hardened_security=True)
    for is_crash in (False, True):
        a.restart(hardened_security=None)
        if is_crash:
            a.crash_and_start()
        a.send(name_at(peer), letter("on"))
        peer.connect(a)
        assert a.network.open_sessions == []
        net.advance(60)
        assert (peer.bodies, a.bodies("q")) == (["off"], ["off"])
    a.restart(hardened_security=False)
    net.advance(60)
    assert peer.bodies == ["off", "on", "on"]
