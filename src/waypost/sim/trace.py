"""What happened, event by event: the same for the same seed, wherever and whenever it runs."""

from struct import Struct
from typing import Final
from zlib import crc32

from waypost.store.port import Batch

_EVENT: Final = Struct("<dII")


class Trace:
    """The text is made when somebody reads it; the digest runs along."""

    __slots__ = ("_digest", "_events")

    def __init__(self) -> None:
        self._digest = 0
        self._events: list[tuple[float, tuple[object, ...]]] = []

    def note(self, time: float, *words: object, number: int = 0) -> None:
        """The words are not changed any more. `number` stands for what they do not tell."""
        self._events.append((time, words))
        self._digest = crc32(_EVENT.pack(time, len(words), number & 0xFFFF_FFFF), self._digest)

    @property
    def digest(self) -> str:
        """One number for all events and effects."""
        return f"{self._digest:08x}"

    def lines(self, count: int | None = None) -> list[str]:
        """The last events, or all."""
        events = self._events if count is None else self._events[-count:]
        return [f"{time:9.3f} {' '.join(map(str, words))}" for time, words in events]


def batch_number(batch: Batch) -> int:
    """A checksum over all that a batch writes."""
    return crc32(b"".join([part for _, _, key, value in batch.operations for part in (key, value)]))
