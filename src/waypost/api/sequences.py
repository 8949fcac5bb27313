"""What is told of transactional sequences, and of the addresses whose acknowledgments are believed."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from waypost.api.records import Record

Direction: TypeAlias = Literal["in", "out", "refused"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "refused", "in")


class SequenceInfo(Record, frozen=True):
    """A transactional sequence at one moment.

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


class SequencePage(Record, frozen=True):
    """Some sequences, and where to go on with `after`; "" at the end."""

    sequences: tuple[SequenceInfo, ...]
    next: str = ""


class SequenceReset(Record, frozen=True):
    """What a reset has done, or would do: how many `sequences` it begins again, and the `warning` that goes with it.

    At the sender `renumbered` messages get new numbers. `may_come_twice` of them were sent before and are not
    acknowledged; `identifiers` are those of the first hundred. `next` is where to go on with `after`; "" at the end.
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
    """The number of acknowledgments that were kept from an address and are applied now."""

    believed: int


class AdmittedAddress(Record, frozen=True):
    """One that an operator has admitted, of the queue manager with this GUID."""

    guid: str
    address: str


class AdmittedAddresses(Record, frozen=True):
    """All of them, in order."""

    addresses: tuple[AdmittedAddress, ...]
