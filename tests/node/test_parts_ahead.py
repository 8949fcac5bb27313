"""Purges and expiries are done in parts, and a part waits until the store has written the ones before."""

import pytest

from tests.node.rig import ReadOptions, Rig, letter
from waypost.core import queue_manager
from waypost.node import purging

PART = 3


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "PURGE_PART", PART)
    monkeypatch.setattr(queue_manager, "EXPIRY_PART", PART)


def left(rig: Rig) -> int:
    return len(rig.queue().positions)


def tick(rig: Rig) -> None:
    rig.advance(0)
    rig.turn()


def is_due(rig: Rig) -> bool:
    deadline = rig.node.next_deadline(rig.now)
    return deadline is not None and deadline <= rig.now.monotonic


def test_a_purge_does_two_parts_more_than_the_store_has_written() -> None:
    rig = Rig()
    rig.done(rig.send_many([b""] * (5 * PART)))
    rig.open()
    rig.hold_disk()
    purged = rig.purge()
    rig.turn()
    for _ in range(5):
        tick(rig)
    assert left(rig) == 3 * PART
    assert not is_due(rig), "nobody wakes the node for what has to wait for the disk"
    rig.write(1)
    assert is_due(rig)
    for _ in range(5):
        tick(rig)
    assert left(rig) == 2 * PART
    rig.release_disk()
    while not rig.is_answered(purged):
        rig.advance(0)
        rig.settle()
    assert left(rig) == 0


def test_expired_messages_are_taken_away_as_fast_as_the_store_writes() -> None:
    rig = Rig()
    for _ in range(5 * PART):
        rig.send(letter("late", time_to_be_received=10))
    rig.settle()
    rig.hold_disk()
    rig.advance(20)
    rig.turn()
    for _ in range(5):
        tick(rig)
    assert left(rig) == 3 * PART
    assert not is_due(rig)
    rig.release_disk()
    while left(rig):
        assert is_due(rig)
        rig.advance(0)
        rig.settle()


def test_other_timers_go_on_while_parts_wait() -> None:
    rig = Rig()
    rig.create("other")
    rig.done(rig.send_many([b""] * (5 * PART)))
    waits = rig.receive("other", ReadOptions(timeout_ms=5000))
    rig.open()
    rig.hold_disk()
    rig.purge()
    rig.turn()
    for _ in range(5):
        tick(rig)
    assert not rig.is_answered(waits)
    rig.advance(6)
    rig.turn()
    assert rig.is_answered(waits)
