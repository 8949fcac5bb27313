"""Records about transactional sequences, and about addresses with accepted acknowledgments."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from waypost.api.records import Record

Direction: TypeAlias = Literal["in", "out", "refused"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "refused", "in")


class SequenceInfo(Record, frozen=True):
    """A transactional sequence at one moment.

    `direction` is "in" for an incoming sequence, "out" for an outgoing one, and "refused" for one that came and was
    refused. `source` is the GUID of the queue manager that began it, at `time_stamp` by its clock; `ordinal` counts its
    sequences of that time. `number` is the last accepted message, or the last message with a number. `addresses` are
    the peers: the senders, or the next hops. `last_time` is the time of the last message, or the last acknowledgment.
    `rejected` counts messages since then that were not the next one, or were refused; `unacknowledged` counts sent
    messages without an acknowledgment. `reason` says why a sequence is refused.
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
    """A page of sequences. `next` is the `after` of the next page; "" at the end."""

    sequences: tuple[SequenceInfo, ...]
    next: str = ""


class SequenceReset(Record, frozen=True):
    """The result of a reset or a dry run: the number of `sequences` that begin again, and a `warning`.

    At the sender, `renumbered` messages get new numbers. `may_come_twice` of them were sent before and are not
    acknowledged; `identifiers` has the ids of the first hundred. `next` is the `after` to go on with; "" at the end.
    """

    sequences: int
    warning: str = ""
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: tuple[str, ...] = ()
    next: str = ""

    def to_dict(self) -> dict[str, object]:
        """The record of a complete reset as a dict for `json`."""
        values = super().to_dict()
        del values["next"]
        return values

    def joined(self, other: "SequenceReset") -> "SequenceReset":
        """The sum of two parts of one reset."""
        return SequenceReset(
            self.sequences + other.sequences,
            other.warning or self.warning,
            self.renumbered + other.renumbered,
            self.may_come_twice + other.may_come_twice,
            self.identifiers + other.identifiers,
            other.next,
        )


class Admitted(Record, frozen=True):
    """Number of kept acknowledgments from the address that are applied now."""

    believed: int


class AdmittedAddress(Record, frozen=True):
    """An address that an operator has admitted for the queue manager with this GUID."""

    guid: str
    address: str


class AdmittedAddresses(Record, frozen=True):
    """All admitted addresses, in order."""

    addresses: tuple[AdmittedAddress, ...]
