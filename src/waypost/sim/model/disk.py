"""The disk of the model: its own batches beside those of the engine, and the records that have to be durable."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from waypost.guid import NULL_GUID
from waypost.sim.bulk.arguments import PlannedBatch
from waypost.sim.local.arguments import Draft
from waypost.sim.model.records import ModelMessage
from waypost.sim.plans import Plan
from waypost.wire.message_class import MessageClass


class StepKind(Enum):
    SEND = auto()
    RECEIVE = auto()
    MOVE = auto()


@dataclass(frozen=True, slots=True)
class SavedQueue:
    key: str
    plan: Plan
    parent: int


@dataclass(frozen=True, slots=True)
class SavedMessage:
    message: ModelMessage
    abort_count: int
    move_count: int
    is_purged: bool


@dataclass(frozen=True, slots=True)
class SavedStep:
    """One operation of a transaction: on the message at `place`, to the queue `target` if it is a move."""

    kind: StepKind
    place: tuple[int, int]
    target: int = 0
    reason: MessageClass = MessageClass.MQMSG_CLASS_ACK_RECEIVE


@dataclass(frozen=True, slots=True)
class Holder:
    """The reader of a claim: its term, the query with its runs, and what the query has written of its batch."""

    term: int = 0
    driver: str = ""
    asked: float = 0.0
    leader: str = ""
    is_lost: bool = False
    query: str = ""
    batch: int | None = None
    written: int = 0
    run: bytes = NULL_GUID


@dataclass(frozen=True, slots=True)
class SavedClaim:
    """The last processed part of a claim, and the last part that was given out, with its messages."""

    lease_s: float
    max_aborts: int
    settled: int
    given: int
    size: int
    lookup_ids: tuple[int, ...]
    holder: Holder


@dataclass(slots=True)
class StagedMessage:
    """A message of a stage, for the queue with this number. A loud one asks for attention or expires."""

    queue: int
    draft: Draft
    size: int
    expiry: int | None
    is_loud: bool
    is_first: bool = False
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class SavedStage:
    """The stage of a batch of a query: the number of messages that are left, and their bytes.

    `stage` is the ModelStage to go on with.
    """

    lease_s: float
    batch: PlannedBatch
    left: int
    size: int
    is_committed: bool
    stage: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Done:
    """A committed write of a batch: its run, its stages, its number of messages, and its place among the writes."""

    number: int
    run: bytes
    digest: bytes
    count: int
    ordinal: int = 0
    write: bytes = NULL_GUID


@dataclass(frozen=True, slots=True)
class SavedDone:
    """The commits of a query to a destination, and the writes that its last run has repeated."""

    commits: tuple[Done, ...]
    passed: tuple[tuple[int, bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SavedLostRun:
    """A run of a query that has lost this claim."""

    claim: str


@dataclass(frozen=True, slots=True)
class BulkKey:
    """A claim by the number of its queue and its name, a stage by its GUID, commits by query and destination, a lost
    run by query and GUID.
    """

    queue: int
    name: str | bytes | tuple[str, str | None] | tuple[str, bytes]


# The key shows the kind: the number of a queue, the place of a message (queue, LookupIdentifier), the GUID of a
# transaction, or a key of the bulk interface.
Key = int | tuple[int, int] | bytes | BulkKey
SavedBulk = SavedClaim | SavedStage | SavedDone | SavedLostRun
Saved = SavedQueue | SavedMessage | tuple[SavedStep, ...] | SavedBulk
Change = tuple[Key, Saved | None]


class ModelDisk:
    """The disk. `durable` counts the batches of this life that are on it; `token` is that of the batch in progress."""

    __slots__ = ("_sealed", "bulk", "durable", "highest_queue", "making", "messages", "queues", "token", "transactions")

    def __init__(self) -> None:
        self.queues: Final[dict[int, SavedQueue]] = {}
        self.messages: Final[dict[tuple[int, int], SavedMessage]] = {}
        self.transactions: Final[dict[bytes, tuple[SavedStep, ...]]] = {}
        self.bulk: Final[dict[BulkKey, SavedBulk]] = {}
        self.token = 1
        self.durable = 0
        # The highest number of a queue that was ever on the disk.
        self.highest_queue = 0
        # The changes in the batch in progress.
        self.making: list[Change] = []
        self._sealed: deque[list[Change]] = deque()

    def write(self, key: Key, saved: Saved | None) -> None:
        self.making.append((key, saved))

    def seal(self) -> None:
        self._sealed.append(self.making)
        self.making = []
        self.token += 1

    def complete(self, count: int) -> None:
        for _ in range(count):
            self.durable += 1
            for key, saved in self._sealed.popleft():
                self._apply(key, saved)

    def crash(self) -> None:
        self.making = []
        self._sealed.clear()
        self.token, self.durable = 1, 0

    def _apply(self, key: Key, saved: Saved | None) -> None:
        table = self._table(key)
        if saved is None:
            table.pop(key, None)
        else:
            table[key] = saved
            if type(key) is int:
                self.highest_queue = max(self.highest_queue, key)

    def _table(self, key: Key) -> dict[Key, Saved]:
        tables = {int: self.queues, tuple: self.messages, bytes: self.transactions, BulkKey: self.bulk}
        return tables[type(key)]  # type: ignore[return-value]
