"""The messages of the model: their arrival, wait, end and writing, and the notices about their end."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from waypost.clock import Now
from waypost.sim.marks import Marks
from waypost.sim.model.disk import ModelDisk, SavedMessage, SavedQueue
from waypost.sim.model.records import BEFORE_ALL, KILOBYTE, SEQUENCE, Answer, Key, ModelMessage, ModelQueue, State
from waypost.sim.plans import Plan
from waypost.sim.swarm import Limits
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import UNLIMITED

RECEIVED: Final = MessageClass.MQMSG_CLASS_ACK_RECEIVE
PURGED: Final = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
DELETED: Final = MessageClass.MQMSG_CLASS_NACK_Q_DELETED
EXPIRED: Final = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT

# The message, its queue, and the reason.
Departure = tuple[ModelMessage, ModelQueue, MessageClass | None]

# The time, the place, the number of the timer, which makes it different from every other, and the message.
Timer = tuple[int, int, int, int, ModelMessage]


@dataclass(slots=True)
class Purge:
    """A purge under way, in parts of `Limits.purge_part`; `then` is called at its end."""

    queue: ModelQueue
    last_sequential_id: int
    reason: MessageClass
    then: Callable[[], None]
    at: int = BEFORE_ALL


class ModelState:
    """Everything that a queue manager knows about its messages.

    `touched` are the queues that changed since the last check; `events` is the work for the end of an operation: a
    message that left its queue for a reason, or arrived, with the reason None; or a function to call then.
    """

    def __init__(self, disk: ModelDisk, marks: Marks, limits: Limits) -> None:
        self.disk: Final = disk
        self.marks: Final = marks
        self.limits: Final = limits
        self.now = Now(0.0, 0.0)
        self.sequential_id = 0
        self.last_number = 0
        self.offer: Callable[[ModelQueue, ModelMessage], None] = _nobody_waits
        self.expected: dict[Key, Answer] = {}
        self._ready: list[tuple[Key, Answer]] = []
        self._timers_started = 0
        self._answers = 0
        self.forget()

    def forget(self) -> None:
        """Drop everything that was only in memory: the process has ended."""
        self.queues: dict[str, ModelQueue] = {}
        self.by_number: dict[int, ModelQueue] = {}
        self.total_bytes = 0
        # Bytes of messages that are in no queue yet.
        self.staged_bytes = 0
        self.volatile = 0
        self.touched: dict[int, ModelQueue] = {}
        self.events: list[Departure | Callable[[], None]] = []
        self.purges: deque[Purge] = deque()
        self.late: deque[ModelMessage] = deque()
        # Work done in parts, in the order of turns.
        self.works: dict[str, Callable[[], None]] = {}
        self._timers: list[Timer] = []
        self.expected.clear()
        self._ready.clear()
        self._mark = 0

    def begin(self, now: Now) -> None:
        self.now = now
        self._mark = len(self.disk.making)
        self._expire()

    def answer(self, key: Key, answer: Answer) -> None:
        """Answer a request at the end of the operation, when its changes are durable."""
        self._ready.append((key, answer))

    def end(self) -> None:
        """Put everything of the operation into the batch in progress."""
        if not self._ready:
            return
        wrote = len(self.disk.making) > self._mark
        for key, answer in self._ready:
            self._answers += 1
            answer.number = self._answers
            if wrote:
                answer.needs = self.disk.token
            elif answer.rests_on_all:
                answer.needs = self.disk.token if self.disk.making else self.disk.token - 1
            elif answer.messages:
                answer.needs = max(message.written for message in answer.messages)
                if answer.needs > self.disk.durable:
                    self.marks.sometimes("an answer delayed because its message is not durable yet")
            self._expect(key, answer)
        self._ready.clear()

    def _expect(self, key: Key, answer: Answer) -> None:
        """Expect an answer. A notice without a request may be due twice before the first is sent."""
        last = self.expected.setdefault(key, answer)
        while last.again is not None:
            last = last.again
        if last is not answer:
            last.again = answer

    def add_queue(self, queue: ModelQueue) -> None:
        self.queues[queue.key] = queue
        self.by_number[queue.number] = queue

    def new_queue(self, key: str, plan: Plan, parent: ModelQueue | None) -> ModelQueue:
        self.last_number += 1
        queue = ModelQueue(self.last_number, key, plan, parent)
        self.add_queue(queue)
        self.save_queue(queue)
        return queue

    def new_provisional_queue(self, key: str, plan: Plan, parent: ModelQueue) -> ModelQueue:
        """A subqueue that is only looked into."""
        queue = self.queues[key] = ModelQueue(0, key, plan, parent, is_provisional=True)
        return queue

    def keep(self, queue: ModelQueue) -> ModelQueue:
        """The queue, which is saved from now on."""
        if queue.is_provisional:
            self.last_number += 1
            queue.number, queue.is_provisional = self.last_number, False
            self.add_queue(queue)
            self.save_queue(queue)
        return queue

    def save_queue(self, queue: ModelQueue) -> None:
        self.disk.write(
            queue.number, SavedQueue(queue.key, queue.plan, queue.parent.number if queue.parent is not None else 0)
        )

    def parts(self, queue: ModelQueue) -> list[ModelQueue]:
        """The subqueues of a queue, then its journal."""
        parts = [part for part in self.queues.values() if part.parent is queue]
        return sorted(parts, key=lambda part: part.is_journal)

    def attempt_failed(self, message: ModelMessage) -> None:
        """Count a failed read: the reader that had the message did not get it, or did not answer."""
        message.abort_count += 1
        if not message.is_volatile:
            self.save(message)

    def remove_queue(self, queue: ModelQueue) -> None:
        for message in list(queue.following(BEFORE_ALL)):
            self.deleted(message, EXPIRED if message.state is State.LATE else DELETED)
        queue.is_deleted = True
        del self.queues[queue.key]
        if queue.is_provisional:
            return
        del self.by_number[queue.number]
        self.touched.pop(queue.number, None)
        self.disk.write(queue.number, None)

    def has_room(self, size: int) -> bool:
        taken = self.total_bytes + self.staged_bytes
        return self.limits.quota == UNLIMITED or taken + size <= self.limits.quota * KILOBYTE

    def identify(self, message: ModelMessage) -> None:
        self.sequential_id += 1
        priority = 0 if message.transactional else 3 if message.is_acknowledgment else message.draft.priority
        message.lookup_id = (7 - priority) << 56 | self.sequential_id

    def place(self, queue: ModelQueue, message: ModelMessage) -> None:
        """Put a message into a queue: locked if it is held, otherwise written and available."""
        queue.put(message)
        self.touched[queue.number] = queue
        self.total_bytes += message.size
        message.state = State.LOCKED if message.is_held else State.AVAILABLE
        if message.is_volatile:
            self.volatile += 1
        else:
            self.save(message)
        self.start_timer(message)

    def start_timer(self, message: ModelMessage) -> None:
        queue = message.queue
        assert queue is not None
        if message.expiry is not None and queue.lets_expire:
            self._timers_started += 1
            timer = message.expiry, queue.number, message.lookup_id, self._timers_started, message
            heappush(self._timers, timer)

    def save(self, message: ModelMessage) -> None:
        self._write(message)
        message.written = self.disk.token

    def save_purge(self, message: ModelMessage, *, is_purged: bool) -> None:
        """Set whether a restart is to find the message purged. The message itself stays where it was."""
        message.is_purge_saved = is_purged
        self._write(message)

    def _write(self, message: ModelMessage) -> None:
        assert message.queue is not None
        saved = SavedMessage(message, message.abort_count, message.move_count, message.is_purge_saved)
        self.disk.write((message.queue.number, message.lookup_id), saved)

    def publish(self, message: ModelMessage) -> None:
        """Keep a held message permanently."""
        message.is_held = False
        self.volatile -= 1
        self.save(message)

    def accept(self, queue: ModelQueue, message: ModelMessage) -> bool:
        """Put a message into a queue, visible to all, if there is room."""
        if not self.has_room(message.size) or not queue.has_room(message.size):
            return False
        self.put_all(queue, [message])
        return True

    def put_all(self, queue: ModelQueue, messages: list[ModelMessage]) -> None:
        """Accept messages that arrive together, and offer them one after the other."""
        for message in messages:
            self.identify(message)
            self.place(queue, message)
        self.end_late(messages)
        for message in messages:
            if message.queue is not None:
                self.arrived(message)

    def end_late(self, messages: list[ModelMessage]) -> None:
        """Remove messages at once if their time is over on arrival."""
        for message in messages:
            assert message.queue is not None
            if message.expiry is not None and message.expiry <= self.now.wall and message.queue.lets_expire:
                self.deleted(message, EXPIRED)

    def arrived(self, message: ModelMessage) -> None:
        message.is_uncertain = False
        assert message.queue is not None
        if message.asks and not message.is_expired:
            self.events.append((message, message.queue, None))
        self.available(message)

    def available(self, message: ModelMessage) -> None:
        if message.is_expired:
            self.deleted(message, EXPIRED)
            return
        queue = message.queue
        assert queue is not None
        self.touched[queue.number] = queue
        message.state = State.AVAILABLE
        message.is_shown = False
        if queue.waiting:
            self.offer(queue, message)

    def lock(self, message: ModelMessage) -> None:
        message.state = State.LOCKED
        message.is_shown = message.draft.allow_peek_when_locked and not message.is_acknowledgment
        assert message.queue is not None
        self.touched[message.queue.number] = message.queue

    def received(self, message: ModelMessage) -> None:
        queue = message.queue
        assert queue is not None
        self.deleted(message, RECEIVED)
        journal = self.queues.get(f"{queue.key};journal") if queue.plan.journaling else None
        if journal is None:
            return
        if not self.has_room(message.size) or not journal.has_room(message.size):
            self.marks.sometimes("a journal copy that does not fit into a quota")
            return
        self.marks.sometimes("a copy in the journal of a queue")
        copy = message.copy()
        self.identify(copy)
        self.place(journal, copy)
        self.available(copy)

    def deleted(self, message: ModelMessage, reason: MessageClass) -> None:
        """Delete a message. Without an outcome of its transaction it was never sent, and no notice is due."""
        queue = message.queue
        assert queue is not None
        self.remove(message)
        if message.asks and not message.is_uncertain:
            self.events.append((message, queue, reason))

    def remove(self, message: ModelMessage) -> None:
        queue = message.queue
        assert queue is not None
        queue.take(message)
        self.touched[queue.number] = queue
        self.total_bytes -= message.size
        message.is_expired = False
        if message.is_volatile:
            self.volatile -= 1
        else:
            self.disk.write((queue.number, message.lookup_id), None)

    def _expire(self) -> None:
        """Hide a message from all readers when its time is over."""
        while self._timers and self._timers[0][0] <= self.now.wall:
            timer = heappop(self._timers)
            if not _is_running(timer):
                continue
            message = timer[4]
            if message.state is State.AVAILABLE:
                self.marks.sometimes("a message that expires in its queue")
                message.state = State.LATE
                self.late.append(message)
                self.works["late"] = self._take_late
                assert message.queue is not None
                self.touched[message.queue.number] = message.queue
            else:
                self.marks.sometimes("a message that expires while it is locked")
                message.is_expired = True

    @property
    def has_parts(self) -> bool:
        return bool(self.works)

    def do_parts(self) -> None:
        """Do one part of each purge, and of the late messages."""
        parts, self.works = self.works, {}
        for part in parts.values():
            part()

    def _take_late(self) -> None:
        """Remove `Limits.expiry_part` of the expired messages, except those that are gone for another reason."""
        for _ in range(min(self.limits.expiry_part, len(self.late))):
            message = self.late.popleft()
            if message.queue is not None and message.state is State.LATE:
                self.deleted(message, EXPIRED)
        if self.late:
            self.works["late"] = self._take_late
            self.marks.sometimes("expired messages that are removed in parts")

    @property
    def next_expiry(self) -> int | None:
        while self._timers and not _is_running(self._timers[0]):
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def purge(self, queue: ModelQueue, reason: MessageClass, then: Callable[[], None]) -> None:
        self.purges.append(Purge(queue, self.sequential_id, reason, then))
        if len(self.purges) == 1:
            self._continue_purge()
        else:
            self.marks.sometimes("a purge in parts")

    def _continue_purge(self) -> None:
        purge = self.purges[0]
        for _ in range(self.limits.purge_part):
            message = next(iter(purge.queue.following(purge.at)), None)
            if message is None:
                break
            purge.at = message.lookup_id
            if message.lookup_id & SEQUENCE <= purge.last_sequential_id:
                self._purge(message, purge.reason)
            else:
                purge.at |= SEQUENCE
        if purge.queue.order and purge.queue.order[-1] > purge.at:
            self.marks.sometimes("a purge in parts")
        else:
            self.purges.popleft()
            purge.then()
        if self.purges:
            self.works["purge"] = self._continue_purge

    def _purge(self, message: ModelMessage, reason: MessageClass) -> None:
        assert message.queue is not None
        if message.state in (State.AVAILABLE, State.LATE):
            self.deleted(message, reason if message.state is State.AVAILABLE else EXPIRED)
            return
        self.marks.sometimes("a purge of a locked message")
        self.touched[message.queue.number] = message.queue
        message.state = State.PURGE_PENDING
        message.is_shown = False
        if not message.is_volatile:
            self.save_purge(message, is_purged=True)


def _is_running(timer: Timer) -> bool:
    _, number, _, _, message = timer
    if message.queue is None or message.queue.number != number:
        return False
    return message.state is not State.LATE and not message.is_expired


def _nobody_waits(_queue: ModelQueue, _message: ModelMessage) -> None:
    """Default before the readers exist."""
