"""The queue manager and its store, driven by whoever calls, and the answers that are awaited.

A driver has one caller at a time and never waits: `start` asks for something, `tell` brings a fact of the network,
`settle` carries out what that led to, `poll` takes in what has become durable. How to wait for an Answer is the
business of a shell (threads, loop), and what is to happen on the network that of an Outside.

When anything but a WaypostError interrupts the queue manager in the middle of its work, such as Ctrl-C, nobody can tell
what is half done. Then nothing more is written, and it has to be opened anew: what was answered is durable.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from waypost.api.opened import Handle
from waypost.api.operations import (
    CloseCursor,
    CloseQueue,
    CursorNext,
    CursorPeek,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
)
from waypost.clock import Now
from waypost.drive.answers import Answer
from waypost.drive.new_guid import new_guid
from waypost.drive.outside import Nowhere, Outside
from waypost.errors import (
    InvalidHandle,
    OutcomeUnknown,
    ServiceNotAvailable,
    StoreDamaged,
    StoreError,
    WaypostError,
)
from waypost.limits import MAX_STORE_SIZE
from waypost.node.effects import Commit, Failure, Reply
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.node.restoring import Restored, begin_again
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Room
from waypost.store.progress import Progress, unheard

_INTERRUPTED: Final = "the queue manager was interrupted in the middle of its work; close it and open it again"
# To look at the timers costs a tenth of a send, and what expires does so by whole seconds.
_TICK_SECONDS: Final = 0.1
# How long a batch may wait for another one, and with how many operations.
_LEAVE_SECONDS: Final = 0.01
_LEAVE_OPERATIONS: Final = 1000
_CLOSED: Final = "the queue manager is closed"
_OPEN_OUTCOME: Final = (
    "; what was asked for is kept in memory and stored when the disk works again, unless the process ends before, "
    "so look whether it was done before you ask again"
)

R = TypeVar("R")


class Driver:
    """One queue manager on one store."""

    __slots__ = (
        "_abandoned",
        "_answers",
        "_ended",
        "_is_alone",
        "_last_request",
        "_leave_until",
        "_next_tick",
        "_on_room",
        "_on_trouble",
        "_outside",
        "_store",
        "_submitted",
        "_told_trouble",
        "handlers",
        "is_broken",
        "node",
        "on_durable",
        "restored",
        "unwritten",
        "unwritten_bytes",
    )

    def __init__(self, store: LmdbStore, node: Node, outside: Outside | None = None, *, is_alone: bool = False) -> None:
        """`is_alone` if nobody else could ask for anything while this thread waits for the disk, but for a moment."""
        self._store: Final = store
        self._is_alone = is_alone
        # Until when a batch that nobody waits for is left open.
        self._leave_until: float | None = None
        self._outside: Final[Outside] = Nowhere() if outside is None else outside
        self.node: Final = node
        self.handlers: Final = Handlers(node)
        # What the start did because the store is of a backup; None if it is not.
        self.restored: Restored | None = None
        # How many batches are not durable yet, and the bytes in them.
        self.unwritten = 0
        self.unwritten_bytes = 0
        # The size of each, and when it was submitted.
        self._submitted: deque[tuple[int, float]] = deque()
        # Gets the seconds that each batch took to become durable.
        self.on_durable: Callable[[float], None] | None = None
        self._on_trouble: Callable[[StoreError | None], None] | None = None
        self._on_room: Callable[[Room], None] | None = None
        self._told_trouble = ""
        self._answers: dict[int, Answer] = {}
        # Of queues and cursors being opened for nobody: they are closed when they are open.
        self._abandoned: dict[int, Answer] = {}
        self._last_request = 0
        # When another request than a read, which always does, looks at the timers.
        self._next_tick = 0.0
        # Why nothing more can be asked for.
        self._ended: WaypostError | None = None
        # Whether the node must not even be touched.
        self.is_broken = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        settings: Settings,
        notify: Callable[[], None],
        *,
        max_size: int | None,
        reserve: int | None = None,
        outside: Outside | None = None,
        is_alone: bool = False,
        on_walk: Progress = unheard,
        on_upgrade: Progress = unheard,
    ) -> "Driver":
        """Open the store and start. Blocks until what the start changes is durable; a full disk does not prevent it.

        Two things take a while if the store is large. After an unclean end its pages are looked at first, and `on_walk`
        hears of it; a store of an older format is upgraded, and `on_upgrade` hears of it.
        """
        size = MAX_STORE_SIZE if max_size is None else max_size
        store = LmdbStore(path, notify, max_size=size, reserve=reserve, on_walk=on_walk, on_upgrade=on_upgrade)
        try:
            node, restored = _started(store, settings, path)
            driver = cls(store, node, outside, is_alone=is_alone)
            driver.restored = restored
            driver.node.kernel.room = store.room
            driver.settle()
            while driver.unwritten and driver.node.kernel.trouble is None and not driver.is_broken:
                store.wait()
                driver.poll()
            driver.check()
        except BaseException:
            store.close()
            raise
        return driver

    def backup_ended(self) -> None:
        """A process that read the store has ended, or was killed. Any thread can call it."""
        if not self._store.is_closed:
            self._store.forget_lost_readers()

    def check(self) -> None:
        """Raise why nothing can be asked for any more, if that is so."""
        if self._ended is not None:
            raise _again(self._ended)

    def start(self, operation: Operation[object]) -> Answer:
        """Ask for something. What the operation refuses is raised; `settle` has to follow in either case."""
        if self._ended is not None:
            raise _again(self._ended)
        now = _now()
        self._last_request = request = self._last_request + 1
        answer = self._answers[request] = Answer(request, operation)
        try:
            looks = operation.row.reads_only
            if (answer.waits and not self._is_alone) or looks or now.monotonic >= self._next_tick:
                self._next_tick = now.monotonic + _TICK_SECONDS
                if not (self._is_alone and self.node.long_work):
                    self._tick(now)
            self.handlers.start(Call(request, now), operation)
        except WaypostError:
            del self._answers[request]
            raise
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        return answer

    def tell(self, fact: Callable[[Now], R]) -> R | None:
        """Bring a fact of the network; `settle` has to follow. None if the queue manager is broken."""
        if self.is_broken:
            return None
        try:
            return fact(_now())
        except BaseException as error:
            self._break(error if isinstance(error, StoreError) else ServiceNotAvailable(_INTERRUPTED))
            raise

    @property
    def has_something_to_write(self) -> bool:
        """Whether `settle` would end a batch that others might share."""
        return bool(self.node.messages.batch.operations)

    def settle(self) -> None:
        """Carry out what was asked for so far, as one batch."""
        if self.is_broken:
            return
        while self._carry_out():
            pass

    def _carry_out(self) -> bool:
        """Whether something has become durable meanwhile, so that there is more to do."""
        answers = self._answers
        unused = []
        durable: list[int] = []
        try:
            for effect in self.node.kernel.take_effects(ends_batch=self._ends_batch()):
                if isinstance(effect, Reply):
                    answer = answers.pop(effect.request, None)
                    if answer is not None:
                        answer.value = effect.value
                        answer.end()
                    elif effect.request in self._abandoned:
                        answer = self._abandoned.pop(effect.request)
                        answer.value = effect.value
                        unused.append(answer)
                elif isinstance(effect, Commit):
                    self.unwritten += 1
                    self.unwritten_bytes += effect.batch.size
                    self._submitted.append((effect.batch.size, time.monotonic()))
                    if self._is_alone and self._store.commit_if_quick(effect.batch):
                        durable.append(effect.token)
                    else:
                        self._store.submit(effect.batch, effect.token)
                elif isinstance(effect, Failure):
                    self._abandoned.pop(effect.request, None)
                    self._end(effect.request, effect.error)
                else:
                    self._outside.carry_out(effect)
            for answer in unused:
                self._close(answer)
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        if durable:
            self._take_room()
            self._persisted(durable)
            self._report_troubles()
        if self.node.kernel.failure is not None:
            # What the others wait for will not be written.
            self._break(self.node.kernel.failure)
            return False
        return bool(unused or durable)

    def _ends_batch(self) -> bool:
        """A small batch that nobody waits for is left open for a moment, so that it shares the next flush."""
        batch = self.node.messages.batch
        if not self._is_alone or not batch.operations:
            return True
        now = time.monotonic()
        if self._leave_until is None:
            self._leave_until = now + _LEAVE_SECONDS
        ends = self.node.kernel.is_awaited or now >= self._leave_until or len(batch.operations) > _LEAVE_OPERATIONS
        if ends:
            self._leave_until = None
        return ends

    def poll(self) -> None:
        """Take in what has become durable, or why it cannot."""
        if self.is_broken:
            return
        try:
            tokens = self._store.poll()
            self._take_room()
            self._persisted(tokens)
        except StoreError as error:
            self._break(error)
            return
        self.node.kernel.trouble = trouble = self._store.trouble
        self._report_troubles()
        self.settle()
        if trouble is not None:
            self._tell_trouble(trouble)

    def watch_store(self, tell: Callable[[StoreError | None], None], tell_room: Callable[[Room], None]) -> None:
        """`tell` gets what keeps the store from writing, once when it comes up, and None when it writes again.

        `tell_room` gets the room when nothing new is stored any more, and when something is again.
        """
        self._on_trouble = tell
        self._on_room = tell_room
        self._report_troubles()
        if self.node.kernel.room.is_low:
            tell_room(self.node.kernel.room)

    def _take_room(self) -> None:
        was_low, self.node.kernel.room = self.node.kernel.room.is_low, self._store.room
        if self._on_room is not None and self.node.kernel.room.is_low is not was_low:
            self._on_room(self.node.kernel.room)

    def _report_troubles(self) -> None:
        """Tell of every change, however short it was."""
        if self._on_trouble is None:
            return
        for trouble in self._store.take_troubles():
            if str(trouble) != self._told_trouble:
                self._told_trouble = str(trouble)
                self._on_trouble(trouble)
        if self._told_trouble and self._store.trouble is None:
            self._told_trouble = ""
            self._on_trouble(None)

    def tick(self) -> float | None:
        """Fire the timers that are due. The time of the monotonic clock at which the next one is."""
        if self.is_broken:
            return None
        now = _now()
        try:
            deadline = self._tick(now)
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        self.settle()
        return self._soonest(deadline)

    def catch_up(self) -> None:
        """Fire the timers that are due, for somebody who looks. Work in parts has turns of its own."""
        if not self.is_broken and not self.node.long_work:
            self.tick()

    @property
    def long_work(self) -> str:
        """What is done in parts now, one with every tick; "" if nothing is."""
        return self.node.long_work

    def wake_at(self) -> float | None:
        """When `tick` has something to do."""
        if self.is_broken:
            return None
        deadline = self.node.next_deadline(_now())
        return deadline if self._leave_until is None else self._soonest(deadline)

    def _soonest(self, deadline: float | None) -> float | None:
        """Of this deadline and the end of a batch that was left open."""
        if self._leave_until is None:
            return deadline
        return self._leave_until if deadline is None else min(deadline, self._leave_until)

    def cancel(self, answer: Answer) -> None:
        """Nobody waits for the answer any more. A read that waits for a message ends, and what was opened is closed."""
        is_under_way = self._answers.pop(answer.request, None) is not None
        if self.is_broken:
            return
        if is_under_way and answer.waits:
            self.handlers.cancel(_now(), answer.request, answer.operation)
        elif is_under_way:
            self._abandon(answer)
        elif answer.error is None:
            self._close(answer)
        self.settle()

    def stop(self) -> None:
        """End the reads that wait and the transactions, and let nothing more be asked for."""
        self._ended = ServiceNotAvailable(_CLOSED)
        self._is_alone = False
        self._leave_until = None
        if self.is_broken:
            return
        now = _now()
        try:
            self._cancel_reads(now)
            self.handlers.stop(now)
        except BaseException:
            self._break(self._ended)
            raise
        self.settle()

    def end_reads(self) -> None:
        """End the reads that wait, before `stop`: whoever asked for them hears that they were cancelled."""
        if self.is_broken:
            return
        self._cancel_reads(_now())
        self.settle()

    def close_store(self) -> list[int]:
        """After `stop`: wait until all is written, and let the folder go. For `finish`: what has become durable.

        It touches nothing else, so that others may look at their answers meanwhile.
        """
        return self._store.close()

    @property
    def is_store_closed(self) -> bool:
        """Whether `close_store` came to its end."""
        return self._store.is_closed

    def finish(self, tokens: list[int]) -> None:
        """Give the last answers. Who gets none hears that the queue manager is closed."""
        if not self.is_broken:
            self._persisted(tokens)
            self.settle()
        self._break(self._ended or ServiceNotAvailable(_CLOSED))

    def _cancel_reads(self, now: Now) -> None:
        for answer in tuple(self._answers.values()):
            if answer.waits:
                self.handlers.cancel(now, answer.request, answer.operation)

    def _tell_trouble(self, trouble: StoreError) -> None:
        """Nobody knows when there will be room. Only a receive waits for it: what it has taken must not be lost."""
        for answer in tuple(self._answers.values()):
            if not answer.waits:
                self._end(answer.request, OutcomeUnknown(f"{trouble}{_OPEN_OUTCOME}"))
                self._abandon(answer)
            elif isinstance(answer.operation, Peek | CursorPeek | CursorNext):
                self.cancel(answer)
                answer.error = _again(trouble)
                answer.end()

    def _abandon(self, answer: Answer) -> None:
        if isinstance(answer.operation, OpenQueue | OpenCursor):
            self._abandoned[answer.request] = answer

    def _close(self, answer: Answer) -> None:
        """Close what was opened for nobody."""
        if not isinstance(answer.value, Handle):
            return
        identifier = answer.value.id
        close = CloseQueue if isinstance(answer.operation, OpenQueue) else CloseCursor
        # The handle of a cursor may be closed already, and the cursor with it.
        with suppress(InvalidHandle):
            self.handlers.start(Call(0, _now()), close(identifier=identifier))

    def _persisted(self, tokens: list[int]) -> None:
        now = _now()
        try:
            for token in tokens:
                self.node.persisted(token, now)
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        self.unwritten -= len(tokens)
        for _ in tokens:
            size, submitted = self._submitted.popleft()
            self.unwritten_bytes -= size
            if self.on_durable is not None:
                self.on_durable(now.monotonic - submitted)

    def _tick(self, now: Now) -> float | None:
        deadline = self.node.next_deadline(now)
        if deadline is None or deadline > now.monotonic:
            return deadline
        self.node.tick(now)
        return self.node.next_deadline(now)

    def _end(self, request: int, error: WaypostError) -> None:
        answer = self._answers.pop(request, None)
        if answer is not None:
            answer.error = error
            answer.end()

    def _break(self, error: WaypostError) -> None:
        """Nothing can be done any more but to close."""
        self._ended = error
        self.is_broken = True
        for request in tuple(self._answers):
            self._end(request, _again(error))
        self._outside.broken(error)


def _started(store: LmdbStore, settings: Settings, path: str | Path) -> tuple[Node, Restored | None]:
    """Half a queue manager would do harm: what it is made of is whole, or it does not start."""
    try:
        restored = begin_again(store, _now())
        return Node(store, settings, new_guid, _now()), restored
    except StoreDamaged as error:
        raise StoreDamaged(
            f"{path} cannot be opened: {error}; `waypost store salvage` brings what is whole into a new folder"
        ) from error


def _now() -> Now:
    return Now(time.monotonic(), time.time())


def _again(error: WaypostError) -> WaypostError:
    """An error of one's own for everybody who gets it, so that tracebacks do not mix."""
    return type(error)(*error.args)
