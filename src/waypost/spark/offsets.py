"""How far a stream has come, as Spark keeps it in the checkpoint: a JSON object with a place for each queue.

A place says where its batch began too (`from`). Spark does not keep that of the first batch, which is replayed from
there, whatever the queue looks like by then. `kept` is behind what drain has removed: it removes what was read since,
and nothing that was moved to an older place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql.datasource import InputPartition

from waypost.api.excerpt import excerpt
from waypost.errors import InvalidParameter

# Where nobody has counted: an MSMQ host is not asked how many messages it has.
UNKNOWN: Final = -1

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RangePlace:
    """Everything up to `seq` was read: `rows` messages since the query began, and those behind `first` at last."""

    seq: int
    epoch: str
    rows: int = 0
    first: int = 0
    kept: int = 0

    def json(self) -> Json:
        return {"seq": self.seq, "epoch": self.epoch, "rows": self.rows, "from": self.first, "kept": self.kept}

    def advanced(self, seq: int, count: int) -> "RangePlace":
        rows = UNKNOWN if UNKNOWN in (self.rows, count) else self.rows + count
        return RangePlace(seq, self.epoch, rows, self.seq, self.kept)


@dataclass(frozen=True, slots=True)
class ClaimPlace:
    """The parts up to `number` of the claim were read: `rows` messages since the query began."""

    claim: str
    epoch: str
    number: int = 0
    rows: int = 0

    def json(self) -> Json:
        return {"claim": self.claim, "epoch": self.epoch, "number": self.number, "rows": self.rows}


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What a batch or a task has of one queue: (after, up_to], with so many messages when it was planned."""

    queue: str
    epoch: str
    after: int
    up_to: int
    count: int


def range_places(offset: Json) -> dict[str, RangePlace]:
    """Raises InvalidParameter for an offset that is none of this mode."""
    return {
        queue: RangePlace(_int(queue, place, "seq"), _text(queue, place, "epoch"), *_counts(queue, place))
        for queue, place in offset.items()
    }


def claim_places(offset: Json) -> dict[str, ClaimPlace]:
    """The same for claims."""
    return {
        queue: ClaimPlace(
            _text(queue, place, "claim"),
            _text(queue, place, "epoch"),
            _int(queue, place, "number"),
            _int(queue, place, "rows"),
        )
        for queue, place in offset.items()
    }


def json_of(places: Mapping[str, RangePlace] | Mapping[str, ClaimPlace]) -> Json:
    return {queue: place.json() for queue, place in places.items()}


def stretches(start: Mapping[str, RangePlace], end: Mapping[str, RangePlace]) -> list[Stretch]:
    """What lies between two offsets.

    A start without rows is one that was made up for the beginning, perhaps anew after a crash: the end knows better.
    So it does for a queue that is new, or was created again.
    """
    found = []
    for queue, place in end.items():
        before = start.get(queue)
        rows = 0 if before is None else before.rows
        after = place.first if before is None or not before.rows or before.epoch != place.epoch else before.seq
        if place.seq > after:
            count = UNKNOWN if UNKNOWN in (rows, place.rows) else place.rows - rows
            found.append(Stretch(queue, place.epoch, after, place.seq, count))
    return found


def shares(available: Mapping[str, int], limit: int) -> dict[str, int]:
    """A limit divided among queues by what each of them has. Who has something gets something; none gets too much."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    found = {queue: limit * count // total for queue, count in available.items()}
    left = limit - sum(found.values())
    # The remainder goes to those that got least for what they have.
    for queue in sorted(available, key=lambda name: (found[name], -available[name])):
        if left and found[queue] < available[queue]:
            found[queue] += 1
            left -= 1
    return found


def _counts(queue: str, place: Any) -> tuple[int, int, int]:
    return _int(queue, place, "rows"), _int(queue, place, "from"), _int(queue, place, "kept")


def _int(queue: str, place: Any, key: str) -> int:
    found = place.get(key) if isinstance(place, dict) else None
    if not isinstance(found, int):
        raise _foreign(queue, place)
    return found


def _text(queue: str, place: Any, key: str) -> str:
    found = place.get(key) if isinstance(place, dict) else None
    if not isinstance(found, str):
        raise _foreign(queue, place)
    return found


def _foreign(queue: str, place: Any) -> InvalidParameter:
    return InvalidParameter(
        f"the checkpoint has {excerpt(place)} for the queue {queue}, which is no place of this mode: go on in the mode "
        "in which the query began, or give it a new checkpointLocation"
    )
