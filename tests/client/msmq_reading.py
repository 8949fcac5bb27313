"""For readers of waypost.msmq: daemons that speak one of the protocols alone, and a relay that a test can disturb."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.daemon.recording import until
from waypost.node import remote_reading as remote_module
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.calls import Request
from waypost.rpc.pdu import Fragment, FragmentReader, PacketType
from waypost.rpc.server import RpcServer

OPEN, START, CANCEL, END = 2, 7, 8, 9


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await work

    asyncio.run(limited())


def without_remote_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons that start from now on have qmcomm and qm2qm alone."""
    make = RpcServer

    def server(listeners: Any, *args: Any) -> Any:
        kept = {
            port: [service for service in services if service.interface is not REMOTE_READ]
            for port, services in listeners.items()
        }
        return make(kept, *args)

    monkeypatch.setattr(remote_module, "RpcServer", server)


@dataclass
class Relay:
    """Between a reader and the RPC port of a daemon. It passes on what comes, and lists the opnums of requests.

    A test sets what is cut or held: `before` and `after` are opnums whose request, or whose answer, is not passed on
    and ends all connections; so does `cut`. The answers of `held` wait until `release`.
    """

    target: tuple[str, int]
    opnums: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    clears: Callable[[bytes], bytes] = bytes
    connections: int = 0
    is_down: bool = False
    port: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _waiting: list[tuple[asyncio.StreamWriter, bytes]] = field(default_factory=list)

    @property
    def is_used(self) -> bool:
        return bool(self._writers)

    async def seen(self, opnum: int, times: int = 1) -> None:
        await until(lambda: self.opnums.count(opnum) >= times)

    async def has_held(self) -> None:
        await until(lambda: bool(self._waiting))

    def release(self) -> None:
        self.held.clear()
        for writer, data in self._waiting:
            writer.write(data)
        self._waiting.clear()

    def cut(self) -> None:
        self.before.clear()
        self.after.clear()
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(*self.target)
        calls: dict[int, int] = {}
        self._writers |= {writer, there_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there_writer, calls, self._request))
                group.create_task(self._pump(there_reader, writer, calls, self._answer))
        except* OSError:
            pass
        finally:
            self._writers -= {writer, there_writer}
            for each in (writer, there_writer):
                each.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        calls: dict[int, int],
        take: Callable[[asyncio.StreamWriter, Fragment, dict[int, int]], None],
    ) -> None:
        fragments = FragmentReader()
        while data := await reader.read(65536):
            for fragment in fragments.feed(data):
                take(writer, fragment, calls)
            await writer.drain()
        raise ConnectionResetError

    def _request(self, writer: asyncio.StreamWriter, fragment: Fragment, calls: dict[int, int]) -> None:
        if fragment.header.ptype == PacketType.REQUEST:
            opnum = Request.decode(fragment).opnum
            calls[fragment.header.call_id] = opnum
            self.opnums.append(opnum)
            if opnum == END:
                # dwAck stands behind the 20 bytes of the handle.
                self.acks.append(int.from_bytes(Request.decode(fragment).stub_data[20:24], "little"))
            if opnum in self.before:
                self.cut()
                return
        writer.write(fragment.encode())

    def _answer(self, writer: asyncio.StreamWriter, fragment: Fragment, calls: dict[int, int]) -> None:
        opnum = calls.get(fragment.header.call_id)
        if opnum in self.after and fragment.header.ptype == PacketType.RESPONSE:
            self.cut()
        elif opnum in self.held and fragment.header.ptype == PacketType.RESPONSE:
            self._waiting.append((writer, fragment.encode()))
        else:
            writer.write(
                self.clears(fragment.encode()) if fragment.header.ptype == PacketType.BIND_ACK else fragment.encode()
            )


@asynccontextmanager
async def relay(address: str, port: int = 2103) -> AsyncIterator[Relay]:
    found = Relay((address, port))
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        found.cut()
        await until(lambda: not found.is_used)
