"""The core against a model that keeps every message in one dictionary and looks for everything by sorting it."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.core.engine import OTHER_TX, TX, Outcome, Rig
from waypost.core.ports import MessagePositionAvailable, MessagePositionDeleted, PurgePendingChanged, ReadEnded
from waypost.core.positions import SEQUENCE_MASK, PositionState
from waypost.core.queues import OpenQueueDescriptor, ReadRequest
from waypost.core.reading import MessageSeekAction
from waypost.core.serialization import size_in_bytes
from waypost.hresult import HResult
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass

AVAILABLE, LOCKED, PURGE_PENDING = PositionState.AVAILABLE, PositionState.LOCKED, PositionState.PURGE_PENDING
RECEIVED, PURGED = MessageClass.MQMSG_CLASS_ACK_RECEIVE, MessageClass.MQMSG_CLASS_NACK_Q_PURGED
EXPIRED = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
TIMEOUT, CANCELLED = HResult.MQ_ERROR_IO_TIMEOUT, HResult.MQ_ERROR_OPERATION_CANCELLED
SEQUENCE, ILLEGAL = HResult.MQ_ERROR_TRANSACTION_SEQUENCE, HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION


@dataclass
class Held:
    label: str
    queue: int
    expiry: float
    state: PositionState = AVAILABLE
    is_expired: bool = False


@dataclass
class Place:
    """A cursor: where it stands, or with `since` what it goes on behind; whether it has read or waits."""

    at: int = -1
    since: int | None = None
    has_read: bool = False
    waits: bool = False


@dataclass
class Wait:
    number: int
    handle: int
    queue: int
    request: ReadRequest
    place: Place | None
    is_receive: bool
    deadline: float


@dataclass
class Model:
    """The contents and answers that the core should have."""

    held: dict[int, Held] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    open: dict[bytes, list[tuple[str, int]]] = field(default_factory=dict)
    reads: dict[int, set[int]] = field(default_factory=dict)
    ended: list[tuple[int, Outcome]] = field(default_factory=list)
    gone: list[tuple[str, MessageClass]] = field(default_factory=list)
    sequential_id: int = 0

    def free(self, queue: int) -> list[int]:
        return sorted(at for at, held in self.held.items() if held.queue == queue and held.state is AVAILABLE)

    def leave(self, at: int, reason: MessageClass) -> None:
        self.gone.append((self.held.pop(at).label, reason))

    def release(self, at: int, reason_if_purged: MessageClass) -> None:
        held = self.held[at]
        if held.state is PURGE_PENDING:
            self.leave(at, reason_if_purged)
        elif held.is_expired:
            self.leave(at, EXPIRED)
        else:
            held.state = AVAILABLE
            self.offer(at)

    def offer(self, at: int) -> None:
        """Handle by handle, as they began to wait; a receive ends the round."""
        queue = self.held[at].queue
        while mine := [wait for wait in self.waits if wait.queue == queue]:
            wait = min(mine, key=lambda wait: (self.turns.index(wait.handle), wait.number))
            if wait.request.transaction is not None and wait.request.transaction not in self.open:
                self.end(wait, SEQUENCE)
                continue
            self.forget(wait)
            if wait.place is not None:
                wait.place.at, wait.place.since = at, None
                wait.place.waits, wait.place.has_read = False, not wait.is_receive
            self.ended.append((wait.number, self.held[at].label))
            if wait.is_receive:
                self.take(at, wait.handle, wait.request)
                return

    def take(self, at: int, handle: int, request: ReadRequest) -> None:
        if request.transaction is not None:
            self.open[request.transaction].append(("receive", at))
        elif request.two_phase_read:
            self.reads.setdefault(handle, set()).add(at)
        else:
            self.leave(at, RECEIVED)
            return
        self.held[at].state = LOCKED

    def wait(self, wait: Wait) -> None:
        self.waits.append(wait)
        if wait.handle not in self.turns:
            self.turns.append(wait.handle)

    def forget(self, wait: Wait) -> None:
        self.waits.remove(wait)
        if all(other.handle != wait.handle for other in self.waits):
            self.turns.remove(wait.handle)

    def end(self, wait: Wait, status: HResult) -> None:
        self.forget(wait)
        self.give_up(wait.place, is_receive=wait.is_receive)
        self.ended.append((wait.number, status))

    def give_up(self, place: Place | None, *, is_receive: bool) -> None:
        if place is not None:
            place.waits = place.has_read = False
            if is_receive:
                place.since = self.sequential_id

    def expire(self, wall: float) -> None:
        for at in sorted(self.held, key=lambda at: (self.held[at].expiry, self.held[at].queue, at)):
            held = self.held[at]
            if held.expiry <= wall and held.state is AVAILABLE:
                self.leave(at, EXPIRED)
            elif held.expiry <= wall:
                held.is_expired = True

    def finish(self, transaction: bytes, *, is_commit: bool) -> None:
        for kind, at in self.open.pop(transaction):
            if kind == "send" and is_commit:
                self.held[at].state = AVAILABLE
                self.release(at, PURGED)
            elif kind == "send":
                del self.held[at]
            elif kind == "receive" and is_commit:
                self.leave(at, RECEIVED)
            elif kind == "receive":
                self.release(at, RECEIVED)
            elif is_commit:
                self.move(at)
            else:
                self.release(at, PURGED)

    def move(self, at: int) -> None:
        held = self.held[at]
        held.queue = 1 - held.queue
        held.state = AVAILABLE
        self.release(at, PURGED)


transactions = st.sampled_from([None, TX, OTHER_TX])
timeouts = st.sampled_from([3000, None, 0, 1000])
queues = st.integers(0, 1)
handles = st.integers(0, 3)
picks = st.integers(0, 1000)


class Core(RuleBasedStateMachine):
    """Two queues, two handles on each, one cursor on every handle."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.model = Model()
        self.queues = [self.rig.orders, self.rig.create("other")]
        self.handles = [self.reopen(number) for number in range(4)]
        self.sent = self.said = self.lost = 0
        self.begin_or_finish(TX, is_commit=True)

    def reopen(self, number: int) -> tuple[OpenQueueDescriptor, ReadRequest, Place]:
        name = ("orders", "other")[number % 2]
        handle = self.rig.open(name=f"DIRECT=OS:host\\private$\\{name}")
        return handle, ReadRequest(0, self.rig.manager.open_cursor(handle)), Place()

    @rule(
        queue=queues,
        priority=st.sampled_from([0, 3, 7]),
        ttbr=st.sampled_from([INFINITE, INFINITE, 0, 2, 5]),
        tx=transactions,
    )
    def enqueue(self, queue: int, priority: int, ttbr: int, tx: bytes | None) -> None:
        tx = tx if tx in self.model.open else None
        self.sent += 1
        message = self.rig.message(str(self.sent), ttbr, priority)
        self.model.sequential_id += 1
        assert self.rig.enqueue(message, self.queues[queue], tx) == 0
        at = message.lookup_identifier
        assert at == (7 - priority) << 56 | self.model.sequential_id
        expiry = float("inf") if ttbr == INFINITE else self.rig.now.wall + ttbr
        self.model.held[at] = Held(message.label, queue, expiry, LOCKED, is_expired=ttbr == 0)
        if tx is None:
            self.model.release(at, PURGED)
        else:
            self.model.open[tx].append(("send", at))

    @rule(number=handles, timeout=timeouts, tx=transactions, two_phase=st.booleans(), with_cursor=st.booleans())
    def receive(
        self, number: int, timeout: int | None, tx: bytes | None, *, two_phase: bool, with_cursor: bool
    ) -> None:
        handle, cursor, place = self.handles[number]
        request = ReadRequest(timeout, cursor.cursor if with_cursor else None, number, tx, two_phase_read=two_phase)
        got = self.rig.receive(handle, request)
        if tx is not None and tx not in self.model.open:
            assert got == SEQUENCE
        elif not with_cursor:
            self.check(number, request, got, is_receive=True, found=self.model.free(number % 2)[:1])
        elif place.waits:
            assert got == ILLEGAL
        elif place.has_read and place.at not in self.model.free(number % 2):
            assert got == HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
        else:
            found = [place.at] if place.has_read else self.following(number)
            if not found and timeout == 0:
                assert got == HResult.MQ_ERROR_MESSAGE_NOT_FOUND
            else:
                self.check(number, request, got, is_receive=True, found=found)

    @rule(queue=queues)
    def send(self, queue: int) -> None:
        self.enqueue(queue, 3, INFINITE, None)

    @rule(number=handles, two_phase=st.booleans())
    def wait(self, number: int, *, two_phase: bool) -> None:
        self.receive(number, None, None, two_phase=two_phase, with_cursor=False)

    @rule(number=handles, timeout=timeouts)
    def peek(self, number: int, timeout: int | None) -> None:
        request = ReadRequest(timeout)
        got = self.rig.peek(self.handles[number][0], request)
        self.check(number, request, got, is_receive=False, found=self.model.free(number % 2)[:1])

    @rule(number=handles, timeout=timeouts, is_next=st.booleans())
    def peek_with_cursor(self, number: int, timeout: int | None, *, is_next: bool) -> None:
        handle, cursor, place = self.handles[number]
        request = ReadRequest(timeout, cursor.cursor)
        got = (self.rig.peek_next if is_next else self.rig.peek)(handle, request)
        if place.waits or (is_next and not place.has_read):
            assert got == ILLEGAL
        elif place.has_read and not is_next:
            is_there = place.at in self.model.free(number % 2)
            label = self.model.held[place.at].label if is_there else HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
            assert got == label
        else:
            self.check(number, request, got, is_receive=False, found=self.following(number))

    def following(self, number: int) -> list[int]:
        place, free = self.handles[number][2], self.model.free(number % 2)
        if place.since is None:
            return [at for at in free if at > place.at][:1]
        return [at for at in free if at & SEQUENCE_MASK > place.since][:1]

    def check(self, number: int, request: ReadRequest, got: Outcome, *, is_receive: bool, found: list[int]) -> None:
        """The read brought what was found, or it waits, or its time is over at once."""
        place = self.handles[number][2] if request.cursor is not None else None
        handle = self.handles[number][0].handle
        if found:
            assert got == self.model.held[found[0]].label
            if place is not None:
                place.at, place.since, place.has_read = found[0], None, not is_receive
            if is_receive:
                self.model.take(found[0], handle, request)
        elif request.timeout_ms == 0:
            assert got == TIMEOUT
            self.model.give_up(place, is_receive=is_receive)
        else:
            assert isinstance(got, int)
            if place is not None:
                place.waits, place.has_read = True, False
            seconds = float("inf") if request.timeout_ms is None else request.timeout_ms / 1000
            deadline = self.rig.now.monotonic + seconds
            self.model.wait(Wait(got, handle, number % 2, request, place, is_receive, deadline))

    @precondition(lambda self: any(self.model.reads.values()))
    @rule(pick=picks, delete=st.booleans())
    def end(self, pick: int, *, delete: bool) -> None:
        pending = sorted((handle, at) for handle, reads in self.model.reads.items() for at in reads)
        number, at = pending[pick % len(pending)]
        handle = next(handle for handle, _, _ in self.handles if handle.handle == number)
        self.model.reads[number].remove(at)
        assert self.rig.end(handle, at, delete=delete) == 0
        if delete and self.model.held[at].state is LOCKED:
            self.model.leave(at, RECEIVED)
        else:
            self.model.release(at, PURGED)

    @precondition(lambda self: self.model.held)
    @rule(pick=picks, number=handles, action=st.sampled_from(MessageSeekAction), tx=transactions)
    def receive_by_identifier(self, pick: int, number: int, action: MessageSeekAction, tx: bytes | None) -> None:
        tx = tx if tx in self.model.open else None
        mine = sorted(at for at, held in self.model.held.items() if held.queue == number % 2)
        free = self.model.free(number % 2)
        at = mine[pick % len(mine)] if mine else 0
        found = {
            MessageSeekAction.SEEK_FIRST: free[:1],
            MessageSeekAction.SEEK_LAST: free[-1:],
            MessageSeekAction.SEEK_CURRENT: [at] if at in free else [],
            MessageSeekAction.SEEK_NEXT: [each for each in free if each > at][:1],
            MessageSeekAction.SEEK_PREVIOUS: [each for each in free if each < at][-1:],
        }[action]
        if not mine and action is not MessageSeekAction.SEEK_CURRENT:
            found = []
        request = ReadRequest(transaction=tx)
        got = self.rig.seek(self.handles[number][0], action, at, request)
        if found:
            assert got == self.model.held[found[0]].label
            self.model.take(found[0], self.handles[number][0].handle, request)
        else:
            assert got == HResult.MQ_ERROR_MESSAGE_NOT_FOUND

    @rule(tx=st.sampled_from([TX, OTHER_TX]), is_commit=st.booleans())
    def begin_or_finish(self, tx: bytes, *, is_commit: bool) -> None:
        if tx not in self.model.open:
            self.model.open[tx] = []
            self.rig.start(tx)
            return
        self.lost += 0 if is_commit else sum(kind == "send" for kind, _ in self.model.open[tx])
        assert (self.rig.commit if is_commit else self.rig.abort)(tx) == 0
        self.model.finish(tx, is_commit=is_commit)

    @precondition(lambda self: self.model.free(0) or self.model.free(1))
    @rule(pick=picks, tx=transactions)
    def move(self, pick: int, tx: bytes | None) -> None:
        tx = tx if tx in self.model.open else None
        free = self.model.free(0) + self.model.free(1)
        at = free[pick % len(free)]
        source = self.model.held[at].queue
        writing = self.rig.manager.writing
        assert writing.move_message(self.queues[source], at, self.queues[1 - source], tx, self.rig.now) == 0
        if tx is None:
            self.model.move(at)
        else:
            self.model.held[at].state = LOCKED
            self.model.open[tx].append(("move", at))

    @rule(queue=queues)
    def purge(self, queue: int) -> None:
        self.rig.manager.writing.purge_queue(self.queues[queue])
        for at in sorted(at for at, held in self.model.held.items() if held.queue == queue):
            if self.model.held[at].state is AVAILABLE:
                self.model.leave(at, PURGED)
            else:
                self.model.held[at].state = PURGE_PENDING

    @rule(number=handles)
    def cancel(self, number: int) -> None:
        handle = self.handles[number][0]
        tagged = [wait for wait in self.model.waits if wait.handle == handle.handle and wait.request.tag == number]
        status = self.rig.manager.reading.cancel_waiting_message_read_request(handle, number, CANCELLED)
        assert status == (0 if tagged else HResult.STATUS_NOT_FOUND)
        for wait in tagged[:1]:
            self.model.end(wait, CANCELLED)

    @rule(number=handles)
    def close(self, number: int) -> None:
        handle = self.handles[number][0]
        self.rig.manager.close_queue(handle)
        for wait in [wait for wait in self.model.waits if wait.handle == handle.handle]:
            self.model.end(wait, CANCELLED)
        for at in sorted(self.model.reads.pop(handle.handle, set())):
            self.model.release(at, PURGED)
        self.handles[number] = self.reopen(number)

    @rule(seconds=st.sampled_from([1, 1, 2, 5]))
    def advance(self, seconds: int) -> None:
        self.rig.advance(seconds)
        self.model.expire(self.rig.now.wall)
        for wait in sorted(self.model.waits, key=lambda wait: (wait.deadline, wait.number)):
            if wait.deadline <= self.rig.now.monotonic:
                self.model.end(wait, TIMEOUT)

    @invariant()
    def the_core_says_what_the_model_says(self) -> None:
        events = self.rig.manager.take_events()
        ended = [e for e in events if isinstance(e, ReadEnded)]
        assert [(e.wait_id, e.message.label if e.message else e.status) for e in ended] == self.model.ended
        gone = [(e.message.label, e.reason) for e in events if isinstance(e, MessagePositionDeleted)]
        assert gone == self.model.gone
        others = sum(isinstance(e, MessagePositionAvailable | PurgePendingChanged) for e in events)
        assert len(ended) + len(gone) + others == len(events)
        self.said += len(gone)
        self.model.ended, self.model.gone = [], []
        assert self.sent == len(self.model.held) + self.said + self.lost

    @invariant()
    def contents_counts_and_bytes_agree(self) -> None:
        for number, queue in enumerate(self.queues):
            mine = {at: held for at, held in self.model.held.items() if held.queue == number}
            assert {at: queue.positions.state(at) for at in queue.positions} == {at: mine[at].state for at in mine}
            assert list(queue.positions) == sorted(mine)
            assert len(queue.positions) == len(mine)
            messages = [self.rig.messages.get(queue.number, at) for at in sorted(mine)]
            assert [message.label for message in messages] == [mine[at].label for at in sorted(mine)]
            assert queue.total_bytes == sum(map(size_in_bytes, messages))
        assert self.rig.manager.total_bytes == sum(queue.total_bytes for queue in self.queues)
        assert len(self.rig.messages.held) == len(self.model.held)

    @invariant()
    def nobody_waits_for_a_message_that_is_there(self) -> None:
        for wait in self.model.waits:
            assert wait.place is not None or not self.model.free(wait.queue)

    @invariant()
    def waits_agree(self) -> None:
        for handle, _, _ in self.handles:
            assert list(handle.waiting) == [wait.number for wait in self.model.waits if wait.handle == handle.handle]


TestCore = Core.TestCase
TestCore.settings = settings(max_examples=200, stateful_step_count=60)
