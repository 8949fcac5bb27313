"""The stream modes peek and drain: batches are ranges of arrival numbers.

Spark calls `latestOffset` after every batch with the end of the last batch that it will never ask for again, also after
the last batch of all and when a query starts again. It does not call `commit` there. So drain removes in both.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import UNSET, UnsetType
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from waypost.api.bulk import PlanRange, RemoveRange
from waypost.errors import QueueDeleted, QueueNotFound, WaypostError
from waypost.spark.offsets import UNKNOWN, Json, RangePlace, Stretch, json_of, range_places, shares, stretches
from waypost.spark.options import ReadOptions
from waypost.spark.ranges import (
    chosen,
    divided,
    ends_short,
    gone,
    known,
    packets,
    parts_for,
    place_of,
    recreated,
    stable,
    warn_if_short,
)
from waypost.spark.schema import Shape
from waypost.spark.stream import Limits, MessageStream

_log: Final = logging.getLogger("waypost.spark")


class RangeStream(MessageStream):
    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        # For a query with the trigger availableNow: its last number in each queue.
        self._ends: dict[str, int] | None = None
        # Reason that holds each queue back, as last logged.
        self._held: dict[str, str] = {}
        # Positions up to which drain has removed all messages.
        self._removed: dict[str, RangePlace] = {}

    # --- Offsets

    def initialOffset(self) -> Json:  # noqa: N802, the name is Spark's
        if self._initial is None:
            places = {}
            self._named = chosen(self._origin, self._options)
            for queue in self._named:
                place = place_of(self._origin, queue, self._options.start, "startingOffsets")
                seq = stable(queue, self._options.endpoint) if place is None else place
                places[queue.format_name] = RangePlace(seq, queue.epoch, first=seq, kept=seq)
            self._initial = json_of(places)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, the name is Spark's
        queues = chosen(self._origin, self._options)
        self._ends = {queue.format_name: stable(queue, self._options.endpoint) for queue in queues}
        for queue in queues:
            warn_if_short(self._origin, queue, self._ends[queue.format_name])

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802, the name is Spark's
        self._settle(start)
        self._last = self._last or start
        places = range_places(start)
        names = self._current(places)
        found = self._next(places, names, self._limits(limit))
        if not found or (self._ends is None and self._is_too_early(self._available(places, names, found))):
            return start
        for part in found:
            place = places[part.queue]
            if self._options.mode == "drain":
                place = replace(place, kept=place.seq)
            places[part.queue] = place.advanced(part.up_to, part.count)
        return self._handed_out(json_of(places))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802, the name is Spark's
        """The current ends of the queues, and the messages held back there. An error does not fail the query."""
        try:
            return None if self._last is None else dict(self._latest(range_places(self._last)))
        except WaypostError:
            return None

    def commit(self, end: Json) -> None:
        self._settle(end)

    # --- Reading

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        planned = stretches(range_places(start), range_places(end))
        total = sum(known(part.count) for part in planned)
        return [part for whole in planned for part in self._divided(whole, total)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Stretch):
            return iter(())
        return self._shape.batches(packets(self._options, partition))

    def _divided(self, whole: Stretch, total: int) -> list[Stretch]:
        try:
            found = divided(self._origin, whole, parts_for(whole.count, total, self._options.split))
        except (QueueDeleted, QueueNotFound):
            self._lost(recreated(whole.queue))
            return []
        count = sum(part.count for part in found)
        if UNKNOWN not in (whole.count, count) and count < whole.count:
            self._lost(gone(whole, count))
        return found

    # --- Queues and their messages

    def _current(self, places: dict[str, RangePlace]) -> list[str]:
        """The queues to read now. New queues get a position; queues no longer named keep theirs."""
        queues = self._chosen()
        for queue in queues:
            places.setdefault(queue.format_name, RangePlace(0, queue.epoch))
        if self._options.pattern is not None or not queues:
            return list(places)
        return [queue.format_name for queue in queues]

    def _next(self, places: dict[str, RangePlace], names: list[str], limits: Limits) -> list[Stretch]:
        """The first messages of each queue after its position. A queue that was created again gets a new position."""
        found = [part for name in names if (part := self._planned(places, name, limits)) is not None]
        if len(found) < 2 or limits == Limits():
            return found
        each = UNSET if limits.max_bytes is UNSET else max(limits.max_bytes // len(found), 1)
        counts = {part.queue: part.count for part in found}
        if limits.max_messages is not UNSET:
            counts = shares(counts, limits.max_messages)
        again = (self._planned(places, name, Limits(share, each)) for name, share in counts.items() if share)
        return [part for part in again if part is not None]

    def _available(self, places: dict[str, RangePlace], names: list[str], found: list[Stretch]) -> int:
        """Number of messages after the positions, beyond `found` if a limit of bytes may have cut it short."""
        least = self._options.rate.min_messages
        if any(part.count == UNKNOWN for part in found):
            return least
        count = sum(part.count for part in found)
        if count < least and self._options.rate.max_bytes is not None:
            count = sum(part.count for part in self._next(places, names, Limits()))
        return count

    def _planned(self, places: dict[str, RangePlace], name: str, limits: Limits) -> Stretch | None:
        up_to = UNSET if self._ends is None else self._ends.get(name, 0)
        try:
            return self._plan(name, places[name], up_to, limits)
        except (QueueDeleted, QueueNotFound):
            self._lost(recreated(name))
        try:
            queue = self._origin.queue(name)
        except QueueNotFound:
            return None
        places[name] = replace(places[name], seq=0, epoch=queue.epoch, first=0, kept=0)
        return self._plan(name, places[name], up_to, limits)

    def _plan(self, name: str, place: RangePlace, up_to: int | UnsetType, limits: Limits) -> Stretch | None:
        if up_to is not UNSET and up_to <= place.seq:
            return None
        wanted = PlanRange(
            name=name,
            after=place.seq,
            up_to=up_to,
            max_messages=limits.max_messages,
            max_bytes=limits.max_bytes,
            epoch=place.epoch,
        )
        plan = self._origin.plan(wanted)
        if plan.held_by != self._held.get(name, ""):
            self._held[name] = plan.held_by
            if plan.held_by:
                _log.warning("%s", ends_short(name, plan))
        if not plan.counts:
            return None
        count = UNKNOWN if UNKNOWN in plan.counts else sum(plan.counts)
        return Stretch(name, place.epoch, place.seq, plan.bounds[-1], count)

    def _latest(self, places: Mapping[str, RangePlace]) -> Iterator[tuple[str, Json]]:
        for name, place in places.items():
            queue = self._origin.queue(name)
            behind = self._plan(name, place, UNSET, Limits())
            end = place if behind is None else place.advanced(behind.up_to, behind.count)
            held = {"held": queue.held, "held_s": queue.held_s, "held_by": queue.held_by, "behind": queue.behind}
            yield name, end.json() | held

    # --- Removal and loss

    def _settle(self, offset: Json) -> None:
        """In the mode drain, remove the messages that Spark will not ask for again. A repetition does no harm."""
        if self._options.mode != "drain":
            return
        for name, place in range_places(offset).items():
            if not place.rows or self._removed.get(name) == place:
                continue
            try:
                self._origin.remove(RemoveRange(name=name, after=place.kept, up_to=place.seq, epoch=place.epoch))
                self._removed[name] = place
            except (QueueDeleted, QueueNotFound):
                # The rest of the call raises an error if failOnDataLoss is set.
                _log.warning("%s was deleted before its messages, which were read, could be removed", name)

    def _lost(self, error: WaypostError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        _log.warning("%s", error)
