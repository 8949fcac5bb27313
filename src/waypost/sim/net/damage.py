"""Bits that change on the disks of a networked simulation: records of messages that are damaged at rest."""

from random import Random
from typing import TYPE_CHECKING, Final

from waypost.store import keys
from waypost.store.port import Table

if TYPE_CHECKING:
    from waypost.sim.net.simulation import NetworkSimulation


class Damage:
    """It has its own chance: a simulation without damage is the same as if there were none anywhere."""

    def __init__(self, simulation: "NetworkSimulation", seed: int) -> None:
        self._simulation: Final = simulation
        self._rng: Final = Random(f"damage of {seed}")
        self._rate: Final = self._rng.choice((0.0, 0.0, 0.0, 0.02, 0.1))

    def strike(self) -> None:
        """With each operation, perhaps, the record of a message is damaged, on a host that is up or down."""
        simulation, rng = self._simulation, self._rng
        if rng.random() >= self._rate:
            return
        host = rng.choice(simulation.hosts)
        places = [(place, sent) for place, sent in simulation.ledger.places_of(host.name).items() if sent is not None]
        if not places:
            return
        place, sent = rng.choice(places)
        if host.disk.store.damage(Table.MESSAGES, keys.message_key(*place)):
            host.note(sent.uid, "the record of", sent, "is damaged on", host.name)
            sent.is_damaged = True
