"""Transports carry operations to a queue manager inside the process (embedded), a daemon (http) or any host (msmq).

A transport has a method that calls an operation, and one that ends the reads that wait. The facades of waypost.client
know nothing else about it.
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
        """The name of the computer with the short names of queues; "" without short names."""

    @property
    def browses_by_cursor(self) -> bool:
        """True if the `next` of a page of Browse is a cursor: a program that stops before the last page closes it."""

    @property
    def without_transactions(self) -> str:
        """The reason why the transport has no transactions; "" if it has."""

    def named(self, name: Name, /) -> FormatName:
        """The format name of a queue, from the point of view of the queue manager."""

    def check(self) -> None:
        """Raise an error if the transport is known to be unusable, such as closed."""


class Known(HasQueues, Protocol):
    """Facts that a transport knows about its queue manager."""

    @property
    def guid(self) -> str: ...

    @property
    def path(self) -> Path | None:
        """The folder of a queue manager inside this process."""

    @property
    def url(self) -> str | None:
        """The address of a daemon."""

    @property
    def transaction_s(self) -> float | None:
        """Default limit for idle transactions, in seconds; None without a limit."""


class Carrier(HasQueues, Protocol):
    """A transport for threads that use queues and cursors."""

    def call(self, operation: Operation[R], /) -> R:
        """Call an operation, and wait for its reply. Everything that the reply reports is durable."""

    def start(self, operation: Operation[None], /) -> None:
        """Call an operation, without a wait until it is durable."""

    def cancel(self, name: str, /) -> None:
        """End the reads that wait on the queue of this name, and close its shared handles."""

    def events(self, wanted: Events, timeout_s: float, /) -> Generator[Message, None, None]:
        """Follow a queue from this moment on, until no message has come for `timeout_s`."""

    def close(self) -> None: ...


class Transport(Carrier, Known, Protocol):
    """A transport for threads that use a queue manager."""

    def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo": ...

    def verify(self, progress: "Progress | None") -> "StoreReport": ...


class AioCarrier(HasQueues, Protocol):
    """A transport for an event loop that uses queues and cursors, with the methods of Carrier."""

    async def call(self, operation: Operation[R], /) -> R: ...

    async def start(self, operation: Operation[None], /) -> None: ...

    async def cancel(self, name: str, /) -> None: ...

    async def events(self, wanted: Events, timeout_s: float, /) -> AsyncGenerator[Message, None]: ...

    async def close(self) -> None: ...


class AioTransport(AioCarrier, Known, Protocol):
    """A transport for an event loop that uses a queue manager, with the methods of Transport."""

    async def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo": ...

    async def verify(self, progress: "Progress | None") -> "StoreReport": ...
