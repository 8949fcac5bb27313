"""A host for waypost.msmq whose packets the test makes: it shakes hands by itself, unless it is told something else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_header import RECOVERABLE
from waypost.wire.user_message import UserMessage

GUID = bytes(range(16))


class Call:
    """One connection: what came on it, and what is said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window: int) -> None:
        self._reader = reader
        self._writer = writer
        self._splitter = Splitter()
        self._window = window
        self._packets: list[Packet] = []
        self.messages: list[UserMessage] = []

    async def next(self) -> Packet | None:
        """The next packet, or None at the end."""
        while not self._packets:
            data = await self._reader.read(65536)
            if not data:
                return None
            self._packets += map(decode_packet, self._splitter.feed(data))
        packet = self._packets.pop(0)
        if isinstance(packet, UserMessage):
            self.messages.append(packet)
        return packet

    def write(self, packet: bytes) -> None:
        self._writer.write(packet)

    async def shake_hands(self, server_guid: bytes = GUID) -> EstablishConnection:
        request = await self.next()
        assert isinstance(request, EstablishConnection)
        self.write(request.accepted(server_guid).encode())
        parameters = await self.next()
        assert isinstance(parameters, ConnectionParameters)
        self.write(parameters.response(self._window).encode())
        return request

    async def message(self) -> UserMessage | None:
        """The next message; what else comes is passed over. None at the end."""
        while (packet := await self.next()) is not None:
            if isinstance(packet, UserMessage):
                return packet
        return None

    def ack(self, number: int | None = None) -> None:
        """Acknowledge what came so far as received, and stored if it is recoverable; or the first `number` of it."""
        taken = self.messages[:number]
        recoverable = sum(message.user.delivery == RECOVERABLE for message in taken)
        first = max(recoverable - 31, 1)
        flags = (1 << recoverable - first + 1) - 1
        header = SessionHeader(len(taken), first if recoverable else 0, flags if recoverable else 0, 0, 0, self._window)
        self.write(SessionAck(session=header).encode())

    async def serve(self) -> None:
        """Acknowledge every message."""
        while await self.message() is not None:
            self.ack()


Script = Callable[[Call], Awaitable[object]]


class Peer:
    def __init__(self, *scripts: Script, window: int = 64) -> None:
        self._scripts = list(scripts)
        self._window = window
        self.calls: list[Call] = []
        self.port = 0

    async def called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The scripts are for one connection each, and the last one for all that follow."""
        call = Call(reader, writer, self._window)
        self.calls.append(call)
        script = self._scripts[0] if len(self._scripts) == 1 else self._scripts.pop(0)
        try:
            await script(call)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def peer(*scripts: Script, window: int = 64) -> AsyncIterator[Peer]:
    """A host on a port of loopback."""
    host = Peer(*scripts, window=window)
    server = await asyncio.start_server(host.called, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def polite(call: Call) -> None:
    await call.shake_hands()
    await call.serve()
