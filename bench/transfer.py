"""Measure messages from program to program: `python bench/transfer.py [--rounds N] [--quick]`.

Sender and receiver are separate processes (bench/programs.py), with one Waypost daemon between them or with two,
of which the first stores and forwards; beside it RabbitMQ with one broker and with two that a shovel joins, and Redis
Streams with one server (bench/servers.py). All of them run all the time, on the disk of the checkout under build/. In
each round every contender sends for a second or two, one after the other and each first in turn, and then message by
message, each when the receiver has the one before. A rate is the median of the rounds, and a ratio the median of the
ratios of the rounds. Messages have 1 KiB, up to 1,000 are under way, and time is that of the wall. The table is
printed, and build/bench.json has the same figures. The exit code does not depend on them.
"""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record, servers
from bench.pika_program import RabbitMQ
from bench.programs import BODY, Gate, Program, Redis, Stretch, Tally, Waypost
from bench.servers import Server, cpu_seconds

ROUNDS: Final = 9
QUICK_ROUNDS: Final = 3
SECONDS_OF_ONE_STRETCH: Final = 1.5
SECONDS_OF_ROUND_TRIPS: Final = 0.7
SECONDS_AT_MOST: Final = 120.0

WINDOW: Final = 1000
BATCH: Final = 250
THREADS: Final = 2
WARM_UP: Final = 4000
FEWEST_ROUND_TRIPS: Final = 100

KINDS: Final = ("express", "recoverable", "transactional")


@dataclass(frozen=True, slots=True)
class Contender:
    product: str
    # The number of servers that a message goes through.
    hops: int
    kind: str = "recoverable"

    def __str__(self) -> str:
        return f"{self.product}, {self.kind}, {self.hops} server{'s' * (self.hops > 1)}"


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a contender's programs run: their servers, and what each calls the queue."""

    program: type[Program]
    send_to: Server
    queue: str
    receive_from: Server
    queue_there: str


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    ours: Contender
    theirs: Contender
    least: float


RABBIT_ONE: Final = Contender("RabbitMQ", 1)
RABBIT_TWO: Final = Contender("RabbitMQ", 2)
OURS: Final = {(hops, kind): Contender("Waypost", hops, kind) for hops in (1, 2) for kind in KINDS}

TARGETS: Final = (
    Target("one daemon, recoverable, to one RabbitMQ broker", OURS[1, "recoverable"], RABBIT_ONE, 1.5),
    Target("two daemons, recoverable, to RabbitMQ with a shovel", OURS[2, "recoverable"], RABBIT_TWO, 2.0),
    Target("two daemons, recoverable, to one RabbitMQ broker", OURS[2, "recoverable"], RABBIT_ONE, 1.0),
    Target("one daemon, transactional, to one RabbitMQ broker", OURS[1, "transactional"], RABBIT_ONE, 1.0),
    Target("two daemons, transactional, to one RabbitMQ broker", OURS[2, "transactional"], RABBIT_ONE, 1.0),
)


@dataclass(slots=True)
class Measured:
    """Of one contender, a value for each round; processor seconds by process."""

    rates: list[float] = field(default_factory=list)
    messages: int = 0
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Figures:
    product: str
    hops: int
    kind: str
    per_second: float
    # Microseconds for one message, by process.
    cpu_us: dict[str, float]
    p50_ms: float | None
    p99_ms: float | None


class Pair:
    """The two processes of a contender."""

    def __init__(self, setup: Setup, kind: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        heard, told = spawn.Pipe(duplex=False)
        self.setup: Final = setup
        self.controls: Final[dict[str, Connection]] = {}
        self.processes: Final[dict[str, Any]] = {}
        for role, server, queue, pipe in (
            ("sender", setup.send_to, setup.queue, heard),
            ("receiver", setup.receive_from, setup.queue_there, told),
        ):
            self.controls[role], control = spawn.Pipe()
            arguments = (role, setup.program, (server.address, queue, kind), control, pipe)
            self.processes[role] = spawn.Process(target=run_program, args=arguments, daemon=True)
            self.processes[role].start()
            control.close()
        heard.close()
        told.close()

    def answer(self, role: str) -> Any:
        control = self.controls[role]
        if not control.poll(SECONDS_AT_MOST):
            raise TimeoutError(f"the {role} of {self.setup} does not answer")
        answer = control.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"the {role} of {self.setup} failed: {answer}")
        return answer

    def run(self, stretch: Stretch) -> list[float]:
        """The times when each batch was allowed to leave, and when all had arrived."""
        self.controls["receiver"].send(stretch)
        self.controls["sender"].send(stretch)
        times: list[float] = self.answer("sender")
        self.answer("receiver")
        return times

    def cpu(self) -> dict[str, float]:
        """Processor seconds so far."""
        used = {role: cpu_seconds(process.pid) for role, process in self.processes.items()}
        used["server"] = self.setup.send_to.cpu_seconds()
        if self.setup.receive_from != self.setup.send_to:
            used["second server"] = self.setup.receive_from.cpu_seconds()
        return used

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()


def run_program(
    role: str, make: type[Program], arguments: tuple[str, str, str], control: Connection, pipe: Connection
) -> None:
    """The main function of a process: one stretch after the other, until it is killed."""
    try:
        program = make(*arguments)
        control.send(None)
        while True:
            stretch = control.recv()
            if role == "sender":
                gate = Gate(pipe, stretch)
                program.send(stretch, gate)
                gate.finish()
                control.send(gate.times)
            else:
                program.receive(stretch, Tally(pipe, stretch))
                control.send(None)
    except Exception:  # noqa: BLE001, the parent raises it
        control.send(traceback.format_exc())


@contextmanager
def contenders(folder: Path) -> Iterator[dict[Contender, Pair]]:
    with ExitStack() as stack:
        setups = waypost_setups(stack.enter_context(servers.waypost_daemons(folder / "waypost")))
        if servers.has_rabbitmq():
            a, b = stack.enter_context(servers.rabbitmq_nodes(folder / "rabbitmq"))
            setups[RABBIT_ONE] = Setup(RabbitMQ, a, "bench", a, "bench")
            setups[RABBIT_TWO] = Setup(RabbitMQ, a, servers.SHOVELLED, b, servers.SHOVELLED)
        if servers.has_redis():
            only = stack.enter_context(servers.redis(folder / "redis"))
            setups[Contender("Redis Streams", 1)] = Setup(Redis, only, "bench", only, "bench")
        pairs = {}
        for contender, setup in setups.items():
            pairs[contender] = pair = Pair(setup, contender.kind)
            stack.callback(pair.end)
        for pair in pairs.values():
            pair.answer("sender")
            pair.answer("receiver")
        yield pairs


def waypost_setups(daemons: tuple[Server, Server]) -> dict[Contender, Setup]:
    a, b = daemons
    for daemon in daemons:
        with waypost.connect(daemon.address) as manager:
            for kind in KINDS:
                manager.create_queue(kind, transactional=kind == "transactional")
    setups = {}
    for (hops, kind), contender in OURS.items():
        there = a if hops == 1 else b
        # The HTTP API of a daemon is at the address that other daemons know.
        host = there.address.removeprefix("http://").partition(":")[0]
        queue = kind if hops == 1 else f"DIRECT=TCP:{host}\\private$\\{kind}"
        setups[contender] = Setup(Waypost, a, queue, there, kind)
    return setups


def measure(rounds: int, folder: Path) -> dict[Contender, Measured]:
    with contenders(folder) as pairs:
        measured = {contender: Measured() for contender in pairs}
        streams = {contender: warm_up(pair) for contender, pair in pairs.items()}
        trips = {contender: warm_up_trips(pair) for contender, pair in pairs.items() if has_trips(contender)}
        print(f"warmed up {len(pairs)} contenders", file=sys.stderr, flush=True)
        order = list(pairs)
        for number in range(rounds):
            turn = number % len(order)
            for contender in order[turn:] + order[:turn]:
                stream(pairs[contender], streams[contender], measured[contender])
                if contender in trips:
                    round_trips(pairs[contender], trips[contender], measured[contender])
            line = ", ".join(f"{contender} {found.rates[-1]:,.0f}/s" for contender, found in measured.items())
            print(f"round {number + 1} of {rounds}: {line}", file=sys.stderr, flush=True)
    return measured


def has_trips(contender: Contender) -> bool:
    return contender.kind == "recoverable"


def warm_up(pair: Pair) -> Stretch:
    """As many messages as make a stretch of the length that is wanted."""
    pair.run(Stretch(WARM_UP, WINDOW, BATCH, THREADS))
    times = pair.run(Stretch(WARM_UP, WINDOW, BATCH, THREADS))
    wanted = int(WARM_UP / (times[-1] - times[0]) * SECONDS_OF_ONE_STRETCH)
    return Stretch(max(wanted // WINDOW, 1) * WINDOW, WINDOW, BATCH, THREADS)


def warm_up_trips(pair: Pair) -> Stretch:
    times = pair.run(Stretch(FEWEST_ROUND_TRIPS, window=1, batch=1, threads=1))
    wanted = int(FEWEST_ROUND_TRIPS / (times[-1] - times[0]) * SECONDS_OF_ROUND_TRIPS)
    return Stretch(max(wanted, FEWEST_ROUND_TRIPS), window=1, batch=1, threads=1)


def stream(pair: Pair, stretch: Stretch, measured: Measured) -> None:
    before = pair.cpu()
    times = pair.run(stretch)
    for process, seconds in pair.cpu().items():
        measured.cpu[process] += seconds - before[process]
    measured.messages += stretch.messages
    measured.rates.append(stretch.messages / (times[-1] - times[0]))


def round_trips(pair: Pair, stretch: Stretch, measured: Measured) -> None:
    times = pair.run(stretch)
    percentiles = quantiles([(later - earlier) * 1000 for earlier, later in pairwise(times)], n=100)
    measured.p50_ms.append(percentiles[49])
    measured.p99_ms.append(percentiles[98])


def figures(measured: dict[Contender, Measured]) -> list[Figures]:
    return [
        Figures(
            contender.product,
            contender.hops,
            contender.kind,
            median(found.rates),
            {process: seconds / found.messages * 1e6 for process, seconds in found.cpu.items()},
            median(found.p50_ms) if found.p50_ms else None,
            median(found.p99_ms) if found.p99_ms else None,
        )
        for contender, found in sorted(measured.items(), key=lambda item: item[0].hops)
    ]


def verdicts(measured: dict[Contender, Measured]) -> list[str]:
    if RABBIT_ONE not in measured:
        return []
    lines = []
    for target in TARGETS:
        both = zip(measured[target.ours].rates, measured[target.theirs].rates, strict=True)
        ratio = median(ours / theirs for ours, theirs in both)
        lines.append(f"{target.what}: {ratio:.2f}, at least {target.least:g}: {_verdict(met=ratio >= target.least)}")
    for ours, theirs in ((OURS[1, "recoverable"], RABBIT_ONE), (OURS[2, "recoverable"], RABBIT_TWO)):
        here, there = median(measured[ours].p50_ms), median(measured[theirs].p50_ms)
        lines.append(
            f"{ours.hops} server{'s' * (ours.hops > 1)}, p50 of a round trip: {here:.2f} ms, "
            f"RabbitMQ {there:.2f} ms, at most that: {_verdict(met=here <= there)}"
        )
    return lines


def _verdict(*, met: bool) -> str:
    return "met" if met else "MISSED"


def table(rows: list[Figures]) -> str:
    processes = ("sender", "server", "second server", "receiver")
    heads = f"{'':16}{'servers':>8}  {'messages':14}{'messages/s':>11}{'p50 ms':>8}{'p99 ms':>8}   CPU us a message:"
    lines = [heads + "".join(f"{process:>{len(process) + 2}}" for process in processes)]
    for row in rows:
        trips = "".join(f"{'' if value is None else f'{value:.2f}':>8}" for value in (row.p50_ms, row.p99_ms))
        used = "".join(
            f"{f'{row.cpu_us[process]:.0f}' if process in row.cpu_us else '':>{len(process) + 2}}"
            for process in processes
        )
        lines.append(f"{row.product:16}{row.hops:8}  {row.kind:14}{row.per_second:11,.0f}{trips}{'':20}{used}".rstrip())
    return "\n".join(lines)


def missing() -> list[str]:
    sentences = []
    for is_there, name, package in (
        (servers.has_rabbitmq(), "RabbitMQ", servers.RABBITMQ_PACKAGE),
        (servers.has_redis(), "Redis", servers.REDIS_PACKAGE),
    ):
        if not is_there:
            sentences.append(f"{name} is left out: it is not installed here (Debian's package {package}).")
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure messages from program to program, beside RabbitMQ and Redis.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of measurements of each ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, for a first look")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else max(1, arguments.rounds)
    record.RECORD.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=record.RECORD.parent))
    try:
        measured = measure(rounds, folder)
    finally:
        shutil.rmtree(folder)
    rows, judged = figures(measured), verdicts(measured)
    setting = {**record.setting(), "rounds": rounds, "bytes": len(BODY), "window": WINDOW, "batch": BATCH}
    setting["threads"] = THREADS
    record.keep({"transfer": {**setting, "rows": [asdict(row) for row in rows], "verdicts": judged}})
    print(table(rows))
    for line in [*judged, *missing()]:
        print(line)
    print(
        f"Medians of {rounds} rounds, messages of {len(BODY):,} bytes, up to {WINDOW:,} under way, "
        f"in batches of {BATCH}, {THREADS} threads at each end of Waypost and Redis. "
        f"Python {setting['python']}, {setting['machine']}."
    )


if __name__ == "__main__":
    main()
