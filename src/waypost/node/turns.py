"""Whose turn it is: connections whose bytes wait are worked on one after the other, each for one budget at a time.

A connection that still has something left after its turn goes behind all others that wait. So between two turns of one
that waits, at most one budget of every other connection is worked on, whatever the others send. A connection that waits
alone gets a whole turn, so that what came together becomes one batch.

Nothing here knows of sockets or of time: shells and the simulator use the same class.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from waypost.limits import MAX_TURN_BYTES, MAX_TURN_PACKETS, MAX_WHOLE_TURN_PACKETS

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Budget:
    """Packets to be looked at, and bytes to be taken for that. RPC counts fragments, HTTP counts requests."""

    packets: int
    size: int


class Work(NamedTuple):
    """What came of a turn: packets that were looked at, and packets that were taken and not looked at."""

    done: int
    left: int


SHARE: Final = Budget(MAX_TURN_PACKETS, MAX_TURN_BYTES)
WHOLE: Final = Budget(MAX_WHOLE_TURN_PACKETS, MAX_TURN_BYTES)


class Turns(Generic[K]):
    """The connections that wait for their turn, in its order."""

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
        """Something of this connection is to be worked on. One that waits already keeps its place."""
        self.waiting.setdefault(key)

    def leave(self, key: K) -> None:
        """There is nothing to be worked on any more, or nothing may be."""
        self.waiting.pop(key, None)

    def take(self) -> tuple[K, Budget] | None:
        """Whose turn it is, and how much it may take. It waits no longer: who has more to do waits again."""
        for key in self.waiting:
            del self.waiting[key]
            return key, self._share if self.waiting else self._whole
        return None
