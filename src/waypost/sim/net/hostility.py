"""How hostile the surroundings of a networked world are: what strangers do there, and how its own hosts change."""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from waypost.core import delivery
from waypost.core.queues import UNLIMITED
from waypost.node import sequences
from waypost.node.network import departures
from waypost.sim.net.swarm import NetSwarm
from waypost.sim.patches import Patch


class Fault(Enum):
    """What can be wrong beside machines and network. The value says it in the trace."""

    FORGED_ACKS = "forged acknowledgments"
    FAR_SEQUENCES = "sequences years ahead"
    NEAR_SEQUENCES = "sequences a minute ahead"
    NEW_SEQUENCES = "many new sequences"
    IDENTIFIERS = "many messages"
    ADMINISTRATION = "many administration queues"
    THEFT = "acknowledgments that are taken away"
    FEW_WAITING_ACKS = "room for few acknowledgments"
    TURNS = "hosts with two addresses in turn"
    MOVES = "hosts that move"
    REROUTES = "ways that change"


# Those that a world may have. One that is switched off is one that the engine does not withstand.
SWITCHED_ON: Final[dict[Fault, bool]] = {
    Fault.FORGED_ACKS: False,
    Fault.FAR_SEQUENCES: False,
    Fault.NEAR_SEQUENCES: False,
    Fault.NEW_SEQUENCES: False,
    Fault.IDENTIFIERS: False,
    Fault.ADMINISTRATION: False,
    Fault.THEFT: False,
    Fault.FEW_WAITING_ACKS: False,
    Fault.TURNS: True,
    Fault.MOVES: True,
    Fault.REROUTES: True,
}

# What strangers do.
ATTACKS: Final = (
    Fault.FORGED_ACKS,
    Fault.FAR_SEQUENCES,
    Fault.NEAR_SEQUENCES,
    Fault.NEW_SEQUENCES,
    Fault.IDENTIFIERS,
    Fault.ADMINISTRATION,
)
# What becomes of honest hosts. With these a source may send from an address that its receiver has not met, which
# anybody a little ahead of it shuts out: so nobody is a little ahead there.
CHANGES: Final = (Fault.TURNS, Fault.MOVES, Fault.REROUTES)


@dataclass(frozen=True, slots=True)
class Hostility:
    """`visits` and `changes` are rates with each operation, `flood` is how many messages make a flood."""

    faults: tuple[Fault, ...] = ()
    strangers: int = 0
    visits: float = 0.0
    changes: float = 0.0
    flood: int = 0

    @property
    def attacks(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault in ATTACKS)

    def adapted(self, swarm: NetSwarm) -> NetSwarm:
        """What is sent again is where a flood does harm: connections break often, and little is remembered."""
        if Fault.IDENTIFIERS not in self.faults:
            return swarm
        size = min(swarm.transfer.duplicate_history_size, 50)
        return replace(
            swarm,
            faults=replace(swarm.faults, reset=max(swarm.faults.reset, 0.02)),
            transfer=replace(swarm.transfer, duplicate_history_size=max(size, 10)),
        )

    def patches(self) -> tuple[Patch, ...]:
        """The limits of the engine that these faults reach, small enough to be reached."""
        limits = {
            Fault.ADMINISTRATION: Patch(delivery, "MAX_QUEUES_FOR_ACKS", 30),
            Fault.FEW_WAITING_ACKS: Patch(departures, "MAX_WAITING_ACKS", 2),
        }
        return tuple(patch for fault, patch in limits.items() if fault in self.faults)


def draw(rng: Random, swarm: NetSwarm) -> Hostility:
    """Half of the worlds are friendly. Where there is little room for messages, strangers would take all of it."""
    kinds = [fault for fault in Fault if SWITCHED_ON[fault] and rng.random() < 0.5]
    strangers, visits = rng.randint(1, 3), rng.choice((0.03, 0.1))
    changes = rng.choice((0.01, 0.03))
    if rng.random() < 0.4 or swarm.quota != UNLIMITED:
        return Hostility()
    if Fault.NEAR_SEQUENCES in kinds and any(fault in CHANGES for fault in kinds):
        dropped = CHANGES if rng.random() < 0.5 else (Fault.NEAR_SEQUENCES,)
        kinds = [fault for fault in kinds if fault not in dropped]
    # Small pieces take an event each.
    flood = 60 if swarm.faults.segment > 200 else 10
    return Hostility(tuple(kinds), strangers, visits, changes, flood)
