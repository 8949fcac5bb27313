"""What is told of transactional sequences, and of the addresses whose acknowledgments are believed."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from waypost.api.records import Record

Direction: TypeAlias = Literal["in", "out", "refused"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "refused", "in")


class SequenceInfo(Record, frozen=True):
    """A transactional sequence as of now.

    `direction` is "in" for messages from other hosts, "out" for messages sent from here, and "refused" for refused
    sequences. `source` is the GUID of the queue manager that began the sequence at `time_stamp`, by its clock;
    `ordinal` counts its sequences with that time. `number` is the number of the last accepted or sent message.
    `addresses` are those of the source or of the next hop. `last_time` is the time of the last message or
    acknowledgment. `rejected` counts messages since then that were out of order or refused, and `unacknowledged` counts
    sent ones. `reason` says why a sequence is refused.
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


class SequencePage(Record, frozen=True):
    """One page of sequences. `next` is the `after` of the next page; "" at the end."""

    sequences: tuple[SequenceInfo, ...]
    next: str = ""


class SequenceReset(Record, frozen=True):
    """The result of a reset or of its dry run: the number of `sequences` that begin again, and a `warning`.

    At the sender, `renumbered` messages get new numbers. `may_come_twice` of them were sent before and are not
    acknowledged; `identifiers` has the ids of the first hundred. `next` is the `after` of the following request; "" at
    the end.
    """

    sequences: int
    warning: str = ""
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: tuple[str, ...] = ()
    next: str = ""

    def to_dict(self) -> dict[str, object]:
        """Ready for json, of a reset that is over."""
        values = super().to_dict()
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


class Admitted(Record, frozen=True):
    """The number of kept acknowledgments of the address that are applied now."""

    believed: int


class AdmittedAddress(Record, frozen=True):
    """An admitted address of the queue manager with this GUID."""

    guid: str
    address: str


class AdmittedAddresses(Record, frozen=True):
    """All checks, in order."""

    addresses: tuple[AdmittedAddress, ...]
