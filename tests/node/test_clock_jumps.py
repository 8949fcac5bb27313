"""Clocks that are set back and ahead by days while messages are on their way: nothing is twice."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, letter
from waypost.clock import Now

DAY = 86_400
Q = r"DIRECT=OS:b\private$\q"
MORTAL: dict[str, Any] = {"negative_journaling_requested": True, "time_to_be_received": 2 * DAY}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    assert a.is_up
    host = net.add("b")
    host.create("q")
    return host


def set_clocks(net: Net, days: float) -> None:
    """On all walls. Everybody looks at once what has become of its timers."""
    net.now = Now(net.now.monotonic, net.now.wall + days * DAY)
    for host in net.hosts.values():
        host.tick()
    net.settle()


def send_twenty(net: Net, a: Host) -> list[str]:
    """Of which the last five are not acknowledged yet."""
    labels = [f"{number:02}" for number in range(20)]
    for label in labels[:15]:
        a.send(Q, letter(label, **MORTAL))
    net.advance(5)
    for label in labels[15:]:
        a.send(Q, letter(label, **MORTAL))
    assert a.bodies(Q) == labels[15:]
    return labels


@pytest.mark.parametrize("is_acknowledged", [True, False])
@pytest.mark.parametrize("jumps", [(-10, 40), (30,), (-10, 10, 30)])
def test_each_side_has_a_dead_letter_of_what_expires_there_and_none_twice(
    net: Net, a: Host, b: Host, jumps: tuple[int, ...], *, is_acknowledged: bool
) -> None:
    """A message that waits for its SessionAck expires at its source too (MS-MQQB 3.1.1.1.1.3), though it has arrived.

    So there are more dead-letter messages than messages, on two hosts, and on none of them is one twice.
    """
    labels = send_twenty(net, a)
    if is_acknowledged:
        net.advance(5)
    for days in jumps:
        set_clocks(net, days)
    net.advance(100)
    for _ in range(2):
        assert b.bodies(";deadletter") == labels
        assert a.bodies(";deadletter") == ([] if is_acknowledged else labels[15:])
        assert set(b.classes(";deadletter")) == {0xC002}
        assert set(a.classes(";deadletter")) <= {0x8002}
        assert (a.bodies(Q), b.bodies("q")) == ([], [])
        # Nor does a start bring anything again.
        for host in (a, b):
            host.crash_and_start()
        net.advance(100)


@pytest.mark.parametrize("days", [-10, 30])
def test_after_a_start_with_another_clock_what_comes_again_is_still_known(
    net: Net, a: Host, b: Host, days: int
) -> None:  # fmt: skip
    a.restart(long_live_time=0xFFFF_FFFF)
    labels = [str(number) for number in range(5)]
    for label in labels:
        a.send(Q, letter(label, time_to_reach_queue=0xFFFF_FFFF))
    net.part(a, b)
    assert a.bodies(Q) == labels
    b.crash()
    net.now = Now(net.now.monotonic, net.now.wall + days * DAY)
    b.start()
    net.join()
    net.advance(100)
    assert (a.bodies(Q), b.bodies("q")) == ([], labels)
    assert b.network.statistics.duplicates_discarded == 5
