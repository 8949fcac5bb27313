"""A simulated machine: a node and its disk, with the model beside them, and clients that work on it.

The shell around the node is as the daemon's: effects are carried out in their order, the disk writes batches in the
background and in order, `poll` reports them. Here the disk is slow, full for a while, and the process ends at any
moment; what was written by then is there at the next start, reported or not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.external_transactions import EnlistResourceManager, ReenlistTransaction
from waypost.core.message import Message
from waypost.errors import StoreError, WaypostError
from waypost.hresult import HResult
from waypost.node.application import Call
from waypost.node.effects import Commit, Effect, Failure, Reply, ToCoordinator
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.sim import checks
from waypost.sim.client import Ask, Client, Result
from waypost.sim.clock import Clock
from waypost.sim.desk import Desk
from waypost.sim.history import History
from waypost.sim.model.letters import SEQUENCE, Key, Refused
from waypost.sim.model.oracle import Oracle
from waypost.sim.swarm import Swarm
from waypost.sim.trace import batch_number
from waypost.sim.violation import Violation
from waypost.sim.words import COMPUTER, Existing, Word
from waypost.store.memory import MemoryStore

if TYPE_CHECKING:
    from waypost.sim.world import World

# Timers fire a little late, as they do; and never twice at the same time.
_LATE: Final = 0.001


class Machine:
    """`life` counts the starts and the ends: what was planned in an earlier one does not happen."""

    def __init__(self, name: str, world: "World", swarm: Swarm) -> None:
        self.name: Final = name
        self.world: Final = world
        self.swarm: Final = swarm
        rng = world.rng
        self.clock: Final = Clock(rng.uniform(0, 1e6), 1.7e9 + rng.uniform(0, 1e6), rng.uniform(0.97, 1.03))
        self.store: Final = MemoryStore()
        self.oracle: Final = Oracle(world.marks, swarm.quota, swarm.purge_part)
        self.history: Final = History()
        self.clients: Final[list[Client]] = []
        self.life = 0
        self.is_up = False
        self.reenlisted: list[bytes] = []
        self._highest: Final = checks.Counters()
        self._requests: dict[object, tuple[Client, Ask, int]] = {}
        self._disk_works = False
        self._tick_at = float("inf")
        self._deadline: float | None = None
        self._flush_planned = False
        self.start()

    @property
    def lives(self) -> int:
        """How often it was started."""
        return (self.life + 1) // 2

    @property
    def now(self) -> Now:
        return self.clock.now(self.world.time)

    def note(self, *words: object, number: int = 0) -> None:
        self.world.trace.note(self.world.time, *words, number=number)

    def think(self) -> float:
        return self.world.rng.random() * 2 * self.swarm.think

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do it if this life lasts so long."""
        life = self.life

        def act() -> None:
            if life == self.life:
                action()

        self.world.schedule(delay, act)

    def add_client(self, client: Client) -> None:
        self.clients.append(client)
        client.start()

    def script_ended(self, client: Client) -> None:
        if not self.world.is_healing:
            client.start()

    # Lives.

    def start(self) -> None:
        checks.check_store(self.store, self.oracle)
        now = self.now
        settings = Settings(COMPUTER, quota=self.swarm.quota)
        self.life += 1
        self.is_up = True
        self.reenlisted = []
        self._requests.clear()
        self._disk_works = self._flush_planned = False
        self._tick_at = float("inf")
        self._deadline = None
        try:
            self.node = Node(self.store, settings, lambda: self.world.rng.randbytes(16), now)
        except StoreError as error:
            raise Violation(f"the queue manager does not start on its own store: {error}") from error
        self.desk = Desk(self.node)
        counters = checks.stored_counters(self.store)
        self.note(f"{self.name} starts, life {self.lives}")
        self._highest.number = self.oracle.disk.highest_box
        checks.check_counters(counters, self._highest)
        if not self.oracle.disk.boxes:
            self.oracle.begin(now)
            self.oracle.first_start(checks.own_queues(self.node))
            self.oracle.books.sequential_id = 0
            self.oracle.books.last_number = self.node.manager.last_number
            self.oracle.end()
        else:
            self.oracle.start(counters.sequential_id, counters.number, now)
        checks.check_all(self.node, self.oracle, now)
        self._settle(now)
        self.flush()
        for client in self.clients:
            client.start()

    def crash(self, why: str) -> None:
        marks = self.world.marks
        self.note(f"{self.name} crashes {why}")
        if self.store.pending:
            marks.sometimes("a crash with batches that are not durable")
        if self.oracle.readers.waits:
            marks.sometimes("a crash while clients wait")
        self.history.crashed(ask for _, ask, _ in self._requests.values())
        self._end()
        self.store.crash()
        self._plan_start()

    def stop(self) -> None:
        """A clean end: what was begun is written and answered. A disk that is full makes it a crash."""
        self.flush()
        if not self.is_up:
            return
        if self.store.full:
            self.crash("at a stop, as the disk is full")
            return
        self.world.marks.sometimes("a clean stop")
        self.note(f"{self.name} stops")
        life = self.life
        self.oracle.disk.complete(self.store.pending)
        for token in self.store.close():
            self.node.persisted(token)
        for effect in self.node.take_effects():
            self._carry_out(effect)
            if life != self.life:
                return
        self.history.crashed(ask for _, ask, _ in self._requests.values())
        self._end()
        self._plan_start()

    def _end(self) -> None:
        self.is_up = False
        self.life += 1
        self.oracle.crash()
        for client in self.clients:
            client.stop()

    def _plan_start(self) -> None:
        self.store.full = False
        self.clock.monotonic_offset += self.world.rng.uniform(0, 10)
        if self.world.rng.random() < 0.3:
            self.clock.wall_offset += self.world.rng.uniform(0, 20)
        self.world.schedule(self.world.rng.uniform(0.01, 0.5), self.start)

    # Operations.

    def perform(self, client: Client, ask: Ask) -> Result | None:
        """Have the node and the model do it. The result if it is known at once."""
        now = self.now
        self._tick_if_due(now)
        self.world.operations += 1
        request = self.world.new_request()
        self.note(client.name, request, ask, number=request)
        first = ask.arguments[0]
        if type(first) is Existing and first.key not in self.oracle.books.boxes:
            return Result(request, HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        call = Call(request, now)
        status = self._ask_node(call, ask)
        due = self._ask_oracle(call, ask)
        if status is not due:
            raise Violation(f"{client.name}'s {ask} ended with {status.name}, and {due.name} was due")
        self._settle(now)
        result: Result | None = None
        if status is not HResult.MQ_OK or not ask.waits:
            result = Result(request, status)
        if status is HResult.MQ_OK:
            # A coordinator is not answered by number, but with a promise about its transaction.
            identifier = ask.arguments[0] if ask.name in _OF_A_COORDINATOR else request
            self._requests[identifier] = client, ask, request
        self._end_turn()
        return result

    def _ask_node(self, call: Call, ask: Ask) -> HResult:
        node = self.node
        arguments = [each.to_engine(node) if isinstance(each, Word) else each for each in ask.arguments]
        try:
            getattr(self.desk, ask.name)(call, *arguments, **ask.options)
        except WaypostError as error:
            return error.hresult
        return HResult.MQ_OK

    def _ask_oracle(self, call: Call, ask: Ask) -> HResult:
        self.oracle.begin(call.now)
        try:
            getattr(self.oracle, ask.name)(call, *ask.arguments, **ask.options)
        except Refused as refused:
            return refused.status
        finally:
            self.oracle.end()
        return HResult.MQ_OK

    def _tick_if_due(self, now: Now) -> None:
        if self._deadline is not None and self._deadline <= now.monotonic:
            self.node.tick(now)
            self.oracle.tick(now)
            self._settle(now)

    def _settle(self, now: Now) -> None:
        """Node and model have done the same: they must be the same, and wake up at the same time."""
        checks.check_touched(self.node, self.oracle)
        deadline = self._deadline = self.oracle.next_deadline(now)
        # It is the same most of the time, and asking takes some.
        if self.world.operations % 4 == 0:
            checks.check_deadline(self.node, deadline, now)
        if deadline is not None:
            time = max(self.clock.time_of(deadline), self.world.time) + _LATE
            if time < self._tick_at:
                self._tick_at = time
                self.later(time - self.world.time, self._on_tick)

    def _on_tick(self) -> None:
        now = self.now
        self._tick_at = float("inf")
        self._tick_if_due(now)
        # The clocks run apart, so that it may not have been time yet.
        self._settle(now)
        self._end_turn()

    # Effects.

    def _end_turn(self) -> None:
        """The shell takes the effects now, or lets more come together first."""
        if self.world.rng.random() >= self.swarm.batching:
            self.flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self.later(self.swarm.think, self.flush)

    def flush(self) -> None:
        self._flush_planned = False
        if not self.is_up:
            return
        effects = self.node.take_effects()
        if self.oracle.disk.changes and not any(type(effect) is Commit for effect in effects):
            raise Violation("something was changed that has to last, and nothing of it is written")
        life = self.life
        for effect in effects:
            self._carry_out(effect)
            if life != self.life:
                return

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit(batch, token):
                self.note("commit", token, number=batch_number(batch))
                self.oracle.disk.seal()
                self.store.submit(batch, token)
                self._work_disk()
            case Reply(request, value):
                self._answered(request, HResult.MQ_OK, value)
            case Failure(request, error):
                self._answered(request, error.hresult, None)
            case ToCoordinator(ReenlistTransaction(identifier)):
                self.note(f"reenlist {identifier.hex()[:8]}")
                self.reenlisted.append(identifier)
            case ToCoordinator(EnlistResourceManager()):
                pass
            case ToCoordinator(message):
                assert not isinstance(message, EnlistResourceManager | ReenlistTransaction)
                self._answered((type(message).__name__, message.transaction), HResult.MQ_OK, None)
            case _:
                self.world.network.carry(self, effect)

    def _answered(self, key: Key, status: HResult, value: object) -> None:
        answer = self.oracle.expected.pop(key, None)
        if answer is None:
            raise Violation(f"request {key} is answered with {status.name}, and no answer was due")
        client, ask, request = self._requests.pop(key[1] if isinstance(key, tuple) else key)
        self.note(client.name, request, "gets", status.name, *answer.letters, number=status)
        if status is not answer.status:
            raise Violation(f"{client.name}'s {ask} ended with {status.name}, and {answer.status.name} was due")
        if status is HResult.MQ_OK:
            checks.check_durable(ask, answer, self.oracle)
            checks.check_value(ask, answer, value)
            if answer.learn is not None and isinstance(value, int):
                answer.learn(value)
            if isinstance(value, Message):
                self._told(value)
            elif isinstance(value, list):
                for message in value:
                    self._told(message)
            if answer.needs:
                self.world.marks.sometimes("an answer that waited for its batch")
        self.history.answered(ask, Result(request, status, value))
        if ask.waits:
            client.answered(Result(request, status, value))
        if self.world.strikes(self.swarm.crash_after_answer):
            self.world.marks.sometimes("a crash right after an answer")
            self.crash("right after an answer")

    def _told(self, message: Message) -> None:
        """Numbers that somebody knows are never given again."""
        self._highest.sequential_id = max(self._highest.sequential_id, message.lookup_identifier & SEQUENCE)
        # One that was not decoded yet stays so: that costs more than all else here.
        if type(message) is Message:
            self._highest.ordinal = max(self._highest.ordinal, message.identifier.ordinal)

    # The disk.

    def _work_disk(self) -> None:
        if not self._disk_works:
            self._disk_works = True
            self.later(self.world.rng.random() * 2 * self.swarm.disk_delay, self._on_disk)

    def _on_disk(self) -> None:
        self._disk_works = False
        pending = self.store.pending
        count = pending if self.swarm.group_commit else self.world.rng.randint(1, pending)
        done = self.store.complete(count)
        self.note("disk:", done, "of", pending, "batches are durable", number=done)
        self.oracle.disk.complete(done)
        if self.store.full:
            self.world.marks.sometimes("a disk full with pending batches")
        if self.world.strikes(self.swarm.crash_unreported):
            self.world.marks.sometimes("a crash between durable and reported")
            self.crash("between durable and reported")
            return
        if self.store.pending:
            self._work_disk()
        if self.world.strikes(self.swarm.report_late):
            self.later(self.swarm.disk_delay, self.report)
        else:
            self.report()

    def report(self) -> None:
        """Poll the store, as the shell does whenever it wakes up."""
        for token in self.store.poll():
            self.node.persisted(token)
        self.node.trouble = self.store.trouble
        self.oracle.trouble = self.node.trouble is not None
        if not self.store.pending and not self.node.messages.batch.operations:
            checks.check_memory(self.node)
        self.flush()

    def fill_disk(self) -> None:
        self.note(f"the disk of {self.name} is full")
        self.store.full = True
        self.later(self.world.rng.uniform(0.05, 1.0), self.make_room)

    def make_room(self) -> None:
        self.store.full = False
        self.report()

    def jump(self) -> None:
        rng = self.world.rng
        if rng.random() < 0.3:
            self.clock.monotonic_offset += rng.uniform(0, 5)
        seconds = rng.uniform(-15, 15)
        if seconds < 0:
            self.world.marks.sometimes("a wall clock that went back")
        self.note(f"the wall clock of {self.name} jumps by {seconds:.3f} s")
        self.clock.wall_offset += seconds
        self._settle(self.now)

    # Healing.

    def heal(self, healer: Client) -> None:
        """Clients go away, whatever they have open; the disk is fine."""
        for client in self.clients:
            client.stop()
        self.clients[:] = [healer]
        if self.is_up:
            self.make_room()
            healer.start()

    @property
    def is_healed(self) -> bool:
        return self.is_up and self.clients[0].is_done

    @property
    def unanswered(self) -> str:
        return ", ".join(f"{client.name}'s {ask}" for client, ask, _ in self._requests.values())

    def check_healed(self) -> None:
        oracle = self.oracle
        checks.check_all(self.node, oracle, self.now)
        if oracle.expected or oracle.readers.waits:
            raise Violation(f"everything came to its end, but not {self.unanswered}")
        left = [box.key for box in oracle.books.boxes.values() if box.order]
        if left or oracle.books.total_bytes:
            raise Violation(f"the queues {left} cannot be emptied")
        self.oracle.disk.complete(self.store.pending)
        for token in self.store.close():
            self.node.persisted(token)
        checks.check_store(self.store, oracle)
        checks.check_memory(self.node)
        self.history.drained()


_OF_A_COORDINATOR: Final = ("enlist", "prepare", "commit_prepared", "abort_prepared")
