"""A faulty network between simulated machines: names, connections, datagrams, and partitions.

It carries out what nodes ask of their shell (`Connect`, `Write`, `Close`, `Resolve`, `SendDatagram`) and tells machines
the facts of `Node.network` in events of the world. When the world heals, nothing is cut off and nothing new breaks; a
connection that fell silent before stays silent, as those at its ends have to find out.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from waypost.node.effects import Close, Connect, HoldReading, Resolve, SendDatagram, Write
from waypost.sim.faults import Faults
from waypost.sim.network import Endpoint, Surroundings
from waypost.sim.violation import Violation
from waypost.sim.wires import Wires
from waypost.transfer.settings import PING_PORT

# An address of the right form where nobody lives.
NOWHERE: Final = "192.0.2.1"

_FIRST_PORT: Final = 49152

E = TypeVar("E", bound=Endpoint)


class Fabric(Generic[E]):
    """All machines can reach each other, but for the faults."""

    def __init__(self, world: Surroundings[E], faults: Faults) -> None:
        self._world: Final = world
        self._faults: Final = faults
        self._machines: Final[list[E]] = []
        self._by_address: Final[dict[str, E]] = {}
        self._hosts: Final[dict[str, tuple[str, ...]]] = {}
        # Until when the machines with these two names are cut off from each other.
        self._cut_until: Final[dict[frozenset[str], float]] = {}
        self._last_port = _FIRST_PORT
        self.wires: Final[Wires[E]] = Wires(world, faults, self._by_address.get, self._held_until)

    def add(self, machine: E, *hosts: str) -> None:
        """A machine, and the names by which others find its address."""
        self._machines.append(machine)
        self._by_address[machine.address] = machine
        self._hosts.update((host.casefold(), (machine.address,)) for host in hosts)

    def went_down(self, machine: E) -> None:
        """To be told whenever the process of a machine ends."""
        self.wires.went_down(machine)

    def strike(self) -> None:
        """With each operation, perhaps, two machines are cut off from each other for a while."""
        if len(self._machines) > 1 and self._world.strikes(self._faults.partition):
            one, other = self._world.rng.sample(self._machines, 2)
            self.cut(one, other, self._world.rng.uniform(0.1, 5.0))

    def cut(self, one: E, other: E, seconds: float) -> None:
        one.note(0, one.name, "and", other.name, f"are cut off for {seconds:.3f} s")
        self._cut_until[frozenset((one.name, other.name))] = self._world.time + seconds

    def carry(self, machine: E, effect: object, /) -> None:
        match effect:
            case Connect(connection, address):
                self.wires.connect(machine, connection, address)
            case Write(connection, data):
                self.wires.write(machine, connection, data)
            case Close(connection):
                self.wires.close(machine, connection)
            case HoldReading(connection, is_held):
                self.wires.hold(machine, connection, is_held=is_held)
            case Resolve(request, host):
                self._later(machine, lambda: self._resolve(machine, request, host))
            case SendDatagram(data, address):
                self._send(machine, data, address, self._new_port() if effect.is_request else PING_PORT)
            case _:
                raise Violation(f"{machine.name} wants {effect!r}, which no network carries")

    def _resolve(self, machine: E, request: int, host: str) -> None:
        world = self._world
        addresses = self._hosts.get(host.casefold(), ())
        if world.strikes(self._faults.unknown_host):
            addresses = ()
        elif addresses and world.strikes(self._faults.stale_address):
            addresses = (NOWHERE, *addresses)
        machine.note(request, machine.name, "finds", host, "at", *addresses)
        machine.resolved(request, addresses)

    def _send(self, machine: E, data: bytes, address: str, port: int) -> None:
        target = self._by_address.get(address)
        if target is None or self._world.strikes(self._faults.datagram_loss):
            return
        for _ in range(2 if self._world.strikes(self._faults.datagram_copy) else 1):
            self._later(target, lambda: self._receive(target, data, machine, port))

    def _receive(self, target: E, data: bytes, source: E, port: int) -> None:
        if target.is_up and self._held_until(source, target) <= self._world.time:
            target.note(len(data), "a datagram from", source.name, "to", target.name)
            target.datagram_received(data, source.address, port)

    def _held_until(self, one: E, other: E) -> float:
        if self._world.is_healing:
            return 0.0
        return self._cut_until.get(frozenset((one.name, other.name)), 0.0)

    def _later(self, machine: E, action: Callable[[], None]) -> None:
        self._world.schedule(self._world.rng.random() * 2 * self._faults.latency, action, machine)

    def _new_port(self) -> int:
        """A request is sent from a port of its own."""
        self._last_port += 1
        return self._last_port
