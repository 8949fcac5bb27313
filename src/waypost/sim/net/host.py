"""A host of a simulated network: others reach it by names and addresses, and its messages are in the ledger."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.node.effects import Close, Connect, Effect, HoldReading, KeyWork, Notice, Resolve, SendDatagram, Write
from waypost.node.network.network import Network
from waypost.node.recovery import Settings
from waypost.node.turns import Work
from waypost.sim.client import Ask, Result
from waypost.sim.clock import Clock
from waypost.sim.host import Host
from waypost.sim.marks import ENDS
from waypost.sim.net import checks
from waypost.sim.net.inbox import Inbox
from waypost.sim.net.key_desk import KeyDesk
from waypost.store.port import Batch
from waypost.wire.ping import PING_PORT

if TYPE_CHECKING:
    from waypost.sim.net.simulation import NetworkSimulation

_WALL: Final = 1.7e9


class NetworkHost(Host["NetworkSimulation"]):
    _inbox: Inbox

    def __init__(self, number: int, simulation: "NetworkSimulation") -> None:
        # Its addresses, and the one from which it connects now.
        self.addresses = simulation.changes.addresses(number)
        self.address = self.addresses[0]
        # Its addresses before it moved.
        self.former: list[str] = []
        rng = simulation.rng
        self.guid: Final = rng.randbytes(16)
        skew, rate = rng.choice(((0.0, 0.0), (3.0, 0.02)))
        clock = Clock(rng.uniform(0, 1e6), _WALL + rng.uniform(-skew, skew), 1 + rng.uniform(-rate, rate))
        super().__init__(simulation.swarm.hosts[number], simulation, clock)
        # The numbers of messages over the network, in all lives before this one, and until the last batch.
        self.received_before = 0
        self.received_at_commit = 0
        # Messages of strangers in this life, which no promise counts.
        self._strange = 0
        self._is_new = True
        self.desk: Final = KeyDesk(
            self, simulation.secrecy, simulation.key_chance, simulation.protection_checks, simulation.key_changes.made
        )

    @property
    def network(self) -> Network:
        assert self.node.network is not None
        return self.node.network

    @property
    def messages_received(self) -> int:
        """The messages in all lives, without those of strangers."""
        return self.received_before + self.network.statistics.messages_received - self._strange

    # Lives.

    def _settings(self) -> Settings:
        simulation, swarm = self.simulation, self.swarm
        return Settings(
            self.name,
            f"{self.name}.example.org",
            frozenset(self.addresses),
            quota=swarm.limits.quota,
            transfer=replace(swarm.sessions.transfer, ack_addresses=simulation.ack_addresses_of(self)),
            routes=simulation.routes_of(self),
            relays=simulation.relays_of(self),
        )

    def _started(self, now: Now) -> None:  # noqa: ARG002
        self._inbox = Inbox(self, self.swarm.sessions.turn, self.simulation.marks)
        self._strange = 0
        self.received_at_commit = self.received_before
        checks.check_start(self.node, self.name, self.simulation.ledger)
        if self.simulation.secrecy.is_on:
            self.desk.started()

    def _new_guid(self) -> bytes:
        """A new GUID. The first is that of the queue manager, which others know from the start."""
        if self._is_new:
            self._is_new = False
            return self.guid
        return super()._new_guid()

    def _crashing(self) -> None:
        if checks.holds_acks(self.node):
            self.simulation.marks.sometimes("an OrderAck lost because of a crash")

    def _close_connections(self) -> None:
        self.network.stop(self.now)

    def _ended(self, asks: Sequence[Ask]) -> None:
        self.received_before = self.messages_received
        self.simulation.ledger.crashed(self.name, asks)

    def _went_down(self) -> None:
        self.simulation.fabric.went_down(self)

    # Operations.

    def _asked(self, ask: Ask, result: Result) -> None:
        if result.is_ok:
            self.simulation.ledger.asked(self.name, ask)

    def moved(self, addresses: list[str], address: str) -> None:
        """Give the host other addresses."""
        self.former.append(self.address)
        self.addresses, self.address = addresses, address
        if self.is_up:
            self.tell(lambda now: self.network.addresses_changed(frozenset(addresses), now))

    # Facts of the network.

    def accept(self, address: str) -> int | None:
        now = self.now
        self._tick_if_due(now)
        number = self.network.accept(address, now)
        if number is not None:
            self.simulation.crowd.accepted(self, number, address)
        self._end_turn(now)
        return number

    def connected(self, connection: int) -> None:
        self.tell(lambda now: self.network.connected(connection, now))

    def connect_failed(self, connection: int, reason: str) -> None:
        self.tell(lambda now: self.network.connect_failed(connection, reason, now))

    def data_received(self, connection: int, data: bytes) -> None:
        """Keep received bytes until the turn of their connection."""
        if self.simulation.crowd.is_stranger(self, connection):
            self.simulation.crowd.heard(self, connection, data)
        self._inbox.came(connection, data)

    def take(self, connection: int, data: bytes, now: Now, most: int) -> Work:
        """Process the turn of a connection. Messages of strangers are counted apart."""
        before = self.messages_received
        work = self.network.data_received(connection, data, now, most)
        if self.simulation.crowd.is_stranger(self, connection):
            self._strange += self.messages_received - before
        return work

    def connection_lost(self, connection: int) -> None:
        self._inbox.lost(connection)
        self.simulation.crowd.connection_lost(self)

    def writing_paused(self, connection: int) -> None:
        self.tell(lambda now: self.network.writing_paused(connection, now))

    def writing_resumed(self, connection: int) -> None:
        self.tell(lambda now: self.network.writing_resumed(connection, now))

    def datagram_received(self, data: bytes, address: str, port: int) -> None:
        """Receive a datagram: from the ping port it answers a request, any other goes to our own ping port."""
        if port == PING_PORT:
            self.tell(lambda now: self.network.ping_answered(data, now))
        else:
            self.tell(lambda now: self.network.datagram_received(data, address, port, now))

    def resolved(self, request: int, addresses: tuple[str, ...]) -> None:
        self.tell(lambda now: self.network.resolved(request, addresses, now))

    # Effects and events.

    def sealed(self, batch: Batch) -> None:
        received = self.messages_received
        self.simulation.ledger.submitted(self.name, batch, self.node, (self.received_at_commit, received))
        self.received_at_commit = received

    def completed(self, count: int) -> None:
        self.simulation.ledger.durable(self.name, count)

    def _reported(self) -> None:
        self._schedule_tick(self.now)

    def _look(self) -> None:
        self.simulation.look_at(self)

    def _taking(self, effects: Sequence[Effect]) -> None:
        if self.simulation.secrecy.is_on:
            self.simulation.protection_checks.taking(self, effects)

    def _work_with_keys(self, effect: KeyWork) -> None:
        if self.simulation.secrecy.is_on:
            self.desk.start(effect)
        else:
            super()._work_with_keys(effect)

    def _carry(self, effect: Connect | Write | Close | HoldReading | Resolve | SendDatagram | Notice) -> None:
        simulation = self.simulation
        match effect:
            case Notice("message damaged"):
                simulation.marks.sometimes("a damaged message set aside")
                return
            case Notice(_, facts):
                reason = str(facts.get("reason", ""))
                if reason in ENDS:
                    simulation.marks.sometimes(ENDS[reason])
                return
            case HoldReading(connection, is_held):
                self._inbox.hold(connection, is_held=is_held)
            case Close(connection):
                self._inbox.forget(connection)
            case Write(connection, data):
                simulation.watch.written((self.name, self.life, connection), self.name, data)
        simulation.fabric.carry(self, effect)

    def _check_answer(self, key: object, ask: Ask, result: Result) -> Sequence[object]:  # noqa: ARG002
        self.simulation.ledger.answered(self.name, ask, result)
        return ()
