"""A cache whose entries end with their age: MS-MQQB 3.1.1.3.3, 3.1.1.3.4 and 3.1.6.10 to 3.1.6.13."""

from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class AgingCache(Generic[K, V]):
    """At most `size` entries, each for `lifetime` seconds. One more discards the older half first."""

    __slots__ = ("_entries", "_size", "lifetime")

    def __init__(self, size: int, lifetime: float) -> None:
        self._size: Final = size
        self.lifetime: Final = lifetime
        # The oldest first.
        self._entries: dict[K, tuple[float, V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        found = self._entries.get(key)
        return found[1] if found is not None and now - found[0] < self.lifetime else None

    def add(self, key: K, value: V, now: float) -> None:
        if key not in self._entries and len(self._entries) >= self._size:
            for each in list(self._entries)[: self._size // 2]:
                del self._entries[each]
        self._entries.pop(key, None)
        self._entries[key] = now, value

    def prune(self, now: float) -> float | None:
        """Remove the entries that have ended. Returns the time at which the next one ends, or None if none is left."""
        for key, (at, _) in list(self._entries.items()):
            if now - at < self.lifetime:
                return at + self.lifetime
            del self._entries[key]
        return None

    def clear(self) -> None:
        self._entries.clear()
