"""Remote readers that one seed has, if any: who they are, how bad their network is, how long anybody waits."""

from dataclasses import dataclass
from random import Random
from typing import Final

from waypost.sim.faults import Faults
from waypost.sim.local import swarm as applications
from waypost.sim.model.model import Patience

# How many of the simulations have some.
_SHARE: Final = 0.3

WORKLOADS: Final = (
    "receiver",
    "waiter",
    "rude",
    "browser",
    "seeker",
    "mover",
    "purger",
    "transactional",
    "transactional",
    "owner",
)


@dataclass(frozen=True, slots=True)
class RemoteSwarm:
    """`workloads` are those of the applications beside the readers.

    `neglect` and `death` are the rates at which a reader does not end what it got, or dies before it does.

    `call_timeout` is how long clients wait for an answer, None without end; `keep_alive` how often dead connections are
    looked for.
    """

    readers: tuple[str, ...]
    workloads: tuple[str, ...]
    operations: int
    faults: Faults
    patience: Patience
    call_timeout: float | None
    keep_alive: float
    max_fragment: int
    nack: float
    neglect: float
    death: float


def draw(seed: int) -> RemoteSwarm | None:
    """By a chance of its own, so that the other simulations stay what they are."""
    rng = Random(f"remote readers of {seed}")
    if rng.random() >= _SHARE:
        return None
    latency, segment = rng.choice(((0.0005, 1 << 16), (0.0005, 1500), (0.002, 100), (0.02, 1 << 16)))
    return RemoteSwarm(
        readers=("receiver", *rng.choices(WORKLOADS, k=rng.randint(2, 6))),
        workloads=("sender", "sender", "feeder", "feeder", *rng.choices(applications.WORKLOADS, k=rng.randint(0, 2))),
        operations=rng.randint(80, 160),
        faults=Faults(
            latency=latency,
            segment=segment,
            buffer=rng.choice((600, 1 << 16)),
            reset=rng.choice((0.0, 0.003, 0.02)),
            silence=rng.choice((0.0, 0.002, 0.01)),
            refuse=rng.choice((0.0, 0.0, 0.2)),
            silent_death=rng.choice((0.0, 0.5, 1.0)),
        ),
        patience=Patience(rng.choice((0.3, 2.0, 300.0)), rng.choice((0.2, 2.0, 300.0)), rng.choice((0.3, 20.0))),
        call_timeout=rng.choice((None, 0.3, 3.0)),
        keep_alive=rng.choice((0.5, 5.0)),
        max_fragment=rng.choice((1432, 5840)),
        nack=rng.choice((0.0, 0.15, 0.4)),
        neglect=rng.choice((0.0, 0.0, 0.1)),
        death=rng.choice((0.0, 0.03, 0.1)),
    )
