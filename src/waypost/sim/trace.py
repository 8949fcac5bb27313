"""The trace of events: the same for the same seed, wherever and whenever it runs."""

from struct import pack
from typing import Final
from zlib import crc32

from waypost.store.port import Batch


class Trace:
    """A trace. Text and digest are made on request."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: Final[list[tuple[float, int, tuple[object, ...]]]] = []

    def note(self, time: float, number: int, *words: object) -> None:
        """Add an event. The words must not change later. `number` stands for them in the digest."""
        self._events.append((time, number, words))

    @property
    def digest(self) -> str:
        """A checksum of all events and effects."""
        digest = 0
        for time, number, words in self._events:
            digest = crc32(pack("<dIq", time, len(words), number), digest)
        return f"{digest:08x}"

    def lines(self, count: int | None = None) -> list[str]:
        """The last events, or all."""
        events = self._events if count is None else self._events[-count:]
        return [f"{time:9.3f} {' '.join(map(str, words))}" for time, _, words in events]


def batch_number(batch: Batch) -> int:
    """A checksum of everything that a batch writes."""
    return crc32(b"".join([part for _, _, key, value in batch.operations for part in (key, value)]))
