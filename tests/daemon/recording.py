"""A queue manager that only writes down what it is told, and loops to test in."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from io import StringIO
from typing import Any, TypeVar

from waypost.clock import Now
from waypost.daemon.logs import Level, Log
from waypost.daemon.socket_facts import Facts
from waypost.node.turns import Work

R = TypeVar("R")

SECONDS = 60


class Recorder:
    """Facts and the shell in one. `told` is what came, without the times."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.data: dict[int, bytearray] = {}
        self.left: dict[int, bytes] = {}
        # Connections and how many packets were looked at, of each turn.
        self.turns: list[tuple[int, int]] = []
        self.held: set[int] = set()
        self.paused: set[int] = set()
        self.accepts = True
        self.needs_answers = False
        self.packet_cost = 1
        self.last = 100
        self.stream = StringIO()
        self.log = Log(self.stream, "json", Level.DEBUG)

    def tell(self, fact: Callable[[Now], R]) -> R | None:
        return fact(Now(time.monotonic(), time.time()))

    def accept(self, address: str, now: Now) -> int | None:
        self.told.append(("accept", address))
        if not self.accepts:
            return None
        self.last += 1
        return self.last

    def data_received(self, connection: int, data: bytes, now: Now, most: int = 0) -> Work:
        """A packet is a byte here. What is held is not looked at."""
        self.left[connection] = left = self.left.get(connection, b"") + data
        most = 0 if connection in self.held else most
        self.data.setdefault(connection, bytearray()).extend(left[:most])
        self.left[connection] = left[most:]
        self.turns.append((connection, min(len(left), most)))
        return Work(min(len(left), most), len(left[most:]))

    def reading_paused(self, connection: int, now: Now) -> None:
        self.paused.add(connection)

    def reading_resumed(self, connection: int, now: Now) -> None:
        self.paused.discard(connection)

    def connected(self, connection: int, now: Now) -> None:
        self.told.append(("connected", connection))

    def connect_failed(self, connection: int, reason: str, now: Now) -> None:
        self.told.append(("connect_failed", connection, reason))

    def connection_lost(self, connection: int, now: Now) -> None:
        self.told.append(("connection_lost", connection))

    def writing_paused(self, connection: int, now: Now) -> None:
        self.told.append(("writing_paused", connection))

    def writing_resumed(self, connection: int, now: Now) -> None:
        self.told.append(("writing_resumed", connection))

    def datagram_received(self, data: bytes, address: str, port: int, now: Now) -> None:
        self.told.append(("datagram_received", data, address, port))

    def ping_answered(self, data: bytes, now: Now) -> None:
        self.told.append(("ping_answered", data))

    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None:
        self.told.append(("resolved", request, addresses))

    def addresses_changed(self, addresses: frozenset[str], now: Now) -> None:
        self.told.append(("addresses_changed", addresses))

    def stop(self, now: Now) -> None:
        self.told.append(("stop",))

    async def hears(self, fact: tuple[Any, ...]) -> None:
        await until(lambda: fact in self.told)


def facts(recorder: Recorder) -> Facts:
    """The type checker sees that it tells all facts."""
    return recorder


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


def loops() -> list[Any]:
    """The factories of the event loops that the daemon may run in."""
    return [asyncio.new_event_loop, import_module("uvloop").new_event_loop]


def run(factory: Any, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    problems: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        await work()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert problems == []


async def soon(work: Awaitable[R]) -> R:
    async with asyncio.timeout(SECONDS):
        return await work
