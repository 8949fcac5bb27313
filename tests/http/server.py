"""The HTTP server on a loopback port, in the loop of the test, around a queue manager in a fresh folder."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
import msgspec
import uvicorn

from waypost import aio
from waypost.daemon.http_connection import HttpConnection
from waypost.http.app import Application, create_app
from waypost.http.settings import HttpSettings

MESSAGEPACK = "application/x-msgpack"


class Api:
    """A client, and the manager behind the server. JSON both ways, unless told otherwise."""

    def __init__(self, manager: aio.Manager, client: httpx.AsyncClient, app: Application, port: int) -> None:
        self.manager = manager
        self.client = client
        self.app = app
        self.port = port

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def post(self, path: str, data: object = None, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=data, **options) if data is not None else await self.client.post(path)

    async def delete(self, path: str) -> httpx.Response:
        return await self.client.delete(path)

    async def pack(self, path: str, data: object) -> Any:
        """Ask in MessagePack, and decode the answer."""
        headers = {"content-type": MESSAGEPACK, "accept": MESSAGEPACK}
        response = await self.client.post(path, content=msgspec.msgpack.encode(data), headers=headers)
        assert response.headers["content-type"] == MESSAGEPACK
        return msgspec.msgpack.decode(response.content)

    async def bodies(self, path: str, data: object) -> list[str | None]:
        """The texts of the messages that a read gives."""
        response = await self.post(path, data)
        assert response.status_code == 200, response.text
        return [message["body_text"] for message in response.json()["messages"]]


Test = Callable[[Api], Awaitable[None]]


@asynccontextmanager
async def serve(app: Application) -> AsyncIterator[int]:
    """The port of a server with this application."""
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio does it itself only for sockets that say that they are TCP, and this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", http=HttpConnection, proxy_headers=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        app.stop()
        server.should_exit = True
        await task


def served(settings: HttpSettings | None = None) -> Callable[[Test], Callable[[Path], None]]:
    """Runs a test against a server."""

    def decorate(test: Test) -> Callable[[Path], None]:
        @wraps(test)
        def run(tmp_path: Path) -> None:
            async def main() -> None:
                async with (
                    aio.open(tmp_path / "data", name="HOST") as manager,
                    serve(app := create_app(manager, settings or HttpSettings())) as port,
                    httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
                ):
                    await test(Api(manager, client, app, port))

            asyncio.run(main())

        # pytest gives what the signature asks for.
        run.__signature__ = inspect.signature(lambda tmp_path: None)  # type: ignore[attr-defined]
        return run

    return decorate
