"""Bulk clients that one seed has, if any, and how little of the bulk interface there may be."""

from dataclasses import dataclass
from random import Random
from typing import Final

from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.local import swarm as applications

# How many of the simulations have some.
_SHARE: Final = 0.35

WORKLOADS: Final = ("streamer", "streamer", "claimer", "claimer", "stager", "stager", "watcher")


@dataclass(frozen=True, slots=True)
class BulkSwarm:
    """`workloads` are those of the applications and of those who use the bulk interface."""

    workloads: tuple[str, ...]
    operations: int
    limits: BulkLimits


def draw(seed: int) -> BulkSwarm | None:
    """By a chance of its own, so that the other simulations stay what they are."""
    rng = Random(f"bulk clients of {seed}")
    if rng.random() >= _SHARE:
        return None
    return BulkSwarm(
        workloads=(
            *("sender", "feeder", "feeder", *rng.choices(applications.WORKLOADS, k=rng.randint(1, 4))),
            *rng.sample(WORKLOADS, rng.randint(3, 6)),
        ),
        operations=rng.randint(80, 160),
        limits=BulkLimits(
            claims=rng.choice((1, 2, 10_000)),
            stages=rng.choice((3, 100_000)),
            batches=rng.choice((1, 3, 128)),
            removed=rng.choice((2, 5000)),
            some=rng.choice((1, 100)),
            part=rng.choice((2, 128)),
        ),
    )
