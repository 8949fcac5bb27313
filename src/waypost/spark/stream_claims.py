"""The stream mode claim: batches are parts of a claim, which the daemon keeps from others until they are processed.

The claim has its name from the first offset. What Spark will not ask for again is settled by the request for the next
part, so a part that was claimed before a crash is offered again, and one that was processed never is.
"""

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

from msgspec import UNSET
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from waypost.api.bulk import Claim, ReadClaim
from waypost.arrow.packets import Packets
from waypost.errors import MessageNotFound, QueueDeleted, QueueNotFound, TransactionSequence, WaypostError
from waypost.limits import MAX_CLAIMED
from waypost.spark.offsets import ClaimPlace, Json, claim_places, json_of, shares
from waypost.spark.options import ReadOptions
from waypost.spark.origins import open_origin
from waypost.spark.ranges import chosen, parts_for
from waypost.spark.schema import Shape
from waypost.spark.stream import Limits, MessageStream

_log: Final = logging.getLogger("waypost.spark")

# A claim that is over: its messages are in the queue again, or went with it.
_OVER: Final = (TransactionSequence, QueueDeleted, QueueNotFound)


@dataclass(frozen=True)
class ClaimedPart(InputPartition):
    wanted: ReadClaim


class ClaimStream(MessageStream):
    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        super().__init__(options, shape)
        # How many messages a query that takes what is there now has before it, and up to which row that is.
        self._present: dict[str, int] | None = None
        self._ends: dict[str, int] = {}
        # A part that was claimed before a crash may wait to be offered again, which no count tells.
        self._has_asked = False

    def initialOffset(self) -> Json:  # noqa: N802, the name is Spark's
        if self._initial is None:
            claim = str(uuid4())
            self._named = chosen(self._origin, self._options)
            self._initial = json_of({queue.format_name: ClaimPlace(claim, queue.epoch) for queue in self._named})
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, the name is Spark's
        self._present = {queue.format_name: queue.count for queue in chosen(self._origin, self._options)}

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802, the name is Spark's
        self._last = self._last or start
        places = claim_places(start)
        names = self._current(places)
        limits = self._limits(limit)
        wanted = dict.fromkeys(places, 0) | self._wanted({name: places[name] for name in names}, limits)
        if self._present is None and self._is_too_early(sum(wanted.values())):
            wanted = dict.fromkeys(wanted, 0)
        self._has_asked = True
        asked = sum(count > 0 for count in wanted.values())
        each = UNSET if limits.max_bytes is UNSET else max(limits.max_bytes // max(asked, 1), 1)
        ends = {name: self._claim(name, place, Limits(wanted[name], each)) for name, place in places.items()}
        if all(end.rows == places[name].rows for name, end in ends.items()):
            return start
        return self._handed_out(json_of(ends))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802, the name is Spark's
        try:
            return None if self._last is None else dict(self._latest())
        except WaypostError:
            return None

    def commit(self, end: Json) -> None:
        """The request for the next part settles this one."""

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        begins = claim_places(start)
        changed = []
        for name, place in claim_places(end).items():
            # A start that was made up anew after a crash has another name, but no rows either.
            rows = begins[name].rows if name in begins else 0
            if place.rows > rows:
                changed.append((name, place, place.rows - rows))
        total = sum(count for _, _, count in changed)
        return [part for name, place, count in changed for part in self._parts(name, place, (count, total))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, ClaimedPart):
            return iter(())
        return self._shape.batches(self._packets(partition))

    def _packets(self, partition: ClaimedPart) -> Iterator[Packets]:
        part, count = partition.wanted, 0
        with closing(open_origin(self._options.endpoint)) as origin:
            try:
                for page in origin.read_claim(part):
                    count += len(page)
                    yield page
            except _OVER as error:
                self._lost(error)
                return
        if count < part.stop - part.start:
            self._lost(
                MessageNotFound(
                    f"{part.stop - part.start - count} messages of part {part.number} of the claim {part.claim} of "
                    f"{part.name} are gone: they were express, and the daemon was started again"
                )
            )

    def _parts(self, name: str, place: ClaimPlace, counts: tuple[int, int]) -> Iterator[ClaimedPart]:
        count, total = counts
        parts = parts_for(count, total, self._options.split)
        edges = [count * number // parts for number in range(parts + 1)]
        for start, stop in pairwise(edges):
            claim, number, epoch = place.claim, place.number, place.epoch
            yield ClaimedPart(ReadClaim(name=name, claim=claim, number=number, start=start, stop=stop, epoch=epoch))

    def _claim(self, name: str, place: ClaimPlace, limits: Limits) -> ClaimPlace:
        """The place behind the next part, or the same if there is none."""
        try:
            return self._claimed(name, place, limits)
        except _OVER as error:
            self._lost(error)
        try:
            anew = ClaimPlace(str(uuid4()), self._origin.queue(name).epoch, 0, place.rows)
        except QueueNotFound:
            return place
        return self._claimed(name, anew, limits)

    def _claimed(self, name: str, place: ClaimPlace, limits: Limits) -> ClaimPlace:
        if limits.max_messages is UNSET or not limits.max_messages:
            self._origin.settle(name, place.claim, place.number, epoch=place.epoch)
            return place
        wish = Claim(
            name=name,
            claim=place.claim,
            after=place.number,
            max_messages=limits.max_messages,
            max_bytes=limits.max_bytes,
            epoch=place.epoch,
        )
        part = self._origin.claim(wish)
        return ClaimPlace(place.claim, place.epoch, part.number, place.rows + part.count) if part.count else place

    def _lost(self, error: WaypostError) -> None:
        if not self._options.fail_on_data_loss:
            _log.warning("%s", error)
            return
        error.add_note("to go on with what is in the queue now, set the option failOnDataLoss to false")
        raise error

    def _wanted(self, places: dict[str, ClaimPlace], limits: Limits) -> dict[str, int]:
        """How many messages to ask for in each queue."""
        most = MAX_CLAIMED if limits.max_messages is UNSET else limits.max_messages
        available = dict.fromkeys(places, most)
        if len(places) > 1 or self._options.rate.min_messages > 1:
            available = {name: self._count(name) for name in places}
        least = 0 if self._has_asked else 1
        wanted = {name: max(share, least) for name, share in shares(available, most).items()}
        if self._present is not None:
            for name, place in places.items():
                end = self._ends.setdefault(name, place.rows + self._present.get(name, 0))
                wanted[name] = max(min(wanted[name], end - place.rows), least)
        return wanted

    def _count(self, name: str) -> int:
        try:
            return self._origin.queue(name).count
        except QueueNotFound:
            return 0

    def _current(self, places: dict[str, ClaimPlace]) -> list[str]:
        """Which queues are read now. Those that are new get a place; of others, what was read is settled."""
        queues = self._chosen()
        claim = next(iter(places.values())).claim if places else str(uuid4())
        for queue in queues:
            places.setdefault(queue.format_name, ClaimPlace(claim, queue.epoch))
        if self._options.pattern is not None or not queues:
            return list(places)
        return [queue.format_name for queue in queues]

    def _latest(self) -> Iterator[tuple[str, Json]]:
        for name, place in claim_places(self._last or {}).items():
            queue = self._origin.queue(name)
            yield name, place.json() | {"count": queue.count, "held": queue.held, "held_s": queue.held_s}
