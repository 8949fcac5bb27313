"""Transports bring operations to a queue manager: one inside the process (embedded), a daemon (http), any host (msmq).

A transport has one method that asks for an operation and one that ends the reads which wait. The facades of
waypost.client know nothing else of it.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from waypost.api.events import Events
from waypost.api.names import Name
from waypost.api.operations import Operation
from waypost.core.message import Message
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.api.status import StoreReport
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")


class HasQueues(Protocol):
    """Facts of a transport that queues and cursors need."""

    @property
    def computer(self) -> str:
        """The name of the computer whose queues have short names; "" if none have."""

    @property
    def browses_by_cursor(self) -> bool:
        """Whether the `next` of a page of Browse is a cursor, to be closed by a program that stops before the last."""

    @property
    def without_transactions(self) -> str:
        """Why nothing can be done in a transaction; "" if it can."""

    def named(self, name: Name, /) -> FormatName:
        """The queue that a name means there."""

    def check(self) -> None:
        """Raise why nothing can be asked for, if that is known here."""


class Known(HasQueues, Protocol):
    """Facts that a transport knows of its queue manager."""

    @property
    def guid(self) -> str: ...

    @property
    def path(self) -> Path | None:
        """Its folder, if it is inside this process."""

    @property
    def url(self) -> str | None:
        """Its address, if it is a daemon."""

    @property
    def transaction_s(self) -> float | None:
        """Seconds that a transaction may rest if its program gives no limit; None without a limit."""


class Carrier(HasQueues, Protocol):
    """For threads that use queues and cursors."""

    def call(self, operation: Operation[R], /) -> R:
        """Have an operation done, and wait for its reply, which says nothing that is not durable."""

    def start(self, operation: Operation[None], /) -> None:
        """Have an operation done. Nobody wants to know when it is durable."""

    def cancel(self, name: str, /) -> None:
        """End the reads that wait on the queue of this name, and close what is open there for all."""

    def events(self, wanted: Events, timeout_s: float, /) -> Generator[Message, None, None]:
        """Follow a queue from this moment on, until no message has come for so long."""

    def close(self) -> None: ...


class Transport(Carrier, Known, Protocol):
    """For threads that use a queue manager."""

    def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo": ...

    def verify(self, progress: "Progress | None") -> "StoreReport": ...


class AioCarrier(HasQueues, Protocol):
    """The same for an event loop."""

    async def call(self, operation: Operation[R], /) -> R: ...

    async def start(self, operation: Operation[None], /) -> None: ...

    async def cancel(self, name: str, /) -> None: ...

    async def events(self, wanted: Events, timeout_s: float, /) -> AsyncGenerator[Message, None]: ...

    async def close(self) -> None: ...


class AioTransport(AioCarrier, Known, Protocol):
    """The same for an event loop."""

    async def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo": ...

    async def verify(self, progress: "Progress | None") -> "StoreReport": ...
