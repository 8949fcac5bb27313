"""A stranger on the network: an address that opens sessions under any GUID, and writes anything.

The network treats it as a host, so its bytes come late, in pieces, and are lost like all others.
It reads no more than it needs to know that its session is open, unless it is a thief: then it accepts connections and
messages of hosts, and acknowledges them.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from waypost.node.effects import Close, Connect, Write
from waypost.sim.net.attacks import Attacker
from waypost.sim.net.forgeries import hello
from waypost.sim.net.hostility import ANYTIME, Fault
from waypost.sim.net.visit import Visit
from waypost.wire.session_header import SESSION_PORT

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.simulation import NetworkSimulation


class Stranger:
    """A stranger. `life` never changes, as a stranger has no restarts."""

    life: Final = 1

    def __init__(self, number: int, simulation: "NetworkSimulation", rng: Random) -> None:
        self.name: Final = f"stranger{number}"
        self.address: Final = f"10.66.0.{number}"
        self.is_up = True
        self._simulation: Final = simulation
        self._rng: Final = rng
        self._guid: Final = rng.randbytes(16)
        self._visits: Final[dict[int, Visit]] = {}
        self._last = 0
        self._is_thief: Final = Fault.THEFT in simulation.hostility.faults

    def note(self, number: int, *words: object) -> None:
        self._simulation.trace.note(self._simulation.time, number, *words)

    def act(self) -> None:
        """Begin a visit, continue one, or end one."""
        rng = self._rng
        opened = [number for number, visit in self._visits.items() if visit.is_open]
        if not opened or (len(self._visits) < 4 and rng.random() < 0.3):
            self._visit(rng.choice(self._simulation.hosts))
        elif rng.random() < 0.8:
            self._strike(rng.choice(opened))
        else:
            self._leave(rng.choice(opened))

    def flood(self, host: "NetworkHost", fault: Fault) -> None:
        here = [number for number, visit in self._visits.items() if visit.host is host]
        if not here:
            self._visit(host)
        for number in here:
            if self._visits[number].is_open:
                self._attack(number, fault)

    def leave(self) -> None:
        """Leave, and never come back."""
        self.is_up = False
        for number in list(self._visits):
            self._leave(number)

    def _visit(self, host: "NetworkHost") -> None:
        rng = self._rng
        others = [other.guid for other in self._simulation.hosts if other is not host]
        self._last += 1
        faults = self._simulation.hostility.faults
        is_posing = self._is_thief or Fault.INSIDERS in faults
        claims = others if is_posing else [self._guid, rng.randbytes(16), *rng.choices(others, k=2)]
        guid = rng.choice(claims)
        self._visits[self._last] = Visit(host, guid, self._is_thief)
        self._simulation.fabric.carry(self, Connect(self._last, host.address, SESSION_PORT))

    def _leave(self, number: int) -> None:
        del self._visits[number]
        self._simulation.fabric.carry(self, Close(number))

    def _strike(self, number: int) -> None:
        """Make the first attack that finds something to attack. Attacks that need nothing often come last."""
        attacks = self._simulation.hostility.attacks
        order = self._rng.sample(attacks, len(attacks))
        if self._rng.random() < 0.5:
            order.sort(key=lambda fault: fault in ANYTIME)
        for fault in order:
            if fault is Fault.FLOODS:
                self._simulation.crowd.flood(self._visits[number].host)
                return
            if self._attack(number, fault):
                if fault is Fault.REFLECTED_ACKS:
                    # The acknowledgments find no receiver here.
                    self._leave(number)
                return

    def _attack(self, number: int, fault: Fault) -> bool:
        visit = self._visits[number]
        data = Attacker(self._simulation, self._rng, visit.host, visit.guid).strike(fault)
        if data:
            self.note(len(data), self.name, "attacks", visit.host.name, "with", fault.value)
            visit.writes(data)
            self._write(number, data)
        return bool(data)

    def _write(self, number: int, data: bytes) -> None:
        self._simulation.fabric.carry(self, Write(number, data))

    # Facts of the network.

    def accept(self, address: str) -> int | None:
        """Refuse a connection, except to a thief."""
        if not self._is_thief:
            return None
        host = next(each for each in self._simulation.hosts if address in each.addresses)
        self._last += 1
        self._visits[self._last] = Visit(host, self._guid, is_thief=True)
        return self._last

    def connected(self, connection: int) -> None:
        self._write(connection, hello(self._visits[connection].guid))

    def data_received(self, connection: int, data: bytes) -> None:
        visit = self._visits[connection]
        was_open = visit.is_open
        answer = visit.answer(data)
        if visit.is_thief and visit.is_open and not was_open:
            self._simulation.marks.sometimes("an attacker that waits to intercept acknowledgments")
        if answer:
            self._write(connection, answer)
        if visit.is_open and not was_open and not visit.was_called:
            self._strike(connection)

    def connection_lost(self, connection: int) -> None:
        self._visits.pop(connection, None)

    def connect_failed(self, connection: int, _reason: str) -> None:
        self._visits.pop(connection, None)

    def writing_paused(self, connection: int) -> None: ...

    def writing_resumed(self, connection: int) -> None: ...

    def datagram_received(self, data: bytes, address: str, port: int) -> None: ...

    def resolved(self, request: int, addresses: tuple[str, ...]) -> None: ...
