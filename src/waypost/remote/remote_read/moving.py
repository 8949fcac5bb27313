"""Operations on messages besides reading: MS-MQRR 3.1.4.6, 3.1.4.10 and 3.1.4.14."""

from typing import Final

from waypost.clock import Now
from waypost.core.transaction_records import OperationType
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.context import RemoteHost
from waypost.remote.interfaces.remote_read import (
    MoveMessageRequest,
    PurgeQueueRequest,
    SetUserAcknowledgementClassRequest,
)
from waypost.remote.remote_read.opening import Opening
from waypost.rpc.interface import ResultReply
from waypost.rpc.server_calls import Call
from waypost.wire.message_class import MessageClass

# usClass of 3.1.4.14: nothing is to be changed.
_NO_CLASS: Final = 0


class Moving:
    """Purging, moving and rejecting."""

    __slots__ = ("_host", "_opening")

    def __init__(self, host: RemoteHost, opening: Opening) -> None:
        self._host: Final = host
        self._opening: Final = opening

    def purge_queue(self, call: Call, request: PurgeQueueRequest, _now: Now) -> ResultReply | None:
        """3.1.4.6. A long purge is answered when it is over."""
        descriptor = self._opening.find(call, request.context).descriptor
        if descriptor.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        if not descriptor.access_type.can_receive:
            return ResultReply(HResult.STATUS_ACCESS_DENIED)
        self._host.purge(descriptor, lambda: call.reply(ResultReply(HResult.MQ_OK)))
        return None

    def move_message(self, call: Call, request: MoveMessageRequest, now: Now) -> ResultReply:
        """3.1.4.10. The handles are checked here, and the rest in the core, for every path alike."""
        manager = self._host.manager
        source = self._opening.find(call, request.context_from).descriptor
        if source.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        # readings MQRR 3.13: the text asks for this and has no step for it.
        if not source.access_type.can_receive:
            return ResultReply(HResult.STATUS_ACCESS_DENIED)
        target = self._opening.moves.get(request.context_to)
        if target is None or target.handles is not call.handles or target.descriptor.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        transaction = None if request.transaction_id == NULL_GUID else request.transaction_id
        status = manager.check_move(source, request.lookup_id, target.descriptor, transaction)
        if status is not HResult.MQ_OK:
            return ResultReply(status)
        if transaction is not None and not self._host.coordinator.admits(transaction):
            return ResultReply(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        status = manager.move_to_open_queue(source, request.lookup_id, target.descriptor, transaction, now=now)
        return ResultReply(status)

    def set_user_acknowledgement_class(
        self, call: Call, request: SetUserAcknowledgementClassRequest, _now: Now
    ) -> ResultReply:
        """3.1.4.14. A prepared transaction stays prepared, as promised."""
        descriptor = self._opening.find(call, request.context).descriptor
        if descriptor.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        if not descriptor.access_type.can_receive:
            return ResultReply(HResult.STATUS_ACCESS_DENIED)
        if request.lookup_id not in descriptor.queue.positions:
            return ResultReply(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        found = self._host.manager.transactions.operation_on(descriptor.queue, request.lookup_id)
        if found is None or found[0].is_prepared or found[1].operation_type is not OperationType.DEQUEUE:
            return ResultReply(HResult.MQ_ERROR_TRANSACTION_USAGE)
        if request.user_class != _NO_CLASS:
            found[1].dequeue_reason = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED
        return ResultReply(HResult.MQ_OK)
