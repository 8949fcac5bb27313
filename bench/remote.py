"""Measure reading from afar: `python bench/remote.py [--rounds N] [--quick]`.

Everything runs in a separate process (bench/rpc_peers.py), on loopback, without authentication. First the smallest
call, R_GetServerPort, over and over: our client with our daemon, impacket's client and scapy's client each with the
server of its library, and those clients with our daemon. Then messages: receives in two phases, by one reader and by
eight, peeks, and a message of 4 MB; beside each the same calls with answers of the same sizes from a bare RPC server,
which has no queues. In each round everything is timed once, in turns. A figure is the median of the rounds, and a ratio
the median of the ratios of the rounds. The table is printed, and build/bench.json has the same figures. The exit code
does not depend on them.
"""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record, rpc_peers
from tests.crash.daemons import Daemon, loopback
from tests.crash.remote_reader import MAX_BODY, RPC_PORT, RemoteReader
from waypost.remote.interfaces.remote_read import ReceiveAction, StartReceiveRequest
from waypost.wire.ndr import NdrSyntax, NdrWriter

ROUNDS: Final = 9
QUICK_ROUNDS: Final = 3
SECONDS_OF_ONE_STRETCH: Final = 0.6
SECONDS_AT_MOST: Final = 120.0
WARM_UP: Final = 50

SMALL: Final = 1024
LARGE: Final = 4_000_000
EIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `fill` puts a number of messages where they are needed, before the clock runs."""

    what: str
    with_whom: str
    beside: str = ""
    fill: Callable[[int], None] = lambda _: None


@dataclass(slots=True)
class Measured:
    rates: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Figures:
    what: str
    with_whom: str
    per_second: float
    milliseconds: float
    # To what `beside` names: how many times as many a second.
    beside: str
    ratio: float | None


class Team:
    """Processes that do the same at the same time."""

    def __init__(self, size: int, make: Callable[..., rpc_peers.Do], *arguments: Any) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.size: Final = size
        self._processes: Final[list[Any]] = []
        self._controls: Final[list[Connection]] = []
        for _ in range(size):
            here, there = spawn.Pipe()
            process = spawn.Process(target=rpc_peers.repeat, args=(make, arguments, there), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._controls.append(here)
        self.times = WARM_UP
        for control in self._controls:
            heard(control)

    def run(self) -> float:
        """The number of calls per second, all together."""
        for control in self._controls:
            control.send(self.times)
        stretches = [heard(control) for control in self._controls]
        assert all(result is not None for *_, result in stretches), "there was nothing to read"
        began, ended = min(began for began, *_ in stretches), max(ended for _, ended, _ in stretches)
        rate: float = self.times * self.size / (ended - began)
        return rate

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def heard(control: Connection) -> Any:
    if not control.poll(SECONDS_AT_MOST):
        raise TimeoutError("a process does not answer")
    return control.recv()


@contextmanager
def serving(serve: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """The port of a server in a separate process."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(*arguments, there), daemon=True)
    process.start()
    there.close()
    try:
        yield heard(here)
    finally:
        process.kill()
        process.join()


class Filler:
    """Keeps messages in the queues of the daemon."""

    def __init__(self, manager: waypost.Manager) -> None:
        self._manager = manager
        for name in ("recoverable", "express", "large", "peeked"):
            manager.create_queue(name)
        manager.send("peeked", bytes(SMALL))

    def recoverable(self, amount: int) -> None:
        self._send("recoverable", amount, SMALL, recoverable=True)

    def express(self, amount: int) -> None:
        self._send("express", amount, SMALL, recoverable=False)

    def large(self, amount: int) -> None:
        self._send("large", amount, LARGE, recoverable=True)

    def _send(self, queue: str, amount: int, size: int, *, recoverable: bool) -> None:
        for first in range(0, amount, 1000):
            bodies = [bytes(size)] * min(1000, amount - first)
            if size == SMALL:
                self._manager.queue(queue).send_many(bodies, recoverable=recoverable)
                continue
            for body in bodies:
                self._manager.send(queue, body, recoverable=recoverable)


@contextmanager
def contenders(folder: Path) -> Iterator[dict[Row, Team]]:
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(folder, "bench", loopback(2), "log.level=warning"))
        daemon.start()
        filler = Filler(stack.enter_context(daemon.connect()))
        teams: dict[Row, Team] = {}

        def add(row: Row, size: int, make: Callable[..., rpc_peers.Do], *arguments: Any) -> None:
            teams[row] = team = Team(size, make, *arguments)
            stack.callback(team.end)

        ours = (daemon.address, RPC_PORT)
        impacket = (rpc_peers.ADDRESS, stack.enter_context(serving(rpc_peers.serve_impacket)))
        scapy = (rpc_peers.ADDRESS, stack.enter_context(serving(rpc_peers.serve_scapy)))
        port = "R_GetServerPort"
        add(Row(port, "Waypost"), 1, rpc_peers.waypost_client, *ours)
        add(Row(port, "impacket", "Waypost"), 1, rpc_peers.impacket_client, *impacket)
        add(Row(port, "scapy", "Waypost"), 1, rpc_peers.scapy_client, *scapy)
        add(Row(port, "impacket's client, Waypost", "Waypost"), 1, rpc_peers.impacket_client, *ours)
        add(Row(port, "scapy's client, Waypost", "Waypost"), 1, rpc_peers.scapy_client, *ours)
        small = (rpc_peers.ADDRESS, stack.enter_context(serving(rpc_peers.serve_bare, answer(daemon, "peeked"))))
        filler.large(1)
        large = (rpc_peers.ADDRESS, stack.enter_context(serving(rpc_peers.serve_bare, answer(daemon, "large"))))
        add(Row(port, "bare RPC", "Waypost"), 1, rpc_peers.waypost_client, *small)
        for size, who in ((1, "one reader"), (EIGHT, "eight readers")):
            what = f"receive 1 KiB, {who}"
            add(Row(what, "bare RPC"), size, rpc_peers.receiver, *small, daemon.direct("any"))
            for kind, fill in (("recoverable", filler.recoverable), ("express", filler.express)):
                add(Row(what, kind, "bare RPC", fill), size, rpc_peers.receiver, *ours, daemon.direct(kind))
        what = "peek 1 KiB, one reader"
        add(Row(what, "bare RPC"), 1, rpc_peers.peeker, *small, daemon.direct("any"))
        add(Row(what, "Waypost", "bare RPC"), 1, rpc_peers.peeker, *ours, daemon.direct("peeked"))
        what = "receive 4 MB, one reader"
        add(Row(what, "bare RPC"), 1, rpc_peers.receiver, *large, daemon.direct("any"))
        add(Row(what, "recoverable", "bare RPC", filler.large), 1, rpc_peers.receiver, *ours, daemon.direct("large"))
        yield teams


def answer(daemon: Daemon, queue: str) -> bytes:
    """The answer of the daemon to R_StartReceive for the first message of a queue, as stub data."""
    with RemoteReader(daemon.address) as reader:
        context = reader.open(daemon.direct(queue))
        action = ReceiveAction.MQ_ACTION_PEEK_CURRENT
        reply = reader.ask(7, StartReceiveRequest(context, 0, 0, action, 0, 1, MAX_BODY, MAX_BODY))
    writer = NdrWriter(NdrSyntax.NDR20)
    reply.write(writer)
    return writer.finish()


def measure(rounds: int, folder: Path) -> dict[Row, Measured]:
    with contenders(folder) as teams:
        for row, team in teams.items():
            team.times = 3 if "MB" in row.what else WARM_UP
            row.fill(team.times * team.size)
            team.times = max(int(team.run() / team.size * SECONDS_OF_ONE_STRETCH), 3)
        measured = {row: Measured() for row in teams}
        order = list(teams)
        for number in range(rounds):
            turn = number % len(order)
            for row in order[turn:] + order[:turn]:
                row.fill(teams[row].times * teams[row].size)
                measured[row].rates.append(teams[row].run())
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return measured


def ratio(measured: dict[Row, Measured], row: Row) -> float | None:
    if not row.beside:
        return None
    (beside,) = (each for each in measured if (each.what, each.with_whom) == (row.what, row.beside))
    return median(a / b for a, b in zip(measured[row].rates, measured[beside].rates, strict=True))


def figures(measured: dict[Row, Measured]) -> list[Figures]:
    rows = []
    for row, found in measured.items():
        rate = median(found.rates)
        readers = EIGHT if "eight" in row.what else 1
        rows.append(Figures(row.what, row.with_whom, rate, readers * 1000 / rate, row.beside, ratio(measured, row)))
    return rows


def verdicts(rows: list[Figures]) -> list[str]:
    lines = []
    for row in rows:
        if row.with_whom in ("impacket", "scapy") and row.ratio is not None:
            verdict = "met" if row.ratio < 1 else "MISSED"
            lines.append(
                f"R_GetServerPort, our client and daemon to {row.with_whom}'s client and server: "
                f"{1 / row.ratio:.2f} times as many, more than 1: {verdict}"
            )
    return lines


def table(rows: list[Figures]) -> str:
    lines = [f"{'':30}{'with':28}{'a second':>10}{'ms each':>10}   ratio"]
    for row in rows:
        share = "" if row.ratio is None else f"{row.ratio:8.2f} of {row.beside}"
        lines.append(f"{row.what:30}{row.with_whom:28}{row.per_second:10,.0f}{row.milliseconds:10.3f}{share}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure reading from afar, beside bare RPC, impacket and scapy.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of measurements of each ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, for a first look")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else max(1, arguments.rounds)
    record.RECORD.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=record.RECORD.parent))
    try:
        rows = figures(measure(rounds, folder))
    finally:
        shutil.rmtree(folder)
    judged = verdicts(rows)
    setting = {**record.setting(), "rounds": rounds}
    record.keep({"remote": {**setting, "rows": [asdict(row) for row in rows], "verdicts": judged}})
    print(table(rows))
    print("\n".join(judged))
    print(f"Medians of {rounds} rounds. Python {setting['python']}, {setting['machine']}.")


if __name__ == "__main__":
    main()
