"""The clients and servers of bench/remote.py, each for a separate process.

A client makes the same call over and over. The servers of impacket and scapy are those of their libraries, each with
one method. The bare server is waypost.rpc without a queue manager: it answers the two phases of a receive with one
message that it was given.
"""

import asyncio
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from impacket.dcerpc.v5.ndr import NDRCALL
from impacket.dcerpc.v5.rpcrt import DCERPC_v5, DCERPCServer
from impacket.dcerpc.v5.transport import TCPTransport
from impacket.uuid import bin_to_uuidtup

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.crash.remote_reader import RemoteReader, RpcClient
from waypost.clock import Now
from waypost.remote.interfaces.remote_read import REMOTE_READ, GetServerPortReply, OpenQueueReply
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.interface import NULL_HANDLE, Empty, ResultReply
from waypost.rpc.server import Call, RpcServer, Service
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import NdrReader, NdrSyntax
from waypost.wire.receive_reply import ReceiveReply

if sys.platform != "win32":
    import uvloop

PORT: Final = 2103
ADDRESS: Final = "127.0.0.1"

IMPACKET_SYNTAX: Final = REMOTE_READ.uuid + struct.pack("<HH", *REMOTE_READ.version)

# One call of a client.
Do: TypeAlias = Callable[[], object]


class Scapy:
    """Its modules. It does much on import, for which nobody else need wait."""

    def __init__(self) -> None:
        self.mqrr: Any = import_module("msrpcs.ms_mqrr")
        self.dcerpc: Any = import_module("scapy.layers.dcerpc")
        self.rpcclient: Any = import_module("scapy.layers.msrpce.rpcclient")
        self.rpcserver: Any = import_module("scapy.layers.msrpce.rpcserver")
        self.transport: Any = self.dcerpc.DCERPC_Transport.NCACN_IP_TCP


# Clients: each is connected and bound when it returns.


def waypost_client(address: str, port: int) -> Do:
    client = RpcClient(address, port, REMOTE_READ).bind()
    return lambda: client.ask(0, Empty()).port


def impacket_client(address: str, port: int) -> Do:
    class GetServerPort(NDRCALL):  # type: ignore[misc]
        opnum = 0
        structure = ()

    dce = DCERPC_v5(TCPTransport(address, port))
    dce.connect()
    dce.bind(IMPACKET_SYNTAX)

    def ask() -> int:
        dce.call(0, GetServerPort())
        return int.from_bytes(dce.recv(), "little")

    return ask


def scapy_client(address: str, port: int) -> Do:
    scapy = Scapy()
    client = scapy.rpcclient.DCERPC_Client(scapy.transport, ndr64=False, verb=False)
    client.connect(address, port=port)
    client.bind(scapy.dcerpc.find_dcerpc_interface("RemoteRead"))
    return lambda: client.sr1_req(scapy.mqrr.R_GetServerPort_Request(ndr64=False)).status


def receiver(address: str, port: int, queue: str) -> Do:
    reader = RemoteReader(address, port)
    context = reader.open(queue)
    return lambda: reader.receive(context)


def peeker(address: str, port: int, queue: str) -> Do:
    reader = RemoteReader(address, port)
    context = reader.open(queue)
    return lambda: reader.peek(context)


def repeat(make: Callable[..., Do], arguments: tuple[Any, ...], control: Connection) -> None:
    """The main function of a client process: makes calls on request, until it is killed; reports times and results."""
    do = make(*arguments)
    control.send(None)
    while True:
        times = control.recv()
        began = time.monotonic()
        for _ in range(times):
            result = do()
        control.send((began, time.monotonic(), result))


# Servers: each reports its port.


def serve_impacket(control: Connection) -> None:
    server = DCERPCServer()
    server.addCallbacks(bin_to_uuidtup(IMPACKET_SYNTAX), str(PORT), {0: lambda _: PORT.to_bytes(4, "little")})
    control.send(server.getListenPort())
    server.run()


def serve_scapy(control: Connection) -> None:
    scapy = Scapy()

    def get_server_port(_server: object, _request: object) -> Any:
        return scapy.mqrr.R_GetServerPort_Response(status=PORT, ndr64=False)

    answers = scapy.rpcserver.DCERPC_Server.answer(scapy.mqrr.R_GetServerPort_Request)
    server = type("Server", (scapy.rpcserver.DCERPC_Server,), {"get_server_port": answers(get_server_port)})
    with socket.create_server((ADDRESS, 0)) as listener:
        control.send(listener.getsockname()[1])
        while True:
            peer, _ = listener.accept()
            with peer, suppress(OSError):
                server(scapy.transport, ndr64=False, verb=False).loop(peer)


def serve_bare(stub: bytes, control: Connection) -> None:
    """`stub` is that of the answer to R_StartReceive, in NDR."""
    server = RpcServer(
        {"": [Service(REMOTE_READ, Canned(stub), lambda _: AuthLevel.NONE)]},
        lambda _: None, lambda: bytes(range(16)), RpcSettings(AuthLevel.NONE),
    )  # fmt: skip

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: BareConnection(server), ADDRESS, 0)
        control.send(listener.sockets[0].getsockname()[1])
        await listener.serve_forever()

    factory = None if sys.platform == "win32" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve())


class Canned:
    """Answers everything at once, and does nothing."""

    def __init__(self, stub: bytes) -> None:
        self._kind: HandleKind[None] = HandleKind("queue", lambda *_: None)
        self._message = ReceiveReply.read(NdrReader(stub, NdrSyntax.NDR20))

    def call(self, call: Call, _request: Any, _now: Now) -> None:
        match call.opnum:
            case 0:
                call.reply(GetServerPortReply(PORT))
            case 2:
                call.reply(OpenQueueReply(call.handles.new(self._kind, None) or NULL_HANDLE))
            case 7:
                call.reply(self._message)
            case _:
                call.reply(ResultReply())

    def cancelled(self, call: Call, now: Now) -> None:
        """Nothing waits here."""


class BareConnection(asyncio.Protocol):
    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._number = id(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connected(self._number, "", ADDRESS, self._now())

    def data_received(self, data: bytes) -> None:
        self._server.received(self._number, data, self._now())
        for _, output in self._server.take_output():
            assert output is not None
            self._transport.write(output)
            self._server.sent(self._number, len(output))

    def connection_lost(self, _: Exception | None) -> None:
        self._server.closed(self._number, self._now())

    def _now(self) -> Now:
        return Now(time.monotonic(), time.time())
