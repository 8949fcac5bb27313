"""The reader's side of RemoteRead: MS-MQRR 3.2.

A client has the queues that it opened on one computer, the reads under way on them and the transactions in which the
computer is enlisted. A handle, a cursor or a read that is not among them is refused before anything is asked.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from waypost.core.queues import AccessType, ShareMode
from waypost.errors import DecodeError, InvalidHandle, TransactionUsage, WaypostError
from waypost.guid import NULL_GUID
from waypost.remote.client.conversations import (
    CALL_TIMEOUT_S,
    MAPPED,
    Ask,
    Binding,
    Conversation,
    answer,
    port_of,
    success,
)
from waypost.remote.client.reads import (
    ACCESS,
    SHARE,
    ClientIdentity,
    Opening,
    PendingReads,
    ReadRequest,
    Received,
    Transaction,
    duration,
)
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    CreateCursorRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    MoveMessageRequest,
    OpenQueueForMoveRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    QMEnlistRemoteTransactionRequest,
    RemoteReadAck,
    SetUserAcknowledgementClassRequest,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.rpc.interface import Empty, Parameters
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections
from waypost.wire.soap import COMPOUND_LAYOUT

NO_HANDLE: Final = ContextHandle()


class RemoteReadClient:
    """The open queues of one reader on one computer. `port` is that of RemoteRead there."""

    __slots__ = ("_enlisted", "_new_guid", "identity", "pending", "port", "queues")

    def __init__(self, identity: ClientIdentity, new_guid: Callable[[], bytes], port: int = MAPPED) -> None:
        self.identity: Final = identity
        self.port = port
        # 3.2.1: each has its context handle and its cursors.
        self.queues: Final[set[RemoteReadQueue]] = set()
        self.pending: Final = PendingReads()
        self._new_guid: Final = new_guid
        self._enlisted: Final[set[bytes]] = set()

    def bindings(self) -> frozenset[Binding]:
        """Those that have to stay."""
        return frozenset(Binding(REMOTE_READ.uuid, queue.port) for queue in self.queues)

    def find_port(self) -> Conversation[None]:
        """3.2.4.1, if it is wanted, before a queue is opened: the next calls go to the port that the server names."""
        self.port = yield from port_of(Ask(REMOTE_READ, 0, Empty(), self.port))

    def open(self, opening: Opening) -> "Conversation[RemoteReadQueue]":
        """3.2.4.1."""
        fields = self._open_fields(opening.name, opening.desired_access, opening.share_mode)
        ask = Ask(REMOTE_READ, 2, OpenQueueRequest(*fields), self.port, CALL_TIMEOUT_S)
        reply = yield from answer(ask)
        return self._opened(opening.name, reply.context, ask.port)

    def open_for_move(self, name: FormatName) -> "Conversation[MoveTarget]":
        """3.1.4.11: the queue to which messages are moved."""
        fields = self._open_fields(name, ACCESS[AccessType.MOVE], SHARE[ShareMode.DENY_NONE])
        ask = Ask(REMOTE_READ, 11, OpenQueueForMoveRequest(*fields), self.port, CALL_TIMEOUT_S)
        reply = yield from answer(ask)
        return MoveTarget(self._opened(name, reply.context, ask.port), reply.move_context)

    def internal_transaction(self) -> Transaction:
        """2.2.8: one of this client alone, under an identifier that nobody has used."""
        return Transaction(self._new_guid())

    def enlist(self, transaction: Transaction, name: FormatName) -> Conversation[None]:
        """3.2.4.2, 3.1.4.12: once, before the first call that names the transaction."""
        token = transaction.propagation_token
        if token is None or self.is_enlisted(transaction):
            return
        request = QMEnlistRemoteTransactionRequest(transaction.identifier, token, QueueFormat.from_format_name(name))
        yield from success(Ask(REMOTE_READ, 12, request, self.port, CALL_TIMEOUT_S))
        self._enlisted.add(transaction.identifier)

    def is_enlisted(self, transaction: Transaction) -> bool:
        return transaction.identifier in self._enlisted

    def transaction_ended(self, transaction: Transaction) -> None:
        """Its outcome is known: nothing more can be done in it."""
        self._enlisted.discard(transaction.identifier)

    def _open_fields(self, name: FormatName, access: int, share_mode: int) -> tuple[Any, ...]:
        """3.1.4.2: what R_OpenQueue takes, in its order."""
        identity = self.identity
        return (
            QueueFormat.from_format_name(name), access, share_mode, identity.queue_manager,
            int(not identity.is_routing_server), *identity.version, int(not identity.is_domain_member),
        )  # fmt: skip

    def _opened(self, name: FormatName, context: ContextHandle, port: int) -> "RemoteReadQueue":
        if context.is_null:
            raise DecodeError("MS-MQRR 3.1.4.2", "pphContext", 0, "the server opened the queue, but the handle is NULL")
        queue = RemoteReadQueue(self, name, context, port)
        self.queues.add(queue)
        return queue


class RemoteReadQueue:
    """A queue that is open over RemoteRead."""

    __slots__ = ("_client", "_context", "cursors", "name", "port")

    def __init__(self, client: RemoteReadClient, name: FormatName, context: ContextHandle, port: int) -> None:
        self.name: Final = name
        self.cursors: Final[set[int]] = set()
        self._client: Final = client
        self._context = context
        self.port: Final = port

    @property
    def is_open(self) -> bool:
        return not self._context.is_null

    @property
    def context(self) -> ContextHandle:
        """3.2.4: a handle that was closed is never used again."""
        if not self.is_open:
            raise InvalidHandle(f"{self.name} is closed")
        return self._context

    def read(self, request: ReadRequest) -> Conversation[Received]:
        """3.2.4.3 and 3.2.4.4; by cursor 3.2.4.9 and 3.2.4.10."""
        request.check()
        context = self.context
        if request.cursor:
            self._check_cursor(request.cursor)
        if request.transaction is not None:
            yield from self._client.enlist(request.transaction, self.name)
        with self._client.pending.entry(self, request):
            if request.action.is_peek:
                return _rebuilt((yield from self._start(context, request)))
            return (yield from self._receive(context, request))

    def cancel(self, request_id: int) -> Conversation[None]:
        """3.2.4.11. The read itself ends with the failure that the server then returns for it."""
        self._client.pending.find(self, request_id)
        yield from self._cancel(self.context, request_id)

    def purge(self) -> Conversation[None]:
        """3.2.4.7."""
        yield from self._success(6, PurgeQueueRequest(self.context))

    def create_cursor(self) -> Conversation[int]:
        """3.2.4.8."""
        reply = yield from success(self._ask(4, CreateCursorRequest(self.context)))
        cursor: int = reply.cursor
        self.cursors.add(cursor)
        return cursor

    def close_cursor(self, cursor: int) -> Conversation[None]:
        """3.2.4.12."""
        self._check_cursor(cursor)
        context = self.context
        for request_id in self._client.pending.of(self, cursor):
            with suppress(WaypostError):
                yield from self._cancel(context, request_id)
        self.cursors.discard(cursor)
        yield from self._success(5, CloseCursorRequest(context, cursor))

    def reject(self, received: Received) -> Conversation[None]:
        """3.2.4.5, 3.1.4.14: a message that was received in a transaction which goes on."""
        transaction = received.transaction
        if transaction is None or not self._client.is_enlisted(transaction):
            raise TransactionUsage("cannot reject the message: it was not received in an open transaction")
        rejected = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED
        request = SetUserAcknowledgementClassRequest(self.context, received.lookup_id, rejected)
        yield from self._success(14, request)

    def move(self, lookup_id: int, target: "MoveTarget", transaction: Transaction | None = None) -> Conversation[None]:
        """3.2.4.6; with a transaction if the target is transactional."""
        context = self.context
        if not target.queue.is_open:
            raise InvalidHandle(f"{target.queue.name} is closed")
        identifier = NULL_GUID
        if transaction is not None:
            yield from self._client.enlist(transaction, self.name)
            identifier = transaction.identifier
        yield from self._success(10, MoveMessageRequest(context, target.move_context, lookup_id, identifier))

    def close(self) -> Conversation[None]:
        """3.2.4.13. The queue is closed here whether or not the server agrees."""
        context = self.context
        self._context = NO_HANDLE
        try:
            for request_id in self._client.pending.of(self):
                with suppress(WaypostError):
                    yield from self._cancel(context, request_id)
            while self.cursors:
                with suppress(WaypostError):
                    yield from self._success(5, CloseCursorRequest(context, self.cursors.pop()))
            yield from self._success(3, CloseQueueRequest(context))
        finally:
            self._client.queues.discard(self)

    def _receive(self, context: ContextHandle, request: ReadRequest) -> Conversation[Received]:
        """3.2.4.4.1, 3.2.4.4.2, and the same by cursor."""
        try:
            received = _rebuilt((yield from self._start(context, request)))
        except DecodeError:
            # The message goes back to its queue; to say so is all that can be done for it.
            with suppress(WaypostError):
                yield from self._end(context, request, RemoteReadAck.RR_NACK)
            raise
        received.transaction = request.transaction
        try:
            yield from self._end(context, request, RemoteReadAck.RR_ACK)
        except WaypostError:
            # In a transaction the failure is the result. Else the message is there, and may come a second time, as with
            # all Windows clients (product notes 34 and 35): better than to lose it.
            if request.transaction is not None:
                raise
            received.is_ended = False
        return received

    def _start(self, context: ContextHandle, request: ReadRequest) -> Conversation[ReceiveReply]:
        fields = (
            context, request.lookup_id, request.cursor, request.action, request.timeout_ms, request.request_id,
            request.limits.max_body_size,
            # A CompoundMessageHeader without its first fields could not be read.
            max(request.limits.max_compound_message_size, COMPOUND_LAYOUT.size),
        )  # fmt: skip
        if request.transaction is None:
            return success(self._ask(7, StartReceiveRequest(*fields)))
        return success(self._ask(13, StartTransactionalReceiveRequest(*fields, request.transaction.identifier)))

    def _end(self, context: ContextHandle, request: ReadRequest, ack: RemoteReadAck) -> Conversation[None]:
        if request.transaction is None:
            yield from self._success(9, EndReceiveRequest(context, ack, request.request_id))
        else:
            yield from self._success(15, EndTransactionalReceiveRequest(context, ack, request.request_id))

    def _cancel(self, context: ContextHandle, request_id: int) -> Conversation[None]:
        yield from self._success(8, CancelReceiveRequest(context, request_id))

    def _check_cursor(self, cursor: int) -> None:
        if cursor not in self.cursors:
            raise InvalidHandle(f"{self.name} has no cursor {cursor}")

    def _ask(self, opnum: int, request: Parameters) -> Ask:
        return Ask(REMOTE_READ, opnum, request, self.port)

    def _success(self, opnum: int, request: Parameters) -> Conversation[None]:
        yield from success(self._ask(opnum, request))


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """A queue that is open to move messages there; `move_context` names it in R_MoveMessage (readings MQRR 3.1)."""

    queue: RemoteReadQueue
    move_context: int


def _rebuilt(reply: ReceiveReply) -> Received:
    """3.1.4.7: the message from its sections."""
    packet = RemotePacket.decode(join_sections(reply.sections))
    message = packet.message()
    message.base.time_to_reach_queue = duration(message.user.sent_time, message.base.time_to_reach_queue)
    left_out = sum(section.left_out for section in reply.sections)
    return Received(packet, message, reply.arrive_time, reply.sequence_id, left_out)
