"""Arguments of operations as scripts and the model know them, and what the engine takes for them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from waypost.core.message import DEFAULT_TIME_TO_REACH_QUEUE, Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import UNLIMITED, Queue, QueueAttributes
from waypost.core.serialization import packet_of
from waypost.node.node import Node
from waypost.sim.client import Argument
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName, QueueKind

COMPUTER: Final = "host"

# The keys of the queues that every queue manager has: an empty name and a suffix.
SOURCE_JOURNAL: Final = ";journal"
DEAD_LETTERS: Final = ";deadletter"
DEAD_TRANSACTIONAL: Final = ";deadxact"
SYSTEM: Final = (SOURCE_JOURNAL, DEAD_LETTERS, DEAD_TRANSACTIONAL)


@dataclass(frozen=True, slots=True)
class Name(Argument):
    """A queue by its key: `q1`, `q1;journal`, `q1;sub`, or one of SYSTEM."""

    key: str

    def to_engine(self, node: Node) -> FormatName:  # noqa: ARG002
        return format_name(self.key)

    def __str__(self) -> str:
        return self.key


@lru_cache
def format_name(key: str) -> FormatName:
    queue = "SYSTEM$" if key.startswith(";") else "PRIVATE$\\"
    return FormatName.parse(f"DIRECT=OS:{COMPUTER}\\{queue}{key}")


@dataclass(frozen=True, slots=True)
class Plan(Argument):
    """What a queue is to be. Quotas are in kilobytes."""

    key: str
    journaling: bool = False
    transactional: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED

    def to_engine(self, node: Node) -> QueueAttributes:  # noqa: ARG002
        return QueueAttributes(
            PathName(COMPUTER, QueueKind.PRIVATE, self.key),
            journaling=self.journaling,
            transactional=self.transactional,
            quota=self.quota,
            journal_quota=self.journal_quota,
        )

    def __str__(self) -> str:
        words = [self.key, "journaling" * self.journaling, "transactional" * self.transactional]
        words += [f"quota {self.quota} KB" * (self.quota != UNLIMITED)]
        words += [f"journal quota {self.journal_quota} KB" * (self.journal_quota != UNLIMITED)]
        return " ".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class Existing(Argument):
    """The queue itself, for those operations that take one."""

    key: str

    def to_engine(self, node: Node) -> Queue:
        key, _, subqueue = self.key.partition(";")
        queue = node.manager.queues[PathName(COMPUTER, QueueKind.PRIVATE, key)]
        return queue.subqueues[subqueue] if subqueue else queue

    def __str__(self) -> str:
        return self.key


@dataclass(slots=True, eq=False)
class Draft(Argument):
    """A message before it is sent, and the message that was made of it. No other has its `uid`."""

    uid: int
    recoverable: bool
    priority: int = 3
    time_to_reach_queue: int = DEFAULT_TIME_TO_REACH_QUEUE
    time_to_be_received: int = INFINITE
    acknowledgements: int = 0
    administration: str = ""
    positive_journaling: bool = False
    negative_journaling: bool = False
    dead_letters_to: str = ""
    allow_peek_when_locked: bool = False
    padding: int = 0
    message: Message | None = None

    @property
    def mark(self) -> bytes:
        """What is found in its packet and in no other."""
        return b"<uid %06d>" % self.uid

    @property
    def size(self) -> int:
        """The length of the packet is not for the model to know."""
        assert self.message is not None
        return len(packet_of(self.message))

    def to_engine(self, node: Node) -> Message:  # noqa: ARG002
        self.message = Message(
            body=self.mark + bytes(self.padding),
            priority=self.priority,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE if self.recoverable else DeliveryGuarantee.EXPRESS,
            time_to_reach_queue=self.time_to_reach_queue,
            time_to_be_received=self.time_to_be_received,
            acknowledgements_requested=self.acknowledgements,
            administration_queue_format_name=format_name(self.administration) if self.administration else None,
            positive_journaling_requested=self.positive_journaling,
            negative_journaling_requested=self.negative_journaling,
            application_deadletter_queue=f"{COMPUTER}\\private$\\{self.dead_letters_to}"
            if self.dead_letters_to
            else "",
            allow_peek_when_locked=self.allow_peek_when_locked,
        )
        return self.message

    def __str__(self) -> str:
        return f"<{self.uid}>{'' if self.recoverable else ' express'} priority {self.priority}"


@dataclass(frozen=True, slots=True)
class Drafts(Argument):
    """Messages that differ in their bodies alone, which are of one length."""

    drafts: tuple[Draft, ...]

    def to_engine(self, node: Node) -> tuple[Message, list[bytes]]:
        """The message that they are like, and their bodies."""
        like = self.drafts[0].to_engine(node)
        for draft in self.drafts:
            draft.message = like
        return like, [draft.mark + bytes(draft.padding) for draft in self.drafts]

    def __str__(self) -> str:
        return f"{self.drafts[0]} and {len(self.drafts) - 1} more"
