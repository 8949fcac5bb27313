"""`open` and `connect` for asyncio."""

import os
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Final

from waypost.client.aio_manager import Manager
from waypost.client.transports.embedded import AioEmbedded
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.looping import AioHttp
from waypost.drive.loop import Loop
from waypost.drive.settings import check_store, settings


class Opening:
    """A queue manager to open, or to connect to, with `await` or `async with`."""

    __slots__ = ("_manager", "_open")

    def __init__(self, open_manager: Callable[[], Coroutine[object, None, Manager]]) -> None:
        self._open: Final = open_manager
        self._manager: Manager | None = None

    def __await__(self) -> Generator[object, None, Manager]:
        return self._open().__await__()

    async def __aenter__(self) -> Manager:
        self._manager = await self._open()
        return self._manager

    async def __aexit__(self, *_: object) -> None:
        if self._manager is not None:
            await self._manager.close()


def open(  # noqa: A001, as in waypost.client.opening
    path: str | Path, *, name: str | None = None, quota_kb: int | None = None, max_size: int | None = None
) -> Opening:
    """Open the queue manager in the folder `path` for the running event loop.

        async with waypost.aio.open("./data") as manager:
            orders = await manager.create_queue("orders")
            await orders.send("42 bolts", label="order")
            print((await orders.receive()).text)

    Without `async with`, use `await waypost.aio.open(...)`. The arguments and errors are the same as for waypost.open.
    The queue manager writes to disk in another thread. If several tasks send messages in the same turn of the event
    loop, these sends share one flush to disk. A cancelled receive stops waiting. If the queue manager has already
    removed a message for the cancelled receive, the message is lost. To prevent this loss, use a timeout or a
    transaction instead of cancelling the receive.
    """
    check_store(path, max_size)
    wanted = settings(name, quota_kb)

    async def opened() -> Manager:
        return Manager(AioEmbedded(Loop(Path(path), wanted, max_size=max_size), Path(path)))

    return Opening(opened)


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    cacert: str | os.PathLike[str] | None = None,
) -> Opening:
    """Connect to the daemon at `url` from the running event loop.

        async with waypost.aio.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            await orders.send("42 bolts", label="order")
            print((await orders.receive()).text)

    Without `async with`, use `await waypost.aio.connect(...)`. The arguments and errors are the same as for
    waypost.connect. A cancelled receive stops waiting. If the queue manager has already removed a message for the
    cancelled receive, the message is lost.
    """
    address = Address.parse(url, token, timeout, cacert)

    async def connected() -> Manager:
        return Manager(await AioHttp.open(address))

    return Opening(connected)


def shell_of(manager: Manager) -> Loop:
    """The shell around the driver of a manager inside the process, for servers of it."""
    transport = manager._transport  # noqa: SLF001, which nobody else needs
    assert isinstance(transport, AioEmbedded), "a daemon has its own server"
    return transport.shell
