"""A node that serves remote readers, and readers and senders that are connected to it without sockets."""

from dataclasses import replace
from itertools import count
from typing import Any

from tests.node.rig import SETTINGS, Rig, direct
from waypost.core.message import Message
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.node.effects import Close, Write
from waypost.node.remote_reading import RemoteReading, RemoteServing
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction, RemoteReadAck
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.interface import Parameters
from waypost.rpc.settings import RpcSettings
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections
from waypost.wire.user_message import UserMessage

SERVING = RemoteServing(
    RemoteSettings(min_auth_level=AuthLevel.NONE), RpcSettings(min_auth_level=AuthLevel.NONE), has_coordinator=True
)


class RemoteRig(Rig):
    """Data that is written on a connection goes to its reader at once. Senders do not listen."""

    def __init__(self, serving: RemoteServing = SERVING) -> None:
        self.readers: dict[int, Reader] = {}
        self.closed: list[int] = []
        # Those of the messages of all senders.
        self.ordinals = count(1)
        super().__init__(settings=replace(SETTINGS, remote=serving, transfer=TransferSettings()))

    @property
    def remote(self) -> RemoteReading:
        assert self.node.remote is not None
        return self.node.remote

    def turn(self) -> None:
        effects = self.node.kernel.take_effects()
        self.node.kernel._effects = [effect for effect in effects if not isinstance(effect, Write | Close)]
        super().turn()
        for effect in effects:
            if isinstance(effect, Write) and effect.connection in self.readers:
                self.readers[effect.connection].connection.feed(effect.data)
            elif isinstance(effect, Close):
                self.closed.append(effect.connection)

    def reader(self, port: int = 2103, security: ClientSecurity | None = None) -> "Reader":
        number = self.remote.accept(port, "127.0.0.1", self.now)
        assert number is not None
        self.readers[number] = reader = Reader(self, number, security)
        reader.connection.start()
        reader.run()
        return reader


class Sender:
    """Another queue manager at this address, with a session on which it sends."""

    def __init__(self, rig: RemoteRig, address: str) -> None:
        assert rig.node.network is not None
        number = rig.node.network.accept(address, rig.now)
        assert number is not None
        self.guid = b"\x5e" * 16
        self._rig = rig
        self._number = number
        self._say(EstablishConnection.request(self.guid, NULL_GUID, 0, 0))
        self._say(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000, window_size=64))

    def send(self, *labels: str, **changes: Any) -> None:
        """Messages for `orders`, all together."""
        messages = [
            Message(
                label=label,
                identifier=MessageIdentifier(self.guid, next(self._rig.ordinals)),
                destination_queue_format_name=direct("orders"),
                sent_time=int(self._rig.now.wall),
            )
            for label in labels
        ]
        self._say(*[UserMessage.decode(packet_of(replace(message, **changes))) for message in messages])

    def _say(self, *packets: EstablishConnection | ConnectionParameters | UserMessage) -> None:
        assert self._rig.node.network is not None
        self._rig.node.network.data_received(
            self._number, b"".join(packet.encode() for packet in packets), self._rig.now
        )
        self._rig.settle()


class Reader:
    """A client of RemoteRead on one connection."""

    def __init__(self, rig: RemoteRig, number: int, security: ClientSecurity | None = None) -> None:
        self.rig = rig
        self.number = number
        self.connection = ClientConnection((REMOTE_READ,), security)
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

    def open_for_move(self, name: str = "orders") -> ContextHandle:
        queue = QueueFormat.from_format_name(direct(name))
        reply = self.ask(11, table.OpenQueueForMoveRequest(queue, 4, 0, bytes(16), 0, 6, 1, 7601, 1))
        assert isinstance(reply, table.OpenQueueForMoveReply), reply
        return reply.context

    def purge(self, handle: ContextHandle) -> int:
        """The result of a purge."""
        reply = self.ask(6, table.PurgeQueueRequest(handle))
        if isinstance(reply, Exception):
            raise reply
        return reply.hresult  # type: ignore[no-any-return]

    def start_receive(
        self, handle: ContextHandle, request_id: int, action: int = ReceiveAction.MQ_ACTION_RECEIVE, timeout: int = 0
    ) -> int:
        return self.start(7, table.StartReceiveRequest(handle, 0, 0, action, timeout, request_id, 0xFFFF, 0xFFFF))

    def peek(self, handle: ContextHandle, lookup_id: int = 0) -> RemotePacket:
        """The first message, or the one with this identifier, which has to be there."""
        action = ReceiveAction.MQ_LOOKUP_PEEK_CURRENT if lookup_id else ReceiveAction.MQ_ACTION_PEEK_CURRENT
        reply = self.ask(7, table.StartReceiveRequest(handle, lookup_id, 0, action, 0, 99, 0xFFFF, 0xFFFF))
        assert reply.hresult == HResult.MQ_OK, reply
        return RemotePacket.decode(join_sections(reply.sections))

    def end_receive(self, handle: ContextHandle, request_id: int) -> int:
        return self.start(9, table.EndReceiveRequest(handle, RemoteReadAck.RR_ACK, request_id))

    def vanish(self) -> None:
        self.rig.remote.connection_lost(self.number, self.rig.now)
        self.rig.settle()
