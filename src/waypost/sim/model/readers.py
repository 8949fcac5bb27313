"""Handles, cursors and waiting reads of the model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from waypost.clock import Now
from waypost.core.queues import ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.hresult import HResult
from waypost.sim.model.cursor import ModelCursor
from waypost.sim.model.disk import StepKind
from waypost.sim.model.records import (
    BEFORE_ALL,
    BEHIND_ALL,
    Answer,
    ModelHandle,
    ModelMessage,
    ModelQueue,
    Refused,
    State,
    Wait,
)
from waypost.sim.model.state import PURGED, ModelState
from waypost.sim.model.transactions import ModelTransactions, Step


class Readers:
    def __init__(self, state: ModelState, transactions: ModelTransactions) -> None:
        self._state: Final = state
        self._transactions: Final = transactions
        self.waits: dict[int, Wait] = {}
        state.offer = self._offer

    def open_queue(self, handle: ModelHandle) -> ModelQueue:
        if handle.queue is None:
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        return handle.queue

    def check_sharing(self, handle: ModelHandle) -> None:
        """Open a handle. A handle that denies receiving and one that receives exclude each other."""
        for other in self.open_queue(handle).handles.values():
            denies = ShareMode.DENY_RECEIVE in (other.share, handle.share)
            if other.access.can_receive:
                refused = handle.share is ShareMode.DENY_RECEIVE or (denies and handle.access.can_receive)
            else:
                is_denied = other.share is ShareMode.DENY_RECEIVE
                refused = other.access.can_peek and is_denied and handle.access.can_receive
            if refused:
                raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)

    def close(self, handle: ModelHandle) -> None:
        if handle.queue is None:
            return
        self.end_waits(handle, HResult.MQ_ERROR_OPERATION_CANCELLED)
        for message in [handle.two_phase[lookup_id] for lookup_id in sorted(handle.two_phase)]:
            self._state.marks.sometimes("a two-phase receive that is rolled back")
            self._transactions.release(message, PURGED)
        handle.two_phase.clear()
        queue = handle.queue
        del queue.handles[handle.opened_by]
        handle.queue = None
        if queue.is_provisional and not queue.handles:
            self._state.remove_queue(queue)
        handle.pointers.clear()

    def end_two_phase(self, handle: ModelHandle, message: ModelMessage, *, delete_message: bool) -> None:
        del handle.two_phase[message.lookup_id]
        if delete_message and message.state is not State.PURGE_PENDING:
            self._state.received(message)
        else:
            self._state.marks.sometimes("a two-phase receive that is rolled back")
            self._transactions.release(message, PURGED)

    def new_pointer(self, handle: ModelHandle) -> Callable[[Any], None]:
        """Open a cursor for a remote reader, which gets its number in the answer."""
        pointer = ModelCursor(self.open_queue(handle))
        return lambda reply: handle.pointers.update({reply.cursor: pointer})

    def close_pointer(self, handle: ModelHandle, cursor: int | str) -> None:
        self.end_waits(handle, HResult.MQ_ERROR_OPERATION_CANCELLED, handle.pointers.pop(cursor))

    def queue_deleted(self, queue: ModelQueue) -> None:
        for handle in queue.handles.values():
            if handle.waits:
                self._state.marks.sometimes("a queue deleted while a reader waits for messages")
            self.end_waits(handle, HResult.MQ_ERROR_QUEUE_DELETED)
            handle.two_phase.clear()
            handle.queue = None
        queue.handles.clear()

    def end_waits(self, handle: ModelHandle, status: HResult, pointer: ModelCursor | None = None) -> None:
        for wait in list(handle.waits.values()):
            if pointer is None or wait.pointer is pointer:
                self.end(wait, status)

    def end(self, wait: Wait, status: HResult) -> None:
        self._forget(wait)
        if wait.pointer is not None:
            wait.pointer.gave_up(self._state.sequential_id)
        self._tell(wait, Answer(status))

    def tick(self, now: Now) -> None:
        due = [(wait.deadline, wait) for wait in self.waits.values() if wait.deadline is not None]
        for deadline, wait in sorted(due, key=itemgetter(0)):
            if deadline <= now.monotonic:
                self._state.marks.sometimes("a wait that times out")
                self.end(wait, HResult.MQ_ERROR_IO_TIMEOUT)

    @property
    def next_deadline(self) -> float | None:
        deadlines = [wait.deadline for wait in self.waits.values() if wait.deadline is not None]
        return min(deadlines) if deadlines else None

    def read(self, wait: Wait, timeout_ms: int | None, *, goes_on: bool = False) -> None:
        """Read the first message, or that at the cursor; a peek that `goes_on` moves the cursor first."""
        message = self.begin(wait, timeout_ms, self._state.now, goes_on=goes_on)
        if message is not None:
            self._show(wait, message)

    def seek(self, wait: Wait, found: tuple[int, MessageSeekAction]) -> None:
        self._show(wait, self.find(wait, found))

    def begin(self, wait: Wait, timeout_ms: int | None, now: Now, *, goes_on: bool) -> ModelMessage | None:
        """The message for a read, which holds it from now on, or None if the read waits."""
        message = self._message_for(wait, goes_on=goes_on, can_wait=timeout_ms != 0)
        if message is None:
            self._wait(wait, timeout_ms, now)
        elif wait.takes:
            self._remove(wait, message)
        return message

    def find(self, wait: Wait, found: tuple[int, MessageSeekAction]) -> ModelMessage:
        """Read by LookupIdentifier, which never waits."""
        queue, access = self.open_queue(wait.handle), wait.handle.access
        if not (access.can_receive if wait.takes else access.can_peek):
            raise Refused(HResult.MQ_ERROR_ACCESS_DENIED)
        if wait.takes:
            self._check_transaction(wait.transaction)
        message = _found(wait.handle, queue, found, is_peek=not wait.takes)
        if wait.takes:
            self._remove(wait, message)
        return message

    def _message_for(self, wait: Wait, *, goes_on: bool, can_wait: bool) -> ModelMessage | None:
        handle, pointer = wait.handle, wait.pointer
        queue = self.open_queue(handle)
        if not (handle.access.can_receive if wait.takes else handle.access.can_peek):
            raise Refused(HResult.MQ_ERROR_ACCESS_DENIED)
        if wait.takes:
            self._check_transaction(wait.transaction)
        if pointer is None:
            fits = _can_take if wait.takes else _can_peek
            return next(filter(fits, queue.following(BEFORE_ALL)), None)
        with self._noting_what_is_gone():
            if wait.takes:
                return pointer.receive(can_wait=can_wait)
            return pointer.peek_next() if goes_on else pointer.peek()

    @contextmanager
    def _noting_what_is_gone(self) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            if refused.status is HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED:
                self._state.marks.sometimes("a cursor at a message that no longer exists")
            raise

    def _check_transaction(self, transaction: bytes | None) -> None:
        if transaction is not None and not self._transactions.is_open(transaction):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)

    def _wait(self, wait: Wait, timeout_ms: int | None, now: Now) -> None:
        if timeout_ms == 0:
            if wait.pointer is not None:
                wait.pointer.gave_up(self._state.sequential_id)
            raise Refused(HResult.MQ_ERROR_IO_TIMEOUT)
        if wait.pointer is not None:
            self._state.marks.sometimes("a cursor that waits for a new message")
        if timeout_ms is not None:
            wait.deadline = now.monotonic + timeout_ms / 1000
        handle = wait.handle
        assert handle.queue is not None
        self.waits[wait.request] = handle.waits[wait.request] = wait
        handle.queue.waiting[handle.opened_by] = handle

    def _offer(self, queue: ModelQueue, message: ModelMessage) -> None:
        """Offer a message to the handles in the order in which they began to wait; a receive ends the offer."""
        peeked = False
        while queue.waiting:
            handle = next(iter(queue.waiting.values()))
            wait = next(iter(handle.waits.values()))
            if wait.transaction is not None and not self._transactions.is_open(wait.transaction):
                self._state.marks.sometimes("a wait that ends because its transaction has ended")
                self.end(wait, HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
                continue
            self._forget(wait)
            if wait.pointer is not None:
                wait.pointer.served(message)
            if wait.takes:
                if peeked:
                    self._state.marks.sometimes("a message that completes both a waiting peek and a waiting receive")
                self._remove(wait, message)
            self._show(wait, message)
            if wait.takes:
                return
            peeked = True

    def receive_many(self, wait: Wait, count: int, timeout_ms: int | None) -> None:
        queue = self.open_queue(wait.handle)
        if not wait.handle.access.can_receive:
            raise Refused(HResult.MQ_ERROR_ACCESS_DENIED)
        self._check_transaction(wait.transaction)
        messages = list(islice(filter(_can_take, queue.following(BEFORE_ALL)), count))
        if messages:
            if len(messages) > 1:
                self._state.marks.sometimes("several messages received with one request")
            for message in messages:
                self._remove(wait, message)
            self._state.answer(wait.request, showing(messages))
        else:
            wait.then = lambda answer: self._state.answer(wait.request, self._with_others(wait, count - 1, answer))
            self._wait(wait, timeout_ms, self._state.now)

    def _with_others(self, wait: Wait, count: int, answer: Answer) -> Answer:
        """Receive the messages that arrived together with the awaited one too."""
        queue = wait.handle.queue
        if answer.status is not HResult.MQ_OK or queue is None:
            return answer
        if wait.transaction is not None and not self._transactions.is_open(wait.transaction):
            return answer
        others = list(islice(filter(_can_take, queue.following(BEFORE_ALL)), count))
        if not others:
            return answer
        self._state.marks.sometimes("several messages received with one waiting request")
        for message in others:
            self._remove(wait, message)
        return showing([*answer.messages, *others])

    def _remove(self, wait: Wait, message: ModelMessage) -> None:
        state, queue = self._state, message.queue
        assert queue is not None
        if wait.transaction is not None:
            state.lock(message)
            self._transactions.record(wait.transaction, Step(StepKind.RECEIVE, message, queue))
        elif wait.two_phase:
            state.lock(message)
            wait.handle.two_phase[message.lookup_id] = message
        else:
            state.received(message)

    def _show(self, wait: Wait, message: ModelMessage) -> None:
        if message.state is State.LOCKED and message.is_shown:
            self._state.marks.sometimes("a locked message returned by a peek")
        self._tell(wait, showing([message]))

    def _tell(self, wait: Wait, answer: Answer) -> None:
        """Answer the request, or go on with the next step of the waiting caller, when the operation ends."""
        then = wait.then
        if then is None:
            self._state.answer(wait.request, answer)
        else:
            self._state.events.append(lambda: then(answer))

    def _forget(self, wait: Wait) -> None:
        handle = wait.handle
        del self.waits[wait.request]
        del handle.waits[wait.request]
        if not handle.waits and handle.queue is not None:
            del handle.queue.waiting[handle.opened_by]


def showing(messages: list[ModelMessage]) -> Answer:
    return Answer(messages=tuple(messages), counts=tuple((each.abort_count, each.move_count) for each in messages))


def _can_take(message: ModelMessage) -> bool:
    return message.state is State.AVAILABLE


def _can_peek(message: ModelMessage) -> bool:
    return message.state is State.AVAILABLE or message.is_shown


def _found(
    handle: ModelHandle, queue: ModelQueue, found: tuple[int, MessageSeekAction], *, is_peek: bool
) -> ModelMessage:
    lookup_id, action = found
    if action is MessageSeekAction.SEEK_CURRENT:
        return _current(handle, queue, lookup_id, is_peek=is_peek)
    if action is MessageSeekAction.SEEK_FIRST:
        messages = queue.following(BEFORE_ALL)
    elif action is MessageSeekAction.SEEK_LAST:
        messages = queue.preceding(BEHIND_ALL)
    elif lookup_id not in queue.messages or queue.messages[lookup_id].state is State.LATE:
        messages = chain[ModelMessage]()
    else:
        messages = (queue.following if action is MessageSeekAction.SEEK_NEXT else queue.preceding)(lookup_id)
    for message in messages:
        if message.state is State.AVAILABLE or (is_peek and message.is_shown):
            return message
    raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)


def _current(handle: ModelHandle, queue: ModelQueue, lookup_id: int, *, is_peek: bool) -> ModelMessage:
    message = queue.messages.get(lookup_id)
    if message is None or message.state is State.LATE:
        is_known = any(pointer.at == lookup_id for pointer in handle.pointers.values())
        raise Refused(HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED if is_known else HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
    if message.state is State.AVAILABLE:
        return message
    if is_peek and message.state is State.LOCKED:
        if message.is_shown:
            return message
        raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
    raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
