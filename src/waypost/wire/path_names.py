"""MS-MQMQ 2.1.1 path names: HOST\\orders, HOST\\private$\\orders, HOST\\system$;name, each with an optional ;subqueue.

Owns the character and length rules of computer, queue and subqueue names, which direct format names and queue
properties share. A name keeps the letters it was given, prints its type marker as 2.1.1 spells it, and equals another
one without regard to case. `parse` is the gate: a name that is built from its parts is taken on trust.
"""

import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from waypost.errors import IllegalPathName
from waypost.limits import MAX_COMPUTER_NAME, MAX_QUEUE_NAME, MAX_SUBQUEUE_NAME

SECTION: Final = "MS-MQMQ 2.1.1"
PRIVATE_MARKER: Final = "private$"
SYSTEM_MARKER: Final = "system$"


class MsmqVersion(IntEnum):
    """The major version of MSMQ whose rules apply."""

    V1 = 1
    V2 = 2
    V3 = 3
    V4 = 4
    V5 = 5
    V6 = 6


class QueueKind(Enum):
    """Kind of queue, by the type marker before its name; a public queue has no marker."""

    PUBLIC = "public"
    PRIVATE = "private"
    SYSTEM = "system"


class _Rule(NamedTuple):
    field: str
    max_length: int
    illegal: re.Pattern[str]


_ILLEGAL_IN_MSMQ_1: Final = re.compile(r"[^\x21-\x3A\x3C-\x5B\x5D-\x7F]")
_ILLEGAL: Final = re.compile(r"[^\x21\x23-\x2A\x2D-\x3A\x3C-\x5B\x5D-\x7F]")

# The grammar lets a backslash into Computer, but then nobody could tell where it ends: the first backslash ends it.
_COMPUTER: Final = _Rule("Computer", MAX_COMPUTER_NAME, re.compile(r"[^\x21-\x5B\x5D-\x7E]"))
_QUEUE_OF_MSMQ_1: Final = _Rule("QueueName", MAX_QUEUE_NAME, _ILLEGAL_IN_MSMQ_1)
_QUEUE: Final = _Rule("QueueName", MAX_QUEUE_NAME, _ILLEGAL)
_SUBQUEUE: Final = _Rule("Subqueue", MAX_SUBQUEUE_NAME, _ILLEGAL)


def check_computer_name(text: str, offset: int) -> None:
    """Raises IllegalPathName unless `text`, which stands at `offset` of what was given, is a Computer."""
    _check(text, offset, _COMPUTER)


def check_queue_name(text: str, offset: int, version: MsmqVersion = MsmqVersion.V6) -> None:
    """The same for a QueueName without its subqueue. A bare type marker is not a name: HOST\\private$ names nothing."""
    _check(text, offset, _QUEUE_OF_MSMQ_1 if version is MsmqVersion.V1 else _QUEUE)
    if text.lower() in (PRIVATE_MARKER, SYSTEM_MARKER):
        raise IllegalPathName(SECTION, "QueueName", offset, f"{text} is a type marker, not a name")


def check_subqueue_name(text: str, offset: int) -> None:
    """The same for a Subqueue."""
    _check(text, offset, _SUBQUEUE)


def _check(text: str, offset: int, rule: _Rule) -> None:
    if not text:
        raise IllegalPathName(SECTION, rule.field, offset, "must not be empty")
    if len(text) > rule.max_length:
        raise IllegalPathName(
            SECTION, rule.field, offset, f"must have at most {rule.max_length} characters, not {len(text)}"
        )
    illegal = rule.illegal.search(text)
    if illegal:
        raise IllegalPathName(SECTION, rule.field, offset + illegal.start(), f"must not contain {illegal[0]!r}")


def cut_kind(text: str, separators: tuple[str, ...] = ("\\",)) -> tuple[QueueKind, int]:
    """The kind of queue that `text`, the part behind the computer, speaks of, and the length of its type marker."""
    if text[:8].lower() == PRIVATE_MARKER and text[8:9] in separators:
        return QueueKind.PRIVATE, 9
    if text[:8].lower() == SYSTEM_MARKER + ";":
        return QueueKind.SYSTEM, 8
    return QueueKind.PUBLIC, 0


def cut_subqueue(text: str, offset: int, version: MsmqVersion = MsmqVersion.V6) -> tuple[str, str]:
    """QueueName and Subqueue ("" if there is none) of `text`, both checked. Subqueues came with MSMQ 4.0."""
    if version < MsmqVersion.V4:
        check_queue_name(text, offset, version)
        return text, ""
    queue, semicolon, subqueue = text.partition(";")
    check_queue_name(queue, offset, version)
    if semicolon:
        check_subqueue_name(subqueue, offset + len(queue) + 1)
    return queue, subqueue


@dataclass(frozen=True, slots=True, eq=False)
class PathName:
    """The place of a queue: a computer and a name there."""

    computer: str
    kind: QueueKind
    queue: str
    subqueue: str = ""

    @classmethod
    def parse(cls, text: str, version: MsmqVersion = MsmqVersion.V6) -> "PathName":
        computer, backslash, rest = text.partition("\\")
        check_computer_name(computer, 0)
        if not backslash:
            raise IllegalPathName(
                SECTION, "QueuePathName", len(text), "a backslash and a queue name must follow the name of the computer"
            )
        kind, marker_length = cut_kind(rest)
        queue, subqueue = cut_subqueue(rest[marker_length:], len(computer) + 1 + marker_length, version)
        return cls(computer, kind, queue, subqueue)

    def __str__(self) -> str:
        marker = {QueueKind.PUBLIC: "", QueueKind.PRIVATE: "private$\\", QueueKind.SYSTEM: "system$;"}[self.kind]
        subqueue = f";{self.subqueue}" if self.subqueue else ""
        return f"{self.computer}\\{marker}{self.queue}{subqueue}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PathName):
            return NotImplemented
        return str(self).lower() == str(other).lower()

    def __hash__(self) -> int:
        return hash(str(self).lower())
