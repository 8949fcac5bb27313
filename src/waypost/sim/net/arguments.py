"""Arguments of operations where several hosts are: see waypost.sim.local.arguments."""

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from waypost.core.message import DEFAULT_TIME_TO_REACH_QUEUE, Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import UNLIMITED, QueueAttributes
from waypost.node.node import Node
from waypost.sim.client import Argument
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName, QueueKind

ADMIN: Final = "admin"


@dataclass(frozen=True, slots=True)
class QueuePlan(Argument):
    """A queue of an application. One that is doomed is purged, deleted and made again."""

    host: str
    key: str
    transactional: bool = False
    journaling: bool = False
    quota: int = UNLIMITED
    is_made: bool = True
    is_doomed: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether everything that fits it gets into it, and is in it until it is received."""
        return self.is_made and not self.is_doomed and self.quota == UNLIMITED

    @property
    def path(self) -> PathName:
        return PathName(self.host, QueueKind.PRIVATE, self.key)

    def to_engine(self, node: Node) -> QueueAttributes:  # noqa: ARG002
        return QueueAttributes(
            self.path, journaling=self.journaling, transactional=self.transactional, quota=self.quota
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.host}\\{self.key}"


@dataclass(frozen=True, slots=True)
class Name(Argument):
    """A format name."""

    text: str

    def to_engine(self, node: Node) -> FormatName:  # noqa: ARG002
        return format_name(self.text)

    def __str__(self) -> str:
        return self.text


@lru_cache
def format_name(text: str) -> FormatName:
    return FormatName.parse(text)


class Kind(Enum):
    EXPRESS = auto()
    RECOVERABLE = auto()
    TRANSACTIONAL = auto()


@dataclass(slots=True, eq=False)
class SentMessage(Argument):
    """A message of an application, and all that is known of it. No other has its `uid`.

    It goes from the first host of `path` to the last, under the format name `name`. The times are None for long ones.
    """

    uid: int
    path: tuple[str, ...]
    plan: QueuePlan
    name: str
    kind: Kind
    lives: tuple[int, ...]
    priority: int = 3
    padding: int = 0
    time_to_reach_queue: int | None = None
    time_to_be_received: int | None = None
    acknowledgements: int = 0
    administration: str = ""
    positive_journaling: bool = False
    negative_journaling: bool = False

    # How often its source had ended before; its place in the order of commits; how its sending ended.
    ends: int = 0
    order: tuple[int, int] | None = None
    is_accepted: bool = False
    is_aborted: bool = False
    # TxSequenceID and TxSequenceNumber that its source gave it, and the number of the message there.
    place: tuple[int, int, int] | None = None
    # Somebody who is believed has said that it was received or refused, before it was sent.
    is_betrayed: bool = False
    # A record of it was damaged somewhere, so it may be set aside there.
    is_damaged: bool = False
    # The hosts where it was durable, in this order, and how often it was in its queue and left it.
    seen_at: dict[str, None] = field(default_factory=dict)
    reached: int = 0
    consumed: int = 0
    received: int = 0
    journaled: int = 0
    dead: int = 0
    on_wire: int = 0
    acks: dict[object, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.path[0]

    @property
    def is_recoverable(self) -> bool:
        return self.kind is not Kind.EXPRESS

    @property
    def is_transactional(self) -> bool:
        return self.kind is Kind.TRANSACTIONAL

    @property
    def may_expire(self) -> bool:
        return self.time_to_be_received is not None or self.time_to_reach_queue is not None

    @property
    def fits(self) -> bool:
        return self.plan.transactional == self.is_transactional

    @property
    def is_sure(self) -> bool:
        """Whether nothing but a crash can keep it from its queue, and from whoever receives it."""
        is_kept = not self.may_expire and not self.is_lied_about and not self.is_damaged
        return self.plan.is_sure and self.fits and is_kept

    @property
    def wants_final_ack(self) -> bool:
        return self.is_transactional and (self.positive_journaling or self.negative_journaling)

    @property
    def is_lied_about(self) -> bool:
        """Whether its source had to believe what is not true."""
        return self.is_betrayed and self.on_wire > 0

    @property
    def body(self) -> bytes:
        """The mark is found in its packet and in no other, but for answers that bring the body back."""
        return b"<uid %06d>" % self.uid + bytes(self.padding)

    def to_engine(self, node: Node) -> Message:  # noqa: ARG002
        reach, receive = self.time_to_reach_queue, self.time_to_be_received
        return Message(
            body=self.body,
            priority=self.priority,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE if self.is_recoverable else DeliveryGuarantee.EXPRESS,
            time_to_reach_queue=DEFAULT_TIME_TO_REACH_QUEUE if reach is None else reach,
            time_to_be_received=INFINITE if receive is None else receive,
            acknowledgements_requested=self.acknowledgements,
            administration_queue_format_name=format_name(self.administration) if self.administration else None,
            positive_journaling_requested=self.positive_journaling,
            negative_journaling_requested=self.negative_journaling,
        )

    def __str__(self) -> str:
        return f"<{self.uid}> {self.kind.name.lower()} to {self.plan}"
