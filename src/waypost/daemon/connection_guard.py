"""Who may connect: how many connections there are, how many from one peer, and how often a peer was refused.

A peer is an IPv4 address or a /64 network of IPv6, which is what one host can choose its address from. A peer has a
history if we have reached it ourselves, or if a connection of it was of use for a while; a part of the connections is
reserved for those.
"""

from collections import Counter
from typing import Final

from waypost.buckets import Bucket, Rate
from waypost.limits import MAX_PEERS_WITH_HISTORY, MAX_WATCHED_PEERS
from waypost.peers import peer_of

# Why there may be no further connection, if others could make room for it.
CROWDED: Final = "this peer has too many connections"
FULL: Final = "there are too many connections"

# The part of all connections that is for peers with a history.
_RESERVED: Final = 4


class ConnectionGuard:
    """Times are of the monotonic clock. The table of refused peers is bounded: the one refused first is forgotten."""

    __slots__ = ("_buckets", "_connections", "_history", "_max_connections", "_max_per_peer", "_rate", "_total")

    def __init__(self, max_connections: int, max_per_peer: int, refusals_per_minute: int) -> None:
        self._max_connections: Final = max_connections
        self._max_per_peer: Final = max_per_peer
        self._rate: Final = Rate(refusals_per_minute / 60, refusals_per_minute)
        self._connections: Counter[str] = Counter()
        self._total = 0
        self._buckets: dict[str, Bucket] = {}
        # The one met last is the last one.
        self._history: dict[str, None] = {}

    def admit(self, address: str, now: float) -> str | None:
        """Count a connection from this address, until `left`; or why there may be none."""
        peer = peer_of(address)
        bucket = self._buckets.get(peer)
        if bucket is not None and not bucket.has_some(now):
            return "this peer was refused too often"
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
        """This peer has a history from now on. The table is bounded: the one met longest ago is forgotten."""
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
        """What this peer said was refused."""
        peer = peer_of(address)
        bucket = self._buckets.get(peer)
        if bucket is None:
            if len(self._buckets) >= MAX_WATCHED_PEERS:
                self._forget(now)
            bucket = self._buckets[peer] = Bucket(self._rate, now)
        bucket.take(now)

    def _forget(self, now: float) -> None:
        """Those whose refusals are long ago; if there are none, the first one."""
        for peer in [peer for peer, bucket in self._buckets.items() if bucket.is_full(now)]:
            del self._buckets[peer]
        if len(self._buckets) >= MAX_WATCHED_PEERS:
            del self._buckets[next(iter(self._buckets))]
