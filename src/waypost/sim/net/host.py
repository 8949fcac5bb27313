"""A simulated machine on the network: a node with its disk and its clocks, and applications that work on it.

The shell around the node is as the daemon's: timers that are due come before every fact, effects are carried out in
their order, the disk writes batches in the background.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from waypost.clock import Now
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.errors import StoreError, WaypostError
from waypost.hresult import HResult
from waypost.node.application import Call
from waypost.node.effects import (
    Close,
    Commit,
    Connect,
    Effect,
    Failure,
    HoldReading,
    Notice,
    Reply,
    Resolve,
    SendDatagram,
    ToCoordinator,
    Write,
)
from waypost.node.network.network import Network
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.node.turns import Work
from waypost.sim.client import Ask, Client, Result
from waypost.sim.clock import Clock
from waypost.sim.drive import Drive
from waypost.sim.net import checks
from waypost.sim.net.desk import NetDesk
from waypost.sim.net.inbox import Inbox
from waypost.sim.net.marks import ENDS
from waypost.sim.violation import Violation
from waypost.sim.words import Word
from waypost.store.port import Batch
from waypost.transfer.settings import PING_PORT

if TYPE_CHECKING:
    from random import Random

    from waypost.sim.net.swarm import NetSwarm
    from waypost.sim.net.world import NetWorld

_LATE: Final = 0.001
_NEVER: Final = float("inf")
_WALL: Final = 1.7e9


class Host:
    """`life` counts the starts and the ends: what was planned in an earlier one does not happen."""

    node: Node
    _desk: NetDesk
    _inbox: Inbox

    def __init__(self, number: int, world: "NetWorld") -> None:
        self.world: Final = world
        self.swarm: Final[NetSwarm] = world.swarm
        self.rng: Final[Random] = world.rng
        self.name: Final = self.swarm.hosts[number]
        # Where it can be reached, and from where it connects now.
        self.addresses = world.changes.addresses(number)
        self.address = self.addresses[0]
        # Where it was before it moved.
        self.former: list[str] = []
        rng = self.rng
        self.guid: Final = rng.randbytes(16)
        skew, rate = rng.choice(((0.0, 0.0), (3.0, 0.02)))
        self.clock: Final = Clock(
            rng.uniform(0, 1e6), _WALL + rng.uniform(-skew, skew), 1 + rng.uniform(-rate, rate)
        )  # fmt: skip
        self.drive: Final = Drive(self)
        self.clients: Final[list[Client[Host]]] = []
        self.life = 0
        # How many messages came over the network, in all lives before this one, and until the last batch.
        self.received_before = 0
        self.received_at_commit = 0
        # Those of strangers in this life, which no promise counts.
        self._strange = 0
        self._is_new = True
        self._requests: dict[int, tuple[Client[Host], Ask]] = {}
        self._tick_at = _NEVER
        self._deadline: float | None = None
        self._takes_effects_later = False

    @property
    def is_up(self) -> bool:
        return self.life % 2 == 1

    @property
    def starts(self) -> int:
        return (self.life + 1) // 2

    @property
    def now(self) -> Now:
        return self.clock.now(self.world.time)

    @property
    def network(self) -> Network:
        assert self.node.network is not None
        return self.node.network

    @property
    def messages_received(self) -> int:
        """In all lives, but for those of strangers."""
        return self.received_before + self.network.statistics.messages_received - self._strange

    @property
    def unanswered(self) -> str:
        return ", ".join(f"{client.name}'s {ask}" for client, ask in self._requests.values())

    def note(self, number: int, *words: object) -> None:
        self.world.trace.note(self.world.time, number, *words)

    def think(self) -> float:
        return self.rng.random() * 2 * self.swarm.think

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do it if this life lasts so long."""
        self.world.schedule(delay, action, self)

    def add_client(self, client: "Client[Host]") -> None:
        self.clients.append(client)
        client.start()

    def script_ended(self, client: "Client[Host]") -> None:
        if not self.world.is_healing:
            client.start()

    # Lives.

    def start(self) -> None:
        now = self.now
        self.life += 1
        self.note(self.starts, self.name, f"starts for the {self.starts}. time")
        self._requests.clear()
        self._tick_at = _NEVER
        self._takes_effects_later = False
        self._inbox = Inbox(self, self.swarm.turn, self.world.marks)
        self.drive.start()
        settings = Settings(
            self.name,
            f"{self.name}.example.org",
            frozenset(self.addresses),
            quota=self.swarm.quota,
            transfer=replace(self.swarm.transfer, ack_addresses=self.world.ack_addresses_of(self)),
            routes=self.world.routes_of(self),
            relays=self.world.relays_of(self),
        )
        try:
            self.node = Node(self.drive.store, settings, self._new_guid, now)
        except StoreError as error:
            raise Violation(f"{self.name} does not start on its own store: {error}") from error
        self._desk = NetDesk(self.node)
        self._strange = 0
        self.received_at_commit = self.received_before
        checks.check_start(self.node, self.name, self.world.ledger)
        self._schedule_tick(now)
        self._take_effects()
        for client in self.clients:
            client.start()

    def _new_guid(self) -> bytes:
        """The first one is that of the queue manager, which others know from the start."""
        if self._is_new:
            self._is_new = False
            return self.guid
        return self.rng.randbytes(16)

    def crash(self, why: str) -> None:
        marks = self.world.marks
        self.note(0, self.name, "crashes", why)
        if self.drive.store.pending:
            marks.sometimes("a crash with batches that are not durable")
        if checks.holds_acks(self.node):
            marks.sometimes("an OrderAck lost in a crash")
        self.drive.store.crash()
        self._end()

    def stop(self) -> None:
        """A clean end: sessions close, what was begun is written and answered. A full disk makes it a crash."""
        life = self.life
        self._take_effects()
        if life == self.life and self.drive.store.full:
            self.crash("at a stop, as the disk is full")
        if life == self.life:
            self.world.marks.sometimes("a clean stop")
            self.note(0, self.name, "stops")
            self.network.stop(self.now)
            self._take_effects()
        if life == self.life:
            self._persisted(self.drive.finish())
            self._take_effects()
        if life == self.life:
            # What that led to.
            self.drive.store.crash()
            self._end()

    def _end(self) -> None:
        """The process is gone; in a while the next one starts."""
        rng = self.rng
        self.received_before = self.messages_received
        self.world.ledger.crashed(self.name, [ask for _, ask in self._requests.values()])
        self.life += 1
        self.world.fabric.went_down(self)
        for client in self.clients:
            client.stop()
        self.drive.clear()
        self.clock.monotonic_offset += rng.uniform(0, 10)
        self.later(rng.choice((0.01, 0.5, 3.0)) * rng.random(), self.start)

    # Operations and timers.

    def perform(self, client: "Client[Host]", ask: Ask) -> Result | None:
        """Have the node do it. The result if it is known at once."""
        now = self.now
        self._tick_if_due(now)
        world = self.world
        world.operations += 1
        request = world.operations
        self.note(request, client.name, request, ask)
        arguments = ask.arguments
        status = HResult.MQ_OK
        try:
            arguments = tuple(each.to_engine(self.node) if isinstance(each, Word) else each for each in arguments)
            getattr(self._desk, ask.name)(Call(request, now), *arguments)
        except WaypostError as error:
            status = error.hresult
            self.note(status, client.name, request, "is refused:", error)
        is_ok = status is HResult.MQ_OK
        if is_ok:
            world.ledger.asked(self.name, ask)
            self._requests[request] = client, ask
        self._end_turn()
        return None if is_ok and ask.waits else Result(request, status)

    def jump(self) -> None:
        """The clocks are set anew; only that on the wall can go back. Sequences depend on neither."""
        rng = self.rng
        seconds = rng.uniform(-5, 5)
        if seconds < 0:
            self.world.marks.sometimes("a wall clock that went back")
        self.note(0, f"the wall clock of {self.name} jumps by {seconds:.3f} s")
        self.clock.wall_offset += seconds
        self._end_turn()

    def _tick_if_due(self, now: Now) -> None:
        if self._deadline is not None and self._deadline <= now.monotonic:
            self.node.tick(now)

    def _schedule_tick(self, now: Now) -> None:
        deadline = self._deadline = self.node.next_deadline(now)
        if deadline is not None:
            time = max(self.clock.time_of(deadline), self.world.time) + _LATE
            if time < self._tick_at:
                self._tick_at = time
                self.later(time - self.world.time, self._on_timer)

    def _on_timer(self) -> None:
        self._tick_at = _NEVER
        self._tick_if_due(self.now)
        self._end_turn()

    def moved(self, addresses: list[str], address: str) -> None:
        """The machine has other addresses now."""
        self.former.append(self.address)
        self.addresses, self.address = addresses, address
        if self.is_up:
            self.tell(lambda now: self.network.addresses_changed(frozenset(addresses), now))

    # What the network tells.

    def accept(self, address: str) -> int | None:
        self._tick_if_due(self.now)
        number = self.network.accept(address, self.now)
        if number is not None:
            self.world.crowd.accepted(self, number, address)
        self._end_turn()
        return number

    def connected(self, connection: int) -> None:
        self.tell(lambda now: self.network.connected(connection, now))

    def connect_failed(self, connection: int, reason: str) -> None:
        self.tell(lambda now: self.network.connect_failed(connection, reason, now))

    def data_received(self, connection: int, data: bytes) -> None:
        """What has come waits for the turn of its connection."""
        if self.world.crowd.is_stranger(self, connection):
            self.world.crowd.heard(self, connection, data)
        self._inbox.came(connection, data)

    def take(self, connection: int, data: bytes, now: Now, most: int) -> Work:
        """The turn of the connection has come. Messages of strangers are counted apart."""
        before = self.messages_received
        work = self.network.data_received(connection, data, now, most)
        if self.world.crowd.is_stranger(self, connection):
            self._strange += self.messages_received - before
        return work

    def connection_lost(self, connection: int) -> None:
        self._inbox.lost(connection)
        self.world.crowd.connection_lost(self)

    def writing_paused(self, connection: int) -> None:
        self.tell(lambda now: self.network.writing_paused(connection, now))

    def writing_resumed(self, connection: int) -> None:
        self.tell(lambda now: self.network.writing_resumed(connection, now))

    def datagram_received(self, data: bytes, address: str, port: int) -> None:
        """What comes from the ping port answers a request; everything else comes to our own ping port."""
        if port == PING_PORT:
            self.tell(lambda now: self.network.ping_answered(data, now))
        else:
            self.tell(lambda now: self.network.datagram_received(data, address, port, now))

    def resolved(self, request: int, addresses: tuple[str, ...]) -> None:
        self.tell(lambda now: self.network.resolved(request, addresses, now))

    def tell(self, fact: Callable[[Now], object]) -> None:
        now = self.now
        self._tick_if_due(now)
        fact(now)
        self._end_turn()

    # Effects.

    def sealed(self, batch: Batch) -> None:
        received = self.messages_received
        self.world.ledger.submitted(self.name, batch, self.node, (self.received_at_commit, received))
        self.received_at_commit = received

    def completed(self, count: int) -> None:
        self.world.ledger.durable(self.name, count)

    def report(self) -> None:
        """Poll the store, as the shell does whenever it wakes up."""
        store, node = self.drive.store, self.node
        tokens = store.poll()
        node.kernel.trouble, node.kernel.room = store.trouble, store.room
        self._persisted(tokens)
        self._schedule_tick(self.now)
        self._take_effects()

    def _persisted(self, tokens: list[int]) -> None:
        for token in tokens:
            self.node.persisted(token, self.now)

    def _end_turn(self) -> None:
        """The shell takes the effects now, or lets more come together first."""
        self.world.look_at(self)
        self._schedule_tick(self.now)
        if self.rng.random() >= self.swarm.batching:
            self._take_effects()
        elif not self._takes_effects_later:
            self._takes_effects_later = True
            self.later(self.swarm.think / 10, self._take_effects)

    def _take_effects(self) -> None:
        self._takes_effects_later = False
        life = self.life
        for effect in self.node.take_effects():
            self._carry_out(effect)
            if life != self.life:
                return

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Reply(request, value):
                self._answered(request, HResult.MQ_OK, value)
            case Commit(batch, token):
                self.drive.submit(batch, token)
            case Failure(request, error):
                self._answered(request, error.hresult, None)
            case ToCoordinator():
                # There are no external transactions here.
                pass
            case Notice("message damaged"):
                self.world.marks.sometimes("a damaged message set aside")
            case Notice(_, facts):
                self._mark_end(str(facts.get("reason", "")))
            case HoldReading(connection, is_held):
                self._inbox.hold(connection, is_held=is_held)
                self.world.fabric.carry(self, effect)
            case Close(connection):
                self._inbox.forget(connection)
                self.world.fabric.carry(self, effect)
            case Write(connection, data):
                self.world.watch.written((self.name, self.life, connection), self.name, data)
                self.world.fabric.carry(self, effect)
            case Connect() | Resolve() | SendDatagram():
                self.world.fabric.carry(self, effect)
            case SendChangeNotification() | FindDirectoryServers():
                raise Violation(f"{self.name} wants {effect!r}, and no directory is here")
            case _:
                assert_never(effect)

    def _mark_end(self, reason: str) -> None:
        if reason in ENDS:
            self.world.marks.sometimes(ENDS[reason])

    def _answered(self, request: int, status: HResult, value: object) -> None:
        asked = self._requests.pop(request, None)
        if asked is None:
            raise Violation(f"request {request} of {self.name} is answered with {status.name}, and no answer was due")
        client, ask = asked
        result = Result(request, status, value)
        self.note(status, client.name, request, "gets", status.name)
        self.world.ledger.answered(self.name, ask, result)
        if ask.waits:
            client.answered(result)
        if self.world.strikes(self.swarm.crash_after_answer):
            self.world.marks.sometimes("a crash right after an answer")
            self.crash("right after an answer")

    # Healing.

    def heal(self, healer: "Client[Host]") -> None:
        """Applications go away, whatever they have open; the disk is fine."""
        for client in self.clients:
            client.stop()
        self.clients[:] = [healer]
        if self.is_up:
            self.drive.make_room()
            healer.start()
