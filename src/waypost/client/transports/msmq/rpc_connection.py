"""Sockets for RPC: a connection, and the connections of one association.

The context handles of a host belong to an association (MS-RPCE 3.3.1.1.1). It opens another connection when the others
have no room for a call. When one of them is lost, the association is lost.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, cast

from waypost.clock import Now
from waypost.errors import WaypostError
from waypost.limits import MAX_READER_CALLS
from waypost.remote.client.conversations import Ask
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_errors import ConnectionFailed

# A wait may last for days, and a host without power sends nothing: after a minute without an answer it is lost.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


class NotAccepted(ConnectionFailed):
    """The connection ended before the server accepted it. Nothing was executed."""


class ReaderConnection(ClientConnection):
    """A client connection with more facts for a transport: its room for calls, and the result of the bind."""

    was_answered = False

    def feed(self, data: bytes) -> None:
        self.was_answered = True
        super().feed(data)

    def check_accepted(self, host: str, port: int) -> None:
        """Raise NotAccepted if the connection ended before the server sent an answer of RPC."""
        if self.is_bound or type(self._error) is not ConnectionFailed:
            return
        if not self.was_answered:
            raise NotAccepted(
                f"{host} closed the connection to port {port} without an answer: the host might have blocked this "
                "computer after too many errors, or it does not serve RPC on this port"
            )
        # A bind_ack has the group, also if the authentication goes on after it.
        if not self.assoc_group_id:
            raise NotAccepted(f"{host}:{port} is not an RPC server")

    @property
    def has_room(self) -> bool:
        """True if another call would not have to wait."""
        if not self.is_open_for_calls:
            return False
        return not self.open_calls or (self._binding.is_multiplexed and self.open_calls < MAX_READER_CALLS)


class RpcConnection(asyncio.Protocol):
    """A socket for a started ReaderConnection. `lost` is called once, when it takes no more calls."""

    def __init__(self, rpc: ReaderConnection) -> None:
        self.rpc: Final = rpc
        self.lost: Callable[[], None] = lambda: None
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, asyncio.Future[object]] = {}
        # Done when the server has accepted the connection, or it is over; and when the socket is closed.
        self.bound: Final[asyncio.Future[None]] = self._loop.create_future()
        self._ended: Final[asyncio.Future[None]] = self._loop.create_future()

    async def call(self, ask: Ask, limit_s: float | None) -> object:
        """The reply to a call. Raises the WaypostError with which the call ended."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        number = self.rpc.call(ask.interface, ask.opnum, ask.request, deadline)
        answer = self._answers[number] = self._loop.create_future()
        alarm = None if limit_s is None else self._loop.call_later(limit_s, self._expire)
        self._flush()
        try:
            return await answer
        finally:
            self._answers.pop(number, None)
            if alarm is not None:
                alarm.cancel()

    def close(self) -> None:
        """Close the connection, and end its calls. A second call does nothing."""
        self.lost = _nothing
        self.rpc.closed()
        self._flush()

    async def wait_closed(self) -> None:
        if self._transport is not None:
            await self._ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop has other transports, with the same methods.
        self._transport = cast("asyncio.Transport", transport)
        _keep_alive(transport.get_extra_info("socket"))
        self._flush()

    def data_received(self, data: bytes) -> None:
        self.rpc.feed(data)
        self._flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.rpc.closed()
        self._flush()
        _finish(self._ended)

    def _expire(self) -> None:
        self.rpc.expire(Now(time.monotonic(), time.time()))
        self._flush()

    def _flush(self) -> None:
        rpc, transport = self.rpc, self._transport
        if transport is not None:
            data = rpc.take_output()
            if data:
                transport.write(data)
        for number, result in rpc.take_results():
            answer = self._answers.get(number)
            # Otherwise the caller is gone.
            if answer is not None and not answer.done():
                if isinstance(result, WaypostError):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
        if rpc.is_bound or rpc.is_closed:
            _finish(self.bound)
        if rpc.is_closed:
            if transport is not None:
                transport.close()
            lost, self.lost = self.lost, _nothing
            lost()


class Association:
    """The connections of one association. `connect` makes a connection that joins the group with a given number.

    `lost` is called when a connection ends that was not closed here.
    """

    __slots__ = ("_connect", "_connecting", "_connections", "_is_lost", "_lost", "_users")

    def __init__(self, connect: Callable[[int], Awaitable[RpcConnection]], lost: Callable[[], None]) -> None:
        self._connect: Final = connect
        self._lost: Final = lost
        self._connections: list[RpcConnection] = []
        self._connecting: Final = asyncio.Lock()
        self._is_lost = False
        self._users = 0

    @property
    def is_used(self) -> bool:
        return self._users > 0

    async def call(self, ask: Ask, limit_s: float | None) -> object:
        self._users += 1
        try:
            connection = self._free() or await self._another()
            return await connection.call(ask, limit_s)
        finally:
            self._users -= 1

    def close(self) -> None:
        self._is_lost = True
        for connection in self._connections:
            connection.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*(connection.wait_closed() for connection in self._connections))

    def _free(self) -> RpcConnection | None:
        return next((each for each in self._connections if each.rpc.has_room), None)

    async def _another(self) -> RpcConnection:
        async with self._connecting:
            free = self._free()
            if free is not None:
                return free
            if self._is_lost:
                raise ConnectionFailed("the connection was closed")
            group_id = self._connections[0].rpc.assoc_group_id if self._connections else 0
            connection = await self._connect(group_id)
            self._take(connection)
            return connection

    def _take(self, connection: RpcConnection) -> None:
        if self._is_lost:
            connection.close()
        elif connection.rpc.is_open_for_calls:
            connection.lost = self._connection_lost
            self._connections.append(connection)

    def _connection_lost(self) -> None:
        self.close()
        self._lost()


def _keep_alive(sock: socket.socket | None) -> None:
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        # Not every system has each of them.
        if hasattr(socket, name):
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _nothing() -> None: ...


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
