"""The part of qmcomm that readers of qm2qm need: MS-MQMP 3.1.4.2, 3.1.4.3, 3.1.4.4, 3.1.4.24 and 3.1.7.2.

Opening a queue needs the right to it; from then on the handle carries the granted rights (MS-MQQP 5). A failed
R_QMOpenRemoteQueue returns its HRESULT.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from waypost.clock import Now
from waypost.core.cursors import Cursor
from waypost.core.queues import OpenQueueDescriptor
from waypost.errors import AccessDenied, InvalidHandle, InvalidParameter, QueueNotAvailable, WaypostError
from waypost.remote.access import ACCESSES, SHARES, check_access
from waypost.remote.context import RemoteHost
from waypost.remote.interfaces import qmcomm as table
from waypost.remote.qm2qm.access import check_ready, is_refused, server_port
from waypost.remote.qm2qm.remote_queues import OpenedQueue, RemoteQueues
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Parameters
from waypost.rpc.server_calls import Call, Service, any_level
from waypost.wire.queue_format import remote_read_name

GET_SERVER_PORT: Final = 31

Do: TypeAlias = Callable[[Call, Any, Now], Parameters]


class QmcommServer:
    """Handler of QMCOMM. Open queues are in `queues`, for the server of qm2qm."""

    __slots__ = ("_host", "_kind", "_methods", "_queues")

    def __init__(self, host: RemoteHost, queues: RemoteQueues) -> None:
        self._host: Final = host
        self._queues: Final = queues
        self._kind: Final = HandleKind("PCTX_OPENREMOTE_HANDLE_TYPE", self._run_down)
        self._methods: Final[dict[int, Do]] = {
            2: self._open_remote_queue,
            3: self._close_remote_queue_context,
            4: self._create_remote_cursor,
            GET_SERVER_PORT: self._get_server_port,
        }

    @property
    def service(self) -> Service:
        return Service(table.QMCOMM, self, any_level)

    def call(self, call: Call, request: Any, now: Now) -> None:
        if call.opnum != GET_SERVER_PORT:
            check_ready(self._host)
        call.reply(self._methods[call.opnum](call, request, now))

    def cancelled(self, call: Call, now: Now) -> None:
        """No method waits."""

    def _open_remote_queue(
        self, call: Call, request: table.OpenRemoteQueueRequest, now: Now
    ) -> table.OpenRemoteQueueReply:
        """MS-MQMP 3.1.4.2. The three numbers are one (readings MQQP 1)."""
        try:
            descriptor = self._open(call, request, now)
        except WaypostError as error:
            return table.OpenRemoteQueueReply(hresult=error.hresult)
        remote = self._queues.add(descriptor, call)
        try:
            context = call.handles.new(self._kind, remote)
        except RpcFault:
            self._queues.close_unread(remote)
            raise
        return table.OpenRemoteQueueReply(context, remote.number, remote.number, remote.number)

    def _open(self, call: Call, request: table.OpenRemoteQueueRequest, now: Now) -> OpenQueueDescriptor:
        self._check(call)
        name = remote_read_name(request.queue_format)
        access, share = ACCESSES.get(request.desired_access), SHARES.get(request.share_mode)
        if access is None or share is None:
            raise InvalidParameter("dwDesiredAccess or dwShareMode is invalid")
        check_access(self._host, call.caller, name, access)
        return self._host.manager.open_queue(name, access, share, now)

    def _close_remote_queue_context(
        self, call: Call, request: table.CloseRemoteQueueContextRequest, _now: Now
    ) -> table.CloseRemoteQueueContextReply:
        if not request.context.is_null:
            remote = call.handles.find(request.context, self._kind)
            call.handles.close(request.context)
            self._queues.close_unread(remote)
        return table.CloseRemoteQueueContextReply()

    def _create_remote_cursor(
        self, call: Call, request: table.CreateRemoteCursorRequest, _now: Now
    ) -> table.CreateRemoteCursorReply:
        try:
            return table.CreateRemoteCursorReply(self._cursor(call, request.queue).handle)
        except WaypostError as error:
            return table.CreateRemoteCursorReply(hresult=error.hresult)

    def _cursor(self, call: Call, handle: int) -> Cursor:
        self._check(call)
        remote = self._queues.find(handle, call)
        if remote is None:
            raise InvalidHandle(f"{handle} is not a queue that this caller has opened")
        cursor = self._host.cursors.open(remote.descriptor, call.caller)
        if cursor is None:
            raise QueueNotAvailable(f"{remote.descriptor.format_name} was deleted")
        return cursor

    def _get_server_port(self, _call: Call, request: table.GetServerPortRequest, _now: Now) -> table.GetServerPortReply:
        """MS-MQMP 5.1: for everybody."""
        return table.GetServerPortReply(server_port(self._host, request.ip))

    def _check(self, call: Call) -> None:
        if is_refused(call.caller, self._host):
            raise AccessDenied("the host requires authentication, or a higher authentication level")

    def _run_down(self, remote: OpenedQueue, _now: Now) -> None:
        self._queues.close_unread(remote)
