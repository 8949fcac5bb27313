"""Queue context handles and cursors: MS-MQRR 3.1.4.2 to 3.1.4.5, 3.1.4.11, 3.1.6.1 and 3.1.6.2.

Opening a queue needs the right for that access; from then on the handle decides. A subqueue is
made when it is opened, so its queue has to be there and to allow it (readings MQRR 3.29). Callers whose calls are not
protected as they have to be do not learn which queues there are.
"""

from typing import Final

from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import InvalidParameter, LimitReached, WaypostError
from waypost.hresult import HResult
from waypost.remote.access import ACCESSES, SHARES, check_access, find_guard
from waypost.remote.context import RemoteHost
from waypost.remote.interfaces.remote_read import (
    CloseCursorRequest,
    CloseQueueReply,
    CloseQueueRequest,
    CreateCursorReply,
    CreateCursorRequest,
    OpenQueueForMoveReply,
    OpenQueueForMoveRequest,
    OpenQueueReply,
    OpenQueueRequest,
)
from waypost.remote.remote_read.pending import PendingRequestTable, RemoteQueue
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.calls import FaultStatus
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import ResultReply
from waypost.rpc.server_calls import Call
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import remote_read_name

_MAX_MOVE_CONTEXT: Final = 0xFFFF_FFFF_FFFF_FFFF


class Opening:
    """The handles of all clients. `moves` are the queues that messages can be moved to, by their move context."""

    __slots__ = ("_host", "_kind", "_pending", "moves")

    def __init__(self, host: RemoteHost, pending: PendingRequestTable) -> None:
        self._host: Final = host
        self._pending: Final = pending
        self._kind: Final = HandleKind("RemoteRead queue", self._run_down)
        self.moves: dict[int, RemoteQueue] = {}

    def find(self, call: Call, handle: ContextHandle) -> RemoteQueue:
        """The object behind the handle of a call. A call with less protection than it demands ends with a fault."""
        queue = call.handles.find(handle, self._kind)
        if call.caller.level < queue.min_auth_level:
            raise RpcFault(FaultStatus.ACCESS_DENIED)
        return queue

    def open_queue(self, call: Call, request: OpenQueueRequest, now: Now) -> OpenQueueReply:
        """3.1.4.2. Every failure is a fault with the HRESULT."""
        try:
            name = remote_read_name(request.queue_format)
            access, share = ACCESSES.get(request.access), SHARES.get(request.share_mode)
            if access is None or share is None:
                raise InvalidParameter("dwAccess or dwShareMode is invalid in this protocol")
            queue = self._open(call, request, name, access, share=share, now=now)
        except WaypostError as error:
            raise _as_fault(error) from error
        return OpenQueueReply(self._new_handle(call, queue))

    def open_queue_for_move(self, call: Call, request: OpenQueueForMoveRequest, now: Now) -> OpenQueueForMoveReply:
        """3.1.4.11. The move context is a random number that only this client can use (readings MQRR 3.1)."""
        share = SHARES.get(request.share_mode, ShareMode.DENY_RECEIVE)
        try:
            name = remote_read_name(request.queue_format)
            queue = self._open(call, request, name, AccessType.MOVE, share=share, now=now)
        except WaypostError as error:
            raise _as_fault(error) from error
        handle = self._new_handle(call, queue)
        queue.move_context = self._new_move_context()
        self.moves[queue.move_context] = queue
        return OpenQueueForMoveReply(queue.move_context, handle)

    def close_queue(self, call: Call, request: CloseQueueRequest, _now: Now) -> CloseQueueReply:
        """3.1.4.3. It waits for nothing: the reads that wait end now (readings MQRR 3.31)."""
        queue = self.find(call, request.context)
        call.handles.close(request.context)
        self._close(queue)
        return CloseQueueReply(ContextHandle(), HResult.MQ_OK)

    def create_cursor(self, call: Call, request: CreateCursorRequest, _now: Now) -> CreateCursorReply:
        """3.1.4.4."""
        queue = self.find(call, request.context)
        try:
            cursor = self._host.cursors.open(queue.descriptor, call.caller)
        except LimitReached as error:
            return CreateCursorReply(0, error.hresult)
        if cursor is None:
            return CreateCursorReply(0, HResult.MQ_ERROR_INVALID_HANDLE)
        return CreateCursorReply(cursor.handle, HResult.MQ_OK)

    def close_cursor(self, call: Call, request: CloseCursorRequest, _now: Now) -> ResultReply:
        """3.1.4.5."""
        descriptor = self.find(call, request.context).descriptor
        if descriptor.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        cursor = descriptor.cursors.get(request.cursor)
        if cursor is None:
            return ResultReply(HResult.STATUS_INVALID_HANDLE)
        self._host.manager.close_cursor(descriptor, cursor)
        return ResultReply(HResult.MQ_OK)

    def _open(
        self,
        call: Call,
        request: OpenQueueRequest,
        name: FormatName,
        access: AccessType,
        *,
        share: ShareMode,
        now: Now,
    ) -> RemoteQueue:
        level = self._min_auth_level(name, request.workgroup)
        if call.caller.level < level:
            raise RpcFault(FaultStatus.ACCESS_DENIED)
        check_access(self._host, call.caller, name, access)
        descriptor = self._host.manager.open_queue(name, access, share, now)
        assert descriptor.queue is not None
        return RemoteQueue(descriptor, descriptor.queue, call.handles, level)

    def _min_auth_level(self, name: FormatName, is_workgroup: int) -> AuthLevel:
        """Product note 19. A queue that is not there is none that is open to everybody."""
        settings = self._host.settings
        if settings.allows_nonauthenticated_rpc and (is_workgroup or not settings.denies_workgroup_client):
            return AuthLevel.NONE
        guard = find_guard(self._host, name) if settings.allows_none_security_client else None
        if guard is not None:
            anonymous = Caller.anonymous("")
            if any(self._host.may(anonymous, guard, access) for access in ACCESSES.values()):
                return AuthLevel.NONE
        return settings.min_auth_level

    def _new_move_context(self) -> int:
        """A random number that is not 0."""
        while True:
            context = int.from_bytes(self._host.new_guid(), "little") % _MAX_MOVE_CONTEXT + 1
            if context not in self.moves:
                return context

    def _new_handle(self, call: Call, queue: RemoteQueue) -> ContextHandle:
        try:
            return call.handles.new(self._kind, queue)
        except RpcFault:
            self._host.manager.close_queue(queue.descriptor)
            raise

    def _close(self, queue: RemoteQueue) -> None:
        self._pending.release_all(queue)
        self.moves.pop(queue.move_context, None)
        self._host.manager.close_queue(queue.descriptor)

    def _run_down(self, queue: RemoteQueue, _now: Now) -> None:
        """3.1.6.1 and 3.1.6.2, which are the same event (readings MQRR 3.5)."""
        self._pending.note_lost_reader(queue)
        self._close(queue)


def _as_fault(error: WaypostError) -> RpcFault:
    return error if isinstance(error, RpcFault) else RpcFault(error.hresult)
