"""One side of bench/against.py: measures rows with the Waypost that its interpreter has.

A line on standard input is the name of a row; the answer is one line with its rate, per second. Behind the words
"warm up" the row is measured for a moment only. It uses public names
alone, so that it runs with any version, and needs nothing but Waypost. Two daemons are started with the first row that
needs them and end with the input.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import waypost
from waypost.wire import UserMessage, decode_packet

BODY: Final = bytes(range(256)) * 4
BATCH: Final = 250
SECONDS: Final = 1.0
SECONDS_TO_WARM_UP: Final = 0.2
WARM_UP: Final = "warm up"
SECONDS_TO_WAIT: Final = 60
FEWEST: Final = 1000
HOP: Final = 4000
READS: Final = 300


def repeat(side: "Side", call: Callable[[], int], clock: Callable[[], float] = perf_counter) -> float:
    """The count of the call per second."""
    amount, begun = 0, clock()
    while (seconds := clock() - begun) < side.seconds:
        amount += call()
    return amount / seconds


@dataclass(frozen=True, slots=True)
class Hosts:
    """Two daemons, and the address of the second as the first names it."""

    a: waypost.Manager
    b: waypost.Manager
    address: str


class Side:
    """The places where rows are measured, made when they are first wanted."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        # Seconds for which a row is measured.
        self.seconds = SECONDS
        self._first, self._second = address, address[:-1] + str(int(address[-1]) + 1)
        self._stack: Final = stack
        self._folder: Final = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))

    @cached_property
    def embedded(self) -> waypost.Queue:
        manager = self._stack.enter_context(waypost.open(self._folder / "embedded"))
        return manager.create_queue("bench")

    @cached_property
    def hosts(self) -> Hosts:
        managers = []
        for name, address in (("a", self._first), ("b", self._second)):
            url = self._stack.enter_context(self._daemon(name, address))
            managers.append(self._stack.enter_context(waypost.connect(url)))
        a, b = managers
        for manager in managers:
            manager.create_queue("plain")
            manager.create_queue("transactional", transactional=True)
        a.create_queue("read")
        a.queue("read").send_many([BODY] * READS)
        return Hosts(a, b, self._second)

    @cached_property
    def reader(self) -> waypost.Queue:
        """The queue of the first daemon over RPC, as another host reads it."""
        assert self.hosts
        host = self._stack.enter_context(waypost.msmq(self._first))
        return host.queue(r"private$\read")

    @contextmanager
    def _daemon(self, name: str, address: str) -> Iterator[str]:
        settings = ("transfer.window_size=1000", "log.level=error", "transfer.retry_connect_s=0.2")
        words = [word for setting in settings for word in ("--set", setting)]
        command = [*(sys.executable, "-m", "waypost.cli", "serve", "--data", str(self._folder / name), "--name", name)]
        process = subprocess.Popen([*command, "--bind", address, *words], stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield f"http://{json.loads(process.stdout.readline())['http']}"
        finally:
            process.terminate()
            process.wait()


def sample(side: Side) -> bytes:
    side.embedded.send(BODY, label="a packet")
    return side.embedded.receive(0).packet


def decode(side: Side) -> float:
    data = sample(side)
    return repeat(side, lambda: sum(bool(decode_packet(data)) for _ in range(FEWEST)), process_time)


def encode(side: Side) -> float:
    message = UserMessage.decode(sample(side))
    return repeat(side, lambda: sum(bool(message.encode()) for _ in range(FEWEST)), process_time)


def embedded_send(side: Side) -> float:
    rate = repeat(side, lambda: bool(side.embedded.send(BODY)))
    side.embedded.purge()
    return rate


def embedded_send_many(side: Side) -> float:
    rate = repeat(side, lambda: len(side.embedded.send_many([BODY] * BATCH)))
    side.embedded.purge()
    return rate


def embedded_receive_many(side: Side) -> float:
    for _ in range(8 * FEWEST // BATCH):
        side.embedded.send_many([BODY] * BATCH)
    begun = perf_counter()
    amount = sum(len(side.embedded.receive_many(BATCH, 0)) for _ in range(8 * FEWEST // BATCH))
    return amount / (perf_counter() - begun)


def daemon_send_one(side: Side) -> float:
    queue = side.hosts.a.queue("plain")
    rate = repeat(side, lambda: bool(queue.send(BODY)))
    queue.purge()
    return rate


def daemon_send_many(side: Side) -> float:
    queue = side.hosts.a.queue("plain")
    rate = repeat(side, lambda: len(queue.send_many([BODY] * BATCH)))
    queue.purge()
    return rate


def daemon_receive_many(side: Side) -> float:
    queue = side.hosts.a.queue("plain")
    for _ in range(8 * FEWEST // BATCH):
        queue.send_many([BODY] * BATCH)
    begun = perf_counter()
    amount = sum(len(queue.receive_many(BATCH, 0)) for _ in range(8 * FEWEST // BATCH))
    return amount / (perf_counter() - begun)


def hop(side: Side, name: str, send: Callable[[waypost.Queue], object]) -> float:
    """From the first send at one daemon to the last message received at the other."""
    hosts = side.hosts
    there = hosts.b.queue(name)
    away = hosts.a.queue(rf"DIRECT=TCP:{hosts.address}\private$\{name}")
    begun = perf_counter()
    for _ in range(HOP // BATCH):
        send(away)
    left = HOP
    while left:
        left -= len(there.receive_many(min(left, BATCH), SECONDS_TO_WAIT))
    return HOP / (perf_counter() - begun)


def hop_express(side: Side) -> float:
    return hop(side, "plain", lambda queue: queue.send_many([BODY] * BATCH, recoverable=False))


def hop_recoverable(side: Side) -> float:
    return hop(side, "plain", lambda queue: queue.send_many([BODY] * BATCH))


def hop_transactional(side: Side) -> float:
    def send(queue: waypost.Queue) -> None:
        with side.hosts.a.transaction() as transaction:
            queue.send_many([BODY] * BATCH, transaction=transaction)

    return hop(side, "transactional", send)


def hop_one_by_one(side: Side) -> float:
    """Each message when the one before has arrived."""
    hosts = side.hosts
    there = hosts.b.queue("plain")
    away = hosts.a.queue(rf"DIRECT=TCP:{hosts.address}\private$\plain")

    def one() -> int:
        away.send(BODY)
        return bool(there.receive(SECONDS_TO_WAIT))

    return repeat(side, one)


def remote_peek(side: Side) -> float:
    return repeat(side, lambda: bool(side.reader.peek(SECONDS_TO_WAIT)))


def remote_browse(side: Side) -> float:
    return repeat(side, lambda: sum(1 for _ in side.reader.browse()))


ROWS: Final[dict[str, Callable[[Side], float]]] = {
    "decode a packet": decode,
    "encode a packet": encode,
    "embedded, send one": embedded_send,
    "embedded, send many": embedded_send_many,
    "embedded, receive many": embedded_receive_many,
    "daemon, send one": daemon_send_one,
    "daemon, send many": daemon_send_many,
    "daemon, receive many": daemon_receive_many,
    "daemon to daemon, express": hop_express,
    "daemon to daemon, recoverable": hop_recoverable,
    "daemon to daemon, transactional": hop_transactional,
    "daemon to daemon, one by one": hop_one_by_one,
    "remote read, peek": remote_peek,
    "remote read, browse": remote_browse,
}


def main(address: str) -> None:
    with ExitStack() as stack:
        side = Side(address, stack)
        print(json.dumps({"waypost": waypost.__file__}), flush=True)
        for line in sys.stdin:
            row = line.strip()
            side.seconds = SECONDS_TO_WARM_UP if row.startswith(WARM_UP) else SECONDS
            print(json.dumps({"rate": ROWS[row.removeprefix(WARM_UP).lstrip()](side)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
