"""quotas.source_share and the memory that counts against the quota of the machine, over the network."""

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.core import position_events
from waypost.core.message import Message
from waypost.errors import InsufficientResources
from waypost.http.doctor import check_sources
from waypost.transfer.session import SessionState

Q = "DIRECT=OS:a\\private$\\q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a", quota=4, source_share=0.5)
    host.create("q")
    return host


def fill(peer: Peer, a: Host) -> int:
    """Send messages until the session is closed. Returns the number of accepted ones."""
    peer.connect(a)
    taken = len(a.queue("q").positions)
    for number in range(100):
        (session,) = [each for each in a.network.sessions if each.remote_qm_address == peer.address]
        peer.send(peer.message(Q, str(number)))
        if session.state is SessionState.CLOSED:
            assert session.error is not None
            return len(a.queue("q").positions) - taken
    raise AssertionError("everything was taken")


def send_until_full(a: Host, message: Message) -> int:
    """Number of accepted messages."""
    for count in range(1000):
        try:
            a.send(Q, message)
        except InsufficientResources:
            return count
    raise AssertionError("everything was taken")


def test_one_address_takes_its_share_of_the_quota_and_the_rest_is_for_others(net: Net, a: Host) -> None:
    greedy, other = net.add_peer("greedy"), net.add_peer("other")
    taken = fill(greedy, a)
    assert taken > 0
    assert a.node.manager.total_bytes <= 2048
    (reason,) = [notice.facts["reason"] for notice in a.notices if notice.event == "session closed"]
    assert reason == f"messages from {greedy.address} use the full share of one address (quotas.source_share)"
    # Another address, and a program here, find room.
    other.connect(a)
    other.send(other.message(Q, "other"))
    a.send(Q, "mine")
    assert a.bodies("q")[-2:] == ["other", "mine"]
    # The operator is told.
    check = check_sources(a.node.manager.positions)
    assert not check.ok
    assert greedy.address in check.message
    # It is the greedy one that has to wait, until its messages are received.
    for _ in range(taken):
        a.receive("q")
    greedy.connect(a)
    greedy.send(greedy.message(Q, "again"))
    assert a.bodies("q") == ["other", "mine", "again"]
    assert check_sources(a.node.manager.positions).ok
    assert a.node.manager.positions.sources.totals().keys() == {other.address, greedy.address}


def test_programs_here_have_the_whole_quota(net: Net, a: Host) -> None:
    assert send_until_full(a, letter("x")) > 0
    assert a.node.manager.total_bytes > 2048
    assert a.node.manager.positions.sources.totals() == {}


def test_after_a_start_what_was_there_is_nobodys_and_counts_for_the_machine(net: Net, a: Host) -> None:
    greedy = net.add_peer("greedy")
    fill(greedy, a)
    total = a.node.manager.total_bytes
    a.crash_and_start()
    assert a.node.manager.total_bytes == total
    assert a.node.manager.positions.sources.totals() == {}


def test_the_memory_of_positions_counts_against_the_quota_of_the_machine(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are in memory only take more than their packets."""
    monkeypatch.setattr(position_events, "FREE_OVERHEAD_BYTES", 0)
    a = net.add("a", quota=8)
    a.create("q")
    counts = []
    for message in (express("x"), letter("x")):
        count = send_until_full(a, message)
        counts.append(count)
        positions = a.node.manager.positions
        assert positions.count == len(a.queue("q").positions) == count
        a.purge("q")
        assert (positions.count, positions.overhead) == (0, 0)
    in_memory, on_disk = counts
    assert in_memory < on_disk // 3


def test_a_small_quota_means_the_bytes_of_messages(net: Net) -> None:
    a = net.add("a", quota=8)
    a.create("q")
    for _ in range(10):
        a.send(Q, express("x"))
    assert a.node.manager.positions.overhead == 0


def test_positions_are_counted_again_after_a_start(net: Net, a: Host) -> None:
    for number in range(5):
        a.send(Q, str(number))
    a.crash_and_start()
    assert a.node.manager.positions.count == 5
