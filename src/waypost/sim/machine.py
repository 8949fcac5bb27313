"""A simulated machine: a node and its disk, with the model beside them, and clients that work on it.

The shell around the node is as the daemon's: effects are carried out in their order, the disk writes batches in the
background, `poll` reports them. Here the process ends at any moment; what was written by then is there at the next
start, reported or not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, assert_never

from waypost.clock import Now
from waypost.core.external_transactions import EnlistResourceManager, ReenlistTransaction
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
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
from waypost.node.recovery import Settings
from waypost.node.remote import RemoteReading
from waypost.sim import checks
from waypost.sim.client import Ask, Asker, Client, Result
from waypost.sim.clock import Clock
from waypost.sim.drive import Drive
from waypost.sim.history import History
from waypost.sim.model.enlistments import ABORTED, TIMED_OUT
from waypost.sim.model.letters import Key
from waypost.sim.model.oracle import Oracle
from waypost.sim.model.remote import Remote, RemoteCall
from waypost.sim.swarm import Swarm
from waypost.sim.twins import Twins
from waypost.sim.violation import Violation
from waypost.sim.words import COMPUTER, Existing
from waypost.store.port import Batch

if TYPE_CHECKING:
    from waypost.sim.world import World

# Timers fire a little late, as they do; and never twice at the same time.
_LATE: Final = 0.001
_NEVER: Final = float("inf")

# What is not answered by number, but with a promise about a transaction.
_OF_A_COORDINATOR: Final = ("enlist", "prepare", "commit_prepared", "abort_prepared")


class Machine:
    """`life` counts the starts and the ends: what was planned in an earlier one does not happen."""

    def __init__(self, name: str, world: "World", swarm: Swarm) -> None:
        self.name: Final = name
        self.world: Final = world
        self.swarm: Final = swarm
        rng = self.rng = world.rng
        self.clock: Final = Clock(rng.uniform(0, 1e6), 1.7e9 + rng.uniform(0, 1e6), rng.uniform(0.97, 1.03))
        self.drive: Final = Drive(self)
        lounge = world.lounge
        patience = None if lounge is None else lounge.swarm.patience
        self.oracle: Final = Oracle(
            world.marks, swarm.quota, (swarm.purge_part, swarm.expiry_part), patience, world.bulk_limits
        )
        self.history: Final = History()
        self.clients: Final[list[Client[Machine]]] = []
        self.life = 0
        # The transactions that were in doubt at the last start.
        self.reenlisted: list[bytes] = []
        settings = Settings(COMPUTER, quota=swarm.quota, remote=None if lounge is None else lounge.serving)
        self._twins: Final = Twins(self.drive.store, self.oracle, settings, lambda: rng.randbytes(16))
        self._twins.interval = world.interval
        self._requests: dict[object, tuple[Asker, Ask, int]] = {}
        self._deadline: float | None = None
        self._tick_at = _NEVER
        self._takes_effects_later = False
        self.start()

    @property
    def is_up(self) -> bool:
        return self.life % 2 == 1

    @property
    def starts(self) -> int:
        return (self.life + 1) // 2

    @property
    def now(self) -> Now:
        return self.clock.now(self.world.time)

    def note(self, number: int, *words: object) -> None:
        self.world.trace.note(self.world.time, number, *words)

    def think(self) -> float:
        """Applications leave some time to remote readers, for whom every step is a way there and back."""
        pace = 1 if self.world.lounge is None or self.world.is_healing else 8
        return self.world.rng.random() * 2 * self.swarm.think * pace

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do it if this life lasts so long."""
        self.world.schedule(delay, action, self)

    def add_client(self, client: "Client[Machine]") -> None:
        self.clients.append(client)
        client.start()

    def script_ended(self, client: "Client[Machine]") -> None:
        if not self.world.is_healing:
            client.start()

    # Lives.

    def start(self) -> None:
        now = self.now
        self.life += 1
        self.note(self.starts, self.name, f"starts for the {self.starts}. time")
        self.reenlisted = []
        self._requests.clear()
        self._tick_at = _NEVER
        self._takes_effects_later = False
        self.drive.start()
        self._twins.start(now)
        self._compare(now)
        self._take_effects()
        for client in self.clients:
            client.start()

    def crash(self, why: str) -> None:
        marks = self.world.marks
        self.note(0, self.name, "crashes", why)
        if self.drive.store.pending:
            marks.sometimes("a crash with batches that are not durable")
        if self.oracle.readers.waits:
            marks.sometimes("a crash while clients wait")
        self.drive.store.crash()
        self._end()

    def stop(self) -> None:
        """A clean end: what was begun is written and answered. A disk that is full makes it a crash."""
        life = self.life
        self.world.network.stopping()
        if life == self.life:
            self._take_effects()
        if life == self.life and self.drive.store.full:
            self.crash("at a stop, as the disk is full")
        if life == self.life:
            self.world.marks.sometimes("a clean stop")
            self.note(0, self.name, "stops")
            self._persisted(self.drive.finish())
            self._take_effects()
        if life == self.life:
            self._end()

    def _end(self) -> None:
        """The process is gone; in a while the next one starts."""
        rng = self.world.rng
        self.history.crashed(ask for _, ask, _ in self._requests.values())
        self.life += 1
        self.oracle.crash()
        self.world.network.went_down()
        for client in self.clients:
            client.stop()
        self.drive.clear()
        self.clock.monotonic_offset += rng.uniform(0, 10)
        if rng.random() < 0.3:
            self.clock.wall_offset += rng.uniform(0, 20)
        self.later(rng.uniform(0.01, 0.5), self.start)

    def sealed(self, _batch: Batch) -> None:
        self.oracle.disk.seal()

    def completed(self, count: int) -> None:
        self.oracle.disk.complete(count)

    # Operations and timers.

    def perform(self, client: Asker, ask: Ask) -> Result | None:
        """Have the node and the model do it. The result if it is known at once."""
        now = self.now
        self._tick_if_due(now)
        self.world.operations += 1
        request = self.world.operations
        self.note(request, client.name, request, ask)
        first = ask.arguments[0]
        if type(first) is Existing and first.key not in self.oracle.books.boxes:
            return Result(request, HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        status = self._twins.ask(Call(request, now), ask)
        self._compare(now)
        is_ok = status is HResult.MQ_OK
        if is_ok:
            self._requests[first if ask.name in _OF_A_COORDINATOR else request] = client, ask, request
        else:
            self.history.answered(ask, Result(request, status))
        self._end_turn()
        return None if is_ok and ask.waits else Result(request, status)

    def jump(self) -> None:
        """The clocks are set anew; only that on the wall can go back."""
        rng = self.world.rng
        if rng.random() < 0.3:
            self.clock.monotonic_offset += rng.uniform(0, 5)
        seconds = rng.uniform(-15, 15)
        if seconds < 0:
            self.world.marks.sometimes("a wall clock that went back")
        self.note(0, f"the wall clock of {self.name} jumps by {seconds:.3f} s")
        self.clock.wall_offset += seconds
        self._compare(self.now)

    def _tick_if_due(self, now: Now) -> None:
        if self._deadline is not None and self._deadline <= now.monotonic:
            self._twins.tick(now)
            self._compare(now)

    def _compare(self, now: Now) -> None:
        """After everything that changes node and model: they agree, and wake up in time."""
        deadline = self._deadline = self._twins.compare(now)
        if deadline is not None:
            time = max(self.clock.time_of(deadline), self.world.time) + _LATE
            if time < self._tick_at:
                self._tick_at = time
                self.later(time - self.world.time, lambda: self._on_timer(time))

    def _on_timer(self, time: float) -> None:
        if time != self._tick_at:
            # Another one was earlier, and has done it.
            return
        now = self.now
        self._tick_at = _NEVER
        self._tick_if_due(now)
        # The clocks run apart, so that it may not have been time yet.
        self._compare(now)
        self._end_turn()

    # Effects.

    def report(self) -> None:
        """Poll the store, as the shell does whenever it wakes up."""
        store, node = self.drive.store, self._twins.node
        self._persisted(store.poll())
        node.kernel.trouble, node.kernel.room = store.trouble, store.room
        self.oracle.trouble, self.oracle.is_low = node.kernel.trouble is not None, node.kernel.room.is_low
        if not store.pending and not node.messages.batch.operations:
            checks.check_memory(node)
        self._take_effects()

    def _persisted(self, tokens: list[int]) -> None:
        for token in tokens:
            self._twins.node.persisted(token, self.now)

    def _end_turn(self) -> None:
        """The shell takes the effects now, or lets more come together first."""
        if self.world.rng.random() >= self.swarm.batching:
            self._take_effects()
        elif not self._takes_effects_later:
            self._takes_effects_later = True
            self.later(self.swarm.think, self._take_effects)

    def _take_effects(self) -> None:
        self._takes_effects_later = False
        effects = self._twins.node.take_effects()
        if self.oracle.disk.making and not any(type(effect) is Commit for effect in effects):
            raise Violation("something was changed that has to last, and nothing of it is written")
        life = self.life
        for effect in effects:
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
            case ToCoordinator(ReenlistTransaction(identifier)):
                self.note(identifier[0], "reenlist", identifier.hex()[:8])
                self.reenlisted.append(identifier)
            case ToCoordinator(EnlistResourceManager()):
                pass
            case ToCoordinator(message):
                assert not isinstance(message, EnlistResourceManager | ReenlistTransaction)
                self._tell_coordinator(type(message).__name__, message.transaction)
            case Connect() | Write() | Close() | HoldReading() | Resolve() | SendDatagram() | Notice():
                self.world.network.carry(self, effect)
            case SendChangeNotification() | FindDirectoryServers():
                raise Violation(f"{self.name} wants {effect!r}, and no directory is here")
            case _:
                assert_never(effect)

    def _tell_coordinator(self, message: str, transaction: bytes) -> None:
        expected = self.oracle.expected
        key = message, transaction
        if message == ABORTED and (TIMED_OUT, transaction) in expected:
            key = TIMED_OUT, transaction
        if key in expected and expected[key].is_notice:
            self.note(transaction[0], "the coordinator hears", message, "of", transaction.hex()[:8])
            self._twins.answered(key, HResult.MQ_OK, Ask(message, (transaction,)), None)
        else:
            self._answered(key, HResult.MQ_OK, message)

    def _answered(self, key: Key, status: HResult, value: object) -> None:
        if key not in self.oracle.expected:
            raise Violation(f"request {key} is answered with {status.name}, and no answer was due")
        client, ask, request = self._requests.pop(key[1] if isinstance(key, tuple) else key)
        answer = self._twins.answered(key, status, ask, value)
        self.note(status, client.name, request, "gets", status.name, *answer.letters)
        if answer.needs:
            self.world.marks.sometimes("an answer that waited for its batch")
        result = Result(request, status, value)
        self.history.answered(ask, result)
        if ask.waits:
            client.answered(result)
        self.strike_after_answer()

    def strike_after_answer(self) -> None:
        if self.world.strikes(self.swarm.crash_after_answer):
            self.world.marks.sometimes("a crash right after an answer")
            self.crash("right after an answer")

    # Remote readers.

    @property
    def model(self) -> Remote:
        return self.oracle.remote

    def accept_remote(self, port: int, address: str) -> int | None:
        """The number of the connection."""
        accepted: list[int] = []

        def accept(remote: RemoteReading, now: Now) -> None:
            number = remote.accept(port, address, now)
            if number is not None:
                accepted.append(number)

        life = self.life
        self.tell_remote(accept, lambda model: model.accept(accepted[0], address))
        return accepted[0] if life == self.life else None

    def tell_remote(
        self, tell_node: Callable[[RemoteReading, Now], object], tell_model: Callable[[Remote], None] | None = None
    ) -> None:
        """A fact of a connection, to the node and to the model."""
        now = self.now
        self._tick_if_due(now)
        self._twins.tell(tell_node, tell_model, now)
        self._compare(now)
        self._end_turn()

    def remote_lost(self, connection: int) -> None:
        self.tell_remote(
            lambda remote, now: remote.connection_lost(connection, now), lambda model: model.lost(connection)
        )
        if self.is_up:
            checks.check_states(self._twins.node, self.oracle)
            checks.check_connections(self._twins.node, self.oracle)

    def stop_remote(self) -> None:
        now = self.now
        self._tick_if_due(now)
        self._twins.stop_remote(now)
        self._compare(now)

    def answer_number(self, call: RemoteCall) -> int:
        """Where the answer to a call stands among all answers."""
        answer = self.oracle.expected.get(call.request)
        if answer is None:
            raise Violation(f"{call} is answered, and no answer was due")
        return answer.number

    def remote_answered(self, call: RemoteCall, reply: object) -> None:
        status = getattr(reply, "hresult", HResult.MQ_OK)
        answer = self._twins.remote_answered(call, status, reply)
        self.note(status, call.request, "is answered", f"{status:#x}", *answer.letters)

    def remote_faulted(self, call: RemoteCall, status: int) -> None:
        self._twins.remote_answered(call, status, None)
        self.note(status, call.request, "ends with fault", f"{status:#x}")

    # Healing.

    def heal(self, healer: "Client[Machine]") -> None:
        """Clients go away, whatever they have open; the disk is fine."""
        for client in self.clients:
            client.stop()
        self.clients[:] = [healer]
        self.world.network.heal()
        if self.is_up:
            self.drive.make_room()
            healer.start()

    @property
    def is_healed(self) -> bool:
        return self.is_up and self.clients[0].is_done

    @property
    def unanswered(self) -> str:
        return ", ".join(f"{client.name}'s {ask}" for client, ask, _ in self._requests.values())

    def check_healed(self) -> None:
        """Everything came to its end: the queues are empty, nobody waits, nothing is left in memory or on the disk."""
        oracle, node = self.oracle, self._twins.node
        if oracle.expected or oracle.readers.waits:
            raise Violation(f"everything came to its end, but not {self.unanswered}")
        left = [box.key for box in oracle.books.boxes.values() if box.order]
        if left or oracle.books.total_bytes:
            raise Violation(f"the queues {left} cannot be emptied")
        self._persisted(self.drive.finish())
        checks.check_all(node, oracle, self.now)
        checks.check_store(self.drive.store, oracle)
        checks.check_memory(node)
        checks.check_left_behind(node)
        self.history.drained()
