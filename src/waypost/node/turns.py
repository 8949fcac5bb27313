"""Turns of connections: those with waiting bytes are served one after the other, each for one budget at a time.

A connection with more left after its turn goes behind all others that wait. So between two turns of a waiting
connection, at most one budget of every other connection is served, however much the others send. A connection that
waits alone gets a whole turn, so that what came together becomes one batch.

Nothing here knows of sockets or of time: shells and the simulator use the same class.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from waypost.limits import MAX_TURN_BYTES, MAX_TURN_PACKETS, MAX_WHOLE_TURN_PACKETS

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a turn: packets to process, and bytes to read. RPC counts fragments, HTTP counts requests."""

    packets: int
    size: int


class Work(NamedTuple):
    """Result of a turn: packets that were processed, and packets that were read and not processed."""

    done: int
    left: int


SHARE: Final = Budget(MAX_TURN_PACKETS, MAX_TURN_BYTES)
WHOLE: Final = Budget(MAX_WHOLE_TURN_PACKETS, MAX_TURN_BYTES)


class Turns(Generic[K]):
    """The connections that wait for their turn, in order."""

    __slots__ = ("_share", "_whole", "waiting")

    def __init__(self, share: Budget = SHARE, whole: Budget = WHOLE) -> None:
        self._share: Final = share
        self._whole: Final = whole
        self.waiting: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, key: object) -> bool:
        return key in self.waiting

    def wait(self, key: K) -> None:
        """Let this connection wait for a turn. One that waits already keeps its place."""
        self.waiting.setdefault(key)

    def leave(self, key: K) -> None:
        """Remove a connection that has nothing left to serve, or may not be served."""
        self.waiting.pop(key, None)

    def take(self) -> tuple[K, Budget] | None:
        """The next connection, and its budget. It waits no longer: with more to do it calls `wait` again."""
        for key in self.waiting:
            del self.waiting[key]
            return key, self._share if self.waiting else self._whole
        return None
