"""RemoteRead in the model: MS-MQRR 3.1, as far as honest readers can observe."""

from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, Final

from waypost.clock import Now
from waypost.core.reading import MessageSeekAction
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.sim.model.disk import StepKind
from waypost.sim.model.readers import showing
from waypost.sim.model.records import Answer, ModelHandle, ModelMessage, ModelQueue, Refused, State, Wait
from waypost.sim.model.remote import Do, Faulted, Parts, RemoteCall, close, known, make
from waypost.sim.model.state import PURGED
from waypost.sim.model.transactions import Step
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass

LAST: Final = 0xFFFF_FFFF_FFFF_FFFF
SEEKS: Final = {
    ReceiveAction.MQ_LOOKUP_PEEK_CURRENT: MessageSeekAction.SEEK_CURRENT,
    ReceiveAction.MQ_LOOKUP_PEEK_NEXT: MessageSeekAction.SEEK_NEXT,
    ReceiveAction.MQ_LOOKUP_PEEK_PREV: MessageSeekAction.SEEK_PREVIOUS,
    ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT: MessageSeekAction.SEEK_CURRENT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_NEXT: MessageSeekAction.SEEK_NEXT,
    ReceiveAction.MQ_LOOKUP_RECEIVE_PREV: MessageSeekAction.SEEK_PREVIOUS,
}


class Ending(Flag):
    PLAIN = auto()
    TRANSACTIONAL = auto()


@dataclass(slots=True, eq=False)
class Entry:
    """A receive that has begun. `message` is set when it was given out, until `deadline`."""

    request_id: int
    queue: "ReaderQueue"
    transaction: bytes | None
    ending: Ending
    message: ModelMessage | None = None
    deadline: float | None = None


@dataclass(slots=True, eq=False)
class ReaderQueue:
    """A queue that a reader has open, and the receives that it has not ended."""

    server: "ModelRemoteRead"
    handle: ModelHandle
    entries: dict[int, Entry] = field(default_factory=dict)
    move_context: int = 0
    order: int = 0

    def run_down(self) -> None:
        self.server.run_down(self)

    def queue(self) -> ModelQueue:
        if self.handle.queue is None:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        return self.handle.queue


class ModelRemoteRead:
    def __init__(self, parts: Parts, pending_timeout: float) -> None:
        self._parts: Final = parts
        self._pending_timeout: Final = pending_timeout
        self._waiting: Final[dict[RemoteCall, tuple[ReaderQueue, Wait]]] = {}
        # In the order in which the messages were given out, which is that of their deadlines.
        self._timed: Final[dict[Entry, None]] = {}
        self._moves: Final[dict[int, ReaderQueue]] = {}
        self._methods: Final[dict[int, Do]] = {
            2: self._open,
            3: self._close_queue,
            4: self._create_cursor,
            5: self._close_cursor,
            6: self._purge,
            7: self._start,
            8: self._cancel,
            9: self._end_plain,
            10: self._move,
            11: self._open,
            12: self._enlist,
            13: self._start,
            14: self._reject,
            15: self._end_transactional,
        }

    def call(self, call: RemoteCall) -> None:
        try:
            answer = self._methods[call.opnum](call, call.record)
        except Refused as refused:
            answer = Answer(refused.status)
        if answer is not None:
            self._parts.reply(call, answer)

    def cancelled(self, call: RemoteCall) -> None:
        if call in self._waiting:
            queue, wait = self._waiting[call]
            if wait.request in self._parts.readers.waits:
                self._cancel_wait(queue, wait)

    def tick(self, now: Now) -> None:
        for entry in list(self._timed):
            assert entry.deadline is not None
            if entry.deadline <= now.monotonic:
                self._parts.marks.sometimes("a message that a remote reader did not confirm in time")
                self._fail_entry(entry)

    @property
    def next_deadline(self) -> float | None:
        return next((entry.deadline for entry in self._timed), None)

    def run_down(self, queue: ReaderQueue) -> None:
        """Count a failed read: whether the reader got the message is unknown."""
        for entry in queue.entries.values():
            if entry.message is not None and self._holds(entry):
                self._parts.marks.sometimes("an unconfirmed message whose remote reader disconnects")
                self._parts.state.attempt_failed(entry.message)
        self._close(queue)

    def _find(self, call: RemoteCall, record: Any) -> ReaderQueue:
        return known(call, record.context, ReaderQueue)

    def _open(self, call: RemoteCall, record: Any) -> Answer:
        """Every failure is a fault."""
        try:
            handle = self._parts.open(call.request, record.queue_format, record.access, record.share_mode)
        except Refused as refused:
            raise Faulted(refused.status) from refused
        queue = ReaderQueue(self, handle)
        learn = make(call, queue)

        def learn_both(reply: Any) -> None:
            learn(reply)
            queue.move_context = reply.move_context
            self._moves[queue.move_context] = queue

        return Answer(learn=learn if call.opnum == 2 else learn_both)

    def _close_queue(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._find(call, record)
        close(call, record.context)
        self._close(queue)
        return Answer()

    def _close(self, queue: ReaderQueue) -> None:
        for entry in list(queue.entries.values()):
            if entry.message is None:
                del queue.entries[entry.request_id]
            else:
                self._end_entry(entry, delete_message=False)
        self._moves.pop(queue.move_context, None)
        self._parts.readers.close(queue.handle)

    def _create_cursor(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._find(call, record)
        queue.queue()
        return Answer(learn=self._parts.readers.new_pointer(queue.handle))

    def _close_cursor(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._find(call, record)
        queue.queue()
        if record.cursor not in queue.handle.pointers:
            raise Refused(HResult.STATUS_INVALID_HANDLE)
        self._parts.readers.close_pointer(queue.handle, record.cursor)
        return Answer()

    def _purge(self, call: RemoteCall, record: Any) -> None:
        queue = self._find(call, record)
        due_queue = queue.queue()
        if not queue.handle.access.can_receive:
            raise Refused(HResult.STATUS_ACCESS_DENIED)
        self._parts.state.purge(due_queue, PURGED, lambda: self._parts.reply(call, Answer()))

    def _start(self, call: RemoteCall, record: Any) -> Answer | None:
        queue = self._find(call, record)
        action, named = ReceiveAction(record.action), getattr(record, "transaction_id", NULL_GUID)
        self._check(queue, record, action, named)
        ending = Ending.PLAIN
        if call.opnum == 13:
            ending = Ending.TRANSACTIONAL if named != NULL_GUID else ~Ending(0)
        if named in self._parts.enlistments.given_up and named not in self._parts.transactions.transactions:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        # An unknown transaction is for this message alone.
        transaction = named if named in self._parts.transactions.transactions else None
        entry = None
        if not action.is_peek:
            entry = queue.entries[record.request_id] = Entry(record.request_id, queue, transaction, ending)
        wait = Wait(call.request, queue.handle, takes=entry is not None, two_phase=True, transaction=transaction)
        wait.tag, wait.pointer = record.request_id, queue.handle.pointers.get(record.cursor)
        wait.then = lambda answer: self._waited(call, queue, entry, answer)
        try:
            message = self._read(wait, record, action)
        except Refused:
            if entry is not None:
                del queue.entries[entry.request_id]
            raise
        if message is None:
            self._waiting[call] = queue, wait
            return None
        return self._given(entry, showing([message]))

    def _check(self, queue: ReaderQueue, record: Any, action: ReceiveAction, transaction: bytes) -> None:
        if action.is_lookup and not record.lookup_id:
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        due_queue, access = queue.queue(), queue.handle.access
        if not (access.can_peek if action.is_peek and transaction == NULL_GUID else access.can_receive):
            raise Refused(HResult.STATUS_ACCESS_DENIED)
        if record.cursor and record.cursor not in queue.handle.pointers:
            raise Refused(HResult.STATUS_INVALID_HANDLE)
        if transaction != NULL_GUID and (action.is_peek or not due_queue.plan.transactional):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)

    def _read(self, wait: Wait, record: Any, action: ReceiveAction) -> ModelMessage | None:
        readers, now = self._parts.readers, self._parts.state.now
        if action.is_lookup:
            seek = SEEKS[action]
            if seek is MessageSeekAction.SEEK_PREVIOUS and record.lookup_id == LAST:
                seek = MessageSeekAction.SEEK_LAST
            return readers.find(wait, (record.lookup_id, seek))
        timeout_ms = None if record.timeout == INFINITE else record.timeout
        return readers.begin(wait, timeout_ms, now, goes_on=action is ReceiveAction.MQ_ACTION_PEEK_NEXT)

    def _waited(self, call: RemoteCall, queue: ReaderQueue, entry: Entry | None, answer: Answer) -> None:
        """Handle a message that comes for a handle that may have been closed at the same moment."""
        del self._waiting[call]
        if entry is not None and answer.messages and queue.entries.get(entry.request_id) is not entry:
            self._parts.marks.sometimes("a message that arrives as its remote reader closes the queue")
            entry.message = answer.messages[0]
            if entry.transaction is not None and self._holds(entry):
                self._parts.transactions.take_back(entry.transaction, entry.message)
            answer = Answer(HResult.MQ_ERROR_OPERATION_CANCELLED)
        elif entry is not None and answer.messages and not call.is_deliverable:
            entry.message = answer.messages[0]
            self._end_entry(entry, delete_message=False)
        elif answer.messages:
            answer = self._given(entry, answer)
        elif entry is not None and queue.entries.get(entry.request_id) is entry:
            del queue.entries[entry.request_id]
        self._parts.reply(call, answer)

    def _given(self, entry: Entry | None, answer: Answer) -> Answer:
        if entry is not None:
            entry.message = answer.messages[0]
            entry.deadline = self._parts.state.now.monotonic + self._pending_timeout
            self._timed[entry] = None
        return answer

    def _cancel(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._find(call, record)
        queue.queue()
        for wait in queue.handle.waits.values():
            if wait.tag == record.request_id:
                self._parts.marks.sometimes("a RemoteRead receive that is cancelled")
                self._cancel_wait(queue, wait)
                return Answer()
        return Answer(HResult.STATUS_NOT_FOUND)

    def _cancel_wait(self, queue: ReaderQueue, wait: Wait) -> None:
        queue.entries.pop(wait.tag, None)
        self._parts.readers.end(wait, HResult.MQ_ERROR_OPERATION_CANCELLED)

    def _end_plain(self, call: RemoteCall, record: Any) -> Answer:
        return self._end(call, record, Ending.PLAIN)

    def _end_transactional(self, call: RemoteCall, record: Any) -> Answer:
        return self._end(call, record, Ending.TRANSACTIONAL)

    def _end(self, call: RemoteCall, record: Any, ending: Ending) -> Answer:
        entries = self._find(call, record).entries
        if not entries:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        entry = entries.get(record.request_id)
        if entry is None or entry.message is None or not entry.ending & ending:
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        delete_message = record.ack == RemoteReadAck.RR_ACK
        status = self._end_entry(entry, delete_message=True) if delete_message else self._fail_entry(entry)
        if status is HResult.MQ_OK:
            kind = "confirms with an ACK" if delete_message else "returns with a NACK"
            self._parts.marks.sometimes(f"a message that a remote reader {kind}")
        return Answer(status)

    def _fail_entry(self, entry: Entry) -> HResult:
        """Count another failed read, unless a prepared transaction keeps the message."""
        is_open = entry.transaction is None or self._parts.transactions.is_open(entry.transaction)
        if entry.queue.handle.queue is not None and is_open and self._holds(entry):
            assert entry.message is not None
            self._parts.state.attempt_failed(entry.message)
        return self._end_entry(entry, delete_message=False)

    def _end_entry(self, entry: Entry, *, delete_message: bool) -> HResult:
        queue, message, transactions = entry.queue, entry.message, self._parts.transactions
        if queue.entries.get(entry.request_id) is entry:
            del queue.entries[entry.request_id]
        self._timed.pop(entry, None)
        assert message is not None
        due_queue = queue.handle.queue
        if due_queue is None:
            return HResult.MQ_ERROR_INVALID_HANDLE
        if message.lookup_id not in due_queue.messages:
            queue.handle.two_phase.pop(message.lookup_id, None)
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        if not self._holds(entry):
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        if entry.transaction is None:
            self._parts.readers.end_two_phase(queue.handle, message, delete_message=delete_message)
        elif not delete_message:
            if not transactions.is_open(entry.transaction):
                return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
            transactions.take_back(entry.transaction, message)
        return HResult.MQ_OK

    def _holds(self, entry: Entry) -> bool:
        """Whether the message is locked for this read, and not for another one that came later."""
        message = entry.message
        assert message is not None
        if entry.transaction is None:
            return entry.queue.handle.two_phase.get(message.lookup_id) is message
        return self._parts.transactions.received(entry.transaction, message) is not None

    def _open_move(self, call: RemoteCall, record: Any) -> ReaderQueue:
        target = self._moves.get(record.context_to)
        if target is None or target not in call.group.things:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        target.queue()
        return target

    def _move(self, call: RemoteCall, record: Any) -> Answer:
        source = known(call, record.context_from, ReaderQueue)
        queue = source.queue()
        if not source.handle.access.can_receive:
            raise Refused(HResult.STATUS_ACCESS_DENIED)
        target = self._open_move(call, record).queue()
        if source.handle.queue is target or (queue.parent or queue) is not (target.parent or target):
            raise Refused(HResult.STATUS_INVALID_PARAMETER)
        transaction, transactions = record.transaction_id, self._parts.transactions
        if transaction != NULL_GUID and not target.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        message = queue.messages.get(record.lookup_id)
        if message is not None and transactions.takes(message):
            self._parts.marks.sometimes("a remote move of a message that a transaction has locked")
            raise Refused(HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION)
        if message is None or message.state is not State.AVAILABLE:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        if transaction == NULL_GUID:
            self._parts.marks.sometimes("a message moved by a remote reader")
            transactions.move(message, target)
        elif transactions.is_open(transaction):
            self._parts.state.lock(message)
            transactions.record(transaction, Step(StepKind.MOVE, message, queue, target))
        else:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return Answer()

    def _enlist(self, _call: RemoteCall, record: Any) -> Answer:
        self._parts.enlistments.enlist(record.transaction_id)
        return Answer()

    def _reject(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._find(call, record)
        message = queue.queue().messages.get(record.lookup_id)
        if not queue.handle.access.can_receive:
            raise Refused(HResult.STATUS_ACCESS_DENIED)
        if message is None:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        step = self._parts.transactions.taken(message)
        if step is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        self._parts.marks.sometimes("a message that a remote reader rejects in a transaction")
        step.reason = MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED
        return Answer()
