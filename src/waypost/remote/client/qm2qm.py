"""The reader's side of qm2qm: MS-MQQP 3.2, with what it needs of qmcomm (MS-MQMP 3.2.4 and 4.2).

A queue is opened by name over qmcomm, which hands out three numbers, and then over qm2qm with these numbers. Reads
with one of them go to the port at which the queue was opened.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from waypost.errors import DecodeError, InvalidHandle, TransactionUsage, WaypostError
from waypost.remote.client.conversations import (
    CALL_TIMEOUT_S,
    Ask,
    Binding,
    Conversation,
    answer,
    port_of,
    success,
)
from waypost.remote.client.reads import ClientIdentity, Opening, PendingRead, PendingReads, ReadRequest, Received
from waypost.remote.interfaces import qmcomm
from waypost.remote.interfaces.qm2qm import (
    QM2QM,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    EndReceiveRequest,
    GetServerPortRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    RemoteReadDesc,
    RemoteReadDesc2,
    StartReceive2Reply,
    StartReceive2Request,
    StartReceiveByLookupIdRequest,
    StartReceiveReply,
    StartReceiveRequest,
)
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import RemoteReadAck
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, Parameters
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.remote_packet import RemotePacket

# MS-MQQP 3.1.4.8 dwPortType.
IP_HANDSHAKE: Final = 0
IP_READ: Final = 1

# MS-MQQP 3.2.4.2, readings MQQP 3.14: the first version whose server has RemoteQMStartReceive2.
FIRST_WITH_RECEIVE2: Final = (5, 1, 951)
# Windows NT and 2000 have no RemoteQmGetVersion.
BEFORE_VERSIONS: Final = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class RemoteHandle:
    """The numbers that R_QMOpenRemoteQueue returns: most servers give one number three times."""

    queue: int
    dwp_queue: int
    dw_context: int


@dataclass(frozen=True, slots=True)
class RemoteOpenQueueEntry:
    """MS-MQQP 3.2.1.3, with where its calls go: `port` for qm2qm and `qmcomm_port` for cursors."""

    handle: RemoteHandle
    rr_session_handle: ContextHandle
    port: int
    qmcomm_port: int


class Qm2QmClient:
    """The open queues of one reader on one computer."""

    __slots__ = ("_held", "identity", "pending", "queues")

    def __init__(self, identity: ClientIdentity) -> None:
        self.identity: Final = identity
        # MS-MQQP 3.2.1.2 and 3.2.1.4.
        self.pending: Final = PendingReads()
        self.queues: Final[set[Qm2QmQueue]] = set()
        self._held: Final[Counter[Binding]] = Counter()

    def bindings(self) -> frozenset[Binding]:
        """Those that have to stay."""
        return frozenset(+self._held) | {Binding(QM2QM.uuid, queue.entry.port) for queue in self.queues}

    def open(self, opening: Opening) -> "Conversation[Qm2QmQueue]":
        """3.2.4.1, after the queue was opened by its name (MS-MQMP 4.2)."""
        port = yield from port_of(Ask(QMCOMM, 31, qmcomm.GetServerPortRequest(IP_HANDSHAKE)))
        request = qmcomm.OpenRemoteQueueRequest(
            QueueFormat.from_format_name(opening.name), 0, opening.desired_access, opening.share_mode,
            self.identity.queue_manager, 0,
        )  # fmt: skip
        with self._holding(Binding(QMCOMM.uuid, port)):
            reply = yield from success(Ask(QMCOMM, 2, request, port, CALL_TIMEOUT_S))
            # Until RemoteQMOpenQueue the handle of qmcomm is all that keeps the queue open; then it is of no more use.
            closing = Ask(QMCOMM, 3, qmcomm.CloseRemoteQueueContextRequest(reply.context), port)
            handle = RemoteHandle(reply.queue, reply.dwp_queue, reply.dw_context)
            try:
                entry = yield from self._open(handle, port)
            except WaypostError:
                yield from _quietly(closing)
                raise
            queue = Qm2QmQueue(self, opening.name, entry)
            self.queues.add(queue)
            yield from _quietly(closing)
        return queue

    def _open(self, handle: RemoteHandle, qmcomm_port: int) -> Conversation[RemoteOpenQueueEntry]:
        port = yield from port_of(Ask(QM2QM, 7, GetServerPortRequest(IP_READ)))
        identity = self.identity
        mqs = int(identity.is_routing_server or identity.is_directory_server)
        request = OpenQueueRequest(identity.queue_manager, mqs, handle.queue, handle.dwp_queue, handle.dw_context)
        reply = yield from success(Ask(QM2QM, 2, request, port, CALL_TIMEOUT_S))
        if reply.context.is_null:
            raise DecodeError("MS-MQQP 3.1.4.3", "phContext", 0, "the server opened the queue, but the handle is NULL")
        return RemoteOpenQueueEntry(handle, reply.context, port, qmcomm_port)

    @contextmanager
    def _holding(self, binding: Binding) -> Iterator[None]:
        self._held[binding] += 1
        try:
            yield
        finally:
            self._held[binding] -= 1


class Qm2QmQueue:
    """A queue that is open over qm2qm. Bodies come whole, whatever the limits of a read, and never in a transaction."""

    __slots__ = ("_client", "_version", "cursors", "entry", "is_open", "name")

    def __init__(self, client: Qm2QmClient, name: FormatName, entry: RemoteOpenQueueEntry) -> None:
        self.name: Final = name
        self.entry: Final = entry
        self.cursors: Final[set[int]] = set()
        self.is_open = True
        self._client: Final = client
        self._version: tuple[int, int, int] | None = None

    def read(self, request: ReadRequest) -> Conversation[Received]:
        """3.2.4.2 and 3.2.4.3; by cursor 3.2.4.5 and 3.2.4.6; by lookup identifier 3.1.4.11."""
        self._check_open()
        request.check()
        if request.transaction is not None:
            raise TransactionUsage("qm2qm does not support transactions")
        if request.cursor:
            self._check_cursor(request.cursor)
        with self._client.pending.entry(self, request) as pending:
            return (yield from self._read(pending))

    def cancel(self, request_id: int) -> Conversation[None]:
        """3.2.4.7. The read itself ends with the failure that the server then returns for it."""
        self._check_open()
        self._client.pending.find(self, request_id)
        yield from self._cancel(request_id)

    def purge(self) -> Conversation[None]:
        """3.2.4.4."""
        self._check_open()
        yield from self._success(6, PurgeQueueRequest(self.entry.handle.queue))

    def create_cursor(self) -> Conversation[int]:
        """MS-MQMP 3.1.4.4."""
        self._check_open()
        request = qmcomm.CreateRemoteCursorRequest(self.entry.handle.queue)
        reply = yield from success(Ask(QMCOMM, 4, request, self.entry.qmcomm_port))
        cursor: int = reply.cursor
        self.cursors.add(cursor)
        return cursor

    def close_cursor(self, cursor: int) -> Conversation[None]:
        """3.2.4.8."""
        self._check_open()
        self._check_cursor(cursor)
        self.cursors.discard(cursor)
        yield from self._success(4, CloseCursorRequest(self.entry.handle.queue, cursor))

    def close(self) -> Conversation[None]:
        """3.2.4.9. The queue is closed here whether or not the server agrees."""
        self._check_open()
        self.is_open = False
        try:
            for request_id in self._client.pending.of(self):
                with suppress(WaypostError):
                    yield from self._cancel(request_id)
            yield from self._success(3, CloseQueueRequest(self.entry.rr_session_handle))
        finally:
            self._client.queues.discard(self)

    def _read(self, pending: PendingRead) -> Conversation[Received]:
        ask = yield from self._start(pending.request)
        reply = yield from success(ask)
        pending.remote_read_handle = reply.context
        if pending.request.action.is_peek:
            return _rebuilt(reply)
        try:
            received = _rebuilt(reply)
        except DecodeError:
            # The message goes back to its queue; to say so is all that can be done for it.
            with suppress(WaypostError):
                yield from self._end(pending, RemoteReadAck.RR_NACK)
            raise
        try:
            yield from self._end(pending, RemoteReadAck.RR_ACK)
        except WaypostError:
            # The message is there, and may come a second time: better than to lose it.
            received.is_ended = False
        return received

    def _start(self, request: ReadRequest) -> Conversation[Ask]:
        """3.2.4.2: which method begins the read, and its descriptor."""
        handle = self.entry.handle
        desc = RemoteReadDesc(
            handle.queue, request.cursor, request.action, request.timeout_ms, handle.dwp_queue, request.request_id
        )
        if request.action.is_lookup:
            return self._ask(10, StartReceiveByLookupIdRequest(request.lookup_id, RemoteReadDesc2(desc)))
        if self._version is None:
            self._version = yield from self._get_version()
        if self._version < FIRST_WITH_RECEIVE2:
            return self._ask(0, StartReceiveRequest(desc))
        return self._ask(9, StartReceive2Request(RemoteReadDesc2(desc)))

    def _get_version(self) -> Conversation[tuple[int, int, int]]:
        try:
            reply = yield from answer(self._ask(8, Empty()))
        except RpcFault as fault:
            if fault.status != FaultStatus.NCA_OP_RNG_ERROR:
                raise
            return BEFORE_VERSIONS
        return reply.major, reply.minor, reply.build_number

    def _end(self, pending: PendingRead, ack: RemoteReadAck) -> Conversation[None]:
        """3.1.4.2: with the handle that a successful receive has, and only with such a one."""
        if pending.remote_read_handle.is_null:
            raise InvalidHandle("the server returned a message without the handle that is required to end the read")
        yield from self._success(1, EndReceiveRequest(pending.remote_read_handle, ack))

    def _cancel(self, request_id: int) -> Conversation[None]:
        handle = self.entry.handle
        try:
            yield from self._success(5, CancelReceiveRequest(handle.queue, handle.dwp_queue, request_id))
        finally:
            self._client.pending.remove(request_id)

    def _check_open(self) -> None:
        if not self.is_open:
            raise InvalidHandle(f"{self.name} is closed")

    def _check_cursor(self, cursor: int) -> None:
        if cursor not in self.cursors:
            raise InvalidHandle(f"{self.name} has no cursor {cursor}")

    def _ask(self, opnum: int, request: Parameters) -> Ask:
        return Ask(QM2QM, opnum, request, self.entry.port)

    def _success(self, opnum: int, request: Parameters) -> Conversation[None]:
        yield from success(self._ask(opnum, request))


def _quietly(ask: Ask) -> Conversation[None]:
    with suppress(WaypostError):
        yield ask


def _rebuilt(reply: StartReceiveReply | StartReceive2Reply) -> Received:
    """3.2.4.2: the message from lpBuffer."""
    if isinstance(reply, StartReceiveReply):
        desc: RemoteReadDesc | None = reply.remote_read_desc
        sequential_id = 0
    else:
        desc = reply.remote_read_desc2.remote_read_desc
        sequential_id = reply.remote_read_desc2.sequential_id
    if desc is None or desc.buffer is None:
        raise DecodeError("MS-MQQP 2.2.2.1", "lpBuffer", 0, "the server returned a message, but the buffer is NULL")
    packet = RemotePacket.decode(desc.buffer)
    return Received(packet, packet.message(), desc.arrive_time, sequential_id)
