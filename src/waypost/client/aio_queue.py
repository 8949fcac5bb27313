"""Queue and Cursor for asyncio: waypost.client.queue with coroutines, which documents them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from waypost.api.names import Name, journal_name, subqueue_name
from waypost.api.operations import DeleteQueue, PauseQueue, ResumeQueue, ShowQueue
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.api.queues import QueueInfo
from waypost.client import queue
from waypost.client.aio_with_properties import QueueSender, QueueSetter
from waypost.client.bases import BaseQueue, identify
from waypost.client.bodies import Body
from waypost.client.calls import Calls, Seek, milliseconds
from waypost.client.message import Message, sent_message, sent_together
from waypost.client.queue_info import warn_of_ignored
from waypost.client.twins import documented_by
from waypost.core.queues import AccessType, ShareMode
from waypost.core.writing import MovedPart
from waypost.drive.loop import Loop
from waypost.errors import InvalidHandle, QueueNotAvailable, ServiceNotAvailable, Timeout
from waypost.node.application import OperationFunction, ReadOptions
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.aio_manager import Manager, Transaction


@documented_by(queue.Queue)
class Queue(BaseQueue, QueueSender, QueueSetter):
    __slots__ = ("_opening", "_shell", "manager")

    def __init__(
        self,
        manager: "Manager",
        shell: Loop,
        calls: Calls,
        name: FormatName,
        *,
        exclusive: bool = False,
        outgoing: bool = False,
    ) -> None:
        super().__init__(calls, name, exclusive=exclusive, outgoing=outgoing)
        self.manager: Final = manager
        self._shell: Final = shell
        self._opening: Final = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send_record(
        self, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        message = self._message(body, properties)
        identifier = identify(transaction, self._calls)
        return sent_message(
            await self._ask(self._shell.do, AccessType.SEND, self._calls.application.send, message, identifier)
        )

    async def send_records(
        self, bodies: Iterable[Body], properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> list[Message]:
        like, encoded = self._messages(bodies, properties)
        identifier = identify(transaction, self._calls)
        if not encoded:
            return []
        sent = await self._ask(self._shell.do, AccessType.SEND, self._calls.send_many, like, encoded, identifier)
        return sent_together(sent)

    async def receive(
        self,
        timeout: float | None = None,
        *,
        transaction: "Transaction | None" = None,
        lookup_id: int | None = None,
        seek: Seek | None = None,
    ) -> Message:
        operation, args = self._receive_request(timeout, transaction, lookup_id, seek)
        return Message(await self._ask(self._shell.read, self._receive_access, operation, *args))

    async def receive_many(
        self, count: int, timeout: float | None = None, *, transaction: "Transaction | None" = None
    ) -> list[Message]:
        operation, args = self._receive_many_request(count, timeout, transaction)
        return [
            Message(message) for message in await self._ask(self._shell.read, self._receive_access, operation, *args)
        ]

    async def peek(
        self, timeout: float | None = None, *, lookup_id: int | None = None, seek: Seek | None = None
    ) -> Message:  # fmt: skip
        operation, args = self._peek_request(timeout, lookup_id, seek)
        return Message(await self._ask(self._shell.read, self._peek_access, operation, *args))

    async def browse(self) -> AsyncIterator[Message]:
        async with Cursor(self._shell, self._calls, partial(self._open_cursor, self._peek_access)) as cursor:
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

    def cursor(self) -> "Cursor":
        return Cursor(self._shell, self._calls, partial(self._open_cursor, self._receive_access))

    async def move(self, message: Message | int, to: Name, *, transaction: "Transaction | None" = None) -> None:
        lookup_id, name, identifier = self._move_request(message, to, transaction)
        application = self._calls.application
        target = await self._shell.do(application.open_queue, name, AccessType.MOVE, ShareMode.DENY_NONE)
        try:
            await self._ask(self._shell.do, self._receive_access, self._calls.move, lookup_id, target, identifier)
        finally:
            self._close(target)

    async def move_all(self, to: Name, *, progress: Callable[[int], object] | None = None) -> int:
        moved, part = 0, MovedPart()
        while not part.is_last:
            part = await self._move_some(to, part)
            moved += part.count
            if progress is not None:
                progress(part.count)
        return moved

    async def _move_some(self, to: Name, part: MovedPart) -> Any:
        application = self._calls.application
        target = await self._shell.do(
            application.open_queue, self._calls.name(to), AccessType.MOVE, ShareMode.DENY_NONE
        )
        try:
            return await self._ask(self._shell.do, self._receive_access, self._calls.move_some, target, part)
        finally:
            self._close(target)

    async def resend(self, message: Message | int, to: Name | None = None) -> Message:
        request = self._resend_request(message, to)
        return sent_message(
            await self._ask(self._shell.do, self._receive_access, self._calls.application.resend, *request)
        )

    async def purge(self) -> None:
        await self._ask(self._shell.do, self._receive_access, self._calls.application.purge)

    @property
    def journal(self) -> "Queue":
        return self.manager.queue(str(journal_name(self._name)))

    def subqueue(self, name: str) -> "Queue":
        return self.manager.queue(str(subqueue_name(self._name, name)))

    async def info(self) -> QueueInfo:
        with self._if_it_is_there():
            return await self._shell.call(ShowQueue(name=str(self._name)))

    async def set_record(self, properties: QueueProperties) -> None:
        attributes = self._calls.change(properties)
        warn_of_ignored(self._name, properties)
        with self._if_it_is_there():
            await self._shell.do(self._calls.set_queue, self._name, attributes)

    async def pause(self) -> None:
        await self._shell.call(PauseQueue(name=str(self._name)))

    async def resume(self) -> None:
        await self._shell.call(ResumeQueue(name=str(self._name)))

    async def delete(self) -> None:
        handles = tuple(self._handles.values())
        with self._if_it_is_there():
            await self._shell.call(DeleteQueue(name=str(self._name)))
        self._calls.deleted(self._name)
        self._forget()
        self._close(*handles)

    async def close(self) -> None:
        while self._handles:
            _, handle = self._handles.popitem()
            self._close(handle)

    def _close(self, *handles: int) -> None:
        for handle in handles:
            with suppress(InvalidHandle, ServiceNotAvailable):
                self._shell.start(self._calls.application.close_queue, handle)

    async def _ask(
        self, ask: Callable[..., Awaitable[Any]], access: AccessType, operation: OperationFunction, *args: Any
    ) -> Any:
        try:
            return await ask(operation, self._handles.get(access) or await self._open(access), *args)
        except (QueueNotAvailable, InvalidHandle):
            # The queue was deleted or the handle closed; there may be another queue under the name.
            self._handles.pop(access, None)
            return await ask(operation, await self._open(access), *args)

    async def _open(self, access: AccessType) -> int:
        self._shell.check_loop()
        async with self._opening:
            handle = self._handles.get(access)
            if handle is None:
                request = self._open_request(access)
                with self._if_it_is_there():
                    handle = await self._shell.do(self._calls.application.open_queue, *request)
                self._handles[access] = handle
            return handle

    async def _open_cursor(self, access: AccessType) -> tuple[int, int]:
        number = await self._ask(self._shell.do, access, self._calls.application.open_cursor)
        return self._handles.get(access, 0), number


def stop_reading(queue: Queue) -> None:
    """Leave a queue to those who want to read it alone, until it is read from again."""
    handles = queue._handles  # noqa: SLF001, of this module
    for access in [access for access in handles if access is not AccessType.SEND]:
        queue._close(handles.pop(access))  # noqa: SLF001


async def move_some(queue: Queue, to: Name, part: MovedPart) -> MovedPart:
    """The next part of `Queue.move_all`, for those who serve it to other processes."""
    moved: MovedPart = await queue._move_some(to, part)  # noqa: SLF001, of this module
    return moved


@documented_by(queue.Cursor)
class Cursor:
    __slots__ = ("_calls", "_open", "_place", "_shell")

    def __init__(self, shell: Loop, calls: Calls, open_cursor: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        self._shell: Final = shell
        self._calls: Final = calls
        self._open: Final = open_cursor
        # The handle and the number, once it is used.
        self._place: tuple[int, int] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def peek(self, timeout: float | None = None) -> Message:
        return await self._read(self._calls.application.peek, timeout)

    async def peek_next(self, timeout: float | None = None) -> Message:
        return await self._read(self._calls.application.peek_next, timeout)

    async def receive(self, timeout: float | None = None, *, transaction: "Transaction | None" = None) -> Message:
        return await self._read(self._calls.application.receive, timeout, identify(transaction, self._calls))

    async def close(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            with suppress(InvalidHandle, ServiceNotAvailable):
                self._shell.start(self._calls.application.close_cursor, *place)

    async def _read(
        self, operation: OperationFunction, timeout: float | None, transaction: bytes | None = None
    ) -> Message:
        self._place = handle, number = self._place or await self._open()
        options = ReadOptions(milliseconds(timeout), number, transaction)
        return Message(await self._shell.read(operation, handle, options))
