"""A queue of a host to read from, in an event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import UNSET

from waypost.api.operations import Peek, Read, Receive
from waypost.api.reading import lookup_number, milliseconds, place_of
from waypost.client.transports.msmq.failures import Failures, is_lost_handle, is_passing
from waypost.client.transports.msmq.reading import Handle, Patience, Phase, Reading
from waypost.client.transports.msmq.received import message_of
from waypost.core.message import Message
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.errors import (
    InvalidHandle,
    InvalidParameter,
    MessageNotFound,
    OperationCancelled,
    ServiceNotAvailable,
    SessionLost,
    Timeout,
    UnsupportedAccessMode,
    WaypostError,
)
from waypost.limits import MAX_HTTP_ANSWER
from waypost.remote.client.conversations import Conversation
from waypost.remote.client.reads import Received
from waypost.remote.client.remote_read import RemoteReadClient, RemoteReadQueue
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.wire.format_names import DirectFormatName, FormatName

if TYPE_CHECKING:
    from waypost.client.transports.msmq.reader import Reader

R = TypeVar("R")

_RECEIVES: Final[Mapping[MessageSeekAction, ReceiveAction]] = {
    MessageSeekAction.SEEK_FIRST: ReceiveAction.MQ_ACTION_RECEIVE,
    MessageSeekAction.SEEK_CURRENT: ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT,
    MessageSeekAction.SEEK_NEXT: ReceiveAction.MQ_LOOKUP_RECEIVE_NEXT,
    MessageSeekAction.SEEK_PREVIOUS: ReceiveAction.MQ_LOOKUP_RECEIVE_PREV,
    MessageSeekAction.SEEK_LAST: ReceiveAction.MQ_LOOKUP_RECEIVE_PREV,
}
_PEEKS: Final[Mapping[MessageSeekAction, ReceiveAction]] = {
    MessageSeekAction.SEEK_FIRST: ReceiveAction.MQ_ACTION_PEEK_CURRENT,
    MessageSeekAction.SEEK_CURRENT: ReceiveAction.MQ_LOOKUP_PEEK_CURRENT,
    MessageSeekAction.SEEK_NEXT: ReceiveAction.MQ_LOOKUP_PEEK_NEXT,
    MessageSeekAction.SEEK_PREVIOUS: ReceiveAction.MQ_LOOKUP_PEEK_PREV,
    MessageSeekAction.SEEK_LAST: ReceiveAction.MQ_LOOKUP_PEEK_PREV,
}

# MS-MQQP 3.1.4.11, readings MQRR 3.8: after every message, so that the one before it is the last.
_BEHIND_ALL: Final = 0xFFFF_FFFF_FFFF_FFFF


class QueueReader:
    """A queue by its name, with its open handles. The first use opens them."""

    __slots__ = (
        "__weakref__", "_failures", "_handles", "_left", "_openings", "_reader", "_readings", "_share", "name",
    )  # fmt: skip

    def __init__(self, reader: "Reader", name: FormatName, share: ShareMode, failures: Failures) -> None:
        self.name: Final = name
        self._reader: Final = reader
        self._share: Final = share
        self._failures: Final = failures
        self._handles: dict[AccessType, Handle] = {}
        self._openings: dict[AccessType, asyncio.Task[Handle]] = {}
        self._readings: dict[Reading, None] = {}
        # Messages that the host removed for calls that were cancelled meanwhile: the next receive gets them.
        self._left: deque[Received] = deque()

    async def receive(self, operation: Receive) -> list[Message]:
        """Receive messages one by one: the result has all that were received, even if the next receive fails."""
        taken = [await self._find(_RECEIVES, operation)]
        messages = [message_of(taken[0])]
        size = len(messages[0].body)
        is_looked_up = operation.lookup_id is not UNSET or operation.seek is not UNSET
        try:
            while len(taken) < operation.count and size < MAX_HTTP_ANSWER and not is_looked_up:
                taken.append(await self._read(ReceiveAction.MQ_ACTION_RECEIVE, 0))
                messages.append(message_of(taken[-1]))
                size += len(messages[-1].body)
        except WaypostError:
            pass
        except asyncio.CancelledError:
            for received in taken:
                self._hand_on(received)
            raise
        return messages

    async def peek(self, operation: Peek) -> list[Message]:
        return [message_of(await self._find(_PEEKS, operation))]

    async def purge(self) -> None:
        await self.do(AccessType.RECEIVE, lambda handle: handle.queue.purge(), unknown=(0,))

    async def move(self, lookup_id: int, to: FormatName) -> None:
        _check_lookup_id(lookup_id)
        _check_same_host(self.name, to)
        await self.do(AccessType.RECEIVE, partial(_moving, lookup_id, to), unknown=(0,))

    def cursor(self, access: AccessType) -> "CursorReader":
        return CursorReader(self, access)

    async def close(self) -> None:
        """Close the handles. Reads that wait raise OperationCancelled; a read that has its message returns it."""
        for reading in self._readings:
            if reading.phase is not Phase.ENDING and not reading.result.done():
                reading.result.set_exception(OperationCancelled(f"{self.name} was closed during the read"))
                reading.is_abandoned = True
                if reading.phase is Phase.OPENING and reading.task is not None:
                    reading.task.cancel()
        if self._openings:
            await asyncio.wait(self._openings.values())
        while self._handles:
            _, handle = self._handles.popitem()
            await self._close(handle)
        if not self._left:
            self._reader.used.discard(self)

    # For cursors too.

    def reading(self, action: ReceiveAction, timeout_s: float, lookup_id: int = 0, cursor: int = 0) -> Reading:
        wait_ms = milliseconds(timeout_s)
        deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1000
        return Reading(action, deadline, asyncio.get_running_loop().create_future(), lookup_id, cursor)

    async def result_of(self, reading: Reading, handle: Handle | None) -> Received:
        """The result of a read, with a cursor of `handle`, or with any handle if that is None."""
        if reading.takes_any and self._left:
            return self._left.popleft()
        with self._reader.counting():
            self._reader.used.add(self)
            self._readings[reading] = None
            reading.task = self._reader.start(self._run(reading, handle))
            try:
                return await reading.result
            except asyncio.CancelledError:
                self._abandon(reading)
                raise
            finally:
                del self._readings[reading]

    async def do(
        self, access: AccessType, conversation: Callable[[Handle], Conversation[R]], unknown: tuple[int, ...] = ()
    ) -> R:
        """Carry a conversation that does not wait. `unknown` is that of the HostError if the outcome is unknown."""
        handle = await self.handle(access)
        try:
            try:
                return await handle.session.carry(conversation(handle))
            except WaypostError as error:
                if not is_lost_handle(error):
                    raise
                self._drop(access, handle)
            handle = await self._handle(access)
            return await handle.session.carry(conversation(handle))
        except WaypostError as error:
            raise self._failures.of(error, unknown) from None

    async def handle(self, access: AccessType) -> Handle:
        try:
            return await self._handle(access)
        except WaypostError as error:
            raise self._failures.of(error) from None

    # Reads.

    async def _read(self, action: ReceiveAction, timeout_s: float, lookup_id: int = 0) -> Received:
        return await self.result_of(self.reading(action, timeout_s, lookup_id), None)

    async def _find(self, actions: Mapping[MessageSeekAction, ReceiveAction], operation: Read) -> Received:
        number = operation.lookup_id
        found = place_of(lookup_number(number) if isinstance(number, str) else number, operation.seek)
        if found is None:
            return await self._read(actions[MessageSeekAction.SEEK_FIRST], operation.timeout_s)
        place, where = found
        if where is MessageSeekAction.SEEK_FIRST:
            try:
                return await self._read(actions[where], 0)
            except Timeout:
                raise MessageNotFound(f"{self.name} does not contain the message") from None
        if where is MessageSeekAction.SEEK_LAST:
            place = _BEHIND_ALL
        _check_lookup_id(place)
        return await self._read(actions[where], 0, place)

    async def _run(self, reading: Reading, handle: Handle | None) -> None:
        """Finish a read, even if its caller no longer waits."""
        result = reading.result
        try:
            received = await (self._received(reading) if handle is None else self._carry(reading, handle))
        except WaypostError as error:
            if not result.done():
                result.set_exception(self._failures.of(error))
        except asyncio.CancelledError:
            if not result.done():
                result.set_exception(ServiceNotAvailable("this program closed the connection during the read"))
            raise
        else:
            if not result.done():
                result.set_result(received)
            elif not reading.action.is_peek and not reading.is_rejected:
                self._hand_on(received)

    async def _received(self, reading: Reading) -> Received:
        """Read with retries: until the reader confirms a message, the host keeps it, and a read can begin again."""
        access = reading.access
        patience = Patience(self._reader.address.timeout, reading.deadline)
        while True:
            handle: Handle | None = None
            try:
                handle = await self._handle(access)
                return await self._carry(reading, handle)
            except WaypostError as error:
                if reading.is_abandoned or (handle is None and not patience.is_tried):
                    raise
                if handle is not None and is_lost_handle(error):
                    self._drop(access, handle)
                elif not is_passing(error):
                    raise
                pause = patience.wait()
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _carry(self, reading: Reading, handle: Handle) -> Received:
        try:
            return await handle.session.carry(reading.begin(handle), partial(reading.prepare, handle.session))
        finally:
            if reading.phase is Phase.WAITING:
                reading.phase = Phase.OPENING

    def _abandon(self, reading: Reading) -> None:
        """Note that the caller no longer waits."""
        result = reading.result
        if result.done() and not result.cancelled() and result.exception() is None:
            if not reading.action.is_peek:
                self._hand_on(result.result())
            return
        self._let_go(reading)

    def _let_go(self, reading: Reading) -> None:
        """End the wait at the host."""
        reading.is_abandoned = True
        if reading.phase is Phase.OPENING and reading.task is not None:
            reading.task.cancel()
        elif reading.phase is Phase.WAITING and reading.handle is not None:
            self._reader.start(_quietly(reading.handle, reading.handle.queue.cancel(reading.request.request_id)))

    def _hand_on(self, received: Received) -> None:
        """Give a message, which left its queue for a caller that is gone, to another that waits, or to the next."""
        for reading in self._readings:
            if reading.takes_any and not reading.result.done():
                reading.result.set_result(received)
                self._let_go(reading)
                return
        self._left.append(received)

    # Handles.

    async def _handle(self, access: AccessType) -> Handle:
        handle = self._handles.get(access)
        if handle is not None and not handle.session.is_lost:
            return handle
        opening = self._openings.get(access)
        if opening is None:
            opening = self._openings[access] = self._reader.start(self._open(access))
            opening.add_done_callback(partial(self._opened, access))
        # Others may wait for the same handle.
        return await asyncio.shield(opening)

    async def _open(self, access: AccessType) -> Handle:
        session = self._reader.session()
        share = self._share if access is AccessType.RECEIVE else ShareMode.DENY_NONE
        handle = Handle(session, await session.open(self.name, access, share))
        self._reader.used.add(self)
        self._handles[access] = handle
        return handle

    def _opened(self, access: AccessType, opening: "asyncio.Task[Handle]") -> None:
        del self._openings[access]
        if not opening.cancelled():
            # Mark the exception as retrieved: all callers may be gone.
            opening.exception()

    def _drop(self, access: AccessType, handle: Handle) -> None:
        if self._handles.get(access) is handle:
            del self._handles[access]
            self._reader.start(self._close(handle))

    async def _close(self, handle: Handle) -> None:
        await _quietly(handle, handle.queue.close())
        handle.session.tidy()


class CursorReader:
    """A place in a queue. It is lost with the connection."""

    __slots__ = ("_access", "_place", "_queue")

    def __init__(self, queue: QueueReader, access: AccessType) -> None:
        self._queue: Final = queue
        self._access: Final = access
        # The handle and the number, after the first use.
        self._place: tuple[Handle, int] | None = None

    async def read(self, action: ReceiveAction, timeout_s: float) -> Message:
        if self._place is None:
            self._place = await self._queue.do(self._access, _creating)
        handle, number = self._place
        try:
            reading = self._queue.reading(action, timeout_s, cursor=number)
            return message_of(await self._queue.result_of(reading, handle))
        except (SessionLost, InvalidHandle):
            self._place = None
            raise
        except MessageNotFound:
            # readings MQRR 3.12: a receive that does not wait reports it, and a peek does not.
            raise Timeout(f"{self._queue.name} received no message in time") from None

    async def close(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            handle, number = place
            await _quietly(handle, handle.queue.close_cursor(number))


def _creating(handle: Handle) -> Conversation[tuple[Handle, int]]:
    return handle, (yield from handle.queue.create_cursor())


def _moving(lookup_id: int, to: FormatName, handle: Handle) -> Conversation[None]:
    if not isinstance(handle.queue, RemoteReadQueue):
        raise UnsupportedAccessMode(
            "the host offers only qm2qm, which does not move messages; receive the message and send it again"
        )
    client: RemoteReadClient = handle.session.remote_read
    target = yield from client.open_for_move(to)
    try:
        yield from handle.queue.move(lookup_id, target)
    except WaypostError:
        yield from _silently(target.queue.close())
        raise
    yield from _silently(target.queue.close())


def _silently(conversation: Conversation[None]) -> Conversation[None]:
    with suppress(WaypostError):
        yield from conversation


async def _quietly(handle: Handle, conversation: Conversation[None]) -> None:
    with suppress(WaypostError):
        await handle.session.carry(conversation)


def _check_same_host(name: FormatName, to: FormatName) -> None:
    """Raise an error for a queue of another host: the host would report that its own queue does not exist."""
    if not isinstance(name, DirectFormatName) or not isinstance(to, DirectFormatName):
        return
    if name.address.casefold() != to.address.casefold():
        there = replace(to, protocol=name.protocol, address=name.address)
        raise InvalidParameter(
            f"{to} is a queue of {to.host}, but the message is on {name.host}, and messages move only within one host; "
            f"if both names refer to the same host, use the name {there}"
        )


def _check_lookup_id(lookup_id: int) -> None:
    if not 0 < lookup_id <= _BEHIND_ALL:
        raise MessageNotFound(f"no message has the `lookup_id` {lookup_id}")
