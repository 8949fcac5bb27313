"""Measure signed and encrypted messages: `python bench/protected.py [--rounds N] [--count N]`.

Two daemons run on loopback, with their folders under build/. In each round, one after the other:

- `openssl speed` signs with keys of 2,048 bits, on all processors. Then two programs send signed messages in batches to
  a local queue of the first daemon, for as long.
- A program sends plain messages to a local queue of the first daemon: alone, beside the two signing programs, and
  beside as many programs that only calculate as a daemon has processes for work with keys. It sends in batches, and
  then one by one.
- Messages wait in an outgoing queue of the first daemon until it is resumed, and the time runs until the last one is in
  the queue of the second daemon: plain recoverable messages, signed ones, whose signatures the second daemon verifies,
  and encrypted ones, with keys that both daemons have in their caches. Each is first in turn.

A rate is the median of the rounds, and a ratio the median of the ratios of the rounds. For signatures and transfers,
the table also has the processor time of each daemon for a message, with that of its processes for keys. Messages have
1 KiB, signatures and exchange keys 2,048 bits, and time is that of the wall. After two and a half minutes no further
round begins. The table is printed, and build/bench.json has the same figures. The exit code does not depend on them.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record, servers
from bench.servers import Server
from bench.side import BODY
from waypost.drive.keys.workers import NICENESS, worker_count

ROUNDS: Final = 7
COUNT: Final = 5000
SECONDS_OF_ONE_STRETCH: Final = 1.5
SECONDS_OF_OPENSSL: Final = 1
SECONDS_OF_ALL: Final = 150.0
SECONDS_AT_MOST: Final = 60.0
SECONDS_BETWEEN_LOOKS: Final = 0.02

BATCH: Final = 100
SIGNERS: Final = 2
PROCESSORS: Final = os.cpu_count() or 1

QUEUE: Final = "arrivals"
PLAIN: Final = "plain"
SIGNED: Final = "signed"
SENDER: Final = "sender"

# The numbers of a round.
OPENSSL: Final = "openssl speed, signatures"
TAKEN: Final = "signed messages taken"
ALONE: Final = "plain messages, alone"
BESIDE_SIGNERS: Final = "plain messages, beside signing programs"
BESIDE_ARITHMETIC: Final = "plain messages, beside arithmetic"
SINGLE_ALONE: Final = "single plain messages, alone"
SINGLE_BESIDE_SIGNERS: Final = "single plain messages, beside signing programs"
SINGLE_BESIDE_ARITHMETIC: Final = "single plain messages, beside arithmetic"
PLAIN_TRANSFER: Final = "transfer, recoverable"
SIGNED_TRANSFER: Final = "transfer, signed and verified"
ENCRYPTED_TRANSFER: Final = "transfer, encrypted and decrypted"

TRANSFERS: Final = (PLAIN_TRANSFER, SIGNED_TRANSFER, ENCRYPTED_TRANSFER)

Rates = dict[str, list[float]]
# Microseconds of processor time for a message, by number of the round, of the first and the second daemon.
Cpu = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ratio of two numbers of a round, with the least that it is to be, if there is a goal."""

    what: str
    ours: str
    theirs: str
    least: float | None = None


COMPARISONS: Final = (
    Comparison("signed messages, to the signatures of openssl speed", TAKEN, OPENSSL, 0.6),
    Comparison("plain sender beside signing programs, to alone", BESIDE_SIGNERS, ALONE, 0.8),
    Comparison("plain sender beside signing programs, to beside arithmetic", BESIDE_SIGNERS, BESIDE_ARITHMETIC),
    Comparison("plain sender beside arithmetic, to alone", BESIDE_ARITHMETIC, ALONE),
    Comparison("single plain messages beside signing programs, to alone", SINGLE_BESIDE_SIGNERS, SINGLE_ALONE),
    Comparison(
        "single plain messages beside signing programs, to beside arithmetic",
        SINGLE_BESIDE_SIGNERS,
        SINGLE_BESIDE_ARITHMETIC,
    ),
    Comparison("verified transfer, to plain recoverable transfer", SIGNED_TRANSFER, PLAIN_TRANSFER, 0.3),
    Comparison("encrypted transfer, to plain recoverable transfer", ENCRYPTED_TRANSFER, PLAIN_TRANSFER, 0.3),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    what: str
    ratio: float
    least: float | None

    @property
    def verdict(self) -> str:
        if self.least is None:
            return ""
        return f", at least {self.least:g}: {'met' if self.ratio >= self.least else 'MISSED'}"


# Programs beside the measured one, each in a separate process.


class Programs:
    """Processes of one kind, which work while `working`. The counter has the number of messages they sent."""

    def __init__(self, count: int, work: Any, *arguments: object) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._go: Final = spawn.Event()
        self._ready: Final = spawn.Semaphore(0)
        self.counter: Final = spawn.Value("L", 0)
        shared = (self._go, self._ready, self.counter)
        self._processes: Final = [
            spawn.Process(target=work, args=(*shared, *arguments), daemon=True) for _ in range(count)
        ]
        for process in self._processes:
            process.start()
        for _ in self._processes:
            if not self._ready.acquire(timeout=SECONDS_AT_MOST):
                raise TimeoutError("a program beside the measured one does not start")

    @contextmanager
    def working(self) -> Iterator[None]:
        self._go.set()
        try:
            yield
        finally:
            self._go.clear()
            for _ in self._processes:
                self._ready.acquire(timeout=SECONDS_AT_MOST)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def sign(go: Any, ready: Any, counter: Any, address: str) -> None:
    """The main function of a signing program."""
    queue = waypost.connect(address).queue(SIGNED)
    queue.send_many([BODY] * BATCH, sign=True)
    while True:
        ready.release()
        go.wait()
        while go.is_set():
            queue.send_many([BODY] * BATCH, sign=True)
            with counter.get_lock():
                counter.value += BATCH


def calculate(go: Any, ready: Any, _counter: Any) -> None:
    """The main function of a program that uses a processor, at the priority of the processes for work with keys."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    while True:
        ready.release()
        go.wait()
        while go.is_set():
            for number in range(3, 2000, 2):
                pow(number, 65_537, 2**127 - 1)


# The numbers of a round.


class Bench:
    """The two daemons, and the programs beside a plain sender."""

    def __init__(self, a: Server, b: Server, count: int, stack: ExitStack) -> None:
        self.count: Final = count
        self.servers: Final = a, b
        self.a: Final = stack.enter_context(waypost.connect(a.address))
        self.b: Final = stack.enter_context(waypost.connect(b.address))
        for name in (PLAIN, SIGNED):
            self.a.create_queue(name)
        self.b.create_queue(QUEUE)
        host = b.address.removeprefix("http://").partition(":")[0]
        self.a.trust_keys(host, self.b.export_keys())
        certificate = self.a.create_certificate()
        self.b.users.add(SENDER, sid=certificate.sid)
        self.b.register_certificate(certificate.pem.encode(), SENDER)
        self.outgoing: Final = self.a.queue(f"DIRECT=TCP:{host}\\private$\\{QUEUE}")
        self.signers: Final = Programs(SIGNERS, sign, a.address)
        stack.callback(self.signers.end)
        self.calculators: Final = Programs(worker_count(), calculate)
        stack.callback(self.calculators.end)

    def round(self, number: int, rates: Rates, cpu: Cpu) -> None:
        if shutil.which("openssl"):
            rates[OPENSSL].append(openssl_signatures())
        taken, used = self.taken()
        rates[TAKEN].append(taken)
        cpu[TAKEN].append(used)
        for alone, beside_signers, beside_arithmetic, batch in (
            (ALONE, BESIDE_SIGNERS, BESIDE_ARITHMETIC, BATCH),
            (SINGLE_ALONE, SINGLE_BESIDE_SIGNERS, SINGLE_BESIDE_ARITHMETIC, 1),
        ):
            rates[alone].append(self.plain(batch))
            with self.signers.working():
                rates[beside_signers].append(self.plain(batch))
            with self.calculators.working():
                rates[beside_arithmetic].append(self.plain(batch))
        for name in (PLAIN, SIGNED):
            self.a.queue(name).purge()
        order = list(TRANSFERS)
        turn = number % len(order)
        for each in order[turn:] + order[:turn]:
            rate, used = self.transfer(self.count, each)
            rates[each].append(rate)
            cpu[each].append(used)

    def cpu_seconds(self) -> tuple[float, ...]:
        """The processor time of each daemon so far, with its processes for keys."""
        return tuple(each.cpu_seconds() for each in self.servers)

    def cpu_since(self, before: tuple[float, ...], count: int) -> tuple[float, float]:
        a, b = ((now - then) / count * 1e6 for now, then in zip(self.cpu_seconds(), before, strict=True))
        return a, b

    def taken(self) -> tuple[float, tuple[float, float]]:
        """Signed messages a second, of all signing programs, and processor time."""
        with self.signers.working():
            begin, first = self._next_batch()
            cpu = self.cpu_seconds()
            time.sleep(SECONDS_OF_ONE_STRETCH)
            end, last = self._next_batch()
            used = self.cpu_since(cpu, last - first)
        return (last - first) / (end - begin), used

    def _next_batch(self) -> tuple[float, int]:
        """The time when the signing programs have sent another batch, and the number of messages then."""
        counter = self.signers.counter
        before, deadline = counter.value, time.perf_counter() + SECONDS_AT_MOST
        while (now := counter.value) == before:
            if time.perf_counter() > deadline:
                raise TimeoutError("no signed messages are sent")
            time.sleep(0.001)
        return time.perf_counter(), now

    def plain(self, batch: int) -> float:
        """Plain messages a second, in batches of this size."""
        queue, sent = self.a.queue(PLAIN), 0
        begin = time.perf_counter()
        end = begin + SECONDS_OF_ONE_STRETCH
        while (now := time.perf_counter()) < end:
            if batch == 1:
                queue.send(BODY)
            else:
                queue.send_many([BODY] * batch)
            sent += batch
        return sent / (now - begin)

    def transfer(self, count: int, what: str) -> tuple[float, tuple[float, float]]:
        """Messages a second from the outgoing queue of one daemon into the queue of the other, and processor time."""
        there, sign, encrypt = self.b.queue(QUEUE), what == SIGNED_TRANSFER, what == ENCRYPTED_TRANSFER
        # Opens the outgoing queue and a session, and fills the caches of keys.
        self.outgoing.send(BODY, sign=sign, encrypt=encrypt)
        there.receive(SECONDS_AT_MOST)
        self.outgoing.pause()
        left = count
        while left:
            left -= len(self.outgoing.send_many([BODY] * min(left, BATCH), sign=sign, encrypt=encrypt))
        cpu, begin = self.cpu_seconds(), time.perf_counter()
        self.outgoing.resume()
        while there.info().message_count < count:
            if time.perf_counter() - begin > SECONDS_AT_MOST:
                raise TimeoutError(f"only {there.info().message_count} of {count} messages have arrived")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        rate, used = count / (time.perf_counter() - begin), self.cpu_since(cpu, count)
        message = there.peek()
        assert message.body == BODY
        assert message.authenticated == message.sender_verified == sign
        assert bool(message.encrypted) == encrypt
        there.purge()
        return rate, used


def openssl_signatures() -> float:
    """The signatures a second of openssl, with a process for each processor."""
    command = ["openssl", "speed", "-mr", "-seconds", str(SECONDS_OF_OPENSSL), "-multi", str(PROCESSORS), "rsa2048"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS_AT_MOST).stdout
    # +F2, number of the size, bits, signatures a second, verifications a second.
    lines = [line.split(":") for line in answer.splitlines() if line.startswith("+F2:")]
    return float(lines[-1][3])


def measure(rounds: int, count: int, folder: Path) -> tuple[Rates, Cpu]:
    rates: Rates = defaultdict(list)
    cpu: Cpu = defaultdict(list)
    begun = time.monotonic()
    with ExitStack() as stack:
        a, b = stack.enter_context(servers.waypost_daemons(folder))
        bench = Bench(a, b, count, stack)
        for each in TRANSFERS:
            bench.transfer(10 * BATCH, each)
        print("warmed up", file=sys.stderr, flush=True)
        for number in range(rounds):
            if number and time.monotonic() - begun > SECONDS_OF_ALL:
                break
            bench.round(number, rates, cpu)
            line = ", ".join(f"{what} {found[-1]:,.0f}/s" for what, found in rates.items())
            print(f"round {number + 1} of {rounds}: {line}", file=sys.stderr, flush=True)
    return rates, cpu


def ratios(rates: Rates) -> list[Ratio]:
    found = []
    for each in COMPARISONS:
        if each.ours in rates and each.theirs in rates:
            both = zip(rates[each.ours], rates[each.theirs], strict=True)
            found.append(Ratio(each.what, median(ours / theirs for ours, theirs in both), each.least))
    return found


def table(rates: Rates, cpu: Cpu) -> str:
    heads = f"{'':50}{'a second':>10}{'lowest':>9}{'highest':>9}   CPU us a message:"
    lines = [f"{heads}{'first':>7}{'second daemon':>15}"]
    for what, found in rates.items():
        first, second = (f"{median(each):,.0f}" for each in zip(*cpu[what], strict=True)) if what in cpu else ("", "")
        line = f"{what:50}{median(found):10,.0f}{min(found):9,.0f}{max(found):9,.0f}{'':20}{first:>7}{second:>15}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure signed and encrypted messages.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of measurements of each ({ROUNDS})")
    parser.add_argument("--count", type=int, default=COUNT, help=f"number of messages of one transfer ({COUNT:,})")
    arguments = parser.parse_args()
    rounds, count = max(1, arguments.rounds), max(1, arguments.count)
    record.RECORD.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="protected-", dir=record.RECORD.parent))
    load = os.getloadavg()[0]
    try:
        rates, cpu = measure(rounds, count, folder)
    finally:
        shutil.rmtree(folder)
    found = ratios(rates)
    done = len(rates[TAKEN])
    setting = {**record.setting(), "rounds": done, "count": count, "bytes": len(BODY), "batch": BATCH, "load": load}
    rows = [asdict(each) for each in found]
    record.keep({"protected": {**setting, "rates": dict(rates), "cpu_us": dict(cpu), "rows": rows}})
    print(f"load average {load:.1f} on {PROCESSORS} processors")
    print(table(rates, cpu))
    for each in found:
        print(f"{each.what}: {each.ratio:.2f}{each.verdict}")
    if OPENSSL not in rates:
        print("The comparison with openssl speed is left out: openssl is not installed here.")
    print(
        f"Medians of {done} rounds, messages of {len(BODY):,} bytes, in batches of {BATCH} unless single, "
        f"{SIGNERS} signing programs, {count:,} messages in a transfer. "
        f"Python {setting['python']}, {setting['machine']}."
    )


if __name__ == "__main__":
    main()
