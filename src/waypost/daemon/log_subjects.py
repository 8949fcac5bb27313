"""Subjects of log events, and whether another line about a subject says anything new.

An unreachable host is tried again and again, and a stranger can repeat an event as often as it likes. So an event has a
subject (a destination, an address, a queue with a reason) and a state. The log writes the first line of a subject, and
then one for each change of its state, with the count and the start of the state before. The same state again is silent;
for states that others cause, one line per hour says that they go on. A subject that changes all the time has a few
lines and then one per minute, and always its last state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from waypost.buckets import Bucket, Rate
from waypost.limits import MAX_LOG_SUBJECTS
from waypost.peers import peer_of

_RATE: Final = Rate(per_second=1 / 60, burst=5)
_REMINDER_SECONDS: Final = 3600.0

Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Kind:
    """The facts of an event that identify its subject, and those that are its state.

    Events of one `family` share their subjects. The addresses that one peer can choose from count as one.
    `ends`: the event says that all subjects that begin with its own are well again; it is silent if none was not.
    `reminds`: the state is worth a line every hour while it lasts.
    """

    family: str
    about: tuple[str, ...]
    state: tuple[str, ...] = ("reason",)
    ends: bool = False
    reminds: bool = True


KINDS: Final = {
    "connection failed": Kind("connection", ("queue", "address"), reminds=False),
    "connection works": Kind("connection", ("queue",), (), ends=True, reminds=False),
    "session opened": Kind("session", ("peer",), ()),
    "session closed": Kind("session", ("peer",)),
    "session failed": Kind("session", ("peer",)),
    "connection refused": Kind("stranger", ("address",)),
    "connection closed": Kind("idle", ("address",)),
    "access denied": Kind("access", ("who", "object", "right"), ()),
    "request refused": Kind("request", ("origin",)),
    "remote reader refused": Kind("reader", ("address",), ()),
    "remote reader cut off": Kind("reader", ("address",)),
    "identifier conflict": Kind("conflict", ("peer",), ()),
    "message rejected": Kind("rejected", ("queue", "reason"), ()),
    "message discarded": Kind("discarded", ("peer", "reason"), ()),
    "message not taken": Kind("not taken", ("peer", "reason"), ()),
    "message came back": Kind("loop", ("queue", "peer"), ()),
    "sequence refused": Kind("sequence", ("peer", "source", "queue")),
    "acknowledgment kept": Kind("acknowledgment", ("peer", "guid", "queue")),
    "acknowledgment refused": Kind("acknowledgment", ("peer", "queue")),
}

_ADDRESSES: Final = frozenset({"peer", "address"})

_Subject = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log: an event with its level and facts."""

    level: int
    event: str
    facts: Facts


@dataclass(slots=True)
class _Seen:
    """State of a subject, its start (wall clock), its count since the last line, and that line (monotonic clock)."""

    state: _Subject
    since: float
    bucket: Bucket
    written: float
    count: int = 1
    # The last change, if it has no line yet.
    late: Line | None = None


@dataclass(frozen=True, slots=True)
class News:
    """The state before, for a line: its count and its start (wall clock). Both are 0 without a state before."""

    count: int = 0
    since: float = 0.0


class Subjects:
    """Subjects in the log. The oldest subject is forgotten first; its next event gets a line again."""

    __slots__ = ("_families",)

    def __init__(self) -> None:
        self._families: dict[str, dict[_Subject, _Seen]] = {}

    def news(self, line: Line, monotonic: float, wall: float) -> News | None:
        """The news to write with this line; None to leave it out, now or for good."""
        kind = KINDS.get(line.event)
        if kind is None or any(name not in line.facts for name in kind.about):
            return News()
        subjects = self._families.setdefault(kind.family, {})
        subject = tuple(_text(name, line.facts[name]) for name in kind.about)
        if kind.ends:
            over = [seen for each, seen in subjects.items() if each[: len(subject)] == subject]
            news = [_look(seen, line, monotonic, wall) for seen in over]
            return _joined([each for each in news if each is not None])
        seen = subjects.get(subject)
        if seen is not None:
            return _look(seen, line, monotonic, wall)
        if len(subjects) >= MAX_LOG_SUBJECTS:
            del subjects[next(iter(subjects))]
        seen = subjects[subject] = _Seen(_state(line), wall, Bucket(_RATE, monotonic), monotonic)
        seen.bucket.take(monotonic)
        return News()

    def late(self, monotonic: float, wall: float) -> list[tuple[Line, News]]:
        """Changes without a line that are due now."""
        found = []
        for subjects in self._families.values():
            for seen in subjects.values():
                line = seen.late
                if line is not None and seen.bucket.take(monotonic):
                    found.append((line, _change(seen, line, monotonic, wall)))
        return found


def _look(seen: _Seen, line: Line, monotonic: float, wall: float) -> News | None:
    """The news of an event about a known subject."""
    if seen.state == _state(line):
        seen.late = None
        seen.count += 1
        if KINDS[line.event].reminds and monotonic - seen.written >= _REMINDER_SECONDS:
            seen.written = monotonic
            return News(seen.count, seen.since)
        return None
    if not seen.bucket.take(monotonic):
        seen.late = line
        seen.count += 1
        return None
    return _change(seen, line, monotonic, wall)


def _change(seen: _Seen, line: Line, monotonic: float, wall: float) -> News:
    news = News(seen.count, seen.since)
    seen.state, seen.since, seen.written, seen.count, seen.late = _state(line), wall, monotonic, 1, None
    return news


def _joined(news: list[News]) -> News | None:
    """The news of several subjects as one."""
    return News(sum(each.count for each in news), min(each.since for each in news)) if news else None


def _state(line: Line) -> _Subject:
    return line.event, *(_text(name, line.facts.get(name, "")) for name in KINDS[line.event].state)


def _text(name: str, value: object) -> str:
    text = str(value)
    if name not in _ADDRESSES:
        return text
    try:
        return peer_of(text)
    except ValueError:
        return text
