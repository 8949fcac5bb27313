"""RemoteRead, opnums 0 to 15: MS-MQRR 3.1.4. A table of the methods, and the rules for all of them.

The server is the handler of REMOTE_READ. It asks for no authentication level before it knows the queue, because that is
what decides (product note 19): its Service says so with `min_level`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from waypost.clock import Now
from waypost.hresult import HResult
from waypost.remote.context import RemoteHost
from waypost.remote.interfaces.remote_read import (
    REMOTE_READ,
    GetServerPortReply,
    QMEnlistRemoteTransactionRequest,
)
from waypost.remote.remote_read.moving import Moving
from waypost.remote.remote_read.opening import Opening
from waypost.remote.remote_read.pending import PendingRequestTable
from waypost.remote.remote_read.receiving import Receiving
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, Parameters, ResultReply
from waypost.rpc.server_calls import Call, Service, any_level

# It answers with its result, or None if the answer comes later, or raises RpcFault.
_Do: TypeAlias = Callable[[Call, Any, Now], Parameters | None]


class RemoteReadServer:
    """The handler of all clients of one queue manager."""

    __slots__ = ("_host", "_methods", "_pending", "_receiving")

    def __init__(self, host: RemoteHost) -> None:
        self._host: Final = host
        self._pending: Final = PendingRequestTable(
            host.manager, host.settings.pending_request_timeout_s, host.manager.timers
        )
        opening = Opening(host, self._pending)
        receiving = self._receiving = Receiving(host, self._pending, opening.find)
        moving = Moving(host, opening)
        self._methods: Final[dict[int, _Do]] = {
            0: self._get_server_port,
            2: opening.open_queue,
            3: opening.close_queue,
            4: opening.create_cursor,
            5: opening.close_cursor,
            6: moving.purge_queue,
            7: receiving.start_receive,
            8: receiving.cancel_receive,
            9: receiving.end_receive,
            10: moving.move_message,
            11: opening.open_queue_for_move,
            12: self._enlist_remote_transaction,
            13: receiving.start_transactional_receive,
            14: moving.set_user_acknowledgement_class,
            15: receiving.end_transactional_receive,
        }

    @property
    def given_out(self) -> int:
        """Number of messages locked for clients that have not ended their reads."""
        return len(self._pending)

    @property
    def service(self) -> Service:
        return Service(REMOTE_READ, self, any_level)

    def call(self, call: Call, request: Any, now: Now) -> None:
        # 1.5: a queue manager that is not Ready serves nobody. R_GetServerPort says so in another way.
        if call.opnum and not self._host.manager.answers_rpc:
            raise RpcFault(HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        reply = self._methods[call.opnum](call, request, now)
        if reply is not None:
            call.reply(reply)

    def cancelled(self, call: Call, _now: Now) -> None:
        self._receiving.cancelled(call)

    def _get_server_port(self, _call: Call, _request: Empty, _now: Now) -> GetServerPortReply:
        """3.1.4.1. Zero is the only error there is."""
        return GetServerPortReply(self._host.remote_read_port if self._host.manager.answers_rpc else 0)

    def _enlist_remote_transaction(
        self, call: Call, request: QMEnlistRemoteTransactionRequest, now: Now
    ) -> ResultReply:
        """3.1.4.12. pQueueFormat is ignored."""
        settings = self._host.settings
        if call.caller.level < settings.min_auth_level and not settings.allows_nonauthenticated_rpc:
            raise RpcFault(FaultStatus.ACCESS_DENIED)
        return ResultReply(self._host.coordinator.enlist(request.transaction_id, request.propagation_token, now))
