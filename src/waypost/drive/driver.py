"""The queue manager with its store, driven by its caller, and the answers that callers wait for.

A driver has one caller at a time and never waits: `start` starts an operation, `tell` brings a fact of the network,
`settle` carries out the effects, `poll` takes in batches that have become durable. A shell (threads, loop) waits for
Answers, and an Outside carries out effects on the network.

When anything but a WaypostError interrupts the queue manager in the middle of its work, such as Ctrl-C, its state may
be half changed. Then it writes nothing more, and the program has to open it again: all answered operations are durable.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

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
from waypost.drive.keys.settings import KEY_FOLDER, KeySettings
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
from waypost.node.effects import Commit, DropKeyWork, Failure, KeyWork, Reply
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.node.restoring import Restored, begin_again
from waypost.security.callers import QUEUE_MANAGER, Caller
from waypost.store.folder import DATA
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Room
from waypost.store.progress import Progress, unheard

_INTERRUPTED: Final = "the queue manager was interrupted during an operation; close it and open it again"
# A check of the timers costs a tenth of a send, and messages expire by whole seconds.
_TICK_SECONDS: Final = 0.1
# Longest time that a batch waits for another one, and most operations in it.
_LEAVE_SECONDS: Final = 0.01
_LEAVE_OPERATIONS: Final = 1000
_CLOSED: Final = "the queue manager is closed"
_OPEN_OUTCOME: Final = (
    "; the operation is kept in memory, and is stored if the disk works again before the process ends; check the "
    "effect of the operation before you repeat it"
)

if TYPE_CHECKING:
    from waypost.drive.keys.key_desk import KeyDesk

R = TypeVar("R")


class Driver:
    """One queue manager on one store."""

    __slots__ = (
        "_abandoned",
        "_answers",
        "_ended",
        "_is_alone",
        "_keys",
        "_last_request",
        "_leave_until",
        "_next_tick",
        "_on_room",
        "_on_trouble",
        "_open_keys",
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

    def __init__(
        self,
        store: LmdbStore,
        node: Node,
        open_keys: "Callable[[], KeyDesk]",
        outside: Outside | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        """`is_alone` if no other caller has to wait while this thread waits for the disk, except for a moment.

        `open_keys` opens the key folder, with the first use.
        """
        self._open_keys: Final = open_keys
        self._keys: KeyDesk | None = None
        self._store: Final = store
        self._is_alone = is_alone
        # The time until which a batch without a waiting caller stays open.
        self._leave_until: float | None = None
        self._outside: Final[Outside] = Nowhere() if outside is None else outside
        self.node: Final = node
        self.handlers: Final = Handlers(node)
        # Changes of the start to a store from a backup; None for other stores.
        self.restored: Restored | None = None
        # Number of batches that are not durable yet, and their bytes.
        self.unwritten = 0
        self.unwritten_bytes = 0
        # The size of each, and the time of its submission.
        self._submitted: deque[tuple[int, float]] = deque()
        # Gets the seconds that each batch took to become durable.
        self.on_durable: Callable[[float], None] | None = None
        self._on_trouble: Callable[[StoreError | None], None] | None = None
        self._on_room: Callable[[Room], None] | None = None
        self._told_trouble = ""
        self._answers: dict[int, Answer] = {}
        # Queues and cursors that are being opened for a caller that is gone: they are closed once open.
        self._abandoned: dict[int, Answer] = {}
        self._last_request = 0
        # The time of the next check of the timers by a request; a read always checks them.
        self._next_tick = 0.0
        # The reason why operations are refused.
        self._ended: WaypostError | None = None
        # True if the node must not be used at all.
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
        keys: KeySettings | None = None,
        on_walk: Progress = unheard,
        on_upgrade: Progress = unheard,
    ) -> "Driver":
        """Open the store and start. Blocks until the changes of the start are durable; a full disk does not prevent it.

        Two steps take a while if the store is large. After an unclean end its pages are checked first, with progress
        calls of `on_walk`; a store of an older format is upgraded, with progress calls of `on_upgrade`.
        """
        size = MAX_STORE_SIZE if max_size is None else max_size
        store = LmdbStore(path, notify, max_size=size, reserve=reserve, on_walk=on_walk, on_upgrade=on_upgrade)
        driver: Driver | None = None
        try:
            node, restored = _started(store, settings, path)
            open_keys = partial(_key_desk, Path(path), keys or KeySettings(), node, notify)
            driver = cls(store, node, open_keys, outside, is_alone=is_alone)
            if (Path(path) / KEY_FOLDER).exists() or node.directory.is_integrated:
                driver._open_key_folder()
                driver._take_results()
            driver.restored = restored
            driver.node.kernel.room = store.room
            driver.settle()
            while driver.unwritten and driver.node.kernel.trouble is None and not driver.is_broken:
                store.wait()
                driver.poll()
            driver.check()
        except BaseException:
            if driver is not None:
                driver._close_keys()
            store.close()
            raise
        return driver

    def backup_ended(self) -> None:
        """Note that a process that read the store has ended, or was killed. Any thread can call it."""
        if not self._store.is_closed:
            self._store.forget_lost_readers()

    def check(self) -> None:
        """Raise the reason if operations are refused."""
        if self._ended is not None:
            raise _again(self._ended)

    def start(self, operation: Operation[object], caller: Caller) -> Answer:
        """Start an operation of a caller. Raises its error if it is refused; call `settle` in either case."""
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
            self.handlers.start(Call(request, now, caller), operation)
        except WaypostError:
            del self._answers[request]
            raise
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        return answer

    def tell(self, fact: Callable[[Now], R]) -> R | None:
        """Bring a fact of the network; call `settle` afterwards. Returns None if the queue manager is broken."""
        if self.is_broken:
            return None
        try:
            return fact(_now())
        except BaseException as error:
            self._break(error if isinstance(error, StoreError) else ServiceNotAvailable(_INTERRUPTED))
            raise

    @property
    def has_something_to_write(self) -> bool:
        """True if `settle` would end a batch that others might share."""
        return bool(self.node.messages.batch.operations)

    def settle(self) -> None:
        """Carry out the effects of all operations so far, as one batch."""
        if self.is_broken:
            return
        while self._carry_out():
            pass

    def _carry_out(self) -> bool:
        """Carry out the effects. Returns True if a batch has become durable meanwhile: then there is more to do."""
        answers = self._answers
        unused = []
        durable: list[int] = []
        refused: list[tuple[int, ServiceNotAvailable]] = []
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
                elif isinstance(effect, KeyWork):
                    refused += self._begin_key_work(effect)
                elif isinstance(effect, DropKeyWork):
                    if self._keys is not None:
                        self._keys.drop(effect.job)
                elif isinstance(effect, Failure):
                    self._abandoned.pop(effect.request, None)
                    self._end(effect.request, effect.error)
                else:
                    self._outside.carry_out(effect)
            for answer in unused:
                self._close(answer)
            for job, error in refused:
                self.node.kernel.job_done(job, error, _now())
        except BaseException:
            self._break(ServiceNotAvailable(_INTERRUPTED))
            raise
        if durable:
            self._take_room()
            self._persisted(durable)
            self._report_troubles()
        if self.node.kernel.failure is not None:
            # The batch of the others will not be written.
            self._break(self.node.kernel.failure)
            return False
        return bool(unused or durable or refused)

    def _ends_batch(self) -> bool:
        """Whether to end the batch: a small one without a waiting caller stays open for a moment, to share a flush."""
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
        """Take in the batches that have become durable, or the error of the store."""
        if self.is_broken:
            return
        try:
            tokens = self._store.poll()
            self._take_room()
            self._persisted(tokens)
            self._take_results()
        except StoreError as error:
            self._break(error)
            return
        self.node.kernel.trouble = trouble = self._store.trouble
        self._report_troubles()
        self.settle()
        if trouble is not None:
            self._tell_trouble(trouble)

    def _begin_key_work(self, effect: KeyWork) -> list[tuple[int, ServiceNotAvailable]]:
        """Begin some work with keys, or return its error: a message of a stranger must not end the queue manager."""
        was_open, refused = self._keys is not None, []
        try:
            self._open_key_folder().start(effect)
        except Exception as error:  # noqa: BLE001, the asker gets it
            refused.append((effect.job, ServiceNotAvailable(f"the operation with keys failed: {error}")))
        if not was_open:
            self._take_results()
        return refused

    def _open_key_folder(self) -> "KeyDesk":
        if self._keys is None:
            keys = self._open_keys()
            try:
                if self.node.directory.is_integrated:
                    # MS-MQDMPR 3.1.3: other queue managers find the keys in the directory.
                    keys.folder.make_keys()
            except BaseException:
                keys.close()
                raise
            self._keys = keys
        return self._keys

    def _close_keys(self) -> None:
        if self._keys is not None:
            self._keys.close()

    def _take_results(self) -> None:
        """Bring the engine what has become of the work with keys."""
        if self._keys is None:
            return
        # The facts come later than these results, so that they are at least as new. A result that comes after them has
        # its own alarm.
        finished = self._keys.finished
        facts = self._keys.take_facts()
        if facts is not None:
            self.node.protection.facts_changed(facts)
        for _ in range(finished):
            self.node.kernel.job_done(*self._keys.take(), _now())

    def watch_store(self, tell: Callable[[StoreError | None], None], tell_room: Callable[[Room], None]) -> None:
        """Report troubles of the store: `tell` gets the error once when writes fail, and None when they work again.

        `tell_room` gets the room when the store begins to refuse new messages, and when it takes them again.
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
        """Report every change, however short it was."""
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
        """Fire the timers that are due. Returns the time of the next one on the monotonic clock."""
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
        """Fire the timers that are due, before a look at the queue manager. Work in parts waits for its own turns."""
        if not self.is_broken and not self.node.long_work:
            self.tick()

    @property
    def long_work(self) -> str:
        """Name of the work that is done in parts, one with every tick; "" for none."""
        return self.node.long_work

    def wake_at(self) -> float | None:
        """The time when `tick` has something to do, on the monotonic clock."""
        if self.is_broken:
            return None
        deadline = self.node.next_deadline(_now())
        return deadline if self._leave_until is None else self._soonest(deadline)

    def _soonest(self, deadline: float | None) -> float | None:
        """The earlier of this deadline and the end of an open batch."""
        if self._leave_until is None:
            return deadline
        return self._leave_until if deadline is None else min(deadline, self._leave_until)

    def cancel(self, answer: Answer) -> None:
        """Cancel a request. A read that waits for a message ends, and a handle that it opened is closed."""
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
        """End the reads that wait and the transactions, and refuse all further operations."""
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
        self._close_keys()

    def end_reads(self) -> None:
        """End the reads that wait, before `stop`: their callers get OperationCancelled."""
        if self.is_broken:
            return
        self._cancel_reads(_now())
        self.settle()

    def close_store(self) -> list[int]:
        """Wait until all is written, and free the folder, after `stop`. Returns the durable batches, for `finish`.

        It uses nothing else, so that callers may read their answers meanwhile.
        """
        return self._store.close()

    @property
    def is_store_closed(self) -> bool:
        """True when `close_store` has ended."""
        return self._store.is_closed

    def finish(self, tokens: list[int]) -> None:
        """Give the last answers. Callers without an answer get the error that the queue manager is closed."""
        if not self.is_broken:
            self._persisted(tokens)
            self.settle()
        self._break(self._ended or ServiceNotAvailable(_CLOSED))

    def _cancel_reads(self, now: Now) -> None:
        for answer in tuple(self._answers.values()):
            if answer.waits:
                self.handlers.cancel(now, answer.request, answer.operation)

    def _tell_trouble(self, trouble: StoreError) -> None:
        """End the waits with the error, since they may take long. Only receives go on: they must not lose messages."""
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
        """Close a queue or cursor that was opened for a caller that is gone."""
        if not isinstance(answer.value, Handle):
            return
        identifier = answer.value.id
        close = CloseQueue if isinstance(answer.operation, OpenQueue) else CloseCursor
        # The handle of a cursor may be closed already, and the cursor with it.
        with suppress(InvalidHandle):
            self.handlers.start(Call(0, _now(), QUEUE_MANAGER), close(identifier=identifier))

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
        """Refuse all further operations except to close."""
        self._ended = error
        self.is_broken = True
        for request in tuple(self._answers):
            self._end(request, _again(error))
        self._outside.broken(error)


def _started(store: LmdbStore, settings: Settings, path: str | Path) -> tuple[Node, Restored | None]:
    """Start the queue manager of a store. With damaged records it does not start: half a queue manager does harm."""
    try:
        restored = begin_again(store, _now())
        return Node(store, settings, new_guid, _now()), restored
    except StoreDamaged as error:
        raise StoreDamaged(
            f"cannot open {Path(path) / DATA}: {error}; `waypost store salvage` copies all intact records to a new "
            "folder"
        ) from error


def _key_desk(path: Path, settings: KeySettings, node: Node, notify: Callable[[], None]) -> "KeyDesk":
    # Only programs that use keys have to wait for this import.
    desk: KeyDesk = import_module("waypost.drive.keys.key_desk").opened(path, settings, node, notify)
    return desk


def _now() -> Now:
    return Now(time.monotonic(), time.time())


def _again(error: WaypostError) -> WaypostError:
    """A copy of an error for each caller, so that tracebacks do not mix."""
    return type(error)(*error.args)
