"""`open` and `connect` for asyncio."""

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
    """A queue manager that is opened, or connected to, when it is awaited or entered."""

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
    """Open the queue manager in the folder `path` for the event loop that is running.

        async with waypost.aio.open("./data") as manager:
            orders = await manager.create_queue("orders")
            await orders.send("42 bolts", label="order")
            print((await orders.receive()).text)

    `await waypost.aio.open(...)` gives the manager without the `async with`. The arguments and errors are those of
    waypost.open. There is no thread but the one that writes to disk, and tasks that send in the same turn of the loop
    share one flush. A cancelled receive waits no more; if its message was taken in that very moment, it is gone, so
    rather give `receive` a timeout, or a transaction.
    """
    check_store(path, max_size)
    wanted = settings(name, quota_kb)

    async def opened() -> Manager:
        return Manager(AioEmbedded(Loop(Path(path), wanted, max_size=max_size), Path(path)))

    return Opening(opened)


def connect(url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> Opening:
    """Connect to the daemon at `url` from the event loop that is running.

        async with waypost.aio.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            await orders.send("42 bolts", label="order")
            print((await orders.receive()).text)

    `await waypost.aio.connect(...)` gives the manager without the `async with`. The arguments and errors are those of
    waypost.connect. A cancelled receive waits no more; if its message was taken in that very moment, it is gone.
    """
    address = Address.parse(url, token, timeout)

    async def connected() -> Manager:
        return Manager(await AioHttp.open(address))

    return Opening(connected)


def shell_of(manager: Manager) -> Loop:
    """The shell around the driver of a manager inside the process, for those who serve it to others."""
    transport = manager._transport  # noqa: SLF001, which nobody else needs
    assert isinstance(transport, AioEmbedded), "a daemon serves itself"
    return transport.shell
