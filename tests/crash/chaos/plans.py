"""The plans of the rounds of a leg: fail points in turn, each with a victim."""

import random
from collections.abc import Iterator
from itertools import cycle

from tests.crash.chaos.legs import OF_STREAMS, Leg
from tests.crash.chaos.points import Point, Step, Victim

# The campaign itself kills at any time. It knows no worker, and the JVM of the driver dies with the driver.
_ANYTIME = {Victim.WORKER: Victim.DAEMON, Victim.JVM: Victim.DRIVER}
_PLAIN = ("hard", "soft")
_WITH_SPECIAL = ("special", "hard", "special", "soft", "special")


def plans(leg: Leg, seed: int) -> Iterator[list[Step]]:
    """Two steps for each round, without end.

    Every second round kills a process that takes long to come back. If the leg has a special point, the driver is
    killed there in three of five rounds: no other leg has this point, and a round may miss it. The other points come in
    turn, first those that fewer legs have: so the number of rounds decides how often each is hit.
    """
    dice = random.Random(f"{leg.name} {seed}")
    order = list(leg.points)
    dice.shuffle(order)
    order.sort(key=lambda point: point not in OF_STREAMS)
    points, hard, soft = cycle(order), cycle(leg.hard), cycle(leg.soft)
    kinds = cycle(_WITH_SPECIAL if leg.special else _PLAIN)
    for kind in kinds:
        if kind == "special":
            assert leg.special is not None
            first = Step(leg.special, Victim.DRIVER)
        else:
            first = step(next(points), next(hard if kind == "hard" else soft))
        yield [first, step(next(points), next(soft))]


def step(point: Point, victim: Victim) -> Step:
    return Step(point, _ANYTIME.get(victim, victim) if point is Point.ANYTIME else victim)
