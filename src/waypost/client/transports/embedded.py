"""Transports to a queue manager inside the process."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakSet

from waypost.api.events import Events
from waypost.api.local import CancelReads
from waypost.api.names import Name, format_name
from waypost.api.operations import Operation, checked
from waypost.api.status import STATUS_OPERATIONS, Checks, Doctor, ShowIdentity, Status
from waypost.api.users import PREPARED
from waypost.client.doctor import examine_node
from waypost.client.doctor_queues import look_at, queue_checks, queues_to_look_at
from waypost.client.status import identity_of, status_of
from waypost.clock import Now
from waypost.core.message import Message
from waypost.drive.driver import Driver
from waypost.drive.loop import Loop
from waypost.drive.passwords import prepared
from waypost.drive.threads import Threads
from waypost.errors import InvalidParameter
from waypost.guid import guid_text
from waypost.node.following import LOOK_SECONDS, Follower
from waypost.store.user_records import UserRecord
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.api.status import StoreReport
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")

# Operations that need more than the node knows.
_OF_SHELL: Final = frozenset(STATUS_OPERATIONS)
# Operations with secrets, which are hashed first.
_PREPARED: Final = frozenset(PREPARED)


class _Embedded:
    """Common part of both transports."""

    __slots__ = ("_caller", "_followers", "_started", "computer", "driver", "guid", "path")

    url: Final = None
    browses_by_cursor: Final = False
    without_transactions: Final = ""
    transaction_s: Final = None

    def __init__(self, driver: Driver, path: Path) -> None:
        identity = driver.node.manager.identity
        self.driver: Final = driver
        # The process has the folder: it is the local administrator.
        self._caller: Final = driver.node.administrator
        self.path: Final = path
        self._started: Final = time.time()
        self._followers: Final[WeakSet[Follower]] = WeakSet()
        self.computer: Final = identity.computer_name
        self.guid: Final = guid_text(identity.identifier)

    def _looked(self, operation: Operation[object]) -> object:
        """The reply to an operation that needs more than the node knows."""
        now = Now(time.monotonic(), time.time())
        if isinstance(operation, Status):
            return status_of(self.driver.node, self.path, self._started, now.wall)
        if isinstance(operation, ShowIdentity):
            return identity_of(self.driver.node, self._caller)
        if isinstance(operation, Doctor):
            node = self.driver.node
            found = tuple(look_at(node, now.wall, queues_to_look_at(node)))
            return Checks((*examine_node(node, self.path, now), *queue_checks(node, found)))
        raise InvalidParameter(f"the operation {operation.row.words!r} requires a daemon; use verify_store instead")

    def _user(self, operation: Operation[object]) -> UserRecord | None:
        """The user of an operation with secrets, as it is now."""
        return self.driver.node.users.find(operation.name)  # type: ignore[attr-defined]  # all of these have it

    def named(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    def _follower(self, wanted: Events) -> Follower:
        follower = Follower(self.driver.node, wanted, self._caller)
        self._followers.add(follower)
        return follower

    def _end_followers(self, name: str) -> None:
        for follower in self._followers:
            if follower.wanted.name == name:
                follower.is_cancelled = True

    # Only programs that back up or verify have to wait for these imports.

    def _backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        making = import_module("waypost.client.backups.making")
        info: BackupInfo = making.backup_of_folder(self.path, target, progress)
        return info

    def _verify(self, progress: "Progress | None") -> "StoreReport":
        report: StoreReport = import_module("waypost.client.storage.process").verify_beside(self.path, progress)
        return report


class Embedded(_Embedded):
    """The transport for threads."""

    __slots__ = ("shell",)

    def __init__(self, shell: Threads, path: Path) -> None:
        super().__init__(shell.driver, path)
        self.shell: Final = shell

    def call(self, operation: Operation[R]) -> R:
        if type(operation) in _OF_SHELL:
            return checked(operation, self.shell.look(self._looked, operation))
        if type(operation) in _PREPARED:
            made = prepared(operation, self._user(operation))
            return checked(operation, made.reply(self.shell.call(made.operation, self._caller)))
        return self.shell.call(operation, self._caller)

    def start(self, operation: Operation[object]) -> None:
        self.shell.start(operation, self._caller)

    def check(self) -> None:
        self.shell.look(_nothing)

    def cancel(self, name: str) -> None:
        self.shell.look(self._end_followers, name)
        self.shell.start(CancelReads(name=name), self._caller)

    def events(self, wanted: Events, timeout_s: float) -> Generator[Message, None, None]:
        return self._follow(self.shell.look(self._follower, wanted), timeout_s)

    def _follow(self, follower: Follower, timeout_s: float) -> Generator[Message, None, None]:
        quiet_since = inf
        while True:
            if self.shell.look(follower.has_more, time.time()):
                yield from follower.take(self.shell.call(follower.wanted, self._caller))
                quiet_since = inf
                continue
            quiet_since = min(quiet_since, time.monotonic())
            left = quiet_since + timeout_s - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_SECONDS))

    def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        self.check()
        return self._backup(target, progress)

    def verify(self, progress: "Progress | None") -> "StoreReport":
        self.check()
        return self._verify(progress)

    def close(self) -> None:
        self.shell.close()


class AioEmbedded(_Embedded):
    """The transport for an event loop."""

    __slots__ = ("shell",)

    def __init__(self, shell: Loop, path: Path) -> None:
        super().__init__(shell.driver, path)
        self.shell: Final = shell

    async def call(self, operation: Operation[R]) -> R:
        if type(operation) in _OF_SHELL:
            return checked(operation, self.shell.look(self._looked, operation))
        if type(operation) in _PREPARED:
            made = await asyncio.to_thread(prepared, operation, self._user(operation))
            return checked(operation, made.reply(await self.shell.call(made.operation, self._caller)))
        return await self.shell.call(operation, self._caller)

    async def start(self, operation: Operation[None]) -> None:
        self.shell.start(operation, self._caller)

    def check(self) -> None:
        self.shell.look(_nothing)

    async def cancel(self, name: str) -> None:
        self.shell.look(self._end_followers, name)
        self.shell.start(CancelReads(name=name), self._caller)

    async def events(self, wanted: Events, timeout_s: float) -> AsyncGenerator[Message, None]:
        return self._follow(self.shell.look(self._follower, wanted), timeout_s)

    async def _follow(self, follower: Follower, timeout_s: float) -> AsyncGenerator[Message, None]:
        quiet_since = inf
        while True:
            if self.shell.look(follower.has_more, time.time()):
                for message in follower.take(await self.shell.call(follower.wanted, self._caller)):
                    yield message
                quiet_since = inf
                continue
            quiet_since = min(quiet_since, time.monotonic())
            left = quiet_since + timeout_s - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK_SECONDS))

    async def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        self.check()
        return await asyncio.to_thread(self._backup, target, progress)

    async def verify(self, progress: "Progress | None") -> "StoreReport":
        self.check()
        return await asyncio.to_thread(self._verify, progress)

    async def close(self) -> None:
        await self.shell.close()


def _nothing() -> None:
    """Do nothing, for a check that the queue manager is usable."""
