"""The connection to a host, in an event loop.

One session carries the messages of all tasks; it opens with the first and closes when it is idle. A message is sent
once. Only if a session that was open before turns out to be dead, its unacknowledged messages are sent again on a new
one, with the same identifiers, by which the host detects duplicates (MS-MQQB 3.1.5.8.2).
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from waypost.client.transports.msmq.address import HostAddress, reason_of
from waypost.client.transports.msmq.outgoing import Outgoing
from waypost.client.transports.msmq.sending_session import Delivery, SendingSession
from waypost.clock import Now
from waypost.core.message import Message
from waypost.errors import HostError, HostUnreachable, NotAcknowledged, ServiceNotAvailable, SessionLost, SessionRefused


class Sender:
    """The sender to one host, for tasks of one event loop."""

    __slots__ = ("_address", "_connection", "_is_closed", "_opening")

    def __init__(self, address: HostAddress) -> None:
        self._address: Final = address
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._is_closed = False

    async def send(self, outgoing: Outgoing) -> list[Message]:
        """Send messages, and return when the host has acknowledged all. Raises a HostError if it does not."""
        delivery = Delivery(len(outgoing.messages), is_recoverable=outgoing.is_recoverable)
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._deliver(delivery, outgoing)
        except (HostUnreachable, SessionRefused, SessionLost) as error:
            raise self._failure(type(error), str(error), delivery) from None
        except TimeoutError:
            kind = NotAcknowledged if delivery.sent else HostUnreachable
            what = "has not acknowledged" if delivery.sent else "did not open a session"
            raise self._failure(kind, f"{what} within {self._address.timeout:g} s", delivery) from None
        finally:
            delivery.is_abandoned = True
        return outgoing.messages

    async def close(self) -> None:
        """Close the session. A second call does nothing."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _deliver(self, delivery: Delivery, outgoing: Outgoing) -> None:
        while not delivery.is_done:
            connection, is_new = await self._connected()
            if not delivery.packets:
                delivery.packets = outgoing.packets(connection.host_guid)
            await connection.carry(delivery)
            if is_new and not delivery.is_done and not connection.is_used_up:
                raise SessionLost(connection.why)

    async def _connected(self) -> "tuple[Connection, bool]":
        """An open connection, and whether it is a new one. The text of a HostError is only the reason."""
        if self._is_closed:
            raise ServiceNotAvailable(f"the connection to {self._address.text} is closed")
        if self._connection is not None and self._connection.is_usable:
            return self._connection, False
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            self._opening.add_done_callback(self._opened)
        try:
            # Others may wait for the same connection.
            return await asyncio.shield(self._opening), True
        except asyncio.CancelledError:
            if self._is_closed:
                raise ServiceNotAvailable(f"the connection to {self._address.text} is closed") from None
            raise

    async def _open(self) -> "Connection":
        address, loop = self._address, asyncio.get_running_loop()
        local = (address.bind, 0) if address.bind else None
        connection = Connection(SendingSession(address.identifier, address.host, _now()))
        try:
            async with asyncio.timeout(address.timeout):
                await loop.create_connection(lambda: connection, address.host, address.port, local_addr=local)
                await connection.opened
        except (TimeoutError, OSError, UnicodeError, ValueError) as error:
            is_late = isinstance(error, TimeoutError) and not error.args
            reason = f"did not open a session within {address.timeout:g} s" if is_late else reason_of(error)
            raise HostUnreachable(reason) from None
        finally:
            if not connection.is_usable:
                connection.abort()
        if not connection.is_usable:
            raise SessionRefused(connection.why)
        self._connection = connection
        return connection

    def _opened(self, opening: "asyncio.Task[Connection]") -> None:
        self._opening = None
        if not opening.cancelled():
            # Mark the exception as retrieved: all callers may be gone.
            opening.exception()

    def _failure(self, kind: type[HostError], reason: str, delivery: Delivery) -> HostError:
        return self._address.failure(kind, reason, delivery.count, delivery.sent, delivery.acknowledged)


class Connection(asyncio.Protocol):
    """A socket for a session."""

    def __init__(self, session: SendingSession) -> None:
        self._session: Final = session
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._alarm: asyncio.TimerHandle | None = None
        # Done when the session is open or has ended, and when the socket is closed.
        self.opened: Final[asyncio.Future[None]] = self._loop.create_future()
        self._ended: Final[asyncio.Future[None]] = self._loop.create_future()

    @property
    def is_usable(self) -> bool:
        return self._session.is_open and not self._session.is_used_up

    @property
    def is_used_up(self) -> bool:
        return self._session.is_used_up

    @property
    def host_guid(self) -> bytes:
        return self._session.host_guid

    @property
    def why(self) -> str:
        """The reason why it is closed, to follow the name of the host."""
        what = "refuses a session" if self._session.was_refused else "has ended the session"
        return f"{what}: {self._session.error}"

    async def carry(self, delivery: Delivery) -> None:
        """Carry a delivery, and return when it is done or the session has ended."""
        ended = self._loop.create_future()
        delivery.ended = partial(_finish, ended)
        self._do(partial(self._session.deliver, delivery))
        if not self._session.is_closed and not delivery.is_done:
            await ended

    async def close(self) -> None:
        self._session.lost("this computer closed the session")
        self._flush()
        await self._ended

    def abort(self) -> None:
        self._session.lost("the connection was abandoned")
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop has other transports, with the same methods.
        self._transport = cast("asyncio.Transport", transport)
        self._do(self._session.connected)

    def data_received(self, data: bytes) -> None:
        self._do(partial(self._session.data_received, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.lost("the connection is lost" if exc is None else f"the connection is lost, {exc}")
        self._flush()
        _finish(self._ended)

    def pause_writing(self) -> None:
        self._session.pause_writing()

    def resume_writing(self) -> None:
        self._do(self._session.resume_writing)

    def _do(self, what: Callable[[Now], None]) -> None:
        what(_now())
        self._flush()

    def _flush(self) -> None:
        session = self._session
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        data = session.take_output()
        if data and self._transport is not None:
            self._transport.write(data)
        if session.is_open or session.is_closed:
            _finish(self.opened)
        if session.is_closed:
            if self._transport is not None:
                self._transport.close()
            return
        deadline = session.next_deadline()
        if deadline is not None:
            self._alarm = self._loop.call_later(max(deadline - time.monotonic(), 0), self._do, session.tick)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _now() -> Now:
    return Now(time.monotonic(), time.time())
