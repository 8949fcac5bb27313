"""A client of RemoteRead in the words of its methods."""

from typing import Any

from tests.remote.harness import ALICE, Answer, Client, Host
from waypost.core.message import Message
from waypost.core.serialization import message_from_packet
from waypost.remote.interfaces.remote_read import (
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    MoveMessageRequest,
    OpenQueueForMoveReply,
    OpenQueueForMoveRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    ReceiveAction,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.remote.remote_read.pending import RemoteQueue
from waypost.remote.remote_read.server import RemoteReadServer
from waypost.rpc.authentication import Caller
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections

RECEIVE, PEEK, MOVE = 0x01, 0x20, 0x04
DENY_NONE, DENY_SHARE = 0, 1
NACK, ACK = 1, 2
WHOLE = 0xFFFF_FFFF
INFINITE = 0xFFFF_FFFF
UOW = b"\x55" * 16
NO_UOW = bytes(16)
NO_HANDLE = ContextHandle()

TAKE = ReceiveAction.MQ_ACTION_RECEIVE
PEEK_CURRENT = ReceiveAction.MQ_ACTION_PEEK_CURRENT
PEEK_NEXT = ReceiveAction.MQ_ACTION_PEEK_NEXT


def queue_format(name: str) -> QueueFormat:
    return QueueFormat.from_format_name(FormatName.parse(name if "=" in name else f"DIRECT=OS:host\\private$\\{name}"))


def serve(host: Host) -> RemoteReadServer:
    return RemoteReadServer(host)


class Reader(Client):
    """A Client whose handles are of `orders` unless it is told otherwise. `last_id` is the last dwRequestId."""

    def __init__(
        self, server: RemoteReadServer, host: Host, caller: Caller = ALICE, syntax: NdrSyntax = NdrSyntax.NDR20
    ) -> None:
        super().__init__(host, server.service, caller, syntax)
        self.last_id = 0

    def find(self, handle: ContextHandle) -> RemoteQueue:
        """The object that the server keeps for a handle."""
        _, queue = self.association.handles(self.service.interface.uuid, self.caller.name)._open[handle]
        assert isinstance(queue, RemoteQueue)
        return queue

    def port(self) -> int:
        number: int = self.start_stub(0, b"").record.port
        return number

    def try_open(self, name: str = "orders", access: int = RECEIVE, share: int = DENY_NONE, **others: Any) -> Answer:
        return self.start(2, OpenQueueRequest(queue_format(name), access, share, **others))

    def open(self, name: str = "orders", access: int = RECEIVE, share: int = DENY_NONE) -> ContextHandle:
        answer = self.try_open(name, access, share)
        assert answer.raised is None, hex(answer.raised)
        handle: ContextHandle = answer.record.context
        return handle

    def try_open_for_move(self, name: str, share: int = DENY_NONE) -> Answer:
        return self.start(11, OpenQueueForMoveRequest(queue_format(name), MOVE, share))

    def open_for_move(self, name: str, share: int = DENY_NONE) -> OpenQueueForMoveReply:
        reply = self.try_open_for_move(name, share).record
        assert isinstance(reply, OpenQueueForMoveReply)
        return reply

    def close(self, handle: ContextHandle) -> Answer:
        return self.start(3, CloseQueueRequest(handle))

    def create_cursor(self, handle: ContextHandle) -> int:
        reply = self.ask(4, CreateCursorRequest(handle))
        assert reply.hresult == 0
        cursor: int = reply.cursor
        return cursor

    def close_cursor(self, handle: ContextHandle, cursor: int) -> int:
        return self.start(5, CloseCursorRequest(handle, cursor)).status

    def purge(self, handle: ContextHandle) -> int:
        return self.start(6, PurgeQueueRequest(handle)).status

    def read(
        self,
        handle: ContextHandle,
        action: int = TAKE,
        lookup_id: int = 0,
        cursor: int = 0,
        *,
        timeout: int = 0,
        request_id: int | None = None,
        limit: int = WHOLE,
        tx: bytes | None = None,
    ) -> Answer:
        """R_StartReceive, or R_StartTransactionalReceive if a transaction is named."""
        if request_id is None:
            request_id = self.last_id + 1
        self.last_id = request_id
        values = (handle, lookup_id, cursor, action, timeout, request_id, limit, limit)
        if tx is None:
            return self.start_receive(*values)
        return self.start(13, StartTransactionalReceiveRequest(*values, tx))

    def start_receive(self, *values: Any) -> Answer:
        """R_StartReceive with all its parameters."""
        return self.start(7, StartReceiveRequest(*values))

    def cancel(self, handle: ContextHandle, request_id: int) -> int:
        return self.start(8, CancelReceiveRequest(handle, request_id)).status

    def end(self, handle: ContextHandle, ack: int = ACK, request_id: int | None = None) -> int:
        return self.start(9, EndReceiveRequest(handle, ack, request_id or self.last_id)).status

    def end_tx(self, handle: ContextHandle, ack: int = ACK, request_id: int | None = None) -> int:
        return self.start(15, EndTransactionalReceiveRequest(handle, ack, request_id or self.last_id)).status

    def move(self, handle: ContextHandle, to: int, lookup_id: int, tx: bytes = NO_UOW) -> int:
        return self.start(10, MoveMessageRequest(handle, to, lookup_id, tx)).status

    def enlist(self, token: bytes, tx: bytes = UOW, name: str = "ledger") -> int:
        return self.start(12, QMEnlistRemoteTransactionRequest(tx, token, queue_format(name))).status

    def set_class(self, handle: ContextHandle, lookup_id: int, user_class: int) -> int:
        return self.start(14, SetUserAcknowledgementClassRequest(handle, lookup_id, user_class)).status


def packet_of(answer: Answer) -> RemotePacket:
    reply = answer.record
    assert isinstance(reply, ReceiveReply)
    assert reply.hresult == 0, hex(reply.hresult)
    return RemotePacket.decode(join_sections(reply.sections))


def message_of(answer: Answer) -> Message:
    return message_from_packet(packet_of(answer).message())


def label(answer: Answer) -> str:
    """The label of the message that an answer brought."""
    return message_of(answer).label
