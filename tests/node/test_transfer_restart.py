"""Queue managers that die at any moment while messages are under way: MS-MQQB 3.1.1.3.2."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, letter
from waypost.transfer.settings import TransferSettings

Q = r"DIRECT=OS:b\private$\q"
T = r"DIRECT=OS:b\private$\t"
JOURNALED: dict[str, Any] = {"positive_journaling_requested": True}


def hosts(net: Net) -> tuple[Host, Host]:
    """`a` has messages for `b`, and nothing connects them yet. They go one by one, each in a separate batch."""
    one = TransferSettings(window_size=1)
    a, b = net.add("a", one), net.add("b", one)
    b.create("q")
    b.create("t", transactional=True)
    net.part(a, b)
    for number in range(3):
        a.send(Q, f"q{number}")
        a.send_all(T, f"t{number}", letter(f"j{number}", **JOURNALED))
    return a, b


def live_again(net: Net, host: Host) -> None:
    """A while after it was to die."""
    net.advance(100)
    if not host.is_up:
        host.start()
    host.batches_to_live = None
    net.advance(100)


@pytest.mark.spec("MQQB-3.1.1.3.2-01")
@pytest.mark.parametrize("victim", ["a", "b"])
@pytest.mark.parametrize("batches", range(10))
def test_whoever_dies_and_whenever_everything_arrives_once_and_in_order(victim: str, batches: int) -> None:
    net = Net()
    a, b = hosts(net)
    dying = a if victim == "a" else b
    dying.batches_to_live = batches
    net.join()
    live_again(net, dying)
    assert b.bodies("q") == ["q0", "q1", "q2"]
    assert b.bodies("t") == ["t0", "j0", "t1", "j1", "t2", "j2"]
    assert (a.bodies(Q), a.bodies(T)) == ([], [])
    assert a.bodies("awaiting_final_ack$") == ["j0", "j1", "j2"]


@pytest.mark.spec("MQQB-3.1.1.3.2-01")
@pytest.mark.parametrize("batches", range(5))
def test_a_sender_that_dies_hears_of_every_receipt_once(batches: int) -> None:
    net = Net()
    a, b = hosts(net)
    net.join()
    net.advance(100)
    a.batches_to_live = batches
    for _ in range(6):
        b.receive("t")
    live_again(net, a)
    assert (a.bodies("awaiting_final_ack$"), a.bodies(";journal")) == ([], ["j0", "j1", "j2"])


def test_a_receipt_is_told_though_the_receiver_died_before_it() -> None:
    net = Net()
    a, b = hosts(net)
    net.join()
    net.advance(100)
    b.crash_and_start()
    for _ in range(6):
        b.receive("t")
    net.advance(100)
    assert a.bodies(";journal") == ["j0", "j1", "j2"]
