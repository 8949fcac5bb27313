"""A simulated host: a node with its disk and its clocks, and applications that work on it.

The shell around the node works like that of the daemon: timers that are due come before every fact, effects are carried
out in their order, the disk writes batches in the background, `report` polls it. Here the process ends at any moment;
batches written by then are there at the next start, reported or not.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, assert_never

from waypost.clock import Now
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.errors import ServiceNotAvailable, StoreError, WaypostError
from waypost.hresult import HResult
from waypost.node.effects import (
    Close,
    Commit,
    Connect,
    DropKeyWork,
    Effect,
    Failure,
    HoldReading,
    KeyWork,
    Notice,
    Reply,
    Resolve,
    SendDatagram,
    ToCoordinator,
    Write,
)
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.sim.client import Ask, Asker, Client, Result
from waypost.sim.clock import Clock
from waypost.sim.disk import Disk
from waypost.sim.operations import Surface
from waypost.sim.violation import Violation
from waypost.store.port import Batch

if TYPE_CHECKING:
    from random import Random

    from waypost.sim.faults import HostFaults
    from waypost.sim.simulation import Simulation
    from waypost.sim.swarm import Swarm

# Timers fire a little late, as real ones do; and never two at the same time.
_LATE: Final = 0.001
_NEVER: Final = float("inf")

S_co = TypeVar("S_co", bound="Simulation[Any]", covariant=True)


class Host(ABC, Generic[S_co]):
    """A simulated host. `life` counts starts and ends: events planned in an earlier life do not happen.

    The methods without a body inform a checker: each raises Violation if a promise is broken.
    """

    node: Node
    _surface: Surface

    def __init__(self, name: str, simulation: S_co, clock: Clock) -> None:
        self.name: Final = name
        self.simulation: Final = simulation
        self.swarm: Final[Swarm] = simulation.swarm
        self.faults: Final[HostFaults] = self.swarm.faults
        self.rng: Final[Random] = simulation.rng
        self.clock: Final = clock
        self.disk: Final = Disk(self)
        self.clients: Final[list[Client[Any]]] = []
        self.life = 0
        self._requests: Final[dict[object, tuple[Asker, Ask, int]]] = {}
        self._deadline: float | None = None
        self._tick_at = _NEVER
        self._takes_effects_later = False

    @property
    def is_up(self) -> bool:
        return self.life % 2 == 1

    @property
    def starts(self) -> int:
        return (self.life + 1) // 2

    @property
    def now(self) -> Now:
        return self.clock.now(self.simulation.time)

    @property
    def unanswered(self) -> str:
        return ", ".join(f"{client.name}'s {ask}" for client, ask, _ in self._requests.values())

    def note(self, number: int, *words: object) -> None:
        self.simulation.trace.note(self.simulation.time, number, *words)

    def think(self) -> float:
        return self.rng.random() * 2 * self.faults.think

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do it after this time, if the life of the host lasts that long."""
        self.simulation.schedule(delay, action, self)

    def add_client(self, client: "Client[Any]") -> None:
        self.clients.append(client)
        client.start()

    def script_ended(self, client: "Client[Any]") -> None:
        if not self.simulation.is_healing:
            client.start()

    # Lives.

    def start(self) -> None:
        now = self.now
        self.life += 1
        self.note(self.starts, self.name, f"starts for the {self.starts}. time")
        self._requests.clear()
        self._tick_at = _NEVER
        self._takes_effects_later = False
        self.disk.start()
        self._open_node(now)
        self._schedule_tick(now)
        self._take_effects()
        for client in self.clients:
            client.start()

    def _open_node(self, now: Now) -> None:
        """Make the node from the durable state."""
        self._starting()
        try:
            self.node = Node(self.disk.store, self._settings(), self._new_guid, now)
        except StoreError as error:
            raise Violation(f"{self.name} does not start with its own store: {error}") from error
        self._surface = Surface(self.node)
        self._started(now)

    def _new_guid(self) -> bytes:
        return self.rng.randbytes(16)

    def crash(self, why: str) -> None:
        self.note(0, self.name, "crashes", why)
        if self.disk.store.pending:
            self.simulation.marks.sometimes("a crash with batches that are not durable")
        self._crashing()
        self.disk.store.crash()
        self._end()

    def stop(self) -> None:
        """End cleanly: close connections, write and answer what was begun. A full disk turns it into a crash."""
        life = self.life
        self._take_effects()
        if life == self.life and self.disk.store.full:
            self.crash("during a stop, because the disk is full")
        if life == self.life:
            self.simulation.marks.sometimes("a clean stop")
            self.note(0, self.name, "stops")
            self._close_connections()
            self._take_effects()
        if life == self.life:
            self._persisted(self.disk.finish())
            self._take_effects()
        if life == self.life:
            # The consequences of the stop.
            self.disk.store.crash()
            self._end()

    def _end(self) -> None:
        """End the process; after a while the next one starts."""
        rng, faults = self.rng, self.faults
        self._ended([ask for _, ask, _ in self._requests.values()])
        self.life += 1
        self._went_down()
        for client in self.clients:
            client.stop()
        self.disk.clear()
        self.clock.monotonic_offset += rng.uniform(0, 10)
        if faults.wall_jump_down and rng.random() < faults.wall_jump_down:
            self.clock.wall_offset += rng.uniform(0, 20)
        shortest, longest = faults.outages[0] if len(faults.outages) == 1 else rng.choice(faults.outages)
        self.later(rng.uniform(shortest, longest), self.start)

    # Operations and timers.

    def perform(self, client: Asker, ask: Ask) -> Result | None:
        """Pass an operation to the node. Returns the result if it is known at once."""
        now = self.now
        self._tick_if_due(now)
        self.simulation.operations += 1
        request = self.simulation.operations
        self.note(request, client.name, request, ask)
        status = self._ask(client, ask, Call(request, now, self.node.administrator))
        is_ok = status is HResult.MQ_OK
        if is_ok:
            self._requests[self._key(ask, request)] = client, ask, request
        self._asked(ask, Result(request, status))
        self._end_turn(now)
        return None if is_ok and ask.waits else Result(request, status)

    def _ask(self, client: Asker, ask: Ask, call: Call) -> HResult:
        """The outcome of the operation, or MQ_OK if it is under way."""
        try:
            self._surface.start(call, ask.operation)
        except WaypostError as error:
            self.note(error.hresult, client.name, call.request, "is refused:", error)
            return error.hresult
        return HResult.MQ_OK

    def tell(self, fact: Callable[[Now], object]) -> None:
        """Pass a fact to the node, such as received bytes."""
        now = self.now
        self._tick_if_due(now)
        fact(now)
        self._end_turn(now)

    def jump(self) -> None:
        """Set the clocks to other times; only the wall clock can go back."""
        rng, faults = self.rng, self.faults
        if faults.monotonic_jump and rng.random() < faults.monotonic_jump:
            self.clock.monotonic_offset += rng.uniform(0, 5)
        seconds = rng.uniform(-faults.wall_jump, faults.wall_jump)
        if seconds < 0:
            self.simulation.marks.sometimes("a wall clock that was set back")
        self.note(0, f"the wall clock of {self.name} jumps by {seconds:.3f} s")
        self.clock.wall_offset += seconds
        self._schedule_tick(self.now)

    def _tick_if_due(self, now: Now) -> None:
        if self._deadline is not None and self._deadline <= now.monotonic:
            self._tick(now)
            self._schedule_tick(now)

    def _tick(self, now: Now) -> None:
        self.node.tick(now)

    def _schedule_tick(self, now: Now) -> None:
        deadline = self._deadline = self._next_deadline(now)
        if deadline is not None:
            time = max(self.clock.time_of(deadline), self.simulation.time) + _LATE
            if time < self._tick_at:
                self._tick_at = time
                self.later(time - self.simulation.time, lambda: self._on_timer(time))

    def _next_deadline(self, now: Now) -> float | None:
        return self.node.next_deadline(now)

    def _on_timer(self, time: float) -> None:
        if time != self._tick_at:
            # An earlier timer has done this already.
            return
        self._tick_at = _NEVER
        # The clocks run apart, so the deadline may not have come yet.
        now = self.now
        self._tick_if_due(now)
        self._end_turn(now)

    # Effects.

    def report(self) -> None:
        """Poll the store, as the shell does whenever it wakes up."""
        store, node = self.disk.store, self.node
        tokens = store.poll()
        node.kernel.trouble, node.kernel.room = store.trouble, store.room
        self._persisted(tokens)
        self._reported()
        self._take_effects()

    def _persisted(self, tokens: list[int]) -> None:
        for token in tokens:
            self.node.persisted(token, self.now)

    def _end_turn(self, now: Now) -> None:
        """Take the effects now, or let more collect first."""
        self._look()
        self._schedule_tick(now)
        if self.rng.random() >= self.faults.batching:
            self._take_effects()
        elif not self._takes_effects_later:
            self._takes_effects_later = True
            self.later(self.faults.gather, self._take_effects)

    def _take_effects(self) -> None:
        self._takes_effects_later = False
        effects = self.node.kernel.take_effects()
        self._taking(effects)
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
                self.disk.submit(batch, token)
            case Failure(request, error):
                self._answered(request, error.hresult, None)
            case ToCoordinator():
                self._tell_coordinator(effect)
            case Connect() | Write() | Close() | HoldReading() | Resolve() | SendDatagram() | Notice():
                self._carry(effect)
            case KeyWork():
                self._work_with_keys(effect)
            case DropKeyWork():
                # The work is done all the same: its result must change nothing.
                pass
            case SendChangeNotification() | FindDirectoryServers():
                raise Violation(f"{self.name} requests {effect!r}, but the simulation has no directory")
            case _:
                assert_never(effect)

    def _answered(self, key: object, status: HResult, value: object) -> None:
        asked = self._requests.pop(key[1] if isinstance(key, tuple) else key, None)
        if asked is None:
            raise Violation(f"request {key} of {self.name}: expected no answer, but found {status.name}")
        client, ask, request = asked
        result = Result(request, status, value)
        self.note(status, client.name, request, "gets", status.name, *self._check_answer(key, ask, result))
        if ask.waits:
            client.answered(result)
        self.strike_after_answer()

    def strike_after_answer(self) -> None:
        if self.simulation.strikes(self.faults.crash_after_answer):
            self.simulation.marks.sometimes("a crash right after an answer")
            self.crash("right after an answer")

    # Healing.

    def heal(self, healer: "Client[Any]") -> None:
        """Stop the applications, whatever they have open, and repair the disk."""
        for client in self.clients:
            client.stop()
        self.clients[:] = [healer]
        self._healing()
        if self.is_up:
            self.disk.make_room()
            healer.start()

    # Differences between the kinds of simulation, and the facts for their checkers.

    @abstractmethod
    def _settings(self) -> Settings:
        """The settings of the node that starts now."""

    @abstractmethod
    def _carry(self, effect: Connect | Write | Close | HoldReading | Resolve | SendDatagram | Notice) -> None:
        """Carry out an effect that concerns other hosts."""

    @abstractmethod
    def _check_answer(self, key: object, ask: Ask, result: Result) -> Sequence[object]:
        """Check an answer. Returns the messages in it, for the trace."""

    @abstractmethod
    def sealed(self, batch: Batch) -> None:
        """A batch has been submitted to the disk."""

    @abstractmethod
    def completed(self, count: int) -> None:
        """The first submitted batches are durable."""

    @abstractmethod
    def _ended(self, asks: Sequence[Ask]) -> None:
        """The process is about to end, and these requests are under way."""

    @abstractmethod
    def _went_down(self) -> None:
        """The process has ended."""

    @abstractmethod
    def _close_connections(self) -> None: ...

    def _key(self, ask: Ask, request: int) -> object:  # noqa: ARG002
        """The key that identifies the answer to a request."""
        return request

    def _tell_coordinator(self, effect: ToCoordinator) -> None: ...

    def _work_with_keys(self, effect: KeyWork) -> None:
        error = ServiceNotAvailable("the simulation has no keys")
        self.node.kernel.job_done(effect.job, error, self.now)

    def _starting(self) -> None: ...

    def _started(self, now: Now) -> None: ...

    def _asked(self, ask: Ask, result: Result) -> None: ...

    def _crashing(self) -> None: ...

    def _reported(self) -> None: ...

    def _look(self) -> None: ...

    def _taking(self, effects: Sequence[Effect]) -> None: ...

    def _healing(self) -> None: ...
