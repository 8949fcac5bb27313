"""The server of qm2qm: MS-MQQP 3.1.4, opnums 0 to 10, and its context handles (3.1.6).

Parameters are checked in the order of the specification, and the first fault gives the code. A failed
RemoteQMPurgeQueue is an RPC fault with the HRESULT as its status, as of Windows Server 2003; every other method returns
it. A context handle that is not NULL and unknown never gets this far: it is a fault of the RPC runtime.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from waypost.clock import Now
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.context import RemoteHost
from waypost.remote.interfaces import qm2qm as table
from waypost.remote.interfaces.qm2qm import RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.remote_read import RemoteReadAck
from waypost.remote.qm2qm.access import check_ready, is_refused, server_port
from waypost.remote.qm2qm.reads import INVALID_HANDLE, INVALID_PARAMETER, Outcome, Reads
from waypost.remote.qm2qm.remote_queues import OpenQueueEntry, RemoteQueues
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, Parameters, ResultReply
from waypost.rpc.server_calls import Call, Service, any_level

# MS-MQQP 3.1.4.9, product notes: what Windows 7 reports, so that clients use RemoteQMStartReceive2.
VERSION: Final = table.GetVersionReply(6, 1, 6531)

RESERVED: Final = 1

GET_SERVER_PORT: Final = 7
DENIED: Final = HResult.MQ_ERROR_ACCESS_DENIED


# It answers with its result, or None if the answer comes later, or raises RpcFault.
Do: TypeAlias = Callable[[Call, Any, Now], Parameters | None]


class Qm2qmServer:
    """Handler of QM2QM. `queues` are those that the server of qmcomm has opened."""

    __slots__ = ("_host", "_methods", "_queues", "_reads", "_session")

    def __init__(self, host: RemoteHost, queues: RemoteQueues) -> None:
        self._host: Final = host
        self._queues: Final = queues
        self._reads: Final = Reads(host, queues)
        self._session: Final = HandleKind("PCTX_RRSESSION_HANDLE_TYPE", self._run_down, order=1)
        self._methods: Final[dict[int, Do]] = {
            0: self._start_receive,
            1: self._end_receive,
            2: self._open_queue,
            3: self._close_queue,
            4: self._close_cursor,
            5: self._cancel_receive,
            6: self._purge_queue,
            8: self._get_version,
            9: self._start_receive2,
            10: self._start_receive_by_lookup_id,
        }

    @property
    def service(self) -> Service:
        return Service(table.QM2QM, self, any_level)

    def call(self, call: Call, request: Any, now: Now) -> None:
        if call.opnum == GET_SERVER_PORT:
            reply: Parameters | None = self._get_server_port(request)
        else:
            check_ready(self._host)
            refused = is_refused(call.caller, self._host)
            reply = _refusal(request) if refused else self._methods[call.opnum](call, request, now)
        if reply is not None:
            call.reply(reply)

    def cancelled(self, call: Call, _now: Now) -> None:
        self._reads.abandon(call)

    def _start_receive(self, call: Call, request: table.StartReceiveRequest, now: Now) -> None:
        self._reads.start(call, request.remote_read_desc, partial(_answer, request), now)

    def _start_receive2(self, call: Call, request: table.StartReceive2Request, now: Now) -> None:
        self._reads.start(call, request.remote_read_desc2.remote_read_desc, partial(_answer2, request), now)

    def _start_receive_by_lookup_id(
        self, call: Call, request: table.StartReceiveByLookupIdRequest, _now: Now
    ) -> None:  # fmt: skip
        desc = request.remote_read_desc2.remote_read_desc
        self._reads.start_by_lookup_id(call, request.lookup_id, desc, partial(_answer2, request))

    def _end_receive(self, call: Call, request: table.EndReceiveRequest, _now: Now) -> table.EndReceiveReply:
        """MS-MQQP 3.1.4.2. The handle is gone, with any outcome for the message."""
        if request.context.is_null:
            return table.EndReceiveReply(hresult=INVALID_HANDLE)
        entry = call.handles.find(request.context, self._reads.kind)
        call.handles.close(request.context)
        if request.ack == RemoteReadAck.RR_ACK:
            return table.EndReceiveReply(hresult=self._reads.end(entry, delete_message=True))
        return table.EndReceiveReply(hresult=self._reads.fail(entry))

    def _open_queue(self, call: Call, request: table.OpenQueueRequest, now: Now) -> table.OpenQueueReply:
        """MS-MQQP 3.1.4.3. hQueue and dwMQS are not looked at. readings MQQP 3.17: a NULL pLicGuid is one of zeros.

        readings MQQP 3.19: a handle that names nothing, such as 0, is refused here already.
        """
        if request.p_queue != request.dwp_context or request.lic_guid == NULL_GUID:
            return table.OpenQueueReply(hresult=INVALID_PARAMETER)
        remote = self._queues.find_by_number(request.dwp_context, call, now)
        if remote is None:
            return table.OpenQueueReply(hresult=INVALID_PARAMETER)
        entry = OpenQueueEntry(remote, request.lic_guid, call.caller)
        context = call.handles.new(self._session, entry)
        self._queues.enter(entry)
        return table.OpenQueueReply(context)

    def _close_queue(self, call: Call, request: table.CloseQueueRequest, _now: Now) -> table.CloseQueueReply:
        if request.context.is_null:
            return table.CloseQueueReply(hresult=INVALID_HANDLE)
        entry = call.handles.find(request.context, self._session)
        call.handles.close(request.context)
        self._queues.close(entry)
        return table.CloseQueueReply()

    def _close_cursor(self, call: Call, request: table.CloseCursorRequest, _now: Now) -> ResultReply:
        remote = self._queues.find(request.queue, call)
        cursor = None if remote is None else remote.cursor(request.cursor)
        if remote is None or cursor is None:
            return ResultReply(INVALID_HANDLE)
        self._host.manager.close_cursor(remote.descriptor, cursor)
        return ResultReply()

    def _cancel_receive(self, call: Call, request: table.CancelReceiveRequest, _now: Now) -> ResultReply:
        if not request.p_queue or request.p_queue != request.queue:
            return ResultReply(INVALID_PARAMETER)
        return ResultReply(self._reads.cancel(call, request.queue, request.request_id))

    def _purge_queue(self, call: Call, request: table.PurgeQueueRequest, _now: Now) -> None:
        remote = self._queues.find_ready(request.queue, call)
        if remote is None:
            raise RpcFault(INVALID_HANDLE)
        if remote.descriptor.queue is None:
            raise RpcFault(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        # readings MQQP 3.20.
        if not remote.descriptor.access_type.can_receive:
            raise RpcFault(DENIED)
        self._host.purge(remote.descriptor, lambda: call.reply(ResultReply()))

    def _get_server_port(self, request: table.GetServerPortRequest) -> table.GetServerPortReply:
        return table.GetServerPortReply(server_port(self._host, request.port_type))

    def _get_version(self, _call: Call, _request: Empty, _now: Now) -> table.GetVersionReply:
        return VERSION

    def _run_down(self, entry: OpenQueueEntry, _now: Now) -> None:
        """MS-MQQP 3.1.6.1."""
        self._queues.close(entry)


def _filled(desc: RemoteReadDesc, outcome: Outcome) -> RemoteReadDesc:
    """The reply to the caller. The packet is the UserMessage as it is stored (readings MQQP 3.24)."""
    message = outcome.message
    if message is None:
        return replace(desc, reserved=RESERVED, buffer=None)
    return replace(desc, reserved=RESERVED, arrive_time=message.arrival_time, buffer=packet_of(message))


def _answer(request: table.StartReceiveRequest, outcome: Outcome) -> table.StartReceiveReply:
    return table.StartReceiveReply(outcome.context, _filled(request.remote_read_desc, outcome), outcome.status)


def _answer2(
    request: table.StartReceive2Request | table.StartReceiveByLookupIdRequest, outcome: Outcome
) -> table.StartReceive2Reply:
    """SequentialId is not a LookupId: the priority is cut off (readings MQQP 3.6)."""
    desc, message = request.remote_read_desc2.remote_read_desc, outcome.message
    filled = None if desc is None else _filled(desc, outcome)
    sequential_id = 0 if message is None else message.lookup_identifier & SEQUENCE_MASK
    return table.StartReceive2Reply(outcome.context, RemoteReadDesc2(filled, sequential_id), outcome.status)


def _refusal(request: Any) -> Parameters:
    """MS-MQQP 5. A handle in the request stays as it is. Purging faults, and RemoteQmGetVersion can do no other."""
    match request:
        case table.StartReceiveRequest():
            return _answer(request, Outcome(DENIED))
        case table.StartReceive2Request() | table.StartReceiveByLookupIdRequest():
            return _answer2(request, Outcome(DENIED))
        case table.EndReceiveRequest(context=context):
            return table.EndReceiveReply(context, DENIED)
        case table.CloseQueueRequest(context=context):
            return table.CloseQueueReply(context, DENIED)
        case table.OpenQueueRequest():
            return table.OpenQueueReply(hresult=DENIED)
        case table.CloseCursorRequest() | table.CancelReceiveRequest():
            return ResultReply(DENIED)
    raise RpcFault(DENIED)
