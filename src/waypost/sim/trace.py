"""What happened, line by line: the same for the same seed, wherever and whenever it runs."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from zlib import crc32

from waypost.store.port import Batch


class Trace:
    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: Final[list[str]] = []

    def note(self, time: float, text: str) -> None:
        self.lines.append(f"{time:9.3f} {text}")

    def digest(self) -> str:
        """One number for all events and effects."""
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()

    def last(self, count: int) -> Sequence[str]:
        return self.lines[-count:]


def batch_text(batch: Batch) -> str:
    """How many operations a batch has, and a checksum over them."""
    parts = [part for _, _, key, value in batch.operations for part in (key, value)]
    return f"{len(batch)} operations {crc32(b''.join(parts)):08x}"
