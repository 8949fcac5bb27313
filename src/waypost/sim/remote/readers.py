"""The connections between remote readers and the node: its ports, and a watch on the PDUs that pass.

The model gets everything that arrives at the node, in the same operation; output of the node is compared with that
of the model, and with the durable state, before it is on the wire.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from waypost.node.effects import Close, HoldReading, Write
from waypost.node.remote_reading import RemoteServing
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT, RemoteSettings
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.interface import decode_reply
from waypost.rpc.settings import RpcSettings
from waypost.sim.model.remote import ModelRemote, RemoteCall
from waypost.sim.remote.links import Link
from waypost.sim.remote.pdus import Kind, Pdu, take_pdus
from waypost.sim.remote.reader import Reader
from waypost.sim.remote.scripts import SCRIPTS
from waypost.sim.remote.terminal import Port, Terminal
from waypost.sim.swarm import ReaderRates
from waypost.sim.violation import Violation
from waypost.sim.wires import Wires

if TYPE_CHECKING:
    from waypost.sim.local.host import LocalHost
    from waypost.sim.local.simulation import LocalSimulation


@dataclass(slots=True)
class Served:
    """A connection on the side of the node: its peer, incomplete PDUs, and open calls."""

    port: Port
    incoming: bytearray = field(default_factory=bytearray)
    stub: bytearray = field(default_factory=bytearray)
    calls: dict[int, RemoteCall] = field(default_factory=dict)
    last_answer: int = 0


class RemoteReaders:
    """Everything between the node and its remote readers."""

    host: "LocalHost"

    def __init__(self, simulation: "LocalSimulation", drawn: ReaderRates) -> None:
        self.simulation: Final = simulation
        self.drawn: Final = drawn
        self.readers: Final[list[Reader]] = []
        self._terminals: Final[dict[str, Terminal]] = {}
        self._served: Final[dict[int, Served]] = {}
        self.wires: Final[Wires[Terminal]] = Wires(
            simulation, simulation.swarm.network, self._terminals.get, lambda _one, _other: 0.0
        )

    @property
    def serving(self) -> RemoteServing:
        """Settings of the node's server: any client is the local administrator; the simulation is the coordinator."""
        settings = RemoteSettings(
            pending_request_timeout_s=self.drawn.pending_request_s,
            transaction_timeout_s=self.drawn.enlistment_s,
            min_auth_level=AuthLevel.NONE,
            allows_nonauthenticated_rpc=True,
        )
        rpc = RpcSettings(AuthLevel.NONE, max_fragment=self.drawn.max_fragment)
        return RemoteServing(settings, rpc, is_own_account=True, has_coordinator=True)

    def open(self, host: "LocalHost") -> None:
        self.host = host
        for number in (REMOTE_READ_PORT, QM2QM_PORT):
            port = Port(self, host, number)
            self._terminals[port.address] = port
        for number, name in enumerate(self.drawn.scripts, 1):
            reader = Reader(self, f"remote {name}{number}", f"10.0.0.{number}", SCRIPTS[name])
            self.readers.append(reader)
            # The queues do not exist yet.
            self.simulation.schedule(self.simulation.rng.uniform(0.1, 0.5), reader.start, reader)
        self._keep_alive()

    # Output of the node.

    def carry(self, host: "LocalHost", effect: object, /) -> None:
        match effect:
            case Write(connection, data):
                served = self._served.get(connection)
                if served is not None:
                    # The node owes no answer after it has closed a connection.
                    if host.remote_model.is_open(connection):
                        for pdu in take_pdus(bytearray(data)):
                            self._check(connection, served, pdu)
                    self.wires.write(served.port, connection, data)
                    host.strike_after_answer()
            case Close(connection):
                served = self._served.pop(connection, None)
                if served is not None:
                    self.wires.close(served.port, connection)
            case HoldReading():
                # The wires keep what is not read.
                pass
            case _:
                raise Violation(f"{host.name} requests {effect!r}, but remote readers do not support this effect")

    def went_down(self) -> None:
        self._served.clear()
        for terminal in self._terminals.values():
            if isinstance(terminal, Port):
                self.wires.went_down(terminal)
        for reader in self.readers:
            reader.host_went_down()

    def heal(self) -> None:
        """End the readers; sooner or later the node detects that."""
        for reader in self.readers:
            reader.stop()
        self.wires.find_dead()

    def _check(self, connection: int, served: Served, pdu: Pdu) -> None:
        match pdu.kind:
            case Kind.BIND_ACK:
                self.host.remote_model.bound(connection, pdu.group_id)
            case Kind.BIND_NAK:
                raise Violation(
                    f"expected the bind on connection {-connection} to be accepted, but the node refused the bind"
                )
            case Kind.RESPONSE:
                served.stub += pdu.stub
                if pdu.is_last:
                    stub, served.stub = bytes(served.stub), bytearray()
                    call = self._answered(connection, served, pdu)
                    method = call.interface.methods[call.opnum]
                    link = self._link(served, connection)
                    reply = decode_reply(method, stub, link.syntax_of(call.interface))
                    self.host.remote_answered(call, reply)
            case Kind.FAULT:
                self.host.remote_faulted(self._answered(connection, served, pdu), pdu.status)
            case _:
                raise Violation(f"expected an answer to a remote reader, but the node sent {pdu.kind.name}")

    def _answered(self, connection: int, served: Served, pdu: Pdu) -> RemoteCall:
        call = served.calls.pop(pdu.call_id, None)
        if call is None:
            raise Violation(
                f"the node answered call {pdu.call_id} on connection {-connection}, but no reader has made this call"
            )
        number = self.host.answer_number(call)
        if number < served.last_answer:
            raise Violation(f"the answer to {call} comes before the answer to an earlier call")
        served.last_answer = number
        return call

    # Input of the node.

    def accept(self, port: Port, address: str) -> int | None:
        number = self.host.accept_remote(port.number, address)
        if number is not None:
            self._served[number] = Served(port)
        return number

    def heard(self, connection: int, data: bytes) -> None:
        served = self._served.get(connection)
        if served is None or not self.host.remote_model.is_open(connection):
            return
        link = self._link(served, connection)
        served.incoming += data
        pdus = list(take_pdus(served.incoming))
        calls = {pdu.call_id: self._call(connection, served, link, pdu) for pdu in pdus if _is_request(pdu)}

        def tell(model: ModelRemote) -> None:
            if not model.is_open(connection):
                # Its time to bind has just ended.
                return
            for pdu in pdus:
                match pdu.kind:
                    case Kind.BIND:
                        model.bind(connection, pdu.group_id)
                    case Kind.REQUEST if pdu.is_last:
                        model.call(calls[pdu.call_id])
                    case Kind.CO_CANCEL:
                        model.cancel(connection, pdu.call_id)
                    case Kind.ORPHANED if model.orphan(connection, pdu.call_id):
                        del served.calls[pdu.call_id]

        self.host.tell_remote(lambda remote, now: remote.data_received(connection, data, now), tell)

    def lost(self, connection: int) -> None:
        del self._served[connection]
        if self.host.remote_model.is_open(connection):
            self.host.remote_lost(connection)

    def _call(self, connection: int, served: Served, link: Link, pdu: Pdu) -> RemoteCall:
        simulation = self.simulation
        simulation.operations += 1
        line = self.host.remote_model.line(connection)
        asked = link.asked[pdu.call_id]
        call = RemoteCall(simulation.operations, line, pdu.call_id, asked.interface, asked.opnum, asked.request)
        served.calls[pdu.call_id] = call
        self.host.note(call.request, link.name, call.request, "asks", call)
        return call

    def _link(self, served: Served, connection: int) -> Link:
        reader, number = self.wires.peer(served.port, connection)
        assert isinstance(reader, Reader)
        return reader.links[number]

    def _keep_alive(self) -> None:
        """Both sides look for dead connections now and then, as TCP does."""
        self.wires.find_dead()
        self.simulation.schedule(self.drawn.keep_alive, self._keep_alive, _ALWAYS)


class _Always:
    """Stand-in for objects without starts and ends."""

    life = 1


_ALWAYS: Final = _Always()


def _is_request(pdu: Pdu) -> bool:
    return pdu.kind is Kind.REQUEST and pdu.is_last
