"""SequenceInfo: what is told of a transactional sequence; SequenceReset: what a reset has done."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from waypost.api.times import iso_8601

Direction: TypeAlias = Literal["in", "out", "refused"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "refused", "in")


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """A transactional sequence at one moment. `to_dict` gives the object of the command line and HTTP.

    `direction` is "in" for what comes from others, "out" for what is sent from here, and "refused" for what came and
    was not taken. `source` is the GUID of the queue manager that has begun it, at `time_stamp` by its clock; `ordinal`
    says how many of that time it has begun. `number` is the last message that was taken, or the last that got a number.
    `addresses` is where it comes from, or goes next. At `last_time` the last message came, or the last acknowledgment.
    `rejected` messages came since then and were not the next one, or were refused; `unacknowledged` ones were sent.
    `reason` says why a sequence is refused.
    """

    direction: Direction
    queue: str
    source: str
    addresses: tuple[str, ...]
    time_stamp: datetime
    ordinal: int
    number: int
    last_time: datetime | None
    rejected: int
    unacknowledged: int
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """Ready for json."""
        return asdict(self) | {
            "addresses": list(self.addresses),
            "time_stamp": iso_8601(self.time_stamp),
            "last_time": None if self.last_time is None else iso_8601(self.last_time),
        }


@dataclass(frozen=True, slots=True)
class SequenceQuery:
    """Which sequences: those that fit all that is given. `older_than` is in seconds since the last message."""

    queue: str | None = None
    source: str | None = None
    address: str | None = None
    older_than: float | None = None


@dataclass(frozen=True, slots=True)
class SequencePage:
    """Some sequences, and where to go on, "" at the end."""

    sequences: tuple[SequenceInfo, ...]
    next: str = ""


@dataclass(frozen=True, slots=True)
class SequenceReset:
    """What a reset has done, or would do: how many `sequences` it begins again, and the `warning` that goes with it.

    At the sender `renumbered` messages get new numbers. `may_come_twice` of them were sent before and are not
    acknowledged; `identifiers` are those of the first hundred.
    """

    sequences: int
    warning: str = ""
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: tuple[str, ...] = ()
    next: str = ""

    def to_dict(self) -> dict[str, object]:
        """Ready for json."""
        values = asdict(self) | {"identifiers": list(self.identifiers)}
        del values["next"]
        return values

    def joined(self, other: "SequenceReset") -> "SequenceReset":
        """Both parts of one reset."""
        return SequenceReset(
            self.sequences + other.sequences,
            other.warning or self.warning,
            self.renumbered + other.renumbered,
            self.may_come_twice + other.may_come_twice,
            self.identifiers + other.identifiers,
            other.next,
        )
