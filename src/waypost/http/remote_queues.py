"""Queues of other computers that clients read by way of this one: their names, and their open connections.

The first read opens a queue over RPC, on a separate connection. All clients share it. Without reads it closes after a
while, because an open queue denies exclusive access to others. A read there has neither a transaction nor a lease: the
daemon confirms the message to the host before the client gets it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.messages import Received
from waypost.api.names import format_name
from waypost.api.operations import (
    Browse,
    CloseCursor,
    CursorRead,
    DeleteMessage,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Read,
    Receive,
    Resend,
    Seek,
    checked,
)
from waypost.api.reading import lookup_number
from waypost.client.transports import AioCarrier
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import HostAddress
from waypost.client.transports.msmq.transport import AioMsmq
from waypost.core.message import Message
from waypost.core.serialization import size_in_bytes
from waypost.errors import (
    AccessDenied,
    AuthenticationFailed,
    HostError,
    IllegalCursorAction,
    IllegalFormatName,
    InvalidHandle,
    InvalidParameter,
    LimitReached,
    MessageError,
    MessageNotFound,
    QueueError,
    QueueNotFound,
    ServiceNotAvailable,
    TransactionError,
    TransactionUsage,
    UnsupportedFormatName,
    WaitError,
    WaypostError,
)
from waypost.http.leases import Leases
from waypost.http.settings import HttpSettings
from waypost.limits import MAX_HTTP_ANSWER, MAX_HTTP_HANDLES
from waypost.node.node import Node
from waypost.security.callers import QUEUE_MANAGER
from waypost.wire.format_names import (
    Destination,
    DirectFormatName,
    FormatName,
    MachineFormatName,
    PrivateFormatName,
    PublicFormatName,
)
from waypost.wire.queue_format import REMOTE_READ_PROTOCOLS

R = TypeVar("R")

# Errors that mean the same to a client from any host. Others would seem to be about this computer.
_ANSWERS: Final = (
    AccessDenied,
    HostError,
    IllegalCursorAction,
    IllegalFormatName,
    InvalidHandle,
    InvalidParameter,
    LimitReached,
    MessageError,
    QueueError,
    TransactionError,
    UnsupportedFormatName,
    WaitError,
)

# Returns the transport to a host, which connects at its first use.
Connect: TypeAlias = Callable[[str], AioCarrier]


def anonymous(host: str) -> AioCarrier:
    """A transport without authentication."""
    return AioMsmq(HostAddress.of(host), Access())


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A queue of another computer, and its host."""

    name: FormatName
    host: str


class RemoteQueues:
    """The remote queues of one daemon."""

    __slots__ = ("_closing", "_connect", "_identity", "_idle_s", "_local", "_node", "_open", "_queues")

    def __init__(self, node: Node, settings: HttpSettings, connect: Connect) -> None:
        self._node: Final = node
        self._connect: Connect | None = connect
        self._idle_s: Final = settings.handle_s
        self._queues: Final[Leases[RemoteQueue]] = Leases("remote queues", settings.max_handles, _close)
        # All open queues, including exclusive ones.
        self._open: Final[set[RemoteQueue]] = set()
        # A cache of names that mean no remote queue, valid for the present identity of this computer.
        self._identity = node.manager.identity
        self._local: Final[set[str]] = set()
        # The loop itself does not keep tasks alive.
        self._closing: set[asyncio.Task[None]] = set()

    def find(self, text: str) -> Elsewhere | None:
        """The remote queue of a name; None for any other name. Raises IllegalFormatName.

        Raises QueueNotFound if the host of the other computer is unknown.
        """
        identity = self._node.manager.identity
        if identity is not self._identity:
            self._identity = identity
            self._local.clear()
        if text in self._local:
            return None
        name = format_name(text, identity.computer_name)
        host = self._host(name)
        if host is not None:
            return Elsewhere(name, host)
        # Only the directory knows the computer of a public queue.
        if not isinstance(name, PublicFormatName):
            if len(self._local) >= MAX_HTTP_HANDLES:
                self._local.clear()
            self._local.add(text)
        return None

    def host_of(self, text: str) -> str | None:
        """The host of a remote queue, if it is known; else None. Raises IllegalFormatName."""
        try:
            place = self.find(text)
        except QueueNotFound:
            return None
        return None if place is None else place.host

    @contextmanager
    def using(self, place: Elsewhere) -> Iterator["RemoteQueue"]:
        """The queue object that all clients share."""
        key = str(place.name).lower()
        if key not in self._queues:
            self._queues.check_room()
            self._queues.add(self._new(place), self._idle_s, QUEUE_MANAGER, key)
        with self._queues.using(key) as queue:
            yield queue

    def cursor(self, place: Elsewhere) -> "RemoteCursor":
        """A cursor in the shared queue, which stays open for it."""
        with ExitStack() as stack:
            queue = stack.enter_context(self.using(place))
            return queue.cursor(stack.pop_all())

    async def exclusive(self, place: Elsewhere) -> "RemoteQueue":
        """A queue object that denies the queue to others. The caller must close it."""
        queue = self._new(place)
        try:
            await queue.open_alone()
        except BaseException:
            await queue.close()
            raise
        return queue

    @contextmanager
    def explaining(self, text: str) -> Iterator[None]:
        """Explain QueueNotFound for a remote queue, where only queues of this computer work."""
        try:
            yield
        except QueueNotFound:
            if self.find(text) is None:
                raise
            raise QueueNotFound(
                f"{text} is a queue of another computer: the daemon can only read its messages"
            ) from None

    def stop(self) -> None:
        """Close all queues, which ends all waits."""
        self._connect = None
        self._queues.stop()
        for queue in tuple(self._open):
            task = asyncio.get_running_loop().create_task(queue.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _new(self, place: Elsewhere) -> "RemoteQueue":
        if self._connect is None:
            raise ServiceNotAvailable("the queue manager is stopping")
        queue = RemoteQueue(place.name, self._connect(place.host), self._open.discard)
        self._open.add(queue)
        return queue

    def _host(self, name: FormatName) -> str | None:
        identity = self._identity
        match name:
            case DirectFormatName(protocol) if protocol in REMOTE_READ_PROTOCOLS:
                return None if identity.is_local(name.host) else name.host
            case PrivateFormatName(guid) | MachineFormatName(guid):
                return None if guid == identity.identifier else self._routed(name, guid)
            case PublicFormatName() if self._node.network is not None:
                destination = self._node.network.hop_finder.routing.destination(name)
                if destination is not None and destination.queue_manager != identity.identifier:
                    return destination.host
        return None

    def _routed(self, name: FormatName, guid: bytes) -> str:
        """The host of the queue manager itself: hosts on the way forward messages, but not reads."""
        if self._node.network is not None:
            for hop in self._node.network.hop_finder.routing.next_hops(Destination("", guid)):
                if hop.queue_manager_guid == guid and hop.host_name:
                    return hop.host_name
        error = QueueNotFound(f"{name} is a queue of another computer, and its host is unknown")
        error.add_note("add the host to routing.routes in the configuration, or use a DIRECT= name")
        raise error


class RemoteQueue:
    """A queue of another computer. `closed` is called when it closes."""

    __slots__ = ("_closed", "_handle", "_transport", "name")

    def __init__(self, name: FormatName, transport: AioCarrier, closed: Callable[["RemoteQueue"], None]) -> None:
        self.name: Final = str(name)
        self._transport: Final = transport
        self._closed: Final = closed
        # The id of an exclusive open.
        self._handle: str | UnsetType = UNSET

    async def open_alone(self) -> None:
        """Deny the queue to others until it is closed."""
        with _translating(self.name):
            self._handle = (await self._transport.call(OpenQueue(queue=self.name))).id

    async def call(self, operation: Operation[R]) -> R:
        """Perform an operation at the host, as a transport does."""
        return checked(operation, await self._perform(operation))

    async def _perform(self, operation: Operation[object]) -> object:
        with _translating(self.name):
            match operation:
                case Receive() | MoveMessage() if operation.transaction is not UNSET:
                    raise _in_transaction(self.name)
                case Read():
                    # The transport accepts any form of a lookup_id; this API accepts the same as for local queues.
                    number = UNSET if operation.lookup_id is UNSET else lookup_number(operation.lookup_id)
                    operation = replace(operation, lookup_id=number)
                    return await self._transport.call(replace(operation, name=self.name, handle=self._handle))
                case MoveMessage() | DeleteMessage() | PurgeQueue():
                    await self._transport.call(replace(operation, name=self.name))
                    return None
                case Browse():
                    return await self._page(operation)
                case MoveAll():
                    raise _noted(
                        InvalidParameter(
                            f"{self.name} is a queue of another computer: only single messages can be moved"
                        ),
                        "run the command on the computer of the queue",
                    )
                case Resend():
                    raise _noted(
                        TransactionUsage(f"{self.name} is a queue of another computer: resend is not supported"),
                        "receive the message and send it again, or resend the message on the computer of the queue",
                    )
        raise InvalidParameter(
            f"{self.name} is a queue of another computer: the operation {operation.row.words!r} is not supported"
        )

    async def _page(self, operation: Browse) -> Received:
        """A page of messages after a LookupIdentifier, whose message may be gone."""
        after = lookup_number(operation.after) if operation.after else None
        messages: list[Message] = []
        size = 0
        while len(messages) < operation.limit and size < MAX_HTTP_ANSWER:
            message = await self._behind(after)
            if message is None:
                return Received(messages)
            messages.append(message)
            size += size_in_bytes(message)
            after = message.lookup_identifier
        return Received(messages, str(after))

    async def _behind(self, after: int | None) -> Message | None:
        """The next message after a number. If its message is gone, the search begins at the first message."""
        if after is not None:
            with suppress(MessageNotFound):
                return await self._peek("next", after)
            with suppress(MessageNotFound):
                await self._peek("current", after)
                return None
        try:
            message = await self._peek("first")
            while after is not None and message.lookup_identifier <= after:
                message = await self._peek("next", message.lookup_identifier)
        except MessageNotFound:
            return None
        return message

    async def _peek(self, seek: Seek, lookup_id: int | UnsetType = UNSET) -> Message:
        peek = Peek(name=self.name, lookup_id=lookup_id, seek=seek, handle=self._handle, form="packet")
        return (await self._transport.call(peek)).messages[0]

    def cursor(self, held: ExitStack | None = None) -> "RemoteCursor":
        wanted = OpenCursor(queue=self.name, handle=self._handle)
        return RemoteCursor(self.name, self._transport, wanted, held or ExitStack())

    async def close(self) -> None:
        self._closed(self)
        await self._transport.close()


class RemoteCursor:
    """A cursor in a remote queue. Closing it closes `held`."""

    __slots__ = ("_held", "_id", "_name", "_transport", "_wanted")

    def __init__(self, name: str, transport: AioCarrier, wanted: OpenCursor, held: ExitStack) -> None:
        self._name: Final = name
        self._transport: Final = transport
        self._wanted: Final = wanted
        self._held: Final = held
        # Set at the first use.
        self._id: str | None = None

    async def call(self, operation: CursorRead) -> Received:
        """Perform a read at the host, as a transport does."""
        if operation.transaction is not UNSET:
            raise _in_transaction(self._name)
        with _translating(self._name):
            if self._id is None:
                self._id = (await self._transport.call(self._wanted)).id
            return await self._transport.call(replace(operation, identifier=self._id))

    async def close(self) -> None:
        with self._held:
            if self._id is not None:
                with suppress(InvalidHandle, ServiceNotAvailable):
                    await self._transport.start(CloseCursor(identifier=self._id))


@contextmanager
def _translating(name: str) -> Iterator[None]:
    try:
        yield
    except _ANSWERS:
        raise
    except AuthenticationFailed as error:
        raise AccessDenied(str(error)) from None
    except WaypostError as error:
        raise HostError(f"cannot read {name}: {error}") from None


def _noted(error: WaypostError, note: str) -> WaypostError:
    error.add_note(note)
    return error


def _in_transaction(name: str) -> TransactionUsage:
    return TransactionUsage(f"{name} is a queue of another computer: transactions and leases are not supported")


async def _close(_: str, queue: RemoteQueue) -> None:
    await queue.close()
