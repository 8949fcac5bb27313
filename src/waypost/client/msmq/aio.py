"""`msmq` for asyncio: waypost.client.msmq.host with coroutines, which documents it."""

from collections.abc import Iterable
from typing import Final, Self, Unpack

from waypost.client.bodies import Body
from waypost.client.message import Message
from waypost.client.msmq import host as twin
from waypost.client.msmq.outgoing import Writer
from waypost.client.msmq.place import DEFAULT_PORT, DEFAULT_TIMEOUT, Place
from waypost.client.msmq.sender import Sender
from waypost.client.names import Name
from waypost.client.sending import DEFAULT_PRIORITY, SendProperties
from waypost.client.twins import documented_by
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName


def msmq(
    host: str,
    *,
    port: int = DEFAULT_PORT,
    bind: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    identifier: str | None = None,
) -> "Host":
    """Send to the queues of any MSMQ host from the event loop that is running.

        async with waypost.aio.msmq("winserver01") as host:
            await host.send(r"private$\\orders", "42 bolts", label="from Linux")

    The arguments and errors are those of waypost.msmq. A message whose send was cancelled may arrive.
    """
    return Host(Place.of(host, port, bind, timeout, identifier))


@documented_by(twin.Host)
class Host:
    __slots__ = ("_place", "_sender", "_writer")

    def __init__(self, place: Place) -> None:
        self._place: Final = place
        self._writer: Final = Writer(place)
        self._sender: Final = Sender(place)

    def __repr__(self) -> str:
        return f"<Host {self._place.text}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        return self._place.host

    @property
    def identifier(self) -> str:
        return guid_text(self._place.identifier)

    def queue(self, name: Name) -> "HostQueue":
        return HostQueue(self._writer, self._sender, self._place.destination(name))

    async def send(
        self,
        queue: Name,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> Message:
        return await self.queue(queue).send(
            body, label=label, priority=priority, recoverable=recoverable, transaction=transaction, **properties
        )

    async def send_many(
        self,
        queue: Name,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> list[Message]:
        return await self.queue(queue).send_many(
            bodies, label=label, priority=priority, recoverable=recoverable, transaction=transaction, **properties
        )

    async def close(self) -> None:
        await self._sender.close()


@documented_by(twin.HostQueue)
class HostQueue:
    __slots__ = ("_name", "_sender", "_writer")

    def __init__(self, writer: Writer, sender: Sender, name: FormatName) -> None:
        self._writer: Final = writer
        self._sender: Final = sender
        self._name: Final = name

    def __repr__(self) -> str:
        return f"<HostQueue {self.format_name}>"

    @property
    def format_name(self) -> str:
        return str(self._name)

    async def send(
        self,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> Message:
        like = {"label": label, "priority": priority, "recoverable": recoverable, "transaction": transaction}
        return (await self._sender.send(self._writer.one(self._name, body, properties, like=like)))[0]

    async def send_many(
        self,
        bodies: Iterable[Body],
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: None = None,
        **properties: Unpack[SendProperties],
    ) -> list[Message]:
        like = {"label": label, "priority": priority, "recoverable": recoverable, "transaction": transaction}
        outgoing = self._writer.many(self._name, bodies, properties, like=like)
        return [] if outgoing is None else await self._sender.send(outgoing)
