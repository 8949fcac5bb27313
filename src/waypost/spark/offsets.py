"""Offsets of a stream, as Spark keeps them in the checkpoint: a JSON object with a position for each queue.

A position also says where its batch began (`from`). Spark does not keep the start of the first batch, and replays that
batch from there, even if the queue has changed. `kept` is the last number that drain has removed: drain removes the
messages that were read after it, and no message that was moved to an older number. `as_of` and `fresh` are those of the
plan of drain (waypost.api.bulk): a message that was moved to the range later is not part of the batch.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql.datasource import InputPartition

from waypost.api.excerpt import excerpt
from waypost.errors import InvalidParameter

# Not counted: an MSMQ host is not asked for its number of messages.
UNKNOWN: Final = -1

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RangePlace:
    """All messages up to `seq` were read: `rows` since the query began; the last batch began after `first`."""

    seq: int
    epoch: str
    rows: int = 0
    first: int = 0
    kept: int = 0
    as_of: int = 0
    fresh: tuple[int, ...] = ()

    def json(self) -> Json:
        found = {"seq": self.seq, "epoch": self.epoch, "rows": self.rows, "from": self.first, "kept": self.kept}
        if self.as_of:
            found["as_of"] = self.as_of
        if self.fresh:
            found["fresh"] = list(self.fresh)
        return found

    def advanced(self, seq: int, count: int) -> "RangePlace":
        rows = UNKNOWN if UNKNOWN in (self.rows, count) else self.rows + count
        return RangePlace(seq, self.epoch, rows, self.seq, self.kept)


@dataclass(frozen=True, slots=True)
class ClaimPlace:
    """All parts of the claim up to `number` were read: `rows` messages since the query began."""

    claim: str
    epoch: str
    number: int = 0
    rows: int = 0

    def json(self) -> Json:
        return {"claim": self.claim, "epoch": self.epoch, "number": self.number, "rows": self.rows}


@dataclass(frozen=True)
class Stretch(InputPartition):
    """The messages of one queue in a batch or a task: (after, up_to], and their count when the range was planned."""

    queue: str
    epoch: str
    after: int
    up_to: int
    count: int
    # In the mode drain: the messages that were moved to the queue after the plan are not in the batch.
    as_of: int = 0
    fresh: tuple[int, ...] = ()


def range_places(offset: Json) -> dict[str, RangePlace]:
    """The positions in an offset of the modes peek and drain. Raises InvalidParameter for any other offset."""
    return {
        queue: RangePlace(_int(queue, place, "seq"), _text(queue, place, "epoch"), *_counts(queue, place))
        for queue, place in offset.items()
    }


def claim_places(offset: Json) -> dict[str, ClaimPlace]:
    """The positions in an offset of the mode claim. Raises InvalidParameter for any other offset."""
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
    """The ranges between two offsets.

    A start without rows is the initial offset, which may differ after a crash: then the range begins where the end
    offset says. The same holds for a queue that is new or was created again.
    """
    found = []
    for queue, place in end.items():
        before = start.get(queue)
        if before == place:
            continue
        rows = 0 if before is None else before.rows
        after = place.first
        if before is not None and before.rows and before.epoch == place.epoch:
            # Drain goes back for messages that were moved to numbers that it has passed.
            after = min(before.seq, place.first)
        if place.seq > after:
            count = UNKNOWN if UNKNOWN in (rows, place.rows) else place.rows - rows
            found.append(Stretch(queue, place.epoch, after, place.seq, count, place.as_of, place.fresh))
    return found


def lag(messages: int, size: int, oldest: int) -> Json:
    """The messages that wait, their bytes, and the age of the oldest, in seconds; 0 without messages."""
    age = max(time.time() - oldest, 0.0) if messages and oldest else 0.0
    return {"lag_messages": messages, "lag_bytes": size, "lag_s": round(age, 3)}


def _counts(queue: str, place: Any) -> tuple[int, int, int, int, tuple[int, ...]]:
    numbers = _int(queue, place, "rows"), _int(queue, place, "from"), _int(queue, place, "kept")
    as_of = _int(queue, place, "as_of") if "as_of" in place else 0
    fresh = place.get("fresh", [])
    if not isinstance(fresh, list) or not all(isinstance(each, int) for each in fresh):
        raise _foreign(queue, place)
    return *numbers, as_of, tuple(fresh)


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
        f"for the queue {queue}, the checkpoint contains {excerpt(place)}, which is not a position of this mode: "
        "continue in the mode in which the query began, or set a new checkpointLocation"
    )
