"""The stream mode claim: batches are parts of a claim, which the daemon locks until they are processed.

All readers of one load() share one claim. The offsets contain its name, and a name in the checkpoint takes precedence.
The request for the next part settles the parts that Spark will not request again. So a part that was claimed before a
crash is offered again, and a processed part is not. Each start of the query takes the claim with a higher term, which
the tasks get with their partitions. The daemon refuses all requests of an earlier start, and of a start that has lost
its lease. While the query works on its parts, heartbeats keep the lease.

A batch takes one request for each queue, because each claim has its own term, and one queue may
fail alone. The limits of several queues are divided by one plan.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from threading import Event, Lock, Thread
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

from msgspec import UNSET
from msgspec.structs import replace as changed
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from waypost.api.bulk import PlannedRange, PlanRanges, RangeOfQueue
from waypost.api.claims import Claim, Claimed, KeepClaim, ReadClaim, TakeClaim, Taken
from waypost.arrow.packets import Packets
from waypost.errors import (
    ClaimTaken,
    MessageNotFound,
    QueueDeleted,
    QueueNotFound,
    TransactionSequence,
    WaypostError,
)
from waypost.limits import MAX_CLAIMED
from waypost.spark.offsets import ClaimPlace, Json, claim_places, json_of, lag
from waypost.spark.option_values import MAX_NUMBER
from waypost.spark.options import Endpoint, ReadOptions
from waypost.spark.origins import open_origin
from waypost.spark.ranges import chosen, edges, waiting
from waypost.spark.schema import Form
from waypost.spark.stream import GoneBatch, Limits, MessageStream, check_is_committed
from waypost.spark.tasks import query_task

_log: Final = logging.getLogger("waypost.spark")

# Errors of a claim that does not exist any more: its messages are in the queue again, or were deleted with the queue.
_OVER: Final = (TransactionSequence, QueueDeleted, QueueNotFound)
# Errors of a claim that is not to be kept any more.
_NOT_KEPT: Final = (ClaimTaken, *_OVER)
# The limits of a request that only reports processed parts.
_NOTHING: Final = Limits(0)
# Heartbeats during one lease, so that a lost one does not matter.
_BEATS: Final = 4


class Heartbeats:
    """Heartbeats: a thread of the driver keeps the leases of claims until `stop`, or until the process ends."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint
        self._lock: Final = Lock()
        self._stopped: Final = Event()
        self._kept: tuple[KeepClaim, ...] = ()
        self._thread: Thread | None = None

    def keep(self, claims: Iterable[KeepClaim]) -> None:
        """Keep these claims from now on, and no others."""
        with self._lock:
            self._kept = tuple(claims)
        if self._kept and self._thread is None and not self._stopped.is_set():
            self._thread = Thread(target=self._beat, name="waypost-heartbeats", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._endpoint.timeout_s)

    def _beat(self) -> None:
        with closing(open_origin(self._endpoint)) as origin:
            while not self._stopped.wait(self._endpoint.lease_s / _BEATS):
                for claim in self._kept:
                    try:
                        origin.keep_claim(claim)
                    except _NOT_KEPT as error:
                        self._give_up(claim, error)
                    except WaypostError as error:
                        # The daemon may come back within the lease.
                        _log.warning("the heartbeat for the claim %s of %s failed: %s", claim.claim, claim.name, error)

    def _give_up(self, claim: KeepClaim, error: WaypostError) -> None:
        """The next request of the query gets the same error, unless the query has gone on meanwhile."""
        with self._lock:
            if claim in self._kept:
                self._kept = tuple(each for each in self._kept if each != claim)
                _log.warning("the lease of the claim %s of %s is no longer renewed: %s", claim.claim, claim.name, error)


@dataclass(frozen=True)
class ClaimedPart(InputPartition):
    wanted: ReadClaim


class ClaimStream(MessageStream):
    """A stream reader. `load` identifies the load() of the DataFrame, and names the claim if `claimId` is not set."""

    def __init__(self, options: ReadOptions, shape: Form, load: str) -> None:
        super().__init__(options, shape)
        self._load: Final = load
        self._reader: Final = str(uuid4())
        # Spark makes all readers of a query before it asks one of them.
        self._started: Final = time.monotonic()
        # For a query with the trigger availableNow: the messages of each queue at its start, and the last row to read.
        self._present: dict[str, int] | None = None
        self._ends: dict[str, int] = {}
        # The terms, by queue and claim, and the parts that were claimed since.
        self._taken: dict[tuple[str, str], Taken] = {}
        self._claimed: dict[tuple[str, str], Claimed] = {}
        self._heartbeats: Final = Heartbeats(options.endpoint)

    def arguments(self) -> tuple[Any, ...]:
        return *super().arguments(), self._load

    def stop(self) -> None:
        self._heartbeats.stop()
        super().stop()

    def initialOffset(self) -> Json:  # noqa: N802, the name is Spark's
        if self._initial is None:
            self._named = chosen(self._origin, self._options)
            places = {queue.format_name: ClaimPlace(self._claim, queue.epoch) for queue in self._named}
            self._initial = json_of(places)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, the name is Spark's
        self._present = {queue.format_name: queue.count for queue in chosen(self._origin, self._options)}

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802, the name is Spark's
        self._begin()
        self._last = self._last or start
        places = claim_places(start)
        names = self._current(places)
        wanted = self._wanted({name: places[name] for name in names}, self._limits(limit))
        ends = {}
        for name, place in places.items():
            end = self._after_next(name, place, wanted.get(name, _NOTHING))
            # Queues that are no longer named are only settled.
            ends[name] = end if name in names else place
        self._keep({name: place for name, place in ends.items() if place.rows > places[name].rows})
        if all(end.rows == places[name].rows for name, end in ends.items()):
            return start
        return self._handed_out(json_of(ends))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802, the name is Spark's
        try:
            return None if self._last is None else dict(self._latest())
        except WaypostError:
            return None

    def commit(self, end: Json) -> None:
        """Do nothing: the request for the next part settles this one."""

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        begins = claim_places(start)
        new = {}
        for name, place in claim_places(end).items():
            # After a crash, the initial offset has another name, but no rows either.
            rows = begins[name].rows if name in begins else 0
            if place.rows > rows:
                new[name] = place, place.rows - rows
        total = sum(count for _, count in new.values())
        found = [part for name, (place, count) in new.items() for part in self._parts(name, place, (count, total))]
        self._keep({part.wanted.name: new[part.wanted.name][0] for part in found if isinstance(part, ClaimedPart)})
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, GoneBatch):
            check_is_committed(self._options, partition)
        if not isinstance(partition, ClaimedPart):
            return iter(())
        return self._shape.batches(self._packets(partition))

    def _packets(self, partition: ClaimedPart) -> Iterator[Packets]:
        part, count = partition.wanted, 0
        if (task := query_task()) is not None:
            part = changed(part, query=task.query, batch=task.batch, run=task.run)
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
                    f"{part.name} are gone: they were express messages, and the daemon was restarted"
                )
            )

    @property
    def _claim(self) -> str:
        """The name of a claim that begins."""
        return self._options.claim or self._load

    def _parts(self, name: str, place: ClaimPlace, counts: tuple[int, int]) -> Iterator[InputPartition]:
        """The partitions of a part that this reader has claimed, or an earlier start of the query."""
        try:
            taken = self._take(name, place)
        except (QueueDeleted, QueueNotFound) as error:
            self._lost(error)
            return
        number, claimed = place.number, self._claimed.get((name, place.claim))
        if claimed is not None and claimed.number == number:
            places = claimed.places
        elif taken.is_held and number == taken.given:
            places = taken.places
        else:
            yield from self._repeated(name, place, taken)
            return
        for start, stop in pairwise(edges(*counts, self._options.split, places)):
            yield ClaimedPart(
                ReadClaim(
                    name=name,
                    claim=place.claim,
                    number=place.number,
                    start=start,
                    stop=stop,
                    epoch=place.epoch,
                    term=taken.term,
                )
            )

    def _repeated(self, name: str, place: ClaimPlace, taken: Taken) -> Iterator[InputPartition]:
        """The partitions of a batch that is repeated without its messages."""
        number, claim = place.number, place.claim
        if taken.settled < number <= taken.given:
            _log.warning(
                "the messages of part %d of the claim %s of %s are in the queue again, because the lease has expired "
                "or the claim was released: Spark repeats the batch without these messages, and later batches read "
                "them",
                number,
                claim,
                name,
            )
            return
        is_done = number <= taken.given
        reason = (
            f"part {number} of the claim {claim} of {name} is processed, and its messages are removed, but Spark "
            "repeats the batch: the entry of the batch in the commit log of Spark is lost"
        )
        if not is_done:
            reason = (
                f"part {number} of the claim {claim} of {name} is unknown to the daemon: the claim was unused for "
                "a long time, and its messages are in the queue again"
            )
        if self._options.fail_on_data_loss:
            yield GoneBatch(
                f"{reason}; set the option `failOnDataLoss` to false to continue without these messages", is_done
            )
        else:
            _log.warning("%s", reason)

    def _take(self, name: str, place: ClaimPlace) -> Taken:
        """Take the claim, once: the term of this start of the query."""
        key = name, place.claim
        if key not in self._taken:
            wish = TakeClaim(
                name=name,
                claim=place.claim,
                driver=self._load,
                started=self._started,
                asked=time.monotonic(),
                is_new=self._initial is not None and not place.rows,
                part_bytes=self._options.split.max_bytes or UNSET,
                epoch=place.epoch,
            )
            self._taken[key] = self._origin.take_claim(wish)
        return self._taken[key]

    def _keep(self, places: dict[str, ClaimPlace]) -> None:
        """Keep the leases of the parts in these places while Spark works on them."""
        self._heartbeats.keep(
            KeepClaim(name=name, claim=place.claim, term=self._take(name, place).term, epoch=place.epoch)
            for name, place in places.items()
        )

    def _after_next(self, name: str, place: ClaimPlace, limits: Limits) -> ClaimPlace:
        """The position after the next part, or the same position if the queue has no next part."""
        try:
            return self._ask(name, place, limits)
        except _OVER as error:
            self._lost(error)
        try:
            epoch = self._origin.queue(name).epoch
        except QueueNotFound:
            return place
        # The same name for all readers of the query.
        claim = str(uuid5(NAMESPACE_OID, f"{place.claim} {epoch} {place.rows}"))
        return self._ask(name, ClaimPlace(claim, epoch, 0, place.rows), limits)

    def _ask(self, name: str, place: ClaimPlace, limits: Limits) -> ClaimPlace:
        """Ask for the next part. Also without a wish for messages, a part that another reader has is the next."""
        wish = Claim(
            name=name,
            claim=place.claim,
            after=place.number,
            max_messages=0 if limits.max_messages is UNSET else limits.max_messages,
            max_bytes=limits.max_bytes,
            part_bytes=self._options.split.max_bytes or UNSET,
            epoch=place.epoch,
            term=self._take(name, place).term,
            reader=self._reader,
        )
        part = self._origin.claim(wish)
        if not part.count:
            return place
        self._claimed[name, place.claim] = part
        return ClaimPlace(place.claim, place.epoch, part.number, place.rows + part.count)

    def _lost(self, error: WaypostError) -> None:
        if not self._options.fail_on_data_loss:
            _log.warning("%s", error)
            return
        error.add_note("to continue with the current messages of the queue, set the option `failOnDataLoss` to false")
        raise error

    def _wanted(self, places: dict[str, ClaimPlace], limits: Limits) -> dict[str, Limits]:
        """The limits of the request for each queue. Several queues share the limits."""
        most = MAX_CLAIMED if limits.max_messages is UNSET else limits.max_messages
        room = {name: self._room(name, place) for name, place in places.items()}
        # A queue that was read up to the end of the query takes no share.
        open_ones = [name for name in places if room[name]]
        wanted = {name: Limits(min(most, room[name]), limits.max_bytes) for name in places}
        if len(open_ones) > 1 or (open_ones and self._options.rate.min_messages > 1):
            ranges = (RangeOfQueue(name=name, up_to=MAX_NUMBER) for name in open_ones)
            plans = self._free(ranges, Limits(most, limits.max_bytes))
            if self._present is None and self._is_too_early(sum(waiting(plan).count for plan in plans)):
                return {}
            for name, plan in zip(open_ones, plans, strict=True):
                # Another reader may take these messages first, and others come in their place.
                size = limits.max_bytes if limits.max_bytes is UNSET else max(sum(plan.sizes), 1)
                wanted[name] = Limits(min(sum(plan.counts), room[name]), size)
        return wanted

    def _room(self, name: str, place: ClaimPlace) -> int:
        """Number of messages of a queue that the query still wants."""
        if self._present is None:
            return MAX_CLAIMED
        end = self._ends.setdefault(name, place.rows + self._present.get(name, 0))
        return max(end - place.rows, 0)

    def _free(self, ranges: Iterable[RangeOfQueue], limits: Limits) -> list[PlannedRange]:
        """The messages of queues that no reader has claimed or locked, within the limits, in one request."""
        wanted = PlanRanges(
            ranges=list(ranges), max_messages=limits.max_messages, max_bytes=limits.max_bytes, locked="skip"
        )
        return self._origin.plan(wanted)

    def _current(self, places: dict[str, ClaimPlace]) -> list[str]:
        """The queues to read now. New queues get a position."""
        queues = self._chosen(places)
        claim = next(iter(places.values())).claim if places else self._claim
        for queue in queues:
            places.setdefault(queue.format_name, ClaimPlace(claim, queue.epoch))
        return self._names(queues, places)

    def _latest(self) -> Iterator[tuple[str, Json]]:
        """The messages that no reader has claimed or locked, and those that some reader has."""
        places = claim_places(self._last or {})
        ranges = (RangeOfQueue(name=name, up_to=MAX_NUMBER, epoch=place.epoch) for name, place in places.items())
        plans = self._free(ranges, Limits())
        for (name, place), plan in zip(places.items(), plans, strict=True):
            free = sum(plan.counts)
            held = {"count": free + plan.held, "held": plan.held, "held_s": plan.held_s}
            yield name, place.json() | held | lag(free, sum(plan.sizes), plan.oldest)
