"""A batch read: the messages that are there when it is planned, of a range of each queue. Nothing is taken out."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from waypost.api.bulk import BulkQueue
from waypost.errors import InvalidParameter
from waypost.spark.offsets import Stretch
from waypost.spark.option_values import MAX_NUMBER
from waypost.spark.options import ReadOptions
from waypost.spark.origin import Origin
from waypost.spark.origins import open_origin
from waypost.spark.ranges import (
    chosen,
    divided,
    known,
    packets,
    parts_for,
    place_of,
    stable,
    warn_if_short,
)
from waypost.spark.schema import Shape
from waypost.spark.shipping import Shipped

# How far clocks may have been put back while messages arrived: their times then do not grow with their numbers.
_CLOCK_MARGIN: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What filters leave: messages behind `after` up to `up_to`, of these queues, that arrived in this time."""

    after: int = 0
    up_to: int | None = None
    queues: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


class BatchReader(Shipped, DataSourceReader):
    def __init__(self, options: ReadOptions, shape: Shape, bounds: Bounds | None = None) -> None:
        self._options: Final = options
        self._shape: Final = shape
        self._bounds = bounds or Bounds()

    def arguments(self) -> tuple[Any, ...]:
        return self._options, self._shape, self._bounds

    def partitions(self) -> list[InputPartition]:
        with closing(open_origin(self._options.endpoint)) as origin:
            return list(self._plan(origin))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Stretch):
            # Spark makes a partition up where there is none.
            return iter(())
        return self._shape.batches(packets(self._options, partition))

    def _plan(self, origin: Origin) -> Iterator[Stretch]:
        wholes = []
        for queue in chosen(origin, self._options):
            if self._bounds.queues is None or queue.format_name in self._bounds.queues:
                wholes.extend(divided(origin, self._range(origin, queue), 1))
        total = sum(known(whole.count) for whole in wholes)
        for whole in wholes:
            parts = parts_for(whole.count, total, self._options.split)
            yield from divided(origin, whole, parts) if parts > 1 else [whole]

    def _range(self, origin: Origin, queue: BulkQueue) -> Stretch:
        """As options and filters say, empty if they contradict each other."""
        options, bounds = self._options, self._bounds
        after = [bounds.after]
        up_to = [] if bounds.up_to is None else [bounds.up_to]
        start = place_of(origin, queue, options.start, "startingOffsets")
        end = place_of(origin, queue, options.end, "endingOffsets")
        newest = stable(queue, options.endpoint)
        after.append(newest if start is None else start)
        up_to.append(newest if end is None else end)
        if bounds.since is not None:
            after.append(origin.seq_at(queue.format_name, bounds.since))
        if bounds.until is not None:
            up_to.append(origin.seq_at(queue.format_name, bounds.until))
        if min(up_to) == newest:
            warn_if_short(origin, queue, newest)
        begin = min(max(after), MAX_NUMBER)
        return Stretch(queue.format_name, queue.epoch, begin, max(min(up_to), begin), 0)


class FilteringReader(BatchReader):
    """Takes the filters that ranges of numbers answer.

    Only for who asks for it: Spark 4.3 refuses it unless pushdown is enabled in the session, and keeps the filters of
    one query for the next on the same DataFrame, if that one has none.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802, the name is Spark's
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, each: Filter) -> bool:
        """Whether Spark need not apply it any more."""
        column = ".".join(getattr(each, "attribute", ()))
        narrow = _NARROWING.get((column, type(each)))
        if narrow is not None:
            self._bounds = narrow(self._bounds, getattr(each, "value", None))
        return narrow is not None and column in ("seq", "queue")


def check_for_batch(options: ReadOptions) -> None:
    if options.mode != "peek":
        raise InvalidParameter(
            f"the mode {options.mode} is for streams: a batch read takes nothing out of a queue; call "
            "waypost.spark.purge when what was read is safe"
        )
    if options.start == "latest":
        raise InvalidParameter("the option startingOffsets is earliest or JSON in a batch read, not 'latest'")
    if options.end == "earliest":
        raise InvalidParameter("the option endingOffsets is latest or JSON, not 'earliest'")


def _behind(bounds: Bounds, seq: int) -> Bounds:
    return replace(bounds, after=max(bounds.after, seq))


def _up_to(bounds: Bounds, seq: int) -> Bounds:
    return replace(bounds, up_to=max(seq if bounds.up_to is None else min(bounds.up_to, seq), 0))


def _among(bounds: Bounds, names: Iterable[str]) -> Bounds:
    wanted = frozenset(names)
    return replace(bounds, queues=wanted if bounds.queues is None else bounds.queues & wanted)


def _since(bounds: Bounds, time: datetime) -> Bounds:
    since = _utc(time) - _CLOCK_MARGIN
    return replace(bounds, since=since if bounds.since is None else max(bounds.since, since))


def _until(bounds: Bounds, time: datetime) -> Bounds:
    until = _utc(time) + _CLOCK_MARGIN
    return replace(bounds, until=until if bounds.until is None else min(bounds.until, until))


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _as_it_is(bounds: Bounds, _: object) -> Bounds:
    return bounds


_NARROWING: Final[dict[tuple[str, type[Filter]], Callable[[Bounds, Any], Bounds]]] = {
    ("seq", EqualTo): lambda bounds, seq: _up_to(_behind(bounds, seq - 1), seq),
    ("seq", GreaterThan): _behind,
    ("seq", GreaterThanOrEqual): lambda bounds, seq: _behind(bounds, seq - 1),
    ("seq", LessThan): lambda bounds, seq: _up_to(bounds, seq - 1),
    ("seq", LessThanOrEqual): _up_to,
    ("seq", IsNotNull): _as_it_is,
    ("queue", EqualTo): lambda bounds, name: _among(bounds, [name]),
    ("queue", In): _among,
    ("queue", IsNotNull): _as_it_is,
    # Spark applies these again: a range of numbers is only near to a range of times.
    ("arrived_time", EqualTo): lambda bounds, time: _until(_since(bounds, time), time),
    ("arrived_time", GreaterThan): _since,
    ("arrived_time", GreaterThanOrEqual): _since,
    ("arrived_time", LessThan): _until,
    ("arrived_time", LessThanOrEqual): _until,
}
