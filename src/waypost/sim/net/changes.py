"""Changes of honest hosts: other addresses, other routes between them, and damaged records on their disks."""

from random import Random
from typing import TYPE_CHECKING, Final

from waypost.sim.net.hostility import CHANGES, Fault
from waypost.store import keys
from waypost.store.port import Table

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation


class Changes:
    """Changes of addresses and routes. `via` is the present relay, `relays` the hosts that may take this role.

    A relay reaches every host directly, so that no message goes in circles while some hosts use a new route, others the
    old one. A host learns of it when it starts again.
    """

    def __init__(self, simulation: "NetworkSimulation", rng: Random) -> None:
        self._simulation: Final = simulation
        self._rng: Final = rng
        drawn = simulation.swarm
        self._kinds: Final = [fault for fault in simulation.hostility.faults if fault in CHANGES]
        self._moves = 0
        self.via = drawn.sessions.via
        self.relays: Final = [drawn.sessions.via] if drawn.sessions.via else []
        if Fault.REROUTES in self._kinds:
            others = [name for name in drawn.hosts if name != drawn.sessions.via]
            # At least two hosts are left as ends of a route.
            count = min(2, len(drawn.hosts) - 2) - len(self.relays)
            self.relays.extend(rng.sample(others, max(count, 0)))

    @property
    def has_moves(self) -> bool:
        return Fault.MOVES in self._kinds

    @property
    def has_reroutes(self) -> bool:
        return Fault.REROUTES in self._kinds

    def is_told(self, host: str, other: str) -> bool:
        """Whether the settings of a host name the addresses of another.

        Receivers of messages through a relay may acknowledge directly, and a host with two addresses may acknowledge
        from the one to which no message goes.
        """
        if Fault.TURNS in self._kinds or self.has_reroutes:
            return host != other
        return bool(self.via) and host not in (self.via, other) and other != self.via

    def addresses(self, number: int) -> list[str]:
        """The addresses of the host with this number."""
        first = f"10.0.0.{number + 1}"
        return [first, f"10.1.0.{number + 1}"] if Fault.TURNS in self._kinds else [first]

    def strike(self) -> None:
        """Perhaps change something; called with each operation."""
        simulation, rng = self._simulation, self._rng
        if not self._kinds or not simulation.strikes(simulation.hostility.changes):
            return
        host = rng.choice(simulation.hosts)
        match rng.choice(self._kinds):
            case Fault.TURNS:
                self._turn(host)
            case Fault.MOVES:
                self._move(host)
            case _:
                self._reroute()

    def _turn(self, host: "NetworkHost") -> None:
        host.address = next(each for each in (*host.addresses, *host.addresses) if each != host.address)
        host.note(0, host.name, "goes on from", host.address)
        self._simulation.marks.sometimes("a host that switches to its other address")

    def _move(self, host: "NetworkHost") -> None:
        self._moves += 1
        host.note(0, host.name, "moves")
        self._simulation.fabric.move(host, host.address, moved := f"10.2.0.{self._moves}")
        host.moved([moved if each == host.address else each for each in host.addresses], moved)
        self._simulation.marks.sometimes("a host that moves to a new address")

    def _reroute(self) -> None:
        simulation = self._simulation
        self.via = self._rng.choice([each for each in ("", *self.relays) if each != self.via])
        simulation.trace.note(simulation.time, 0, "the way goes by", self.via or "nobody")
        for host in simulation.hosts:
            if host.is_up and host.name not in self.relays:
                host.later(self._rng.uniform(0.0, 1.0), host.stop)
        simulation.marks.sometimes("a route that has changed")


class Damage:
    """Damage to records of messages on disks.

    Damage has its own random numbers: a simulation without it is the same as before damage existed.
    """

    def __init__(self, simulation: "NetworkSimulation", seed: int) -> None:
        self._simulation: Final = simulation
        self._rng: Final = Random(f"damage of {seed}")
        self._rate: Final = self._rng.choice((0.0, 0.0, 0.0, 0.02, 0.1))

    def strike(self) -> None:
        """Perhaps damage the record of a message, on a host that is up or down; called with each operation."""
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
