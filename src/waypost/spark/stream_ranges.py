"""The stream modes peek and drain: batches are ranges of arrival numbers.

Spark calls `latestOffset` after every batch, also after the last one and when a query starts again. It passes the end
of the last batch that it will never request again. Spark does not call `commit` after the last batch and at a start, so
drain removes messages in both methods.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from msgspec.structs import replace as changed
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from waypost.api.bulk import BulkQueue, PlannedRange, PlanRanges, RemoveRange, Rest
from waypost.errors import QueueDeleted, QueueNotFound, WaypostError
from waypost.spark.offsets import UNKNOWN, Json, RangePlace, Stretch, json_of, lag, range_places, stretches
from waypost.spark.option_values import MAX_NUMBER
from waypost.spark.options import ReadOptions
from waypost.spark.ranges import (
    check_named,
    chosen,
    ends_short,
    gone,
    limits_of,
    packets,
    parts_of,
    place_of,
    planned,
    recreated,
    stable,
    waiting,
)
from waypost.spark.schema import Form
from waypost.spark.stream import GoneBatch, Limits, MessageStream, check_is_committed

_log: Final = logging.getLogger("waypost.spark")


class RangeStream(MessageStream):
    def __init__(self, options: ReadOptions, shape: Form) -> None:
        super().__init__(options, shape)
        # For a query with the trigger availableNow: its last number in each queue.
        self._ends: dict[str, int] | None = None
        # Reason that holds each queue back, as last logged.
        self._held: dict[str, str] = {}
        # The last offset that was planned, and the parts of its batch.
        self._planned: tuple[Json, list[Stretch]] = {}, []
        # The last plan of each queue that is read, and the messages that no batch has yet, at the time of the plan.
        self._plans: dict[str, PlannedRange] = {}
        self._unread: dict[str, Rest] = {}
        # Positions up to which drain has removed the messages that it has read, and the first message that was moved to
        # the queue meanwhile, below the position; 0 without one.
        self._removed: dict[str, tuple[RangePlace, int]] = {}

    # --- Offsets

    def initialOffset(self) -> Json:  # noqa: N802, the name is Spark's
        if self._initial is None:
            places = {}
            self._named = chosen(self._origin, self._options)
            check_named(self._named, self._options.start, self._options.start_option)
            for queue in self._named:
                places[queue.format_name] = self._beginning(queue)
            self._initial = json_of(places)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, the name is Spark's
        queues = chosen(self._origin, self._options)
        self._ends = {queue.format_name: stable(queue, self._options.endpoint) for queue in queues}
        for queue in queues:
            if queue.held_by:
                _log.warning("%s", ends_short(queue.format_name, queue.stable, queue))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802, the name is Spark's
        if self._ends is None:
            # With the trigger availableNow, Spark refuses the option that the warning is about.
            self._begin()
        self._settle(start)
        self._last = self._last or start
        places = range_places(start)
        names = self._current(places)
        found = self._next(places, names, self._limits(limit))
        if not found or (self._ends is None and self._is_too_early(sum(each.count for each in self._unread.values()))):
            return self._with_new(start, places)
        for name, parts in found.items():
            place = self._planned_from(name, places[name])
            if self._options.mode == "drain":
                place = replace(place, kept=place.seq)
            end = place.advanced(parts[-1].up_to, _count(parts))
            fresh = tuple(number for part in parts for number in part.fresh)
            places[name] = replace(end, as_of=parts[0].as_of, fresh=fresh)
            self._unread[name] = self._plans[name].rest
        offset = json_of(places)
        self._planned = offset, [part for parts in found.values() for part in parts]
        return self._handed_out(offset)

    def _with_new(self, start: Json, places: Mapping[str, RangePlace]) -> Json:
        """The offset without new messages. An empty batch records the position in a queue that the options now name.

        A queue that a pattern finds is read from its beginning in any case.
        """
        if self._options.pattern is not None or places.keys() == start.keys():
            return start
        self._last = start | {name: place.json() for name, place in places.items() if name not in start}
        return self._last

    def reportLatestOffset(self) -> Json | None:  # noqa: N802, the name is Spark's
        """The ends of the queues, the lag, and the messages held back, as of the last plan.

        Spark asks right after each `latestOffset`, so no other request is needed.
        """
        return None if self._last is None else dict(self._latest(range_places(self._last)))

    def commit(self, end: Json) -> None:
        self._settle(end)

    # --- Reading

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        known, parts = self._planned
        # A plan is good for one attempt, and another run has not made it.
        self._planned = {}, []
        if known == end:
            return list(parts)
        wholes = stretches(range_places(start), range_places(end))
        found = planned(self._origin, wholes, limits_of(self._options.split))
        return [part for whole, plan in found for part in self._divided(whole, plan)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, GoneBatch):
            check_is_committed(self._options, partition)
        if not isinstance(partition, Stretch):
            return iter(())
        return self._shape.batches(packets(self._options, partition))

    def _divided(self, whole: Stretch, plan: PlannedRange) -> Sequence[InputPartition]:
        if plan.is_gone:
            self._lost(recreated(whole.queue))
            return []
        found = parts_of(whole, plan)
        count = _count(found)
        if UNKNOWN not in (whole.count, count) and count < whole.count:
            error = gone(whole, count)
            if self._options.mode == "drain" and self._options.fail_on_data_loss:
                # The batch may be committed, and its entry in the log of Spark lost.
                return [GoneBatch(str(error))]
            self._lost(error)
        if whole.as_of and count > whole.count:
            # Messages were moved to the range: only the count of the whole range says whether others are gone.
            return [whole]
        return found

    # --- Queues and their messages

    def _current(self, places: dict[str, RangePlace]) -> list[str]:
        """The queues to read now. New queues get a position; queues no longer named keep theirs."""
        queues = self._chosen(places)
        if self._options.pattern is None and any(queue.format_name not in places for queue in queues):
            check_named(queues, self._options.start, self._options.start_option)
        for queue in queues:
            if queue.format_name not in places:
                # A queue that a pattern finds later is new, and read from its beginning.
                is_new = self._options.pattern is not None
                places[queue.format_name] = RangePlace(0, queue.epoch) if is_new else self._beginning(queue)
        return self._names(queues, places)

    def _beginning(self, queue: BulkQueue) -> RangePlace:
        """The position in a queue that the query has not read before, by startingOffsets."""
        place = place_of(self._origin, queue, self._options.start, self._options.start_option)
        seq = stable(queue, self._options.endpoint) if place is None else place
        return RangePlace(seq, queue.epoch, first=seq, kept=seq)

    def _next(self, places: dict[str, RangePlace], names: list[str], limits: Limits) -> dict[str, list[Stretch]]:
        """The parts of each queue with messages after its position. A queue that was created again begins again."""
        wanted = limits_of(self._options.split, limits.max_messages, limits.max_bytes)
        if self._options.mode == "drain":
            wanted = changed(wanted, marks_moves=True)
        found = {}
        self._plans = {}
        for stretch, plan in planned(self._origin, list(self._waiting(places, names)), wanted):
            name = stretch.queue
            self._plans[name] = plan
            if not plan.is_gone:
                parts = parts_of(stretch, plan)
                self._note_held(name, plan)
            else:
                # A query that has read all that it wants needs the queue no more.
                parts = self._again(places, name, wanted) if stretch.up_to > stretch.after else []
            if parts:
                found[name] = parts
        self._unread = {name: waiting(plan) for name, plan in self._plans.items()}
        return found

    def _waiting(self, places: Mapping[str, RangePlace], names: Iterable[str]) -> Iterator[Stretch]:
        """The messages after the positions, up to the ends of the query or of the queues."""
        for name in names:
            place = self._planned_from(name, places[name])
            end = MAX_NUMBER if self._ends is None else max(self._ends.get(name, 0), place.seq)
            yield Stretch(name, place.epoch, place.seq, end, UNKNOWN)

    def _planned_from(self, name: str, place: RangePlace) -> RangePlace:
        """The position after which the next batch begins. Drain goes back to read messages that were moved below it."""
        removed, first_moved = self._removed.get(name, (None, 0))
        return replace(place, seq=first_moved - 1) if first_moved and removed == place else place

    def _again(self, places: dict[str, RangePlace], name: str, wanted: PlanRanges) -> list[Stretch]:
        """The first messages of a queue that was created again."""
        self._lost(recreated(name))
        try:
            queue = self._origin.queue(name)
        except QueueNotFound:
            return []
        places[name] = replace(places[name], seq=0, epoch=queue.epoch, first=0, kept=0)
        ((stretch, plan),) = planned(self._origin, list(self._waiting(places, [name])), wanted)
        self._plans[name] = plan
        return [] if plan.is_gone else parts_of(stretch, plan)

    def _note_held(self, name: str, plan: PlannedRange) -> None:
        if plan.held_by != self._held.get(name, ""):
            self._held[name] = plan.held_by
            if plan.held_by:
                _log.warning("%s", ends_short(name, plan.bounds[-1], plan))

    def _latest(self, places: Mapping[str, RangePlace]) -> Iterator[tuple[str, Json]]:
        for name, place in places.items():
            if name not in self._plans:
                # The query does not name the queue any more.
                yield name, place.json()
                continue
            plan, unread = self._plans[name], self._unread[name]
            end = place.advanced(unread.last, unread.count) if unread.count else place
            held = {"held": plan.held, "held_s": plan.held_s, "held_by": unread.held_by, "behind": unread.behind}
            yield name, end.json() | held | lag(unread.count, unread.bytes, unread.oldest)

    # --- Removal and loss

    def _settle(self, offset: Json) -> None:
        """In the mode `drain`, remove the messages that Spark will not ask for again. A repetition does no harm.

        A message that was moved to the range after the plan was not read: it stays, and a later batch reads it.
        """
        if self._options.mode != "drain":
            return
        for name, place in range_places(offset).items():
            if not place.rows or self._removed.get(name, (None, 0))[0] == place:
                continue
            wanted = RemoveRange(name=name, after=place.kept, up_to=place.seq, epoch=place.epoch)
            if place.as_of:
                wanted = changed(wanted, as_of=place.as_of, fresh=list(place.fresh))
            try:
                removed = self._origin.remove(wanted)
                self._removed[name] = place, removed.first_moved
            except (QueueDeleted, QueueNotFound):
                # The rest of the call raises an error if failOnDataLoss is set.
                _log.warning("the queue %s was deleted before the query removed the messages that it had read", name)

    def _lost(self, error: WaypostError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        _log.warning("%s", error)


def _count(parts: Iterable[Stretch]) -> int:
    return sum(part.count for part in parts)
