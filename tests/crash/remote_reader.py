"""A remote reader that can stop between any two steps: RemoteRead of a daemon, over a socket that blocks."""

import socket
import struct
from itertools import count
from typing import Any, Final, Self

from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CloseQueueRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    OpenQueueRequest,
    ReceiveAction,
    RemoteReadAck,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.rpc.client import ClientConnection
from waypost.rpc.interface import Interface, Parameters
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections

RPC_PORT: Final = 2103
QM2QM_PORT: Final = 2105
SECONDS: Final = 60.0
INFINITE: Final = 0xFFFF_FFFF
MAX_BODY: Final = 0x0040_0000

_RECEIVE_ACCESS: Final = 1
_DENY_RECEIVE: Final = 1


class RpcClient:
    """One connection to a port of a daemon, bound to one interface. A call that ends with an error raises it."""

    def __init__(self, address: str, port: int, interface: Interface, assoc_group_id: int = 0) -> None:
        self.interface: Final = interface
        self.connection: Final = ClientConnection([interface], assoc_group_id=assoc_group_id)
        self.socket: Final = socket.create_connection((address, port), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._results: dict[int, Any] = {}
        self.connection.start()
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, opnum: int, request: Parameters) -> int:
        """The number of the call, whose request is sent once the connection is bound."""
        call_id = self.connection.call(self.interface, opnum, request)
        self.flush()
        return call_id

    def result(self, call_id: int) -> Any:
        """The reply, when it is there."""
        while call_id not in self._results:
            self._read()
        result = self._results.pop(call_id)
        if isinstance(result, Exception):
            raise result
        return result

    def ask(self, opnum: int, request: Parameters) -> Any:
        return self.result(self.begin(opnum, request))

    def bind(self) -> Self:
        """Until the server has accepted the connection."""
        while not self.connection.is_bound and not self.connection.is_closed:
            self._read()
        assert self.connection.is_bound
        return self

    def close(self) -> None:
        self.socket.close()

    def abort(self) -> None:
        """As the system does it for a process that is killed with data unread: with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def flush(self) -> None:
        output = self.connection.take_output()
        if output:
            self.socket.sendall(output)

    def _read(self) -> None:
        data = self.socket.recv(0x1_0000)
        if data:
            self.connection.feed(data)
        else:
            self.connection.closed()
        self._results.update(self.connection.take_results())
        self.flush()


class RemoteReader(RpcClient):
    """Both phases of receives, each as a separate call. Numbers of requests are given here."""

    def __init__(self, address: str, port: int = RPC_PORT, assoc_group_id: int = 0) -> None:
        super().__init__(address, port, REMOTE_READ, assoc_group_id)
        self._numbers: Final = count(1)

    def open(self, name: str, *, exclusive: bool = False) -> ContextHandle:
        """A queue by its format name. A failure is an RpcFault with the HRESULT."""
        form = QueueFormat.from_format_name(FormatName.parse(name))
        reply = self.ask(2, OpenQueueRequest(form, _RECEIVE_ACCESS, _DENY_RECEIVE if exclusive else 0))
        context: ContextHandle = reply.context
        return context

    def start(self, context: ContextHandle, timeout_ms: int = 0, transaction: bytes = b"") -> tuple[int, int]:
        """The first phase begins. Returns the number of the request and that of the call.

        With a `transaction`, which may be NULL_GUID for none, it is R_StartTransactionalReceive.
        """
        request_id = next(self._numbers)
        action = ReceiveAction.MQ_ACTION_RECEIVE
        fields = (context, 0, 0, action, timeout_ms, request_id, MAX_BODY, MAX_BODY)
        if transaction:
            return request_id, self.begin(13, StartTransactionalReceiveRequest(*fields, transaction))
        return request_id, self.begin(7, StartReceiveRequest(*fields))

    def take(self, context: ContextHandle, timeout_ms: int = 0) -> tuple[int, ReceiveReply]:
        """The first phase: the number of the request, and the message or why there is none."""
        request_id, call_id = self.start(context, timeout_ms)
        return request_id, self.result(call_id)

    def end(self, context: ContextHandle, request_id: int, ack: RemoteReadAck = RemoteReadAck.RR_ACK) -> int:
        """The second phase: the HRESULT."""
        hresult: int = self.ask(9, EndReceiveRequest(context, ack, request_id)).hresult
        return hresult

    def end_transactional(self, context: ContextHandle, request_id: int, ack: RemoteReadAck) -> int:
        hresult: int = self.ask(15, EndTransactionalReceiveRequest(context, ack, request_id)).hresult
        return hresult

    def receive(self, context: ContextHandle, timeout_ms: int = 0) -> bytes | None:
        """Both phases: the body, or None if no message comes in time."""
        request_id, reply = self.take(context, timeout_ms)
        if reply.hresult != HResult.MQ_OK:
            return None
        assert self.end(context, request_id) == HResult.MQ_OK
        return body_of(reply)

    def peek(self, context: ContextHandle) -> bytes:
        """The body of the first message, which has to be there."""
        action = ReceiveAction.MQ_ACTION_PEEK_CURRENT
        request = StartReceiveRequest(context, 0, 0, action, 0, next(self._numbers), MAX_BODY, MAX_BODY)
        return body_of(self.ask(7, request))

    def close_queue(self, context: ContextHandle) -> None:
        assert self.ask(3, CloseQueueRequest(context)).hresult == HResult.MQ_OK


def body_of(reply: ReceiveReply) -> bytes:
    assert reply.hresult == HResult.MQ_OK, hex(reply.hresult)
    return bytes(RemotePacket.decode(join_sections(reply.sections)).message().properties.message_body)
