"""Reading messages and saying that they have arrived: MS-MQRR 3.1.4.7 to 3.1.4.9, 3.1.4.13 and 3.1.4.15.

A start call that finds nothing is held open until a message comes, its time is over, or somebody ends the wait: by
R_CancelReceive, by closing the cursor or the handle, or by giving up the call. Every wait, also that of a peek, is
known by its handle and dwRequestId (readings MQRR 3.9, MQRR 3.10).
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from waypost.clock import Now
from waypost.core.queues import ReadRequest
from waypost.core.reading import Read, Waiting
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.context import INFINITE_TIMEOUT, RemoteHost
from waypost.remote.interfaces.remote_read import (
    CancelReceiveRequest,
    EndReceiveRequest,
    EndTransactionalReceiveRequest,
    ReceiveAction,
    RemoteReadAck,
    StartReceiveRequest,
    StartTransactionalReceiveRequest,
)
from waypost.remote.lookups import seek_of
from waypost.remote.remote_read.packets import receive_reply
from waypost.remote.remote_read.pending import Ending, PendingRequestEntry, PendingRequestTable, RemoteQueue
from waypost.rpc.interface import ResultReply
from waypost.rpc.server_calls import Call
from waypost.wire.ndr import ContextHandle
from waypost.wire.receive_reply import BodyLimits, ReceiveReply

Find = Callable[[Call, ContextHandle], RemoteQueue]

_ACTIONS: Final = frozenset(ReceiveAction)


class Receiving:
    """The start and end calls of all clients. `find` gives the object behind a handle."""

    __slots__ = ("_find", "_host", "_pending", "_waiting")

    def __init__(self, host: RemoteHost, pending: PendingRequestTable, find: Find) -> None:
        self._host: Final = host
        self._pending: Final = pending
        self._find: Final = find
        self._waiting: dict[Call, tuple[RemoteQueue, int]] = {}

    def start_receive(self, call: Call, request: StartReceiveRequest, now: Now) -> ReceiveReply | None:
        """3.1.4.7. None if the call waits."""
        return self._start(call, request, now, transaction=None, ending=Ending.PLAIN)

    def start_transactional_receive(
        self, call: Call, request: StartTransactionalReceiveRequest, now: Now
    ) -> ReceiveReply | None:
        """3.1.4.13. Without a transaction it is R_StartReceive, and either method ends it."""
        if request.transaction_id == NULL_GUID:
            return self._start(call, request, now, transaction=None, ending=Ending.PLAIN | Ending.TRANSACTIONAL)
        return self._start(call, request, now, transaction=request.transaction_id, ending=Ending.TRANSACTIONAL)

    def cancel_receive(self, call: Call, request: CancelReceiveRequest, _now: Now) -> ResultReply:
        """3.1.4.8."""
        queue = self._find(call, request.context)
        if queue.descriptor.queue is None:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        return ResultReply(self._cancel(queue, request.request_id))

    def end_receive(self, call: Call, request: EndReceiveRequest, _now: Now) -> ResultReply:
        """3.1.4.9."""
        return self._end(call, request, Ending.PLAIN)

    def end_transactional_receive(self, call: Call, request: EndTransactionalReceiveRequest, _now: Now) -> ResultReply:
        """3.1.4.15. The outcome of a registered transaction decides over a message that has arrived; one that has not
        is taken out of it (readings MQRR 3.15, MQRR 3.16).
        """
        return self._end(call, request, Ending.TRANSACTIONAL)

    def cancelled(self, call: Call) -> None:
        """Nobody waits for this call any more."""
        if call in self._waiting:
            queue, request_id = self._waiting[call]
            if queue.waits.get(request_id) is call:
                self._cancel(queue, request_id)

    def _start(
        self, call: Call, request: StartReceiveRequest, now: Now, *, transaction: bytes | None, ending: Ending
    ) -> ReceiveReply | None:
        queue = self._find(call, request.context)
        if not _is_valid(request):
            return ReceiveReply(hresult=HResult.MQ_ERROR_INVALID_PARAMETER)
        action = ReceiveAction(request.action)
        status = self._check(queue, request, action, transaction)
        if status is not HResult.MQ_OK:
            return ReceiveReply(hresult=status)
        if transaction not in self._host.manager.transactions.collection:
            # readings MQRR 3.15: a transaction for this message alone, which its end commits or aborts.
            transaction = None
        entry = None
        if not action.is_peek:
            entry = PendingRequestEntry(request.request_id, queue, _time_stamp(now), transaction, ending)
            self._pending.add(entry)
        read = self._read(queue, request, action, transaction, now=now)
        limits = BodyLimits(request.max_body_size, request.max_compound_message_size)
        if isinstance(read, Waiting):
            queue.waits[request.request_id] = call
            self._waiting[call] = queue, request.request_id
            self._host.await_read(read.wait_id, partial(self._waited, call, entry, limits))
            return None
        return self._result(queue, entry, limits, read, now=now)

    def _check(
        self, queue: RemoteQueue, request: StartReceiveRequest, action: ReceiveAction, transaction: bytes | None
    ) -> HResult:
        """Conditions of a read, in the order of 3.1.4.7 and 3.1.4.13."""
        descriptor = queue.descriptor
        access = descriptor.access_type
        if descriptor.queue is None:
            return HResult.MQ_ERROR_INVALID_HANDLE
        # readings MQRR 3.13: the text asks for this and has no step for it.
        if not (access.can_peek if action.is_peek and transaction is None else access.can_receive):
            return HResult.STATUS_ACCESS_DENIED
        # readings MQRR 3.33.
        if queue.is_in_use(request.request_id):
            return HResult.MQ_ERROR_INVALID_PARAMETER
        # readings MQRR 3.32: only the cursors of this handle.
        if request.cursor and request.cursor not in descriptor.cursors:
            return HResult.STATUS_INVALID_HANDLE
        if transaction is not None and (action.is_peek or not descriptor.queue.attributes.transactional):
            return HResult.MQ_ERROR_TRANSACTION_USAGE
        if transaction is not None and not self._host.coordinator.admits(transaction):
            # Its acknowledgment would take the message out of the queue whatever becomes of the transaction.
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        return HResult.MQ_OK

    def _read(
        self,
        queue: RemoteQueue,
        request: StartReceiveRequest,
        action: ReceiveAction,
        transaction: bytes | None,
        *,
        now: Now,
    ) -> Read | Waiting:
        reading, descriptor = self._host.manager.reading, queue.descriptor
        cursor = descriptor.cursors[request.cursor] if request.cursor else None
        timeout_ms = None if request.timeout == INFINITE_TIMEOUT else request.timeout
        wanted = ReadRequest(timeout_ms, cursor, request.request_id, transaction)
        match action:
            case ReceiveAction.MQ_ACTION_RECEIVE:
                return reading.dequeue_message_begin(descriptor, wanted, now)
            case ReceiveAction.MQ_ACTION_PEEK_CURRENT:
                return reading.peek_message(descriptor, wanted, now)
            case ReceiveAction.MQ_ACTION_PEEK_NEXT:
                return reading.peek_next_message(descriptor, wanted, now)
        seek = seek_of(action, request.lookup_id)
        taken = None if action.is_peek else ReadRequest(0, transaction=transaction, two_phase_read=True)
        return reading.read_message_by_lookup_identifier(descriptor, request.lookup_id, seek, taken)

    def _waited(self, call: Call, entry: PendingRequestEntry | None, limits: BodyLimits, read: Read, now: Now) -> None:
        """The wait of a call has ended."""
        queue, request_id = self._waiting.pop(call)
        # A call that was cancelled has left already, and another may wait under its number.
        if queue.waits.get(request_id) is call:
            del queue.waits[request_id]
        message = read.message
        if entry is not None and message is not None:
            if queue.pending.get(request_id) is not entry:
                self._pending.give_back(entry, message.lookup_identifier)
                read = Read(HResult.MQ_ERROR_OPERATION_CANCELLED)
            elif not call.is_deliverable:
                self._pending.withdraw(entry, message.lookup_identifier)
                return
        call.reply(self._result(queue, entry, limits, read, now=now))

    def _result(
        self, queue: RemoteQueue, entry: PendingRequestEntry | None, limits: BodyLimits, read: Read, *, now: Now
    ) -> ReceiveReply:
        if read.message is None:
            if entry is not None:
                self._pending.remove(entry)
            return ReceiveReply(hresult=read.status)
        if entry is not None:
            self._pending.give_out(entry, read.message.lookup_identifier, now)
            self._host.statistics.messages_given_out += 1
        return receive_reply(self._host.manager, queue.queue, read.message, limits)

    def _cancel(self, queue: RemoteQueue, request_id: int) -> HResult:
        """End a wait. Its number is free at once, though its call is answered at the end of the operation."""
        status = self._host.manager.reading.cancel_waiting_message_read_request(
            queue.descriptor, request_id, HResult.MQ_ERROR_OPERATION_CANCELLED
        )
        if status is HResult.MQ_OK:
            del queue.waits[request_id]
            queue.pending.pop(request_id, None)
        return status

    def _end(self, call: Call, request: EndReceiveRequest, ending: Ending) -> ResultReply:
        pending = self._find(call, request.context).pending
        if not pending:
            return ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
        entry = pending.get(request.request_id)
        # A request that waits has nothing to end, and one that was begun otherwise is not ended by this method.
        if entry is None or not entry.lookup_identifier or not entry.ending & ending:
            return ResultReply(HResult.MQ_ERROR_INVALID_PARAMETER)
        if request.ack == RemoteReadAck.RR_ACK:
            return ResultReply(self._pending.end(entry, delete_message=True))
        return ResultReply(self._pending.fail(entry))


def _is_valid(request: StartReceiveRequest) -> bool:
    """3.1.4.7: which of LookupId, hCursor, ulAction and ulTimeout go together."""
    if request.action not in _ACTIONS:
        return False
    action = ReceiveAction(request.action)
    if action.is_lookup:
        return request.lookup_id != 0 and request.cursor == 0 and request.timeout == 0
    return request.lookup_id == 0 and (action is not ReceiveAction.MQ_ACTION_PEEK_NEXT or request.cursor != 0)


def _time_stamp(now: Now) -> int:
    """3.1.1.2: milliseconds in 32 bits."""
    return int(now.monotonic * 1000) & 0xFFFF_FFFF
