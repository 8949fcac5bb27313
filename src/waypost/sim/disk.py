"""The disk of a simulated host: slow, late with its reports, at times full or nearly full."""

from typing import TYPE_CHECKING, Any, Final

from waypost.sim.trace import batch_number
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch

if TYPE_CHECKING:
    from waypost.sim.host import Host

# Whether the disk is nearly full, and full.
_LEVELS: Final = ((True, False), (False, True), (True, False), (True, True))


class Disk:
    """A disk that writes batches in the background, in their order, one by one or all waiting ones together."""

    def __init__(self, host: "Host[Any]") -> None:
        self.store: Final = MemoryStore()
        self._host: Final = host
        self._is_at_work = False

    def start(self) -> None:
        self._is_at_work = False

    def submit(self, batch: Batch, token: int) -> None:
        host = self._host
        host.note(batch_number(batch), "commit", token)
        host.sealed(batch)
        self.store.submit(batch, token)
        self._work()

    def finish(self) -> list[int]:
        """Write all pending batches. Returns the tokens that were not reported yet."""
        self._host.completed(self.store.pending)
        return self.store.close()

    def fill(self) -> None:
        """Make the disk nearly full, which the node notices in time, or full, or first one and then the other."""
        host, store = self._host, self.store
        seconds = host.rng.uniform(0.05, 1.0)
        store.low, store.full = _LEVELS[int(seconds * 1000) % len(_LEVELS)]
        host.note(0, "the disk of", host.name, "is full" if store.full else "is nearly full")
        if store.low:
            host.later(0.0, host.report)
        host.later(seconds, self.make_room)

    def clear(self) -> None:
        self.store.low = self.store.full = False

    def make_room(self) -> None:
        self.clear()
        self._host.report()

    def _work(self) -> None:
        if not self._is_at_work:
            self._is_at_work = True
            host = self._host
            host.later(host.rng.random() * 2 * host.faults.disk_delay, self._write)

    def _write(self) -> None:
        host, store = self._host, self.store
        simulation, faults = host.simulation, host.faults
        self._is_at_work = False
        pending = store.pending
        done = store.complete(pending if faults.group_commit else host.rng.randint(1, pending))
        host.note(done, "disk:", done, "of", pending, "batches are durable")
        host.completed(done)
        if store.full:
            simulation.marks.sometimes("a disk that becomes full while batches are pending")
        if simulation.strikes(faults.crash_unreported):
            simulation.marks.sometimes("a crash after a batch is durable, but before the disk reports it")
            host.crash("between durable and reported")
            return
        if store.pending:
            self._work()
        if simulation.strikes(faults.report_late):
            host.later(faults.disk_delay, host.report)
        else:
            host.report()
