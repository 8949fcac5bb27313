"""A faulty network between simulated endpoints: names, connections, datagrams, and partitions.

It carries out the effects of nodes (`Connect`, `Write`, `Close`, `Resolve`, `SendDatagram`), and endpoints get the
facts of `Node.network` in events of the simulation. During healing nothing is cut off, and nothing new breaks;
a connection that fell silent before stays silent, and its ends have to detect that.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from waypost.node.effects import Close, Connect, HoldReading, Resolve, SendDatagram, Write
from waypost.sim.faults import Faults
from waypost.sim.network import Endpoint, Surroundings
from waypost.sim.violation import Violation
from waypost.sim.wires import Wires
from waypost.wire.ping import PING_PORT

# A well-formed address without a host.
NOWHERE: Final = "192.0.2.1"

_FIRST_PORT: Final = 49152

E = TypeVar("E", bound=Endpoint)


class Fabric(Generic[E]):
    """The network: all endpoints can reach each other, except for the faults."""

    def __init__(self, simulation: Surroundings[E], faults: Faults) -> None:
        self._simulation: Final = simulation
        self._faults: Final = faults
        self._endpoints: Final[list[E]] = []
        self._by_address: Final[dict[str, E]] = {}
        self._hosts: Final[dict[str, tuple[str, ...]]] = {}
        self._known: Final[set[str]] = set()
        # The time until which the two endpoints with these names are cut off from each other.
        self._cut_until: Final[dict[frozenset[str], float]] = {}
        self._last_port = _FIRST_PORT
        self.wires: Final[Wires[E]] = Wires(simulation, faults, self._by_address.get, self._held_until)

    def add(self, endpoint: E, *hosts: str, addresses: Sequence[str] = ()) -> None:
        """Add an endpoint, and the names by which others find its addresses. Default: one new address."""
        addresses = addresses or (endpoint.address,)
        self._endpoints.append(endpoint)
        self._by_address.update((address, endpoint) for address in addresses)
        self._known.update(addresses)
        self._hosts.update((host.casefold(), tuple(addresses)) for host in hosts)

    def move(self, endpoint: E, address: str, moved: str) -> None:
        """Replace an address of an endpoint. Connections do not move with it."""
        del self._by_address[address]
        self._by_address[moved] = endpoint
        self._known.add(moved)
        for host, addresses in self._hosts.items():
            self._hosts[host] = tuple(moved if each == address else each for each in addresses)
        self.wires.break_all(endpoint)

    def lodge(self, endpoint: E) -> None:
        """Add an endpoint without a name, which is never cut off."""
        self._by_address[endpoint.address] = endpoint

    def went_down(self, endpoint: E) -> None:
        """Note that the process of an endpoint has ended."""
        self.wires.went_down(endpoint)

    def is_known(self, host: str) -> bool:
        """Whether a named endpoint has this name, or has or had this address."""
        return host.casefold() in self._hosts or host in self._known

    def strike(self) -> None:
        """Perhaps cut two endpoints off from each other for a while; called with each operation."""
        if len(self._endpoints) > 1 and self._simulation.strikes(self._faults.partition):
            one, other = self._simulation.rng.sample(self._endpoints, 2)
            self.cut(one, other, self._simulation.rng.uniform(0.1, 5.0))

    def cut(self, one: E, other: E, seconds: float) -> None:
        one.note(0, one.name, "and", other.name, f"are cut off for {seconds:.3f} s")
        self._cut_until[frozenset((one.name, other.name))] = self._simulation.time + seconds

    def carry(self, endpoint: E, effect: object, /) -> None:
        match effect:
            case Connect(connection, address):
                self.wires.connect(endpoint, connection, address)
            case Write(connection, data):
                self.wires.write(endpoint, connection, data)
            case Close(connection):
                self.wires.close(endpoint, connection)
            case HoldReading(connection, is_held):
                self.wires.hold(endpoint, connection, is_held=is_held)
            case Resolve(request, host):
                self._later(endpoint, lambda: self._resolve(endpoint, request, host))
            case SendDatagram(data, address):
                self._send(endpoint, data, address, self._new_port() if effect.is_request else PING_PORT)
            case _:
                raise Violation(
                    f"{endpoint.name} requests {effect!r}, but the simulated network does not support this effect"
                )

    def _resolve(self, endpoint: E, request: int, host: str) -> None:
        simulation = self._simulation
        addresses = self._hosts.get(host.casefold(), ())
        if simulation.strikes(self._faults.unknown_host):
            addresses = ()
        elif addresses and simulation.strikes(self._faults.stale_address):
            addresses = (NOWHERE, *addresses)
        endpoint.note(request, endpoint.name, "finds", host, "at", *addresses)
        endpoint.resolved(request, addresses)

    def _send(self, endpoint: E, data: bytes, address: str, port: int) -> None:
        target = self._by_address.get(address)
        if target is None or self._simulation.strikes(self._faults.datagram_loss):
            return
        for _ in range(2 if self._simulation.strikes(self._faults.datagram_copy) else 1):
            self._later(target, lambda: self._receive(target, data, endpoint, port))

    def _receive(self, target: E, data: bytes, source: E, port: int) -> None:
        if target.is_up and self._held_until(source, target) <= self._simulation.time:
            target.note(len(data), "a datagram from", source.name, "to", target.name)
            target.datagram_received(data, source.address, port)

    def _held_until(self, one: E, other: E) -> float:
        if self._simulation.is_healing:
            return 0.0
        return self._cut_until.get(frozenset((one.name, other.name)), 0.0)

    def _later(self, endpoint: E, action: Callable[[], None]) -> None:
        self._simulation.schedule(self._simulation.rng.random() * 2 * self._faults.latency, action, endpoint)

    def _new_port(self) -> int:
        """A separate port for each request."""
        self._last_port += 1
        return self._last_port
