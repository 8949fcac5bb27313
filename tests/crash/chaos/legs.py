"""The set-ups of the chaos campaign. Each has one or two legs: a program of Spark with its queues and fail points."""

from dataclasses import dataclass
from typing import Final

from tests.crash.chaos.points import Point, Victim

SOURCE: Final = "in"
# Labels, in turn.
EVEN, ODD = "even", "odd"
STAGE_LEASE_S: Final = 30

_WRITING: Final = (
    *(Point.READ, Point.STAGE, Point.STAGE_ANSWER, Point.PREPARE),
    *(Point.SINK_COMMIT, Point.COMMIT_ANSWER, Point.COMMIT_LOG, Point.ANYTIME),
)
# Only streams have them.
OF_STREAMS: Final = (Point.OFFSET, Point.OFFSET_LOG, Point.SETTLE)
_STREAMING: Final = (*OF_STREAMS, *_WRITING)


@dataclass(frozen=True, slots=True)
class Leg:
    """A program (tests/crash/chaos/driver.py). A driver of `special` rounds dies at that point, and stays down longer
    than its lease.

    With `forgets`, the last entry of the commit log is deleted now and then, as if the disk had lost it.
    """

    name: str
    destinations: tuple[str, ...]
    points: tuple[Point, ...] = _STREAMING
    special: Point | None = None
    # Seconds; None for the default. A claim that is made before the first offset is released only after it.
    lease_s: int | None = 20
    forgets: bool = False
    is_cluster: bool = False

    @property
    def soft(self) -> tuple[Victim, ...]:
        """Victims that come back in a second or two."""
        return (Victim.WORKER, Victim.DAEMON)

    @property
    def hard(self) -> tuple[Victim, ...]:
        alone = Victim.DRIVER, Victim.JVM
        return (Victim.EXECUTOR, *alone, Victim.NODE) if self.is_cluster else alone


SHORT_LEASE: Final = 3

SETUPS: Final = {
    "batch": (Leg("batch", ("b",), _WRITING, Point.PURGE),),
    "stream": (Leg("claim", ("b",), forgets=True), Leg("drain", ("b",), forgets=True)),
    "foreachbatch": (Leg("foreachbatch", ("b", "c"), special=Point.BETWEEN, lease_s=SHORT_LEASE),),
    "selfjoin": (Leg("join", ("b",)), Leg("union", ("b", "c"), lease_s=SHORT_LEASE)),
    "cluster": (Leg("cluster", ("b",), is_cluster=True),),
}
LEGS: Final = {leg.name: leg for legs in SETUPS.values() for leg in legs}
