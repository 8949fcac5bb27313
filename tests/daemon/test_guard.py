"""Who may connect."""

import pytest

from waypost.buckets import Bucket, Rate
from waypost.daemon import guard as module
from waypost.daemon.guard import Guard


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = Bucket(Rate(per_second=2, burst=3), 100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(101.0) for _ in range(3)] == [True, True, False]
    assert not bucket.is_full(101.5)
    assert bucket.is_full(200.0)


def test_connections_are_counted_in_all_and_by_peer() -> None:
    guard = Guard(max_connections=3, max_per_peer=2, refusals_per_minute=60)
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) == "this peer has too many connections"
    assert guard.admit("10.0.0.2", 0) is None
    assert guard.admit("10.0.0.3", 0) == "there are too many connections"
    guard.left("10.0.0.1")
    assert guard.admit("10.0.0.3", 0) is None


def test_a_network_of_ipv6_is_one_peer() -> None:
    guard = Guard(max_connections=9, max_per_peer=1, refusals_per_minute=60)
    assert guard.admit("2001:db8::1", 0) is None
    assert guard.admit("2001:db8::ffff:2", 0) == "this peer has too many connections"
    assert guard.admit("2001:db8:0:1::1", 0) is None
    assert guard.admit("fe80::1%eth0", 0) is None


def test_a_peer_that_was_refused_too_often_has_to_wait_and_others_have_not() -> None:
    guard = Guard(max_connections=9, max_per_peer=9, refusals_per_minute=6)
    for _ in range(6):
        assert guard.admit("10.0.0.1", 0) is None
        guard.left("10.0.0.1")
        guard.refused("10.0.0.1", 0)
    assert guard.admit("10.0.0.1", 0) == "this peer was refused too often"
    assert guard.admit("10.0.0.2", 0) is None
    assert guard.admit("10.0.0.1", 10.0) is None


def test_the_table_of_refused_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WATCHED_PEERS", 3)
    guard = Guard(max_connections=9, max_per_peer=9, refusals_per_minute=1)
    for number in range(4):
        guard.refused(f"10.0.0.{number}", 0)
    assert [guard.admit(f"10.0.0.{number}", 0) is None for number in range(4)] == [True, False, False, False]


def test_a_peer_whose_refusals_are_long_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WATCHED_PEERS", 2)
    guard = Guard(max_connections=9, max_per_peer=9, refusals_per_minute=1)
    guard.refused("10.0.0.2", 0)
    guard.refused("10.0.0.1", 60)
    guard.refused("10.0.0.3", 60)
    assert guard.admit("10.0.0.1", 60) == "this peer was refused too often"
