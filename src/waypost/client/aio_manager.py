"""Manager, Transaction and open for asyncio: waypost.client.manager with coroutines, which documents them."""

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from waypost.api.damaged import DamagedInfo
from waypost.api.explanation import Explanation
from waypost.api.names import Name
from waypost.api.operations import (
    AdmitAddress,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    ResetSequences,
    RevokeAddress,
)
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.api.sequences import (
    DIRECTIONS,
    Direction,
    SequenceInfo,
    SequenceReset,
)
from waypost.client import manager
from waypost.client.aio_queue import Queue
from waypost.client.aio_with_properties import ManagerSender, QueueCreator
from waypost.client.bases import BaseTransaction
from waypost.client.bodies import Body
from waypost.client.calls import Calls
from waypost.client.message import Message
from waypost.client.queue_info import warn_of_ignored
from waypost.client.twins import documented_by
from waypost.drive.loop import Loop
from waypost.drive.new_guid import new_guid
from waypost.drive.settings import check_store, settings
from waypost.node.recovery import Settings
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from collections.abc import Generator

    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.storage.report import StoreReport


def open(  # noqa: A001, as in waypost.client.manager
    path: str | Path, *, name: str | None = None, quota_kb: int | None = None, max_size: int | None = None
) -> "Opening":
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
    return Opening(Path(path), settings(name, quota_kb), max_size)


class Opening:
    """A queue manager that opens when it is awaited or entered."""

    __slots__ = ("_manager", "_max_size", "_path", "_settings")

    def __init__(self, path: Path, settings: Settings, max_size: int | None) -> None:
        self._path: Final = path
        self._settings: Final = settings
        self._max_size: Final = max_size
        self._manager: Manager | None = None

    def __await__(self) -> "Generator[Any, None, Manager]":
        return self._open().__await__()

    async def __aenter__(self) -> "Manager":
        self._manager = await self._open()
        return self._manager

    async def __aexit__(self, *_: object) -> None:
        if self._manager is not None:
            await self._manager.close()

    async def _open(self) -> "Manager":
        return Manager(Loop(self._path, self._settings, max_size=self._max_size), self._path)


@documented_by(manager.Manager)
class Manager(ManagerSender, QueueCreator):
    __slots__ = ("_calls", "_shell", "path")

    def __init__(self, shell: Loop, path: Path) -> None:
        self._shell: Final = shell
        self._calls: Final = Calls(shell.driver)
        self.path: Final = path

    def __repr__(self) -> str:
        return f"<Manager {self.name} in {self.path}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        return self._calls.computer

    @property
    def guid(self) -> str:
        return self._calls.guid

    async def create_queue_record(
        self, name: Name, properties: QueueProperties, *, transactional: bool = False
    ) -> Queue:
        attributes = self._calls.attributes(name, transactional, properties)
        warn_of_ignored(self._calls.name(name), properties)
        await self._shell.do(self._calls.application.create_queue, attributes)
        return self.queue(name)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        return self._named(self._calls.name(name), exclusive=exclusive)

    def _named(self, format_name: FormatName, *, exclusive: bool = False) -> Queue:
        found: Queue | None = None if exclusive else self._calls.used.get(format_name)
        if found is None:
            found = Queue(self, self._shell, self._calls, format_name, exclusive=exclusive)
            if not exclusive:
                self._calls.used[format_name] = found
        return found

    async def queues(self) -> list[Queue]:
        found = (await self._shell.call(ListQueues())).queues
        return [self._named(self._calls.name(each.format_name)) for each in found]

    async def outgoing_queues(self) -> list[Queue]:
        found = (await self._shell.call(ListQueues(kind="outgoing"))).queues
        names = [self._calls.name(each.format_name) for each in found]
        return [Queue(self, self._shell, self._calls, name, outgoing=True) for name in names]

    async def admit_sequence_address(self, guid: str, address: str) -> int:
        return (await self._shell.call(AdmitAddress(guid=guid, address=address))).believed

    async def revoke_sequence_address(self, guid: str, address: str) -> None:
        await self._shell.call(RevokeAddress(guid=guid, address=address))

    async def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        return [(each.guid, each.address) for each in (await self._shell.call(ListAdmitted())).addresses]

    async def explain(self, subject: str) -> Explanation:
        return await self._shell.call(Explain.of(subject))

    async def delete_queue(self, name: Name) -> None:
        await self.queue(name).delete()

    async def _send_to(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None"
    ) -> Message:
        return await self.queue(queue).send_record(body, properties, transaction)

    async def sequences(
        self,
        direction: Direction | None = None,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
    ) -> AsyncIterator[SequenceInfo]:
        name = "" if queue is None else str(self._calls.name(queue))
        for each in (direction,) if direction is not None else DIRECTIONS:
            wanted = ListSequences(direction=each, queue=name, source=source or "", address=address or "")
            page = await self._shell.call(wanted)
            for info in page.sequences:
                yield info
            while page.next:
                page = await self._shell.call(replace(wanted, after=page.next))
                for info in page.sequences:
                    yield info

    async def reset_sequences(
        self,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
        older_than: float | None = None,
        trial: bool = False,
    ) -> SequenceReset:
        name = None if queue is None else str(self._calls.name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = await self._shell.call(wanted)
        while reset.next:
            reset = reset.joined(await self._shell.call(replace(wanted, after=reset.next)))
        return reset

    async def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        page = await self._shell.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = await self._shell.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    async def forget_damaged_messages(self) -> int:
        return (await self._shell.call(ForgetDamaged())).forgotten

    async def verify_store(self, *, progress: "Progress | None" = None) -> "StoreReport":
        self._shell.look(lambda: None)
        verify_beside = import_module("waypost.client.storage.process").verify_beside
        report: StoreReport = await asyncio.to_thread(verify_beside, self.path, progress)
        return report

    async def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        self._shell.look(lambda: None)
        info: BackupInfo = await asyncio.to_thread(manager.making().backup_of_folder, self.path, target, progress)
        return info

    def transaction(self) -> "Transaction":
        identifier = new_guid()
        self._shell.start(self._calls.begin, identifier)
        return Transaction(self._shell, self._calls, identifier)

    async def close(self) -> None:
        await self._shell.close()


def shell_of(manager: Manager) -> Loop:
    """The shell around the driver of a manager, for those who serve it to other processes."""
    return manager._shell  # noqa: SLF001, of this module


def calls_of(manager: Manager) -> Calls:
    """The operations of a manager, for the same."""
    return manager._calls  # noqa: SLF001, of this module


def outgoing_queue_of(manager: Manager, name: FormatName) -> Queue | None:
    """A queue object of one's own for an outgoing queue, if there is one of this name. However many there are."""
    if name not in shell_of(manager).driver.node.manager.collection.outgoing:
        return None
    return Queue(manager, shell_of(manager), calls_of(manager), name, outgoing=True)


@documented_by(manager.Transaction)
class Transaction(BaseTransaction):
    __slots__ = ("_shell",)

    def __init__(self, shell: Loop, calls: Calls, identifier: bytes) -> None:
        super().__init__(calls, identifier)
        self._shell: Final = shell

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            await self.abort()
            return
        try:
            await self.commit()
        finally:
            if self.is_open:
                await self.abort()

    async def commit(self) -> None:
        await self._shell.do(self._commit, self.identifier_for(self._owner))

    async def abort(self) -> None:
        self._shell.start(self._abort, self.identifier_for(self._owner))
