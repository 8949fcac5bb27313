"""`msmq` for asyncio: waypost.client.msmq.host with coroutines, which documents it."""

import asyncio
from collections.abc import Iterable
from typing import Final, Self

from waypost.api.names import Name
from waypost.api.new_bodies import Body
from waypost.api.properties import MessageProperties
from waypost.client.aio_with_properties import ManagerSender
from waypost.client.message import Message
from waypost.client.msmq import host as twin
from waypost.client.msmq.access import MAPPER_PORT, Access, Level
from waypost.client.msmq.aio_queue import HostQueue
from waypost.client.msmq.outgoing import Writer
from waypost.client.msmq.place import DEFAULT_PORT, DEFAULT_TIMEOUT, Place
from waypost.client.msmq.reader import Reader
from waypost.client.msmq.sender import Sender
from waypost.client.twins import documented_by
from waypost.guid import guid_text


def msmq(
    host: str,
    *,
    port: int = DEFAULT_PORT,
    bind: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    identifier: str | None = None,
    user: str | None = None,
    password: str | None = None,
    level: Level | None = None,
    rpc_port: int | None = None,
    qm2qm_port: int | None = None,
    epm_port: int | None = MAPPER_PORT,
) -> "Host":
    """Send to the queues of any MSMQ host, and read them, from the event loop that is running.

        async with waypost.aio.msmq("winserver01") as host:
            await host.send(r"private$\\orders", "42 bolts", label="from Linux")

    The arguments and errors are those of waypost.msmq. A message whose send was cancelled may arrive. A receive that is
    cancelled is ended at the host; if it had its message in that moment, the next one of the queue object gets it.
    """
    place = Place.of(host, port, bind, timeout, identifier)
    return Host(place, Access.of(user, password, level, (rpc_port, qm2qm_port, epm_port)))


@documented_by(twin.Host)
class Host(ManagerSender):
    __slots__ = ("_place", "_reader", "_sender", "_writer")

    def __init__(self, place: Place, access: Access) -> None:
        self._place: Final = place
        self._writer: Final = Writer(place)
        self._sender: Final = Sender(place)
        self._reader: Final = Reader(place, access)

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

    def queue(self, name: Name, *, exclusive: bool = False) -> HostQueue:
        found = self._place.source(name)
        source = self._reader.exclusive_source(found) if exclusive else self._reader.source(found)
        return HostQueue(self, found, source)

    async def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: object = None
    ) -> Message:
        outgoing = self._writer.one(self._place.destination(queue), body, properties, transaction)
        return (await self._sender.send(outgoing))[0]

    async def send_records(
        self, queue: Name, bodies: Iterable[Body], properties: MessageProperties, transaction: object = None
    ) -> list[Message]:
        outgoing = self._writer.many(self._place.destination(queue), bodies, properties, transaction)
        return [] if outgoing is None else await self._sender.send(outgoing)

    async def close(self) -> None:
        await asyncio.gather(self._sender.close(), self._reader.close())
