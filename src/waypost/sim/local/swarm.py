"""Workloads, faults and limits of one seed: only some of each, so that rare things meet often somewhere."""

from dataclasses import dataclass
from random import Random
from typing import Final

from waypost.sim.faults import HostFaults
from waypost.sim.plans import Plan
from waypost.wire.property_values import UNLIMITED

WORKLOADS: Final = (
    "sender",
    "receiver",
    "transactional",
    "browser",
    "seeker",
    "mover",
    "purger",
    "administrator",
    "coordinator",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm(HostFaults):
    plans: tuple[Plan, ...]
    workloads: tuple[str, ...]
    purge_part: int

    @property
    def expiry_part(self) -> int:
        """Expired messages that are taken away with one tick: fewer than a purge takes, which has more to take."""
        return (self.purge_part + 1) // 2


def draw(rng: Random) -> Swarm:
    count = rng.randint(1, 3)
    plans = [_plan(rng, f"q{number}") for number in range(1, count + 1)]
    plans.append(Plan("admin", quota=rng.choice((UNLIMITED, UNLIMITED, 2))))
    workloads = ["sender", "receiver"]
    workloads += [name for name in WORKLOADS if rng.random() < 0.45]
    if any(plan.transactional for plan in plans):
        workloads.append("transactional")
    return Swarm(
        plans=tuple(plans),
        workloads=tuple(workloads),
        operations=rng.randint(80, 120),
        quota=rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, 8, 3)),
        block=rng.choice((2, 8, 1 << 16)),
        purge_part=rng.choice((2, 5, 1000)),
        page=rng.choice((2, 10_000)),
        crash=rng.choice((0.0, 0.01, 0.025)),
        crash_after_answer=rng.choice((0.0, 0.0, 0.012)),
        crash_unreported=rng.choice((0.0, 0.0, 0.04)),
        stop=rng.choice((0.0, 0.008)),
        full=rng.choice((0.0, 0.0, 0.02)),
        jump=rng.choice((0.0, 0.0, 0.04)),
        disk_delay=rng.choice((0.001, 0.01, 0.1)),
        report_late=rng.choice((0.0, 0.3)),
        group_commit=rng.random() < 0.6,
        batching=rng.choice((0.0, 0.5, 0.9)),
        think=(think := rng.choice((0.005, 0.02))),
        gather=think,
        outages=((0.01, 0.5),),
        wall_jump=15.0,
        monotonic_jump=0.3,
        wall_jump_down=0.3,
        express=rng.choice((0.0, 0.3, 0.7)),
        expiring=rng.choice((0.0, 0.1, 0.4)),
        asking=rng.choice((0.0, 0.1, 0.4)),
    )


def _plan(rng: Random, key: str) -> Plan:
    return Plan(
        key,
        journaling=rng.random() < 0.3,
        transactional=rng.random() < 0.45,
        quota=rng.choice((UNLIMITED, UNLIMITED, UNLIMITED, 1, 4)),
        journal_quota=rng.choice((UNLIMITED, UNLIMITED, 1)),
    )
