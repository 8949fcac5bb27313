"""Deadlines of what is kept for somebody as long as it is used."""

from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", bytes, tuple[int, str])


class Leases(Generic[K]):
    """By key, on the monotonic clock. To put a deadline off costs nothing until the first one has come."""

    __slots__ = ("_deadlines", "_entries", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []
        # The entry of the heap that counts for a key: its deadline, or an earlier one that it had.
        self._entries: dict[K, float] = {}

    def start(self, key: K, deadline: float) -> None:
        """Begin a lease, or change its end."""
        self._deadlines[key] = deadline
        entry = self._entries.get(key)
        if entry is None or deadline < entry:
            self._entries[key] = deadline
            heappush(self._heap, (deadline, key))

    def end(self, key: K) -> None:
        self._deadlines.pop(key, None)

    def left(self, key: K, monotonic: float) -> float:
        """The seconds that are left."""
        return max(self._deadlines.get(key, monotonic) - monotonic, 0.0)

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap:
            entry, key = heap[0]
            deadline = self._deadlines.get(key)
            if self._entries.get(key) != entry:
                heappop(heap)
            elif deadline is None:
                heappop(heap)
                del self._entries[key]
            elif deadline != entry:
                self._entries[key] = deadline
                heapreplace(heap, (deadline, key))
            else:
                return deadline
        return None

    def take_expired(self, monotonic: float) -> K | None:
        """A key whose lease has ended, and is forgotten with that."""
        deadline = self.next_deadline()
        if deadline is None or deadline > monotonic:
            return None
        key = heappop(self._heap)[1]
        del self._deadlines[key], self._entries[key]
        return key
