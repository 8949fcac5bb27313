"""A node that serves remote readers, and readers that are connected to it without sockets."""

from dataclasses import replace
from typing import Any

from tests.node.rig import SETTINGS, Rig
from waypost.node.effects import Close, Write
from waypost.node.remote import RemoteReading, RemoteServing
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction, RemoteReadAck
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.client import ClientConnection
from waypost.rpc.interface import Parameters
from waypost.rpc.settings import RpcSettings
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat

SERVING = RemoteServing(
    RemoteSettings(min_auth_level=AuthLevel.NONE), RpcSettings(min_auth_level=AuthLevel.NONE), has_coordinator=True
)


class RemoteRig(Rig):
    """What is written on a connection goes to its reader at once."""

    def __init__(self, serving: RemoteServing = SERVING) -> None:
        self.readers: dict[int, Reader] = {}
        self.closed: list[int] = []
        super().__init__(settings=replace(SETTINGS, remote=serving))

    @property
    def remote(self) -> RemoteReading:
        assert self.node.remote is not None
        return self.node.remote

    def turn(self) -> None:
        effects = self.node.take_effects()
        self.node._effects = [effect for effect in effects if not isinstance(effect, Write | Close)]
        super().turn()
        for effect in effects:
            if isinstance(effect, Write):
                self.readers[effect.connection].connection.feed(effect.data)
            elif isinstance(effect, Close):
                self.closed.append(effect.connection)

    def reader(self, port: int = 2103) -> "Reader":
        number = self.remote.accept(port, "127.0.0.1", self.now)
        assert number is not None
        self.readers[number] = reader = Reader(self, number)
        reader.connection.start()
        reader.run()
        return reader


class Reader:
    """A client of RemoteRead on one connection."""

    def __init__(self, rig: RemoteRig, number: int) -> None:
        self.rig = rig
        self.number = number
        self.connection = ClientConnection((REMOTE_READ,))
        self.results: dict[int, Any] = {}

    def run(self) -> None:
        while output := self.connection.take_output():
            self.rig.remote.data_received(self.number, output, self.rig.now)
            self.rig.settle()
        self.results |= dict(self.connection.take_results())

    def start(self, opnum: int, request: Parameters) -> int:
        call = self.connection.call(REMOTE_READ, opnum, request)
        self.run()
        return call

    def ask(self, opnum: int, request: Parameters) -> Any:
        return self.results[self.start(opnum, request)]

    def open(self, name: str = "orders", access: int = 1, share: int = 0) -> ContextHandle:
        whole = name if "=" in name else f"DIRECT=OS:host\\private$\\{name}"
        queue = QueueFormat.from_format_name(FormatName.parse(whole))
        reply = self.ask(2, table.OpenQueueRequest(queue, access, share, bytes(16), 0, 6, 1, 7601, 1))
        if isinstance(reply, Exception):
            raise reply
        return reply.context  # type: ignore[no-any-return]

    def start_receive(
        self, handle: ContextHandle, request_id: int, action: int = ReceiveAction.MQ_ACTION_RECEIVE, timeout: int = 0
    ) -> int:
        return self.start(7, table.StartReceiveRequest(handle, 0, 0, action, timeout, request_id, 0xFFFF, 0xFFFF))

    def end_receive(self, handle: ContextHandle, request_id: int) -> int:
        return self.start(9, table.EndReceiveRequest(handle, RemoteReadAck.RR_ACK, request_id))

    def vanish(self) -> None:
        self.rig.remote.connection_lost(self.number, self.rig.now)
        self.rig.settle()
