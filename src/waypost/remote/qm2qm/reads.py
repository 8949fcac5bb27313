"""Reads through qm2qm, from their start to their end: MS-MQQP 3.1.4.1, 3.1.4.2, 3.1.4.6, 3.1.4.10 and 3.1.4.11.

A read that finds nothing leaves its call open and is pending until the core ends it. A message that is received is
locked behind a context handle until EndReceive or rundown; if its answer cannot go out it is free at once. So a message
is never held for a call that failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import ReadRequest
from waypost.core.reading import MessageSeekAction, Read, Waiting
from waypost.hresult import HResult
from waypost.remote.context import INFINITE_TIMEOUT, RemoteHost
from waypost.remote.interfaces.qm2qm import RemoteReadDesc
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.lookups import FIRST, SEEKS, seek_of
from waypost.remote.qm2qm.remote_queues import CANCELED, OpenedQueue, RemoteQueues, RemoteReadEntry
from waypost.rpc.context_handles import HandleKind
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import NULL_HANDLE, Parameters
from waypost.rpc.server_calls import Call
from waypost.wire.ndr import ContextHandle

OK: Final = HResult.MQ_OK
INVALID_HANDLE: Final = HResult.MQ_ERROR_INVALID_HANDLE
INVALID_PARAMETER: Final = HResult.MQ_ERROR_INVALID_PARAMETER

_ACTIONS: Final = frozenset(
    {ReceiveAction.MQ_ACTION_RECEIVE, ReceiveAction.MQ_ACTION_PEEK_CURRENT, ReceiveAction.MQ_ACTION_PEEK_NEXT}
)
_RECEIVES: Final = frozenset(action for action in ReceiveAction if not action.is_peek)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a read, for its caller. The handle is NULL for all but a message that is to be acknowledged."""

    status: HResult
    message: Message | None = None
    context: ContextHandle = NULL_HANDLE


# Makes the reply of the method that was called.
Answer: TypeAlias = Callable[[Outcome], Parameters]


class Reads:
    """The reads of all callers. `kind` is that of PCTX_REMOTEREAD_HANDLE_TYPE."""

    __slots__ = ("_host", "_pending", "_queues", "kind")

    def __init__(self, host: RemoteHost, queues: RemoteQueues) -> None:
        self._host: Final = host
        self._queues: Final = queues
        self._pending: dict[Call, RemoteReadEntry] = {}
        # readings MQQP 3.25: before the queue closes, so that the descriptor is still there.
        self.kind: Final = HandleKind("PCTX_REMOTEREAD_HANDLE_TYPE", self._run_down, order=0)

    def start(self, call: Call, desc: RemoteReadDesc | None, answer: Answer, now: Now) -> None:
        """MS-MQQP 3.1.4.1 and 3.1.4.10."""
        if desc is None:
            call.reply(answer(Outcome(INVALID_HANDLE)))
            return
        # Bytes that a client sends in lpBuffer are dropped, not kept as long as the read waits.
        desc.buffer = None
        remote = self._queues.find(desc.remote_queue, call)
        status = _check(desc, remote)
        if status is not OK:
            call.reply(answer(Outcome(status)))
            return
        assert remote is not None
        entry = RemoteReadEntry(remote, desc.timeout, desc.action, desc.request_id)
        remote.reads[entry.request_id] = entry
        read = self._begin(entry, desc.cursor, now)
        ended = partial(self._ended, call, entry, answer)
        if isinstance(read, Waiting):
            self._pending[call] = entry
            self._host.await_read(read.wait_id, ended)
        else:
            ended(read, now)

    def start_by_lookup_id(self, call: Call, lookup_id: int, desc: RemoteReadDesc | None, answer: Answer) -> None:
        """MS-MQQP 3.1.4.11. It never waits, so nobody could cancel it and its entry is not among the pending ones."""
        if desc is None:
            # readings MQQP 3.17: as in RemoteQMStartReceive2.
            call.reply(answer(Outcome(INVALID_HANDLE)))
            return
        remote = self._queues.find_ready(desc.remote_queue, call)
        if remote is None or not _is_lookup(desc, lookup_id):
            call.reply(answer(Outcome(INVALID_PARAMETER)))
            return
        entry = RemoteReadEntry(remote, desc.timeout, desc.action, desc.request_id)
        # readings MQQP 3.2, MQQP 3.3: of the descriptor, and in two phases.
        request = ReadRequest(0, two_phase_read=True) if entry.action in _RECEIVES else None
        reading = self._host.manager.reading
        seek = seek_of(entry.action, lookup_id)
        read = reading.read_message_by_lookup_identifier(remote.descriptor, lookup_id, seek, request)
        self._answer(call, entry, answer, read)

    def end(self, entry: RemoteReadEntry, *, delete_message: bool) -> HResult:
        """MS-MQQP 3.1.4.2: Dequeue Message End."""
        reading = self._host.manager.reading
        return reading.dequeue_message_end(entry.remote.descriptor, entry.lookup_id, delete_message=delete_message)

    def fail(self, entry: RemoteReadEntry) -> HResult:
        """The message did not arrive, or its reader is lost: it is for others, and its reading has failed once more."""
        descriptor = entry.remote.descriptor
        if descriptor.queue is not None and entry.lookup_id in descriptor.two_phase_reads:
            self._host.manager.positions.attempt_failed(descriptor.queue, entry.lookup_id)
        return self.end(entry, delete_message=False)

    def cancel(self, call: Call, handle: int, request_id: int) -> HResult:
        """MS-MQQP 3.1.4.6, behind the checks of the parameters alone."""
        remote = self._queues.find(handle, call)
        if remote is None or not remote.reads:
            return INVALID_HANDLE
        entry = remote.reads.get(request_id)
        return HResult.MQ_ERROR if entry is None else self._queues.cancel(entry)

    def abandon(self, call: Call) -> None:
        """Nobody waits for the answer any more, so the read ends; a message that comes later is for others."""
        entry = self._pending.get(call)
        if entry is not None and entry.remote.reads.get(entry.request_id) is entry:
            self._queues.cancel(entry)

    def _begin(self, entry: RemoteReadEntry, cursor: int, now: Now) -> Read | Waiting:
        # readings MQQP 3.1: milliseconds all the way. readings MQQP 3.8: peeks are tagged as well.
        timeout_ms = None if entry.timeout == INFINITE_TIMEOUT else entry.timeout
        request = ReadRequest(timeout_ms, entry.remote.cursor(cursor), tag=entry.request_id)
        reading, descriptor = self._host.manager.reading, entry.remote.descriptor
        match entry.action:
            case ReceiveAction.MQ_ACTION_RECEIVE:
                return reading.dequeue_message_begin(descriptor, request, now)
            case ReceiveAction.MQ_ACTION_PEEK_CURRENT:
                return reading.peek_message(descriptor, request, now)
            case _:
                return reading.peek_next_message(descriptor, request, now)

    def _ended(self, call: Call, entry: RemoteReadEntry, answer: Answer, read: Read, _now: Now) -> None:
        self._pending.pop(call, None)
        # A read that was cancelled has left already, and another may go under its number.
        if entry.remote.reads.get(entry.request_id) is entry:
            del entry.remote.reads[entry.request_id]
        self._answer(call, entry, answer, read)

    def _answer(self, call: Call, entry: RemoteReadEntry, answer: Answer, read: Read) -> None:
        if read.message is None or entry.action not in _RECEIVES:
            call.reply(answer(Outcome(read.status, read.message)))
            return
        entry.lookup_id = read.message.lookup_identifier
        if entry.lookup_id not in entry.remote.descriptor.two_phase_reads:
            # The queue was closed between the end of the wait and now, and with it the read.
            call.reply(answer(Outcome(CANCELED)))
        elif not call.is_deliverable:
            self.end(entry, delete_message=False)
        else:
            self._hand_out(call, entry, answer, read.message)

    def _hand_out(self, call: Call, entry: RemoteReadEntry, answer: Answer, message: Message) -> None:
        try:
            context = call.handles.new(self.kind, entry)
        except RpcFault as fault:
            self.end(entry, delete_message=False)
            call.fault(fault.status)
            return
        self._host.statistics.messages_given_out += 1
        call.reply(answer(Outcome(OK, message, context)))

    def _run_down(self, entry: RemoteReadEntry, _now: Now) -> None:
        """MS-MQQP 3.1.6.2."""
        self.fail(entry)


def _check(desc: RemoteReadDesc, remote: OpenedQueue | None) -> HResult:
    """MS-MQQP 3.1.4.1, in this order. A queue of somebody else is None."""
    if not desc.queue or desc.queue != desc.remote_queue:
        return INVALID_PARAMETER
    if remote is not None and desc.request_id in remote.reads:
        return INVALID_PARAMETER
    if desc.action == ReceiveAction.MQ_ACTION_PEEK_NEXT and not desc.cursor:
        return HResult.STATUS_INVALID_PARAMETER
    if remote is None or not remote.entries:
        return INVALID_PARAMETER
    if desc.cursor and remote.cursor(desc.cursor) is None:
        return HResult.STATUS_INVALID_PARAMETER
    return OK if desc.action in _ACTIONS else INVALID_PARAMETER


def _is_lookup(desc: RemoteReadDesc, lookup_id: int) -> bool:
    """MS-MQQP 3.1.4.11: LookupId 0 means something for the two actions NEXT alone."""
    if desc.timeout or desc.cursor or desc.action not in SEEKS:
        return False
    return lookup_id != FIRST or SEEKS[desc.action] is MessageSeekAction.SEEK_NEXT
