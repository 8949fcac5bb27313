"""`connect` for asyncio: waypost.client.remote.manager with coroutines, which documents it."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from waypost.client import aio_manager
from waypost.client.manager import making
from waypost.client.remote import manager
from waypost.client.remote.address import DEFAULT_TIMEOUT, Address
from waypost.client.remote.calls import TRANSACTION_SECONDS
from waypost.client.remote.looping import RemoteLooping
from waypost.client.remote.manager import IN_DOUBT, LOOK_SECONDS, VERIFICATION, report_of, transaction_limit
from waypost.client.twins import documented_by
from waypost.drive.new_guid import new_guid
from waypost.errors import ConnectionLost, OutcomeUnknown, ServiceNotAvailable, TransactionSequence

if TYPE_CHECKING:
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.calls import Calls
    from waypost.client.storage.report import StoreReport
    from waypost.drive.loop import Loop


def connect(url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> "Connecting":
    """Connect to the daemon at `url` from the event loop that is running.

        async with waypost.aio.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            await orders.send("42 bolts", label="order")
            print((await orders.receive()).text)

    `await waypost.aio.connect(...)` gives the manager without the `async with`. The arguments and errors are those of
    waypost.connect. A cancelled receive waits no more; if its message was taken in that very moment, it is gone.
    """
    return Connecting(Address.parse(url, token, timeout))


class Connecting(aio_manager.Opening):
    """A connection that is made when it is awaited or entered."""

    __slots__ = ("_address",)

    def __init__(self, address: Address) -> None:
        self._address: Final = address
        self._manager = None

    async def _open(self) -> "Manager":
        return Manager(await RemoteLooping.open(self._address), self._address.url)


@documented_by(manager.Manager)
class Manager(aio_manager.Manager):
    __slots__ = ("url",)

    def __init__(self, shell: RemoteLooping, url: str) -> None:
        self._shell = cast("Loop", shell)  # type: ignore[misc]
        self._calls = cast("Calls", shell.calls)  # type: ignore[misc]
        self.url: Final = url

    def __repr__(self) -> str:
        return f"<Manager {self.name} at {self.url}>"

    def transaction(self, timeout: float = TRANSACTION_SECONDS) -> "Transaction":
        identifier = new_guid()
        self._shell.start(self._calls.begin, identifier, transaction_limit(timeout))
        return Transaction(self._shell, self._calls, identifier)

    async def verify_store(self, *, progress: "Progress | None" = None) -> "StoreReport":
        state = await self.request("POST", VERIFICATION)
        while state["running"]:
            if progress is not None:
                progress(state["done"], state["total"])
            await asyncio.sleep(LOOK_SECONDS)
            state = await self.request("GET", VERIFICATION)
        return report_of(state)

    async def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        shell: Any = self._shell
        info: BackupInfo = await asyncio.to_thread(making().backup_of_daemon, shell.address, target, progress)
        return info

    async def request(self, method: str, path: str, content: object = None) -> Any:
        calls: Any = self._calls
        return await self._shell.do(calls.request, method, path, content)

    async def close(self) -> None:
        await self._shell.close()


@documented_by(manager.Transaction)
class Transaction(aio_manager.Transaction):
    __slots__ = ()

    async def commit(self) -> None:
        try:
            await self._shell.do(self._owner.commit, self.identifier_for(self._owner))
        except TransactionSequence:
            self._outcome = self._outcome or "aborted"
            raise
        except (ConnectionLost, OutcomeUnknown):
            self._outcome = IN_DOUBT
            raise
        self._outcome = "committed"

    async def abort(self) -> None:
        identifier = self.identifier_for(self._owner)
        self._outcome = "aborted"
        with suppress(TransactionSequence, ServiceNotAvailable):
            await self._shell.do(self._owner.abort, identifier)
