"""Records about transactional sequences, and about addresses with accepted acknowledgments."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from waypost.api.records import Record

Direction: TypeAlias = Literal["in", "out", "refused"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("out", "refused", "in")


class SequenceInfo(Record, frozen=True):
    """The state of a transactional sequence.

    `direction` is "in" for an incoming sequence, "out" for an outgoing sequence, and "refused" for an incoming sequence
    that was refused. `source` is the GUID of the queue manager that began the sequence, and `time_stamp` is the start
    time of the sequence by the clock of that queue manager. `ordinal` distinguishes sequences with the same
    `time_stamp`. `number` is the number of the last accepted message of an incoming sequence, or of the last message of
    an outgoing sequence. `addresses` are the addresses of the senders of an incoming sequence, or of the next hops of
    an outgoing sequence. `last_time` is the time of the last message of an incoming sequence, or of the last
    acknowledgment of an outgoing sequence. `rejected` is the number of messages that were out of order or refused
    since `last_time`. `unacknowledged` is the number of sent messages without an acknowledgment. If the sequence is
    refused, `reason` is the reason.
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
    """A page of sequences. `next` is the value of `after` for the next page, or "" at the end."""

    sequences: tuple[SequenceInfo, ...]
    next: str = ""


class SequenceReset(Record, frozen=True):
    """The result of a reset or of a dry run. `sequences` is the number of sequences that start again.

    `warning` describes the messages that can arrive twice. For an outgoing sequence, `renumbered` is the number of
    messages that get new numbers. `may_come_twice` is the number of renumbered messages that were already sent but not
    acknowledged. `identifiers` lists the ids of the first hundred messages that can arrive twice. `next` is the value
    of `after` for the next request, or "" at the end.
    """

    sequences: int
    warning: str = ""
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: tuple[str, ...] = ()
    next: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the record of a complete reset as a dict that `json.dumps` accepts."""
        values = super().to_dict()
        del values["next"]
        return values

    def joined(self, other: "SequenceReset") -> "SequenceReset":
        """Add another part of the same reset, and return the sum."""
        return SequenceReset(
            self.sequences + other.sequences,
            other.warning or self.warning,
            self.renumbered + other.renumbered,
            self.may_come_twice + other.may_come_twice,
            self.identifiers + other.identifiers,
            other.next,
        )


class Admitted(Record, frozen=True):
    """The result of admitting an address. `believed` is the number of stored acknowledgments that were applied."""

    believed: int


class AdmittedAddress(Record, frozen=True):
    """An address that an operator has admitted for the queue manager with this GUID."""

    guid: str
    address: str


class AdmittedAddresses(Record, frozen=True):
    """All admitted addresses, sorted."""

    addresses: tuple[AdmittedAddress, ...]
