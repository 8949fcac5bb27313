"""Queues and messages of several hosts."""

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from msgspec import UNSET

from waypost.api.operations import Send
from waypost.guid import guid_text
from waypost.sim.net import secrecy
from waypost.sim.plans import Plan, PlannedMessage
from waypost.wire.format_names import FormatName

ADMIN: Final = "admin"


@lru_cache
def format_name(text: str) -> FormatName:
    return FormatName.parse(text)


class Kind(Enum):
    EXPRESS = auto()
    RECOVERABLE = auto()
    TRANSACTIONAL = auto()


@dataclass(slots=True, eq=False, kw_only=True)
class SentMessage(PlannedMessage):
    """A message of an application, with its history.

    It goes from the first host of `path` to the last, under the format name `name`. A copy may go to another host,
    which no promise counts.
    """

    path: tuple[str, ...]
    plan: Plan
    name: str
    kind: Kind
    lives: tuple[int, ...]
    copy_host: str = ""

    # The number of ends of its source before; its place in the order of commits; the outcome of its send.
    ends: int = 0
    order: tuple[int, int] | None = None
    is_accepted: bool = False
    is_aborted: bool = False
    # TxSequenceID and TxSequenceNumber that its source gave it, and the number of the message there.
    place: tuple[int, int, int] | None = None
    # A trusted peer has said that it was received or refused, before it was sent.
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
    # The hosts that refused it for its signature or encryption, by class; and the class of its dead-letter message.
    refusals: dict[int, str] = field(default_factory=dict)
    dead_class: int = 0

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
        properties = self.properties
        return properties.time_to_be_received is not None or properties.time_to_reach_queue is not None

    @property
    def is_fit_to_arrive(self) -> bool:
        """Whether the queue accepts messages with this protection."""
        return secrecy.fits(self, self.plan)

    @property
    def fits(self) -> bool:
        return self.plan.transactional == self.is_transactional and self.is_fit_to_arrive

    @property
    def is_sure(self) -> bool:
        """Whether only a crash can keep the message from its queue, and from its receiver."""
        is_kept = not self.may_expire and not self.is_lied_about and not self.is_damaged and not self.refusals
        return self.plan.is_sure and self.fits and is_kept

    @property
    def is_refused(self) -> bool:
        """Whether nothing but the refusals of its protection kept it from its queue."""
        is_kept = not self.may_expire and not self.is_lied_about and not self.is_damaged
        return self.plan.is_sure and self.fits and is_kept and bool(self.refusals)

    @property
    def wants_final_ack(self) -> bool:
        return self.is_transactional and (self.positive_journaling or self.negative_journaling)

    @property
    def is_lied_about(self) -> bool:
        """Whether its source had to believe a false acknowledgment."""
        return self.is_betrayed and self.on_wire > 0

    def sending(self, transaction: bytes | None = None) -> Send:
        return Send(
            name=self.name,
            like=self.properties,
            bodies=[self.body],
            transaction=UNSET if transaction is None else guid_text(transaction),
        )

    def __str__(self) -> str:
        return f"<{self.uid}> {self.kind.name.lower()} to {self.plan}"
