"""Token buckets: how often something may happen, with a reserve for bursts."""

from dataclasses import dataclass

from waypost.limits import MAX_WATCHED_PEERS


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` on average, and `burst` at once."""

    per_second: float
    burst: float


class Bucket:
    """It starts full. Times are of the monotonic clock."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = rate.burst
        self._at = now

    def take(self, now: float) -> bool:
        """Whether it may happen once more; then it counts."""
        if not self.has_some(now):
            return False
        self._tokens -= 1
        return True

    def has_some(self, now: float) -> bool:
        self._fill(now)
        return self._tokens >= 1

    def is_full(self, now: float) -> bool:
        self._fill(now)
        return self._tokens >= self._rate.burst

    def _fill(self, now: float) -> None:
        self._tokens = min(self._rate.burst, self._tokens + (now - self._at) * self._rate.per_second)
        self._at = now


class Buckets:
    """One for each address that has taken something. They are bounded: full ones say nothing, then the oldest goes."""

    __slots__ = ("_buckets", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: dict[str, Bucket] = {}

    def take(self, address: str, now: float) -> bool:
        """Whether it may happen once more at this address; then it counts."""
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= MAX_WATCHED_PEERS:
                self._forget(now)
            bucket = self._buckets[address] = Bucket(self._rate, now)
        return bucket.take(now)

    def has_some(self, address: str, now: float) -> bool:
        bucket = self._buckets.get(address)
        return bucket is None or bucket.has_some(now)

    def _forget(self, now: float) -> None:
        for address in [address for address, bucket in self._buckets.items() if bucket.is_full(now)]:
            del self._buckets[address]
        if len(self._buckets) >= MAX_WATCHED_PEERS:
            del self._buckets[next(iter(self._buckets))]
