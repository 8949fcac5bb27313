"""HostQueue and HostCursor for asyncio: waypost.client.msmq.host_queue with coroutines, which documents them."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Final, Self

from waypost.api.names import Name, journal_name, subqueue_name
from waypost.api.new_bodies import Body
from waypost.api.operations import Seek
from waypost.api.properties import MessageProperties
from waypost.client.aio_with_properties import QueueSender
from waypost.client.message import Message
from waypost.client.msmq import host_queue as twin
from waypost.client.msmq.source import Source, SourceCursor, refuse_transaction
from waypost.client.twins import documented_by
from waypost.core.queues import AccessType
from waypost.errors import Timeout
from waypost.remote.interfaces.remote_read import ReceiveAction

if TYPE_CHECKING:
    from waypost.client.msmq.aio import Host
    from waypost.wire.format_names import FormatName


@documented_by(twin.HostQueue)
class HostQueue(QueueSender):
    __slots__ = ("_host", "_name", "_source")

    def __init__(self, host: "Host", name: "FormatName", source: Source) -> None:
        self._host: Final = host
        self._name: Final = name
        self._source: Final = source

    def __repr__(self) -> str:
        return f"<HostQueue {self.format_name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def format_name(self) -> str:
        return str(self._name)

    async def send_record(self, body: Body, properties: MessageProperties, transaction: object = None) -> Message:
        return await self._host.send_record(self, body, properties, transaction)

    async def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: object = None
    ) -> list[Message]:
        return await self._host.send_records(self, bodies, properties, transaction)

    async def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: None = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        refuse_transaction(transaction)
        return await self._source.receive(timeout, lookup_id, seek)

    async def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        return await self._source.peek(timeout, lookup_id, seek)

    async def browse(self) -> AsyncIterator[Message]:
        async with HostCursor(self._source.cursor(AccessType.PEEK)) as cursor:
            try:
                yield await cursor.peek(0)
                while True:
                    yield await cursor.peek_next(0)
            except Timeout:
                return

    async def follow(self, timeout: float | None = None) -> AsyncIterator[Message]:
        while True:
            try:
                message = await self.receive(timeout)
            except Timeout:
                return
            yield message

    def cursor(self) -> "HostCursor":
        return HostCursor(self._source.cursor(AccessType.RECEIVE))

    async def move(self, message: Message | int, to: Name) -> None:
        await self._source.move(message, to)

    async def purge(self) -> None:
        await self._source.purge()

    @property
    def journal(self) -> "HostQueue":
        return self._host.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "HostQueue":
        return self._host.queue(str(subqueue_name(self._name, name)))

    async def close(self) -> None:
        await self._source.close()


@documented_by(twin.HostCursor)
class HostCursor:
    __slots__ = ("_cursor",)

    def __init__(self, cursor: SourceCursor) -> None:
        self._cursor: Final = cursor

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def peek(self, timeout: float | None = None) -> Message:
        return await self._cursor.read(ReceiveAction.MQ_ACTION_PEEK_CURRENT, timeout)

    async def peek_next(self, timeout: float | None = None) -> Message:
        return await self._cursor.read(ReceiveAction.MQ_ACTION_PEEK_NEXT, timeout)

    async def receive(self, timeout: float | None = None) -> Message:
        return await self._cursor.read(ReceiveAction.MQ_ACTION_RECEIVE, timeout)

    async def close(self) -> None:
        await self._cursor.close()
