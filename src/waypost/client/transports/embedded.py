"""Operations for a queue manager inside the process."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

from waypost.api.local import CancelReads
from waypost.api.names import Name, format_name
from waypost.api.operations import Operation
from waypost.drive.driver import Driver
from waypost.drive.loop import Loop
from waypost.drive.threads import Threads
from waypost.errors import InvalidParameter
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.storage.report import StoreReport

R = TypeVar("R")


class _Embedded:
    """The part that both sides share."""

    __slots__ = ("computer", "driver", "guid", "path")

    url: Final = None
    browses_by_cursor: Final = False
    without_transactions: Final = ""
    transaction_s: Final = None

    def __init__(self, driver: Driver, path: Path) -> None:
        identity = driver.node.manager.identity
        self.driver: Final = driver
        self.path: Final[Path | None] = path
        self.computer: Final = identity.computer_name
        self.guid: Final = guid_text(identity.identifier)

    def named(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    # Only a program that does so waits for what it takes to make a backup or to verify.

    def _backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        making = import_module("waypost.client.backups.making")
        info: BackupInfo = making.backup_of_folder(self.path, target, progress)
        return info

    def _verify(self, progress: "Progress | None") -> "StoreReport":
        report: StoreReport = import_module("waypost.client.storage.process").verify_beside(self.path, progress)
        return report


class Embedded(_Embedded):
    """For threads."""

    __slots__ = ("call", "shell", "start")

    def __init__(self, shell: Threads, path: Path) -> None:
        super().__init__(shell.driver, path)
        self.shell: Final = shell
        # Without a step between.
        self.call: Final = shell.call
        self.start: Final = shell.start

    def check(self) -> None:
        self.shell.look(_nothing)

    def cancel(self, name: str) -> None:
        self.shell.start(CancelReads(name=name))

    def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        self.check()
        return self._backup(target, progress)

    def verify(self, progress: "Progress | None") -> "StoreReport":
        self.check()
        return self._verify(progress)

    def request(self, method: str, path: str, content: object) -> Never:  # noqa: ARG002, as a transport has it
        raise _no_daemon(method, path)

    def close(self) -> None:
        self.shell.close()


class AioEmbedded(_Embedded):
    """For an event loop."""

    __slots__ = ("call", "shell")

    def __init__(self, shell: Loop, path: Path) -> None:
        super().__init__(shell.driver, path)
        self.shell: Final = shell
        self.call: Final = shell.call

    async def start(self, operation: Operation[None]) -> None:
        self.shell.start(operation)

    def check(self) -> None:
        self.shell.look(_nothing)

    async def cancel(self, name: str) -> None:
        self.shell.start(CancelReads(name=name))

    async def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        self.check()
        return await asyncio.to_thread(self._backup, target, progress)

    async def verify(self, progress: "Progress | None") -> "StoreReport":
        self.check()
        return await asyncio.to_thread(self._verify, progress)

    async def request(self, method: str, path: str, content: object) -> Any:  # noqa: ARG002, as a transport has it
        raise _no_daemon(method, path)

    async def close(self) -> None:
        await self.shell.close()


def _nothing() -> None:
    """To look at."""


def _no_daemon(method: str, path: str) -> InvalidParameter:
    return InvalidParameter(f"{method} {path} is for a daemon: waypost.connect gives a manager that has request")
