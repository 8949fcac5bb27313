"""Queues and messages as scripts plan them, and the operations and records made from them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Literal

from msgspec import UNSET

from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction, CreateQueue, SetQueue
from waypost.api.properties import ACKNOWLEDGE, MessageProperties
from waypost.guid import guid_text
from waypost.wire.codec import INFINITE
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import UNLIMITED

# The mark in the body of a message, which no other message has.
MARK: Final = re.compile(rb"<uid (\d{6})>")
# The mark in the label of a message whose body is encrypted on its way, in UTF-16.
_LABEL: Final = re.compile(rb"\(\0u\0i\0d\0 \0((?:\d\0){6})\)\0")


@dataclass(frozen=True, slots=True)
class Plan:
    """Attributes of a queue of a host. Quotas are in kilobytes.

    A doomed queue is purged, deleted and created again; one without `is_made` does not exist, and is only sent to.
    `privacy` is empty for a queue that takes clear and encrypted messages.
    """

    key: str
    journaling: bool = False
    transactional: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    host: str = ""
    is_made: bool = True
    is_doomed: bool = False
    authenticates: bool = False
    privacy: Literal["", "none", "body"] = ""

    @property
    def is_sure(self) -> bool:
        """Whether every message that fits gets into the queue, and stays in it until it is received."""
        return self.is_made and not self.is_doomed and self.quota == UNLIMITED

    @property
    def path(self) -> PathName:
        return PathName(self.host, QueueKind.PRIVATE, self.key)

    @classmethod
    def of(cls, created: CreateQueue) -> "Plan":
        return cls(
            created.name,
            journaling=created.journal is True,
            transactional=created.transactional,
            quota=_quota(created.quota_kb),
            journal_quota=_quota(created.journal_quota_kb),
        )

    def changed(self, change: SetQueue) -> "Plan":
        journaling = self.journaling if change.journal is UNSET else change.journal
        given = change.journal_quota_kb
        journal_quota = self.journal_quota if given is UNSET else _quota(given)
        return Plan(self.key, journaling, self.transactional, self.quota, journal_quota)

    @property
    def creation(self) -> CreateQueue:
        return CreateQueue(
            name=self.key,
            journal=self.journaling,
            transactional=self.transactional,
            quota_kb=kilobytes(self.quota),
            journal_quota_kb=kilobytes(self.journal_quota),
            authenticate=True if self.authenticates else UNSET,
            privacy=self.privacy or UNSET,
        )

    def __str__(self) -> str:
        if self.host:
            return f"{self.host}\\{self.key}"
        words = [self.key, "journaling" * self.journaling, "transactional" * self.transactional]
        words += [f"quota {self.quota} KB" * (self.quota != UNLIMITED)]
        words += [f"journal quota {self.journal_quota} KB" * (self.journal_quota != UNLIMITED)]
        return " ".join(filter(None, words))


def kilobytes(quota: int) -> int | None:
    """A quota in the form that operations use."""
    return None if quota == UNLIMITED else quota


def _quota(given: object) -> int:
    return given if isinstance(given, int) else UNLIMITED


@dataclass(slots=True, eq=False)
class PlannedMessage:
    """A message before it is sent, with a unique `uid`."""

    uid: int
    properties: MessageProperties = field(default_factory=MessageProperties)
    padding: int = 0

    @property
    def mark(self) -> bytes:
        return b"<uid %06d>" % self.uid

    @property
    def body(self) -> bytes:
        return self.mark + bytes(self.padding)

    @property
    def recoverable(self) -> bool:
        return self.properties.recoverable

    @property
    def priority(self) -> int:
        return self.properties.priority

    @property
    def time_to_be_received(self) -> int:
        seconds = self.properties.time_to_be_received
        return INFINITE if seconds is None else int(seconds)

    @property
    def acknowledgements(self) -> int:
        return reduce(or_, (ACKNOWLEDGE[word] for word in self.properties.acknowledge.split(",")))

    @property
    def administration(self) -> str:
        return str(self.properties.admin_queue or "")

    @property
    def positive_journaling(self) -> bool:
        return self.properties.journal

    @property
    def negative_journaling(self) -> bool:
        return bool(self.properties.dead_letter)


def uid_of(packet: bytes) -> int | None:
    """The message in a packet, by its body, or by its label if the body is encrypted."""
    found = MARK.search(packet)
    if found is not None:
        return int(found[1])
    found = _LABEL.search(packet)
    return None if found is None else int(found[1].replace(b"\0", b""))


def label_of(uid: int) -> str:
    """The label by which an encrypted message is recognized."""
    return f"(uid {uid:06d})"


def uids_of(bodies: Iterable[bytes]) -> list[int]:
    """The messages that have these bodies, in order."""
    return [int(found[1]) for found in map(MARK.match, bodies) if found is not None]


def begin(identifier: bytes) -> BeginTransaction:
    return BeginTransaction(id=guid_text(identifier))


def end_of(identifier: bytes, *, commits: bool) -> CommitTransaction | AbortTransaction:
    return (CommitTransaction if commits else AbortTransaction)(identifier=guid_text(identifier))
