"""Limits on connections: how many in all, how many from one peer, and how often a peer may be refused.

A peer is an IPv4 address or a /64 network of IPv6, from which one host can choose its address. A peer has a history if
this daemon has connected to it, or if one of its connections was in use for a while. A quarter of the connections is
reserved for such peers.
"""

from collections import Counter
from socket import socket
from typing import Final

from waypost.buckets import Bucket, Rate
from waypost.limits import MAX_PEERS_WITH_HISTORY, MAX_WATCHED_PEERS
from waypost.peers import peer_of

# Reasons to refuse a connection that an idle connection could make room for.
CROWDED: Final = "this peer has too many connections"
FULL: Final = "too many connections"

# One in so many connections is reserved for peers with a history.
_RESERVED: Final = 4


class ConnectionGuard:
    """Counts of connections and refusals. Times are of the monotonic clock.

    The table of refused peers is bounded: it forgets the peer refused first.
    """

    __slots__ = ("_buckets", "_connections", "_history", "_max_connections", "_max_per_peer", "_rate", "_total")

    def __init__(self, max_connections: int, max_per_peer: int, refusals_per_minute: int) -> None:
        self._max_connections: Final = max_connections
        self._max_per_peer: Final = max_per_peer
        self._rate: Final = Rate(refusals_per_minute / 60, refusals_per_minute)
        self._connections: Counter[str] = Counter()
        self._total = 0
        self._buckets: dict[str, Bucket] = {}
        # In order of the last meeting.
        self._history: dict[str, None] = {}

    def refuses(self, connection: socket) -> str | None:  # noqa: ARG002, other guards look at it
        """The reason to refuse a connection because of the program that made it; None to let it have a seat."""
        return None

    def admit(self, address: str, now: float) -> str | None:
        """Count a connection from this address until `left`, and return None; or return the reason to refuse it."""
        peer = peer_of(address)
        bucket = self._buckets.get(peer)
        if bucket is not None and not bucket.has_some(now):
            return "this peer caused too many errors"
        if self._connections[peer] >= self._max_per_peer:
            return CROWDED
        reserved = 0 if peer in self._history else self._max_connections // _RESERVED
        if self._total >= self._max_connections - reserved:
            return FULL
        self._connections[peer] += 1
        self._total += 1
        return None

    def left(self, address: str) -> None:
        peer = peer_of(address)
        self._total -= 1
        self._connections[peer] -= 1
        if not self._connections[peer]:
            del self._connections[peer]

    def remember(self, address: str) -> None:
        """Give this peer a history. The table is bounded: it forgets the peer met longest ago."""
        peer = peer_of(address)
        self._history.pop(peer, None)
        self._history[peer] = None
        if len(self._history) > MAX_PEERS_WITH_HISTORY:
            del self._history[next(iter(self._history))]

    def has_history(self, address: str) -> bool:
        return peer_of(address) in self._history

    def is_same(self, one: str, other: str) -> bool:
        """Whether both are addresses of one peer."""
        return peer_of(one) == peer_of(other)

    def refused(self, address: str, now: float) -> None:
        """Count a refusal against this peer."""
        peer = peer_of(address)
        bucket = self._buckets.get(peer)
        if bucket is None:
            if len(self._buckets) >= MAX_WATCHED_PEERS:
                self._forget(now)
            bucket = self._buckets[peer] = Bucket(self._rate, now)
        bucket.take(now)

    def _forget(self, now: float) -> None:
        """Forget peers with only old refusals; without such peers, the first one."""
        for peer in [peer for peer, bucket in self._buckets.items() if bucket.is_full(now)]:
            del self._buckets[peer]
        if len(self._buckets) >= MAX_WATCHED_PEERS:
            del self._buckets[next(iter(self._buckets))]
