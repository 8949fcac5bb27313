"""One turn of the engine: the time, the current batch, the effects that wait for it, and all timers.

Every component has the Kernel and never the Node, so that nothing below the Node knows its owner. All changes of an
operation go into the batch, and its answer waits until this batch is durable; an answer that shows a message which is
not yet durable waits for the batch of that message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.ports import ReadEnded
from waypost.errors import DecodeError, StoreDamaged, StoreError, StoreFull, WaypostError
from waypost.limits import PARTS_AHEAD
from waypost.node.damaged import DamagedMessages
from waypost.node.effects import Commit, DropKeyWork, Effect, Failure, KeyRequest, KeyWork, Notice, Reply
from waypost.node.failures import failure
from waypost.node.noted import Noted
from waypost.node.stored_messages import StoredMessages
from waypost.security.callers import QUEUE_MANAGER, Caller
from waypost.store.port import PLENTY, Reader, Room
from waypost.timers import Timers

# Work for when something is durable; called with the time then.
Later = Callable[[Now], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One request of an application: its number, which the shell chose, the time of arrival, and the caller.

    A Reply or a Failure with this number answers it: at once, or when the changes are durable, or when a wait has
    ended. An impossible request raises at once, and has changed nothing unless the operation says so.
    """

    request: int
    now: Now
    caller: Caller


# A waiting read: its request, the form of its answer, the work at its end, and its caller.
_Wait = tuple[int, Callable[[Message], object], Callable[[Now], None], Caller]


class Kernel:
    """The engine of one node. `with kernel.operation(now):` is the frame of every operation."""

    __slots__ = (
        "_effects",
        "_expire",
        "_held_back",
        "_jobs",
        "_last_job",
        "_later",
        "_refusals",
        "_settle",
        "_waits",
        "caller",
        "damaged",
        "durable",
        "failure",
        "mark",
        "messages",
        "noted",
        "now",
        "ready",
        "room",
        "timers",
        "trouble",
    )

    # The time of the current operation.
    now: Now
    # The caller of the current operation; the queue manager itself, unless an application or a peer has asked.
    caller: Caller
    # The last durable batch.
    durable: int
    # Number of writes in the batch when the operation began.
    mark: int
    # The reason why the store cannot write now, and its room: the shell sets both after every poll.
    trouble: StoreError | None
    room: Room
    # The reason why nothing more can be written before a restart.
    failure: StoreError | None
    # The answers of the current operation.
    ready: list[Effect]
    # The entry of the current operation for the audit trail; None if it is not audited.
    noted: Noted | None

    def __init__(
        self, reader: Reader, now: Now, expire: Callable[[Now], None], settle: Callable[[Now], None]
    ) -> None:  # fmt: skip
        """`expire` runs before every operation, so that no operation sees expired messages.

        `settle` runs at its end, handles its events, and releases the answers.
        """
        self.now = now
        self.caller = QUEUE_MANAGER
        self.durable = 0
        self.trouble = None
        self.room = PLENTY
        self.failure = None
        self._expire: Final = expire
        self._settle: Final = settle
        self._effects: list[Effect] = []
        self.ready = []
        self.noted = None
        self._held_back: dict[int, list[Effect]] = {}
        self._later: dict[int, list[Later]] = {}
        self._waits: dict[int, _Wait] = {}
        # The reasons of waits that end because their callers may not read any more.
        self._refusals: dict[int, WaypostError] = {}
        # The rest of the work that waits for keys, by the number of the job.
        self._jobs: dict[int, Callable[[object, Now], None]] = {}
        self._last_job = 0
        self.timers: Final = Timers()
        self.damaged: Final = DamagedMessages(reader, self)
        self.messages: Final = StoredMessages(reader, self.damaged)
        self.mark = 0

    # One operation after the other.

    def operation(self, now: Now) -> "Kernel":
        """The context of one operation, at its time."""
        if self.failure is not None:
            raise self.failure
        self.now = now
        self._expire(now)
        # Writes and reads of the operation from here on decide what its answers wait for.
        self.mark = len(self.messages.batch.operations)
        self.messages.read_token = 0
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        """End the operation: handle its events, and give or hold back its answers.

        Changes before an error are settled all the same. Raises StoreDamaged if a message that this needs is
        unreadable: half-done changes then never become durable, no further operation is accepted, and the queue manager
        has to start again.
        """
        try:
            self._settle(self.now)
        except (DecodeError, StoreDamaged) as error:
            self.ready.clear()
            self.failure = StoreDamaged(f"cannot read a message of the store: {error}")
            raise self.failure from error

    @property
    def is_behind(self) -> bool:
        """Whether work in parts waits for the store: a send would wait for all parts before it."""
        return self.messages.token - 1 - self.durable > PARTS_AHEAD

    @property
    def last_token(self) -> int:
        """The token of the last batch with content."""
        return self.messages.token if self.messages.batch.operations else self.messages.token - 1

    def await_everything(self) -> None:
        """Let the answers of this operation wait for all work so far, because they rely on it."""
        self.messages.read_token = self.last_token

    # Effects.

    def emit(self, effect: Effect) -> None:
        """Give the shell an effect that promises nothing, or only durable facts."""
        self._effects.append(effect)

    def notice(self, event: str, **facts: object) -> None:
        """Write a line for the operator to the log."""
        self._effects.append(Notice(event, facts))

    def count(self, number: int) -> None:
        """Note the number of objects that the current operation is about, for the audit trail."""
        if self.noted is not None:
            self.noted.count = number

    def promise(self, effect: Effect) -> None:
        """Give the shell an effect at the end of the operation, when all changes so far are durable."""
        self.ready.append(effect)

    def reply(self, request: int, value: object = None) -> None:
        """Answer a request at the end of the operation."""
        self.ready.append(Reply(request, value))

    def fail(self, request: int, error: WaypostError) -> None:
        """Answer a request with an error at the end of the operation."""
        self.ready.append(Failure(request, error))

    def await_read(
        self, call: Call, wait_id: int, form: Callable[[Message], object], when_ended: Callable[[Now], None]
    ) -> None:
        """Answer a request with the message in this form when its waiting read ends.

        `when_ended` runs first, with any end of the read.
        """
        self._waits[wait_id] = call.request, form, when_ended, call.caller

    def reader(self, wait_id: int) -> Caller | None:
        """The caller of a waiting read of an application."""
        found = self._waits.get(wait_id)
        return None if found is None else found[3]

    def refuse_read(self, wait_id: int, error: WaypostError) -> None:
        """Keep the error for a waiting read that is about to end without a message."""
        self._refusals[wait_id] = error

    def end_read(self, ended: ReadEnded) -> None:
        request, form, when_ended, _ = self._waits.pop(ended.wait_id)
        when_ended(self.now)
        if ended.message is not None:
            self.reply(request, form(ended.message))
        else:
            refusal = self._refusals.pop(ended.wait_id) if ended.wait_id in self._refusals else None
            self.fail(request, refusal or failure(ended.status))

    def ask_keys(self, request: KeyRequest, then: Callable[[object, Now], None], peer: str = "") -> int:
        """Let the shell do some work with keys, and go on in an operation, with its result or its WaypostError.

        `peer` is the peer whose turn it takes. Returns the number of the job, for `drop_keys`.
        """
        self._last_job += 1
        self._jobs[self._last_job] = then
        self.emit(KeyWork(self._last_job, request, peer))
        return self._last_job

    def drop_keys(self, job: int) -> None:
        """Forget a job for which nobody waits any more, with all that it would go on with."""
        if self._jobs.pop(job, None) is not None:
            self.emit(DropKeyWork(job))

    def ask_keys_for(self, call: Call, request: KeyRequest, then: Callable[[Call, object], None]) -> None:
        """As `ask_keys`, for a request of an application: an error of the work, or of `then`, answers it.

        The entry of the operation for the audit trail waits too: only the answer shows the result.
        """
        noted, self.noted = self.noted, None

        def go_on(result: object, now: Now) -> None:
            self.caller, self.noted = call.caller, noted
            problem: WaypostError | None = None
            try:
                if isinstance(result, WaypostError):
                    raise result
                then(replace(call, now=now), result)
            except WaypostError as error:
                problem = error
                self.fail(call.request, error)
            finally:
                # Another wait has taken over the entry.
                is_over = self.noted is noted
                self.caller, self.noted = QUEUE_MANAGER, None
            if noted is not None and is_over:
                noted.end(problem, now)

        self.ask_keys(request, go_on)

    def job_done(self, job: int, result: object, now: Now) -> None:
        """Go on with the result of work with keys."""
        then = self._jobs.pop(job, None)
        if then is not None and self.failure is None:
            with self.operation(now):
                then(result, now)

    def release(self, token: int) -> None:
        """Let the answers of the operation go when this batch is durable."""
        self.hold(self.ready, token)
        self.ready = []

    def hold(self, effects: Sequence[Effect], token: int) -> None:
        """Let effects go when this batch is durable."""
        assert token <= self.messages.token, f"an answer waits for batch {token}, but {self.messages.token} is the last"
        if token <= self.durable:
            self._effects += effects
        else:
            self._held_back.setdefault(token, []).extend(effects)

    def take_effects(self, *, ends_batch: bool = True) -> list[Effect]:
        """The effects to carry out, in order. The current batch ends here if `ends_batch`."""
        if ends_batch and self.messages.batch.operations and self.failure is None:
            self._effects.append(Commit(*self.messages.seal()))
        effects, self._effects = self._effects, []
        return effects

    # Durability.

    @property
    def is_awaited(self) -> bool:
        """Whether anything waits for the current batch."""
        return self.messages.token in self._held_back or self.messages.token in self._later

    def when_durable(self, later: Later) -> None:
        """Do something when all changes so far are durable, which may be now."""
        token = self.last_token
        if token <= self.durable:
            later(self.now)
        else:
            self._later.setdefault(token, []).append(later)

    def persisted(self, token: int) -> None:
        """Note that a batch is durable, and with it all batches before it. Release the effects that wait for it."""
        assert token == self.durable + 1, f"batch {token} is durable before batch {self.durable + 1}"
        self.durable = token
        self.messages.persisted(token)
        self._effects += self._held_back.pop(token, ())

    def go_on(self, token: int, now: Now) -> None:
        """Do the work that waited for this durable batch."""
        later = self._later.pop(token, None)
        if later is not None and self.failure is None:
            with self.operation(now):
                for do in later:
                    do(now)

    # Room for more.

    def check_store(self) -> None:
        """Raise the error that keeps the store from writing, before work that would wait for it."""
        if self.trouble is not None:
            raise self.trouble

    def check_room(self, size: int = 0, largest: int = 0) -> None:
        """Raise as `check_store`, and StoreFull if the disk has no room for new messages beside its reserve.

        Call it before any change: a refused message is not stored later. `size` counts the bytes of all messages, and
        `largest` those of the largest. Receives and removals do not call it.
        """
        self.check_store()
        if not self.has_room(size, largest):
            raise self.no_room(size, largest)

    def no_room(self, size: int, largest: int) -> StoreFull:
        """The error for messages of this size that find no room."""
        return self.room.refusal(self.messages.admitted_bytes, size, largest)

    def has_room(self, size: int, largest: int) -> bool:
        """Whether messages of this size find room on the disk behind all that were admitted before."""
        return self.room.takes(self.messages.admitted_bytes, size, largest)
