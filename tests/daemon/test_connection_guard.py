"""Limits on connections."""

import pytest

from waypost.buckets import Bucket, Rate
from waypost.daemon import connection_guard as module
from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.seats import Seats


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = Bucket(Rate(per_second=2, burst=3), 100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(101.0) for _ in range(3)] == [True, True, False]
    assert not bucket.is_full(101.5)
    assert bucket.is_full(200.0)


def test_connections_are_counted_in_all_and_by_peer() -> None:
    guard = ConnectionGuard(max_connections=3, max_per_peer=2, refusals_per_minute=60)
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) == "this peer has too many connections"
    assert guard.admit("10.0.0.2", 0) is None
    assert guard.admit("10.0.0.3", 0) == "too many connections"
    guard.left("10.0.0.1")
    assert guard.admit("10.0.0.3", 0) is None


def test_a_network_of_ipv6_is_one_peer() -> None:
    guard = ConnectionGuard(max_connections=9, max_per_peer=1, refusals_per_minute=60)
    assert guard.admit("2001:db8::1", 0) is None
    assert guard.admit("2001:db8::ffff:2", 0) == "this peer has too many connections"
    assert guard.admit("2001:db8:0:1::1", 0) is None
    assert guard.admit("fe80::1%eth0", 0) is None


def test_a_peer_that_was_refused_too_often_has_to_wait_and_others_have_not() -> None:
    guard = ConnectionGuard(max_connections=9, max_per_peer=9, refusals_per_minute=6)
    for _ in range(6):
        assert guard.admit("10.0.0.1", 0) is None
        guard.left("10.0.0.1")
        guard.refused("10.0.0.1", 0)
    assert guard.admit("10.0.0.1", 0) == "this peer caused too many errors"
    assert guard.admit("10.0.0.2", 0) is None
    assert guard.admit("10.0.0.1", 10.0) is None


def test_the_table_of_refused_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WATCHED_PEERS", 3)
    guard = ConnectionGuard(max_connections=9, max_per_peer=9, refusals_per_minute=1)
    for number in range(4):
        guard.refused(f"10.0.0.{number}", 0)
    assert [guard.admit(f"10.0.0.{number}", 0) is None for number in range(4)] == [True, False, False, False]


def test_a_peer_whose_refusals_are_long_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WATCHED_PEERS", 2)
    guard = ConnectionGuard(max_connections=9, max_per_peer=9, refusals_per_minute=1)
    guard.refused("10.0.0.2", 0)
    guard.refused("10.0.0.1", 60)
    guard.refused("10.0.0.3", 60)
    assert guard.admit("10.0.0.1", 60) == "this peer caused too many errors"


def test_a_quarter_of_the_connections_is_for_peers_with_a_history() -> None:
    guard = ConnectionGuard(max_connections=8, max_per_peer=9, refusals_per_minute=60)
    guard.remember("10.0.0.1")
    for number in range(6):
        assert guard.admit(f"10.0.1.{number}", 0) is None
    assert guard.admit("10.0.1.9", 0) == "too many connections"
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) is None
    assert guard.admit("10.0.0.1", 0) == "too many connections"


def test_the_history_is_bounded_and_begins_with_the_peer_met_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PEERS_WITH_HISTORY", 2)
    guard = ConnectionGuard(max_connections=8, max_per_peer=9, refusals_per_minute=60)
    for address in ("10.0.0.1", "2001:db8::1", "10.0.0.1", "10.0.0.3"):
        guard.remember(address)
    assert guard.has_history("10.0.0.1")
    assert guard.has_history("10.0.0.3")
    assert not guard.has_history("2001:db8::2")


class Guest:
    def __init__(self, idle_since: float | None) -> None:
        self.idle_since = idle_since
        self.has_gone = False

    def give_way(self) -> None:
        self.has_gone = True


def test_the_stranger_that_was_idle_longest_gives_way() -> None:
    seats = Seats(ConnectionGuard(max_connections=3, max_per_peer=9, refusals_per_minute=60))
    seats.guard.remember("10.0.0.1")
    guests = [Guest(10.0), Guest(30.0), Guest(20.0)]
    for number, guest in enumerate(guests, 1):
        assert seats.take(guest, f"10.0.0.{number}", 30.0) is None
    # The first has a history, and the second was of use just now.
    assert seats.take(Guest(30.0), "10.0.0.9", 30.0) is None
    assert [guest.has_gone for guest in guests] == [False, False, True]
    assert len(seats) == 3
    seats.leave(guests[2])
    assert len(seats) == 3


def test_connections_with_something_under_way_give_way_to_nobody() -> None:
    seats = Seats(ConnectionGuard(max_connections=2, max_per_peer=9, refusals_per_minute=60))
    guests = [Guest(None), Guest(99.0)]
    for guest in guests:
        assert seats.take(guest, "10.0.0.1", 100.0) is None
    assert seats.take(Guest(100.0), "10.0.0.2", 100.0) == "too many connections"
    seats.leave(guests[0])
    assert seats.take(Guest(100.0), "10.0.0.2", 100.0) is None


def test_a_crowded_peer_makes_room_for_itself_and_for_nobody_else() -> None:
    seats = Seats(ConnectionGuard(max_connections=9, max_per_peer=1, refusals_per_minute=60))
    mine, other = Guest(0.0), Guest(0.0)
    assert seats.take(mine, "2001:db8::1", 0.0) is None
    assert seats.take(other, "10.0.0.2", 0.0) is None
    assert seats.take(Guest(50.0), "2001:db8::2", 50.0) is None
    assert (mine.has_gone, other.has_gone) == (True, False)
