"""Conversations with the daemon for an event loop: those of the transport for threads, with coroutines."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from importlib import import_module
from math import ceil
from socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, socket
from typing import TYPE_CHECKING, Final, TypeVar, cast

from waypost.api.events import Events
from waypost.api.operations import CloseQueue, CursorRead, Operation, Read, checked
from waypost.api.status import ShowVerification, StartVerification
from waypost.client.transports.http.address import UNAUTHORIZED, Address, Lost, NotSent, reason_of
from waypost.client.transports.http.asking import (
    LOOK_SECONDS,
    Asking,
    Wait,
    greeting,
    report_of,
)
from waypost.client.transports.http.events import EventReader, events_request
from waypost.client.transports.http.exchanges import Conversation, Exchange
from waypost.client.transports.http.http11 import Response, ResponseParser
from waypost.client.transports.http.local import LocalWay, NotTheDaemon
from waypost.client.transports.http.shell import Shell
from waypost.core.message import Message
from waypost.errors import AccessDenied, CannotConnect, DecodeError, InvalidParameter, WaypostError
from waypost.hresult import HResult
from waypost.node.failures import failure

if TYPE_CHECKING:
    from waypost.api.status import StoreReport
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")

_PART: Final = 1 << 16


class AioHttp(Shell["_Link"]):
    """A transport for one event loop."""

    __slots__ = ("_loop",)

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._loop: Final = asyncio.get_running_loop()

    @classmethod
    async def open(cls, address: Address) -> "AioHttp":
        shell = cls(address)
        try:
            with address.first_answer():
                found = await shell.carry(greeting())
        except BaseException:
            shell._close_idle()
            await asyncio.sleep(0)
            raise
        shell._asking = Asking(found)
        return shell

    async def call(self, operation: Operation[R]) -> R:
        return checked(operation, await self._reply(operation))

    async def _reply(self, operation: Operation[object]) -> object:
        if isinstance(operation, Read | CursorRead):
            wait = self._asking.wait_of(operation)
            self._waiting[wait] = None
            try:
                return await self.carry(self._asking.read(operation, wait), wait)
            finally:
                del self._waiting[wait]
        if isinstance(operation, CloseQueue):
            await self.cancel(operation.identifier)
        return await self.carry(self._asking.ask(operation))

    async def start(self, operation: Operation[None]) -> None:
        await self.call(operation)

    async def cancel(self, name: str) -> None:
        self._cancel_waits(name)

    async def events(self, wanted: Events, timeout_s: float) -> AsyncGenerator[Message, None]:
        """Follow a queue, on a separate connection."""
        self.check()
        self.check_loop()
        reader, wait, link = EventReader(self._address, timeout_s), Wait(wanted.name), await self._connect_events()
        try:
            await self._begin(wanted, reader, wait, link)
        except AccessDenied:
            if not self._address.is_outdated(link.way, reader.status):
                raise
            reader, link = EventReader(self._address, timeout_s), await self._connect_events()
            await self._begin(wanted, reader, wait, link)
        return self._follow(reader, wait, link)

    async def _begin(self, wanted: Events, reader: EventReader, wait: Wait, link: "_EventLink") -> None:
        self._waiting[wait] = link
        try:
            link.send(events_request(self._address, wanted, link.credentials))
            while not reader.is_open:
                reader.feed(await link.read(self._address.timeout), time.monotonic())
        except BaseException as error:
            del self._waiting[wait]
            link.cancel()
            if isinstance(error, Lost):
                raise reader.lost(error) from None
            raise

    async def _follow(self, reader: EventReader, wait: Wait, link: "_EventLink") -> AsyncGenerator[Message, None]:
        try:
            while True:
                while reader.messages:
                    yield reader.messages.popleft()
                if wait.is_cancelled:
                    raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED)
                seconds = reader.wait_s(time.monotonic())
                if not seconds:
                    return
                try:
                    reader.feed(await link.read(seconds), time.monotonic())
                except Lost as error:
                    if wait.is_cancelled:
                        raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED) from None
                    if reader.wait_s(time.monotonic()):
                        raise reader.lost(error) from None
        finally:
            del self._waiting[wait]
            link.cancel()

    async def backup(self, target: "Target", progress: "Progress | None") -> "BackupInfo":
        making = import_module("waypost.client.backups.making")
        info: BackupInfo = await asyncio.to_thread(making.backup_of_daemon, self.address, target, progress)
        return info

    async def verify(self, progress: "Progress | None") -> "StoreReport":
        state = await self.call(StartVerification())
        while state.running:
            if progress is not None:
                progress(state.done, state.total)
            await asyncio.sleep(LOOK_SECONDS)
            state = await self.call(ShowVerification())
        return report_of(state)

    async def close(self) -> None:
        if self._is_closed:
            return
        self.check_loop()
        try:
            self._cancel_waits()
            with suppress(WaypostError):
                for operation in tuple(self._asking.to_end.values()):
                    await self.call(operation)
        finally:
            self._is_closed = True
            self._close_idle()
            # The transports close their sockets in the next turn.
            await asyncio.sleep(0)

    def check_loop(self) -> None:
        """Raise InvalidParameter for a caller outside the loop."""
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not self._loop:
            raise InvalidParameter(
                "the connection belongs to another event loop; use one connection for each event loop"
            )

    async def carry(self, conversation: Conversation[R], wait: Wait | None = None) -> R:
        """Carry a conversation to the daemon, and return its result."""
        self.check_loop()
        try:
            exchange = next(conversation)
            while True:
                exchange = conversation.send(await self._exchange(exchange, wait))
        except StopIteration as end:
            result: R = end.value
            return result

    async def _exchange(self, exchange: Exchange, wait: Wait | None) -> Response:
        timeout = self._address.timeout + ceil(exchange.wait_s)
        link = self._take()
        if link is not None:
            try:
                response = await self._over(link, exchange, timeout, wait)
                if not self._address.is_outdated(link.way, response.status):
                    return response
            except NotSent:
                pass
            except Lost as error:
                if not exchange.is_repeatable:
                    raise self._address.connection_lost(error) from None
                exchange.is_repeated = True
        try:
            link = await self._connect()
            response = await self._over(link, exchange, timeout, wait)
            if self._address.is_outdated(link.way, response.status):
                response = await self._over(await self._connect(), exchange, timeout, wait)
            return response
        except (NotSent, Lost) as error:
            raise self._address.connection_lost(error) from None
        except CannotConnect as error:
            # The first attempt may have changed something, and no daemon answers the question.
            if exchange.is_repeated and exchange.method == "POST":
                raise self._address.connection_lost(error) from None
            raise

    async def _over(self, link: "_Link", exchange: Exchange, timeout: float, wait: Wait | None) -> Response:
        if wait is not None:
            self._waiting[wait] = link
        is_kept = False
        try:
            response = await link.exchange(self._address.request(exchange, link.credentials), timeout)
            is_kept = response.is_kept and response.status != UNAUTHORIZED
        except (NotSent, Lost):
            if wait is not None and wait.is_cancelled:
                raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED) from None
            raise
        finally:
            self._give_back(link, wait, is_kept=is_kept)
        return response

    def _take(self) -> "_Link | None":
        """A connection that is not in use, or None."""
        self.check()
        while self._idle:
            link = self._idle.pop()
            if link.is_alive:
                return link
            link.close()
        return None

    async def _connect(self) -> "_Link":
        link = _Link(self._loop)
        _, link.way, link.credentials = await self._reach(lambda: link)
        return link

    async def _connect_events(self) -> "_EventLink":
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, way, credentials = await self._reach(lambda: protocol)
        return _EventLink(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop), way, credentials)

    async def _reach(
        self, make: Callable[[], asyncio.Protocol]
    ) -> tuple[asyncio.Transport, LocalWay | None, bytes]:  # fmt: skip
        """Connect as waypost.client.transports.http.blocking.connected does."""
        address = self._address
        try:
            async with asyncio.timeout(address.timeout):
                way = address.local_way()
                local = None if way is None else await self._local(way)
                if local is not None:
                    transport, _ = await self._loop.create_unix_connection(make, sock=local)
                    address.reached(way)
                    return transport, way, b""
                credentials = b"" if way is None else way.credentials
                name = address.host if address.tls is not None else None
                transport, _ = await self._loop.create_connection(
                    make, address.host, address.port, ssl=address.tls, server_hostname=name
                )
                if way is not None:
                    try:
                        way.check(transport.get_extra_info("socket"))
                    except BaseException:
                        transport.abort()
                        raise
                    address.reached(way)
                return transport, way, credentials
        except (OSError, UnicodeError, TimeoutError, NotTheDaemon) as error:
            raise address.cannot_connect(error) from None

    async def _local(self, way: LocalWay) -> "socket | None":
        """A connection to the Unix socket of the daemon; None if nobody, or somebody else, serves it."""
        connection = way.new_socket()
        if connection is None:
            return None
        try:
            connection.setblocking(False)
            await self._loop.sock_connect(connection, way.daemon.socket)
            if way.is_served(connection):
                return connection
        except OSError:
            pass
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None


class _EventLink:
    """One connection with one answer, which is read in parts."""

    __slots__ = ("_reader", "_writer", "credentials", "way")

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: LocalWay | None, credentials: bytes
    ) -> None:
        self._reader: Final = reader
        self._writer: Final = writer
        self.way: Final = way
        # The header line with the token that was found for this connection.
        self.credentials: Final = credentials

    def send(self, request: bytes) -> None:
        self._writer.write(request)

    async def read(self, timeout: float) -> bytes:
        """Some bytes. Raises Lost if none come in time, or the connection has ended."""
        try:
            data = await asyncio.wait_for(self._reader.read(_PART), timeout)
        except TimeoutError:
            raise Lost(f"no data within {timeout:g} seconds") from None
        except OSError as error:
            raise Lost(reason_of(error)) from None
        if not data:
            raise Lost("the daemon closed the connection")
        return data

    def cancel(self) -> None:
        """End the connection, also while a task reads."""
        self._writer.transport.abort()


class _Link(asyncio.Protocol):
    """One connection, for one exchange at a time."""

    __slots__ = ("_answer", "_loop", "_parser", "_transport", "credentials", "is_alive", "is_cancelled", "way")

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._parser = ResponseParser()
        self._answer: asyncio.Future[Response] | None = None
        self.way: LocalWay | None = None
        # The header line with the token that was found for this connection.
        self.credentials = b""
        self.is_alive = True
        self.is_cancelled = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop has other transports, with the same methods.
        self._transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (AF_INET, AF_INET6):
            connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # Bytes without a request.
            self.close()
            return
        try:
            response = self._parser.feed(bytes(data))
        except DecodeError as error:
            self._end(error)
        else:
            if response is not None:
                self._end(response)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_alive = False
        self._end(self._parser.end() or Lost(reason_of(error) if error else "the daemon closed the connection"))

    async def exchange(self, request: bytes, timeout: float) -> Response:
        if not self.is_alive or self._transport.is_closing():
            raise NotSent("the daemon closed the connection")
        self._parser = ResponseParser()
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        limit = self._loop.call_later(timeout, self._end, Lost(f"no answer within {timeout:g} seconds"))
        try:
            self._transport.write(request)
            return await answer
        finally:
            limit.cancel()
            self._answer = None

    def cancel(self) -> None:
        """End the exchange that a task waits for."""
        self.is_cancelled = True
        self._end(Lost("the wait was cancelled"))

    def close(self) -> None:
        self.is_alive = False
        # Everything is sent, and the shutdown of TLS is not worth a wait.
        self._transport.abort()

    def _end(self, outcome: Response | Exception) -> None:
        answer = self._answer
        if answer is None or answer.done():
            return
        if isinstance(outcome, Response):
            answer.set_result(outcome)
        else:
            answer.set_exception(outcome)
