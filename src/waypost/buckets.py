"""Token buckets: how often something may happen, with a reserve for bursts."""

from dataclasses import dataclass


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
