"""Daemons in the loop of a test, each on a separate address with the standard ports."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from tests.daemon.recording import until
from waypost.api.asgi import Peer
from waypost.client.aio_manager import Manager
from waypost.client.transports.embedded import AioEmbedded
from waypost.daemon.loading import load
from waypost.daemon.logs import Level, Log
from waypost.daemon.service import Daemon
from waypost.drive.loop import Loop


def loopback(number: int) -> str:
    """An address that no test of another process has."""
    process = os.getpid()
    return f"127.{process >> 8 & 0x7F | 0x80}.{process & 0xFF}.{number}"


@dataclass
class Running:
    daemon: Daemon
    manager: Manager
    ready: Mapping[str, str]
    stream: StringIO
    task: "asyncio.Task[int]"
    app: "Stoppable"

    async def stop(self) -> int:
        self.daemon.stop()
        async with asyncio.timeout(60):
            return await self.task


class Stoppable:
    """An application as the daemon takes it."""

    def __init__(self, app: Any, token: bytes = b"") -> None:
        self._app = app
        self.token = token
        self.is_stopped = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def quick(self, _url: bytes, _headers: list[tuple[bytes, bytes]], _peer: Peer) -> None:
        return None

    def recognizes(self, head: bytes) -> bool:
        """Nobody is a stranger, unless the test has a token."""
        return not self.token or self.token in head

    def stop(self) -> None:
        self.is_stopped = True


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """An application that says where it was asked for."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def running(
    folder: Path, address: str, *settings: str, app: Any = hello, token: bytes = b""
) -> AsyncIterator[Running]:
    """A daemon that is ready. Leaving stops it, and it has to end well unless the test stopped it."""
    config = load(
        None,
        {},
        {},
        [
            f"store.path={folder}",
            f"names.computer={folder.name}",
            f"transfer.bind={address}",
            "transfer.retry_connect_s=0.1",
            "http.port=0",
            *settings,
        ],
    )
    stream = StringIO()
    managers: list[Manager] = []
    stoppable = Stoppable(app, token)
    ready: list[Mapping[str, str]] = []

    def make_app(shell: Loop, _: Mapping[str, str], __: str) -> Stoppable:
        managers.append(Manager(AioEmbedded(shell, config.folder)))
        return stoppable

    daemon = Daemon(config, Log(stream, "json", Level.DEBUG), make_app)
    task = asyncio.create_task(daemon.serve(ready.append))
    await until(lambda: ready or task.done())
    if task.done():
        task.result()
    run = Running(daemon, managers[0], ready[0], stream, task, stoppable)
    try:
        yield run
    finally:
        was_running = not task.done()
        code = await run.stop()
        if was_running:
            assert code == 0, stream.getvalue()
