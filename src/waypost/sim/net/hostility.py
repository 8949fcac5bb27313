"""Hostility around several hosts: attacks of strangers, and changes of hosts."""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from waypost.node import incoming_store
from waypost.node.network import ack_queues, admin_acks
from waypost.sim.patches import Patch
from waypost.sim.swarm import Swarm
from waypost.wire.property_values import UNLIMITED


class Fault(Enum):
    """Something that goes wrong beside hosts and network. The value names it in the trace."""

    FORGED_ACKS = "forged acknowledgments"
    INSIDERS = "forged acknowledgments from an admitted address"
    REFLECTED_ACKS = "provoked acknowledgments"
    FAR_SEQUENCES = "sequences years ahead"
    NEAR_SEQUENCES = "sequences a minute ahead"
    NEW_SEQUENCES = "many new sequences"
    IDENTIFIERS = "many messages"
    FLOODS = "floods of several at once"
    ADMINISTRATION = "many administration queues"
    THEFT = "acknowledgments that are taken away"
    FEW_WAITING_ACKS = "room for few acknowledgments"
    TURNS = "hosts that switch between two addresses"
    MOVES = "hosts that move"
    REROUTES = "routes that change"


# The faults that a simulation may have. One that is switched off is one that the engine does not withstand.
SWITCHED_ON: Final = dict.fromkeys(Fault, True)

# Attacks of strangers.
ATTACKS: Final = (
    Fault.FORGED_ACKS,
    Fault.INSIDERS,
    Fault.REFLECTED_ACKS,
    Fault.FAR_SEQUENCES,
    Fault.NEAR_SEQUENCES,
    Fault.NEW_SEQUENCES,
    Fault.IDENTIFIERS,
    Fault.FLOODS,
    Fault.ADMINISTRATION,
)
# Attacks that need no messages of hosts.
ANYTIME: Final = (Fault.NEW_SEQUENCES, Fault.IDENTIFIERS, Fault.FLOODS, Fault.ADMINISTRATION)
# Changes of honest hosts. With these a source may send from an address that its receiver does not know yet, and a
# stranger slightly ahead in its sequence shuts it out: so no stranger is slightly ahead there.
CHANGES: Final = (Fault.TURNS, Fault.MOVES, Fault.REROUTES)


@dataclass(frozen=True, slots=True)
class Hostility:
    """`visits` and `changes` are rates with each operation, `flood` is the number of messages in a flood."""

    faults: tuple[Fault, ...] = ()
    strangers: int = 0
    visits: float = 0.0
    changes: float = 0.0
    flood: int = 0

    @property
    def attacks(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault in ATTACKS)

    @property
    def pace(self) -> float:
        """Seconds that a turn of a connection takes. Others wait for their turns only if this is not 0."""
        return 0.002 if Fault.FLOODS in self.faults else 0.0

    def adapted(self, swarm: Swarm) -> Swarm:
        """The swarm with limits small enough to be reached.

        A flood does harm when messages are sent again, so connections break often in a simulation with floods.
        """
        faults, sessions = swarm.network, swarm.sessions
        transfer = sessions.transfer
        if Fault.IDENTIFIERS in self.faults:
            faults = replace(faults, reset=max(faults.reset, 0.02))
            size = max(min(transfer.duplicate_history_size, 50), 10)
            transfer = replace(transfer, duplicate_history_size=size)
        if Fault.NEW_SEQUENCES in self.faults:
            transfer = replace(transfer, new_sequences_at_once=4, new_sequences_per_s=2.0)
        turn = sessions.turn
        if Fault.FLOODS in self.faults:
            # A flood comes in one piece, and takes several turns.
            faults, turn = replace(faults, segment=1 << 16), min(turn, 4)
        return replace(swarm, network=faults, sessions=replace(sessions, transfer=transfer, turn=turn))

    def patches(self) -> tuple[Patch, ...]:
        """The limits of the engine that these faults exceed, small enough to be reached."""
        limits = {
            Fault.NEW_SEQUENCES: (Patch(incoming_store, "MAX_CACHED_SEQUENCES", 2),),
            Fault.ADMINISTRATION: (
                Patch(admin_acks, "MAX_QUEUES_FOR_ACKS", 8),
                Patch(admin_acks, "MAX_QUEUES_FOR_ACKS_OF_PEER", 4),
                Patch(admin_acks, "FEW_QUEUES_FOR_ACKS", 3),
            ),
            Fault.FEW_WAITING_ACKS: (
                Patch(ack_queues, "MAX_WAITING_ACKS", 2),
                Patch(ack_queues, "MAX_ACK_QUEUES_AT_ADDRESS", 4),
            ),
        }
        return tuple(patch for fault, patches in limits.items() if fault in self.faults for patch in patches)


def draw(rng: Random, swarm: Swarm) -> Hostility:
    """Draw the hostility. A third of the seeds is friendly. With small quotas strangers would take all the room."""
    kinds = [fault for fault in Fault if SWITCHED_ON[fault] and rng.random() < 0.5]
    strangers, visits, changes = rng.randint(1, 3), rng.choice((0.05, 0.15)), rng.choice((0.01, 0.03))
    theme = rng.random()
    # An admitted address may acknowledge every message that was sent.
    forgers = rng.choice((Fault.FORGED_ACKS, Fault.INSIDERS))
    if Fault.FORGED_ACKS in kinds and Fault.INSIDERS in kinds:
        kinds.remove(forgers)
    if Fault.INSIDERS in kinds and Fault.REFLECTED_ACKS in kinds:
        # Messages of an admitted address are acknowledged to the host for which it is admitted.
        kinds.remove(Fault.REFLECTED_ACKS)
    if theme < 0.3 or swarm.limits.quota != UNLIMITED:
        return Hostility()
    if theme < 0.6:
        kinds = [fault for fault in kinds if fault not in CHANGES]
    elif any(fault in CHANGES for fault in kinds):
        kinds = [fault for fault in kinds if fault is not Fault.NEAR_SEQUENCES]
    # Small pieces take an event each.
    flood = 60 if swarm.network.segment > 200 or Fault.FLOODS in kinds else 10
    return Hostility(tuple(kinds), strangers, visits, changes, flood)
