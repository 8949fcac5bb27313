"""One turn of the engine: the time, the batch that is being made, what waits for it, and all timers.

Every component has the Kernel and never the Node, so that nothing below the Node knows what it is a part of. All that
an operation changes goes into the batch, and its answer waits until this batch is durable; an answer that shows a
message which is not yet durable waits for that one's batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.ports import ReadEnded
from waypost.errors import DecodeError, StoreDamaged, StoreError, StoreFull, WaypostError
from waypost.limits import PARTS_AHEAD
from waypost.node.damaged import DamagedMessages
from waypost.node.effects import Commit, Effect, Failure, Notice, Reply
from waypost.node.failures import failure
from waypost.node.stored_messages import StoredMessages
from waypost.store.port import PLENTY, Reader, Room
from waypost.timers import Timers

# To be done when something is durable, with the time that it is then.
Later = Callable[[Now], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One request of an application: its number, which the caller chose, and when it came.

    It is answered with a Reply or a Failure of this number: at once, or when what was done is durable, or when a wait
    has ended. What cannot be done is raised at once, and has changed nothing unless the operation says so.
    """

    request: int
    now: Now


class Kernel:
    """See the module. `with kernel.operation(now):` is the frame of everything that can be asked for."""

    __slots__ = (
        "_effects",
        "_expire",
        "_held_back",
        "_later",
        "_settle",
        "_waits",
        "damaged",
        "durable",
        "failure",
        "mark",
        "messages",
        "now",
        "ready",
        "room",
        "timers",
        "trouble",
    )

    # The time of the operation that is under way.
    now: Now
    # The last batch that is durable.
    durable: int
    # How many operations the batch had when the operation began.
    mark: int
    # Why the store cannot write now, and what it has room for: the shell says so, after every poll.
    trouble: StoreError | None
    room: Room
    # Why nothing more can be written in this life.
    failure: StoreError | None
    # What the operation that is under way has answered.
    ready: list[Effect]

    def __init__(
        self, reader: Reader, now: Now, expire: Callable[[Now], None], settle: Callable[[Now], None]
    ) -> None:  # fmt: skip
        """`expire` comes before every operation: what is over by then is had by nobody.

        `settle` comes at its end, does what its events ask for, and releases the answers.
        """
        self.now = now
        self.durable = 0
        self.trouble = None
        self.room = PLENTY
        self.failure = None
        self._expire: Final = expire
        self._settle: Final = settle
        self._effects: list[Effect] = []
        self.ready = []
        self._held_back: dict[int, list[Effect]] = {}
        self._later: dict[int, list[Later]] = {}
        self._waits: dict[int, tuple[int, Callable[[Message], object], Callable[[Now], None]]] = {}
        self.timers: Final = Timers()
        self.damaged: Final = DamagedMessages(reader, self)
        self.messages: Final = StoredMessages(reader, self.damaged)
        self.mark = 0

    # One operation, which comes after the other.

    def operation(self, now: Now) -> "Kernel":
        """To be entered for everything that can be asked for, at its time."""
        if self.failure is not None:
            raise self.failure
        self.now = now
        self._expire(now)
        # What the operation writes and reads from here decides what its answers wait for.
        self.mark = len(self.messages.batch.operations)
        self.messages.read_token = 0
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        """The operation is over: do what its events ask for, and give or hold back what was answered.

        What it did before an error is settled all the same. Raises StoreDamaged if a message cannot be read for that:
        what is half done then never becomes durable, nothing more can be asked for, and the queue manager has to start
        again.
        """
        try:
            self._settle(self.now)
        except (DecodeError, StoreDamaged) as error:
            self.ready.clear()
            self.failure = StoreDamaged(f"a message of the store cannot be read: {error}")
            raise self.failure from error

    @property
    def is_behind(self) -> bool:
        """Whether work in parts waits for the store: a send would wait for all parts that were done before it."""
        return self.messages.token - 1 - self.durable > PARTS_AHEAD

    @property
    def last_token(self) -> int:
        """That of the last batch with something in it."""
        return self.messages.token if self.messages.batch.operations else self.messages.token - 1

    def await_everything(self) -> None:
        """Let the answers of this operation wait for all that was done so far: they rest on it."""
        self.messages.read_token = self.last_token

    # What leaves.

    def emit(self, effect: Effect) -> None:
        """Ask the shell for something that promises nothing, or nothing that is not durable."""
        self._effects.append(effect)

    def notice(self, event: str, **facts: object) -> None:
        """Tell the operator."""
        self._effects.append(Notice(event, facts))

    def promise(self, effect: Effect) -> None:
        """Ask the shell for something at the end of the operation, when what was done by then is durable."""
        self.ready.append(effect)

    def reply(self, request: int, value: object = None) -> None:
        """Answer a request at the end of the operation."""
        self.ready.append(Reply(request, value))

    def fail(self, request: int, error: WaypostError) -> None:
        """The same for a request that has come to nothing."""
        self.ready.append(Failure(request, error))

    def await_read(
        self, request: int, wait_id: int, form: Callable[[Message], object], when_ended: Callable[[Now], None]
    ) -> None:
        """Answer a request with the message in this form when the read that waits has ended.

        `when_ended` comes first, however the read has ended.
        """
        self._waits[wait_id] = request, form, when_ended

    def end_read(self, ended: ReadEnded) -> None:
        request, form, when_ended = self._waits.pop(ended.wait_id)
        when_ended(self.now)
        if ended.message is not None:
            self.reply(request, form(ended.message))
        else:
            self.fail(request, failure(ended.status))

    def release(self, token: int) -> None:
        """Let what the operation has answered go when this batch is durable."""
        self.hold(self.ready, token)
        self.ready = []

    def hold(self, effects: Sequence[Effect], token: int) -> None:
        """Let effects go when this batch is durable."""
        assert token <= self.messages.token, f"an answer waits for batch {token}, and {self.messages.token} is the last"
        if token <= self.durable:
            self._effects += effects
        else:
            self._held_back.setdefault(token, []).extend(effects)

    def take_effects(self, *, ends_batch: bool = True) -> list[Effect]:
        """What is to be done, in this order. The batch that is being made ends here, if it shall."""
        if ends_batch and self.messages.batch.operations and self.failure is None:
            self._effects.append(Commit(*self.messages.seal()))
        effects, self._effects = self._effects, []
        return effects

    # What is durable.

    @property
    def is_awaited(self) -> bool:
        """Whether anything waits for the batch that is being made."""
        return self.messages.token in self._held_back or self.messages.token in self._later

    def when_durable(self, later: Later) -> None:
        """Have something done when all that was done so far is durable, which may be now."""
        token = self.last_token
        if token <= self.durable:
            later(self.now)
        else:
            self._later.setdefault(token, []).append(later)

    def persisted(self, token: int) -> None:
        """A batch is durable, and with it all batches before it. What waited for it leaves."""
        assert token == self.durable + 1, f"batch {token} is durable before batch {self.durable + 1}"
        self.durable = token
        self.messages.persisted(token)
        self._effects += self._held_back.pop(token, ())

    def go_on(self, token: int, now: Now) -> None:
        """Do what had to wait for this batch, which is durable."""
        later = self._later.pop(token, None)
        if later is not None and self.failure is None:
            with self.operation(now):
                for do in later:
                    do(now)

    # Whether there is room for more.

    def check_store(self) -> None:
        """Raise what keeps the store from writing, for what would have to wait for it."""
        if self.trouble is not None:
            raise self.trouble

    def check_room(self, size: int = 0, largest: int = 0) -> None:
        """The same for what is to be stored, and raise StoreFull if the disk has no room beside its reserve.

        To be asked before anything has changed: what is refused is not stored later. `size` counts the bytes of all
        messages, and `largest` those of the largest. Receives and removals do not ask.
        """
        self.check_store()
        if not self.has_room(size, largest):
            raise self.no_room(size, largest)

    def no_room(self, size: int, largest: int) -> StoreFull:
        """Why this much finds no room."""
        return self.room.refusal(self.messages.admitted_bytes, size, largest)

    def has_room(self, size: int, largest: int) -> bool:
        """Whether this much finds room on the disk behind all that was admitted before."""
        return self.room.takes(self.messages.admitted_bytes, size, largest)
