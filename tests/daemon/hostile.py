"""Attacks on a daemon over real sockets: `python -m tests.daemon.hostile [--packets N]` runs them all at length.

Two daemons run. One is attacked while the other keeps sending to it, and in the end everything that was sent is there,
the attacked one has not grown out of bounds, and it stops when it is told to.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import waypost
from fuzz import corpus
from tests.daemon.running import loopback
from waypost.guid import NULL_GUID
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection

ROOT: Final = Path(__file__).parents[2]
MAX_PACKETS_A_CONNECTION: Final = 12
# What the interpreter, the libraries and the caches take, with room for what waits for the disk.
MAX_MEMORY: Final = 500 << 20


@dataclass
class Target:
    """A daemon that runs in a process of its own."""

    address: str
    process: "subprocess.Popen[str]"
    url: str

    @property
    def is_up(self) -> bool:
        return self.process.poll() is None

    @property
    def memory(self) -> int:
        """Bytes of it, now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def connect(self) -> socket.socket:
        return socket.create_connection((self.address, 1801), timeout=5)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def target(folder: Path, address: str, *settings: str) -> Iterator[Target]:
    words = [word for setting in settings for word in ("--set", setting)]
    serve = [sys.executable, "-c", "from waypost.cli import main; main()", "serve", "--bind", address]
    log = folder.with_suffix(".log")
    with (
        log.open("w", encoding="utf-8") as talk,
        subprocess.Popen(
            [*serve, "--data", str(folder), "--name", folder.name, "--http-port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text(encoding="utf-8")
            yield Target(address, process, f"http://{json.loads(line)['http']}")
        finally:
            process.kill()


def seeds() -> list[bytes]:
    vectors = [path.read_bytes() for path in sorted((ROOT / "tests/vectors").glob("*.bin"))]
    return [*vectors, *(data for data in corpus.known("packet") if len(data) < 10_000)]


def mutated(dice: random.Random, packets: list[bytes]) -> bytes:
    data = bytearray(dice.choice(packets))
    for _ in range(dice.choice((0, 1, 1, 2, 5, 20))):
        at = dice.randrange(max(len(data), 1))
        match dice.randrange(5):
            case 0:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                data[at : at + 4] = dice.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data))).to_bytes(4, "little")
            case 2:
                del data[at : at + dice.randrange(1, 40)]
            case 3:
                data[at:at] = dice.randbytes(dice.randrange(1, 40))
            case _:
                other = dice.choice(packets)
                data[at:] = other[dice.randrange(max(len(other), 1)) :]
    return bytes(data)


def handshake(peer: socket.socket, dice: random.Random) -> None:
    """Open a session as a queue manager would."""
    peer.sendall(EstablishConnection.request(dice.randbytes(16), NULL_GUID, 1, 0).encode())
    peer.recv(4096)
    peer.sendall(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000, window_size=64).encode())
    peer.recv(4096)


def send_mutants(victim: Target, count: int, dice: random.Random) -> None:
    """Mutated packets, half of them in sessions that are open."""
    packets = seeds()
    left = count
    while left > 0:
        with suppress(OSError), victim.connect() as peer:
            if dice.randrange(2):
                handshake(peer, dice)
            for _ in range(min(left, dice.randrange(1, MAX_PACKETS_A_CONNECTION))):
                left -= 1
                peer.sendall(mutated(dice, packets))
            peer.settimeout(dice.choice((0.0001, 0.01)))
            peer.recv(65536)
        left -= not victim.is_up and left


def be_idle(victim: Target, count: int) -> None:
    """So many connections that say nothing, and some that say a byte now and then."""
    with ExitStack() as stack:
        peers = [stack.enter_context(victim.connect()) for _ in range(count)]
        packet = seeds()[2]
        for number in range(20):
            for peer in peers[:: max(count // 50, 1)]:
                with suppress(OSError):
                    peer.send(packet[number : number + 1])


def send_too_much(victim: Target, dice: random.Random) -> None:
    """Packets that say they are larger than any, and endless ones."""
    for size in (0x0040_0001, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x0040_0000):
        with suppress(OSError), victim.connect() as peer:
            handshake(peer, dice)
            header = bytearray(seeds()[-1][:16].ljust(16, b"\0"))
            header[:4] = b"\x10\x00\x03\x00"
            header[4:8] = b"LIOR"
            header[8:12] = size.to_bytes(4, "little")
            peer.sendall(bytes(header))
            for _ in range(64):
                peer.sendall(bytes(0x10_0000))


def campaign(place: Path, packets: int, idle: int, seed: int, tell: Callable[[str], None]) -> None:
    """All of them. Raises AssertionError if the daemon does not bear it."""
    dice = random.Random(seed)
    with (
        target(place / "alpha", loopback(6), "transfer.retry_connect_s=0.2") as alpha,
        target(place / "beta", loopback(7), "transfer.refusals_per_minute=4000000000", "log.level=error") as beta,
        waypost.connect(alpha.url) as sender,
        waypost.connect(beta.url) as receiver,
    ):
        orders = receiver.create_queue("orders")
        sent = 0

        def send_ten() -> None:
            nonlocal sent
            for _ in range(10):
                sender.send(rf"DIRECT=TCP:{beta.address}\private$\orders", f"order {sent}")
                sent += 1

        part = max(packets // 20, 1)
        for _ in range(0, packets, part):
            send_mutants(beta, part, dice)
            send_ten()
            assert beta.is_up, (place / "beta.log").read_text(encoding="utf-8")[-5000:]
        tell(f"{packets:,} mutated packets: {beta.memory >> 20} MB")
        be_idle(beta, idle)
        send_ten()
        tell(f"{idle:,} idle connections: {beta.memory >> 20} MB")
        send_too_much(beta, dice)
        send_ten()
        tell(f"packets that are too large: {beta.memory >> 20} MB")
        got = [orders.receive(timeout=30).text for _ in range(sent)]
        assert got == [f"order {number}" for number in range(sent)], "messages are lost, doubled or out of order"
        assert beta.memory < MAX_MEMORY, f"it has grown to {beta.memory >> 20} MB"
        assert beta.stop() == 0
        assert alpha.stop() == 0
        assert "unexpected" not in (place / "beta.log").read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a daemon over real sockets.")
    parser.add_argument("--packets", type=int, default=100_000, help="mutated packets (100000)")
    parser.add_argument("--idle", type=int, default=2000, help="idle connections (2000)")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        campaign(Path(place), arguments.packets, arguments.idle, seed, lambda line: print(line, flush=True))
    print(f"it bore all of it, in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
