"""The records of the model: messages, queues, handles, waits and answers."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from waypost.core.queues import AccessType, ShareMode
from waypost.hresult import HResult
from waypost.rpc.calls import FaultStatus
from waypost.sim.local.arguments import Draft
from waypost.sim.plans import Plan
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import UNLIMITED

if TYPE_CHECKING:
    from waypost.sim.model.cursor import ModelCursor

KILOBYTE: Final = 1024
BEFORE_ALL: Final = -1
BEHIND_ALL: Final = 8 << 56
SEQUENCE: Final = (1 << 56) - 1


class State(Enum):
    """State of a message. LATE: its time is over, so that no reader gets it, and it is not removed yet."""

    AVAILABLE = auto()
    LOCKED = auto()
    PURGE_PENDING = auto()
    LATE = auto()


class Refused(Exception):
    """The operation fails at once with this status."""

    def __init__(self, status: HResult) -> None:
        super().__init__(status.name)
        self.status = status


@dataclass(slots=True, eq=False)
class ModelMessage:
    """One message in one place. A copy in a journal or dead-letter queue, and an acknowledgment, are messages too.

    `is_uncertain` is a message sent in a transaction that has no outcome yet; while nothing of it is written, it is
    also `is_held`. `written` is the last batch that wrote it. `is_purge_saved` says that a restart will
    find it purged.
    """

    draft: Draft
    size: int
    recoverable: bool
    transactional: bool
    lookup_id: int = 0
    expiry: int | None = None
    message_class: int = MessageClass.MQMSG_CLASS_NORMAL
    is_acknowledgment: bool = False
    abort_count: int = 0
    move_count: int = 0
    is_first: bool = False
    is_last: bool = False
    queue: "ModelQueue | None" = None
    state: State = State.AVAILABLE
    is_shown: bool = False
    is_expired: bool = False
    is_uncertain: bool = False
    is_held: bool = False
    is_purge_saved: bool = False
    written: int = 0

    @property
    def asks(self) -> bool:
        """Whether the sender gets a notice. Messages of the system itself lead to none."""
        draft = self.draft
        return self.message_class == MessageClass.MQMSG_CLASS_NORMAL and bool(
            draft.positive_journaling or draft.negative_journaling or (draft.acknowledgements and draft.administration)
        )

    @property
    def is_volatile(self) -> bool:
        return self.is_held or not self.recoverable

    def copy(self) -> "ModelMessage":
        """A copy of the message for another place."""
        return replace(
            self,
            queue=None,
            state=State.AVAILABLE,
            is_shown=False,
            is_expired=False,
            is_uncertain=False,
            is_held=False,
            is_purge_saved=False,
            written=0,
        )

    def __str__(self) -> str:
        kind = "acknowledgment of " if self.is_acknowledgment else ""
        return f"{kind}<{self.draft.uid}> {self.lookup_id:#x}"


@dataclass(slots=True, eq=False)
class ModelQueue:
    """A queue: `order` has the LookupIdentifiers of `messages`, ascending."""

    number: int
    key: str
    plan: Plan
    parent: "ModelQueue | None" = None
    order: list[int] = field(default_factory=list)
    messages: dict[int, ModelMessage] = field(default_factory=dict)
    total_bytes: int = 0
    is_deleted: bool = False
    # A subqueue that is only looked into: it has no number, and disappears with its last handle.
    is_provisional: bool = False
    handles: dict[int, "ModelHandle"] = field(default_factory=dict)
    waiting: dict[int, "ModelHandle"] = field(default_factory=dict)

    @property
    def is_journal(self) -> bool:
        return self.key.endswith(";journal")

    @property
    def is_system(self) -> bool:
        return self.key.startswith(";") or self.key.endswith("$")

    @property
    def lets_expire(self) -> bool:
        return not self.is_journal and not self.is_system

    def has_room(self, size: int) -> bool:
        return self.plan.quota == UNLIMITED or self.total_bytes + size <= self.plan.quota * KILOBYTE

    def can_ever_fit(self, size: int) -> bool:
        return self.plan.quota == UNLIMITED or size <= self.plan.quota * KILOBYTE

    def put(self, message: ModelMessage) -> None:
        insort(self.order, message.lookup_id)
        self.messages[message.lookup_id] = message
        self.total_bytes += message.size
        message.queue = self

    def take(self, message: ModelMessage) -> None:
        del self.order[bisect_left(self.order, message.lookup_id)]
        del self.messages[message.lookup_id]
        self.total_bytes -= message.size
        message.queue = None

    def present(self) -> list[ModelMessage]:
        """The messages without the late ones."""
        return [message for message in self.messages.values() if message.state is not State.LATE]

    def following(self, after: int) -> Iterator[ModelMessage]:
        return (self.messages[lookup_id] for lookup_id in self.order[bisect_right(self.order, after) :])

    def preceding(self, before: int) -> Iterator[ModelMessage]:
        return (self.messages[lookup_id] for lookup_id in reversed(self.order[: bisect_left(self.order, before)]))


@dataclass(slots=True, eq=False)
class ModelHandle:
    """A handle. `opened_by` is a permanent number: the request of the remote reader that opened it, or an unused one.

    A pointer goes by the engine's id of its cursor. `is_closed` says that the handle is gone, not only its queue.
    """

    opened_by: int
    queue: ModelQueue | None
    access: AccessType
    share: ShareMode = ShareMode.DENY_NONE
    is_closed: bool = False
    pointers: "dict[int | str, ModelCursor]" = field(default_factory=dict)
    waits: "dict[int, Wait]" = field(default_factory=dict)
    two_phase: dict[int, ModelMessage] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Wait:
    """A read that waits, under the number of its request. `then` gets the answer instead of the caller.

    `tag` is the number by which a remote reader knows the read.
    """

    request: int
    handle: ModelHandle
    takes: bool
    two_phase: bool = False
    transaction: bytes | None = None
    pointer: "ModelCursor | None" = None
    deadline: float | None = None
    tag: int = 0
    then: "Callable[[Answer], None] | None" = None


# A request by its number, or a promise to the coordinator of a transaction.
Key = int | tuple[str, bytes]


@dataclass(slots=True, eq=False)
class Answer:
    """The answer that a request must get, and the batch that must be durable before.

    `counts` are the numbers of returns and moves of each message until then. `learn` gets the value that only the
    engine knows: the id of a handle or a cursor, or the reply to a remote reader. `is_notice` marks an answer without
    a request, and `again` the same once more. `is_fault` is one without a reply. Answers on one connection come in
    the order of their numbers. `check` raises Violation if the value is not the one that is due; an answer that
    `rests_on_all` needs everything that was done before it, and `told` is the greatest SequentialID in it.
    """

    status: HResult | FaultStatus = HResult.MQ_OK
    messages: tuple[ModelMessage, ...] = ()
    counts: tuple[tuple[int, int], ...] = ()
    learn: Callable[[Any], None] | None = None
    needs: int = 0
    is_notice: bool = False
    again: "Answer | None" = None
    is_fault: bool = False
    number: int = 0
    check: Callable[[Any], None] | None = None
    rests_on_all: bool = False
    told: int = 0
