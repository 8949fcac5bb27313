"""The disk of a simulated machine: slow, late with its reports, for a while nearly full or full."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from waypost.sim.marks import Marks
from waypost.sim.trace import batch_number
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch

# Whether it is nearly full, and full.
_LEVELS: Final = ((True, False), (False, True), (True, False), (True, True))


class Manners(Protocol):
    """How the disks of a world are."""

    @property
    def disk_delay(self) -> float: ...

    @property
    def group_commit(self) -> bool: ...

    @property
    def report_late(self) -> float: ...

    @property
    def crash_unreported(self) -> float: ...


class Chance(Protocol):
    @property
    def marks(self) -> Marks: ...

    def strikes(self, rate: float, /) -> bool: ...


class Owner(Protocol):
    """A machine as its disk knows it."""

    @property
    def name(self) -> str: ...

    @property
    def rng(self) -> Random: ...

    @property
    def swarm(self) -> Manners: ...

    @property
    def world(self) -> Chance: ...

    def note(self, number: int, /, *words: object) -> None: ...

    def later(self, delay: float, action: Callable[[], None], /) -> None: ...

    def sealed(self, batch: Batch, /) -> None:
        """A batch is on its way to the disk."""

    def completed(self, count: int, /) -> None:
        """The first of those are durable."""

    def report(self) -> None: ...

    def crash(self, why: str, /) -> None: ...


class Drive:
    """It writes batches in the background, in their order, one by one or all that wait together."""

    def __init__(self, machine: Owner) -> None:
        self.store: Final = MemoryStore()
        self._machine: Final = machine
        self._is_at_work = False

    def start(self) -> None:
        self._is_at_work = False

    def submit(self, batch: Batch, token: int) -> None:
        machine = self._machine
        machine.note(batch_number(batch), "commit", token)
        machine.sealed(batch)
        self.store.submit(batch, token)
        self._work()

    def finish(self) -> list[int]:
        """Write all there is. The tokens that were not reported yet."""
        self._machine.completed(self.store.pending)
        return self.store.close()

    def fill(self) -> None:
        """It is nearly full, which is noticed in time, or full in a moment, or one and then the other."""
        machine, store = self._machine, self.store
        seconds = machine.rng.uniform(0.05, 1.0)
        store.low, store.full = _LEVELS[int(seconds * 1000) % len(_LEVELS)]
        machine.note(0, "the disk of", machine.name, "is full" if store.full else "is nearly full")
        if store.low:
            machine.later(0.0, machine.report)
        machine.later(seconds, self.make_room)

    def clear(self) -> None:
        self.store.low = self.store.full = False

    def make_room(self) -> None:
        self.clear()
        self._machine.report()

    def _work(self) -> None:
        if not self._is_at_work:
            self._is_at_work = True
            machine = self._machine
            machine.later(machine.rng.random() * 2 * machine.swarm.disk_delay, self._write)

    def _write(self) -> None:
        machine, store = self._machine, self.store
        world, swarm = machine.world, machine.swarm
        self._is_at_work = False
        pending = store.pending
        done = store.complete(pending if swarm.group_commit else machine.rng.randint(1, pending))
        machine.note(done, "disk:", done, "of", pending, "batches are durable")
        machine.completed(done)
        if store.full:
            world.marks.sometimes("a disk full with pending batches")
        if world.strikes(swarm.crash_unreported):
            world.marks.sometimes("a crash between durable and reported")
            machine.crash("between durable and reported")
            return
        if store.pending:
            self._work()
        if world.strikes(swarm.report_late):
            machine.later(swarm.disk_delay, machine.report)
        else:
            machine.report()
