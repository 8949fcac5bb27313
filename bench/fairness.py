"""Measure how long honest clients wait beside strangers that flood a daemon: `python bench/fairness.py [--runs N]`.

Eight processes at nice 19 send as fast as they can, each on one connection: tiny messages beyond any window to the port
for messages (1801), calls to the RPC port, requests without a token to the HTTP port. Beside them an honest program
sends messages one by one over HTTP with its token, and asks /health/live on a new connection now and then. Then the
honest one is another host: a program sends to a second daemon, which forwards each message to the flooded one, where a
program receives it.

Quiet medians come first. The processors are shared with the flooders, so there is a control: the same load against a
bare TCP sink beside the quiet daemon. Bounds are ratios to what the control shows. Everything is on loopback and ends
by itself; the exit code does not depend on the figures. build/bench.json has them.
"""

import argparse
import http.client
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import waypost
from bench import record, servers
from bench.servers import Server
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.client import ClientConnection
from waypost.rpc.interface import Empty
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection

RUNS: Final = 3
STRANGERS: Final = 8
SECONDS_OF_ONE_STRETCH: Final = 4.0
SECONDS_AT_MOST: Final = 60.0
SECONDS_TO_BEGIN: Final = 60.0
MOST_SENDS: Final = 2000
HEALTH_EVERY: Final = 10

VICTIM: Final = "127.0.0.4"
NEIGHBOUR: Final = "127.0.0.5"
TOKEN: Final = "an-honest-program"
QUEUE: Final = "orders"
FLOODED: Final = "flooded"
BODY: Final = bytes(1024)

# Of a packet: where MessageID stands.
MESSAGE_ID_AT: Final = 16 + 40

P99_RATIO: Final = 20
LONGEST_RATIO: Final = 100
LONGEST_MS: Final = 1000.0
HEALTH_MS: Final = 250.0


@dataclass(slots=True)
class Waits:
    """Of one stretch, in milliseconds."""

    what: str
    sends: int
    median_ms: float
    p99_ms: float
    longest_ms: float
    health_ms: float


# Strangers: each runs this file again, in a separate process.


def flood(kind: str, address: str, port: int, seconds: float) -> None:
    """Send as fast as the other side takes it, and read whatever comes, until the time is over."""
    os.nice(19)
    end = time.monotonic() + min(seconds, SECONDS_AT_MOST)
    is_told = False
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection((address, port), 5) as stranger:
            chunks = FLOODS[kind](stranger)
            if not is_told:
                print("flooding", flush=True)
                is_told = True
            pour(stranger, chunks, end)
        time.sleep(0.01)


def pour(stranger: socket.socket, chunks: Iterator[bytes], end: float) -> None:
    stranger.setblocking(False)
    data = memoryview(next(chunks))
    while time.monotonic() < end:
        readable, writable, _ = select.select([stranger], [stranger], [], 0.2)
        if readable and not stranger.recv(0x10_0000):
            return
        if writable:
            data = data[stranger.send(data) :] or memoryview(next(chunks))


def messages(stranger: socket.socket) -> Iterator[bytes]:
    """Tiny recoverable messages, each with a different identifier, whatever the window is."""
    guid = os.urandom(16)
    stranger.sendall(EstablishConnection.request(guid, NULL_GUID, 1, 0).encode())
    stranger.recv(0x1_0000)
    stranger.sendall(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000).encode())
    stranger.recv(0x1_0000)
    packet = packet_of(
        Message(
            identifier=MessageIdentifier(guid, 1),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            destination_queue_format_name=FormatName.parse(f"DIRECT=TCP:{VICTIM}\\private$\\{FLOODED}"),
            sent_time=int(time.time()),
            body=b"x",
        )
    )

    def chunks() -> Iterator[bytes]:
        number = 0
        while True:
            chunk = bytearray(packet * 500)
            for at in range(MESSAGE_ID_AT, len(chunk), len(packet)):
                number += 1
                struct.pack_into("<I", chunk, at, number)
            yield bytes(chunk)

    return chunks()


def calls(stranger: socket.socket) -> Iterator[bytes]:
    """Calls of a method that answers at once."""
    connection = ClientConnection([REMOTE_READ])
    connection.start()
    stranger.sendall(connection.take_output())
    while not connection.is_bound:
        connection.feed(stranger.recv(0x1_0000))
    for _ in range(500):
        connection.call(REMOTE_READ, 0, Empty())
    chunk = connection.take_output()

    def chunks() -> Iterator[bytes]:
        while True:
            yield chunk

    return chunks()


def requests(_stranger: socket.socket) -> Iterator[bytes]:
    """Requests that are refused for want of a token, one behind the other."""
    chunk = b"GET /api/status HTTP/1.1\r\nHost: victim\r\n\r\n" * 200

    def chunks() -> Iterator[bytes]:
        while True:
            yield chunk

    return chunks()


FLOODS: Final[dict[str, Callable[[socket.socket], Iterator[bytes]]]] = {
    "transfer": messages,
    "rpc": calls,
    "http": requests,
    # Into the sink, which says nothing.
    "sink": requests,
}


def sink(seconds: float) -> None:
    """A server that reads and forgets. It says its port first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        open_ones = [server]
        end = time.monotonic() + min(seconds, SECONDS_AT_MOST)
        while time.monotonic() < end:
            for each in select.select(open_ones, [], [], 0.2)[0]:
                if each is server:
                    open_ones.append(server.accept()[0])
                elif not each.recv(0x10_0000):
                    open_ones.remove(each)
                    each.close()


# The victims


@contextmanager
def flooding(kind: str, place: str, seconds: float) -> Iterator[None]:
    """Eight of them, until the end of the context."""
    address, _, port = place.rpartition(":")
    with ExitStack() as stack:
        strangers = [stack.enter_context(program("flood", kind, address, port, str(seconds))) for _ in range(STRANGERS)]
        for stranger in strangers:
            said(stranger)
        yield


@contextmanager
def program(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], SECONDS_TO_BEGIN)[0]:
        raise TimeoutError(f"{process.args!r} says nothing")
    return process.stdout.readline().strip()


class Local:
    """A program that sends to the daemon beside it."""

    def __init__(self, victim: Server) -> None:
        self._queue = waypost.connect(victim.address, token=TOKEN).queue(QUEUE)

    def once(self) -> None:
        self._queue.send(BODY, recoverable=True)


class Remote:
    """A program that sends to another daemon, and one that receives from the flooded one."""

    def __init__(self, victim: Server, neighbour: Server) -> None:
        there = waypost.connect(neighbour.address, token=TOKEN)
        self._sends = there.queue(f"DIRECT=TCP:{VICTIM}\\private$\\{QUEUE}")
        self._receives = waypost.connect(victim.address, token=TOKEN).queue(QUEUE)
        self._receives.purge()

    def once(self) -> None:
        self._sends.send(BODY, recoverable=True)
        self._receives.receive(timeout=SECONDS_AT_MOST)


def stretch(what: str, victim: Server, once: Callable[[], None], seconds: float) -> Waits:
    waits: list[float] = []
    health: list[float] = []
    end = time.monotonic() + seconds
    while (time.monotonic() < end or len(waits) < 20) and len(waits) < MOST_SENDS:
        begun = time.perf_counter()
        once()
        waits.append((time.perf_counter() - begun) * 1000)
        if len(waits) % HEALTH_EVERY == 0:
            health.append(live(victim))
    print(f"  {what}: {len(waits)} sends", file=sys.stderr, flush=True)
    waits.sort()
    p99 = waits[ceil(len(waits) * 0.99) - 1]
    return Waits(what, len(waits), median(waits), p99, waits[-1], max(health, default=0.0))


def live(victim: Server) -> float:
    """Milliseconds until /health/live answers on a new connection."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(victim.address.removeprefix("http://"), timeout=SECONDS_AT_MOST)
    connection.request("GET", "/health/live")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, answer.status
    return (time.perf_counter() - begun) * 1000


def run(folder: Path, seconds: float) -> list[Waits]:
    port = servers.free_port("")
    settings = {"http__token": TOKEN, "transfer__window_size": 64}
    with (
        servers.waypost_daemon(folder / "victim", VICTIM, port, **settings) as victim,
        servers.waypost_daemon(folder / "neighbour", NEIGHBOUR, port, **settings) as neighbour,
    ):
        with waypost.connect(victim.address, token=TOKEN) as manager:
            manager.create_queue(QUEUE)
            manager.create_queue(FLOODED)
        local, remote = Local(victim), Remote(victim, neighbour)
        # Warm.
        for once in (local.once, remote.once):
            for _ in range(50):
                once()
        found = [stretch("local, quiet", victim, local.once, seconds)]
        lasting = 3 * seconds + SECONDS_TO_BEGIN
        with program("sink", str(2 * lasting)) as drain:
            place = f"127.0.0.1:{said(drain)}"
            with flooding("sink", place, lasting):
                found.append(stretch("local, control", victim, local.once, seconds))
            for kind in ("transfer", "rpc", "http"):
                with flooding(kind, victim.endpoints[kind], lasting):
                    found.append(stretch(f"local, flood on {kind}", victim, local.once, seconds))
            remote = Remote(victim, neighbour)
            found.append(stretch("remote, quiet", victim, remote.once, seconds))
            with flooding("sink", place, lasting):
                found.append(stretch("remote, control", victim, remote.once, seconds))
            with flooding("transfer", victim.endpoints["transfer"], lasting):
                found.append(stretch("remote, flood on transfer", victim, remote.once, seconds))
    return found


def verdicts(found: list[Waits]) -> list[str]:
    """Of one run: each flood against the control of the same victim."""
    by_name = {waits.what: waits for waits in found}
    lines = []
    for waits in found:
        victim, _, how = waits.what.partition(", ")
        if not how.startswith("flood"):
            continue
        control = by_name[f"{victim}, control"]
        usual = max(control.median_ms, by_name[f"{victim}, quiet"].median_ms)
        longest = max(LONGEST_RATIO * usual, LONGEST_MS, control.longest_ms)
        p99 = max(P99_RATIO * usual, control.p99_ms)
        health = max(HEALTH_MS, control.health_ms)
        lines += [
            f"{waits.what}: p99 {waits.p99_ms:.1f} ms is {waits.p99_ms / usual:.1f} times the median of the control, "
            f"at most {p99 / usual:.0f}: {_verdict(met=waits.p99_ms <= p99)}",
            f"{waits.what}: longest {waits.longest_ms:.0f} ms, at most {longest:.0f} ms: "
            f"{_verdict(met=waits.longest_ms <= longest)}",
            f"{waits.what}: /health/live {waits.health_ms:.0f} ms, at most {health:.0f} ms: "
            f"{_verdict(met=waits.health_ms <= health)}",
        ]
    return lines


def _verdict(*, met: bool) -> str:
    return "met" if met else "MISSED"


def table(found: list[Waits]) -> str:
    lines = [f"{'':30}{'sends':>8}{'median ms':>11}{'p99 ms':>10}{'longest ms':>12}{'health ms':>11}"]
    lines += [
        f"{each.what:30}{each.sends:8}{each.median_ms:11.2f}{each.p99_ms:10.1f}{each.longest_ms:12.1f}"
        f"{each.health_ms:11.1f}"
        for each in found
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long honest clients wait beside strangers that flood.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"Number of runs (default: {RUNS}).")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS_OF_ONE_STRETCH, help="Seconds of one stretch (default: 4)."
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "build",
        help="Where the data folders are made, in memory for a disk that others use as well (default: build).",
    )
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    runs = []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="fairness-") as folder:
            found = run(Path(folder), min(options.seconds, 20.0))
        print(f"run {number + 1} of {options.runs}", table(found), *verdicts(found), "", sep="\n", flush=True)
        runs.append([asdict(waits) for waits in found])
    record.keep({"fairness": {**record.setting(), "strangers": STRANGERS, "runs": runs}})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["flood", kind, address, port, seconds]:
            flood(kind, address, int(port), float(seconds))
        case ["sink", seconds]:
            sink(float(seconds))
        case _:
            main()
