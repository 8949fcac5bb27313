"""Attack a daemon over real sockets: `python -m tests.crash.hostile_campaign [--packets N] [--idle N]`.

Two daemons run. Beta is attacked in every way of tests/crash/attacks.py, one after the other, while alpha sends to it
all the time. In the end everything that alpha sent is there, once and in order, beta has not grown out of bounds, it
has no more files open than before, its log is short, and it stops when it is told to.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

from tests.crash.attacks import Attacker, deaf_queue_manager
from tests.crash.daemons import SHORT_TIMERS, Daemon, loopback, patience, start_all

# Memory of the interpreter, the libraries and the caches, with room for what waits for the disk.
MAX_MEMORY: Final = 500 << 20
MAX_LOG: Final = 2 << 20
MAX_NEW_FILES: Final = 40
SECONDS: Final = 60
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of everything. These are for the suite."""

    packets: int = 3000
    idle: int = 200
    seconds: float = 2.0
    forged: int = 300
    megabytes: int = 70
    http_idle: int = 50


class Neighbour:
    """Sends transactional messages from one daemon to the other while it is entered, and keeps count."""

    def __init__(self, source: Daemon, target: Daemon) -> None:
        self._source = source
        self._target = target
        self._stop = Event()
        self._thread = Thread(target=self._send)
        self.sent = 0
        self.slowest = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        """Each arrives before the next is sent."""
        with self._source.connect() as manager, self._target.connect() as there:
            queue = there.queue("neighbour")
            while not self._stop.wait(0.02):
                started = time.monotonic()
                with manager.transaction() as transaction:
                    manager.send(self._target.direct("neighbour"), f"{self.sent}", transaction=transaction)
                message = queue.receive(timeout=SECONDS)
                assert message.text == f"{self.sent}", f"{message.text} came instead of {self.sent}"
                self.slowest = max(self.slowest, time.monotonic() - started)
                self.sent += 1


class HostileCampaign:
    """All attacks. Raises AssertionError if the daemon does not bear them."""

    def __init__(self, place: Path, amounts: Amounts, seed: int, tell: Callable[[str], None]) -> None:
        self._amounts = amounts
        self._tell = tell
        self._alpha = Daemon(place, "alpha", loopback(31), *SHORT_TIMERS)
        self._beta = Daemon(
            place,
            "beta",
            loopback(32),
            "transfer.ping=true",
            "transfer.order_ack_timeout_ms=50",
            "transfer.session_init_timeout_s=20",
            # Mutated packets are to be looked at, not turned away.
            "transfer.refusals_per_minute=4000000000",
        )
        self._attacker = Attacker(self._beta, "orders", "transactions", seed)
        self._most_memory = 0

    def run(self) -> None:
        with self._alpha, self._beta:
            start_all([self._alpha, self._beta])
            with self._beta.connect() as manager:
                manager.create_queue("orders", quota_kb=50_000)
                manager.create_queue("transactions", transactional=True, quota_kb=50_000)
                manager.create_queue("neighbour", transactional=True)
            with Neighbour(self._alpha, self._beta) as neighbour:
                self._wait_for(neighbour, 1)
                files = self._beta.files
                for name, attack in self._attacks():
                    self._bear(name, attack, neighbour)
                self._wait_for(neighbour, neighbour.sent + 5)
                with patience(SECONDS, "files are left open") as turns:
                    for _ in turns:
                        if self._beta.files <= files + MAX_NEW_FILES:
                            break
            log = len(self._beta.log)
            self._tell(
                f"{neighbour.sent:,} messages of the neighbour, the slowest in {neighbour.slowest:.1f} s; at most "
                f"{self._most_memory >> 20} MB; {self._beta.files} files, {files} at first; {log >> 10} kB of log"
            )
            assert self._most_memory < MAX_MEMORY
            assert log < MAX_LOG
            assert "unexpected error" not in self._beta.log
            assert self._beta.stop() == 0
            assert self._alpha.stop() == 0

    def _bear(self, name: str, attack: Callable[[], object], neighbour: Neighbour) -> None:
        started, before = time.monotonic(), neighbour.sent
        with self._watched() as peaks:
            figure = attack()
        assert self._beta.is_up, f"{name}: it is down\n{self._beta.log[-5000:]}"
        with self._beta.connect() as manager:
            # Make room for the next one.
            for queue in ("orders", "transactions"):
                manager.queue(queue).purge()
            outgoing = len(manager.outgoing_queues())
        self._wait_for(neighbour, before + 1)
        self._tell(
            f"{name}{'' if figure is None else f' ({figure:,})'}: {time.monotonic() - started:.1f} s, "
            f"{self._beta.memory >> 20} MB (up to {peaks[0] >> 20} MB and {peaks[1]} files), "
            f"{outgoing} outgoing queues, {neighbour.sent - before} messages of the neighbour"
        )
        self._most_memory = max(self._most_memory, peaks[0])

    @contextmanager
    def _watched(self) -> Iterator[list[int]]:
        """The most memory and the most files that it has meanwhile."""
        peaks, stop = [0, 0], Event()

        def watch() -> None:
            while self._beta.is_up and not stop.wait(0.05):
                peaks[:] = max(peaks[0], self._beta.memory), max(peaks[1], self._beta.files)

        thread = Thread(target=watch)
        thread.start()
        try:
            yield peaks
        finally:
            stop.set()
            thread.join()

    def _wait_for(self, neighbour: Neighbour, count: int) -> None:
        with patience(SECONDS, "the neighbour is harmed") as turns:
            for _ in turns:
                if neighbour.sent >= count:
                    break

    def _attacks(self) -> Iterator[tuple[str, Callable[[], object]]]:
        amounts, attacker = self._amounts, self._attacker
        yield "every vector", attacker.send_vectors
        yield f"{amounts.packets:,} mutated packets", lambda: attacker.send_mutants(amounts.packets)
        yield f"{amounts.idle:,} idle connections", lambda: attacker.be_idle(amounts.idle, amounts.seconds)
        yield "sessions byte by byte", lambda: attacker.drip(amounts.idle // 4, amounts.seconds)
        yield "packets of 4 MB and more", lambda: attacker.send_too_much(amounts.megabytes)
        yield "acknowledgments that lie", lambda: attacker.lie(amounts.forged // 10)
        yield "handshakes of a twin", lambda: attacker.be_its_twin(amounts.forged)
        yield "forged administration queues", lambda: attacker.forge(attacker.forged_admin_queues(amounts.forged))
        yield "forged sources", lambda: attacker.forge(attacker.forged_sources(amounts.forged))
        yield "a peer that does not read", lambda: self._send_to_the_deaf(amounts.megabytes)
        yield "datagrams", lambda: attacker.flood_pings(amounts.packets)
        yield "bad requests", lambda: attacker.send_bad_requests(amounts.forged // 10)
        yield "huge bodies", lambda: attacker.send_huge_bodies(amounts.megabytes)
        yield (
            f"{amounts.http_idle:,} idle on HTTP",
            lambda: attacker.be_idle_on_http(amounts.http_idle, amounts.seconds),
        )

    def _send_to_the_deaf(self, megabytes: int) -> None:
        address = loopback(33)
        with deaf_queue_manager(address), self._beta.connect() as manager:
            name = rf"DIRECT=TCP:{address}\private$\deaf"
            for _ in range(megabytes):
                manager.send(name, bytes(_MEGABYTE))
            time.sleep(1)
            outgoing = [queue for queue in manager.outgoing_queues() if address in queue.info().format_name]
            for queue in outgoing:
                queue.purge()


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a daemon over real sockets.")
    parser.add_argument("--packets", type=int, default=100_000, help="mutated packets (100000)")
    parser.add_argument("--idle", type=int, default=2000, help="idle connections (2000)")
    parser.add_argument("--forged", type=int, default=20_000, help="forged messages of each kind (20000)")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    amounts = Amounts(arguments.packets, arguments.idle, 25.0, arguments.forged, 200, 500)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        HostileCampaign(Path(place), amounts, seed, lambda line: print(line, flush=True)).run()
    print(f"it bore all of it, in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
