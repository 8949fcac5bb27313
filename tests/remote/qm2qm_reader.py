"""A host that serves qm2qm and qmcomm, and a reader with a connection to each, as a supporting server has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.remote.harness import ALICE, Answer, Client, Host
from waypost.core.serialization import deserialize_message_from_buffer
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces import qm2qm, qmcomm
from waypost.remote.interfaces.qm2qm import RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.remote.qm2qm.qmcomm import QmcommServer
from waypost.remote.qm2qm.remote_queues import RemoteQueues
from waypost.remote.qm2qm.server import Qm2qmServer
from waypost.rpc.authentication import Caller
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat

RECEIVE = ReceiveAction.MQ_ACTION_RECEIVE
PEEK = ReceiveAction.MQ_ACTION_PEEK_CURRENT
PEEK_NEXT = ReceiveAction.MQ_ACTION_PEEK_NEXT
LOOKUP_PEEKS = (
    ReceiveAction.MQ_LOOKUP_PEEK_CURRENT,
    ReceiveAction.MQ_LOOKUP_PEEK_NEXT,
    ReceiveAction.MQ_LOOKUP_PEEK_PREV,
)
LOOKUP_RECEIVES = (
    ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_NEXT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_PREV,
)
ACK, NACK = RemoteReadAck.RR_ACK, RemoteReadAck.RR_NACK
RECEIVE_ACCESS, PEEK_ACCESS = 0x01, 0x20
FOREVER = 0xFFFF_FFFF
NULL = ContextHandle()
CLIENT_ID = b"\x0c" * 16
ORDERS = "DIRECT=OS:host\\private$\\orders"

OK = HResult.MQ_OK
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
STATUS_INVALID_PARAMETER = HResult.STATUS_INVALID_PARAMETER
TIMEOUT = HResult.MQ_ERROR_IO_TIMEOUT
CANCELED = HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT
DENIED = HResult.MQ_ERROR_ACCESS_DENIED

StartReceive, StartReceive2, ByLookupId = 0, 9, 10


class ReadHost(Host):
    """`queues` are what its two servers share."""

    _is_busy = False

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        super().__init__(settings)
        self.queues = RemoteQueues(self.manager, self.new_guid)
        self.qm2qm = Qm2qmServer(self, self.queues).service
        self.qmcomm = QmcommServer(self, self.queues).service

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Events in it are handed on at its end, as of several calls that came at once."""
        self._is_busy = True
        yield
        self._is_busy = False
        self.pump()

    def pump(self) -> None:
        if not self._is_busy:
            super().pump()


class Reader:
    """A caller with an association for each interface. Its reads get separate numbers."""

    def __init__(self, host: ReadHost, caller: Caller = ALICE, syntax: NdrSyntax = NdrSyntax.NDR20) -> None:
        self.host = host
        self.qmcomm = Client(host, host.qmcomm, caller, syntax)
        self.qm2qm = Client(host, host.qm2qm, caller, syntax)
        self.sessions: dict[int, ContextHandle] = {}
        self._request_ids = count(1)

    def open_remote(
        self, access: int = RECEIVE_ACCESS, share: int = 0, name: str = ORDERS
    ) -> qmcomm.OpenRemoteQueueReply:  # fmt: skip
        """R_QMOpenRemoteQueue."""
        queue_format = QueueFormat.from_format_name(FormatName.parse(name))
        request = qmcomm.OpenRemoteQueueRequest(queue_format, 0, access, share, CLIENT_ID, 0)
        reply: qmcomm.OpenRemoteQueueReply = self.qmcomm.ask(2, request)
        return reply

    def enter(self, handle: int, client_id: bytes = CLIENT_ID) -> qm2qm.OpenQueueReply:
        """RemoteQMOpenQueue."""
        reply: qm2qm.OpenQueueReply = self.qm2qm.ask(2, qm2qm.OpenQueueRequest(client_id, 0, handle, handle, handle))
        return reply

    def open(self, access: int = RECEIVE_ACCESS, share: int = 0, name: str = ORDERS) -> int:
        """The handle of a queue that is ready for reading."""
        handle = self.open_remote(access, share, name).queue
        self.sessions[handle] = self.enter(handle).context
        return handle

    def close(self, handle: int) -> qm2qm.CloseQueueReply:
        reply: qm2qm.CloseQueueReply = self.qm2qm.ask(3, qm2qm.CloseQueueRequest(self.sessions.pop(handle)))
        return reply

    def cursor(self, handle: int) -> int:
        """R_QMCreateRemoteCursor."""
        reply: qmcomm.CreateRemoteCursorReply = self.qmcomm.ask(4, qmcomm.CreateRemoteCursorRequest(handle))
        assert reply.hresult == OK
        return reply.cursor

    def desc(
        self,
        handle: int,
        action: int = RECEIVE,
        timeout: int = 0,
        *,
        cursor: int = 0,
        request_id: int | None = None,
    ) -> RemoteReadDesc:
        number = next(self._request_ids) if request_id is None else request_id
        return RemoteReadDesc(handle, cursor, action, timeout, handle, number)

    def start(self, desc: RemoteReadDesc, opnum: int = StartReceive) -> Answer:
        if opnum == StartReceive:
            return self.qm2qm.start(opnum, qm2qm.StartReceiveRequest(desc))
        return self.qm2qm.start(opnum, qm2qm.StartReceive2Request(RemoteReadDesc2(desc)))

    def read(
        self, handle: int, action: int = RECEIVE, timeout: int = 0, *, cursor: int = 0, opnum: int = StartReceive
    ) -> Answer:
        return self.start(self.desc(handle, action, timeout, cursor=cursor), opnum)

    def look_up(self, handle: int, action: int, lookup_id: int) -> Answer:
        request = qm2qm.StartReceiveByLookupIdRequest(lookup_id, RemoteReadDesc2(self.desc(handle, action)))
        return self.qm2qm.start(ByLookupId, request)

    def end(self, read: Answer, ack: int = ACK) -> qm2qm.EndReceiveReply:
        reply: qm2qm.EndReceiveReply = self.qm2qm.ask(1, qm2qm.EndReceiveRequest(read.record.context, ack))
        return reply

    def cancel(self, handle: int, request_id: int) -> int:
        return self.qm2qm.start(5, qm2qm.CancelReceiveRequest(handle, handle, request_id)).status

    def purge(self, handle: int) -> int:
        return self.qm2qm.start(6, qm2qm.PurgeQueueRequest(handle)).status

    def close_cursor(self, handle: int, cursor: int) -> int:
        return self.qm2qm.start(4, qm2qm.CloseCursorRequest(handle, cursor)).status


def desc_of(read: Answer) -> RemoteReadDesc:
    """The REMOTEREADDESC that came back."""
    record = read.record
    if isinstance(record, qm2qm.StartReceive2Reply):
        assert record.remote_read_desc2.remote_read_desc is not None
        return record.remote_read_desc2.remote_read_desc
    assert isinstance(record, qm2qm.StartReceiveReply)
    return record.remote_read_desc


def label(read: Answer) -> str:
    """That of the message that was read, which must have come with MQ_OK."""
    assert read.status == OK, hex(read.status)
    buffer = desc_of(read).buffer
    assert buffer is not None
    return deserialize_message_from_buffer(buffer).label


def has_failed(read: Answer, status: int) -> bool:
    """With this status, no message, a NULL handle, and what the server puts into Reserved."""
    desc = desc_of(read)
    return read.status == status and desc.buffer is None and desc.reserved == 1 and read.record.context == NULL
