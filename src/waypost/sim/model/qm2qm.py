"""qm2qm and qmcomm in the model: MS-MQQP 3.1 and MS-MQMP 3.1.4, as far as honest readers can observe."""

from dataclasses import dataclass, field
from typing import Any, Final

from waypost.core.reading import MessageSeekAction
from waypost.hresult import HResult
from waypost.remote.interfaces.qm2qm import RemoteReadDesc
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.sim.model.readers import showing
from waypost.sim.model.records import Answer, ModelHandle, ModelMessage, Refused, Wait
from waypost.sim.model.remote import Do, Faulted, Parts, RemoteCall, close, known, make
from waypost.sim.model.remote_read import LAST, SEEKS
from waypost.sim.model.state import PURGED
from waypost.wire.codec import INFINITE

CANCELED: Final = HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT


@dataclass(slots=True, eq=False)
class FarQueue:
    """A queue under the number that qmcomm gave to callers at one address. `reads` wait, or are about to end."""

    handle: ModelHandle
    address: str
    sessions: "dict[Session, None]" = field(default_factory=dict)
    reads: "dict[int, Reading]" = field(default_factory=dict)
    is_read: bool = False


@dataclass(slots=True, eq=False)
class Reading:
    """One read, and the object of its handle when it has brought a message to be ended."""

    server: "ModelQm2qm"
    queue: FarQueue
    request_id: int
    takes: bool
    message: ModelMessage | None = None
    order: int = 0

    def run_down(self) -> None:
        self.server.fail(self)


@dataclass(slots=True, eq=False)
class Session:
    """The handle of RemoteQMOpenQueue."""

    server: "ModelQm2qm"
    queue: FarQueue
    order: int = 1

    def run_down(self) -> None:
        self.server.close(self)


@dataclass(slots=True, eq=False)
class Opened:
    """The handle of R_QMOpenRemoteQueue."""

    server: "ModelQmcomm"
    queue: FarQueue
    order: int = 0

    def run_down(self) -> None:
        self.server.close_unread(self.queue)


class FarQueues:
    """Queues that qmcomm opens and qm2qm reads."""

    def __init__(self, parts: Parts) -> None:
        self._parts: Final = parts
        self.by_number: Final[dict[int, FarQueue]] = {}

    def find(self, call: RemoteCall, number: int) -> FarQueue | None:
        queue = self.by_number.get(number)
        return queue if queue is not None and queue.address == call.line.address else None

    def close(self, queue: FarQueue) -> None:
        self._parts.readers.close(queue.handle)
        for number in [number for number, other in self.by_number.items() if other is queue]:
            del self.by_number[number]


class ModelQmcomm:
    def __init__(self, parts: Parts, queues: FarQueues) -> None:
        self._parts: Final = parts
        self._queues: Final = queues
        self._methods: Final[dict[int, Do]] = {
            2: self._open,
            3: self._close,
            4: self._create_cursor,
            31: _port,
        }

    def call(self, call: RemoteCall) -> None:
        try:
            answer = self._methods[call.opnum](call, call.record)
        except Refused as refused:
            answer = Answer(refused.status)
        assert answer is not None
        self._parts.reply(call, answer)

    def cancelled(self, call: RemoteCall) -> None:
        """Do nothing: no call waits here."""

    def close_unread(self, queue: FarQueue) -> None:
        if not queue.is_read:
            self._parts.marks.sometimes("a queue that is opened over qmcomm, but not read")
            self._queues.close(queue)

    def _open(self, call: RemoteCall, record: Any) -> Answer:
        handle = self._parts.open(call.request, record.queue_format, record.desired_access, record.share_mode)
        queue = FarQueue(handle, call.line.address)
        learn = make(call, Opened(self, queue))

        def learn_both(reply: Any) -> None:
            learn(reply)
            self._queues.by_number[reply.queue] = queue

        return Answer(learn=learn_both)

    def _close(self, call: RemoteCall, record: Any) -> Answer:
        opened = known(call, record.context, Opened)
        close(call, record.context)
        self.close_unread(opened.queue)
        return Answer()

    def _create_cursor(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._queues.find(call, record.queue)
        if queue is None:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        self._parts.readers.open_queue(queue.handle)
        return Answer(learn=self._parts.readers.new_pointer(queue.handle))


class ModelQm2qm:
    def __init__(self, parts: Parts, queues: FarQueues) -> None:
        self._parts: Final = parts
        self._queues: Final = queues
        self._waiting: Final[dict[RemoteCall, Reading]] = {}
        self._methods: Final[dict[int, Do]] = {
            0: self._start,
            1: self._end,
            2: self._open,
            3: self._close,
            4: self._close_cursor,
            5: self._cancel,
            6: self._purge,
            7: _port,
            8: _port,
            9: self._start2,
            10: self._seek,
        }

    def call(self, call: RemoteCall) -> None:
        try:
            answer = self._methods[call.opnum](call, call.record)
        except Refused as refused:
            answer = Answer(refused.status)
        if answer is not None:
            self._parts.reply(call, answer)

    def cancelled(self, call: RemoteCall) -> None:
        reading = self._waiting.get(call)
        if reading is not None and reading.queue.reads.get(reading.request_id) is reading:
            self._cancel_read(reading)

    def end(self, reading: Reading, *, delete_message: bool) -> HResult:
        handle, message = reading.queue.handle, reading.message
        assert message is not None
        if handle.queue is None:
            return HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE
        if handle.two_phase.get(message.lookup_id) is not message:
            return HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        self._parts.readers.end_two_phase(handle, message, delete_message=delete_message)
        return HResult.MQ_OK

    def fail(self, reading: Reading) -> HResult:
        handle, message = reading.queue.handle, reading.message
        assert message is not None
        if handle.queue is not None and handle.two_phase.get(message.lookup_id) is message:
            self._parts.state.attempt_failed(message)
        return self.end(reading, delete_message=False)

    def close(self, session: Session) -> None:
        queue = session.queue
        queue.sessions.pop(session, None)
        for reading in list(queue.reads.values()):
            self._cancel_read(reading)
        self._queues.close(queue)

    def _find_ready(self, call: RemoteCall, number: int) -> FarQueue | None:
        queue = self._queues.find(call, number)
        return queue if queue is not None and queue.sessions else None

    def _open(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._queues.find(call, record.dwp_context)
        if queue is None:
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        session = Session(self, queue)
        queue.is_read = True
        queue.sessions[session] = None
        return Answer(learn=make(call, session))

    def _close(self, call: RemoteCall, record: Any) -> Answer:
        session = known(call, record.context, Session)
        close(call, record.context)
        self.close(session)
        return Answer()

    def _close_cursor(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._queues.find(call, record.queue)
        if queue is None or record.cursor not in queue.handle.pointers:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        self._parts.readers.close_pointer(queue.handle, record.cursor)
        return Answer()

    def _cancel(self, call: RemoteCall, record: Any) -> Answer:
        queue = self._queues.find(call, record.queue)
        if queue is None or not queue.reads:
            raise Refused(HResult.MQ_ERROR_INVALID_HANDLE)
        reading = queue.reads.get(record.request_id)
        if reading is None:
            raise Refused(HResult.MQ_ERROR)
        self._parts.marks.sometimes("a qm2qm receive that is cancelled")
        return Answer(self._cancel_read(reading))

    def _cancel_read(self, reading: Reading) -> HResult:
        del reading.queue.reads[reading.request_id]
        for wait in reading.queue.handle.waits.values():
            if wait.tag == reading.request_id:
                self._parts.readers.end(wait, CANCELED)
                return HResult.MQ_OK
        return HResult.STATUS_NOT_FOUND

    def _purge(self, call: RemoteCall, record: Any) -> None:
        queue = self._find_ready(call, record.queue)
        if queue is None:
            raise Faulted(HResult.MQ_ERROR_INVALID_HANDLE)
        due_queue = queue.handle.queue
        if due_queue is None:
            raise Faulted(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        if not queue.handle.access.can_receive:
            raise Faulted(HResult.MQ_ERROR_ACCESS_DENIED)
        self._parts.state.purge(due_queue, PURGED, lambda: self._parts.reply(call, Answer()))

    def _start2(self, call: RemoteCall, record: Any) -> Answer | None:
        return self._begin(call, record.remote_read_desc2.remote_read_desc)

    def _start(self, call: RemoteCall, record: Any) -> Answer | None:
        return self._begin(call, record.remote_read_desc)

    def _begin(self, call: RemoteCall, desc: RemoteReadDesc) -> Answer | None:
        queue = self._find_ready(call, desc.remote_queue)
        if queue is None:
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        handle, action = queue.handle, ReceiveAction(desc.action)
        if desc.cursor and desc.cursor not in handle.pointers:
            raise Refused(HResult.STATUS_INVALID_PARAMETER)
        reading = Reading(self, queue, desc.request_id, not action.is_peek)
        wait = Wait(call.request, handle, takes=reading.takes, two_phase=True, tag=desc.request_id)
        wait.pointer = handle.pointers.get(desc.cursor)
        wait.then = lambda answer: self._waited(call, reading, answer)
        timeout_ms = None if desc.timeout == INFINITE else desc.timeout
        goes_on = action is ReceiveAction.MQ_ACTION_PEEK_NEXT
        message = self._parts.readers.begin(wait, timeout_ms, self._parts.state.now, goes_on=goes_on)
        if message is not None:
            return self._given(call, reading, showing([message]))
        queue.reads[desc.request_id] = reading
        self._waiting[call] = reading
        return None

    def _seek(self, call: RemoteCall, record: Any) -> Answer | None:
        desc = record.remote_read_desc2.remote_read_desc
        queue, seek = self._find_ready(call, desc.remote_queue), SEEKS[desc.action]
        lookup_id = record.lookup_id
        if queue is None or not (lookup_id or seek is MessageSeekAction.SEEK_NEXT):
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        if seek is MessageSeekAction.SEEK_NEXT and not lookup_id:
            seek = MessageSeekAction.SEEK_FIRST
        if seek is MessageSeekAction.SEEK_PREVIOUS and lookup_id == LAST:
            seek = MessageSeekAction.SEEK_LAST
        reading = Reading(self, queue, desc.request_id, not ReceiveAction(desc.action).is_peek)
        wait = Wait(call.request, queue.handle, takes=reading.takes, two_phase=True)
        return self._given(call, reading, showing([self._parts.readers.find(wait, (lookup_id, seek))]))

    def _waited(self, call: RemoteCall, reading: Reading, answer: Answer) -> None:
        del self._waiting[call]
        queue = reading.queue
        if queue.reads.get(reading.request_id) is reading:
            del queue.reads[reading.request_id]
        if not reading.takes or not answer.messages:
            self._parts.reply(call, answer)
            return
        message = reading.message = answer.messages[0]
        if queue.handle.two_phase.get(message.lookup_id) is not message:
            self._parts.reply(call, Answer(CANCELED))
        elif not call.is_deliverable:
            self.end(reading, delete_message=False)
        else:
            self._parts.reply(call, self._given(call, reading, answer))

    def _given(self, call: RemoteCall, reading: Reading, answer: Answer) -> Answer:
        if reading.takes:
            reading.message = answer.messages[0]
            answer.learn = make(call, reading)
        return answer

    def _end(self, call: RemoteCall, record: Any) -> Answer:
        reading = known(call, record.context, Reading)
        close(call, record.context)
        delete_message = record.ack == RemoteReadAck.RR_ACK
        if delete_message:
            self._parts.marks.sometimes("a message that a qm2qm reader confirms")
        return Answer(self.end(reading, delete_message=True) if delete_message else self.fail(reading))


def _port(_call: RemoteCall, _record: Any) -> Answer:
    """Answer the methods for ports and versions."""
    return Answer()
